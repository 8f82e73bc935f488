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
from whowrote.features.counting import READINGS, FittedNGrams, counted_once
from whowrote.features.interface import FittedFeatures, Stored, checked_texts
from whowrote.features.reading import Reader, blocks, open_reader
from whowrote.files import below, known_hash
from whowrote.progress import tell
from whowrote.schema import HASH, by_kind, listed, number, one_of, record, text, whole

WEIGHTS = "extractor.safetensors"
"""The extractor's file in a model folder."""
WEIGHTS_ID = "weights_sha256"
"""What a model folder calls the hash of that file."""
NGRAMS = "ngrams."
"""What the names of the n-grams' arrays begin with, beside those of a hybrid."""
MOST_READ, STRETCHES = 3000, 6
"""Words of a text that its style vector is made of, and in how many stretches they lie."""
_SECTION = whole(1, 2**31)
_PAIR = listed(whole(1, 2**31), 2, 2)
_DENSE = {
    "adhominem": record({"kind": one_of("adhominem"), "section": _SECTION}),
    "style": record(
        {
            "kind": one_of("style"),
            "size": one_of("large", "small"),
            "section": _SECTION,
            WEIGHTS_ID: HASH,
        }
    ),
    "sentences": record(
        {
            "kind": one_of("sentences"),
            "model": text(r"[^\x00-\x1f\ud800-\udfff]{1,500}", "a name or a folder"),
            "batch_size": whole(1, 10**6),
        }
    ),
}
_NGRAMS = record(
    {"kind": one_of("ngrams")},
    {
        "min_df": lambda value, place: (one_of("auto") if isinstance(value, str) else _PAIR)(
            value, place
        ),
        "max_features": _PAIR,
        "readings": listed(one_of(*READINGS), 1, len(READINGS)),
    },
)
STORED_FEATURES = by_kind(
    {
        **_DENSE,
        "ngrams": _NGRAMS,
        "hybrid": record(
            {
                "kind": one_of("hybrid"),
                "weight": number(0),
                "dense": by_kind(_DENSE),
                "ngrams": _NGRAMS,
            }
        ),
    }
)
"""What a model folder may say of its features: known kinds with their own settings, no other."""
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
    sha256: str | None = None
    """Of the weights, where no others will do, whatever lies at their path when they are read."""

    @property
    def reader(self) -> Reader:
        """The network on its device; loaded once for all who ask."""
        return open_reader(self.weights, self.device, sha256=self.sha256)

    def weights_sha256(self) -> str:
        """The hash of the weights; a file that is not there is a sentence."""
        found = self.sha256 or known_hash(self.weights)
        if found is None:
            raise InputError(f"there are no weights at '{self.weights}'; check the path")
        return found

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
        values = {"kind": self.kind, "section": self.section}
        return Stored(values, {}, {WEIGHTS: self.weights}, {WEIGHTS: self.weights_sha256()})


@dataclass(frozen=True)
class FittedStyle(FittedAdHominem):
    """Style vectors by one tower (``size`` "small") or both ("large") of a file of weights."""

    kind = "style"
    size: str = "large"

    @property
    def reader(self) -> Reader:
        """The network on its device; loaded once for all who ask."""
        small = self.size == "small"
        reader = open_reader(self.weights, self.device, small=small, sha256=self.sha256)
        if self.size == "large" and reader.encoder is None:
            raise InputError(
                f"the weights in '{self.weights}' have one tower and size is 'large'; they must "
                "have two: give size='small', or weights that were trained with an [encoder]"
            )
        return reader

    def stored(self) -> Stored:
        """The file of weights, and its hash, by which a model folder knows it."""
        values = {"kind": self.kind, "size": self.size, "section": self.section}
        digest = self.weights_sha256()
        return Stored(values | {WEIGHTS_ID: digest}, {}, {WEIGHTS: self.weights}, {WEIGHTS: digest})


def _style(settings: Mapping[str, Any], folder: Path, sha256: str | None) -> FittedStyle:
    """Weights other than those that the model was made with would give other answers."""
    path = folder / WEIGHTS
    found = sha256 or known_hash(path) or "none"
    if found != settings[WEIGHTS_ID]:
        raise InputError(
            f"'{path}' has weights {found[:12]} and the model was made with "
            f"{settings[WEIGHTS_ID][:12]}; a model answers by its own weights alone: restore that "
            "file, or train the model again"
        )
    return FittedStyle(path, settings["section"], sha256=found, size=settings["size"])


@dataclass(frozen=True)
class FittedSentences(FittedFeatures):
    """Rows by a sentence-transformers model: by name, by folder, or anything with ``encode``."""

    kind = "sentences"
    model: Any
    batch_size: int
    device: str | None = None
    asked: bool = True
    """Whether the user named it. A file that names an encoder is no reason to load it: the files
    of an encoder can hold code."""

    def transform(self, X: Sequence[str]) -> NDArray[np.float32]:
        """One row per text."""
        if not self.asked:
            require_asked(str(self.model), None)
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


def require_asked(model: str, encoder: str | None) -> None:
    """Whether the user named the sentence encoder that a model folder names."""
    if encoder is None:
        raise InputError(
            f"the model folder names the sentence encoder {model!r}, which is not loaded unless "
            "you name it too, for an encoder can hold code: where you trust it, "
            f"Attributor.load(folder, encoder={model!r})"
        )
    if encoder != model:
        raise InputError(
            f"encoder is {encoder!r}; the model was made with {model!r}: give that one"
        )


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
        return SentenceTransformer(
            model, device=device, local_files_only=True, trust_remote_code=False
        )
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
        return Stored({"kind": self.kind, **values}, arrays, dense.files, dense.hashes)


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


def restore_features(
    values: Mapping[str, Any],
    arrays: Arrays,
    folder: Path,
    encoder: str | None = None,
    sha256: str | None = None,
) -> FittedFeatures:
    """What a model folder holds of a feature set, ready to read texts; files lie in ``folder``.

    ``encoder`` is the sentence encoder that the user names: no other one is loaded. ``sha256`` is
    what the weights of an extractor must have whenever they are read, by default what they have.
    """
    try:
        STORED_FEATURES(values, "features")
    except InputError as problem:
        raise InputError(
            f"'{folder}' has features that this version does not know ({problem}); train the model "
            "again or change versions"
        ) from None
    settings = {name: value for name, value in values.items() if name != "kind"}
    match values["kind"]:
        case "hybrid":
            dense = restore_features(settings["dense"], {}, folder, encoder, sha256)
            ngrams = _ngrams(settings["ngrams"], below(NGRAMS, arrays))
            mean, scale = np.asarray(arrays["mean"]), np.asarray(arrays["scale"])
            if mean.ndim != 1 or mean.shape != scale.shape or not (scale > 0).all():
                raise InputError(
                    f"the scales of the features in '{folder}' are not as many as "
                    "their means, or not above 0; train the model again"
                )
            return FittedHybrid(dense, ngrams, mean, scale, settings["weight"])
        case "ngrams":
            return _ngrams(values, arrays)
        case "adhominem":
            path = folder / WEIGHTS
            return FittedAdHominem(path, settings["section"], sha256=sha256 or known_hash(path))
        case "style":
            return _style(settings, folder, sha256)
        case _:
            return _sentences(settings, encoder)


def _sentences(settings: Mapping[str, Any], encoder: str | None) -> FittedSentences:
    if encoder is not None:
        require_asked(settings["model"], encoder)
    return FittedSentences(settings["model"], settings["batch_size"], asked=encoder is not None)


def _ngrams(values: Mapping[str, Any], arrays: Arrays) -> FittedNGrams:
    for name in (one for one in arrays if one.endswith(".keys")):
        keys, idf = arrays[name], arrays.get(f"{name.removesuffix('.keys')}.idf")
        ordered = keys.dtype == np.int64 and keys.ndim == 1 and _ascending(keys.view(np.uint64))
        if idf is None or idf.shape != keys.shape or not ordered or not np.isfinite(idf).all():
            raise InputError(
                f"the n-grams {name!r} of the model are not in order, or not as many as their "
                "weights; train the model again"
            )
    settings = {name: value for name, value in values.items() if name != "kind"}
    found = FittedNGrams.restore(arrays, settings)
    if not found.grams:
        raise InputError("the model has n-grams as features and holds none; train it again")
    return found


def _ascending(keys: NDArray[np.uint64]) -> bool:
    return bool((keys[1:] > keys[:-1]).all())
