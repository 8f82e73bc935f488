"""Feature sets that have learnt, ready to answer: ``texts -> X``, without scikit-learn.

Loading scikit-learn takes longer than an answer. The transformers of the same names learn, and
make these; a model folder holds these and nothing else. The extractor's weights go along as a file,
so that a model answers the same when the package brings new ones. A sentence encoder is known by
its name or folder and must be on the machine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from whowrote.arrays import Arrays, FloatArray, IntArray
from whowrote.errors import InputError, first_line
from whowrote.features.counting import FittedNGrams, counted_once
from whowrote.features.interface import FittedFeatures, Stored, checked_texts
from whowrote.features.reading import Reader, blocks, open_reader
from whowrote.files import below, sha256_of
from whowrote.progress import tell

WEIGHTS = "extractor.safetensors"
"""The extractor's file in a model folder."""
WEIGHTS_ID = "weights_sha256"
"""What a model folder calls the hash of that file."""
NGRAMS = "ngrams."
"""What the names of the n-grams' arrays begin with, beside those of a hybrid."""
MOST_READ, STRETCHES = 3000, 6
"""Words of a text that its style vector is made of, and in how many stretches they lie."""
_WORD = re.compile(r"\S+")
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Styles:
    """Style vectors of texts, and how many tokens each text has."""

    vectors: NDArray[np.float32]
    tokens: IntArray


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
class FittedAdHominem(FittedFeatures):
    """Style vectors by a file of weights; says nothing of short texts, as every answer does."""

    kind = "adhominem"
    weights: Path
    section: int
    device: str | None = None

    @property
    def reader(self) -> Reader:
        """The network on its device; loaded once for all who ask."""
        return open_reader(self.weights, self.device)

    def transform(self, X: Sequence[str]) -> NDArray[np.float32]:
        """One vector per text."""
        return read_styles(self.reader, checked_texts(X), self.section).vectors

    def origins(self) -> dict[str, FloatArray]:
        """The vectors of all people lie around zero."""
        return {"features": np.zeros(1)}

    def card(self) -> dict[str, Any]:
        """Where the weights come from: data, date, sizes, results."""
        return dict(self.reader.extractor.card)

    def stored(self) -> Stored:
        """The file of weights."""
        return Stored({"kind": self.kind, "section": self.section}, {}, {WEIGHTS: self.weights})


@dataclass(frozen=True)
class FittedStyle(FittedAdHominem):
    """Style vectors by one tower (``size`` "small") or both ("large") of a file of weights."""

    kind = "style"
    size: str = "large"

    @property
    def reader(self) -> Reader:
        """The network on its device; loaded once for all who ask."""
        reader = open_reader(self.weights, self.device, small=self.size == "small")
        if self.size == "large" and reader.encoder is None:
            raise InputError(
                f"the weights in '{self.weights}' have one tower and size is 'large'; they must "
                "have two: give size='small', or weights that were trained with an [encoder]"
            )
        return reader

    def stored(self) -> Stored:
        """The file of weights, and its hash, by which a model folder knows it."""
        values = {"kind": self.kind, "size": self.size, "section": self.section}
        digest = {WEIGHTS_ID: sha256_of(self.weights)}
        return Stored(values | digest, {}, {WEIGHTS: self.weights})


def _style(settings: Mapping[str, Any], folder: Path) -> FittedStyle:
    """Weights other than those that the model was made with would give other answers."""
    path = folder / WEIGHTS
    found = sha256_of(path) if path.is_file() else "none"
    if found != settings[WEIGHTS_ID]:
        raise InputError(
            f"'{path}' has weights {found[:12]} and the model was made with "
            f"{settings[WEIGHTS_ID][:12]}; a model answers by its own weights alone: restore that "
            "file, or train the model again"
        )
    return FittedStyle(path, settings["section"], size=settings["size"])


@dataclass(frozen=True)
class FittedSentences(FittedFeatures):
    """Rows by a sentence-transformers model: by name, by folder, or anything with ``encode``."""

    kind = "sentences"
    model: Any
    batch_size: int
    device: str | None = None

    def transform(self, X: Sequence[str]) -> NDArray[np.float32]:
        """One row per text."""
        # The models' tokenizers take valid Unicode only; half a character says nothing anyway.
        texts = [_SURROGATE.sub("\ufffd", text) for text in checked_texts(X)]
        ready = hasattr(self.model, "encode") and not isinstance(self.model, str)
        model = self.model if ready else _loaded(str(self.model), self.device)
        rows = model.encode(
            texts, batch_size=self.batch_size, convert_to_numpy=True, show_progress_bar=False
        )
        return np.asarray(rows, dtype=np.float32)

    def stored(self) -> Stored:
        """Its name or folder; an object has no place in a file."""
        require_named(self.model)
        return Stored({"kind": self.kind, "model": self.model, "batch_size": self.batch_size})


def require_named(model: Any) -> None:
    """Whether a model folder can say which sentence encoder it needs."""
    if not isinstance(model, str):
        raise InputError(
            "the sentence encoder was given as an object, which a model folder cannot hold; give "
            "its name or folder instead"
        )


@lru_cache(maxsize=1)
def _loaded(model: str, device: str | None) -> Any:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise InputError(
            f"SentenceEncoder('{model}') needs the package sentence-transformers, which is not "
            "installed: pip install 'whowrote[sentences]', or use AdHominem()"
        ) from None
    try:
        return SentenceTransformer(model, device=device)
    except (OSError, ValueError) as problem:
        raise InputError(
            f"sentence-transformers cannot load '{model}' ({first_line(problem)}); give "
            "the name or the folder of a model that is on this machine"
        ) from None


@dataclass(frozen=True)
class FittedHybrid(FittedFeatures):
    """Dense rows, standardised, beside those of n-grams."""

    kind = "hybrid"
    dense: FittedFeatures
    ngrams: FittedNGrams
    mean: FloatArray
    scale: FloatArray
    weight: float

    def transform(self, X: Sequence[str]) -> sparse.csr_matrix:
        """One sparse row per text: the dense columns first."""
        parts = []
        for texts in blocks(checked_texts(X)):
            with counted_once():  # the extractor reads n-grams of the same texts
                vectors = as_dense(self.dense.transform(excerpts(texts)))
                parts.append(self.joined(vectors, self.ngrams.transform(texts)))
        return sparse.csr_matrix(sparse.vstack(parts, format="csr"))

    def joined(self, vectors: FloatArray, rows: Any) -> sparse.csr_matrix:
        """The rows of vectors and of n-grams, weighed and side by side."""
        scaled = self.weight * (vectors - self.mean) / self.scale
        return sparse.csr_matrix(sparse.hstack([sparse.csr_matrix(scaled), rows], format="csr"))

    def views(self) -> list[slice]:
        """Both blocks together, and the n-grams alone: with many texts these tell more."""
        return [slice(0, None), slice(len(self.mean), None)]

    def blocks(self) -> dict[str, slice]:
        """The parts of a row that are compared on their own."""
        width = len(self.mean)
        written = self.ngrams.readings().get("written", slice(0, None))
        high = None if len(self.ngrams.readings()) == 1 else width + written.stop
        return {"style vectors": slice(0, width), "n-grams": slice(width + written.start, high)}

    def origins(self) -> dict[str, FloatArray]:
        """The vectors can be centred; their zero lies where standardising has moved it."""
        return {"style vectors": -self.weight * self.mean / self.scale}

    def parts(self) -> dict[str, slice]:
        """The vectors, and every reading of the n-grams."""
        width, readings = len(self.mean), self.ngrams.readings()
        shifted = {n: slice(width + own.start, width + own.stop) for n, own in readings.items()}
        return {"vectors": slice(0, width), **shifted}

    def stored(self) -> Stored:
        """Both halves, and how they stand side by side."""
        dense, ngrams = self.dense.stored(), self.ngrams.stored()
        arrays = {f"{NGRAMS}{name}": array for name, array in ngrams.arrays.items()}
        arrays |= {"mean": self.mean, "scale": self.scale}
        values = {"weight": self.weight, "dense": dense.values, "ngrams": ngrams.values}
        return Stored({"kind": self.kind, **values}, arrays, dense.files)


def excerpts(texts: Sequence[str]) -> list[str]:
    """What of each text is read for its style vector: of a long one, stretches across all of it.

    A vector is a mean over what is read, and hardly moves after some thousand words.

    >>> [len(text.split()) for text in excerpts(["a word " * 9000, "a word"])]
    [3000, 2]
    """
    return [_excerpt(text) for text in texts]


def _excerpt(text: str) -> str:
    if len(text) < 2 * MOST_READ:
        return text
    words = [match.span() for match in _WORD.finditer(text)]
    if len(words) <= MOST_READ:
        return text
    size = MOST_READ // STRETCHES
    firsts = [number * (len(words) - size) // (STRETCHES - 1) for number in range(STRETCHES)]
    return "\n".join(text[words[low][0] : words[low + size - 1][1]] for low in firsts)


def as_dense(rows: Any) -> NDArray[np.float64]:
    """The rows of the dense half, or a sentence on why they are none."""
    if sparse.issparse(rows):
        raise InputError(
            "dense gave sparse rows; it must be a feature set with dense ones: give AdHominem() or "
            "SentenceEncoder(...), or use NGrams alone"
        )
    return np.asarray(rows, dtype=np.float64)


def restore_features(values: Mapping[str, Any], arrays: Arrays, folder: Path) -> FittedFeatures:
    """What a model folder holds of a feature set, ready to read texts; files lie in ``folder``."""
    settings = {name: value for name, value in values.items() if name != "kind"}
    match values["kind"]:
        case "hybrid":
            return FittedHybrid(
                restore_features(settings["dense"], {}, folder),
                _ngrams(settings["ngrams"], below(NGRAMS, arrays)),
                np.asarray(arrays["mean"]),
                np.asarray(arrays["scale"]),
                settings["weight"],
            )
        case "ngrams":
            return _ngrams(values, arrays)
        case "adhominem":
            return FittedAdHominem(folder / WEIGHTS, settings["section"])
        case "style":
            return _style(settings, folder)
        case "sentences":
            return FittedSentences(settings["model"], settings["batch_size"])
        case other:
            raise InputError(
                f"'{folder}' has features of the kind {other!r}, which this version does not know; "
                "train the model again or change versions"
            )


def _ngrams(values: Mapping[str, Any], arrays: Arrays) -> FittedNGrams:
    settings = {name: value for name, value in values.items() if name != "kind"}
    return FittedNGrams.restore(arrays, settings)
