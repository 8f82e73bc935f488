"""Learning from sparse rows, and without labels."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import adjusted_rand_score

from whowrote import MixtureVAEClassifier, MixtureVAEClusterer
from whowrote.estimators.clusterer import inlier_mask

# Sparse rows


@pytest.fixture(scope="module")
def words() -> tuple[sparse.csr_array, np.ndarray]:
    """Bags of words: 120 texts of three authors, 300 words of whom each prefers some."""
    rng = np.random.default_rng(0)
    y = np.arange(120) % 3
    rates = np.full((3, 300), 0.05)
    for author in range(3):
        rates[author, 20 * author : 20 * author + 40] = 0.4
    return sparse.csr_array(rng.poisson(rates[y]).astype(float)), np.array(["a", "b", "c"])[y]


@pytest.fixture(scope="module")
def wide(words: Any, quick: dict[str, Any]) -> MixtureVAEClassifier:
    X, y = words
    settings = quick | {"projection_dim": 10, "max_epochs": 15}
    return MixtureVAEClassifier(**settings).fit(X[:90], y[:90])


def test_narrow_sparse_rows_are_dense_rows(words: Any, quick: dict[str, Any]) -> None:
    X, y = words
    settings = quick | {"max_epochs": 2, "projection_dim": 300}
    thin = MixtureVAEClassifier(**settings).fit(X, y)
    dense = MixtureVAEClassifier(**settings).fit(X.toarray(), y)
    np.testing.assert_array_equal(thin.predict_proba(X), dense.predict_proba(X.toarray()))
    np.testing.assert_array_equal(thin.score_samples(X.toarray()), dense.score_samples(X))


def test_wide_sparse_rows_are_learnt(wide: MixtureVAEClassifier, words: Any) -> None:
    X, y = words
    assert wide.score(X[90:], y[90:]) > 0.8
    assert wide.n_features_in_ == 300
    assert wide.fleet_.architecture.encoder_width == 300


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csc_array, sparse.coo_array])
def test_every_sparse_format_is_read(
    kind: Callable[..., Any], wide: MixtureVAEClassifier, words: Any
) -> None:
    expected = wide.predict_proba(words[0])
    np.testing.assert_array_equal(wide.predict_proba(kind(words[0])), expected)


def test_dense_rows_of_a_wide_sparse_model(wide: MixtureVAEClassifier, words: Any) -> None:
    np.testing.assert_allclose(
        wide.predict_proba(words[0].toarray()), wide.predict_proba(words[0]), atol=1e-6
    )


def test_the_bound_is_about_the_projection(words: Any, quick: dict[str, Any]) -> None:
    X, y = words
    settings = quick | {"projection_dim": 10, "max_epochs": 1}
    plain = MixtureVAEClassifier(**settings).fit(X, y)
    larger = MixtureVAEClassifier(**settings).fit(4.0 * X, y)
    change = larger.score_samples(4.0 * X) - plain.score_samples(X)
    np.testing.assert_allclose(change, -10 * np.log(4.0), atol=1e-3)  # 10 columns, not 300
    assert plain.sample(3, random_state=0).observations.shape == (3, 10)
    Z = plain.transform(X[:3])
    assert plain.decode(Z).mean.shape == (3, 10)
    assert plain.inverse_transform(Z).shape == (3, 300)


def test_clusters_of_wide_sparse_rows(words: Any, quick: dict[str, Any]) -> None:
    settings = quick | {"projection_dim": 10, "warm_up": 40, "max_epochs": 5, "batch_size": 16}
    model = MixtureVAEClusterer(3, **settings | {"label_weight": 10.0, "dropout": 0.0})
    assert adjusted_rand_score(words[1], model.fit(words[0]).labels_) > 0.2


def test_sparse_rows_of_nothing_but_zeros(quick: dict[str, Any]) -> None:
    X, y = sparse.csr_array((40, 30)), np.arange(40) % 2
    settings = quick | {"projection_dim": 5, "max_epochs": 1}
    assert np.isfinite(MixtureVAEClassifier(**settings).fit(X, y).predict_proba(X)).all()


# Clusters


def test_clusters_are_numbered_by_size(clusterer: MixtureVAEClusterer) -> None:
    sizes = np.bincount(clusterer.labels_)
    assert sizes.tolist() == sorted(sizes, reverse=True)
    assert len(sizes) == 3


def test_phases_of_clustering(clusterer: MixtureVAEClusterer, blobs: Any, quick: Any) -> None:
    phases = [record["phase"] for record in clusterer.history_]
    assert phases.count("provisional") == 15
    assert set(phases) == {"provisional", "bound"}
    cold = MixtureVAEClusterer(3, warm_up=0, **quick | {"max_epochs": 1}).fit(blobs.X)
    assert [record["phase"] for record in cold.history_] == ["bound"]


def test_a_random_start_runs(blobs: Any, quick: dict[str, Any]) -> None:
    settings = quick | {"initialization": "random", "warm_up": 2, "max_epochs": 2}
    model = MixtureVAEClusterer(3, **settings).fit(blobs.X)
    assert set(model.labels_.tolist()) <= {0, 1, 2}


def test_one_cluster_is_a_plain_autoencoder(component: str, blobs: Any, quick: Any) -> None:
    settings = quick | {"component": component, "warm_up": 1, "max_epochs": 2}
    model = MixtureVAEClusterer(1, **settings).fit(blobs.X)
    assert set(model.labels_.tolist()) == {0}
    assert model.weights_.tolist() == [1.0]
    np.testing.assert_array_equal(model.predict_proba(blobs.X), 1.0)


def test_many_columns_start_from_leading_directions(quick: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(90) % 2
    X = rng.normal(size=(90, 40)) + 4.0 * y[:, None]
    model = MixtureVAEClusterer(2, **quick | {"warm_up": 10, "dropout": 0.0}).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.9


def test_outliers_do_not_start_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(0).normal(size=(100, 2))
    rows[:3] += [[90.0, 0.0], [0.0, 90.0], [-90.0, 0.0]]
    inliers = inlier_mask(rows, 2, seed=0)
    assert inliers.sum() == 90
    assert np.abs(rows[inliers]).max() < 5.0
    assert inlier_mask(rows[:20], 2, seed=0).all()  # too few to tell
    monkeypatch.setattr("whowrote.estimators.clusterer.MIXTURE_ROWS", 50)
    assert not inlier_mask(rows, 2, seed=0)[:3].any()


def test_one_member_of_an_ensemble_is_a_model(blobs: Any, quick: dict[str, Any]) -> None:
    model = MixtureVAEClassifier(n_members=2, **quick).fit(blobs.X, blobs.y)
    first, second = (model.member(i).predict_proba(blobs.X) for i in range(2))
    np.testing.assert_allclose((first + second) / 2, model.predict_proba(blobs.X), atol=1e-12)
    assert not np.allclose(first, second)
    assert model.member(1).get_params()["n_members"] == 1


def test_degrees_of_freedom_move_with_their_rate(blobs: Any, quick: dict[str, Any]) -> None:
    def distance(rate: float) -> float:
        model = MixtureVAEClassifier(df_rate=rate, **quick).fit(blobs.X, blobs.y)
        return float(np.abs(model.degrees_of_freedom_ - 5.0).max())

    assert distance(10.0) > 3 * distance(1.0)


def test_the_score_of_a_clusterer_is_its_mean_density(
    clusterer: MixtureVAEClusterer, blobs: Any
) -> None:
    assert clusterer.score(blobs.X) == pytest.approx(clusterer.score_samples(blobs.X).mean())
