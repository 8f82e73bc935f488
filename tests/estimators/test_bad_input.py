"""Every kind of bad input has a clear sentence: name, value, requirement and cure."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.exceptions import NotFittedError

from whowrote import MixtureVAEClassifier, MixtureVAEClusterer
from whowrote.errors import InputError

X = np.random.default_rng(0).normal(size=(12, 3))
Y = np.arange(12) % 3


def spoilt(value: float) -> np.ndarray:
    rows = X.copy()
    rows[5, 2] = value
    return rows


@pytest.mark.parametrize(("value", "name"), [(np.nan, "NaN"), (np.inf, "inf"), (-np.inf, "inf")])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, sparse.csc_array])
@pytest.mark.parametrize("estimator", [MixtureVAEClassifier(), MixtureVAEClusterer(2)])
def test_values_must_be_finite(value: float, name: str, kind: Any, estimator: Any) -> None:
    with pytest.raises(InputError, match=rf"X contains .*{name}.* in row 5, column 2.*impute"):
        estimator.fit(kind(spoilt(value)), Y)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_values_must_be_finite_at_predict(kind: Any, classifier: MixtureVAEClassifier) -> None:
    rows = np.ones((3, 4))
    rows[1, 3] = np.nan
    for ask in (classifier.predict, classifier.transform, classifier.score_samples):
        with pytest.raises(InputError, match="X contains NaN in row 1, column 3"):
            ask(kind(rows))


def test_values_must_not_be_absurd(classifier: MixtureVAEClassifier) -> None:
    with pytest.raises(InputError, match=r"column 2 has values up to 1e\+200, too large"):
        MixtureVAEClassifier().fit(spoilt(1e200), Y)
    with pytest.raises(InputError, match=r"row 0, column 0 lies 1\.\d+e\+\d+ standard deviations"):
        classifier.predict_proba(np.full((1, 4), 1e39))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"component": "student"}, "component is 'student'.*did you mean 'student-t'"),
        (
            {"component": "xyz"},
            "component is 'xyz'; it must be one of student-t, gaussian, standard-normal$",
        ),
        ({"activation": "tahn"}, "activation is 'tahn'.*did you mean 'tanh'"),
        ({"objective": "bond"}, "objective is 'bond'.*did you mean 'bound'"),
        ({"dtype": "float16"}, "dtype is 'float16'.*float32, float64"),
        ({"device": "gpu"}, "device is 'gpu'.*one of auto, cpu, cuda, mps"),
        ({"latent_dim": 0}, "latent_dim is 0; it must be an integer of at least 1"),
        ({"latent_dim": 2.5}, r"latent_dim is 2\.5; it must be an integer"),
        ({"hidden": 0}, "hidden is 0.*at least 1"),
        ({"hidden": (8, -1)}, "hidden is -1.*at least 1"),
        ({"batch_size": 0}, "batch_size is 0.*at least 1"),
        ({"max_epochs": 0}, "max_epochs is 0.*at least 1"),
        ({"max_epochs": True}, "max_epochs is True.*an integer"),
        ({"n_members": 0}, "n_members is 0.*at least 1"),
        ({"n_samples": 0}, "n_samples is 0.*at least 1"),
        ({"patience": 0}, "patience is 0.*at least 1"),
        ({"projection_dim": 0}, "projection_dim is 0.*at least 1"),
        ({"joint_weight": -1.0}, r"joint_weight is -1\.0; it must be a number of at least 0"),
        ({"label_weight": -0.1}, r"label_weight is -0\.1.*at least 0"),
        ({"label_weight": np.inf}, "label_weight is inf"),
        ({"l1": -1e-3}, r"l1 is -0\.001.*at least 0"),
        ({"warm_up": -1}, "warm_up is -1.*at least 0"),
        ({"warm_up": 2.5}, r"warm_up is 2\.5.*an integer"),
        ({"scale_floor": 0.0}, r"scale_floor is 0\.0.*above 0"),
        ({"learning_rate": 0}, "learning_rate is 0; it must be a number above 0"),
        ({"learning_rate": "fast"}, "learning_rate is 'fast'.*a number"),
        ({"clip_norm": -1}, "clip_norm is -1.*above 0"),
        ({"initial_df": 2.0}, r"initial_df is 2\.0.*at least 2\.1"),
        ({"dropout": 1.0}, r"dropout is 1\.0; it must be at least 0 and below 1"),
        ({"dropout": (0.1, 1.0)}, r"dropout is 1\.0"),
        ({"dropout": (0.1, 0.2, 0.3)}, r"dropout is \(0\.1, 0\.2, 0\.3\).*\(input, hidden\)"),
        ({"validation_fraction": 1.0}, r"validation_fraction is 1\.0.*below 1"),
        ({"average": 1.0}, r"average is 1\.0.*below 1"),
    ],
)
@pytest.mark.parametrize("kind", [MixtureVAEClassifier, MixtureVAEClusterer])
def test_settings(kind: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        kind(**settings).fit(X, Y)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_components": 0}, "n_components is 0.*at least 1"),
        ({"n_components": 13}, "n_components is 13 but X has 12 rows.*lower n_components"),
        ({"initialization": "gaussian"}, "initialization is 'gaussian'.*'gaussian-mixture'"),
    ],
)
def test_settings_of_the_clusterer(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        MixtureVAEClusterer(**settings).fit(X)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_a_device_must_be_there() -> None:
    with pytest.raises(InputError, match=r"device is 'cuda', which this machine has not.*'cpu'"):
        MixtureVAEClassifier(device="cuda").fit(X, Y)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "requires y.*MixtureVAEClusterer"),
        (Y[:-1], "inconsistent numbers of samples, 12 rows and 11 labels.*one label per row"),
        (np.full(12, -1), "all 12 labels are missing; label some rows or use MixtureVAEClusterer"),
        ([None] * 12, "all 12 labels are missing"),
        ([np.nan, None] * 6, "all 12 labels are missing"),
        (np.zeros(12, dtype=int), "one class only, 0; a classifier needs at least two"),
        (["ann"] * 12, "one class only, 'ann'"),
        (["ann", None] * 6, "one class only, 'ann'"),
        (np.minimum(np.arange(12), 1), "class 0 has 1 row; each class needs at least 2"),
        ([f"author {row:02d}" for row in range(12)], "class 'author 00' has 1 row"),
        (np.linspace(0, 1, 12), "Unknown label type: continuous"),
        (np.where(Y == 0, np.nan, Y), "y contains NaN"),
        (np.eye(12), "y should be a 1d array"),
    ],
)
def test_labels(y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MixtureVAEClassifier().fit(X, y)


def test_a_single_row_is_too_few() -> None:
    for estimator in (MixtureVAEClassifier(), MixtureVAEClusterer(1)):
        with pytest.raises(ValueError, match=r"1 sample\(s\).*minimum of 2"):
            estimator.fit(X[:1], Y[:1])


def test_the_number_of_features_is_fixed(model: Any) -> None:
    for ask in (model.predict, model.predict_proba, model.transform, model.typicality, model.bound):
        with pytest.raises(ValueError, match=r"X has 3 features, but .* is expecting 4 features"):
            ask(X)


def test_authors_must_be_known(classifier: MixtureVAEClassifier) -> None:
    for author in ("eve", 0, ["ann"]):
        with pytest.raises(InputError, match=r"author .* is not among \['ann', 'bob', 'cyd'\]"):
            classifier.sample(1, author)


def test_clusters_must_be_known(clusterer: MixtureVAEClusterer) -> None:
    for cluster in (3, -1, 1.5, "one"):
        with pytest.raises(InputError, match=r"cluster is .*; it must be an integer from 0 to 2"):
            clusterer.sample(1, cluster)


def test_numbers_of_samples(model: Any) -> None:
    for ask in (model.sample, lambda n: model.bound(X, n), lambda n: model.score_samples(X, n)):
        with pytest.raises(InputError, match="n_samples is 0; it must be an integer of at least 1"):
            ask(0)


@pytest.mark.parametrize("shape", [(2, 5), (3,), (2, 4, 4)])
def test_latents_must_have_the_width_of_the_latent_space(shape: Any, model: Any) -> None:
    for ask in (model.decode, model.inverse_transform):
        with pytest.raises(InputError, match=r"Z has .*but the latent space has 4"):
            ask(np.zeros(shape))


@pytest.mark.parametrize("estimator", [MixtureVAEClassifier(), MixtureVAEClusterer()])
def test_unfitted_estimators_say_so(estimator: Any, tmp_path: Any) -> None:
    asks = ["predict", "predict_proba", "predict_log_proba", "transform", "score_samples", "bound"]
    for name in [*asks, "typicality", "expected_scales", "decode", "inverse_transform"]:
        with pytest.raises(NotFittedError, match=r"not fitted yet. Call 'fit'"):
            getattr(estimator, name)(X)
    for ask in (estimator.sample, estimator.get_feature_names_out):
        with pytest.raises(NotFittedError):
            ask()
    with pytest.raises(NotFittedError):
        estimator.save(tmp_path / "model")
    assert not list(tmp_path.iterdir())
    assert not hasattr(estimator, "weights_")
