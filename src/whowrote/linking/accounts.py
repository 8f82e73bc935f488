r"""Accounts as points known to a degree, how alike two of them are, and the nearest of each.

.. math:: x_t \sim N(y_a, W), \quad y_a \sim N(0, B), \qquad
    \bar x_a = \textstyle\sum_{t \in a} n_t x_t / \sum_t n_t \sim N(y_a, W / m_a), \quad
    m_a = (\sum_t n_t)^2 / \sum_t n_t^2

:math:`x_t` is a row of text *t* (a style vector, or a sketch of its n-grams) without the mean
account of its platform, :math:`n_t` its words, *W* the scatter of texts inside accounts, shrunk
towards a sphere, and *B* that of accounts. In axes in which *W* is the unit matrix and *B* is
diagonal with :math:`\lambda_d`, in units of their own spread, two accounts are normal numbers
:math:`z_i, z_j` that correlate by :math:`\rho = r_i r_j`, :math:`r^2 = \lambda / (\lambda + 1/m)`,
if one person wrote both, and not at all if two did. How alike they are is the logarithm of that
ratio (in speech recognition: two-covariance PLDA),

.. math:: s_{ij} = \sum_d \frac{\rho z_i z_j - \rho^2 (z_i^2 + z_j^2) / 2}{1 - \rho^2}
    - \tfrac12 \ln (1 - \rho^2),

in which an account of few texts says less. Accounts far out are drawn in,
:math:`z \sqrt{(\nu + D) / (\nu + \lVert z \rVert^2)}`, as Student's t with :math:`\nu = 2D` weighs
them. :math:`m` is rounded to steps of a quarter of a doubling.

Exact search weighs all pairs block by block (torch): 10,000 accounts in seconds, 100,000 in
minutes. Beyond some ten thousands the package voyager (extra ``link``) searches a graph of
neighbours by inner products that say nearly the same, and those found are weighed. It may miss
some: how many is measured on a sample by exact search, and the search is widened until enough are
found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from whowrote.arrays import BoolArray, FloatArray, IntArray
from whowrote.errors import InputError
from whowrote.progress import tell
from whowrote.runtime import usable_cores

Unit = NDArray[np.float32]
SHRINKAGE = 0.3
"""The share of the sphere in the scatter inside accounts."""
LEAST_SPREAD = 1e-3
"""Of accounts along an axis, in units of that of texts."""
LEAST_TOLD = 0.02
"""The same, for an axis to count where a graph of neighbours is searched."""
TAIL = 2.0
"""The degrees of freedom by which accounts far out are drawn in, for each dimension."""
STEPS = 4
"""To a doubling of the number of texts."""
PAIRS_AT_ONCE = 50_000
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
class Points:
    """Accounts in one view: standardised rows, and how many texts each counts as."""

    z: Unit
    unit: Unit
    """In units of texts, of length one: for cosines."""
    level: IntArray
    """How many texts an account is worth, in quarters of a doubling of one."""
    spread: FloatArray
    """(columns,): lambda, the variance of accounts in units of that of texts."""

    def __len__(self) -> int:
        return len(self.z)

    def __getitem__(self, chosen: IntArray) -> Points:
        """Some accounts, or the same ones in another order."""
        return replace(self, z=self.z[chosen], unit=self.unit[chosen], level=self.level[chosen])

    def reliability(self, level: int) -> FloatArray:
        """(columns,): r of accounts of that level."""
        found: FloatArray = np.sqrt(self.spread / (self.spread + 1.0 / texts_of(level)))
        return found

    def _terms(self, mine: int, other: int) -> tuple[Unit, Unit, float]:
        """What products and squares are multiplied by, and what is added."""
        rho = self.reliability(mine) * self.reliability(other)
        free = 1.0 - rho**2
        product, square = (rho / free).astype(np.float32), (-0.5 * rho**2 / free).astype(np.float32)
        return product, square, float(-0.5 * np.log(free).sum())

    def alike(self, others: Points) -> Unit:
        """(self, others): s of every account with each of the others."""
        found = np.empty((len(self), len(others)), np.float32)
        theirs = [(one, np.flatnonzero(others.level == one)) for one in np.unique(others.level)]
        rows = {one: others.z[own] for one, own in theirs}
        for mine in np.unique(self.level).tolist():
            here = np.flatnonzero(self.level == mine)
            z = self.z[here]
            for other, own in theirs:
                product, square, constant = self._terms(mine, int(other))
                part = (z * product) @ rows[other].T
                part += (z**2 @ square)[:, None] + (rows[other] ** 2 @ square + constant)
                found[np.ix_(here, own)] = part
        return found

    def of_pairs(self, others: Points, pairs: IntArray) -> FloatArray:
        """(pairs,): s of some."""
        found = np.empty(len(pairs), np.float32)
        size = 1 + int(others.level.max(initial=0))
        code = self.level[pairs[:, 0]] * size + others.level[pairs[:, 1]]
        order = np.argsort(code, kind="stable")
        for own in np.split(order, np.flatnonzero(np.diff(code[order])) + 1):
            if not len(own):
                continue
            product, square, constant = self._terms(*divmod(int(code[own[0]]), size))
            for low in range(0, len(own), PAIRS_AT_ONCE):
                part = own[low : low + PAIRS_AT_ONCE]
                z, y = self.z[pairs[part, 0]], others.z[pairs[part, 1]]
                found[part] = (z * y) @ product + (z**2 + y**2) @ square + constant
        return found

    def cosines(self, others: Points) -> Unit:
        """(self, others): of every account with each of the others, whatever the texts."""
        return self.unit @ others.unit.T

    def cosines_of_pairs(self, others: Points, pairs: IntArray) -> FloatArray:
        """(pairs,): of some."""
        found = np.empty(len(pairs))
        for low in range(0, len(pairs), PAIRS_AT_ONCE):
            i, j = pairs[low : low + PAIRS_AT_ONCE].T
            found[low : low + len(i)] = np.einsum("ij,ij->i", self.unit[i], others.unit[j])
        return found

    def for_products(self) -> tuple[Unit, Unit]:
        """Rows to ask with and rows to be found whose inner products order much as s does.

        As if the other account had the usual number of texts, without the axes along which
        accounts hardly differ.
        """
        told = self.spread > LEAST_TOLD
        r = np.stack([self.reliability(level) for level in range(1 + self.level.max())])
        usual = r[int(np.median(self.level))]
        free = 1.0 - r**2 * usual**2
        shrunk = self.z * (r / np.sqrt(1.0 - usual**4)).astype(np.float32)[self.level]
        square = (-0.5 * r**2 * usual**2 / free).astype(np.float32)
        bias = np.einsum("ij,ij->i", self.z**2, square[self.level])
        bias -= 0.5 * np.log(free).sum(axis=1)[self.level].astype(np.float32)
        shrunk = shrunk[:, told] if told.any() else shrunk
        rows = np.column_stack([shrunk, bias])
        length = (rows**2).sum(axis=1)
        rest = np.sqrt(np.maximum(length.max() - length, 0.0))  # all of one length, for the graph
        rows = np.column_stack([rows, rest]) / np.sqrt(length.max())
        asked = np.column_stack([shrunk, np.ones(len(self)), np.zeros(len(self))])
        asked /= np.linalg.norm(asked, axis=1, keepdims=True)
        # voyager reads memory as it lies, row after row, whatever the strides are.
        return np.ascontiguousarray(asked, np.float32), np.ascontiguousarray(rows, np.float32)


@dataclass(frozen=True)
class View:
    """One view: every account, whole and cut in two where it can be.

    ``first`` and ``second`` hold the halves, and the whole of an account that is not cut.
    """

    whole: Points
    first: Points
    second: Points


def view_of(accounts: Accounts, name: str, half: IntArray) -> View:
    """All accounts in a view.

    Halves are measured by the scatter inside *halves*, as accounts are by that inside accounts:
    by the other one, what parts the halves of an account would count as little, which nothing does
    for two accounts of one person.
    """
    accounts = replace(accounts, words=np.maximum(accounts.words, 1))  # none weighs nothing
    rows = np.asarray(accounts.views[name], dtype=np.float32)
    rows = rows - _centres(accounts, rows)[accounts.platform[accounts.owner]]
    every = np.ones(len(half), dtype=bool)
    cells = np.unique(3 * accounts.owner + half, return_inverse=True)[1]
    whole, cut = (_axes(accounts, rows, own) for own in (accounts.owner, cells))
    return View(
        _points(accounts, rows, every, *whole),
        _points(accounts, rows, half != 1, *cut),
        _points(accounts, rows, half != 0, *cut),
    )


def _centres(accounts: Accounts, rows: Unit) -> Unit:
    """The mean account of each platform."""
    mean = np.asarray(_shares(accounts.owner, accounts.words) @ rows)
    platforms = np.unique(accounts.platform)
    found = np.stack([mean[accounts.platform == one].mean(axis=0) for one in platforms])
    return found.astype(np.float32)


def _axes(accounts: Accounts, rows: Unit, cell: IntArray) -> tuple[FloatArray, FloatArray]:
    """Axes in which texts inside cells spread alike, and how cells spread along them."""
    mean = np.asarray(_shares(cell, accounts.words) @ rows).astype(np.float64)
    inside = rows - mean[cell].astype(np.float32)
    free = max(1, len(rows) - len(mean))
    within = (inside.T @ inside).astype(np.float64) / free
    size = len(within)
    sphere = np.trace(within) / size * np.eye(size)
    within = (1.0 - SHRINKAGE) * within + SHRINKAGE * sphere + 1e-12 * np.eye(size)
    noise = (1.0 / _counts(cell, accounts.words)).mean()
    between = np.cov(mean.T, ddof=0).reshape(size, size) - noise * within
    root = np.linalg.cholesky(np.linalg.inv(within))
    spread, turned = np.linalg.eigh(root.T @ between @ root)
    return root @ turned, np.maximum(spread, LEAST_SPREAD)


def _points(
    accounts: Accounts, rows: Unit, chosen: BoolArray, axes: FloatArray, spread: FloatArray
) -> Points:
    """The mean of the chosen texts of each account by their words."""
    words = np.where(chosen, accounts.words, 0)
    mean = np.asarray(_shares(accounts.owner, words) @ rows) @ axes
    steps = np.rint(STEPS * np.log2(_counts(accounts.owner, words))).astype(np.int64)
    z = mean / np.sqrt(spread + 1.0 / texts_of(steps)[:, None])
    z = z * np.sqrt((TAIL + 1.0) / (TAIL + (z**2).mean(axis=1, keepdims=True)))
    unit = mean / np.maximum(np.linalg.norm(mean, axis=1, keepdims=True), 1e-12)
    return Points(z.astype(np.float32), unit.astype(np.float32), steps, spread)


def _shares(cell: IntArray, words: IntArray) -> Any:
    """(cells, texts): what each text is of its cell, by words."""
    weight = words.astype(np.float32)
    total = np.bincount(cell, weight)
    place = (cell, np.arange(len(weight)))
    return sparse.csr_matrix(((weight / total[cell]).astype(np.float32), place))


def texts_of(level: Any) -> Any:
    """How many texts that is."""
    return 2.0 ** (level / STEPS)


def _counts(cell: IntArray, words: IntArray) -> FloatArray:
    """How many texts of equal length a mean by words is worth."""
    weight = words.astype(np.float64)
    found: FloatArray = np.bincount(cell, weight) ** 2 / np.bincount(cell, weight**2)
    return found


# -- the nearest ---------------------------------------------------------------------------------

MOST_EXACT = 30_000
"""Rows that are searched exactly by default."""
BLOCK = 1024
SAMPLE = 500
LEAST_RECALL = 0.98
WIDTHS = (400, 800, 1600, 3200)
"""How widely a graph of neighbours is searched: the first at which enough are found."""
WEIGHED = 4
"""Of so many rows that are looked at in the graph, one is weighed."""
LINKS, EFFORT = 24, 200
"""Of each row in the graph, and how carefully it is built."""


@dataclass(frozen=True)
class Nearest:
    """Of each account the others nearest to it, the nearest first, and how near they are."""

    ids: IntArray
    values: FloatArray

    @classmethod
    def of(cls, values: FloatArray, ids: IntArray, k: int) -> Nearest:
        """The ``k`` largest of each row, and what they are called."""
        best = torch.from_numpy(values).topk(k, dim=1)
        picked = best.indices.numpy()
        return cls(np.take_along_axis(ids, picked, axis=1), best.values.numpy())

    def __getitem__(self, order: IntArray) -> Nearest:
        """Those of some accounts."""
        return Nearest(self.ids[order], self.values[order])

    @classmethod
    def join(cls, parts: Sequence[Nearest]) -> Nearest:
        """Those of several rows of accounts."""
        ids, values = ([getattr(one, name) for one in parts] for name in ("ids", "values"))
        return cls(np.concatenate(ids), np.concatenate(values))


@dataclass(frozen=True)
class Neighbours:
    """The nearest by the ratio and by the cosine, and the share of the former that was found."""

    ratio: Nearest
    cosine: Nearest
    recall: float = 1.0

    @classmethod
    def join(cls, parts: Sequence[Neighbours], recall: float = 1.0) -> Neighbours:
        """Those of several rows of accounts."""
        return cls(
            Nearest.join([one.ratio for one in parts]),
            Nearest.join([one.cosine for one in parts]),
            recall,
        )

    def __getitem__(self, order: IntArray) -> Neighbours:
        """Those of some accounts."""
        return Neighbours(self.ratio[order], self.cosine[order], self.recall)

    @property
    def ids(self) -> IntArray:
        """The nearest by the ratio, which are candidates."""
        return self.ratio.ids


def exact_neighbours(
    queries: Points, others: Points, k: int, own: IntArray | None = None
) -> Neighbours:
    """The ``k`` nearest others of each one; never that of number ``own``."""
    order = np.argsort(queries.level, kind="stable")  # few numbers of texts in a block
    parts = []
    for low in range(0, len(queries), BLOCK):
        rows = order[low : low + BLOCK]
        ids = np.broadcast_to(np.arange(len(others)), (len(rows), len(others)))
        ratio, cosine = queries[rows].alike(others), queries[rows].cosines(others)
        if own is not None:
            here = np.arange(len(rows)), own[rows]
            ratio[here] = cosine[here] = -np.inf
        parts.append(Neighbours(Nearest.of(ratio, ids, k), Nearest.of(cosine, ids, k)))
        tell("nearest neighbours", min(low + BLOCK, len(queries)), len(queries))
    return Neighbours.join(parts)[np.argsort(order)]


def neighbours(
    queries: Points,
    others: Points,
    k: int,
    *,
    same: bool,
    most_exact: int = MOST_EXACT,
    seed: int = 0,
) -> Neighbours:
    """The ``k`` others most like each one; ``same``: they are the others themselves."""
    own = np.arange(len(queries)) if same else None
    if len(others) <= most_exact:
        return exact_neighbours(queries, others, k, own)
    return _by_graph(queries, others, k, own, seed)


def _by_graph(
    queries: Points, others: Points, k: int, own: IntArray | None, seed: int
) -> Neighbours:
    """Search a graph as widely as a sample of exact answers asks."""
    asked, rows = queries.for_products()[0], others.for_products()[1]
    index = _graph(rows, seed)
    some = np.random.default_rng([seed, 41]).permutation(len(queries))[:SAMPLE]
    truth = exact_neighbours(queries[some], others, k, None if own is None else own[some])

    def search(numbers: IntArray, width: int) -> Neighbours:
        taken = None if own is None else own[numbers]
        several = min(max(k, width // WEIGHED), len(rows) - 1)
        found = _asked(index, asked[numbers], several, taken, width)
        return _best(queries[numbers], others, found, k)

    recall = 0.0
    for width in WIDTHS:
        recall = _recall(truth.ratio.ids, search(some, width).ratio.ids)
        if recall >= LEAST_RECALL:
            break
    else:
        return exact_neighbours(queries, others, k, own)
    parts = []
    for low in range(0, len(queries), 20 * BLOCK):
        parts.append(search(np.arange(low, min(low + 20 * BLOCK, len(queries))), width))
        tell("nearest neighbours", min(low + 20 * BLOCK, len(queries)), len(queries))
    return Neighbours.join(parts, recall)


def _best(queries: Points, others: Points, found: IntArray, k: int) -> Neighbours:
    """Of what a graph found, the ``k`` that are nearest."""
    own = np.repeat(np.arange(len(found)), found.shape[1])
    pairs = np.stack([own, found.ravel()], axis=1)
    ratio, cosine = queries.of_pairs(others, pairs), queries.cosines_of_pairs(others, pairs)
    return Neighbours(
        Nearest.of(ratio.reshape(found.shape), found, k),
        Nearest.of(cosine.reshape(found.shape), found, k),
    )


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
