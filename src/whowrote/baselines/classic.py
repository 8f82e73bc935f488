r"""Support vector machines on vectors and on texts, and Burrows' Delta.

All are standardised, and their probabilities come by one temperature.

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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Self, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.feature_extraction.text import CountVectorizer
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
from whowrote.features.interface import checked_texts, text_tags
from whowrote.features.ngrams import MAX_FEATURES, NGrams
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


def _checked_pairs(X: Any, y: ArrayLike) -> list[str]:
    texts, n_labels = checked_texts(X), len(np.asarray(y))
    if len(texts) != n_labels:
        raise InputError(
            f"y has {n_labels} entries for {len(texts)} texts; there must be one author per text: "
            "give both lists in the same order"
        )
    return texts


class _TextClassifier(ClassifierMixin, BaseEstimator):
    """Names of classes and the answer by argmax; scores are the subclass's."""

    classes_: NDArray[Any]

    def predict(self, X: Sequence[str]) -> NDArray[Any]:
        """Name the class with the largest score."""
        check_is_fitted(self)
        return np.asarray(self.classes_[self._scores(checked_texts(X)).argmax(axis=1)])

    def _scores(self, texts: list[str]) -> FloatArray:
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        return text_tags(super().__sklearn_tags__(), fitted=True)


class NGramSVM(_TextClassifier):
    r"""TF-IDF of character 2-4-grams and word or mark 1-2-grams into a linear SVM.

    .. math:: \text{tf-idf}_{ij} \propto (1 + \log n_{ij})
        \left(1 + \log \tfrac{1 + N}{1 + \text{df}_j}\right), \qquad
        s_k(x) = w_k^\top x + b_k

    The case of letters is kept: it is style. N-grams of fewer than ``min_df`` texts are dropped;
    with "auto" the limits are 5 (characters) and 3 (words), and sink where texts are few. The
    vectoriser is fitted once. The SVM is fitted on all rows for the answer, and on ``cv``
    folds of the same rows for the temperature of the probabilities, which costs no accuracy.

    >>> texts = ["I walk, and I sing."] * 3 + ["We went home; we slept!"] * 3
    >>> NGramSVM(probability=False).fit(texts, [1, 1, 1, 2, 2, 2]).predict(["We sang; we left!"])
    array([2])
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        min_df: tuple[int, int] | str = "auto",
        max_features: tuple[int, int] = MAX_FEATURES,
        probability: bool = True,
        cv: int = 3,
        random_state: int | None = 0,
    ) -> None:
        self.C = C
        self.min_df = min_df
        self.max_features = max_features
        self.probability = probability
        self.cv = cv
        self.random_state = random_state

    def fit(self, X: Sequence[str], y: ArrayLike) -> Self:
        """Learn the n-grams, the SVM and, with ``probability``, its temperature."""
        texts = _checked_pairs(X, y)
        labels = encode(y)
        self.classes_, codes = labels.classes, labels.codes
        self.ngrams_ = NGrams(min_df=self.min_df, max_features=self.max_features)
        rows = self.ngrams_.fit_transform(texts)
        self.svm_ = self._svm().fit(rows, codes)
        if self.probability:
            self.temperature_ = fit_temperature(self._cross_scores(rows, codes), codes)
        return self

    @if_calibrated
    def predict_log_proba(self, X: Sequence[str]) -> FloatArray:
        """Log-probabilities, one column per class of ``classes_``."""
        check_is_fitted(self)
        return log_probabilities(self._scores(checked_texts(X)), self.temperature_)

    @if_calibrated
    def predict_proba(self, X: Sequence[str]) -> FloatArray:
        """Probabilities, one column per class of ``classes_``."""
        return np.asarray(np.exp(self.predict_log_proba(X)))

    def _svm(self) -> LinearSVC:
        return LinearSVC(C=self.C, dual=True, random_state=self.random_state)

    def _cross_scores(self, rows: sparse.csr_matrix, codes: NDArray[np.intp]) -> FloatArray:
        return cross_scores(
            lambda X, y, new: two_columns(self._svm().fit(X, y).decision_function(new)),
            rows,
            codes,
            n_folds=self.cv,
            random_state=self.random_state,
        )

    def _scores(self, texts: list[str]) -> FloatArray:
        return two_columns(self.svm_.decision_function(self.ngrams_.transform(texts)))


class BurrowsDelta(_TextClassifier):
    r"""Nearest author by Burrows' Delta over the most frequent words.

    .. math:: \Delta_k(x) = \frac{1}{J} \sum_{j=1}^{J} |z_j(x) - \bar z_{kj}|, \qquad
        z_j = (f_j - \mu_j) / \sigma_j, \qquad
        p(k \mid x) = \Delta_k^{-1} \Big/ \sum_l \Delta_l^{-1}

    :math:`f_j` is the share of word *j* in a text, :math:`\mu_j` and :math:`\sigma_j` its mean and
    spread over the training texts, :math:`\bar z_k` the mean of author *k*'s texts. The
    probabilities are normalised nearness, not a softmax and not calibrated: they rank the authors
    and are flatter than the truth. Delta was made for texts of some thousand words (Burrows, 2002).

    >>> texts = ["the cat and the dog", "the cat and a dog", "of mice, of men", "of mice or men"]
    >>> BurrowsDelta().fit(texts, list("aabb")).predict(["the hen and the fox"]).tolist()
    ['a']
    """

    def __init__(self, n_words: int = 150) -> None:
        self.n_words = n_words

    def fit(self, X: Sequence[str], y: ArrayLike) -> Self:
        """Learn the frequent words, their means and spreads, and each author's centre."""
        texts = _checked_pairs(X, y)
        labels = encode(y)
        self.classes_, codes = labels.classes, labels.codes
        if self.n_words < 1:
            raise InputError(f"n_words is {self.n_words}; it must be at least 1: give 150")
        self.vectorizer_ = CountVectorizer(token_pattern=r"(?:\w|')+", max_features=self.n_words)
        self.vectorizer_.fit(texts)
        shares = self._shares(texts)
        self.mean_, spread = shares.mean(axis=0), shares.std(axis=0)
        self.scale_ = np.where(spread > 0.0, spread, 1.0)
        z = (shares - self.mean_) / self.scale_
        self.centers_ = np.stack([z[codes == k].mean(axis=0) for k in range(len(self.classes_))])
        return self

    def predict_log_proba(self, X: Sequence[str]) -> FloatArray:
        """Log of the normalised nearness, one column per class of ``classes_``."""
        check_is_fitted(self)
        return np.asarray(log_softmax(self._scores(checked_texts(X)), axis=1), dtype=np.float64)

    def predict_proba(self, X: Sequence[str]) -> FloatArray:
        """Normalised nearness, one column per class of ``classes_``."""
        return np.asarray(np.exp(self.predict_log_proba(X)))

    def _shares(self, texts: list[str]) -> FloatArray:
        """Share of each frequent word among all words of its text."""
        analyze = self.vectorizer_.build_analyzer()
        lengths = np.array([max(1, len(analyze(text))) for text in texts])
        return np.asarray(self.vectorizer_.transform(texts).toarray() / lengths[:, None])

    def _scores(self, texts: list[str]) -> FloatArray:
        """Minus log Delta; a text on an author's centre is as near as floats can tell."""
        z = (self._shares(texts) - self.mean_) / self.scale_
        delta = np.stack([np.abs(z - center).mean(axis=1) for center in self.centers_], axis=1)
        return np.asarray(-np.log(np.maximum(delta, np.finfo(np.float64).tiny)))
