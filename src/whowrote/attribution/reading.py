r"""From texts to rows of numbers: passages, features, contrasts.

.. math:: \text{text} \to (\text{passage}_1, \dots, \text{passage}_m) \to X \to V

Sparse features become contrasts, a few columns an author; dense ones are passed on as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from whowrote.contrasts import Contrasts
from whowrote.features.interface import ReadsTexts, TextFeatures, views
from whowrote.passages import Passages, cut_all

IntArray = NDArray[np.intp]


@dataclass(frozen=True)
class Read:
    """Texts as the model sees them: a row per passage, before (X) and after (V) the contrasts."""

    passages: Passages
    X: Any
    V: NDArray[np.float64]


@dataclass(frozen=True)
class Reader:
    """Fitted features and contrasts."""

    features: ReadsTexts
    contrasts: Contrasts | None
    words: int

    def read(self, texts: Sequence[str]) -> Read:
        """Rows of texts that were not learnt from."""
        passages = cut_all(texts, self.words)
        X = self.features.transform(passages.texts)
        return Read(passages, X, self._rows(X))

    def _rows(self, X: Any) -> NDArray[np.float64]:
        if self.contrasts is not None:
            return self.contrasts.transform(X)
        return np.asarray(X, dtype=np.float64)


@dataclass(frozen=True)
class Learnt:
    """A reader, and the texts it learnt from: as they are, and as if they were new to it."""

    reader: Reader
    read: Read
    blind: Read


def learn_to_read(
    features: TextFeatures, passages: Passages, codes: IntArray, folds: IntArray, words: int
) -> Learnt:
    """Fit features and, for sparse ones, contrasts; ``codes`` and ``folds`` are by passage."""
    fit_transform = getattr(features, "fit_transform", None)
    texts = passages.texts
    X: Any = fit_transform(texts) if fit_transform else features.fit(texts).transform(texts)
    if not sparse.issparse(X):
        read = Read(passages, X, np.asarray(X, float))
        return Learnt(Reader(features, None, words), read, read)
    X = sparse_rows(X)
    blind = features.as_new(X, passages.document) if hasattr(features, "as_new") else X
    contrasts = Contrasts(views(features))
    V = contrasts.fit_transform(X, codes, folds, blind)
    reader = Reader(features, contrasts, words)
    return Learnt(reader, Read(passages, X, V), Read(passages, blind, V))


def sparse_rows(X: Any) -> sparse.csr_matrix:
    """Any sparse matrix in the one format that is computed with."""
    return sparse.csr_matrix(X)
