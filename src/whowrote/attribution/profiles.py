r"""How near a text is to the mean of an author's texts, block by block of the features.

.. math:: \cos(x, \bar x_k), \qquad
    \bar x_k = \frac{1}{n_k} \sum_{i \in k} x_i

A contrast says how a text parts from *other* enrolled authors; the cosine says how like it is to
*this* one, also when nobody like him is enrolled. A text of the training is compared with the mean
of the author's other texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from whowrote.attribution.reading import Read
from whowrote.features.hybrid import Hybrid
from whowrote.features.interface import TextFeatures

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.intp]


def blocks(features: TextFeatures) -> dict[str, slice]:
    """The parts of a row that are compared on their own."""
    if isinstance(features, Hybrid):
        width = len(features.mean_)
        return {"style vectors": slice(0, width), "n-grams": slice(width, None)}
    return {"features": slice(0, None)}


def text_rows(read: Read) -> sparse.csr_matrix:
    """A row per text: the mean of its passages' rows."""
    document, counts = read.passages.document, read.passages.counts
    place = (document, np.arange(len(document)))
    share = sparse.csr_matrix((1.0 / counts[document], place), shape=(len(counts), len(document)))
    return sparse.csr_matrix(share @ sparse.csr_matrix(read.X))


def squared_norms(rows: sparse.csr_matrix) -> FloatArray:
    """Squared length of every row."""
    return np.asarray(rows.multiply(rows).sum(axis=1), dtype=np.float64).ravel()


def unit_rows(rows: sparse.csr_matrix) -> sparse.csr_matrix:
    """Rows of length one; a row of zeros stays one."""
    norms = np.sqrt(squared_norms(rows))
    return sparse.csr_matrix(sparse.diags_array(1.0 / np.where(norms > 0, norms, 1.0)) @ rows)


@dataclass(frozen=True)
class Profiles:
    """The mean row of each author, (authors, columns), for each block."""

    columns: tuple[slice, ...]
    means: tuple[NDArray[np.float32], ...]

    @classmethod
    def learn(cls, rows: sparse.csr_matrix, codes: IntArray, columns: Sequence[slice]) -> Self:
        """The authors' means of the rows of texts."""
        share = 1.0 / np.bincount(codes)[codes]
        mean = sparse.csr_matrix((share, (codes, np.arange(len(codes))))) @ rows
        # Half precision in memory as on disk, so that a loaded model gives equal answers.
        parts = [mean[:, own].toarray().astype(np.float16).astype(np.float32) for own in columns]
        return cls(tuple(columns), tuple(parts))

    def cosines(self, rows: sparse.csr_matrix) -> FloatArray:
        """(texts, authors, blocks)."""
        found = []
        for columns, mean in zip(self.columns, self.means, strict=True):
            norms = np.linalg.norm(mean, axis=1)
            dots = unit_rows(rows[:, columns]).astype(np.float32) @ mean.T
            found.append(dots / np.where(norms > 0, norms, 1.0))
        return np.stack(found, axis=-1).astype(np.float64)

    def own_cosines(self, rows: sparse.csr_matrix, codes: IntArray) -> FloatArray:
        """(texts, blocks): training texts against the mean of their authors' other texts.

        An author with one text is compared with that text itself: there is no other.
        """
        found, counts = [], np.bincount(codes)[codes].astype(np.float64)
        for columns, mean in zip(self.columns, self.means, strict=True):
            part = sparse.csr_matrix(rows[:, columns])
            lengths = squared_norms(part)
            dots = np.asarray(part.multiply(mean[codes]).sum(axis=1), dtype=np.float64).ravel()
            sums = counts**2 * (mean.astype(np.float64) ** 2).sum(axis=1)[codes]
            alone = counts < 2
            others = np.where(alone, sums, sums - 2 * counts * dots + lengths)
            product = np.where(alone, dots, counts * dots - lengths)
            scale = np.sqrt(np.maximum(others, 0) * lengths)
            found.append(np.where(scale > 0, product / np.where(scale > 0, scale, 1.0), 0.0))
        return np.stack(found, axis=-1)

    def state(self) -> dict[str, NDArray[Any]]:
        """What was learnt, as arrays for a model file."""
        return {f"means.{n}": mean.astype(np.float16) for n, mean in enumerate(self.means)}

    @classmethod
    def restore(cls, columns: Sequence[slice], state: Mapping[str, NDArray[Any]]) -> Self:
        """The opposite of :meth:`state`."""
        means = [state[f"means.{n}"].astype(np.float32) for n in range(len(columns))]
        return cls(tuple(columns), tuple(means))
