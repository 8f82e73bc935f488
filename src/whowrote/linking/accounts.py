r"""Accounts as unit rows, and the nearest of each.

.. math:: a \propto \textstyle\sum_{t \in a} n_t\, S^{-1/2} (x_t - \bar x), \qquad
    N_K(i) = \operatorname{top}_K \{a_i' a_j : j \ne i\}

:math:`x_t` is a row of text *t* (a style vector, or a sketch of its n-grams), :math:`n_t` its
words, :math:`\bar x` the mean account of its platform and *S* the scatter of texts inside accounts,
shrunk towards a sphere: what one person varies from text to text counts little, what they keep
counts. The cosine of two accounts is then an inner product.

Copied texts come out first, :math:`c(t) = \lvert R_t \cap R_{\text{others}} \rvert /
\lvert R_t \rvert` for the set :math:`R_t` of runs of eight words in text *t*: one of which more
than 30 % stands in texts of another account says who copied, not who writes.

Exact search multiplies all rows block by block (torch): 10,000 accounts in seconds, 100,000 in
minutes. Beyond some ten thousands the package voyager (extra ``link``) searches a graph of
neighbours instead. It may miss some: how many is measured on a sample by exact search, and the
search is widened until enough are found.

A pair counts by its standing among the nearest of both, adaptive symmetric normalisation:

.. math:: z_{ij} = \tfrac12 \left(\frac{c_{ij} - m_{i \setminus j}}{s_{i \setminus j}}
    + \frac{c_{ij} - m_{j \setminus i}}{s_{j \setminus i}}\right)

:math:`m_{i \setminus j}` and :math:`s_{i \setminus j}` are the mean and the spread of the cosines
of the accounts nearest to *i*, without *j*. Some accounts are near to everybody; a cosine counts by
how far it stands out of what is usual for both. In speaker recognition it is known as AS-norm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from whowrote.arrays import BoolArray, FloatArray, IntArray
from whowrote.errors import InputError
from whowrote.features.counting import word_runs
from whowrote.progress import tell
from whowrote.runtime import usable_cores

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


MOST_EXACT = 30_000
"""Rows that are searched exactly by default."""
BLOCK = 1024
SAMPLE = 500
LEAST_RECALL = 0.98
WIDTHS = (200, 400, 800, 1600)
"""How widely a graph of neighbours is searched: the first at which enough are found."""
LINKS, EFFORT = 24, 200
"""Of each row in the graph, and how carefully it is built."""
COHORT = 20
"""Nearest accounts that say what is usual."""
LEAST_SPREAD = 1e-3


@dataclass(frozen=True)
class Neighbours:
    """The nearest rows of each row, nearest first, and the share of them that was found."""

    ids: IntArray
    cosines: FloatArray
    recall: float = 1.0


def exact_neighbours(queries: Unit, rows: Unit, k: int, own: IntArray | None = None) -> Neighbours:
    """The ``k`` rows with the largest inner products; never that of number ``own``."""
    base = torch.from_numpy(rows).T
    ids, cosines = [], []
    for low in range(0, len(queries), BLOCK):
        products = torch.from_numpy(queries[low : low + BLOCK]) @ base
        if own is not None:
            here = torch.from_numpy(own[low : low + BLOCK])
            products[torch.arange(len(products)), here] = -torch.inf
        best = products.topk(k, dim=1)
        ids.append(best.indices.numpy())
        cosines.append(best.values.numpy())
        tell("nearest neighbours", min(low + BLOCK, len(queries)), len(queries))
    return Neighbours(np.concatenate(ids), np.concatenate(cosines))


def neighbours(
    queries: Unit, rows: Unit, k: int, *, same: bool, most_exact: int = MOST_EXACT, seed: int = 0
) -> Neighbours:
    """The ``k`` nearest rows of each query; ``same``: the queries are the rows themselves."""
    own = np.arange(len(queries)) if same else None
    if len(rows) <= most_exact:
        return exact_neighbours(queries, rows, k, own)
    return _by_graph(queries, rows, k, own, seed)


def _by_graph(queries: Unit, rows: Unit, k: int, own: IntArray | None, seed: int) -> Neighbours:
    """Search a graph as widely as a sample of exact answers asks."""
    index = _graph(rows, seed)
    some = np.random.default_rng([seed, 41]).permutation(len(queries))[:SAMPLE]
    truth = exact_neighbours(queries[some], rows, k, None if own is None else own[some])
    recall = 0.0
    for width in WIDTHS:
        found = _asked(index, queries[some], k, None if own is None else own[some], width)
        recall = _recall(truth.ids, found)
        if recall >= LEAST_RECALL:
            break
    else:
        return exact_neighbours(queries, rows, k, own)
    ids = _asked(index, queries, k, own, width)
    cosines = np.stack([(rows[column] * queries).sum(axis=1) for column in ids.T], axis=1)
    return Neighbours(ids, cosines, recall)


def _graph(rows: Unit, seed: int) -> Any:
    try:
        from voyager import Index, Space
    except ImportError:
        raise InputError(
            f"{len(rows):,} accounts are searched by the package voyager, which is not installed: "
            "pip install 'whowrote[link]', or give exact=True (--exact), which takes longer"
        ) from None
    index = Index(
        Space.InnerProduct,
        rows.shape[1],
        M=LINKS,
        ef_construction=EFFORT,
        random_seed=seed + 1,
        max_elements=len(rows),
    )
    step = 20 * BLOCK
    for low in range(0, len(rows), step):
        index.add_items(rows[low : low + step], num_threads=usable_cores())
        tell("a graph of neighbours", min(low + step, len(rows)), len(rows))
    return index


def _asked(index: Any, queries: Unit, k: int, own: IntArray | None, width: int) -> IntArray:
    """Ids of the ``k`` nearest without the row itself, nearest first."""
    asked = k + (own is not None)
    found, _ = index.query(queries, k=asked, num_threads=usable_cores(), query_ef=width)
    ids = np.asarray(found).astype(np.int64)
    if own is None:
        return ids
    other = ids != own[:, None]
    other[other.all(axis=1), -1] = False  # one that did not find itself has one too many
    return np.asarray(ids[other].reshape(len(ids), k))


def _recall(truth: IntArray, found: IntArray) -> float:
    hits = [len(np.intersect1d(one, other)) for one, other in zip(truth, found, strict=True)]
    return float(np.sum(hits) / truth.size)


# -- standing ----------------------------------------------------------------------------------


def cohort_size(accounts: int) -> int:
    """How many of so many accounts are the nearest.

    >>> cohort_size(1000), cohort_size(40)
    (20, 10)
    """
    return int(np.clip(accounts // 4, 2, COHORT))


def standing(
    cosines: FloatArray, pairs: IntArray, left: Neighbours, right: Neighbours
) -> FloatArray:
    """Of some pairs; the last neighbour is there to fill in for one that is the target."""
    one = _side(cosines, pairs[:, 0], pairs[:, 1], left)
    other = _side(cosines, pairs[:, 1], pairs[:, 0], right)
    return (one + other) / 2.0


def _side(cosines: FloatArray, own: IntArray, target: IntArray, near: Neighbours) -> FloatArray:
    total = near.cosines.sum(axis=1, dtype=np.float64)[own]
    squares = (near.cosines.astype(np.float64) ** 2).sum(axis=1)[own]
    dropped = near.cosines[own, -1].astype(np.float64)
    for column in range(near.ids.shape[1]):
        hit = near.ids[own, column] == target
        dropped[hit] = near.cosines[own[hit], column]
    return _standardised(cosines, total, squares, dropped, near.ids.shape[1] - 1)


def _standardised(
    cosines: FloatArray, total: FloatArray, squares: FloatArray, dropped: FloatArray, count: int
) -> FloatArray:
    mean = (total - dropped) / count
    spread = np.sqrt(np.maximum((squares - dropped**2) / count - mean**2, LEAST_SPREAD**2))
    return np.asarray((cosines - mean) / spread)


def standing_of_all(
    first: Unit, second: Unit, left: Neighbours, right: Neighbours, number: IntArray
) -> FloatArray:
    """(m, m): every row of ``first`` with every one of ``second``.

    ``number`` is how the neighbours call the rows. Row *i* of both is one account, whose standing
    with itself is on the diagonal: what a matched pair looks like.
    """
    cosines = first.astype(np.float64) @ second.T
    return (_all(cosines, left, number) + _all(cosines.T, right, number).T) / 2.0


def _all(cosines: FloatArray, near: Neighbours, number: IntArray) -> FloatArray:
    values = near.cosines.astype(np.float64)
    dropped = np.repeat(values[:, -1:], len(number), axis=1)
    order = np.argsort(number)
    place = np.searchsorted(number[order], near.ids).clip(max=len(number) - 1)
    known = number[order][place] == near.ids
    row, column = np.nonzero(known)
    dropped[row, order[place[row, column]]] = values[row, column]
    total, squares = values.sum(axis=1)[:, None], (values**2).sum(axis=1)[:, None]
    return _standardised(cosines, total, squares, dropped, values.shape[1] - 1)
