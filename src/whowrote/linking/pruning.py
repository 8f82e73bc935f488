r"""Nearest neighbours: :math:`N_K(i) = \operatorname{top}_K \{a_i' b_j : j \ne i\}`.

Exact search multiplies all rows block by block (torch): 10,000 accounts in seconds, 100,000 in
minutes. Beyond some ten thousands the package voyager (extra ``link``) searches a graph of
neighbours instead. It may miss some: how many is measured on a sample by exact search, and the
search is widened until enough are found.
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
