r"""Sparse rows of character and word n-grams.

.. math:: \text{tf-idf}_{ij} \propto (1 + \log n_{ij})
    \left(1 + \log \tfrac{1 + N}{1 + \text{df}_j}\right)

Character 2-4-grams beside word or mark 1-2-grams, each block of unit length. The case of letters is
kept: it is style. N-grams of fewer than ``min_df`` texts are dropped; with "auto" the limits are 5
(characters) and 3 (words), and sink to 1 where texts are few.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import FeatureUnion
from sklearn.utils.validation import check_is_fitted

from whowrote.errors import InputError
from whowrote.features.interface import checked_texts, text_tags

WORD_OR_MARK = r"\w+|[^\w\s]"
MIN_DF = ((200, (5, 3)), (20, (2, 1)), (0, (1, 1)))
"""From so many texts on, n-grams must be in so many texts: of characters, of words."""
MAX_FEATURES = (150_000, 80_000)


def ngram_vectorizer(
    n_texts: int,
    min_df: tuple[int, int] | str = "auto",
    max_features: tuple[int, int] = MAX_FEATURES,
) -> FeatureUnion:
    """The vectoriser for so many texts; pairs of limits are for characters and for words."""
    characters_df, words_df = _limits(n_texts, min_df)
    shared = {"sublinear_tf": True, "lowercase": False}
    characters = TfidfVectorizer(
        analyzer="char",
        ngram_range=(2, 4),
        min_df=characters_df,
        max_features=max_features[0],
        **shared,
    )
    words = TfidfVectorizer(
        token_pattern=WORD_OR_MARK,
        ngram_range=(1, 2),
        min_df=words_df,
        max_features=max_features[1],
        **shared,
    )
    return FeatureUnion([("characters", characters), ("words", words)])


def _limits(n_texts: int, min_df: tuple[int, int] | str) -> tuple[int, int]:
    if not isinstance(min_df, str):
        return min_df
    if min_df != "auto":
        raise InputError(
            f"min_df is {min_df!r}; it must be 'auto' or two whole numbers, for "
            "characters and for words: give (5, 3)"
        )
    return next(limits for size, limits in MIN_DF if n_texts >= size)


class NGrams(TransformerMixin, BaseEstimator):
    """Character and word n-grams as a feature set.

    >>> rows = NGrams().fit_transform(["I walk, and I sing.", "We went home; we slept!"])
    >>> rows.shape[0], rows.format
    (2, 'csr')
    """

    def __init__(
        self,
        *,
        min_df: tuple[int, int] | str = "auto",
        max_features: tuple[int, int] = MAX_FEATURES,
    ) -> None:
        self.min_df = min_df
        self.max_features = max_features

    def fit(self, X: Sequence[str], y: Any = None) -> Self:
        """Learn which n-grams there are and how rare each is."""
        self.fit_transform(X)
        return self

    def fit_transform(self, X: Sequence[str], y: Any = None, **_: Any) -> sparse.csr_matrix:
        """Fit and transform in one pass over the texts."""
        texts = checked_texts(X)
        self.vectorizer_ = ngram_vectorizer(len(texts), self.min_df, self.max_features)
        return self._rows(self.vectorizer_.fit_transform, texts)

    def transform(self, X: Sequence[str]) -> sparse.csr_matrix:
        """One sparse row per text."""
        check_is_fitted(self)
        return self._rows(self.vectorizer_.transform, checked_texts(X))

    def _rows(self, make: Any, texts: list[str]) -> sparse.csr_matrix:
        try:
            return sparse.csr_matrix(make(texts))
        except ValueError as problem:
            raise InputError(
                f"no n-gram is in as many texts as min_df asks ({problem}); add texts or lower "
                "min_df, for example to (1, 1)"
            ) from None

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """``characters__<n-gram>`` and ``words__<n-gram>``."""
        check_is_fitted(self)
        names: NDArray[Any] = self.vectorizer_.get_feature_names_out()
        return names

    def __sklearn_tags__(self) -> Any:
        return text_tags(super().__sklearn_tags__(), fitted=True)
