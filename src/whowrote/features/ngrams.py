r"""Sparse rows of character and word n-grams: :math:`\text{texts} \to (\text{tf-idf}_{ij})`.

Character 2-4-grams beside word or mark 1-2-grams, each block of unit length. The case of letters is
kept: it is style. N-grams of fewer than ``min_df`` texts are dropped; with "auto" the limits are 5
(characters) and 3 (words), and sink to 2 and 1 where texts are few. ``readings`` adds the same of
the text with its rarer words masked, and of its bare lower-case words. How n-grams are counted and
weighed is in :mod:`whowrote.features.counting`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from whowrote.errors import InputError
from whowrote.features.counting import READINGS, Block, FittedNGrams, counted_once, kinds_of
from whowrote.features.interface import checked_texts, text_tags

MIN_DF = ((200, (5, 3)), (8, (2, 2)), (0, (1, 1)))
"""From so many texts on, n-grams must be in so many texts: of characters, of words."""
MAX_FEATURES = (150_000, 80_000)


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
        readings: tuple[str, ...] = ("written",),
    ) -> None:
        self.min_df = min_df
        self.max_features = max_features
        self.readings = readings

    def fit(self, X: Sequence[str], y: Any = None) -> Self:
        """Learn which n-grams there are and how rare each is."""
        texts = checked_texts(X)
        limits = _limits(len(texts), self.min_df)
        grams = tuple(
            Block.learn(kind, texts, least, most)
            for reading in self._readings()
            for kind, least, most in zip(kinds_of(reading), limits, self.max_features, strict=True)
        )
        if not sum(len(block.keys) for block in grams):
            raise InputError(
                f"no n-gram is in as many texts as min_df asks {limits}; add texts or lower "
                "min_df, for example to (1, 1)"
            )
        min_df = self.min_df if isinstance(self.min_df, str) else list(self.min_df)
        settings: dict[str, Any] = {"min_df": min_df, "max_features": list(self.max_features)}
        if tuple(self.readings) != ("written",):
            settings["readings"] = list(self.readings)
        self.fitted_ = FittedNGrams(grams, settings)
        return self

    def _readings(self) -> tuple[str, ...]:
        unknown = [name for name in self.readings if name not in READINGS]
        if unknown or not self.readings:
            raise InputError(
                f"readings is {tuple(self.readings)}; it must name some of {', '.join(READINGS)}: "
                'give ("written",)'
            )
        return tuple(name for name in READINGS if name in self.readings)

    def fit_transform(self, X: Sequence[str], y: Any = None, **_: Any) -> sparse.csr_matrix:
        """Fit and transform; texts are counted once, as far as memory goes."""
        with counted_once():
            return self.fit(X).transform(X)

    def transform(self, X: Sequence[str]) -> sparse.csr_matrix:
        """One sparse row per text."""
        return self.fitted().transform(X)

    def fitted(self) -> FittedNGrams:
        """The n-grams that have a column."""
        check_is_fitted(self, "fitted_")
        return self.fitted_

    def as_new(self, rows: sparse.csr_matrix, document: NDArray[Any]) -> sparse.csr_matrix:
        r"""Training rows as they would be had their text not been there when the columns were made.

        A text that was learnt from has n-grams that are known because of it alone, and it made its
        others less rare; a new text did neither. A column stays where enough passages of *other*
        texts have it, weighed by :math:`1 + \log(N / \text{df})`; blocks are again of unit length.
        """
        n, blocks = rows.shape[0], self.fitted().grams
        total = np.bincount(rows.indices, minlength=rows.shape[1])
        limits = _limits(n, self.min_df) * (len(blocks) // 2)
        least = np.repeat(limits, [len(block.keys) for block in blocks])
        idf = np.concatenate([block.idf for block in blocks])
        rarity = (1.0 + np.log(n / np.maximum(total, 1))) / idf
        known = total[rows.indices] - _passages_with(rows, document) >= least[rows.indices]
        # The pattern is that of the rows and is shared with them: only the numbers are new.
        data = np.where(known, rows.data * rarity[rows.indices], 0.0)
        new = sparse.csr_matrix((data, rows.indices, rows.indptr), shape=rows.shape)
        _to_unit_blocks(new, np.array(self._edges()))
        return new

    def _edges(self) -> list[int]:
        """Where the columns of each block begin, and the end."""
        return list(accumulate((len(block.keys) for block in self.fitted().grams), initial=0))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """``characters__<hash>`` and ``words__<hash>``; :meth:`names_in` tells what they mean."""
        names = [f"{block.kind}__{key:016x}" for block in self.fitted().grams for key in block.keys]
        return np.array(names, dtype=object)

    def names_in(self, text: str) -> dict[int, str]:
        """What the columns mean: those that a text has, with the n-gram as written there.

        >>> features = NGrams().fit(["no, no", "yes, yes"])
        >>> sorted(set(features.names_in("so, no").values()) & {"no", ", no", "so"})
        [', no', 'no']
        """
        names: dict[int, str] = {}
        first = 0
        for block in self.fitted().grams:
            names |= {first + column: name for column, name in block.names_in(text).items()}
            first += len(block.keys)
        return names

    def __sklearn_tags__(self) -> Any:
        return text_tags(super().__sklearn_tags__(), fitted=True)


def _passages_with(rows: sparse.csr_matrix, document: NDArray[Any]) -> NDArray[np.int32]:
    """For each entry: how many rows of its document have its column.

    >>> rows = sparse.csr_matrix([[1.0, 0.0], [1.0, 1.0], [1.0, 0.0]])
    >>> _passages_with(rows, np.array([0, 0, 1])).tolist()
    [2, 2, 1, 1]
    """
    found = np.ones(rows.nnz, dtype=np.int32)
    seen = np.zeros(rows.shape[1], dtype=np.int32)
    order = np.argsort(document, kind="stable")
    for own in np.split(order, np.flatnonzero(np.diff(document[order])) + 1):
        if len(own) < 2:
            continue
        slices = [slice(rows.indptr[row], rows.indptr[row + 1]) for row in own]
        for part in slices:  # a row has a column once
            seen[rows.indices[part]] += 1
        for part in slices:
            found[part] = seen[rows.indices[part]]
        for part in slices:
            seen[rows.indices[part]] = 0
    return found


def _to_unit_blocks(rows: sparse.csr_matrix, edges: NDArray[np.intp]) -> None:
    """Bring each block of columns of each row to unit length, in place."""
    for row in range(rows.shape[0]):
        part = slice(rows.indptr[row], rows.indptr[row + 1])
        block = np.searchsorted(edges, rows.indices[part], side="right") - 1
        data = rows.data[part]
        lengths = np.sqrt(np.bincount(block, data * data, minlength=len(edges)))
        data /= np.where(lengths > 0, lengths, 1.0)[block]


def _limits(n_texts: int, min_df: tuple[int, int] | str) -> tuple[int, int]:
    if not isinstance(min_df, str):
        return min_df
    if min_df != "auto":
        raise InputError(
            f"min_df is {min_df!r}; it must be 'auto' or two whole numbers, for "
            "characters and for words: give (5, 3)"
        )
    return next(limits for size, limits in MIN_DF if n_texts >= size)
