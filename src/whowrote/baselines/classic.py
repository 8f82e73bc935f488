"""Classic attribution on texts: the n-gram SVM and Burrows' Delta."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.svm import LinearSVC
from sklearn.utils.validation import check_is_fitted

from whowrote.arrays import FloatArray
from whowrote.baselines.svm import (
    cross_scores,
    encode,
    fit_temperature,
    if_calibrated,
    log_probabilities,
    two_columns,
)
from whowrote.errors import InputError
from whowrote.features.interface import checked_texts, text_tags
from whowrote.features.ngrams import MAX_FEATURES, NGrams


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
