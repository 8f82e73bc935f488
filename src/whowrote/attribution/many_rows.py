r"""Ridge contrasts of many rows, solved by conjugate gradients.

The regression is that of :mod:`whowrote.attribution.contrasts`, of one view. Above a few thousand
rows an inverse costs too much, but a product of :math:`K` with some columns does not, so

.. math:: M (K + \lambda D) M \, A = M Y

is solved for all authors at once, once with all rows, once for every fold without its rows, and
once for every group of authors without the rows of the group and of a fold: the diagonal :math:`M`
is zero at what is left out. Each of these starts where the one before it ended. The conditioner is
that of Frangella, Tropp and Udell (2023): with the leading directions
:math:`U \Lambda U^\top \approx K` and :math:`\mu` the mean of :math:`\lambda D`,

.. math:: P = M \left( U (\Lambda - \Lambda_r) U^\top + (\Lambda_r + \mu) I \right) M, \qquad
    (\Lambda_r + \mu) P^{-1} = M - M U \left( \frac{\Lambda_r + \mu}{\Lambda - \Lambda_r}
    + U^\top M U \right)^{-1} U^\top M
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from whowrote.arrays import FloatArray, IntArray
from whowrote.attribution.contrasts import Contrasts, Held, Known, Scaled
from whowrote.estimators.scaling import is_sparse
from whowrote.progress import tell

Matrix = NDArray[np.float32]

MOST_KERNEL_ROWS = 24_000
"""Their products take 2.3 GB."""
VIEW = {"features": 1.0, "vectors": 0.5, "written": 1.0, "masked": 0.5, "plain": 0.5}
PENALTY = 1.0
"""The parts and the penalty: chosen on forty writers of pan11 (``experiments/many_texts.py``)."""
COMMON = 15
"""A column that one row in so many has is multiplied as if all rows had it."""
BLOCK = 4000
"""Rows, and columns, that are multiplied at a time."""
DIRECTIONS = 400
STEPS, TOLERANCE = 60, 3e-3
LEFT_OUT = 300
"""Contrasts of strangers: authors are left out in so many groups that there are about as many."""
LEAST_GROUPS = 5


def contrasts_of_many(known: Known, parts: Mapping[str, slice]) -> tuple[Contrasts, Held]:
    """One linear map per author, and what it would answer to held-out rows and to strangers."""
    scaled, view = Scaled.of(known.rows), {n: w for n, w in VIEW.items() if n in parts}
    kernel = _kernel({n: scaled.part(known.rows, parts[n]) for n in view}, view)
    answers, held_out, strangers = _solve(known, _System.of(kernel, known))
    maps = np.zeros((known.rows.shape[1], known.n_authors))
    for name, weight in view.items():
        maps[parts[name]] = weight**2 * (scaled.part(known.rows, parts[name]).T @ answers)
    contrasts = Contrasts([slice(0, None)])
    contrasts.set(*scaled.undone(maps, answers.sum(axis=0, dtype=np.float64)))
    return contrasts, Held(held_out, strangers, (("+".join(view), 1.0),))


def _kernel(parts: Mapping[str, Any], view: Mapping[str, float]) -> Matrix:
    """Weighed products of all rows with all rows; the one stands for the bias."""
    n = next(iter(parts.values())).shape[0]
    kernel, rare = np.ones((n, n), dtype=np.float32), []
    for done, (name, part) in enumerate(parts.items()):
        weighed = (part * view[name]).astype(np.float32)
        if is_sparse(weighed):
            often = np.bincount(weighed.indices, minlength=weighed.shape[1]) >= n / COMMON
            rare.append(weighed[:, ~often])
            weighed = weighed[:, often]
        _add_upper(kernel, weighed)
        tell("comparing the texts", done + 1, 2 * len(parts))
    for own in _blocks(n):  # so far, only what is not left of a block was added
        kernel[own.stop :, own] = kernel[own, own.stop :].T
    for done, part in enumerate(rare):
        turned = sparse.csr_matrix(part.T)
        for own in _blocks(n):
            kernel[own] += (part[own] @ turned).toarray()
        tell("comparing the texts", len(parts) + done + 1, 2 * len(parts))
    return kernel


def _add_upper(kernel: Matrix, rows: Any) -> None:
    """Add the products of each block of rows with itself and with all later ones."""
    for columns in _blocks(rows.shape[1]):
        part = rows[:, columns]
        dense = part.toarray() if is_sparse(part) else part
        for own in _blocks(len(kernel)):
            kernel[own, own.start :] += dense[own] @ dense[own.start :].T


def _blocks(count: int) -> list[slice]:
    """Ranges that cover so many rows or columns.

    >>> _blocks(5000)
    [slice(0, 4000, None), slice(4000, 5000, None)]
    """
    return [slice(low, min(low + BLOCK, count)) for low in range(0, count, BLOCK)]


@dataclass(frozen=True)
class _System:
    """K, the diagonal of the penalty, and what conditions them."""

    kernel: Matrix
    penalty: Matrix
    directions: Matrix
    values: FloatArray

    @classmethod
    def of(cls, kernel: Matrix, known: Known) -> Self:
        """The system of all rows."""
        # Every author counts alike, or one would look rarer when a text of theirs is held out.
        thinness = np.bincount(known.codes)[known.codes] * known.n_authors / len(known.codes)
        penalty = (PENALTY * thinness).astype(np.float32)[:, None]
        return cls(kernel, penalty, *_leading(kernel, min(DIRECTIONS, len(kernel) // 4)))

    def solve(self, targets: Matrix, there: NDArray[np.bool_], start: Matrix) -> Matrix:
        """A for the rows that are there; others have zero."""
        mask = there.astype(np.float32)[:, None]
        conditioned = self._conditioner(mask)
        found, aims = start * mask, targets * mask
        left = (aims - self._times(found)) * mask
        goal = TOLERANCE * np.linalg.norm(aims, axis=0)
        towards = step = conditioned(left)
        size = _dots(left, towards)
        for _ in range(STEPS):
            if (np.linalg.norm(left, axis=0) <= goal).all():
                break
            ahead = self._times(step) * mask
            length = size / np.maximum(_dots(step, ahead), 1e-30)
            found += length * step
            left -= length * ahead
            towards = conditioned(left)
            before, size = size, _dots(left, towards)
            step = (towards + size / np.maximum(before, 1e-30) * step).astype(np.float32)
        return found

    def _times(self, columns: Matrix) -> Matrix:
        return np.asarray(self.kernel @ columns + self.penalty * columns)

    def _conditioner(self, mask: Matrix) -> Callable[[Matrix], Matrix]:
        """What divides by P, up to a factor."""
        rest = self.values[-1] + float(self.penalty.mean())
        away, own = np.maximum(self.values - self.values[-1], 1e-6), self.directions * mask
        inner = np.linalg.inv(np.diag(rest / away) + (own.T @ own).astype(np.float64))
        turned = own @ inner.astype(np.float32)
        return lambda columns: np.asarray(columns - turned @ (own.T @ columns))


def _dots(first: Matrix, second: Matrix) -> Matrix:
    return np.asarray(np.einsum("ij,ij->j", first, second))


def _leading(kernel: Matrix, count: int) -> tuple[Matrix, FloatArray]:
    """Leading directions of a kernel, and its values there, from two products with a basis."""
    drawn = np.random.default_rng(0).standard_normal((len(kernel), count), dtype=np.float32)
    basis, _ = np.linalg.qr(kernel @ np.linalg.qr(drawn)[0])
    values, turn = np.linalg.eigh((basis.T @ (kernel @ basis)).astype(np.float64))
    return np.asarray(basis @ turn[:, ::-1].astype(np.float32)), np.maximum(values[::-1], 0.0)


def _solve(known: Known, system: _System) -> tuple[Matrix, FloatArray, FloatArray]:
    n, k, folds = len(known.codes), known.n_authors, np.unique(known.folds)
    targets = np.full((n, k), -1.0 / (k - 1), dtype=np.float32)
    targets[np.arange(n), known.codes] = 1.0
    groups = _groups(known.codes, len(folds))
    answers = system.solve(targets, np.ones(n, dtype=bool), np.zeros_like(targets))
    held_out, strangers = np.empty((n, k)), np.full((n, k), np.nan)
    for number, fold in enumerate(folds):
        out = known.folds == fold
        without = system.solve(targets, ~out, answers)
        held_out[out] = system.kernel[out] @ without
        for group in range(number, int(groups.max()) + 1, len(folds)):
            # The same fold is away, so that strangers meet the very texts that insiders met.
            there = groups != group
            theirs = ~there[known.codes]
            asked, start = out & theirs, np.ascontiguousarray(without[:, there])
            others = system.solve(targets[:, there], ~(out | theirs), start)
            strangers[np.ix_(asked, there)] = system.kernel[asked] @ others
        tell("contrasting the authors", number + 1, len(folds))
    return answers, held_out, strangers


def _groups(codes: IntArray, n_folds: int) -> IntArray:
    """Of each author, with whom they are left out: as many texts in each group, about.

    >>> _groups(np.repeat([0, 1, 2, 3, 4, 5], [9, 1, 1, 1, 1, 1]), 2).tolist()
    [0, 1, 2, 3, 4, 5]
    """
    counts = np.bincount(codes)
    n_groups = int(np.clip(LEFT_OUT // len(counts), max(LEAST_GROUPS, n_folds), len(counts)))
    found = np.empty(len(counts), dtype=np.int64)
    found[np.lexsort((_first_rows(codes), -counts))] = np.arange(len(counts)) % n_groups
    return found


def _first_rows(codes: IntArray) -> IntArray:
    """Where each author appears first: who is grouped with whom must not depend on names."""
    return np.asarray(np.unique(codes, return_index=True)[1], dtype=np.int64)
