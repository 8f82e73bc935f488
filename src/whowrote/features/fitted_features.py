"""Feature sets that have learnt, ready to answer: ``texts -> X``, without scikit-learn.

Loading scikit-learn takes longer than an answer. The transformers of the same names learn, have
settings and names of columns, and read new texts as it is done here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from whowrote.arrays import Arrays
from whowrote.errors import InputError
from whowrote.features.counting import FittedNGrams
from whowrote.features.interface import ReadsTexts, checked_texts
from whowrote.features.reading import Reader, blocks, open_reader
from whowrote.files import below
from whowrote.progress import tell

WEIGHTS = "extractor.safetensors"
"""The extractor's file in a model folder."""
NGRAMS = "ngrams."
"""What the names of the n-grams' arrays begin with, beside those of a hybrid."""


@dataclass(frozen=True)
class Styles:
    """Style vectors of texts, and how many tokens each text has."""

    vectors: NDArray[np.float32]
    tokens: NDArray[np.int64]


def read_styles(reader: Reader, texts: Sequence[str], section: int) -> Styles:
    """Read texts block by block; long ones in sections of so many tokens."""
    vectors, tokens = [], []
    for some in blocks(texts):
        block = reader.block(some)
        vectors.append(reader.levs(block, section))
        tokens.append(block.lengths)
        tell("reading for style", sum(map(len, tokens)), len(texts))
    return Styles(np.concatenate(vectors), np.concatenate(tokens))


@dataclass(frozen=True)
class FittedAdHominem:
    """Style vectors by a file of weights; says nothing of short texts, as every answer does."""

    weights: Path
    section: int

    def transform(self, X: Sequence[str]) -> NDArray[np.float32]:
        """One vector per text."""
        texts = checked_texts(X)
        return read_styles(open_reader(self.weights), texts, self.section).vectors


@dataclass(frozen=True)
class FittedHybrid:
    """Dense rows, standardised, beside those of n-grams."""

    dense: ReadsTexts
    ngrams: ReadsTexts
    mean: NDArray[np.float64]
    scale: NDArray[np.float64]
    weight: float

    def transform(self, X: Sequence[str]) -> sparse.csr_matrix:
        """One sparse row per text: the dense columns first."""
        texts = checked_texts(X)
        return self.joined(as_dense(self.dense.transform(texts)), self.ngrams.transform(texts))

    def joined(self, vectors: NDArray[np.float64], rows: Any) -> sparse.csr_matrix:
        """The rows of vectors and of n-grams, weighed and side by side."""
        scaled = self.weight * (vectors - self.mean) / self.scale
        return sparse.csr_matrix(sparse.hstack([sparse.csr_matrix(scaled), rows], format="csr"))

    def views(self) -> list[slice]:
        """Both blocks together, and the n-grams alone: with many texts these tell more."""
        return [slice(0, None), slice(len(self.mean), None)]

    def blocks(self) -> dict[str, slice]:
        """The parts of a row that are compared on their own."""
        width = len(self.mean)
        return {"style vectors": slice(0, width), "n-grams": slice(width, None)}


def as_dense(rows: Any) -> NDArray[np.float64]:
    """The rows of the dense half, or a sentence on why they are none."""
    if sparse.issparse(rows):
        raise InputError(
            "dense gave sparse rows; it must be a feature set with dense ones: give AdHominem() or "
            "SentenceEncoder(...), or use NGrams alone"
        )
    return np.asarray(rows, dtype=np.float64)


def restore_fitted(values: Mapping[str, Any], arrays: Arrays, folder: Path) -> ReadsTexts:
    """What a model folder holds of a feature set, ready to read texts."""
    match values["kind"]:
        case "hybrid":
            return FittedHybrid(
                restore_fitted(values["dense"], {}, folder),
                FittedNGrams.restore(below(NGRAMS, arrays)),
                np.asarray(arrays["mean"]),
                np.asarray(arrays["scale"]),
                values["weight"],
            )
        case "ngrams":
            return FittedNGrams.restore(arrays)
        case "adhominem":
            return FittedAdHominem(folder / WEIGHTS, values["section"])
        case _:
            from whowrote.features.feature_storage import (
                restore,  # a sentence encoder is a transformer
            )

            return restore(values, arrays, folder)
