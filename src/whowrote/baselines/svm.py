r"""Support vector machines on vectors, standardised, with probabilities by one temperature.

.. math:: s_k(x) = w_k^\top x + b_k
   \quad\text{or}\quad
   s_k(x) = \min_{j \ne k} f_{kj}(x), \qquad
   \log p(k \mid x) = s_k(x) / T - \log \sum_j \exp(s_j(x) / T)

Rows (n, L) and the names of their classes go in; names and probabilities come out. The linear SVM
scores each class against the rest. The RBF SVM compares every pair of classes and scores a class by
its minimum pairwise margin: a class that wins all its comparisons is the answer, as with the usual
votes, but the score is a margin and not a count, so that a temperature can calibrate it.

A temperature cannot change the order of the classes, so a calibrated SVM answers exactly what the
uncalibrated one answers: ``predict`` is the argmax of the scores, and so of ``predict_proba``. That
is why it is used here and Platt's sigmoid per class is not. *T* minimises the log-loss on
cross-validated scores, smoothed (:func:`whowrote.metrics.smoothed_targets`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Self, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from whowrote.arrays import FloatArray
from whowrote.checks import computable, two_classes
from whowrote.errors import InputError
from whowrote.metrics import smoothed_targets


@dataclass(frozen=True)
class Encoded:
    """Sorted names of the classes, and each row's number among them."""

    classes: NDArray[Any]
    codes: NDArray[np.intp]


def encode(y: ArrayLike) -> Encoded:
    """Number the classes in the order of their names; there must be at least two.

    >>> encode(["bob", "ann", "bob"]).codes.tolist()
    [1, 0, 1]
    """
    check_classification_targets(y)
    classes, codes = np.unique(np.asarray(y), return_inverse=True)
    two_classes(classes)
    return Encoded(classes, codes.astype(np.intp))


LOG_BOUNDS = (-7.0, 7.0)


def log_probabilities(scores: FloatArray, temperature: float) -> FloatArray:
    """Row-wise log-softmax of ``scores / temperature``."""
    return np.asarray(log_softmax(scores / temperature, axis=1), dtype=np.float64)


def fit_temperature(scores: FloatArray, codes: NDArray[np.intp]) -> float:
    """Minimise the smoothed log-loss over log T; it is convex in 1/T, so the minimum is one.

    >>> rng = np.random.default_rng(0)
    >>> scores = rng.normal(size=(5000, 3))
    >>> codes = np.array([rng.choice(3, p=np.exp(row)) for row in log_probabilities(scores, 0.5)])
    >>> abs(fit_temperature(scores, codes) - 0.5) < 0.05
    True
    """
    targets = smoothed_targets(codes, scores.shape[1])

    def loss(log_temperature: float) -> float:
        log_proba = log_probabilities(scores, float(np.exp(log_temperature)))
        return -float(np.sum(targets * log_proba) / len(codes))

    return float(np.exp(minimize_scalar(loss, bounds=LOG_BOUNDS, method="bounded").x))


def cross_scores(
    score: Callable[[Any, NDArray[np.intp], Any], FloatArray],
    X: Any,
    codes: NDArray[np.intp],
    *,
    n_folds: int,
    random_state: int | None,
) -> FloatArray:
    """Scores of every row from a model that has not seen it: ``score(X_train, y_train, X_test)``.

    An author with fewer rows than folds lowers the number of folds; one row alone is an error.
    """
    counts = np.bincount(codes)
    if counts.min() < 2:
        raise InputError(
            f"class number {int(counts.argmin())} has {counts.min()} row; calibrated "
            "probabilities need at least 2 of each class: add texts or set probability=False"
        )
    folder = StratifiedKFold(
        min(n_folds, int(counts.min())), shuffle=True, random_state=random_state
    )
    scores = np.empty((len(codes), len(counts)))
    for train, test in folder.split(codes, codes):
        scores[test] = score(X[train], codes[train], X[test])
    return scores


def two_columns(scores: FloatArray) -> FloatArray:
    """Scikit-learn gives two classes one column of scores; give each class its own."""
    return np.column_stack([-scores, scores]) if scores.ndim == 1 else scores


def wants_probability(svm: Any) -> bool:
    """Hide ``predict_proba`` where ``probability=False``, as scikit-learn does."""
    if not svm.probability:
        raise AttributeError(
            f"{type(svm).__name__}(probability=False) has no probabilities: set "
            "probability=True and fit again"
        )
    return True


Method = TypeVar("Method", bound=Callable[..., Any])


def if_calibrated(method: Method) -> Method:
    """``available_if`` with types: the method exists where ``probability`` is asked for."""
    return cast(Method, available_if(wants_probability)(method))


class _VectorSVM(ClassifierMixin, BaseEstimator):
    """Fit on all rows, temperature on cross-validated scores, answer by argmax."""

    C: float
    probability: bool
    cv: int
    random_state: int | None

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit the SVM on all rows and, with ``probability``, its temperature."""
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_all_finite=False)
        computable(X)
        labels = encode(y)
        self.classes_, codes = labels.classes, labels.codes
        self.svm_ = self._svm().fit(X, codes)
        if self.probability:
            scores = cross_scores(
                lambda X, y, new: self._scores(self._svm().fit(X, y), new),
                X,
                codes,
                n_folds=self.cv,
                random_state=self.random_state,
            )
            self.temperature_ = fit_temperature(scores, codes)
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Name the class with the largest score."""
        best = self._checked_scores(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    @if_calibrated
    def predict_log_proba(self, X: ArrayLike) -> FloatArray:
        """Log-probabilities, one column per class of ``classes_``."""
        return log_probabilities(self._checked_scores(X), self.temperature_)

    @if_calibrated
    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Probabilities, one column per class of ``classes_``."""
        return np.asarray(np.exp(self.predict_log_proba(X)))

    def _checked_scores(self, X: ArrayLike) -> FloatArray:
        check_is_fitted(self)
        rows = validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite=False)
        computable(rows)
        return self._scores(self.svm_, rows)

    def _svm(self) -> Any:
        raise NotImplementedError

    def _scores(self, svm: Any, X: FloatArray) -> FloatArray:
        raise NotImplementedError


class LinearSVM(_VectorSVM):
    """Linear SVM, one class against the rest.

    >>> X = [[0.0], [0.2], [0.1], [1.0], [1.2], [1.1]]
    >>> LinearSVM().fit(X, ["ann"] * 3 + ["bob"] * 3).predict([[0.0], [1.3]]).tolist()
    ['ann', 'bob']
    """

    def __init__(
        self,
        C: float = 0.1,
        *,
        probability: bool = True,
        cv: int = 5,
        random_state: int | None = 0,
    ) -> None:
        self.C = C
        self.probability = probability
        self.cv = cv
        self.random_state = random_state

    def _svm(self) -> Any:
        svc = LinearSVC(C=self.C, max_iter=100_000, random_state=self.random_state)
        return make_pipeline(StandardScaler(), svc)

    def _scores(self, svm: Any, X: FloatArray) -> FloatArray:
        return two_columns(svm.decision_function(X))


class RBFSVM(_VectorSVM):
    """SVM with a Gaussian kernel, one class against another.

    ``gamma="auto"`` is one over the number of columns, which suits standardised columns.
    """

    def __init__(
        self,
        C: float = 1.0,
        gamma: float | str = "auto",
        *,
        probability: bool = True,
        cv: int = 5,
        random_state: int | None = 0,
    ) -> None:
        self.C = C
        self.gamma = gamma
        self.probability = probability
        self.cv = cv
        self.random_state = random_state

    def _svm(self) -> Any:
        svc = SVC(C=self.C, gamma=self.gamma, decision_function_shape="ovo", cache_size=500)
        return make_pipeline(StandardScaler(), svc)

    def _scores(self, svm: Any, X: FloatArray) -> FloatArray:
        return minimum_margins(svm.decision_function(X), len(svm.classes_))


def minimum_margins(pairs: FloatArray, n_classes: int) -> FloatArray:
    """Minimum pairwise margin of each class: the smallest one against any other class.

    >>> minimum_margins(np.array([[2.0, 1.0, -1.0]]), 3).tolist()
    [[1.0, -2.0, -1.0]]
    """
    if n_classes == 2:
        return two_columns(pairs.ravel())
    scores = np.full((len(pairs), n_classes), np.inf)
    for column, (first, second) in enumerate(combinations(range(n_classes), 2)):
        scores[:, first] = np.minimum(scores[:, first], pairs[:, column])
        scores[:, second] = np.minimum(scores[:, second], -pairs[:, column])
    return scores
