"""Feature sets by name: what a user may ask for, and what a model folder can hold."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from whowrote.errors import InputError
from whowrote.features.adhominem import AdHominem, SentenceEncoder, StyleExtractor
from whowrote.features.counting import READINGS, SHORT_READINGS
from whowrote.features.fitted_features import (
    STORED_FEATURES,
    WEIGHTS_ID,
    require_asked,
    require_named,
)
from whowrote.features.hybrid import Hybrid
from whowrote.features.interface import TextFeatures
from whowrote.features.ngrams import NGrams

KINDS = {
    "adhominem": AdHominem,
    "ngrams": NGrams,
    "hybrid": Hybrid,
    "sentences": SentenceEncoder,
    "style": StyleExtractor,
}
BY_NAME = ("adhominem", "style", "ngrams", "hybrid")
"""Those that need nothing but their name."""


MOST_WORDS_FOR_LARGE = 500_000
"""Words up to which the extractor with two towers reads: about a minute of one core."""


def named(
    features: str | TextFeatures,
    few: bool = False,
    words: int | None = None,
    long: bool = False,
) -> TextFeatures:
    """A feature set by name, or the one that is given.

    ``few``: for few texts, n-grams by name come in several readings (of ``long`` works in every
    one), and vectors count twice as much; where they are known to have not too many ``words`` in
    all, the vectors are those of two towers.
    """
    if not isinstance(features, str):
        return features
    if few and features in ("hybrid", "ngrams"):
        ngrams = NGrams(readings=tuple(READINGS) if long else SHORT_READINGS)
        if features == "ngrams":
            return ngrams
        large = words is not None and words <= MOST_WORDS_FOR_LARGE
        dense = StyleExtractor(size="large") if large else AdHominem()
        return Hybrid(dense, ngrams, weight=1.0)
    if features not in BY_NAME:
        raise InputError(
            f"features is {features!r}; it must be one of {', '.join(BY_NAME)}, or a feature set "
            "such as SentenceEncoder('name')"
        )
    made: TextFeatures = KINDS[features]()
    return made


def with_weights(features: str, weights: str | os.PathLike[str], few: bool = False) -> TextFeatures:
    """A feature set by name whose extractor is a file of weights; ``few`` as in :func:`named`."""
    if not Path(weights).is_file():
        raise InputError(
            f"weights is '{weights}', which is no file; it must be one that `whowrote extractor "
            "train` wrote: give its path, or leave it out for the packaged extractor"
        )
    match features:
        case "adhominem":
            return AdHominem(weights)
        case "style":
            return StyleExtractor(weights)
        case "hybrid" if few:
            return Hybrid(AdHominem(weights), NGrams(readings=SHORT_READINGS), weight=1.0)
        case "hybrid":
            return Hybrid(AdHominem(weights))
    raise InputError(
        f"weights is '{weights}' and features is {features!r}, which has no extractor; it must be "
        "hybrid, adhominem or style: choose one of these, or leave the weights out"
    )


def require_storable(features: Any) -> None:
    """Whether a model folder can hold a feature set, fitted or not; if not, a sentence on why."""
    if type(features) not in KINDS.values():
        raise InputError(
            f"features is of type {type(features).__name__}, which a model folder cannot hold; use "
            f"one of {', '.join(kind.__name__ for kind in KINDS.values())}"
        )
    if isinstance(features, Hybrid):
        for half in (features.dense, features.ngrams):
            if half is not None:
                require_storable(half)
    if isinstance(features, SentenceEncoder):
        require_named(features.model)


def with_settings(values: Mapping[str, Any], encoder: str | None = None) -> TextFeatures:
    """An unfitted feature set with the settings that a model folder tells of.

    The weights of its extractor are those of the package: it learns anew. A sentence encoder is
    none but the one that the user names as ``encoder``.
    """
    STORED_FEATURES(values, "features")  # nothing but known kinds with their own settings
    settings = {name: value for name, value in values.items() if name not in ("kind", WEIGHTS_ID)}
    match values["kind"]:
        case "hybrid":
            dense, ngrams = (
                with_settings(settings.pop(half), encoder) for half in ("dense", "ngrams")
            )
            assert isinstance(ngrams, NGrams)  # for the type checker: a hybrid holds no other
            return Hybrid(dense, ngrams, **settings)
        case "ngrams":
            listed = {n: tuple(v) if isinstance(v, list) else v for n, v in settings.items()}
            return NGrams(**listed)
        case "sentences":
            require_asked(settings["model"], encoder)
            return SentenceEncoder(**settings)
        case kind:
            made: TextFeatures = KINDS[kind](**settings)
            return made
