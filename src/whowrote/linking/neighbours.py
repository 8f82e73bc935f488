r"""Nearest neighbours: :math:`N_K(i) = \operatorname{top}_K \{a_i' b_j : j \ne i\}`.

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

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from whowrote.arrays import FloatArray, IntArray
from whowrote.errors import InputError
from whowrote.linking.accounts import Unit
from whowrote.progress import tell
from whowrote.runtime import usable_cores

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
