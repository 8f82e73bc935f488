r"""How near a text is to the mean of an author's texts, block by block of the features.

.. math:: s_k(x) = \frac{x' \bar x_k}{\lVert x \rVert\, \lVert \mu_k \rVert}, \qquad
    \lVert \mu_k \rVert^2 = \frac{n_k^2 \lVert \bar x_k \rVert^2 - \sum_i \lVert x_i \rVert^2}
    {n_k (n_k - 1)}

A contrast says how a text parts from *other* enrolled authors; nearness says how like it is to
*this* one, also when nobody like them is enrolled. It is a cosine but for the length of the mean,
which is estimated without the noise of the single texts: so it does not grow with their number, and
a training text against the mean of the author's other texts compares with a new one against all.
Texts of one *unit* (chapters of a novel, replies to one letter) are alike for other reasons than
their author, and a new text is of none of them: so only texts of different units are compared, and
the length is estimated as

.. math:: \lVert \mu_k \rVert^2 = \frac{n_k^2 \lVert \bar x_k \rVert^2
    - \sum_u \lVert \sum_{i \in u} x_i \rVert^2}{n_k^2 - \sum_u n_u^2},

which is the equation above where every text is a unit.

What everybody writes who writes of such things in such a place says nothing of one author, so dense
rows are centred first, by as much as *K* authors can tell of it:

.. math:: x \leftarrow x - \frac{K \bar\mu + o}{K + 1}

with :math:`\bar\mu` the mean of the authors' means and *o* the origin of the vectors. A stranger is
not among those who set the centre; with few authors that makes all the difference, so an author who
plays the stranger is left out of it as well (:meth:`Profiles.as_strangers`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from whowrote.arrays import Arrays, FloatArray, IntArray
from whowrote.attribution.rows import Passages, Read


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
    shifts: tuple[FloatArray | None, ...]
    """What is added to the rows of a block; None where they are taken as they are."""

    @classmethod
    def learn(
        cls,
        rows: sparse.csr_matrix,
        codes: IntArray,
        blocks: Mapping[str, slice],
        origins: Mapping[str, FloatArray],
        units: IntArray | None = None,
    ) -> Self:
        """The authors' means of the rows of texts; ``origins`` of the blocks to be centred."""
        shifts = []
        for name, own in blocks.items():
            origin = origins.get(name)
            shifts.append(None if origin is None else -_centre(rows[:, own], codes, origin))
        return cls.about(rows, codes, tuple(blocks.values()), tuple(shifts), units)

    @classmethod
    def about(
        cls,
        rows: sparse.csr_matrix,
        codes: IntArray,
        columns: Sequence[slice],
        shifts: Sequence[FloatArray | None],
        units: IntArray | None = None,
    ) -> Self:
        """The authors' means about centres that are known; ``units`` are those of the texts."""
        means, lengths = [], []
        for own, shift in zip(columns, shifts, strict=True):
            part = _units(rows[:, own], shift)
            # Half precision in memory as on disk, so that a loaded model gives equal answers.
            mean = _author_means(part, codes).astype(np.float16).astype(np.float32)
            means.append(mean)
            lengths.append(mean_lengths(mean, part, codes, units))
        return cls(tuple(columns), tuple(means), tuple(lengths), tuple(shifts))

    def nearness(self, rows: sparse.csr_matrix) -> FloatArray:
        """(texts, authors, blocks)."""
        found = []
        for columns, mean, length, shift in self._blocks():
            dots = _units(rows[:, columns], shift).astype(np.float32) @ mean.T
            found.append(dots / length)
        return np.stack(found, axis=-1).astype(np.float64)

    def own_nearness(
        self,
        rows: sparse.csr_matrix,
        codes: IntArray,
        as_new: sparse.csr_matrix | None = None,
        units: IntArray | None = None,
    ) -> FloatArray:
        """(texts, blocks): training texts against the mean of their authors' texts of other units.

        ``as_new`` has the rows as if they were new, where that makes a difference. An author with
        one text is compared with that text itself: there is no other.
        """
        found, counts = [], np.bincount(codes)[codes].astype(np.float64)
        units = _apart(codes, units)
        alike = np.bincount(units)[units]
        for columns, mean, length, shift in self._blocks():
            part = _units(rows[:, columns], shift)
            new = part if as_new is None else _units(as_new[:, columns], shift)
            every = np.asarray(new.astype(np.float32) @ mean.T, dtype=np.float64)
            dots = every[np.arange(len(codes)), codes]
            unit = row_products(new, sparse.csr_matrix(_sums(part, units)[units]))
            others = (counts * dots - unit) / np.maximum(counts - alike, 1)
            found.append(np.where(counts < 2, dots, others) / length[codes])
        return np.stack(found, axis=-1)

    def as_strangers(
        self,
        rows: sparse.csr_matrix,
        codes: IntArray,
        as_new: sparse.csr_matrix,
        blocks: Mapping[str, slice],
        origins: Mapping[str, FloatArray],
        units: IntArray | None = None,
    ) -> FloatArray:
        """(texts, authors, blocks): nearness to others had the texts' own author not been there."""
        found = self.nearness(as_new)
        for number, name in enumerate(blocks):
            if name not in origins:
                continue
            part, new = rows[:, blocks[name]].toarray(), as_new[:, blocks[name]].toarray()
            for author in range(int(codes.max()) + 1):
                own = codes == author
                shift = -_centre(part[~own], codes[~own], origins[name])
                rows_there = sparse.csr_matrix(_unit(part + shift))
                means = _author_means(rows_there, codes)
                lengths = mean_lengths(means, rows_there, codes, units)
                found[own, :, number] = _unit(new[own] + shift) @ means.T / lengths
        return found

    def _blocks(self) -> Any:
        return zip(self.columns, self.means, self.lengths, self.shifts, strict=True)

    def state(self) -> dict[str, NDArray[Any]]:
        """What was learnt, as arrays for a model file."""
        arrays: dict[str, NDArray[Any]] = {}
        for number, (_, mean, length, shift) in enumerate(self._blocks()):
            arrays |= {f"means.{number}": mean.astype(np.float16), f"lengths.{number}": length}
            if shift is not None:
                arrays[f"shifts.{number}"] = shift
        return arrays

    @classmethod
    def restore(cls, columns: Sequence[slice], state: Arrays) -> Self:
        """The opposite of :meth:`state`; models of before have no shifts."""
        numbers = range(len(columns))
        means = [state[f"means.{n}"].astype(np.float32) for n in numbers]
        shifts = [np.asarray(state[k]) if (k := f"shifts.{n}") in state else None for n in numbers]
        lengths = tuple(state[f"lengths.{n}"] for n in numbers)
        return cls(tuple(columns), tuple(means), lengths, tuple(shifts))


def _centre(rows: Any, codes: IntArray, origin: FloatArray) -> FloatArray:
    """What the authors share, as far as so many of them can tell; each of them counts alike."""
    named, own = np.unique(codes, return_inverse=True)
    mean = np.asarray(_author_means(rows, own)).mean(axis=0)
    return np.asarray((len(named) * mean + origin) / (len(named) + 1.0))


def _author_means(rows: Any, codes: IntArray) -> FloatArray:
    counts, place = np.bincount(codes), (codes, np.arange(len(codes)))
    share = sparse.csr_matrix((1.0 / counts[codes], place))
    return np.asarray((share @ sparse.csr_matrix(rows)).toarray())


def _unit(rows: FloatArray) -> FloatArray:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(norms > 0, norms, 1.0))


def _units(rows: Any, shift: FloatArray | None) -> sparse.csr_matrix:
    """Rows of one block, centred, at length one."""
    if shift is None:
        return unit_rows(sparse.csr_matrix(rows))
    return sparse.csr_matrix(_unit(rows.toarray() + shift))


def mean_lengths(
    mean: NDArray[Any], rows: sparse.csr_matrix, codes: IntArray, units: IntArray | None = None
) -> FloatArray:
    """Lengths of the authors' means without the noise of single units; a tenth of them at least."""
    n, units = np.bincount(codes).astype(np.float64), _apart(codes, units)
    author = np.empty(int(units.max()) + 1, dtype=np.int64)
    author[units] = codes
    whole = (mean.astype(np.float64) ** 2).sum(axis=1)
    inside = np.bincount(author, squared_norms(_sums(rows, units)))
    pairs = n**2 - np.bincount(author, np.bincount(units).astype(np.float64) ** 2)
    clean = np.maximum((n**2 * whole - inside) / np.maximum(pairs, 1), 0.1 * whole)
    return np.asarray(np.sqrt(np.where(n < 2, whole, clean) + 1e-12))


def _sums(rows: sparse.csr_matrix, units: IntArray) -> sparse.csr_matrix:
    """The sum of the rows of each unit."""
    join = sparse.csr_matrix((np.ones(len(units)), (units, np.arange(len(units)))))
    return sparse.csr_matrix(join @ rows)


def _apart(codes: IntArray, units: IntArray | None) -> IntArray:
    """Numbers of units; the texts of an author who has one unit alone are units themselves."""
    texts = np.arange(len(codes))
    if units is None:
        return texts
    _, units = np.unique(np.stack([codes, units]), axis=1, return_inverse=True)
    units = units.ravel()
    each = np.array([len(np.unique(units[codes == k])) for k in range(int(codes.max()) + 1)])
    lone = each[codes] < 2
    _, found = np.unique(np.where(lone, len(codes) + texts, units), return_inverse=True)
    return np.asarray(found, dtype=np.int64)
