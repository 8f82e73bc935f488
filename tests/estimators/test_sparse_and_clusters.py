"""Learning from sparse rows, and without labels."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.metrics import adjusted_rand_score

from whowrote import MixtureVAEClassifier, MixtureVAEClusterer
from whowrote.errors import ClusterWarning, InputError
from whowrote.estimators.clusterer import (
    Shares,
    inlier_mask,
    latent_mixture,
    merged,
    overlapping,
    place_by_latents,
    warn_of_clusters,
)
from whowrote.model.mixture import set_components

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


def test_clusters_of_wide_sparse_rows(words: Any, quick_for_both: dict[str, Any]) -> None:
    settings = quick_for_both | {
        "projection_dim": 10,
        "warm_up": 40,
        "max_epochs": 5,
        "batch_size": 16,
    }
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


def test_phases_of_clustering(
    clusterer: MixtureVAEClusterer, blobs: Any, quick_for_both: Any
) -> None:
    phases = [record["phase"] for record in clusterer.history_]
    assert phases.count("provisional") == 15
    assert set(phases) == {"provisional", "bound"}
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", ClusterWarning
        )  # one epoch leaves the clusters as they fall
        cold = MixtureVAEClusterer(3, warm_up=0, **quick_for_both | {"max_epochs": 1}).fit(blobs.X)
    assert [record["phase"] for record in cold.history_] == ["bound"]


def test_a_random_start_runs(blobs: Any, quick_for_both: dict[str, Any]) -> None:
    settings = quick_for_both | {"initialization": "random", "warm_up": 2, "max_epochs": 2}
    with pytest.warns(ClusterWarning, match="lie on the same rows"):
        model = MixtureVAEClusterer(3, **settings).fit(blobs.X)
    assert set(model.labels_.tolist()) <= {0, 1, 2}


# The start


def unequal(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Latents of two components with unlike matrices, their variances and their labels."""
    rng = np.random.default_rng(0)
    labels = (np.arange(n) % 3 == 0).astype(np.int64)
    sd = np.array([[1.0, 0.1], [0.1, 1.0]])[labels]
    x = rng.normal(size=(n, 2)) * sd + 5.0 * labels[:, None]
    return x, np.full((n, 2), 0.01), labels


def test_every_component_starts_with_its_own_matrix() -> None:
    x, variance, labels = unequal(6000)
    wrong = labels.copy()
    wrong[:300] = 1 - wrong[:300]  # a start that is not quite right
    placed = latent_mixture(x, variance, wrong, 2)
    np.testing.assert_allclose(placed.weights, [2 / 3, 1 / 3], atol=0.01)
    np.testing.assert_allclose(placed.means, [[0.0, 0.0], [5.0, 5.0]], atol=0.1)
    expected = [np.diag([1.01, 0.02]), np.diag([0.02, 1.01])]  # with the variance of q(x | o)
    np.testing.assert_allclose(placed.spread, expected, atol=0.06)
    pooled = np.tile(np.diag([0.68, 0.35]), (2, 1, 1))  # what both used to start with
    assert np.abs(pooled - expected).max() > 0.3


def test_a_cluster_of_two_rows_borrows_the_pooled_matrix() -> None:
    x, variance, labels = unequal(60)
    x, variance = np.vstack([x, [[30.0, 30.0]] * 2]), np.vstack([variance, variance[:2]])
    placed = latent_mixture(x, variance, np.append(labels, [2, 2]), 3)
    assert np.isfinite(placed.spread).all()
    assert np.linalg.eigvalsh(placed.spread).min() > 0.01


def test_components_are_placed_only_where_the_evidence_rises(
    clusterer: MixtureVAEClusterer, blobs: Any
) -> None:
    fleet = clusterer.fleet_.select([0])
    rows = clusterer.fitted_.scaling.rows(
        blobs.X, clusterer.labels_, torch.device("cpu"), torch.float32
    )
    index = torch.arange(len(blobs.X))

    def evidence() -> float:
        with torch.no_grad():
            return float(fleet.scores(rows.take(index.unsqueeze(0)).inputs).log_evidence.mean())

    mixture = fleet.mixture
    learnt = evidence()
    away = mixture.loc[0].detach() + 3.0
    set_components(mixture, 0, mixture.log_weights[0].exp(), away, mixture.scale_matrix[0])
    moved = evidence()
    assert moved < learnt
    assert place_by_latents(fleet, 0, rows, index)
    placed = evidence()
    assert placed > moved
    assert not place_by_latents(fleet, 0, rows, index)  # no better than itself: left as it is
    assert evidence() == placed


def test_the_floor_is_a_part_of_the_matrix_that_is_set(clusterer: MixtureVAEClusterer) -> None:
    mixture = clusterer.fleet_.select([0]).mixture
    wanted = mixture.scale_matrix[0].detach() + torch.eye(4)
    set_components(mixture, 0, torch.tensor([0.5, 0.3, 0.2]), mixture.loc[0], wanted)
    torch.testing.assert_close(mixture.scale_matrix[0].detach(), wanted, rtol=0.03, atol=0.03)
    torch.testing.assert_close(mixture.log_weights[0].exp().detach(), torch.tensor([0.5, 0.3, 0.2]))


def test_the_start_with_the_highest_bound_is_kept(
    blobs: Any, quick_for_both: dict[str, Any]
) -> None:
    settings = quick_for_both | {"max_epochs": 2, "warm_up": 2, "dropout": 0.0}

    def fitted(n_init: int) -> MixtureVAEClusterer:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ClusterWarning)  # so short a fit may merge
            return MixtureVAEClusterer(3, n_init=n_init, **settings).fit(blobs.X)

    bounds = [fitted(n).lower_bound_ for n in (1, 2, 3, 4)]
    assert bounds == sorted(bounds)
    assert bounds[-1] > bounds[0]  # the first start is not always the best
    np.testing.assert_array_equal(fitted(3).labels_, fitted(3).labels_)
    with pytest.raises(InputError, match="n_init"):
        MixtureVAEClusterer(3, n_init=0).fit(blobs.X)


# Clusters that went wrong


def shares(*rows: tuple[float, float, float]) -> np.ndarray:
    return np.repeat(np.array(rows), 10, axis=0)


GOOD = shares((0.98, 0.01, 0.01), (0.01, 0.9, 0.09), (0.0, 0.3, 0.7))


def test_good_clusters_do_not_warn() -> None:
    warn_of_clusters(Shares.of([GOOD]), np.repeat([2, 0, 1], 10))  # in tests a warning is an error
    warn_of_clusters(Shares.of([GOOD]))
    warn_of_clusters(Shares.of([np.ones((5, 1))]), np.zeros(5, dtype=np.int64))


@pytest.mark.parametrize(
    ("gamma", "provisional", "message"),
    [
        (shares((1.0, 0.0, 0.0), (0.0, 1.0, 0.0)), None, "1 of 3 clusters have no rows"),
        (shares((0.55, 0.45, 0.0), (0.45, 0.55, 0.0), (0.0, 0.0, 1.0)), None, "0 and 1 lie on the"),
        (
            shares((1.0, 0.0, 0.0), (0.9, 0.0, 0.1), (0.0, 0.8, 0.2), (0.0, 0.2, 0.8)),
            np.repeat([0, 1, 2, 2], 10),
            r"cluster 0 \(20 of 40 rows\) holds most of 2 clusters",
        ),
    ],
)
def test_empty_and_merged_clusters_warn_with_the_cure(
    gamma: np.ndarray, provisional: Any, message: str
) -> None:
    with pytest.warns(ClusterWarning, match=message) as caught:
        warn_of_clusters(Shares.of([gamma]), provisional)
    assert "n_init=5" in str(caught[0].message)


def test_outliers_and_cut_clusters_are_not_taken_for_merged_ones() -> None:
    labels = np.repeat([0, 1, 2], 10)
    assert merged(labels, np.where(np.arange(30) < 9, -1, labels), 3) == {}
    cut = np.repeat([0, 1, 2, 2], [12, 6, 6, 6])  # one provisional cluster ends up in two
    assert merged(labels, cut, 3) == {}
    assert (
        overlapping(Shares.of([np.array([[1.0, 1e-9], [1.0, 1e-9]])])) == []
    )  # empty, not overlapping


def test_a_fit_that_merges_two_clusters_warns(blobs: Any, quick_for_both: dict[str, Any]) -> None:
    """Four components on two blobs, and steps so long that they do not stay apart."""
    X = np.vstack([blobs.X[blobs.codes == 0], blobs.X[blobs.codes == 1]])
    settings = quick_for_both | {
        "dropout": 0.0,
        "warm_up": 0,
        "learning_rate": 0.5,
        "max_epochs": 3,
    }
    with pytest.warns(ClusterWarning, match="n_init=5"):
        MixtureVAEClusterer(4, **settings).fit(X)


def test_one_cluster_is_a_plain_autoencoder(
    component: str, blobs: Any, quick_for_both: Any
) -> None:
    settings = quick_for_both | {"component": component, "warm_up": 1, "max_epochs": 2}
    model = MixtureVAEClusterer(1, **settings).fit(blobs.X)
    assert set(model.labels_.tolist()) == {0}
    assert model.weights_.tolist() == [1.0]
    np.testing.assert_array_equal(model.predict_proba(blobs.X), 1.0)


def test_many_columns_start_from_leading_directions(quick_for_both: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(90) % 2
    X = rng.normal(size=(90, 40)) + 4.0 * y[:, None]
    model = MixtureVAEClusterer(2, **quick_for_both | {"warm_up": 10, "dropout": 0.0}).fit(X)
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
