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

Copied texts come out first, :math:`c(t) = \lvert R_t \cap R_{\text{others}} \rvert /
\lvert R_t \rvert` for the set :math:`R_t` of runs of eight words in text *t*: one of which more
than 30 % stands in texts of another account says who copied, not who writes.

Exact search weighs all pairs block by block (torch): 10,000 accounts in seconds, 100,000 in
minutes. Beyond some ten thousands the package voyager (extra ``link``) searches a graph of
neighbours by inner products that say nearly the same, and those found are weighed. It may miss
some: how many is measured on a sample by exact search, and the search is widened until enough are
found.

A pair counts by its standing among the nearest of both, adaptive symmetric normalisation:

.. math:: z_{ij} = \tfrac12 \left(\frac{s_{ij} - m_{i \setminus j}}{\sigma_{i \setminus j}}
    + \frac{s_{ij} - m_{j \setminus i}}{\sigma_{j \setminus i}}\right)

:math:`m_{i \setminus j}` and :math:`\sigma_{i \setminus j}` are the mean and the spread of the
likeness of the accounts nearest to *i*, without *j*. Some accounts are near to everybody; a
likeness counts by how far it stands out of what is usual for both. In speaker recognition it is
known as AS-norm.
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
from whowrote.features.counting import word_runs
from whowrote.progress import tell
from whowrote.runtime import usable_cores

Unit = NDArray[np.float32]
SHRINKAGE = 0.3
"""The share of the sphere in the scatter inside accounts."""
LEAST_SPREAD = 1e-3
"""Of accounts along an axis, in units of that of texts."""
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
    level: IntArray
    """Which of ``counts`` an account has."""
    counts: FloatArray
    spread: FloatArray
    """(columns,): lambda, the variance of accounts in units of that of texts."""

    def __len__(self) -> int:
        return len(self.z)

    def __getitem__(self, chosen: IntArray) -> Points:
        """Some accounts, or the same ones in another order."""
        return replace(self, z=self.z[chosen], level=self.level[chosen])

    def reliability(self, level: int) -> FloatArray:
        """(columns,): r of accounts of that level."""
        found: FloatArray = np.sqrt(self.spread / (self.spread + 1.0 / self.counts[level]))
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
        code = self.level[pairs[:, 0]] * len(self.counts) + others.level[pairs[:, 1]]
        order = np.argsort(code, kind="stable")
        for own in np.split(order, np.flatnonzero(np.diff(code[order])) + 1):
            if not len(own):
                continue
            product, square, constant = self._terms(*divmod(int(code[own[0]]), len(self.counts)))
            for low in range(0, len(own), PAIRS_AT_ONCE):
                part = own[low : low + PAIRS_AT_ONCE]
                z, y = self.z[pairs[part, 0]], others.z[pairs[part, 1]]
                found[part] = (z * y) @ product + (z**2 + y**2) @ square + constant
        return found

    def cosines(self, others: Points, pairs: IntArray) -> FloatArray:
        """(pairs,): of some, whatever the numbers of texts."""
        one, other = (x.z / np.maximum(_lengths(x.z), 1e-12) for x in (self, others))
        found = np.empty(len(pairs))
        for low in range(0, len(pairs), PAIRS_AT_ONCE):
            i, j = pairs[low : low + PAIRS_AT_ONCE].T
            found[low : low + len(i)] = np.einsum("ij,ij->i", one[i], other[j])
        return found

    def for_products(self) -> tuple[Unit, Unit]:
        """Rows to ask with and rows to be found whose inner products order much as s does.

        As if the other account had the usual number of texts.
        """
        r = np.stack([self.reliability(level) for level in range(len(self.counts))])
        usual = r[int(np.median(self.level))]
        free = 1.0 - r**2 * usual**2
        shrunk = self.z * (r / np.sqrt(1.0 - usual**4)).astype(np.float32)[self.level]
        square = (-0.5 * r**2 * usual**2 / free).astype(np.float32)
        bias = np.einsum("ij,ij->i", self.z**2, square[self.level])
        bias -= 0.5 * np.log(free).sum(axis=1)[self.level].astype(np.float32)
        asked = np.column_stack([shrunk, np.ones(len(self), np.float32)])
        return asked, np.column_stack([shrunk, bias])


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
    counts = 2.0 ** (np.arange(steps.max() + 1) / STEPS)
    z = mean / np.sqrt(spread + 1.0 / counts[steps][:, None])
    z = z * np.sqrt((TAIL + 1.0) / (TAIL + (z**2).mean(axis=1, keepdims=True)))
    return Points(z.astype(np.float32), steps, counts, spread)


def _shares(cell: IntArray, words: IntArray) -> Any:
    """(cells, texts): what each text is of its cell, by words."""
    weight = words.astype(np.float32)
    total = np.bincount(cell, weight)
    place = (cell, np.arange(len(weight)))
    return sparse.csr_matrix(((weight / total[cell]).astype(np.float32), place))


def _counts(cell: IntArray, words: IntArray) -> FloatArray:
    """How many texts of equal length a mean by words is worth."""
    weight = words.astype(np.float64)
    found: FloatArray = np.bincount(cell, weight) ** 2 / np.bincount(cell, weight**2)
    return found


def _lengths(rows: Unit) -> Unit:
    return np.asarray(np.linalg.norm(rows, axis=1, keepdims=True))


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
WEIGHED = 4
"""Of so many rows that are looked at in the graph, one is weighed."""
LINKS, EFFORT = 24, 200
"""Of each row in the graph, and how carefully it is built."""
COHORT = 20
"""Nearest accounts that say what is usual."""
LEAST_SPREAD = 1e-3


@dataclass(frozen=True)
class Neighbours:
    """The accounts most like each one, the likest first, and the share of them that was found."""

    ids: IntArray
    likeness: FloatArray
    recall: float = 1.0


def exact_neighbours(
    queries: Points, others: Points, k: int, own: IntArray | None = None
) -> Neighbours:
    """The ``k`` others most like each one; never that of number ``own``."""
    ids, likeness = np.empty((len(queries), k), np.int64), np.empty((len(queries), k), np.float32)
    order = np.argsort(queries.level, kind="stable")  # few numbers of texts in a block
    for low in range(0, len(queries), BLOCK):
        part = order[low : low + BLOCK]
        found = torch.from_numpy(queries[part].alike(others))
        if own is not None:
            found[torch.arange(len(part)), torch.from_numpy(own[part])] = -torch.inf
        best = found.topk(k, dim=1)
        ids[part], likeness[part] = best.indices.numpy(), best.values.numpy()
        tell("nearest neighbours", min(low + BLOCK, len(queries)), len(queries))
    return Neighbours(ids, likeness)


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
        found = _asked(index, asked[numbers], max(k, width // WEIGHED), taken, width)
        return _best(queries[numbers], others, found, k)

    recall = 0.0
    for width in WIDTHS:
        recall = _recall(truth.ids, search(some, min(width, len(rows) - 1)).ids)
        if recall >= LEAST_RECALL:
            break
    else:
        return exact_neighbours(queries, others, k, own)
    parts = []
    for low in range(0, len(queries), 20 * BLOCK):
        parts.append(search(np.arange(low, min(low + 20 * BLOCK, len(queries))), width))
        tell("nearest neighbours", min(low + 20 * BLOCK, len(queries)), len(queries))
    found = [(part.ids, part.likeness) for part in parts]
    ids, likeness = (np.concatenate(one) for one in zip(*found, strict=True))
    return Neighbours(ids, likeness, recall)


def _best(queries: Points, others: Points, found: IntArray, k: int) -> Neighbours:
    """Of what a graph found, the ``k`` that are most alike."""
    own = np.repeat(np.arange(len(found)), found.shape[1])
    likeness = queries.of_pairs(others, np.stack([own, found.ravel()], axis=1))
    likeness = likeness.reshape(found.shape)
    order = np.argsort(-likeness, axis=1, kind="stable")[:, :k]
    picked = np.take_along_axis(found, order, axis=1)
    return Neighbours(picked, np.take_along_axis(likeness, order, axis=1))


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
    likeness: FloatArray, pairs: IntArray, left: Neighbours, right: Neighbours
) -> FloatArray:
    """Of some pairs; the last neighbour is there to fill in for one that is the target."""
    one = _side(likeness, pairs[:, 0], pairs[:, 1], left)
    other = _side(likeness, pairs[:, 1], pairs[:, 0], right)
    return (one + other) / 2.0


def _side(likeness: FloatArray, own: IntArray, target: IntArray, near: Neighbours) -> FloatArray:
    total = near.likeness.sum(axis=1, dtype=np.float64)[own]
    squares = (near.likeness.astype(np.float64) ** 2).sum(axis=1)[own]
    dropped = near.likeness[own, -1].astype(np.float64)
    for column in range(near.ids.shape[1]):
        hit = near.ids[own, column] == target
        dropped[hit] = near.likeness[own[hit], column]
    return _standardised(likeness, total, squares, dropped, near.ids.shape[1] - 1)


def _standardised(
    likeness: FloatArray, total: FloatArray, squares: FloatArray, dropped: FloatArray, count: int
) -> FloatArray:
    mean = (total - dropped) / count
    spread = np.sqrt(np.maximum((squares - dropped**2) / count - mean**2, LEAST_SPREAD**2))
    return np.asarray((likeness - mean) / spread)


def standing_of_all(
    first: Points, second: Points, left: Neighbours, right: Neighbours, number: IntArray
) -> FloatArray:
    """(m, m): every account of ``first`` with every one of ``second``.

    ``number`` is how the neighbours call the rows. Row *i* of both is one account, whose standing
    with itself is on the diagonal: what a matched pair looks like.
    """
    likeness = first.alike(second).astype(np.float64)
    return (_all(likeness, left, number) + _all(likeness.T, right, number).T) / 2.0


def _all(likeness: FloatArray, near: Neighbours, number: IntArray) -> FloatArray:
    values = near.likeness.astype(np.float64)
    dropped = np.repeat(values[:, -1:], len(number), axis=1)
    order = np.argsort(number)
    place = np.searchsorted(number[order], near.ids).clip(max=len(number) - 1)
    known = number[order][place] == near.ids
    row, column = np.nonzero(known)
    dropped[row, order[place[row, column]]] = values[row, column]
    total, squares = values.sum(axis=1)[:, None], (values**2).sum(axis=1)[:, None]
    return _standardised(likeness, total, squares, dropped, values.shape[1] - 1)
