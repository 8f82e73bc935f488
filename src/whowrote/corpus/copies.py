r"""Texts that are the same, or nearly: texts -> sets of rows, linked by shared shingles.

.. math:: J(a, b) = \frac{|S_a \cap S_b|}{|S_a \cup S_b|}, \qquad
    P(\min{}_j S_a = \min{}_j S_b) = J(a, b)

:math:`S` is the set of hashes of all runs of five words, and :math:`\min_j` its least hash among
those that fall into the j-th of 128 equal ranges (Li, Owen and Zhang, 2012: one permutation); a
range without any takes that of another (Shrivastava, 2017). Texts that agree in all rows of one
band of such minima are compared exactly. Where one copy trains and another is asked, the answer is
known beforehand; so copies lie on one side of every split.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SIMILARITY = 0.7
"""Texts that share so many of their shingles are nearly the same."""
_WORD = re.compile(r"\w+")
_SHINGLE = 5  # words; shorter ones are shared by chance
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # odd, from the golden ratio: spreads word hashes
_BINS = 128
_EDGES = (np.arange(_BINS + 1, dtype=np.uint64) << np.uint64(25)).astype(np.uint64)
_RECALL = 0.999
_MOST_ROWS = 8  # of a band
_MOST_COMPARED = 20  # texts of a band that one is compared with: templates fill whole bands
_BORROWED = np.random.default_rng(0).integers(0, _BINS, size=(64, _BINS))


@dataclass(frozen=True)
class Copies:
    """Rows that are linked as copies, sorted, and the lowest similarity of a link."""

    rows: tuple[int, ...]
    similarity: float


def near_copies(texts: Sequence[str], similarity: float = SIMILARITY) -> list[Copies]:
    """Sets of texts that share at least ``similarity`` of their shingles; a chain is one set.

    Case and punctuation do not count.

    >>> verse = "Tyger Tyger, burning bright, in the forests of the night"
    >>> near_copies([verse, "What immortal hand or eye", verse.upper() + "!"])
    [Copies(rows=(0, 2), similarity=1.0)]
    """
    hashes = _WordHashes()
    sketches = np.empty((len(texts), _BINS), dtype=np.uint32)
    sizes = np.empty(len(texts), dtype=np.intp)
    for row, text in enumerate(texts):
        found = shingles(text, hashes)
        sizes[row] = found.size
        sketches[row] = _sketch(found)
    sets = _Components()
    for row, other in _candidates(sketches, sizes, similarity, sets):
        share = jaccard(texts[row], texts[other], hashes)
        if share >= similarity:
            sets.join(row, other, share)
    return sets.found()


def _sketch(found: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The least of sorted hashes in each range; one without any borrows from a range drawn once."""
    if not found.size:
        return np.zeros(_BINS, dtype=np.uint32)
    starts = np.searchsorted(found, _EDGES)
    full = starts[:-1] < starts[1:]
    values = found[np.minimum(starts[:-1], found.size - 1)]
    if full.all():
        return values
    sources = _BORROWED[:, ~full]
    sources = sources[full[sources].argmax(axis=0), np.arange(sources.shape[1])]
    values[~full] = np.where(full[sources], values[sources], found[0])
    return values


def _candidates(
    sketches: NDArray[np.uint32], sizes: NDArray[np.intp], similarity: float, sets: _Components
) -> Iterator[tuple[int, int]]:
    """Pairs that agree in a band and, by their minima, may be similar enough; each once."""
    rows = np.flatnonzero(sizes)
    width = _band_width(similarity)
    compared: set[tuple[int, int]] = set()
    for band in range(_BINS // width):
        keys = np.ascontiguousarray(sketches[rows, band * width : (band + 1) * width])
        for bucket in _equal(keys):
            heads: list[int] = []
            for row in rows[bucket].tolist():
                near = _alike(sketches, sizes, row, heads, similarity)
                for other in near:
                    pair = (other, row)
                    if pair not in compared and sets.root(row) != sets.root(other):
                        compared.add(pair)
                        yield pair
                if len(heads) < _MOST_COMPARED and all(
                    sets.root(row) != sets.root(other) for other in heads
                ):
                    heads.append(row)


def _alike(
    sketches: NDArray[np.uint32],
    sizes: NDArray[np.intp],
    row: int,
    others: list[int],
    similarity: float,
) -> list[int]:
    """Those whose share of equal minima is within four standard errors of ``similarity``."""
    if not others:
        return []
    drawn = np.minimum(_BINS, np.maximum(sizes[row], sizes[others]))
    agreed = (sketches[others] == sketches[row]).mean(axis=1)
    low = similarity - 4 * np.sqrt(similarity * (1 - similarity) / drawn)
    return [other for other, near in zip(others, agreed >= low, strict=True) if near]


def _band_width(similarity: float) -> int:
    """As many minima a band as still bring nearly all pairs of that similarity together.

    >>> _band_width(0.7), _band_width(0.1), _band_width(1.0)
    (4, 1, 8)
    """
    fits = [
        width
        for width in range(1, _MOST_ROWS + 1)
        if (1 - similarity**width) ** (_BINS // width) <= 1 - _RECALL
    ]
    return max(fits, default=1)


def _equal(keys: NDArray[np.uint32]) -> list[NDArray[np.intp]]:
    """The places of equal rows, for every row that occurs more than once."""
    if len(keys) < 2:
        return []
    order = np.lexsort(keys.T)
    edges = np.flatnonzero((keys[order][1:] != keys[order][:-1]).any(axis=1)) + 1
    bounds = np.concatenate([[0], edges, [len(order)]])
    return [
        np.sort(order[bounds[place] : bounds[place + 1]])
        for place in np.flatnonzero(np.diff(bounds) > 1)
    ]


class _WordHashes(dict[str, int]):
    """The CRC of each word, computed once: the same on every machine and in every run."""

    def __missing__(self, word: str) -> int:
        value = self[word] = zlib.crc32(word.encode("utf-8"))
        return value


def shingles(text: str, hashes: Mapping[str, int] | None = None) -> NDArray[np.uint32]:
    """The distinct hashes of all runs of five words, sorted; a shorter text is one run.

    >>> len(shingles("one two three four five six")), len(shingles("Hello, you!"))
    (2, 1)
    """
    known = _WordHashes() if hashes is None else hashes
    words = np.array([known[word] for word in _WORD.findall(text.lower())], dtype=np.uint64)
    width = min(_SHINGLE, len(words))
    if not width:
        return np.zeros(0, dtype=np.uint32)
    total = np.zeros(len(words) - width + 1, dtype=np.uint64)
    for offset in range(width):  # a polynomial in the multiplier, modulo 2^64
        total = total * _MULTIPLIER + words[offset : len(words) - width + 1 + offset]
    mixed = (total ^ (total >> np.uint64(29))) * _MULTIPLIER
    return np.unique((mixed >> np.uint64(32)).astype(np.uint32))


def jaccard(first: str, second: str, hashes: Mapping[str, int] | None = None) -> float:
    """The share of shingles two texts have in common.

    >>> jaccard("It was the best of times", "it was the best of TIMES!")
    1.0
    """
    left, right = shingles(first, hashes), shingles(second, hashes)
    common = np.intersect1d(left, right, assume_unique=True).size
    union = left.size + right.size - common
    return common / union if union else 0.0


class _Components:
    """Disjoint sets of rows, with the weakest link of each."""

    def __init__(self) -> None:
        self._sets: dict[int, Copies] = {}
        self._home: dict[int, int] = {}

    def root(self, row: int) -> int:
        return self._home.get(row, row)

    def join(self, first: int, second: int, similarity: float) -> None:
        if self.root(first) == self.root(second):
            return
        left, right = self._take(first), self._take(second)
        rows = tuple(sorted(left.rows + right.rows))
        self._sets[rows[0]] = Copies(rows, min(left.similarity, right.similarity, similarity))
        self._home.update(dict.fromkeys(rows, rows[0]))

    def _take(self, row: int) -> Copies:
        return self._sets.pop(self.root(row), Copies((row,), 1.0))

    def found(self) -> list[Copies]:
        return [self._sets[root] for root in sorted(self._sets)]


# -- what a split may not divide -----------------------------------------------------------------


def linked(texts: Sequence[str], hashes: Sequence[str]) -> list[tuple[int, int]]:
    """Every copy with the first of its kind: equal texts (by their hashes), and nearly equal ones.

    >>> verse = "Tyger Tyger, burning bright, in the forests of the night"
    >>> linked([verse, "O Rose thou art sick!", verse, verse + "."], "1213")
    [(0, 2), (0, 3)]
    """
    first: dict[str, int] = {}
    for row, digest in enumerate(hashes):
        first.setdefault(digest, row)
    links = [(first[digest], row) for row, digest in enumerate(hashes) if row != first[digest]]
    rows = list(first.values())
    for found in near_copies([texts[row] for row in rows]):
        links += [(rows[found.rows[0]], rows[place]) for place in found.rows[1:]]
    return links


def joined_groups(groups: Sequence[str], links: Iterable[tuple[int, int]]) -> tuple[str, ...]:
    """Groups of rows, those of linked rows made one, which has the least of their names.

    >>> joined_groups(["b", "c", "a", "c"], [(0, 2)])
    ('a', 'c', 'a', 'c')
    """
    above: dict[str, str] = {}

    def top(name: str) -> str:
        while (higher := above.get(name, name)) != name:
            above[name] = above.get(higher, higher)
            name = higher
        return name

    for one, other in links:
        low, high = sorted((top(groups[one]), top(groups[other])))
        if low != high:
            above[high] = low
    return tuple(map(top, groups))
