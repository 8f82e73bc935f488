"""What every classifier of the package promises, as plain functions of an estimator's factory.

``check_contract(factory, X, y)`` runs all of them; X is an array of vectors or a list of texts.
"""

import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

Factory = Callable[[], Any]


def take(X: Any, rows: Sequence[int]) -> Any:
    return X[list(rows)] if isinstance(X, np.ndarray) else [X[row] for row in rows]


def check_clone_and_params(factory: Factory) -> None:
    estimator = factory()
    params = estimator.get_params()
    twin = clone(estimator)
    assert twin is not estimator
    assert twin.get_params() == params
    assert type(estimator)().set_params(**params).get_params() == params
    with pytest.raises(ValueError, match="Invalid parameter"):
        estimator.set_params(no_such_parameter=1)


def check_fit_returns_self_and_leaves_params(factory: Factory, X: Any, y: Any) -> None:
    estimator = factory()
    before = dict(estimator.get_params())
    assert estimator.fit(X, y) is estimator
    assert estimator.get_params() == before
    assert estimator.classes_.tolist() == sorted(set(np.asarray(y).tolist()))


def check_probabilities(factory: Factory, X: Any, y: Any) -> None:
    model = factory().fit(X, y)
    proba, log_proba = model.predict_proba(X), model.predict_log_proba(X)
    assert proba.shape == (len(X), len(model.classes_))
    assert (proba >= 0.0).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-9)
    np.testing.assert_allclose(np.exp(log_proba), proba, rtol=1e-9, atol=1e-300)
    answers = model.predict(X)
    assert answers.tolist() == model.classes_[proba.argmax(axis=1)].tolist()


def check_beats_chance(factory: Factory, X: Any, y: Any) -> None:
    y = np.asarray(y)
    train, test = range(0, len(y), 2), range(1, len(y), 2)
    right = factory().fit(take(X, train), y[list(train)]).score(take(X, test), y[list(test)])
    assert right > 1.5 / len(np.unique(y))


def check_permuted_names_permute_columns(
    factory: Factory, X: Any, y: Any, *, atol: float = 1e-3
) -> None:
    y = np.asarray(y)
    names = np.unique(y)
    renamed = dict(zip(names.tolist(), np.roll(names, 1).tolist(), strict=True))
    plain = factory().fit(X, y)
    other = factory().fit(X, np.array([renamed[name] for name in y.tolist()]))
    columns = [other.classes_.tolist().index(renamed[name]) for name in plain.classes_.tolist()]
    np.testing.assert_allclose(
        other.predict_proba(X)[:, columns], plain.predict_proba(X), atol=atol
    )


def check_same_seed_same_answer(factory: Factory, X: Any, y: Any) -> None:
    first, second = factory().fit(X, y), factory().fit(X, y)
    np.testing.assert_array_equal(first.predict_proba(X), second.predict_proba(X))


def check_string_and_integer_labels_agree(factory: Factory, X: Any, y: Any) -> None:
    classes, codes = np.unique(np.asarray(y), return_inverse=True)
    words = np.array([f"author {code:03d}" for code in range(len(classes))])[codes]
    strings, integers = factory().fit(X, words), factory().fit(X, codes)
    assert integers.predict(X).dtype.kind == "i"
    assert strings.predict(X).dtype.kind in "UT"
    np.testing.assert_array_equal(strings.predict_proba(X), integers.predict_proba(X))


def check_two_classes(factory: Factory, X: Any, y: Any) -> None:
    y = np.asarray(y)
    rows = np.flatnonzero(np.isin(y, np.unique(y)[:2])).tolist()
    model = factory().fit(take(X, rows), y[rows])
    assert model.predict_proba(take(X, rows)).shape == (len(rows), 2)
    assert model.score(take(X, rows), y[rows]) > 0.6


def check_pickle(factory: Factory, X: Any, y: Any) -> None:
    model = factory().fit(X, y)
    twin = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(twin.predict_proba(X), model.predict_proba(X))


def check_errors(factory: Factory, X: Any, y: Any) -> None:
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        factory().predict(X)
    with pytest.raises(NotFittedError):
        factory().predict_proba(X)
    with pytest.raises(ValueError, match=r"one class only.*at least two"):
        factory().fit(X, ["solo"] * len(X))
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples|one author per text"):
        factory().fit(X, list(y)[:-1])
    model = factory().fit(X, y)
    if isinstance(X, np.ndarray):
        with pytest.raises(ValueError, match=r"features, but .* is expecting"):
            model.predict(X[:, :-1])
    else:
        with pytest.raises(ValueError, match="it must be a list of texts"):
            model.predict(X[0])


CHECKS = (
    check_fit_returns_self_and_leaves_params,
    check_probabilities,
    check_beats_chance,
    check_permuted_names_permute_columns,
    check_same_seed_same_answer,
    check_string_and_integer_labels_agree,
    check_two_classes,
    check_pickle,
    check_errors,
)


def check_contract(factory: Factory, X: Any, y: Any) -> None:
    """Run every check."""
    check_clone_and_params(factory)
    for check in CHECKS:
        check(factory, X, y)
