r"""From a user's X to the rows of the model, and back.

.. math:: o = (x - \bar x) / s

Dense X is standardised by column. Wide sparse X (n-grams) is read by the encoder as it is, scaled
so that a row's root-mean-square norm is :math:`\sqrt{L}`, while the decoder explains a standardised
projection of it on its L leading right singular vectors.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from whowrote.arrays import FloatArray
from whowrote.errors import DataWarning, InputError
from whowrote.estimators.vector_table import BLOCK, VectorTable
from whowrote.model import Rows, SparseRows, StoredRows
from whowrote.model.fleet import UNLABELLED

FARTHEST = 1e15  # its square, times a sharp precision, still fits into float32
FAR_OUT, SQUEEZED = 1e3, 30.0
"""A value is far out at so many robust deviations, and so many times as far as any other."""
QUANTILE_ROWS = 2000


@dataclass(frozen=True)
class Scaling:
    """Learnt from the training rows; ``projection`` (inputs x L) exists for wide sparse X only."""

    mean: FloatArray
    scale: FloatArray
    projection: FloatArray | None = None
    input_scale: float = 1.0

    def state(self) -> dict[str, NDArray[Any]]:
        """What was learnt, as arrays for a model file."""
        arrays: dict[str, NDArray[Any]] = {"mean": self.mean, "scale": self.scale}
        arrays["input_scale"] = np.array([self.input_scale])
        if self.projection is not None:
            arrays["projection"] = self.projection.astype(np.float16)
        return arrays

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]]) -> Self:
        """The opposite of :meth:`state`."""
        projection = state.get("projection")
        return cls(
            state["mean"],
            state["scale"],
            None if projection is None else projection.astype(np.float32),
            float(state["input_scale"][0]),
        )

    @property
    def n_features(self) -> int:
        """L, the width of what the decoder explains."""
        return len(self.mean)

    @property
    def n_inputs(self) -> int | None:
        """The width of what the encoder reads, where it differs."""
        return None if self.projection is None else len(self.projection)

    @property
    def log_volume(self) -> float:
        """The sum of ln s: log densities of o minus this are log densities of x."""
        return float(np.log(self.scale.astype(np.float64)).sum())

    def dense(self, X: Any) -> FloatArray:
        """The unscaled rows that the decoder explains."""
        if self.projection is not None:
            return np.asarray(X @ self.projection)
        return np.asarray(X.toarray() if is_sparse(X) else X)

    def observations(self, X: Any, dtype: torch.dtype) -> torch.Tensor:
        """The standardised rows."""
        scaled = (self.dense(X).astype(np.float64) - self.mean) / self.scale
        far = np.abs(scaled) > FARTHEST
        if far.any():
            row, column = (int(i) for i in np.argwhere(far)[0])
            raise InputError(
                f"row {row}, column {column} lies {abs(scaled[row, column]):.3g} standard "
                f"deviations from the mean; at most {FARTHEST:g} can be computed with: look for a "
                "wrong value"
            )
        return torch.as_tensor(scaled).to(dtype)

    def rows(
        self, X: Any, labels: NDArray[np.int64] | None, device: torch.device, dtype: torch.dtype
    ) -> Rows:
        """The rows of the model on their device; those of a table as they are asked for."""
        if isinstance(X, VectorTable):
            return self._stored(X, labels, device, dtype)
        codes = np.full(X.shape[0], UNLABELLED) if labels is None else labels
        targets = self.observations(X, dtype).to(device)
        inputs = None if self.projection is None else self._sparse(X, device, dtype)
        return Rows(targets, torch.as_tensor(codes, dtype=torch.long, device=device), inputs)

    def _stored(
        self,
        X: VectorTable,
        codes: NDArray[np.int64] | None,
        device: torch.device,
        dtype: torch.dtype,
    ) -> StoredRows:
        def read(index: torch.Tensor, in_runs: bool) -> torch.Tensor:
            numbers = index.reshape(-1).cpu().numpy()
            found = X.take(numbers) if in_runs else X[numbers]
            return self.observations(found, dtype).to(device).reshape(*index.shape, -1)

        nothing = torch.full((1, X.shape[1]), torch.nan, device=device, dtype=dtype)
        if codes is None:  # one for all of millions
            labels = torch.full((1,), UNLABELLED, device=device).expand(len(X))
        else:
            labels = torch.as_tensor(codes, device=device)  # of four bytes, where a table has some
        return StoredRows(nothing.expand(X.shape), labels, read=read)

    def _sparse(self, X: Any, device: torch.device, dtype: torch.dtype) -> SparseRows:
        X = sparse.csr_array(X)
        return SparseRows(
            torch.as_tensor(X.indptr.astype(np.int64), device=device),
            torch.as_tensor(X.indices.astype(np.int64), device=device),
            torch.as_tensor(X.data * self.input_scale).to(device=device, dtype=dtype),
        )

    def undo(self, observations: FloatArray) -> FloatArray:
        """Standardised rows back to the units of X (of its projection, for wide sparse X)."""
        return observations * self.scale + self.mean


def is_sparse(X: Any) -> bool:
    """Whether X is a scipy sparse array or matrix."""
    return bool(sparse.issparse(X))


def stacked(X: Any, more: Any) -> Any:
    """Two sets of rows, dense or sparse, one below the other."""
    if isinstance(X, VectorTable):
        raise InputError(
            f"validation rows are given and X is the table '{X.path}'; of a table, a part is held "
            "out: say how much by validation_fraction, or leave it as it is"
        )
    if is_sparse(X) or is_sparse(more):
        return sparse.vstack([X, more], format="csr")
    return np.concatenate([X, more])


def learn_scaling(
    X: Any, projection_dim: int, seed: int, weights: FloatArray | None = None
) -> Scaling:
    """Means and standard deviations of the training rows; a constant column keeps scale one.

    A row of weight 2 counts as two.
    """
    projection, input_scale = None, 1.0
    if is_sparse(X) and X.shape[1] > projection_dim:
        from sklearn.decomposition import TruncatedSVD  # late: dense rows need none

        width = min(projection_dim, X.shape[0], X.shape[1] - 1)
        with np.errstate(invalid="ignore"):  # rows of zeros have no variance to explain
            counted = X if weights is None else sparse.diags_array(np.sqrt(weights)) @ X
            reducer = TruncatedSVD(width, random_state=seed).fit(counted)
        # Half precision in memory as on disk, so that a loaded model gives equal answers.
        projection = reducer.components_.T.astype(np.float16).astype(np.float32)
        norms = np.asarray(X.multiply(X).sum(axis=1)).ravel()
        norm = np.average(norms, weights=weights)
        input_scale = float(np.sqrt(width / norm)) if norms.any() else 1.0
    read = Scaling(np.zeros(0), np.ones(0), projection)
    with np.errstate(over="ignore", invalid="ignore"):
        mean, spread, farthest = moments(map(read.dense, blocks_of(X)), weights)
    if not np.isfinite(spread).all():
        column = int(np.argmin(np.isfinite(spread)))
        raise InputError(
            f"column {column} has values up to {farthest[column]:.3g}, too large to be "
            "standardised; look for a wrong value or divide the column by a constant"
        )
    # Below rounding, a column is constant: dividing by its noise would invent a feature.
    constant = spread <= np.maximum(1e-7 * np.abs(mean), 1e-12 * spread.max())
    return Scaling(mean, np.where(constant, 1.0, spread), projection, input_scale)


def blocks_of(X: Any) -> Iterator[Any]:
    """Dense rows some thousands at a time, equally whether they are in memory or in a file."""
    if isinstance(X, VectorTable):
        yield from X.blocks()
    else:
        for low in range(0, X.shape[0], BLOCK):
            yield X[low : low + BLOCK]


def moments(
    blocks: Iterator[FloatArray], weights: FloatArray | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    r"""Mean, standard deviation and largest size of every column, in one pass over blocks b.

    .. math:: \delta = \bar x_b - \bar x, \quad
        S \leftarrow S + S_b + \delta^2 \frac{w\, w_b}{w + w_b}, \quad
        \bar x \leftarrow \bar x + \delta \frac{w_b}{w + w_b}
    """
    total, row, mean, squares, farthest = 0.0, 0, np.zeros(1), np.zeros(1), np.zeros(1)
    for block in blocks:
        raw = block.astype(np.float64)
        counts = np.ones(len(raw)) if weights is None else weights[row : row + len(raw)]
        own = counts.sum()
        centre = raw.mean(0) if weights is None else np.average(raw, axis=0, weights=counts)
        spread = (raw - centre) ** 2
        spread = (spread if weights is None else spread * counts[:, None]).sum(0)
        away, share = centre - mean, own / (total + own)
        squares = spread if not row else squares + spread + away**2 * (total * share)
        mean = centre if not row else mean + away * share
        farthest = np.maximum(farthest, np.abs(raw).max(axis=0))
        total, row = total + own, row + len(raw)
    return mean, np.sqrt(squares / total), farthest


LEAST_UNIT = 1e-9
"""Scores of regressions on ones and minus ones are of order one: less does not differ."""


def one_unit(X: Any, n_classes: int) -> Scaling:
    """One unit for all columns and no centre: scores of classes are compared with each other."""
    if is_sparse(X) or isinstance(X, VectorTable) or X.shape[1] != n_classes:
        raise InputError(
            f"start is 'scores' and X has {X.shape[1]} columns for {n_classes} classes; it must be "
            "a dense array with a column per class: give scores, or start='logistic'"
        )
    unit = float(np.std(X))
    # Texts that are all alike leave rounding alone, and its unit would make evidence of it.
    return Scaling(np.zeros(n_classes), np.full(n_classes, unit if unit > LEAST_UNIT else 1.0))


def warn_of_far_values(X: Any, stacklevel: int = 3) -> None:
    """Warn of a value so far out that beside it the rest of its column is one point.

    Deviations from the median are measured by the third quartile of those that are not zero. A
    value is named if it lies ``FAR_OUT`` times as far out, and ``SQUEEZED`` times as far as the
    next one that does not: neither a rare one in an indicator nor the largest of heavy-tailed
    values, which has others near it, is a wrong one.
    """
    columns = _suspected(X) if is_sparse(X) else np.arange(X.shape[1])
    rows = X[:, columns].toarray() if is_sparse(X) else X
    some = rows[:: -(-len(rows) // QUANTILE_ROWS)].astype(np.float64)
    median = np.median(some, axis=0)
    unit = np.array([_third_quartile(column) for column in np.abs(some - median).T])
    high, low = np.full(len(columns), -np.inf), np.full(len(columns), np.inf)
    for block in blocks_of(rows):
        high, low = np.maximum(high, block.max(axis=0)), np.minimum(low, block.min(axis=0))
    reach, found = np.maximum(high - median, median - low), []
    for place in np.flatnonzero((reach > FAR_OUT * unit) & (unit > 0)):
        values = np.concatenate([block[:, place] for block in blocks_of(rows)]).astype(np.float64)
        away = np.abs(values - median[place])
        far = away > FAR_OUT * unit[place]
        if away[far].min() > SQUEEZED * away[~far].max():
            found += [(int(row), place, values[row]) for row in np.flatnonzero(far)]
    if not found:
        return
    row, place, value = found[0]
    warnings.warn(
        f"row {row} of X has {value:.3g} in column {columns[place]}, where most values "
        f"are within {unit[place]:.3g} of the median ({len(found)} such in all): beside it they "
        "can hardly be told apart; look for a wrong value, and drop, clip or impute it",
        DataWarning,
        stacklevel=stacklevel,  # where fit was called
    )


def _suspected(X: Any) -> NDArray[np.int64]:
    """Columns of sparse rows that are worth a look: those with values far above all others."""
    size = np.abs(X.data)
    return np.unique(X.indices[size > FAR_OUT * _third_quartile(size)]).astype(np.int64)


def _third_quartile(deviations: FloatArray) -> float:
    """Of those that are not zero; 0 where all are."""
    moved = deviations[deviations > 0]
    return float(np.quantile(moved, 0.75)) if len(moved) else 0.0
