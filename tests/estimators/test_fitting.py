"""What fit can be given: weights, validation rows, callbacks, what was learnt before, seeds."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.utils.class_weight import compute_sample_weight

from whowrote import MixtureVAEClassifier, MixtureVAEClusterer
from whowrote.errors import InputError
from whowrote.estimators.labels import Labels, read_labels, row_weights
from whowrote.estimators.scaling import learn_scaling
from whowrote.model import Streams
from whowrote.training import Assignment

FROM_RANDOM = partial(MixtureVAEClassifier, start="random")
EXACT: dict[str, Any] = {"dropout": 0.0, "average": 0.0, "dtype": "float64"}


# Weights


def test_no_weights_and_equal_weights_are_the_same_model(blobs: Any, quick: dict[str, Any]) -> None:
    settings = quick | EXACT | {"max_epochs": 3}
    plain = MixtureVAEClassifier(**settings).fit(blobs.X, blobs.y)
    for weight in (1.0, np.full(len(blobs.y), 7.0)):
        same = MixtureVAEClassifier(**settings).fit(blobs.X, blobs.y, sample_weight=weight)
        np.testing.assert_array_equal(same.predict_proba(blobs.X), plain.predict_proba(blobs.X))
        assert same.lower_bound_ == plain.lower_bound_


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_a_row_of_weight_zero_is_not_there(kind: Any, blobs: Any, quick: dict[str, Any]) -> None:
    gone = np.zeros(len(blobs.y), dtype=bool)
    gone[::5] = True
    X = np.where(gone[:, None], 50.0, blobs.X)
    settings = quick | {"max_epochs": 3}
    weighted = MixtureVAEClassifier(**settings).fit(kind(X), blobs.y, sample_weight=~gone)
    without = MixtureVAEClassifier(**settings).fit(kind(blobs.X[~gone]), blobs.y[~gone])
    np.testing.assert_array_equal(weighted.predict_proba(blobs.X), without.predict_proba(blobs.X))
    plain = MixtureVAEClassifier(**settings).fit(kind(X), blobs.y)
    assert np.abs(plain.predict_proba(blobs.X) - without.predict_proba(blobs.X)).max() > 0.1


def mean_proba(X: np.ndarray, y: np.ndarray, at: np.ndarray, weights: Any = None) -> np.ndarray:
    """Over members, that is over random numbers."""
    settings = EXACT | {"hidden": (), "max_epochs": 30, "random_state": 0}
    settings |= {"learning_rate": 0.01, "validation_fraction": 0.0, "n_members": 12}
    settings |= {"batch_size": len(X) // 6}  # as many steps, however many rows
    return MixtureVAEClassifier(**settings).fit(X, y, sample_weight=weights).predict_proba(at)


def test_whole_weights_are_repeated_rows() -> None:
    X, y = make_blobs(120, centers=3, n_features=2, cluster_std=4.0, random_state=1)
    weights = np.where(X[:, 0] > X[:, 0].mean(), 4, 1)
    weighted, plain = mean_proba(X, y, X, weights), mean_proba(X, y, X)
    repeated = mean_proba(np.repeat(X, weights, axis=0), np.repeat(y, weights), X)
    near, far = np.abs(weighted - repeated).mean(), np.abs(plain - repeated).mean()
    assert near < far / 2, (near, far)


def test_rows_come_as_often_as_they_count() -> None:
    weights = torch.tensor([0.0, 1.0, 0.5, 2.5, 1.0])
    rows = torch.tensor([1, 2, 3, 4])
    assignment, streams = Assignment((rows, rows), (rows[:0],) * 2), Streams([1, 2])
    counts = torch.zeros(5)
    for _ in range(400):
        for own in assignment.weighed(weights, streams).train:
            found = own.bincount(minlength=5)
            assert len(own) == 4
            assert ((found - 4 * weights / 5).abs() < 1).all()
            counts += found
    torch.testing.assert_close(counts / 800, 4 * weights / 5, atol=0.05, rtol=0)
    equal = assignment.weighed(torch.full((5,), 0.3), streams).train
    assert all(torch.equal(own, rows) for own in equal)


def test_scaling_of_weighted_rows_is_that_of_repeated_ones() -> None:
    X, weights = np.random.default_rng(0).normal(size=(30, 6)), 1.0 + np.arange(30) % 3
    repeated = np.repeat(X, weights.astype(int), axis=0)
    for kind, width in ((np.asarray, 6), (sparse.csr_array, 3)):
        one = learn_scaling(kind(X), width, 0, weights)
        two = learn_scaling(kind(repeated), width, 0)
        np.testing.assert_allclose(one.mean, two.mean, atol=1e-3)
        np.testing.assert_allclose(one.scale, two.scale, rtol=1e-3)
        assert one.input_scale == pytest.approx(two.input_scale)


@pytest.mark.parametrize("class_weight", ["balanced", {"ann": 3, "cyd": 0.5}])
def test_class_weights_are_scikit_learns(class_weight: Any) -> None:
    y = np.array(["ann", "bob", "cyd", "bob", "bob", "cyd"])
    labels, weights = read_labels(np.append(y, y), 12), np.arange(1.0, 13.0)
    found = row_weights(None, class_weight, labels)
    np.testing.assert_allclose(found, compute_sample_weight(class_weight, np.append(y, y)))
    repeated = Labels(labels.classes, np.repeat(labels.codes, weights.astype(int)))
    both, whole = (
        row_weights(weights, class_weight, labels),
        row_weights(None, class_weight, repeated),
    )
    assert both is not None
    assert whole is not None
    np.testing.assert_allclose(np.repeat(both / weights, weights.astype(int)), whole)
    assert row_weights(None, None, labels) is None


def test_unlabelled_rows_have_no_class_weight() -> None:
    labels = read_labels(["ann", None, "bob", "bob"], 4)
    weights = row_weights([1, 5, 1, 1], "balanced", labels)
    assert weights is not None
    assert weights.tolist() == [1.5, 5.0, 0.75, 0.75]


def test_two_rows_among_two_thousand_are_found_when_balanced() -> None:
    random = np.random.default_rng(0)
    X = np.vstack([random.normal(size=(2000, 4)), 6 + random.normal(size=(2, 4))])
    y = np.repeat([0, 1], [2000, 2])
    model = MixtureVAEClassifier(class_weight="balanced", random_state=0).fit(X, y)
    new = 6 + random.normal(size=(200, 4))
    assert (model.predict(new) == 1).mean() > 0.5
    assert (model.predict(random.normal(size=(200, 4))) == 0).mean() > 0.95


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(5), r"sample_weight has the shape \(5,\).*each of 180 rows"),
        (np.ones((180, 2)), r"the shape \(180, 2\)"),
        (-np.ones(180), "sample_weight is -1 in row 0; weights must be finite and at least 0"),
        (np.full(180, np.nan), "sample_weight is nan in row 0"),
        (np.zeros(180), "all 180 sample weights are zero; give some rows a weight above 0"),
    ],
)
def test_bad_sample_weights(weights: Any, message: str, blobs: Any) -> None:
    with pytest.raises(InputError, match=message):
        MixtureVAEClassifier().fit(blobs.X, blobs.y, sample_weight=weights)


@pytest.mark.parametrize(
    ("class_weight", "message"),
    [
        ("balance", "class_weight is 'balance'; it must be None, 'balanced' or a dictionary"),
        (3.0, r"class_weight is 3\.0; it must be None"),
        ({"anne": 2}, "class_weight names 'anne', which is not among .*did you mean 'ann'"),
        ({"ann": -1}, "class_weight of 'ann' is -1; it must be a number of at least 0"),
        ({"ann": 0}, "all rows of class 'ann' have zero weight.*leave the class out"),
    ],
)
def test_bad_class_weights(class_weight: Any, message: str, blobs: Any) -> None:
    with pytest.raises(InputError, match=message):
        MixtureVAEClassifier(class_weight=class_weight).fit(blobs.X, blobs.y)


def test_class_weights_of_numbers_come_back_from_a_file(
    blobs: Any, quick: dict[str, Any], tmp_path: Path
) -> None:
    settings = quick | {"max_epochs": 1, "class_weight": {0: 2.0, 2: 3.0}}
    MixtureVAEClassifier(**settings).fit(blobs.X, blobs.codes).save(tmp_path / "file")
    assert MixtureVAEClassifier.load(tmp_path / "file").class_weight == {0: 2.0, 2: 3.0}


# Validation rows


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_validation_rows_are_stopped_by_and_not_learnt_from(
    kind: Any, blobs: Any, quick: dict[str, Any]
) -> None:
    settings = quick | {"max_epochs": 40, "patience": 3}
    rows, few = kind(blobs.X[::9]), blobs.y[::9]
    fair = MixtureVAEClassifier(**settings).fit(blobs.X, blobs.y, validation=(rows, few))
    wrong = MixtureVAEClassifier(**settings).fit(
        blobs.X, blobs.y, validation=(rows, np.roll(few, 1))
    )
    assert fair.n_iter_ > wrong.n_iter_  # the loss on wrong labels rises from the start
    assert wrong.converged_
    np.testing.assert_array_equal(fair.fitted_.scaling.mean, wrong.fitted_.scaling.mean)
    first = fair.history_[0]["terms"]
    assert first == wrong.history_[0]["terms"]


@pytest.mark.filterwarnings("ignore::whowrote.errors.ClusterWarning")  # so short a fit may merge
def test_validation_rows_of_a_clusterer(blobs: Any, quick_for_both: dict[str, Any]) -> None:
    settings = quick_for_both | {"max_epochs": 3, "warm_up": 1}
    model = MixtureVAEClusterer(3, **settings).fit(blobs.X, validation=blobs.X[:5])
    assert len(model.labels_) == len(blobs.X)
    assert all(record["watched"] is not None for record in model.history_[1:])


@pytest.mark.parametrize(
    ("validation", "message"),
    [
        (3, r"validation must be a pair \(X, y\)"),
        ((np.ones((2, 4)), ["ann"]), "validation has 2 rows and 1 labels; give one label per row"),
        ((np.ones((2, 4)), ["ann", "eve"]), "row 1 of validation has the label 'eve'.*leave"),
        ((np.ones((2, 4)), ["ann", None]), "row 1 of validation has the label None"),
        ((np.ones((2, 3)), ["ann", "bob"]), "X has 3 features"),
    ],
)
def test_bad_validation_rows(validation: Any, message: str, blobs: Any) -> None:
    with pytest.raises(ValueError, match=message):
        MixtureVAEClassifier().fit(blobs.X, blobs.y, validation=validation)


def test_folds_and_validation_rows_contradict(blobs: Any) -> None:
    given = {"folds": np.arange(len(blobs.y)) % 2, "validation": (blobs.X, blobs.y)}
    with pytest.raises(InputError, match=r"folds and validation are given.*leave one of them out"):
        MixtureVAEClassifier(n_members=2).fit(blobs.X, blobs.y, **given)


# Callbacks


@pytest.mark.filterwarnings("ignore::whowrote.errors.ClusterWarning")  # so short a fit may merge
@pytest.mark.parametrize("estimator", [FROM_RANDOM, MixtureVAEClusterer])
def test_callbacks_see_what_the_history_keeps(
    estimator: Any, blobs: Any, quick_for_both: dict[str, Any]
) -> None:
    seen: list[Any] = []
    epochs: list[int] = []
    model = estimator(**quick_for_both | {"max_epochs": 3, "n_members": 2})
    model.fit(blobs.X, blobs.y, callbacks=[seen.append, lambda r: epochs.append(r["epoch"])])
    key = lambda record: (record["phase"], record["epoch"], record["member"])  # noqa: E731
    assert sorted(seen, key=key) == sorted(model.history_, key=key)
    assert len(epochs) == len(seen)
    with pytest.raises(InputError, match="callbacks is 3; it must be a callable or a list"):
        model.fit(blobs.X, blobs.y, callbacks=3)


class StoppedError(Exception):
    pass


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.filterwarnings("ignore::whowrote.errors.ClusterWarning")  # so short a fit may merge
@pytest.mark.parametrize("estimator", [FROM_RANDOM, MixtureVAEClusterer])
def test_an_exception_in_a_callback_leaves_the_estimator_as_it_was(
    estimator: Any, n_threads: int, blobs: Any, quick_for_both: dict[str, Any]
) -> None:
    def stop(record: dict[str, Any]) -> None:
        if record["epoch"] == 2:
            raise StoppedError

    settings = quick_for_both | {"max_epochs": 4, "n_members": 2}
    before = torch.get_num_threads()
    torch.set_num_threads(n_threads)
    try:
        model = estimator(**settings)
        with pytest.raises(StoppedError):
            model.fit(blobs.X, blobs.y, callbacks=stop)
        assert set(vars(model)) == set(vars(estimator(**settings)))
        model.fit(blobs.X, blobs.y)
        expected = model.predict_proba(blobs.X)
        with pytest.raises(StoppedError):
            model.fit(blobs.X[:, :2], np.arange(len(blobs.X)) % 2, callbacks=stop)
        np.testing.assert_array_equal(model.predict_proba(blobs.X), expected)
        assert torch.get_num_threads() == n_threads
    finally:
        torch.set_num_threads(before)


# Going on


@pytest.mark.filterwarnings("ignore::whowrote.errors.ClusterWarning")  # so short a fit may merge
@pytest.mark.parametrize("estimator", [FROM_RANDOM, MixtureVAEClusterer])
def test_a_warm_start_goes_on(estimator: Any, blobs: Any, quick_for_both: dict[str, Any]) -> None:
    settings = quick_for_both | {
        "max_epochs": 2,
        "learning_rate": 0.005,
        "validation_fraction": 0.0,
    }
    model = estimator(3 if estimator is MixtureVAEClusterer else "student-t", **settings)
    model.fit(blobs.X, blobs.y)
    first, former, records = model.lower_bound_, model.fitted_, len(model.history_)
    before = {name: value.clone() for name, value in former.fleet.state_dict().items()}
    model.set_params(warm_start=True, max_epochs=8).fit(blobs.X, blobs.y)
    assert model.lower_bound_ > first
    assert model.n_iter_ == 8
    assert len(model.history_) == records + 8
    for name, value in former.fleet.state_dict().items():  # what was learnt first is untouched
        assert torch.equal(value, before[name])
    again = clone(model).fit(blobs.X, blobs.y)
    assert len(again.history_) < len(model.history_)


def test_a_warm_start_goes_on_from_a_regression(blobs: Any) -> None:
    model = MixtureVAEClassifier(hidden=32, random_state=0).fit(blobs.X, blobs.y)
    assert model.history_ == []  # few rows: nothing was trained
    before = model.means_.copy()
    model.set_params(warm_start=True, max_epochs=1, learning_rate=1e-9).fit(blobs.X, blobs.y)
    assert len(model.history_) == 1
    np.testing.assert_allclose(model.means_, before, atol=1e-5)
    anew = model.set_params(warm_start=False, random_state=1).fit(blobs.X, blobs.y)
    assert np.abs(anew.means_ - before).max() > 1e-2  # negative control


def test_a_warm_start_after_loading_keeps_its_validation_rows(
    blobs: Any, quick: dict[str, Any], tmp_path: Path
) -> None:
    settings = quick | {"max_epochs": 3, "random_state": None, "validation_fraction": 0.2}
    MixtureVAEClassifier(**settings).fit(blobs.X, blobs.y).save(tmp_path / "file")
    model = MixtureVAEClassifier.load(tmp_path / "file")
    seeds = [member.seed for member in model.fleet_.members]
    best = min(epoch["watched"] for epoch in model.history_)
    model.set_params(warm_start=True, max_epochs=1, learning_rate=1e-9).fit(blobs.X, blobs.y)
    assert [member.seed for member in model.fleet_.members] == seeds
    assert model.history_[-1]["watched"] == pytest.approx(best, rel=1e-3)
    other = model.set_params(warm_start=False, random_state=1).fit(blobs.X, blobs.y)
    assert other.history_[-1]["watched"] != pytest.approx(best, rel=1e-3)  # negative control


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden": 9}, r"hidden is \(9,\) but warm_start goes on from a model with \(8,\)"),
        ({"latent_dim": 2}, "latent_dim is 2 .*set it back, or warm_start=False"),
        ({"n_members": 2}, "n_members is 2 but warm_start goes on from a model with 1"),
        ({"component": "gaussian"}, "component is 'gaussian' but .* with 'student-t'"),
    ],
)
def test_a_warm_start_cannot_change_the_shape(
    change: dict[str, Any], message: str, blobs: Any, quick: dict[str, Any]
) -> None:
    settings = quick | {"max_epochs": 1}
    model = MixtureVAEClassifier(**settings, warm_start=True).fit(blobs.X, blobs.y)
    with pytest.raises(InputError, match=message):
        model.set_params(**change).fit(blobs.X, blobs.y)


def test_a_warm_start_cannot_change_classes_or_columns(blobs: Any, quick: dict[str, Any]) -> None:
    settings = quick | {"max_epochs": 1}
    model = MixtureVAEClassifier(**settings, warm_start=True).fit(blobs.X, blobs.y)
    with pytest.raises(InputError, match=r"y has the classes \[0, 1, 2\] but warm_start goes on"):
        model.fit(blobs.X, blobs.codes)
    with pytest.raises(ValueError, match=r"X has 3 features, but .* is expecting 4"):
        model.fit(blobs.X[:, :3], blobs.y)
    assert model.predict(blobs.X).shape == (180,)


# What is learnt


def test_decisions_are_log_odds(blobs: Any, quick: dict[str, Any]) -> None:
    model = MixtureVAEClassifier(**quick).fit(blobs.X, blobs.y)
    decisions = model.decision_function(blobs.X)
    assert decisions.shape == (180, 3)
    assert (model.classes_[decisions.argmax(1)] == model.predict(blobs.X)).all()
    two = blobs.codes < 2
    model.fit(blobs.X[two], blobs.y[two])
    odds, proba = model.decision_function(blobs.X), model.predict_proba(blobs.X)
    assert odds.shape == (180,)
    np.testing.assert_allclose(1 / (1 + np.exp(-odds)), proba[:, 1], atol=1e-9)
    assert ((odds > 0) == (model.predict(blobs.X) == model.classes_[1])).all()


def test_covariances_are_those_of_samples(identity: MixtureVAEClassifier) -> None:
    found, df = identity.covariances_, identity.degrees_of_freedom_
    drawn = identity.sample(200_000, "bob", random_state=0).latents
    np.testing.assert_allclose(found[1], np.cov(drawn.T), rtol=0.2)
    factor = 1.0 if identity.component == "gaussian" else df[1] / (df[1] - 2)
    np.testing.assert_allclose(found[1], factor * identity.scales_[1], rtol=1e-6)


def test_lower_bound_and_convergence(blobs: Any, quick: dict[str, Any], tmp_path: Path) -> None:
    short = MixtureVAEClassifier(**quick | {"max_epochs": 2}).fit(blobs.X, blobs.y)
    assert not short.converged_
    assert short.lower_bound_ == pytest.approx(short.bound(blobs.X, 1).mean())
    settings = quick | {"max_epochs": 200, "patience": 2, "validation_fraction": 0.2}
    long = MixtureVAEClassifier(**settings).fit(blobs.X, blobs.y)
    assert long.converged_
    assert long.n_iter_ < 200
    long.save(tmp_path / "file")
    back = MixtureVAEClassifier.load(tmp_path / "file")
    assert (back.converged_, back.lower_bound_) == (True, long.lower_bound_)


# Seeds


def test_generators_of_numpy_are_seeds(blobs: Any, quick: dict[str, Any]) -> None:
    def proba(seed: Any) -> np.ndarray:
        settings = quick | {"max_epochs": 1, "random_state": seed}
        return MixtureVAEClassifier(**settings).fit(blobs.X, blobs.y).predict_proba(blobs.X)

    one, two = (proba(np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one, proba(np.random.PCG64(3)))
    assert not np.array_equal(one, proba(np.random.default_rng(4)))
    shared = np.random.default_rng(3)
    first, second = proba(shared), proba(shared)
    np.testing.assert_array_equal(first, one)
    assert not np.array_equal(first, second)


def test_samples_from_a_generator(classifier: MixtureVAEClassifier) -> None:
    generator = np.random.default_rng(0)
    one, two = (classifier.sample(3, random_state=generator).observations for _ in range(2))
    assert not np.array_equal(one, two)
    again = classifier.sample(3, random_state=np.random.default_rng(0)).observations
    np.testing.assert_array_equal(one, again)
