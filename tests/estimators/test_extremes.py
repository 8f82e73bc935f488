"""Extreme rows: a sound fit, or a sentence; no NaN reaches a user."""

import contextlib
import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from whowrote import MixtureVAEClassifier
from whowrote.baselines import (
    RBFSVM,
    GaussianMixtureClassifier,
    LinearSVM,
    StudentTMixtureClassifier,
)
from whowrote.errors import InputError

Rows = tuple[np.ndarray, np.ndarray]


def people(n: int = 45, columns: int = 5, classes: int = 3) -> Rows:
    random, y = np.random.default_rng(0), np.arange(n) % classes
    return random.normal(size=(n, columns)) + 2.5 * random.normal(size=(classes, columns))[y], y


X, Y = people()


def with_constant_column() -> Rows:
    rows = X.copy()
    rows[:, 2] = 7.0
    return rows, Y


def with_one(value: float) -> Rows:
    rows = X.copy()
    rows[0, 0] = value
    return rows, Y


def uneven() -> Rows:
    rows, y = people(1002, 4, 2)
    kept = np.r_[np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:2]]
    rows = np.vstack([rows[kept], rows[y == 0]])
    return rows, np.r_[y[kept], np.zeros(501, dtype=int)]


SOUND: dict[str, Callable[[], Rows]] = {
    "1e-30": lambda: (X * 1e-30, Y),
    "1e30": lambda: (X * 1e30, Y),
    "1e100": lambda: (X * 1e100, Y),
    "far from zero": lambda: (X + 1e9, Y),
    "a constant column": with_constant_column,
    "duplicates": lambda: (np.repeat(X[:6], 8, axis=0), np.repeat(Y[:6], 8)),
    "500 to 1": uneven,
    "fewer rows than columns": lambda: people(8, 30, 2),
    "whole numbers": lambda: ((100 * X).astype(np.int64), Y),
}
EITHER: dict[str, Callable[[], Rows]] = {
    "from 1e-30 to 1e30": lambda: (X * 10.0 ** np.linspace(-30, 30, 5), Y),
    "denormal": lambda: (X * 1e-310, Y),
    "nothing": lambda: (np.zeros_like(X), Y),
    "one row for all": lambda: (np.repeat(X[:1], 45, axis=0), Y),
    "separable": lambda: (1e6 * np.eye(3)[Y], Y),
    "one huge": lambda: with_one(1e30),
    "1e300": lambda: (X * 1e300, Y),
    "NaN": lambda: with_one(np.nan),
    "infinite": lambda: with_one(np.inf),
    "one class": lambda: (X, np.zeros(45, dtype=int)),
}
"""A fit or a sentence: which of them depends on the method."""


def small() -> Any:
    return MixtureVAEClassifier(
        start="random", n_members=1, hidden=8, max_epochs=2, random_state=0, device="cpu"
    )


METHODS: dict[str, Callable[[], Any]] = {
    "autoencoder": small,
    "Gaussian": GaussianMixtureClassifier,
    "Student-t": StudentTMixtureClassifier,
    "linear SVM": LinearSVM,
    "RBF SVM": RBFSVM,
}


def answers(method: str, rows: np.ndarray, y: np.ndarray) -> np.ndarray:
    fitted = METHODS[method]().fit(rows, y)
    asked = np.vstack([rows, rows.mean(axis=0, dtype=float), 2.0 * rows[:1]])
    log_proba = np.asarray(fitted.predict_log_proba(asked))
    assert not np.isnan(log_proba).any()
    np.testing.assert_allclose(np.exp(log_proba).sum(axis=1), 1.0, atol=1e-6)
    return log_proba


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", SOUND)
@pytest.mark.parametrize("method", METHODS)
def test_a_sound_fit(method: str, case: str) -> None:
    rows, y = SOUND[case]()
    log_proba = answers(method, rows, y)
    chance = np.bincount(y).max() / len(y)
    if case != "500 to 1":
        assert (log_proba[: len(y)].argmax(axis=1) == y).mean() > chance + 0.15


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", EITHER)
@pytest.mark.parametrize("method", METHODS)
def test_a_fit_or_a_sentence(method: str, case: str) -> None:
    rows, y = EITHER[case]()
    if case in ("1e300", "NaN", "infinite", "one class"):
        with pytest.raises(InputError, match=r"^.{20,300}$"):
            answers(method, rows, y)
    else:
        with contextlib.suppress(InputError):
            answers(method, rows, y)


@pytest.mark.filterwarnings("ignore")
def test_five_hundred_classes() -> None:
    random, y = np.random.default_rng(1), np.arange(1500) % 500
    centres = 5.0 * random.normal(size=(500, 12))
    rows = centres[y] + random.normal(size=(1500, 12))
    fitted = small().set_params(max_epochs=1).fit(rows, y)
    log_proba = fitted.predict_log_proba(rows)
    assert log_proba.shape == (1500, 500)
    assert np.isfinite(log_proba).all()


TOLERANCE = 1e-5
"""Of the probabilities that the same weights answer in single precision, against double."""


def test_single_precision_answers_as_double() -> None:
    fitted = small().fit(X, Y)
    single = fitted.predict_proba(X)
    assert fitted.fitted_.dtype == torch.float32
    fleet = copy.deepcopy(fitted.fitted_.fleet).double()
    fitted.fitted_ = replace(fitted.fitted_, fleet=fleet)
    apart = float(np.abs(fitted.predict_proba(X) - single).max())
    assert 0.0 < apart < TOLERANCE  # not the same numbers, and nearly the same
