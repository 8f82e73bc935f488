"""Fitted feature sets in and out of a model folder: settings, arrays, and files to go along.

The extractor's weights go along as a file, so that a model answers the same when the package brings
new ones. A sentence encoder is known by its name or folder and must be on the machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whowrote.errors import InputError
from whowrote.features.adhominem import PRETRAINED, AdHominem
from whowrote.features.fitted_features import NGRAMS, WEIGHTS
from whowrote.features.hybrid import Hybrid
from whowrote.features.interface import ReadsTexts, TextFeatures
from whowrote.features.ngrams import NGrams
from whowrote.features.sentence_encoder import SentenceEncoder
from whowrote.files import below

NAMES = {"adhominem": AdHominem, "ngrams": NGrams, "hybrid": Hybrid, "sentences": SentenceEncoder}


@dataclass(frozen=True)
class Stored:
    """A fitted feature set as plain values, arrays, and files by the name they shall have."""

    values: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)


def named(features: str | TextFeatures) -> TextFeatures:
    """A feature set by name, or the one that is given."""
    if not isinstance(features, str):
        return features
    makers = {"adhominem": AdHominem, "ngrams": NGrams, "hybrid": Hybrid}
    if features not in makers:
        raise InputError(
            f"features is {features!r}; it must be one of {', '.join(makers)}, or a feature set "
            "such as SentenceEncoder('name')"
        )
    made: TextFeatures = makers[features]()
    return made


def name_of(features: ReadsTexts) -> str:
    """The name of the kind of a feature set."""
    for name, kind in NAMES.items():
        if type(features) is kind:
            return name
    raise InputError(
        f"features is of type {type(features).__name__}, which a model folder cannot hold; use "
        f"one of {', '.join(kind.__name__ for kind in NAMES.values())}"
    )


def require_storable(features: Any) -> None:
    """Whether a model folder can hold a feature set, fitted or not; if not, a sentence on why."""
    name_of(features)
    if isinstance(features, Hybrid):
        for half in (features.dense, features.ngrams):
            if half is not None:
                require_storable(half)
    if isinstance(features, SentenceEncoder) and not isinstance(features.model, str):
        raise InputError(
            "the sentence encoder was given as an object, which a model folder cannot hold; give "
            "its name or folder instead"
        )


def store(features: ReadsTexts) -> Stored:
    """Take a fitted feature set apart."""
    kind = name_of(features)
    if isinstance(features, Hybrid):
        dense, ngrams = store(features.dense_), store(features.ngrams_)
        arrays = {f"{NGRAMS}{name}": array for name, array in ngrams.arrays.items()}
        arrays |= {"mean": features.mean_, "scale": features.scale_}
        values = {"weight": features.weight, "dense": dense.values, "ngrams": ngrams.values}
        return Stored({"kind": kind, **values}, arrays, dense.files)
    if isinstance(features, NGrams):
        values = {"min_df": features.min_df, "max_features": list(features.max_features)}
        return Stored({"kind": kind, **values}, features.state())
    if isinstance(features, AdHominem):
        weights = Path(features.weights or PRETRAINED)
        return Stored({"kind": kind, "section": features.section}, {}, {WEIGHTS: weights})
    assert isinstance(features, SentenceEncoder)  # for the type checker: name_of knows no other
    require_storable(features)
    return Stored({"kind": kind, "model": features.model, "batch_size": features.batch_size})


def restore(
    values: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], folder: Path
) -> TextFeatures:
    """Put a feature set together again; files lie in ``folder``."""
    rest = {name: value for name, value in values.items() if name != "kind"}
    match values["kind"]:
        case "hybrid":
            return _hybrid(rest, arrays, folder)
        case "ngrams":
            return _ngrams(rest).restore(arrays)
        case "adhominem":
            return AdHominem(folder / WEIGHTS, **rest)
        case _:
            return SentenceEncoder(**rest)


def _ngrams(values: Mapping[str, Any]) -> NGrams:
    min_df = values["min_df"]
    return NGrams(
        min_df=min_df if isinstance(min_df, str) else tuple(min_df),
        max_features=tuple(values["max_features"]),
    )


def _hybrid(values: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], folder: Path) -> Hybrid:
    dense, ngrams = restore(values["dense"], {}, folder), _ngrams(values["ngrams"])
    hybrid = Hybrid(dense, ngrams, weight=values["weight"])
    hybrid.dense_, hybrid.ngrams_ = dense, ngrams.restore(below(NGRAMS, arrays))
    hybrid.mean_, hybrid.scale_ = (np.asarray(arrays[name]) for name in ("mean", "scale"))
    return hybrid
