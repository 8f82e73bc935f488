"""Rows without a label: they help where classes are clusters, and are left alone where not."""

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits, make_circles
from sklearn.svm import SVC

from whowrote import MixtureVAEClassifier
from whowrote.model import DiagonalNormal
from whowrote.model.distributions import FAMILIES
from whowrote.model.mixture import Mixture, expectation_maximization, factor_above
from whowrote.model.unlabelled import brier
from whowrote.training import Assignment


def started(**settings: Any) -> MixtureVAEClassifier:
    given = {"hidden": 64, "dropout": 0.0, "random_state": 0, **settings}
    return MixtureVAEClassifier(start="logistic", **given)


def clusters(n: int, seed: int) -> tuple[Any, Any]:
    """Two long parallel clusters: two labels of each say little of how they lie."""
    random = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = random.normal(size=(n, 2)) * [4.0, 0.5] + np.outer(2 * y - 1, [0.0, 1.5])
    return X, y


def few_labels(y: Any, each: int) -> Any:
    labels = np.full(len(y), None, dtype=object)
    for k in np.unique(y):
        labels[np.flatnonzero(y == k)[:each]] = int(k)
    return labels


def test_they_help_where_classes_are_clusters() -> None:
    X, y = load_digits(n_class=6, return_X_y=True)
    gains = []
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(y))
        own, new = order[:700], order[700:]
        labels = few_labels(y[own], 3)
        known = np.array([label is not None for label in labels])
        alone = started().fit(X[own][known], labels[known].astype(int))
        both = started().fit(X[own], labels)
        assert both.n_iter_ == 0  # nothing was trained: too few labels to steer by
        gains.append(both.score(X[new], y[new]) - alone.score(X[new], y[new]))
    assert np.mean(gains) > 0.02


def test_they_are_left_alone_where_they_mislead() -> None:
    """Two rings around one centre are no two components: the start by labels stays."""
    X, y = make_circles(400, noise=0.08, factor=0.5, random_state=0)
    labels = few_labels(y[:300], 20)
    assert started().fit(X[:300], labels).score(X[300:], y[300:]) > 0.95


def test_expectation_maximisation_never_lowers_the_bound() -> None:
    random = torch.Generator().manual_seed(0)
    centres = torch.tensor([[0.0, 0.0], [3.0, 1.0], [-2.0, 2.0]], dtype=torch.float64)
    noise = torch.randn(300, 2, generator=random, dtype=torch.float64)
    x = (centres[torch.arange(300) % 3] + noise)[None]
    q = DiagonalNormal(x, torch.full_like(x, -1.0))
    nobody = torch.full((1, 300), -1)
    gamma = torch.rand(1, 300, 3, generator=random, dtype=torch.float64)
    gamma = gamma / gamma.sum(-1, keepdim=True)

    def bounds(pull: float) -> list[float]:
        found = []
        for steps in range(1, 12):
            mixture = Mixture(FAMILIES["student-t"], 3, 2, torch.tensor([0.05])).double()
            expectation_maximization(mixture, q, nobody, gamma, steps, pull)
            found.append(mixture(q).log_evidence.mean().item())
        return found

    free = bounds(0.0)
    assert (np.diff(free) > -1e-9).all()
    assert free[-1] > free[0] + 0.01
    assert bounds(1e4)[-1] < free[-1]  # negative control: equal scale matrices explain less


def test_the_factor_gives_the_matrix_back_above_the_floor() -> None:
    matrix = torch.tensor([[[[2.0, 0.5], [0.5, 1.0]], [[1.0, 0.0], [0.0, 0.05]]]]).double()
    mixture = Mixture(FAMILIES["gaussian"], 2, 2, torch.tensor([0.1])).double()
    with torch.no_grad():
        mixture.factor.copy_(factor_above(mixture.scale_floor, matrix))
    torch.testing.assert_close(mixture.scale_matrix[0, 0], matrix[0, 0])
    lifted = torch.tensor([[1.0, 0.0], [0.0, 0.1]]).double()  # as low as it can be
    torch.testing.assert_close(mixture.scale_matrix[0, 1], lifted, atol=1e-5, rtol=0)


def test_labelled_rows_are_half_of_what_is_learnt_from() -> None:
    own = Assignment((torch.arange(3),), (torch.arange(0),))
    train = own.repeated(8).with_rows(torch.arange(10, 18)).train[0]
    assert len(train) == 16
    assert int((train < 3).sum()) == 8
    assert len(own.repeated(2).train[0]) == 3  # more labelled rows than others: each of them once


def test_the_brier_score() -> None:
    scores = torch.log(torch.tensor([[0.5, 0.5], [0.9, 0.1]]))
    assert brier(scores, torch.tensor([0, 1])) == pytest.approx((0.5 + 2 * 0.81) / 2)
    assert brier(scores[:0], torch.tensor([], dtype=torch.long)) == np.inf


@pytest.mark.parametrize("start", ["random", "logistic"])
def test_what_is_watched_fits_the_weights(start: str) -> None:
    X, y = clusters(300, 0)
    common = {"start": start, "hidden": 16, "dropout": 0.0, "max_epochs": 2, "random_state": 0}
    joint = MixtureVAEClassifier(label_weight=0.0, **common).fit(X, y)
    labels = MixtureVAEClassifier(label_weight=30.0, **common).fit(X, y)
    # Of two standardised columns the bound is near -2.8, the log-loss below ln 2 = 0.69.
    assert min(record["watched"] for record in joint.history_) > 1.5
    assert max(record["watched"] for record in labels.history_) < 1.0


def test_the_setting_for_generation_generates() -> None:
    X, y = load_digits(return_X_y=True)
    judge = SVC().fit(X[900:], y[900:])
    model = MixtureVAEClassifier.for_generation(validation_fraction=0.0, random_state=0)
    drawn = model.fit(X[:900], y[:900]).sample(500, random_state=0)
    assert (judge.predict(drawn.observations) == drawn.classes).mean() > 0.8
    usual = MixtureVAEClassifier(start="random", max_epochs=15, random_state=0).fit(
        X[:900], y[:900]
    )
    odd = usual.sample(500, random_state=0)
    assert (judge.predict(odd.observations) == odd.classes).mean() < 0.7  # negative control
