"""Typicality is a p-value: of own new rows uniform, of a class that was not learnt small."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.metrics import roc_auc_score

from whowrote import MixtureVAEClassifier, MixtureVAEClusterer
from whowrote.estimators.fitted_classifier import (
    LEAST_RANKED_ROWS,
    MOST_KNOTS,
    Figures,
    HeldOutRanks,
    OwnFigures,
)
from whowrote.training import leave_out

LEVELS = np.array([0.05, 0.2, 0.5])
LOGISTIC: dict[str, Any] = {"start": "logistic", "hidden": 32, "dropout": 0.0, "random_state": 0}


def shares(p_values: np.ndarray) -> np.ndarray:
    return np.array([(p_values < level).mean() for level in LEVELS])


# Ranks


def drawn(seed: int, n: int, k: int = 3) -> tuple[Figures, OwnFigures, tuple[np.ndarray, ...]]:
    """Figures of rows whose own component stands out, those under it, and where these are."""
    random = np.random.default_rng(seed)
    codes = random.integers(0, k, size=n)
    both = random.normal(size=(2, n, k)) + 3 * np.eye(k)[codes]
    own = np.arange(n), codes
    return Figures(*both[:, None]), OwnFigures(both[0][own], both[1][own]), own


def ranks_of(*found: OwnFigures, pooled: bool = False) -> HeldOutRanks:
    ranks = HeldOutRanks.learn(found, len(found), pooled=pooled)
    assert ranks is not None
    return ranks


@pytest.mark.parametrize("n", [LEAST_RANKED_ROWS, 30, 100, 2 * MOST_KNOTS])
def test_ranks_of_new_rows_are_uniform(n: int) -> None:
    found = []
    for seed in range(20_000 // n + 20):
        figures, _, own = drawn(10_000 + seed, 100)
        p_values = ranks_of(drawn(seed, n)[1]).p_values(figures)[0]
        found.append(p_values[own])
    pooled = np.concatenate(found)
    assert pooled.min() >= 1 / (min(n, MOST_KNOTS) + 1)
    expected = np.where(1 / (n + 1) < LEVELS, LEVELS, 0.0)  # coarse: no smaller one is possible
    np.testing.assert_allclose(shares(pooled), expected, atol=0.025)
    # Negative control: under another class they are not.
    other = p_values[own[0], (own[1] + 1) % 3]
    assert np.median(other) < 0.2


def test_the_rank_of_a_held_out_row_is_its_place() -> None:
    values = np.random.default_rng(0).permutation(np.arange(20.0))
    ranks = ranks_of(OwnFigures(values, values))
    asked = np.array([[0.0], [7.0], [19.0], [-5.0], [30.0]])[None]
    np.testing.assert_allclose(
        ranks.p_values(Figures(asked, asked))[0, :, 0], [1 / 21, 8 / 21, 20 / 21, 1 / 21, 1]
    )


def test_both_figures_count() -> None:
    """A row that is sure of its class and unlike it, or like it and unsure, is not typical."""
    _, own, _ = drawn(0, 500)
    middle, low = np.median(own.bound), np.min(own.bound) - 1
    asked = np.array([[middle], [low], [middle], [low]])[None]
    typical, unsure, unlike, neither = ranks_of(own).p_values(
        Figures(asked, asked[:, [0, 0, 1, 1]])
    )[0, :, 0]
    assert typical > 0.3
    assert max(unsure, unlike) < 0.1
    assert neither < min(unsure, unlike)


def test_few_rows_of_each_member_are_pooled_and_too_few_in_all_are_none() -> None:
    parts = [drawn(seed, 6)[1] for seed in range(3)]
    assert HeldOutRanks.learn(parts, 3, pooled=False) is None
    pooled = ranks_of(*parts, pooled=True)
    assert pooled.both.shape == (3, 18)
    np.testing.assert_array_equal(pooled.both[0], pooled.both[2])
    assert HeldOutRanks.learn(parts[:1], 3, pooled=True) is None


def test_left_out_folds_are_stratified_and_leave_every_class() -> None:
    codes = np.repeat([0, 1, 2, 3], [40, 21, 2, 1])
    parts = leave_out(codes, 10, 10, seed=3)
    everyone = np.concatenate(parts)
    np.testing.assert_array_equal(np.sort(everyone), np.arange(63))  # not the only row of class 3
    for part in parts:
        assert set(np.delete(codes, part)) == {0, 1, 2, 3}
        assert abs((codes[part] == 0).sum() - 4) <= 1
    np.testing.assert_array_equal(parts[0], leave_out(codes, 10, 2, seed=3)[0])


# Fitted models


@pytest.fixture(scope="module")
def many() -> tuple[np.ndarray, np.ndarray]:
    return make_blobs(3000, centers=4, n_features=5, cluster_std=2.5, random_state=2)


@pytest.mark.parametrize("start", ["random", "logistic"])
def test_own_new_rows_of_a_fitted_classifier(start: str, many: Any, quick: dict[str, Any]) -> None:
    X, y = many
    settings = quick | {"hidden": 16, "validation_fraction": 0.4, "batch_size": 64, "start": start}
    model = MixtureVAEClassifier(**settings).fit(X[:1500], y[:1500])
    own = np.arange(1500), y[1500:]
    # 0.06: two and a half standard deviations, of 600 rows held out and 1,500 new ones.
    np.testing.assert_allclose(shares(model.typicality(X[1500:])[own]), LEVELS, atol=0.06)
    # Negative control: what theory says of a fitted model.
    by_theory = model.typicality(X[1500:], calibrated=False)[own]
    assert np.abs(shares(by_theory) - LEVELS).max() > 0.1


@pytest.mark.filterwarnings("ignore::whowrote.errors.ClusterWarning")  # so short a fit may merge
def test_own_new_rows_of_a_fitted_clusterer(many: Any, quick_for_both: dict[str, Any]) -> None:
    X, _ = many
    settings = quick_for_both | {
        "hidden": 16,
        "validation_fraction": 0.4,
        "batch_size": 64,
        "warm_up": 4,
    }
    model = MixtureVAEClusterer(4, **settings).fit(X[:1500])
    own = np.arange(1500), model.predict(X[1500:])
    np.testing.assert_allclose(shares(model.typicality(X[1500:])[own]), LEVELS, atol=0.06)


@pytest.mark.parametrize("start", ["random", "logistic"])
def test_few_rows_are_ranked_by_models_that_left_them_out(
    start: str, many: Any, quick: dict[str, Any]
) -> None:
    X, y = many
    found = []
    for seed in range(8):
        settings = quick | {"start": start, "random_state": seed}
        learnt = slice(100 * seed, 100 * seed + 100)
        model = MixtureVAEClassifier(**settings).fit(X[learnt], y[learnt])
        assert all(record["watched"] is None for record in model.history_)  # none was held out
        assert model.fitted_.ranks is not None
        found.append(model.typicality(X[1500:])[np.arange(1500), y[1500:]])
    np.testing.assert_allclose(shares(np.concatenate(found)), LEVELS, atol=0.05)


def test_refits_do_not_touch_the_model_or_those_who_listen(
    blobs: Any, monkeypatch: pytest.MonkeyPatch, quick: dict[str, Any]
) -> None:
    heard: list[Any] = []
    model = MixtureVAEClassifier(**quick).fit(blobs.X, blobs.y, callbacks=heard.append)
    assert len(heard) == len(model.history_) == model.n_iter_
    monkeypatch.setattr(MixtureVAEClassifier, "_figures_of_refits", lambda *_: [])
    monkeypatch.setattr(HeldOutRanks, "learn", lambda *_, **__: None)
    bare = MixtureVAEClassifier(**quick).fit(blobs.X, blobs.y)
    np.testing.assert_array_equal(bare.predict_proba(blobs.X), model.predict_proba(blobs.X))


def test_a_few_labels_among_many_rows_are_calibrated(many: Any, quick: dict[str, Any]) -> None:
    X, y = many
    partly = np.where(np.arange(1500) < 80, y[:1500], -1)
    settings = quick | {"hidden": 16, "max_epochs": 4, "batch_size": 64}
    model = MixtureVAEClassifier(**settings).fit(X[:1500], partly)
    ranks = model.fitted_.ranks
    assert ranks is not None
    assert ranks.both.shape == (1, 20)  # one fold of four


def test_too_few_rows_answer_by_theory(blobs: Any) -> None:
    few = np.array([0, 1, 2, 70, 71, 72, 130, 131, 132])
    order = np.argsort(blobs.codes, kind="stable")
    model = MixtureVAEClassifier(**LOGISTIC).fit(blobs.X[order][few], blobs.y[order][few])
    assert model.fitted_.ranks is None
    np.testing.assert_array_equal(
        model.typicality(blobs.X), model.typicality(blobs.X, calibrated=False)
    )


def test_given_validation_rows_are_those_ranked(blobs: Any, quick: dict[str, Any]) -> None:
    new = np.arange(len(blobs.X)) % 6 == 0
    model = MixtureVAEClassifier(**quick | {"max_epochs": 2})
    model.fit(blobs.X[~new], blobs.y[~new], validation=(blobs.X[new], blobs.y[new]))
    assert model.fitted_.ranks is not None
    own = np.arange(30), blobs.codes[new]
    places = np.sort(model.typicality(blobs.X[new])[own])
    np.testing.assert_allclose(places, np.arange(1, 31) / 31, atol=1e-4)


def test_a_class_that_was_not_learnt_is_told(many: Any, quick: dict[str, Any]) -> None:
    X, y = many
    known = y != 1
    settings = quick | {"hidden": 16, "batch_size": 64}
    model = MixtureVAEClassifier(**settings).fit(X[:1500][known[:1500]], y[:1500][known[:1500]])
    rows, inside = X[1500:], known[1500:]
    typical = roc_auc_score(inside, model.typicality(rows).max(axis=1))
    assert typical > 0.7
    assert typical >= roc_auc_score(inside, model.predict_proba(rows).max(axis=1))


# Members and files


def test_ranks_go_with_their_member_and_their_file(
    blobs: Any, quick: dict[str, Any], tmp_path: Path
) -> None:
    settings = quick | {"max_epochs": 2, "n_members": 2, "validation_fraction": 0.2}
    model = MixtureVAEClassifier(**settings).fit(blobs.X, blobs.y)
    alone = [model.member(number).typicality(blobs.X) for number in range(2)]
    np.testing.assert_allclose(np.mean(alone, axis=0), model.typicality(blobs.X), atol=1e-4)
    assert np.abs(alone[0] - alone[1]).max() > 0.05
    model.save(tmp_path / "file")
    back = MixtureVAEClassifier.load(tmp_path / "file")
    np.testing.assert_array_equal(back.typicality(blobs.X), model.typicality(blobs.X))


def test_a_file_without_ranks_answers_by_theory(
    blobs: Any, quick: dict[str, Any], tmp_path: Path
) -> None:
    model = MixtureVAEClassifier(**quick | {"max_epochs": 2}).fit(blobs.X, blobs.y)
    by_theory = model.typicality(blobs.X, calibrated=False)
    assert np.abs(model.typicality(blobs.X) - by_theory).max() > 0.05
    model.fitted_ = replace(model.fitted_, ranks=None)
    assert not any(name.startswith("ranks.") for name in model.fitted_.arrays())
    model.save(tmp_path / "file")
    back = MixtureVAEClassifier.load(tmp_path / "file")
    np.testing.assert_array_equal(back.typicality(blobs.X), by_theory)
