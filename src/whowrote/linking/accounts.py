r"""Accounts as unit rows: :math:`a \propto \sum_{t \in a} n_t\, S^{-1/2} (x_t - \bar x)`.

:math:`x_t` is a row of text *t* (a style vector, or a sketch of its n-grams), :math:`n_t` its
words, :math:`\bar x` the mean account of its platform and *S* the scatter of texts inside accounts,
shrunk towards a sphere: what one person varies from text to text counts little, what they keep
counts. The cosine of two accounts is then an inner product.

Copied texts come out first, :math:`c(t) = \lvert R_t \cap R_{\text{others}} \rvert /
\lvert R_t \rvert` for the set :math:`R_t` of runs of eight words in text *t*: one of which more
than 30 % stands in texts of another account says who copied, not who writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from whowrote.arrays import BoolArray, FloatArray, IntArray
from whowrote.features.counting import word_runs
from whowrote.progress import tell

Unit = NDArray[np.float32]
SHRINKAGE = 0.3
"""The share of the sphere in the scatter inside accounts."""
LEAST_TEXTS = 4
"""An account of so many texts can be cut in two of which each has several."""


@dataclass(frozen=True)
class Accounts:
    """The texts of all accounts as rows of numbers, by view; an account is a number."""

    names: tuple[str, ...]
    owner: IntArray
    """The account of each text."""
    words: IntArray
    """Of each text."""
    views: Mapping[str, FloatArray]
    """(texts, columns) each: style vectors, sketches of n-grams."""
    group: IntArray
    """Texts of one group (a thread, a day) are never put on both sides of a cut."""
    platform: IntArray
    """0 or 1 for each account: of the corpus, or of the one it is compared with."""

    def __len__(self) -> int:
        return len(self.names)

    def total_words(self) -> IntArray:
        """Words of each account."""
        return np.bincount(self.owner, self.words, len(self)).astype(np.int64)

    def texts(self) -> IntArray:
        """Texts of each account."""
        return np.bincount(self.owner, minlength=len(self))


def halves(accounts: Accounts, random: np.random.Generator) -> IntArray:
    """(texts,): 0 or 1 for the half of an account that can be cut in two, -1 for one that cannot.

    Whole groups are dealt out, in random order, until half of the texts are.
    """
    found = np.full(len(accounts.owner), -1)
    order = np.lexsort([random.random(len(found)), accounts.owner])
    for rows in np.split(order, np.cumsum(accounts.texts())[:-1]):
        if len(rows) < LEAST_TEXTS:
            continue
        _, first, place = np.unique(accounts.group[rows], return_index=True, return_inverse=True)
        rank = np.argsort(np.argsort(first))[place]  # groups in the random order of their texts
        times = np.bincount(rank)
        half = (np.cumsum(times) - times / 2) > len(rows) / 2
        if min((~half[rank]).sum(), half[rank].sum()) >= 2:
            found[rows] = half[rank]
    return found


@dataclass(frozen=True)
class UnitRows:
    """One view: a row of length one for each account, whole and cut in two where it can be.

    ``first`` and ``second`` hold the halves, and the whole row of an account that is not cut.
    """

    whole: Unit
    first: Unit
    second: Unit


def unit_rows(accounts: Accounts, view: str, half: IntArray) -> UnitRows:
    """All rows of a view.

    Halves are measured by the scatter inside *halves*, as accounts are by that inside accounts:
    by the other one, what parts the halves of an account would count as little, which nothing does
    for two accounts of one person.
    """
    rows = np.asarray(accounts.views[view], dtype=np.float32)
    every = np.ones(len(half), dtype=bool)
    cells = np.unique(3 * accounts.owner + half, return_inverse=True)[1]
    cut = _whitened(accounts, rows, cells)
    return UnitRows(
        _means(accounts, _whitened(accounts, rows, accounts.owner), every),
        _means(accounts, cut, half != 1),
        _means(accounts, cut, half != 0),
    )


def _means(accounts: Accounts, rows: Unit, chosen: BoolArray) -> Unit:
    """The mean of the chosen texts of each account by their words, of length one."""
    mean = _share(accounts, chosen) @ rows
    norm = np.linalg.norm(mean, axis=1, keepdims=True)
    return np.asarray(mean / np.where(norm > 0, norm, 1.0), dtype=np.float32)


def _share(accounts: Accounts, chosen: BoolArray) -> Any:
    """(accounts, texts): what each chosen text is of its account, by words."""
    return _shares(accounts.owner, np.where(chosen, accounts.words, 0))


def _shares(cell: IntArray, words: IntArray) -> Any:
    weight = words.astype(np.float32)
    total = np.bincount(cell, weight)
    place = (cell, np.arange(len(weight)))
    return sparse.csr_matrix(((weight / total[cell]).astype(np.float32), place))


def _whitened(accounts: Accounts, rows: Unit, cell: IntArray) -> Unit:
    """Rows without their platform's mean account, in units of the scatter inside cells."""
    mean = np.asarray(_shares(accounts.owner, accounts.words) @ rows)
    centre = np.stack(
        [mean[accounts.platform == one].mean(axis=0) for one in np.unique(accounts.platform)]
    )
    inside = rows - np.asarray(_shares(cell, accounts.words) @ rows)[cell]
    free = max(1, len(rows) - int(cell.max()) - 1)
    scatter = (inside.T @ inside).astype(np.float64) / free
    size = len(scatter)
    sphere = np.trace(scatter) / size * np.eye(size)
    scatter = (1.0 - SHRINKAGE) * scatter + SHRINKAGE * sphere + 1e-12 * np.eye(size)
    root = np.linalg.cholesky(np.linalg.inv(scatter)).astype(np.float32)
    centred = rows - centre[accounts.platform[accounts.owner]].astype(np.float32)
    return np.asarray(centred @ root)


# -- copied texts -------------------------------------------------------------------------------

RUN, MOST_SHARED = 8, 0.3
"""Words of a run, and the share of a text's runs from which on it counts as copied."""
FEWEST_RUNS = 5
"""Fewer shared runs are proverbs and titles."""


@dataclass(frozen=True)
class Copies:
    """Which texts are copied, and how many runs of words each pair of accounts has in common."""

    copied: BoolArray
    pairs: IntArray
    """(pairs, 3): two accounts and their shared runs, most first."""


def find_copies(texts: Sequence[str], owner: IntArray) -> Copies:
    """Texts that stand, by and large, in another account as well."""
    runs = []
    for number, text in enumerate(texts):
        runs.append(np.unique(word_runs(text, RUN)))
        if number % 1000 == 0:
            tell("looking for copies", number, len(texts))
    lengths = np.array([len(own) for own in runs])
    document = np.repeat(np.arange(len(texts)), lengths)
    keys, key = np.unique(np.concatenate(runs), return_inverse=True)
    # The accounts of a run: each once, in order of runs.
    held = np.unique(np.stack([key, owner[document]], axis=1), axis=0)
    holders = np.bincount(held[:, 0], minlength=len(keys))
    shared = np.bincount(document, holders[key] > 1, minlength=len(texts))
    tell("looking for copies", len(texts), len(texts))
    copied = (shared >= FEWEST_RUNS) & (shared > MOST_SHARED * lengths)
    return Copies(copied, _pairs(held[holders[held[:, 0]] == 2][:, 1].reshape(-1, 2)))


def _pairs(accounts: IntArray) -> IntArray:
    """Pairs of accounts by the runs that they alone share, from so many on."""
    found, times = np.unique(np.sort(accounts, axis=1), axis=0, return_counts=True)
    table = np.column_stack([found, times])[times >= FEWEST_RUNS]
    return np.asarray(table[np.argsort(-table[:, 2], kind="stable")])
