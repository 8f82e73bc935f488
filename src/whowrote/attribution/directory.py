r"""Very many authors: components of one shared concentration, searched by cells.

.. math:: s_k(t) = a \cos(x, u_k) + b \cos(g, \gamma_k) - c\, h_k, \qquad
    p(k \mid t) = \frac{e^{s_k}}{e^{r} + \sum_{j \in C(t)} e^{s_j}}

*x* is the centred style vector of a text and :math:`u_k` the mean direction of author *k*; *g* and
:math:`\gamma_k` are their rows of n-grams, of which an author keeps the heaviest. Each author is a
pair of von Mises-Fisher components; all share the concentrations *a* and *b*, so that a new one is
a row more and nothing else is touched. :math:`h_k` is the mean cosine of :math:`u_k` to the nearest
other authors: some are near to everybody, and a likeness to them says less. *C(t)* are the nearest
authors by style vector, rescored exactly, and *r* stands for everybody else.

The nearest are found in *cells*: directions around which the authors lie. A text is compared with
the authors of the nearest cells alone, as many as were needed to find the exact best of a sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from whowrote.arrays import Arrays, FloatArray, IntArray
from whowrote.progress import tell

Unit = NDArray[np.float32]
MOST_EXACT = 5000
"""Authors that are all compared; of more, those of the nearest cells."""
CANDIDATES = 300
"""Nearest authors that are rescored."""
HEAVIEST = 1024
"""N-grams that an author keeps."""
NEAREST = 20
"""Other authors that say how near an author is to everybody."""
LEAST_RECALL = 0.993
"""A little more than .99: it is measured on a sample."""
SAMPLE, ROUNDS, BLOCK = 500, 8, 1024


def unit(rows: Any) -> Unit:
    """Rows of length one; a row of zeros stays one.

    >>> unit([[3.0, 4.0]]).round(2).tolist()
    [[0.6000000238418579, 0.800000011920929]]
    """
    rows = np.asarray(rows, dtype=np.float32)
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12))


@dataclass(frozen=True)
class Grams:
    """The heaviest n-grams of each author: columns and weights, padded by weights of nought."""

    columns: NDArray[np.int32]
    weights: NDArray[np.float16]
    width: int
    """Columns that the n-grams have in all."""
    later: Grams | None = None
    """Those of authors enrolled later: a large table is not copied for each of them."""

    @classmethod
    def of(cls, rows: sparse.csr_matrix) -> Self:
        """Those of sparse rows, brought to length one."""
        most = int(min(HEAVIEST, max(1, np.diff(rows.indptr).max(initial=1))))
        columns = np.zeros((rows.shape[0], most), dtype=np.int32)
        weights = np.zeros((rows.shape[0], most), dtype=np.float32)
        for row in range(rows.shape[0]):
            part = slice(rows.indptr[row], rows.indptr[row + 1])
            values, own = rows.data[part], rows.indices[part]
            if len(values) > most:
                heaviest = np.argpartition(-values, most)[:most]
                values, own = values[heaviest], own[heaviest]
            columns[row, : len(own)], weights[row, : len(own)] = own, values
        return cls(columns, unit(weights).astype(np.float16), int(rows.shape[1]))

    def cosines(self, text: sparse.csr_matrix, authors: IntArray) -> FloatArray:
        """Of one row of length one with some authors."""
        known = len(self.columns)
        if self.later is not None and (authors >= known).any():
            found, first = np.empty(len(authors)), authors < known
            found[first] = self.cosines(text, authors[first])
            found[~first] = self.later.cosines(text, authors[~first] - known)
            return found
        dense = np.zeros(self.width, dtype=np.float32)
        dense[text.indices] = text.data
        weights = self.weights[authors].astype(np.float32)
        return np.asarray((dense[self.columns[authors]] * weights).sum(axis=1), dtype=np.float64)

    def matrix(self, authors: slice) -> sparse.csr_matrix:
        """The same as sparse rows."""
        columns, weights = self.columns[authors], self.weights[authors].astype(np.float32)
        edges = np.arange(len(columns) + 1) * columns.shape[1]
        shape = (len(columns), self.width)
        return sparse.csr_matrix((weights.ravel(), columns.ravel(), edges), shape=shape)

    @classmethod
    def joined_all(cls, several: Sequence[Grams]) -> Self:
        """Those of all, one after the other."""
        wide = max(one.columns.shape[1] for one in several)
        return cls(
            np.concatenate([_padded(one.columns, wide) for one in several]),
            np.concatenate([_padded(one.weights, wide) for one in several]),
            several[0].width,
        )

    def grown(self, other: Grams) -> Grams:
        """With those of more authors."""
        later = other if self.later is None else Grams.joined_all([self.later, other])
        return replace(self, later=later)

    def whole(self) -> Grams:
        """All in one table."""
        return (
            self
            if self.later is None
            else Grams.joined_all([replace(self, later=None), self.later])
        )

    def replaced(self, authors: IntArray, other: Grams) -> Grams:
        """With others for some authors."""
        wide = max(self.columns.shape[1], other.columns.shape[1])
        columns, weights = _padded(self.columns, wide).copy(), _padded(self.weights, wide).copy()
        columns[authors] = _padded(other.columns, wide)
        weights[authors] = _padded(other.weights, wide)
        return Grams(columns, weights, self.width)


def _padded(rows: NDArray[Any], wide: int) -> NDArray[Any]:
    return np.pad(rows, ((0, 0), (0, wide - rows.shape[1]))) if rows.shape[1] < wide else rows


@dataclass(frozen=True)
class Cells:
    """Directions around which the authors lie, and in which of them each one does."""

    centers: Unit
    cell: NDArray[np.int32]
    probes: int
    """So many cells nearest to a text are searched."""
    recall: float
    """The share of texts whose exact best author was found so, on a sample."""

    def members(self) -> list[IntArray]:
        """The authors of each cell."""
        order = np.argsort(self.cell, kind="stable")
        edges = np.cumsum(np.bincount(self.cell, minlength=len(self.centers)))[:-1]
        return np.split(order, edges)

    def grown(self, rows: Unit) -> Cells:
        """With more authors, each in the nearest cell."""
        new = (rows @ self.centers.T).argmax(axis=1).astype(np.int32)
        return replace(self, cell=np.concatenate([self.cell, new]))


def centers_of(rows: Unit, number: int, random: np.random.Generator) -> Unit:
    r"""Spherical k-means: :math:`c_j = \sum_{i \in j} x_i / \lVert \cdot \rVert`."""
    some = rows[np.sort(random.permutation(len(rows))[: 40 * number])]
    centers = some[random.permutation(len(some))[:number]]
    for done in range(ROUNDS):
        own = nearest_cell(some, centers)
        sums = np.zeros_like(centers)
        np.add.at(sums, own, some)
        empty = np.bincount(own, minlength=number) == 0
        sums[empty] = some[random.integers(0, len(some), int(empty.sum()))]
        centers = unit(sums)
        tell("laying out cells", done + 1, ROUNDS)
    return centers


def nearest_cell(rows: Unit, centers: Unit) -> NDArray[np.int32]:
    """The cell of each row."""
    parts = [
        (rows[low : low + BLOCK] @ centers.T).argmax(axis=1) for low in range(0, len(rows), BLOCK)
    ]
    return np.concatenate(parts).astype(np.int32)


@dataclass(frozen=True)
class Scores:
    """A text under its nearest authors, the likeliest first."""

    authors: IntArray
    score: FloatArray


@dataclass(frozen=True)
class Concentrations:
    """What all authors share: *a*, *b*, *c* and *r*, and how many texts they were learnt from."""

    style: float
    grams: float
    near: float
    rest: float
    texts: int = 0

    def score(self, parts: FloatArray) -> FloatArray:
        """s of the columns cosine, cosine of n-grams, nearness to everybody."""
        return np.asarray(parts @ np.array([self.style, self.grams, -self.near]))


@dataclass(frozen=True)
class Directory:
    """The authors as rows of numbers, and how a text is compared with them."""

    rows: Unit
    grams: Grams
    near: NDArray[np.float32]
    cells: Cells | None
    shared: Concentrations

    def __len__(self) -> int:
        return len(self.rows)

    def nearest(self, style: Unit, most: int = CANDIDATES, without: int | None = None) -> IntArray:
        """The authors nearest to one direction, in the order of their numbers."""
        if self.cells is None:
            found, near = np.arange(len(self)), self.rows @ style
        else:
            nearest = np.argsort(-(self.cells.centers @ style))[: self.cells.probes]
            members, rows = self._by_cell()
            found = np.concatenate([members[cell] for cell in nearest])
            near = np.concatenate([rows[cell] @ style for cell in nearest])
        if without is not None:
            near, found = near[found != without], found[found != without]
        if len(found) > most:
            found = found[np.argpartition(-near, most - 1)[:most]]
        return np.sort(found)

    def _by_cell(self) -> tuple[list[IntArray], list[Unit]]:
        """The authors of each cell and their rows side by side: to gather them takes longer."""
        held: tuple[list[IntArray], list[Unit]] | None = self.__dict__.get("_held")
        if held is None:
            assert self.cells is not None  # for the type checker: asked of cells alone
            members = self.cells.members()
            held = members, [self.rows[own] for own in members]
            object.__setattr__(self, "_held", held)  # worked out once, no part of what was learnt
        return held

    def parts(self, style: Unit, grams: sparse.csr_matrix, authors: IntArray) -> FloatArray:
        """(authors, 3): cosine, cosine of n-grams, nearness to everybody."""
        cosine = (self.rows[authors] @ style).astype(np.float64)
        return np.stack(
            [cosine, self.grams.cosines(grams, authors), self.near[authors].astype(np.float64)],
            axis=1,
        )

    def scores(self, style: Unit, grams: sparse.csr_matrix, without: int | None = None) -> Scores:
        """One text, given by unit rows, under its nearest authors."""
        authors = self.nearest(style, without=without)
        score = self.shared.score(self.parts(style, grams, authors))
        order = np.argsort(-score, kind="stable")
        return Scores(authors[order], score[order])

    def all_scores(self, styles: Unit, grams: sparse.csr_matrix) -> NDArray[np.float32]:
        """(texts, authors): every author is scored, none pruned."""
        shared, asked, found = self.shared, sparse.csc_matrix(grams.T), []
        kept = self.grams.whole()
        for low in range(0, len(self), BLOCK):
            block = slice(low, low + BLOCK)
            alike = (kept.matrix(block) @ asked).toarray().T
            score = shared.style * (styles @ self.rows[block].T) + shared.grams * alike
            found.append(score - shared.near * self.near[block])
        return np.concatenate(found, axis=1).astype(np.float32)

    def grown(self, rows: Unit, grams: Grams) -> Directory:
        """With more authors behind; nothing of the others is touched."""
        near = np.array([self._near(row) for row in rows], dtype=np.float32)
        return Directory(
            np.concatenate([self.rows, rows]),
            self.grams.grown(grams),
            np.concatenate([self.near, near]),
            None if self.cells is None else self.cells.grown(rows),
            self.shared,
        )

    def _near(self, row: Unit) -> float:
        found = self.nearest(row, NEAREST)
        return float((self.rows[found] @ row).mean())

    # -- as arrays -------------------------------------------------------------------------------

    def arrays(self) -> Arrays:
        """For a file."""
        grams = self.grams.whole()
        plain: dict[str, Any] = {"rows": self.rows, "near": self.near}
        plain |= {"columns": grams.columns, "weights": grams.weights}
        if self.cells is not None:
            plain |= {"centers": self.cells.centers, "cell": self.cells.cell}
        return plain


def near_everybody(rows: Unit) -> NDArray[np.float32]:
    """h: the mean cosine of each row to the nearest others."""
    import torch  # late: answers need none

    base, found = torch.from_numpy(rows).T, []
    most = min(NEAREST, len(rows) - 1)
    for low in range(0, len(rows), BLOCK):
        products = torch.from_numpy(rows[low : low + BLOCK]) @ base
        own = torch.arange(len(products))
        products[own, own + low] = -torch.inf
        found.append(products.topk(most, dim=1).values.mean(dim=1).numpy())
        tell("who is near to everybody", min(low + BLOCK, len(rows)), len(rows))
    return np.concatenate(found).astype(np.float32)


def with_cells(
    directory: Directory,
    styles: Unit,
    grams: sparse.csr_matrix,
    seed: int,
    without: IntArray | None = None,
) -> Directory:
    """Cells for a directory, searched as widely as the exact best of texts takes.

    ``without`` is the author of each text where the texts were learnt from: they are left out.
    """
    if len(directory) <= MOST_EXACT:
        return directory
    random = np.random.default_rng([seed, 79])
    number = int(np.sqrt(len(directory)))
    centers = centers_of(directory.rows, number, random)
    cell = nearest_cell(directory.rows, centers)
    some = random.permutation(styles.shape[0])[:SAMPLE]
    own = [None] * len(some) if without is None else without[some].tolist()
    every = directory.all_scores(styles[some], grams[some])
    if without is not None:
        every[np.arange(len(some)), without[some]] = -np.inf
    truth = every.argmax(axis=1).tolist()
    probes = max(1, number // 32)
    while True:
        found = replace(directory, cells=Cells(centers, cell, probes, 1.0))
        hits = [
            true in found.scores(styles[row], grams[row], author).authors[:1]
            for row, author, true in zip(some, own, truth, strict=True)
        ]
        recall = float(np.mean(hits))
        tell("how widely to search", probes, number)
        if recall >= LEAST_RECALL or probes >= number:
            return replace(directory, cells=Cells(centers, cell, probes, recall))
        probes = min(number, int(np.ceil(1.3 * probes)))
