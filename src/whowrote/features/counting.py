r"""Which n-grams texts have, how rare each is, and rows of them.

.. math:: \text{tf-idf}_{ij} \propto (1 + \log n_{ij})
    \left(1 + \log \tfrac{1 + N}{1 + \text{df}_j}\right)

An n-gram is known by a 64-bit hash (:mod:`whowrote.features.hashing`), so what has been learnt
holds no text, and whole arrays of n-grams are counted at once: the rows are those of scikit-learn's
vectoriser in another order of columns, several times faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from whowrote.features.hashing import (
    Keys,
    character_grams,
    spelled_characters,
    spelled_words,
    word_grams,
)
from whowrote.features.interface import checked_texts
from whowrote.progress import tell

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


@dataclass(frozen=True)
class FittedNGrams:
    """The n-grams of all kinds that have a column: what is needed to read texts."""

    blocks_: tuple[Block, ...]

    def transform(self, X: Sequence[str]) -> sparse.csr_matrix:
        """One sparse row per text, the blocks side by side."""
        texts = checked_texts(X)
        return sparse.csr_matrix(sparse.hstack([block.rows(texts) for block in self.blocks_]))

    def state(self) -> dict[str, NDArray[Any]]:
        """What was learnt, as arrays for a model file."""
        keys = {f"{block.kind}.keys": block.keys.view(np.int64) for block in self.blocks_}
        return keys | {f"{block.kind}.idf": block.idf for block in self.blocks_}

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]]) -> Self:
        """The opposite of :meth:`state`."""
        found = {kind: (state[f"{kind}.keys"], state[f"{kind}.idf"]) for kind in KINDS}
        return cls(tuple(Block(kind, k.view(np.uint64), idf) for kind, (k, idf) in found.items()))
