r"""Sparse rows of character and word n-grams.

.. math:: \text{tf-idf}_{ij} \propto (1 + \log n_{ij})
    \left(1 + \log \tfrac{1 + N}{1 + \text{df}_j}\right)

Character 2-4-grams beside word or mark 1-2-grams, each block of unit length. The case of letters is
kept: it is style. N-grams of fewer than ``min_df`` texts are dropped; with "auto" the limits are 5
(characters) and 3 (words), and sink to 2 and 1 where texts are few.

An n-gram is known by a 64-bit hash (:mod:`whowrote.features.hashing`), so what has been learnt
holds no text, and whole arrays of n-grams are counted at once: the rows are those of scikit-learn's
vectoriser in another order of columns, several times faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from whowrote.errors import InputError
from whowrote.features.hashing import (
    Keys,
    character_grams,
    spelled_characters,
    spelled_words,
    word_grams,
)
from whowrote.features.interface import checked_texts, text_tags
from whowrote.progress import tell

MIN_DF = ((200, (5, 3)), (8, (2, 2)), (0, (1, 1)))
"""From so many texts on, n-grams must be in so many texts: of characters, of words."""
MAX_FEATURES = (150_000, 80_000)
TEXTS_PER_SURVEY = 2000

FloatArray = NDArray[np.float64]
Kind = Callable[[str], Keys]
KINDS: dict[str, Kind] = {"characters": character_grams, "words": word_grams}
SPELLED = {"characters": spelled_characters, "words": spelled_words}


@dataclass(frozen=True)
class Survey:
    """Distinct n-grams of some texts, sorted: how many texts have each, and how often in all."""

    keys: Keys
    texts: NDArray[np.int64]
    times: NDArray[np.int64]

    def joined(self, other: Survey) -> Survey:
        """The survey of both sets of texts."""
        keys, place = np.unique(np.concatenate([self.keys, other.keys]), return_inverse=True)
        totals = []
        for mine, theirs in ((self.texts, other.texts), (self.times, other.times)):
            both = np.concatenate([mine, theirs])
            totals.append(np.bincount(place, both, len(keys)).astype(np.int64))
        return Survey(keys, *totals)


def counted(texts: Sequence[str], kind: Kind) -> Iterator[tuple[Keys, NDArray[np.int64]]]:
    """The distinct n-grams of each text and how often it has each."""
    for text in texts:
        yield np.unique(kind(text), return_counts=True)


def survey(texts: Sequence[str], kind: Kind) -> Survey:
    """Count all n-grams of the texts, some thousand texts at a time."""
    nothing = np.empty(0, dtype=np.int64)
    found = Survey(np.empty(0, dtype=np.uint64), nothing, nothing)
    for low in range(0, len(texts), TEXTS_PER_SURVEY):
        pairs = list(counted(texts[low : low + TEXTS_PER_SURVEY], kind))
        every = np.concatenate([keys for keys, _ in pairs])
        keys, place, n_texts = np.unique(every, return_inverse=True, return_counts=True)
        times = np.bincount(place, np.concatenate([counts for _, counts in pairs]), len(keys))
        found = found.joined(Survey(keys, n_texts, times.astype(np.int64)))
        tell("counting n-grams", min(low + TEXTS_PER_SURVEY, len(texts)), len(texts))
    return found


@dataclass(frozen=True)
class Block:
    """The n-grams of one kind that have a column, sorted, and how rare each is."""

    kind: str
    keys: Keys
    idf: FloatArray

    @classmethod
    def learn(cls, kind: str, texts: Sequence[str], min_df: int, most: int) -> Self:
        """Keep n-grams of at least ``min_df`` texts, and of those the ``most`` frequent."""
        found = survey(texts, KINDS[kind])
        kept = np.flatnonzero(found.texts >= min_df)
        if len(kept) > most:
            kept = np.sort(kept[np.argsort(-found.times[kept], kind="stable")[:most]])
        idf = 1.0 + np.log((1.0 + len(texts)) / (1.0 + found.texts[kept]))
        return cls(kind, found.keys[kept], idf)

    def rows(self, texts: Sequence[str]) -> sparse.csr_matrix:
        """One row of unit length per text; a text without a known n-gram has a row of zeros."""
        ends, columns, values = [0], [], []
        for keys, counts in counted(texts, KINDS[self.kind]):
            place, known = self._find(keys)
            column = place[known]
            value = (1.0 + np.log(counts[known])) * self.idf[column]
            ends.append(ends[-1] + len(column))
            columns.append(column.astype(np.int32))
            values.append(value / (np.linalg.norm(value) or 1.0))
        parts = (np.concatenate(values), np.concatenate(columns), np.array(ends))
        return sparse.csr_matrix(parts, shape=(len(texts), len(self.keys)))

    def names_in(self, text: str) -> dict[int, str]:
        """The columns of this block that a text has, and the n-gram of each as written there."""
        place, known = self._find(KINDS[self.kind](text))
        spelled = SPELLED[self.kind](text)
        return {int(place[i]): spelled[i] for i in np.flatnonzero(known)}

    def _find(self, keys: Keys) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Where each key would stand, and whether it does."""
        place = np.searchsorted(self.keys, keys)
        known = place < len(self.keys)
        known[known] = self.keys[place[known]] == keys[known]
        return place, known


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
        texts = checked_texts(X)
        limits = _limits(len(texts), self.min_df)
        self.blocks_ = tuple(
            Block.learn(kind, texts, least, most)
            for kind, least, most in zip(KINDS, limits, self.max_features, strict=True)
        )
        if not sum(len(block.keys) for block in self.blocks_):
            raise InputError(
                f"no n-gram is in as many texts as min_df asks {limits}; add texts or lower "
                "min_df, for example to (1, 1)"
            )
        return self

    def transform(self, X: Sequence[str]) -> sparse.csr_matrix:
        """One sparse row per text."""
        check_is_fitted(self)
        texts = checked_texts(X)
        return sparse.csr_matrix(sparse.hstack([block.rows(texts) for block in self.blocks_]))

    def as_new(self, rows: sparse.csr_matrix, document: NDArray[Any]) -> sparse.csr_matrix:
        r"""Training rows as they would be had their text not been there when the columns were made.

        A text that was learnt from has n-grams that are known because of it alone, and it made its
        others less rare; a new text did neither. A column stays where enough passages of *other*
        texts have it, weighed by :math:`1 + \log(N / \text{df})`; blocks are again of unit length.
        """
        from sklearn.preprocessing import normalize  # late: answers need none

        n = rows.shape[0]
        has = rows.copy()
        has.data = np.ones_like(has.data)
        total = np.asarray(has.sum(axis=0)).ravel()
        join = sparse.csr_matrix((np.ones(n), (document, np.arange(n))))
        own = sparse.csr_matrix((join @ has)[document].multiply(has))
        least = np.repeat(_limits(n, self.min_df), [len(block.keys) for block in self.blocks_])
        new = rows.copy()
        for matrix in (new, own):  # one pattern, so that entries go together
            matrix.sort_indices()
        column = new.indices
        known = total[column] - own.data >= least[column]
        idf = np.concatenate([block.idf for block in self.blocks_])
        rarity = 1.0 + np.log(n / np.maximum(total, 1.0))
        new.data = new.data * known * rarity[column] / idf[column]
        parts = [normalize(new[:, low:high]) for low, high in pairwise(self._edges())]
        return sparse.csr_matrix(sparse.hstack(parts, format="csr"))

    def _edges(self) -> list[int]:
        """Where the columns of each block begin, and the end."""
        return list(accumulate((len(block.keys) for block in self.blocks_), initial=0))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """``characters__<hash>`` and ``words__<hash>``; :meth:`names_in` tells what they mean."""
        check_is_fitted(self)
        names = [f"{block.kind}__{key:016x}" for block in self.blocks_ for key in block.keys]
        return np.array(names, dtype=object)

    def names_in(self, text: str) -> dict[int, str]:
        """What the columns mean: those that a text has, with the n-gram as written there.

        >>> features = NGrams().fit(["no, no", "yes, yes"])
        >>> sorted(set(features.names_in("so, no").values()) & {"no", ", no", "so"})
        [', no', 'no']
        """
        check_is_fitted(self)
        names: dict[int, str] = {}
        first = 0
        for block in self.blocks_:
            names |= {first + column: name for column, name in block.names_in(text).items()}
            first += len(block.keys)
        return names

    def state(self) -> dict[str, NDArray[Any]]:
        """What was learnt, as arrays for a model file."""
        check_is_fitted(self)
        keys = {f"{block.kind}.keys": block.keys.view(np.int64) for block in self.blocks_}
        return keys | {f"{block.kind}.idf": block.idf for block in self.blocks_}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> Self:
        """The opposite of :meth:`state`."""
        self.blocks_ = tuple(
            Block(kind, state[f"{kind}.keys"].view(np.uint64), state[f"{kind}.idf"])
            for kind in KINDS
        )
        return self

    def __sklearn_tags__(self) -> Any:
        return text_tags(super().__sklearn_tags__(), fitted=True)


def _limits(n_texts: int, min_df: tuple[int, int] | str) -> tuple[int, int]:
    if not isinstance(min_df, str):
        return min_df
    if min_df != "auto":
        raise InputError(
            f"min_df is {min_df!r}; it must be 'auto' or two whole numbers, for "
            "characters and for words: give (5, 3)"
        )
    return next(limits for size, limits in MIN_DF if n_texts >= size)
