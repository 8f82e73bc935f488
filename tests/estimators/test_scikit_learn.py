"""The contract of the ecosystem, the contract of the house, and what users do with both."""

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import contract
from whowrote import MixtureVAEClassifier, MixtureVAEClusterer

# In float64: the checks compare answers at 1e-7, the rounding of float32.
SMALL: dict[str, Any] = {
    "hidden": 8,
    "learning_rate": 0.02,
    "max_epochs": 8,
    "batch_size": 32,
    "warm_up": 2,
    "dropout": 0.0,
    "average": 0.0,
    "dtype": "float64",
    "random_state": 0,
}
CLUSTERING: dict[str, Any] = {"hidden": 64, "learning_rate": 0.005, "warm_up": 15}
SPARSE = "takes sparse rows, but scikit-learn asks for classifier tags wherever predict_proba is"
REPEATED = "learns from random batches: weights and repeated rows agree in expectation"
EXPECTED_FAILURES = {
    "MixtureVAEClassifier": {
        "check_sample_weight_equivalence_on_dense_data": REPEATED,
        "check_sample_weight_equivalence_on_sparse_data": REPEATED,
    },
    "MixtureVAEClusterer": {
        "check_estimator_sparse_array": SPARSE,
        "check_estimator_sparse_matrix": SPARSE,
    },
}


@pytest.mark.filterwarnings("ignore::whowrote.errors.ClusterWarning")  # so short a fit may merge
@parametrize_with_checks(
    [  # of the interface, which the component does not touch: each component once
        MixtureVAEClassifier("student-t", **SMALL),
        MixtureVAEClusterer(3, component="gaussian", **SMALL | CLUSTERING),
    ],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES[type(estimator).__name__],
)
def test_scikit_learns_own_checks(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


def vectors(n: int = 90) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    centers = np.array([[0.0, 0.0, 0.0, 0.0], [2.0, 0.0, 1.0, 0.0], [0.0, 2.0, 0.0, 1.0]])
    return centers[y] + rng.standard_normal((n, 4)), np.array(["ann", "bob", "cyd"])[y]


def test_contract_of_all_classifiers(component: str, quick: dict[str, Any]) -> None:
    contract.check_contract(lambda: MixtureVAEClassifier(component, **quick), *vectors())


def test_grid_search(blobs: Any, quick: dict[str, Any]) -> None:
    grid = {"component": ["student-t", "gaussian"], "latent_dim": [1, 3]}
    search = GridSearchCV(MixtureVAEClassifier(**quick), grid, cv=2, n_jobs=1)
    search.fit(blobs.X, blobs.y)
    assert search.best_estimator_.transform(blobs.X).shape[1] == search.best_params_["latent_dim"]
    assert search.best_score_ > 0.9


def test_cross_validation_in_a_pipeline(blobs: Any, quick: dict[str, Any]) -> None:
    line = make_pipeline(StandardScaler(), MixtureVAEClassifier(**quick))
    scores = cross_validate(line, blobs.X, blobs.y, cv=3, scoring=("accuracy", "neg_log_loss"))
    assert scores["test_accuracy"].min() > 0.9
    assert scores["test_neg_log_loss"].min() > -0.5


@pytest.mark.filterwarnings("ignore::whowrote.errors.ClusterWarning")  # so short a fit may merge
def test_cross_validation_of_a_clusterer_scores_held_out_density(
    blobs: Any, quick_for_both: dict[str, Any]
) -> None:
    scores = cross_validate(MixtureVAEClusterer(3, warm_up=2, **quick_for_both), blobs.X, cv=2)
    assert np.isfinite(scores["test_score"]).all()


def test_clones_are_unfitted_and_equal(model: Any) -> None:
    twin = clone(model)
    assert twin.get_params() == model.get_params()
    assert not hasattr(twin, "fleet_")


def through_joblib(model: Any) -> Any:
    buffer = io.BytesIO()
    joblib.dump(model, buffer)
    buffer.seek(0)
    return joblib.load(buffer)


@pytest.mark.parametrize(
    "copied", [lambda model: pickle.loads(pickle.dumps(model)), through_joblib, copy.deepcopy]
)
def test_copies_answer_the_same(
    copied: Callable[[Any], Any], ensemble: MixtureVAEClassifier, blobs: Any
) -> None:
    twin = copied(ensemble)
    for ask in ("predict", "predict_proba", "score_samples", "transform", "typicality"):
        np.testing.assert_array_equal(getattr(twin, ask)(blobs.X), getattr(ensemble, ask)(blobs.X))
    assert twin.history_ == ensemble.history_


def test_a_copy_shares_no_memory(ensemble: MixtureVAEClassifier, blobs: Any) -> None:
    twin = copy.deepcopy(ensemble)
    twin.fleet_.mixture.loc.data += 1.0
    assert not np.allclose(twin.means_, ensemble.means_)
