"""What a fitted model answers, and that the answers are the mathematics they claim to be."""

import json
import math
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.metrics import adjusted_rand_score

from whowrote import MixtureVAEClassifier, MixtureVAEClusterer
from whowrote.estimators.fitted_classifier import TAILS
from whowrote.model import Streams
from whowrote.model.distributions import FAMILIES

FAR = np.full((1, 4), 1e4)

# Probabilities


def test_probabilities_sum_to_one_and_logs_agree(model: Any, blobs: Any) -> None:
    proba, log_proba = model.predict_proba(blobs.X), model.predict_log_proba(blobs.X)
    assert proba.shape == (len(blobs.X), 3)
    assert proba.min() >= 0.0
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-9)
    np.testing.assert_allclose(np.exp(log_proba), proba, rtol=1e-9)


def test_the_answer_is_the_most_probable_author(
    classifier: MixtureVAEClassifier, blobs: Any
) -> None:
    winners = classifier.predict_proba(blobs.X).argmax(axis=1)
    assert classifier.predict(blobs.X).tolist() == classifier.classes_[winners].tolist()
    assert classifier.classes_.tolist() == ["ann", "bob", "cyd"]
    assert classifier.score(blobs.X, blobs.y) > 0.95


def test_the_answer_is_the_most_responsible_cluster(
    clusterer: MixtureVAEClusterer, blobs: Any
) -> None:
    answers = clusterer.predict(blobs.X)
    assert answers.tolist() == clusterer.predict_proba(blobs.X).argmax(axis=1).tolist()
    assert answers.tolist() == clusterer.labels_.tolist()


def test_far_rows_get_finite_answers(model: Any) -> None:
    for rows in (FAR, -1e9 * FAR):
        assert np.isfinite(model.predict_log_proba(rows)).all()
        assert np.isfinite(model.score_samples(rows)).all()


def test_answers_do_not_depend_on_the_neighbours(
    classifier: MixtureVAEClassifier, blobs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = classifier.score_samples(blobs.X)
    np.testing.assert_allclose(classifier.score_samples(blobs.X[17:18]), whole[17:18], rtol=1e-5)
    monkeypatch.setattr("whowrote.estimators.fitted_classifier.CHUNK", 70)
    np.testing.assert_allclose(classifier.score_samples(blobs.X), whole, rtol=1e-5)
    assert len(classifier.predict(blobs.X)) == len(blobs.X)


# Densities


def other_noise(seeds: Any, *kind: Any, shift: int) -> Streams:
    return Streams([1000 * shift + seed for seed in seeds], *kind)


def test_the_bound_is_below_the_log_likelihood(model: Any, blobs: Any) -> None:
    bound, likelihood = model.bound(blobs.X, 256).mean(), model.score_samples(blobs.X, 256).mean()
    assert bound < likelihood
    # Negative control: the gap is not a constant that would hide a sign error.
    assert likelihood - bound < 5.0


def test_more_samples_raise_the_likelihood(
    model: Any, blobs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mean_score(n_samples: int, repeats: int) -> float:
        """Over rows and over noise: the rows of one call share theirs."""
        scores = []
        for repeat in range(repeats):
            other = partial(other_noise, shift=1 + repeat)
            monkeypatch.setattr("whowrote.estimators.fitted_classifier.Streams", other)
            scores.append(model.score_samples(blobs.X, n_samples).mean())
        return float(np.mean(scores))

    one, few, many = mean_score(1, 200), mean_score(8, 25), mean_score(200, 1)
    assert one < few < many


def test_bound_and_likelihood_are_the_same_when_asked_twice(model: Any, blobs: Any) -> None:
    np.testing.assert_array_equal(model.score_samples(blobs.X), model.score_samples(blobs.X))
    np.testing.assert_array_equal(model.bound(blobs.X), model.bound(blobs.X))


def test_density_of_a_known_model_is_scipys(identity: MixtureVAEClassifier) -> None:
    X = np.array([[100.0, -1.0], [130.0, -1.02], [160.0, -1.04], [80.0, -0.95]])
    o = (X - identity.fitted_.scaling.mean) / identity.fitted_.scaling.scale
    densities = []
    for k in range(2):
        loc, scale = identity.means_[k], identity.scales_[k]
        if identity.component == "gaussian":
            density = stats.multivariate_normal(loc, scale)
        else:
            density = stats.multivariate_t(loc, scale, df=identity.degrees_of_freedom_[k])
        densities.append(np.log(identity.weights_[k]) + density.logpdf(o))
    in_units_of_o = np.logaddexp(*densities)
    in_units_of_x = in_units_of_o - math.log(10.0) - math.log(0.01)
    np.testing.assert_allclose(identity.score_samples(X), in_units_of_x, atol=0.02)
    assert np.abs(identity.score_samples(X) - in_units_of_o).min() > 2.0
    posterior = np.exp(np.array(densities) - in_units_of_o).T
    np.testing.assert_allclose(identity.predict_proba(X), posterior, atol=1e-3)


@pytest.mark.parametrize(
    ("a", "b"), [(2.5, 7.0), (np.array([3.0, 0.1, 40.0, 1.0]), -3.0), (1e-9, 0.0), (1e9, 1e8)]
)
def test_densities_are_in_the_units_of_x(
    a: Any, b: float, component: str, blobs: Any, quick: dict[str, Any]
) -> None:
    settings = quick | {"max_epochs": 4, "dtype": "float64"}
    plain = MixtureVAEClassifier(component, **settings).fit(blobs.X, blobs.y)
    moved = MixtureVAEClassifier(component, **settings).fit(a * blobs.X + b, blobs.y)
    change = np.log(np.broadcast_to(a, 4)).sum()
    before, after = plain.score_samples(blobs.X), moved.score_samples(a * blobs.X + b)
    np.testing.assert_allclose(after, before - change, atol=1e-5)
    assert np.abs(after - before).min() > 0.9 * abs(change)
    np.testing.assert_allclose(
        moved.predict_proba(a * blobs.X + b), plain.predict_proba(blobs.X), atol=1e-6
    )


# Tails


def test_typicality_is_uniform_for_an_authors_own_rows(identity: MixtureVAEClassifier) -> None:
    own = identity.sample(2000, "ann", random_state=1).observations
    p_values = identity.typicality(own, calibrated=False)
    assert p_values.min() >= 0.0
    assert p_values.max() <= 1.0
    assert stats.kstest(p_values[:, 0], "uniform").pvalue > 0.01
    # Negative control: they are not typical of the other author.
    assert stats.kstest(p_values[:, 1], "uniform").pvalue < 1e-6


def test_tails_of_one_family_are_not_typical_of_the_other(identity: MixtureVAEClassifier) -> None:
    rows = identity.sample(2000, "bob", random_state=2).latents - identity.means_[1]
    delta = (rows @ np.linalg.inv(identity.scales_[1]) * rows).sum(axis=1)
    heavy, light = stats.f.sf(delta / 2, 2, 4.13), stats.chi2.sf(delta, 2)
    own, other = (light, heavy) if identity.component == "gaussian" else (heavy, light)
    assert stats.kstest(own, "uniform").pvalue > 0.01
    assert stats.kstest(other, "uniform").pvalue < 1e-4


def test_none_of_these_is_small_under_every_author(identity: MixtureVAEClassifier) -> None:
    stranger, known = np.array([[900.0, 5.0]]), np.array([[100.0, -1.0]])
    assert identity.typicality(stranger, calibrated=False).max() < 1e-3
    assert identity.typicality(known, calibrated=False).max() > 0.9
    # The probabilities alone would not tell.
    assert identity.predict_proba(stranger).max() > 0.5


def test_typicality_of_a_fitted_model_lies_between_zero_and_one(model: Any, blobs: Any) -> None:
    p_values = model.typicality(blobs.X)
    assert p_values.shape == (len(blobs.X), 3)
    assert p_values.min() >= 0.0
    assert p_values.max() <= 1.0
    own = p_values[np.arange(len(blobs.X)), model.predict_proba(blobs.X).argmax(axis=1)]
    assert np.median(own) > 10 * np.median(p_values.min(axis=1))


def test_outliers_weigh_little(identity: MixtureVAEClassifier) -> None:
    centre, outlier = identity.expected_scales(np.array([[100.0, -1.0], [900.0, 5.0]]))
    if identity.component == "gaussian":
        assert centre.tolist() == outlier.tolist() == [1.0, 1.0]
    else:
        df = identity.degrees_of_freedom_[0]
        assert centre[0] == pytest.approx((df + 2) / df, rel=1e-3)
        assert outlier.max() < 0.01


# Generation


def test_samples_follow_the_five_steps(model: Any) -> None:
    drawn = model.sample(50, random_state=1)
    assert [part.shape for part in drawn] == [(50, 4), (50, 4), (50,), (50,)]
    assert (drawn.scales > 0).all()
    assert (drawn.scales == 1.0).all() == (model.component == "gaussian")


def test_samples_depend_on_the_seed_alone(model: Any) -> None:
    torch.manual_seed(1)
    first = model.sample(20, random_state=5)
    torch.manual_seed(2)
    again, other = model.sample(20, random_state=5), model.sample(20, random_state=6)
    for one, two in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, two)
    assert not np.array_equal(first.observations, other.observations)
    generator = np.random.RandomState(0)
    first, second = (model.sample(5, random_state=generator) for _ in range(2))
    assert not np.array_equal(first.observations, second.observations)


def test_samples_are_in_the_units_of_x(identity: MixtureVAEClassifier) -> None:
    drawn = identity.sample(4000, "ann", random_state=0).observations
    np.testing.assert_allclose(np.median(drawn, axis=0), [100.0, -1.0], atol=1.0)
    quartiles = np.subtract(*np.percentile(drawn, [75, 25], axis=0))
    assert quartiles[0] / quartiles[1] == pytest.approx(1000 / math.hypot(1, 0.5), rel=0.25)


def test_samples_of_one_author(classifier: MixtureVAEClassifier, blobs: Any) -> None:
    drawn = classifier.sample(200, "bob", random_state=0)
    assert set(drawn.classes.tolist()) == {"bob"}
    assert (classifier.predict(drawn.observations) == "bob").mean() > 0.6
    centre = np.median(drawn.observations, axis=0)
    distances = [
        np.linalg.norm(centre - blobs.X[blobs.y == name].mean(0)) for name in ("ann", "bob", "cyd")
    ]
    assert int(np.argmin(distances)) == 1


def test_samples_of_all_authors_follow_the_weights(classifier: MixtureVAEClassifier) -> None:
    drawn = classifier.sample(4000, random_state=0).classes
    shares = [(drawn == name).mean() for name in classifier.classes_]
    np.testing.assert_allclose(shares, classifier.weights_, atol=0.03)


def test_samples_of_one_cluster(clusterer: MixtureVAEClusterer) -> None:
    drawn = clusterer.sample(100, 2, random_state=0)
    assert set(drawn.classes.tolist()) == {2}
    assert (clusterer.predict(drawn.observations) == 2).mean() > 0.8


# The latent space


def test_transform_and_its_names(model: Any, blobs: Any) -> None:
    latents = model.transform(blobs.X)
    assert latents.shape == (len(blobs.X), 4)
    names = model.get_feature_names_out().tolist()
    assert names == [f"{type(model).__name__.lower()}{i}" for i in range(4)]


def test_decoding_undoes_encoding(identity: MixtureVAEClassifier) -> None:
    X = np.array([[100.0, -1.0], [130.0, -1.02]])
    Z = identity.transform(X)
    np.testing.assert_allclose(Z, [[0.0, 0.0], [3.0, -2.0]], atol=1e-9)
    decoded = identity.decode(Z)
    np.testing.assert_allclose(decoded.mean, X)
    np.testing.assert_allclose(
        decoded.scale, np.exp(-6.0) * np.array([[10.0, 0.01]] * 2), rtol=1e-6
    )
    np.testing.assert_array_equal(identity.inverse_transform(Z), decoded.mean)
    np.testing.assert_array_equal(identity.decode(Z[0]).mean, decoded.mean[:1])


def test_a_fitted_decoder_reconstructs(model: Any, blobs: Any) -> None:
    back = model.inverse_transform(model.transform(blobs.X))
    error = ((back - blobs.X) ** 2).mean(axis=0) / blobs.X.var(axis=0)
    assert error.max() < 0.5


def test_learnt_attributes_are_a_mixture(model: Any) -> None:
    assert model.weights_.sum() == pytest.approx(1.0, abs=1e-6)
    assert model.weights_.min() > 0
    assert model.means_.shape == (3, 4)
    np.testing.assert_allclose(model.scales_, model.scales_.transpose(0, 2, 1), rtol=1e-6)
    assert np.linalg.eigvalsh(model.scales_.astype(np.float64)).min() > 0.99 * model.scale_floor
    if model.component == "gaussian":
        assert np.isposinf(model.degrees_of_freedom_).all()
    else:
        assert model.degrees_of_freedom_.min() > 2
        assert np.isfinite(model.degrees_of_freedom_).all()


def test_history_is_data(model: Any) -> None:
    plain = json.loads(json.dumps(model.history_, allow_nan=False))
    assert plain == model.history_
    last = plain[-1]
    assert set(last) >= {"phase", "epoch", "member", "learning_rate", "terms", "watched", "seconds"}
    assert set(last["terms"]) == {"reconstruction", "entropy", "prior", "labels", "l1"}
    assert model.n_iter_ == max(record["epoch"] for record in plain)


def test_clusters_are_the_blobs(clusterer: MixtureVAEClusterer, blobs: Any) -> None:
    assert adjusted_rand_score(blobs.codes, clusterer.labels_) > 0.9


def test_set_params_does_not_change_a_fitted_model(
    component: str, blobs: Any, quick: dict[str, Any]
) -> None:
    model = MixtureVAEClassifier(component, **quick | {"max_epochs": 1}).fit(blobs.X, blobs.y)
    before = model.typicality(blobs.X), model.degrees_of_freedom_, model.score_samples(blobs.X)
    other = "gaussian" if component == "student-t" else "student-t"
    model.set_params(component=other, dtype="float64", latent_dim=1)
    after = model.typicality(blobs.X), model.degrees_of_freedom_, model.score_samples(blobs.X)
    for one, two in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, two)


def test_every_family_has_its_tail() -> None:
    assert set(TAILS) == set(FAMILIES)
