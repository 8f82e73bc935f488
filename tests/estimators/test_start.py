"""A classifier that starts in closed form: good at once, left only where held-out rows gain."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.special import log_softmax
from sklearn.datasets import make_circles, make_moons

from whowrote import MixtureVAEClassifier
from whowrote.errors import InputError


def started_by_regression(**settings: Any) -> MixtureVAEClassifier:
    given = {"hidden": 64, "dropout": 0.0, "random_state": 0, **settings}
    return MixtureVAEClassifier(start="logistic", **given)


@pytest.mark.parametrize("make", [make_circles, make_moons])
def test_few_rows_are_enough_without_training(make: Any) -> None:
    X, y = make(400, noise=0.1, random_state=0, **({"factor": 0.4} if make is make_circles else {}))
    model = started_by_regression().fit(X[:100], y[:100])  # ten to validate on: too few to steer by
    assert (model.n_iter_, model.history_) == (0, [])
    assert model.score(X[100:], y[100:]) > 0.95
    proba = model.predict_proba(X[100:])
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert abs(proba.max(axis=1).mean() - model.score(X[100:], y[100:])) < 0.05
    assert model.sample(5, random_state=0).observations.shape == (5, 2)


@pytest.mark.filterwarnings("ignore::whowrote.training.DivergenceWarning")
def test_training_goes_on_from_it_and_keeps_what_is_best() -> None:
    X, y = make_moons(600, noise=0.3, random_state=1)
    started = started_by_regression(max_epochs=1, learning_rate=1e-12).fit(X[:300], y[:300])
    trained = started_by_regression(max_epochs=5).fit(X[:300], y[:300])
    spoilt = started_by_regression(max_epochs=3, learning_rate=5.0, patience=1)
    assert trained.n_iter_ > 0
    assert trained.score(X[300:], y[300:]) >= started.score(X[300:], y[300:]) - 0.02
    kept = spoilt.fit(X[:300], y[:300])
    np.testing.assert_allclose(kept.predict_proba(X), started.predict_proba(X), atol=1e-3)


def test_missing_labels_and_ensembles() -> None:
    X, y = make_moons(200, noise=0.1, random_state=2)
    hidden = [int(k) if row % 4 == 0 else None for row, k in enumerate(y)]
    assert started_by_regression(max_epochs=2, n_members=2).fit(X, hidden).score(X, y) > 0.9


def test_sparse_rows() -> None:
    random = np.random.default_rng(0)
    y = np.arange(150) % 3
    X = sparse.csr_matrix(random.poisson(0.2 + 2.0 * (np.arange(400) % 3 == y[:, None])))
    assert (
        started_by_regression(projection_dim=20).fit(X[:100], y[:100]).score(X[100:], y[100:]) > 0.9
    )


def test_it_is_stored_and_said(tmp_path: Path) -> None:
    X, y = make_moons(100, noise=0.1, random_state=3)
    model = started_by_regression().fit(X, y)
    model.save(tmp_path / "model")
    twin = MixtureVAEClassifier.load(tmp_path / "model")
    assert twin.start == "logistic"
    np.testing.assert_array_equal(twin.predict_proba(X), model.predict_proba(X))
    with pytest.raises(InputError, match=r"start is 'logistics'.*did you mean 'logistic'"):
        MixtureVAEClassifier(start="logistics").fit(X, y)


# From scores


def scores(n: int = 90, k: int = 6, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    S = rng.normal(size=(n, k)) * 0.8
    S[np.arange(n), y] += 1.5
    return S, y


@pytest.mark.parametrize("unit", [1.0, 30.0])
def test_scores_answer_as_they_stand_and_are_calibrated(unit: float) -> None:
    S, y = scores()
    model = MixtureVAEClassifier(start="scores", random_state=0).fit(unit * S, y)
    new, truth = scores(3000, seed=1)
    proba = model.predict_proba(unit * new)
    np.testing.assert_array_equal(proba.argmax(1), new.argmax(1))
    best = [-log_softmax(t * new, axis=1)[np.arange(3000), truth].mean() for t in (1, 1.5, 2, 2.5)]
    loss = -np.log(proba[np.arange(3000), truth]).mean()
    assert loss < min(best) + 0.05
    assert model.means_.shape == (6, 5)


def test_scores_need_a_column_per_class() -> None:
    S, y = scores()
    with pytest.raises(InputError, match=r"has 5 columns for 6 classes.*a column per class"):
        MixtureVAEClassifier(start="scores").fit(S[:, :5], y)
