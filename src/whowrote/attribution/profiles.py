r"""How near a text is to the mean of an author's texts, block by block of the features.

.. math:: s_k(x) = \frac{x' \bar x_k}{\lVert x \rVert\, \lVert \mu_k \rVert}, \qquad
    \lVert \mu_k \rVert^2 = \frac{n_k^2 \lVert \bar x_k \rVert^2 - \sum_i \lVert x_i \rVert^2}
    {n_k (n_k - 1)}

A contrast says how a text parts from *other* enrolled authors; nearness says how like it is to
*this* one, also when nobody like them is enrolled. It is a cosine but for the length of the mean,
which is estimated without the noise of the single texts: so it does not grow with their number, and
a training text against the mean of the author's other texts compares with a new one against all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from whowrote.arrays import Arrays, FloatArray, IntArray
from whowrote.attribution.rows import Passages, Read
from whowrote.errors import InputError

LEAST_REPEATED = 50
"""Authors with two texts from whom one scale for all can be learnt."""


def text_rows(read: Read) -> sparse.csr_matrix:
    """A row per text: the mean of its passages' rows."""
    return sparse.csr_matrix(mean_rows(read.passages, sparse.csr_matrix(read.X)))


def mean_rows(passages: Passages, rows: Any) -> Any:
    """The same of other rows of the passages, sparse or dense as these are."""
    document, counts = passages.document, passages.counts
    place = (document, np.arange(len(document)))
    share = sparse.csr_matrix((1.0 / counts[document], place), shape=(len(counts), len(document)))
    return share @ rows


def row_products(rows: sparse.csr_matrix, other: sparse.csr_matrix) -> FloatArray:
    """The inner product of each row with the row of the same number."""
    return np.asarray(rows.multiply(other).sum(axis=1), dtype=np.float64).ravel()


def squared_norms(rows: sparse.csr_matrix) -> FloatArray:
    """Squared length of every row."""
    return row_products(rows, rows)


def unit_rows(rows: sparse.csr_matrix) -> sparse.csr_matrix:
    """Rows of length one; a row of zeros stays one."""
    norms = np.sqrt(squared_norms(rows))
    return sparse.csr_matrix(sparse.diags_array(1.0 / np.where(norms > 0, norms, 1.0)) @ rows)


@dataclass(frozen=True)
class Profiles:
    """The mean row of each author (authors, columns) and its length (authors,), for each block."""

    columns: tuple[slice, ...]
    means: tuple[NDArray[np.float32], ...]
    lengths: tuple[FloatArray, ...]

    @classmethod
    def learn(cls, rows: sparse.csr_matrix, codes: IntArray, columns: Sequence[slice]) -> Self:
        """The authors' means of the rows of texts."""
        counts = np.bincount(codes)
        means, lengths = [], []
        for own in columns:
            part = unit_rows(sparse.csr_matrix(rows[:, own]))
            share = sparse.csr_matrix((1.0 / counts[codes], (codes, np.arange(len(codes)))))
            # Half precision in memory as on disk, so that a loaded model gives equal answers.
            mean = (share @ part).toarray().astype(np.float16).astype(np.float32)
            means.append(mean)
            lengths.append(mean_lengths(mean, squared_norms(part), codes))
        return cls(tuple(columns), tuple(means), tuple(lengths))

    def nearness(self, rows: sparse.csr_matrix) -> FloatArray:
        """(texts, authors, blocks)."""
        found = []
        for columns, mean, length in zip(self.columns, self.means, self.lengths, strict=True):
            dots = unit_rows(rows[:, columns]).astype(np.float32) @ mean.T
            found.append(dots / length)
        return np.stack(found, axis=-1).astype(np.float64)

    def own_nearness(
        self, rows: sparse.csr_matrix, codes: IntArray, as_new: sparse.csr_matrix | None = None
    ) -> FloatArray:
        """(texts, blocks): training texts against the mean of their authors' other texts.

        ``as_new`` has the rows as if they were new, where that makes a difference. An author with
        one text is compared with that text itself: there is no other.
        """
        found, counts = [], np.bincount(codes)[codes].astype(np.float64)
        for columns, mean, length in zip(self.columns, self.means, self.lengths, strict=True):
            part = unit_rows(sparse.csr_matrix(rows[:, columns]))
            new = part if as_new is None else unit_rows(sparse.csr_matrix(as_new[:, columns]))
            every = np.asarray(new.astype(np.float32) @ mean.T, dtype=np.float64)
            dots = every[np.arange(len(codes)), codes]
            others = (counts * dots - row_products(new, part)) / np.maximum(counts - 1, 1)
            found.append(np.where(counts < 2, dots, others) / length[codes])
        return np.stack(found, axis=-1)

    def state(self) -> dict[str, NDArray[Any]]:
        """What was learnt, as arrays for a model file."""
        arrays: dict[str, NDArray[Any]] = {}
        for number, (mean, length) in enumerate(zip(self.means, self.lengths, strict=True)):
            arrays |= {f"means.{number}": mean.astype(np.float16), f"lengths.{number}": length}
        return arrays

    @classmethod
    def restore(cls, columns: Sequence[slice], state: Arrays) -> Self:
        """The opposite of :meth:`state`."""
        numbers = range(len(columns))
        means = [state[f"means.{n}"].astype(np.float32) for n in numbers]
        return cls(tuple(columns), tuple(means), tuple(state[f"lengths.{n}"] for n in numbers))


def mean_lengths(mean: NDArray[np.float32], squares: FloatArray, codes: IntArray) -> FloatArray:
    """Lengths of the authors' means without the noise of single texts; a tenth of them at least."""
    n = np.bincount(codes).astype(np.float64)
    whole = (mean.astype(np.float64) ** 2).sum(axis=1)
    clean = (n**2 * whole - np.bincount(codes, squares)) / np.maximum(n * (n - 1), 1)
    return np.asarray(np.sqrt(np.where(n < 2, whole, np.maximum(clean, 0.1 * whole)) + 1e-12))


# -- one scale for all authors ------------------------------------------------------------------


@dataclass(frozen=True)
class Space:
    """Coordinates in which both scatters are diagonal; ``spread`` is b, ``df`` is nu."""

    mean: FloatArray
    axes: FloatArray
    """(columns, D)."""
    spread: FloatArray
    df: float = 1000.0
    temperature: float = 1.0

    @classmethod
    def learn(cls, rows: FloatArray, codes: IntArray, shrinkage: float, round_: bool) -> Self:
        """Both scatters of unit rows, from authors with several texts, by moments."""
        rows = unit(rows)
        times = np.bincount(codes)
        several = times > 1
        if several.sum() < LEAST_REPEATED:
            raise InputError(
                f"{int(several.sum())} of {len(times)} authors have two texts; what one person "
                f"varies is learnt from at least {LEAST_REPEATED} such authors: add texts"
            )
        means = author_means(rows, codes)
        inside = (rows - means[codes])[several[codes]]
        within = inside.T @ inside / (len(inside) - several.sum())
        size = len(within)
        within = (1 - shrinkage) * within + shrinkage * np.trace(within) / size * np.eye(size)
        centre = means.mean(axis=0)
        between = np.cov((means - centre).T) - within * (1.0 / times).mean()
        root = np.linalg.cholesky(np.linalg.inv(within))
        spread, turn = np.linalg.eigh(root.T @ between @ root)
        spread = np.full(size, spread.mean()) if round_ else spread
        order = np.argsort(-spread, kind="stable")
        return cls(centre, root @ turn[:, order], np.maximum(spread[order], 1e-3))

    def place(self, rows: FloatArray) -> NDArray[np.float32]:
        """Rows in these coordinates."""
        return np.asarray((unit(rows) - self.mean) @ self.axes, dtype=np.float32)

    def shrunk(self, sums: FloatArray, times: FloatArray) -> FloatArray:
        """m_k of the sum of an author's n_k placed texts."""
        weight = self.spread / (times[:, None] * self.spread + 1.0)
        return np.asarray(weight * sums)

    def scale(self, times: FloatArray) -> FloatArray:
        """v_k of authors with so many texts."""
        return np.asarray(1.0 + self.spread / (times[..., None] * self.spread + 1.0))

    def distance(self, x: FloatArray, means: FloatArray, times: FloatArray) -> FloatArray:
        """Squared distances of texts from authors, in units of their scales."""
        return np.asarray(((x - means) ** 2 / self.scale(times)).sum(axis=-1))

    def log_density(self, x: FloatArray, means: FloatArray, times: FloatArray) -> FloatArray:
        """ln p(x | k)."""
        half = (self.df + len(self.spread)) / 2.0
        tail = -half * np.log1p(self.distance(x, means, times) / self.df)
        return np.asarray(tail - np.log(self.scale(times)).sum(axis=-1) / 2.0)


def unit(rows: FloatArray) -> FloatArray:
    """Rows of length one."""
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12))


def author_means(rows: FloatArray, codes: IntArray) -> FloatArray:
    """(authors, columns)."""
    total = np.zeros((codes.max() + 1, rows.shape[1]))
    np.add.at(total, codes, rows)
    return np.asarray(total / np.bincount(codes)[:, None])
