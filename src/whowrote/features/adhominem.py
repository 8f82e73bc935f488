r"""Linguistic embedding vectors of texts: :math:`\text{text} \to \mathrm{LEV} \in (-1, 1)^{200}`.

The pre-trained network comes with the package and works offline. Texts by one author lie near each
other by cosine, also for authors that the network has never seen. A text is covered whole, by
overlapping windows whose states a second network reads in order; beyond 4,000 tokens it is cut into
equal sections whose vectors are averaged by their tokens.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from whowrote.arrays import IntArray
from whowrote.errors import InputError
from whowrote.features.fitted_features import FittedAdHominem, read_styles
from whowrote.features.interface import FEW_TOKENS, ReliabilityWarning, checked_texts, text_tags
from whowrote.features.reading import SECTION
from whowrote.files import known_hash

PRETRAINED = Path(__file__).parent / "pretrained" / "adhominem.safetensors"


@dataclass(frozen=True, slots=True)
class WordWeight:
    """A token and its weight: ``text[start:end]`` is the token."""

    start: int
    end: int
    weight: float


@dataclass(frozen=True, slots=True)
class WindowWeight:
    """A window and its weight in the text; the weights of its words sum to one."""

    start: int
    end: int
    weight: float
    words: tuple[WordWeight, ...]


@dataclass(frozen=True, slots=True)
class Attention:
    """What the network looks at. Windows sum to one, and so do words.

    The weight of a word is the weight of its window times its own in it, added up where windows
    overlap.
    """

    windows: tuple[WindowWeight, ...]
    words: tuple[WordWeight, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "windows": [
                {"start": w.start, "end": w.end, "weight": w.weight, "words": _plain(w.words)}
                for w in self.windows
            ],
            "words": _plain(self.words),
        }


def _plain(words: Sequence[WordWeight]) -> list[dict[str, float]]:
    return [{"start": w.start, "end": w.end, "weight": w.weight} for w in words]


class AdHominem(TransformerMixin, BaseEstimator):
    """The neural feature extractor as a scikit-learn transformer over texts.

    ``weights`` is a file that ``whowrote extractor train`` wrote, by default the one that comes
    with the package; it is loaded on first use and shared by all transformers of the process.
    ``section`` is how many tokens of a text are read in one piece, ``device`` where; by default on
    a GPU if there is one.

    >>> text = "Call me Ishmael. Some years ago, never mind how long precisely, having little money"
    >>> AdHominem(device="cpu").transform([text + " in my purse, I thought I would sail."]).shape
    (1, 200)
    """

    def __init__(
        self,
        weights: str | os.PathLike[str] | None = None,
        *,
        section: int = SECTION,
        device: str | None = None,
    ) -> None:
        self.weights = weights
        self.section = section
        self.device = device

    def fit(self, X: Sequence[str], y: Any = None) -> Self:
        """Nothing to learn: the network is trained."""
        return self

    def transform(self, X: Sequence[str]) -> NDArray[np.float32]:
        """One vector per text; warns once if there are texts of fewer than 20 tokens."""
        fitted = self.fitted()
        styles = read_styles(fitted.reader, checked_texts(X), self.section)
        _warn_of_short(styles.tokens, fitted.reader.extractor.card)
        return styles.vectors

    def fitted(self) -> FittedAdHominem:
        """The network behind it, which reads texts."""
        if self.section < 1:
            raise InputError(f"section is {self.section}; it must be at least 1 token: give 4000")
        path = Path(self.weights or PRETRAINED)
        return FittedAdHominem(path, self.section, self.device, known_hash(path))

    def attention(self, text: str) -> Attention:
        """Where the network looks in one text, with places in its characters.

        If the network also takes plain means beside its attention, as the packaged one does, these
        weights are the part of it that chooses.
        """
        if not isinstance(text, str):
            raise InputError(
                f"text is of type {type(text).__name__}; it must be one str: give a text, and call "
                "attention once for each"
            )
        found = self.fitted().reader.weights(checked_texts([text])[0], self.section)
        windows = zip(found.starts, found.lengths, found.windows, found.words, strict=True)
        return Attention(
            tuple(
                WindowWeight(
                    found.spans[low].start,
                    found.spans[low + count - 1].end,
                    float(weight),
                    _words(found.spans[low : low + count], words[:count]),
                )
                for low, count, weight, words in windows
            ),
            _words(found.spans, found.per_token()),
        )

    def card(self) -> dict[str, Any]:
        """Where the weights come from: data, date, sizes, results."""
        return self.fitted().card()

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """``lev0`` to ``lev199``."""
        size = self.fitted().reader.network.architecture.size
        return np.array([f"lev{column}" for column in range(size)], dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        return text_tags(super().__sklearn_tags__(), fitted=False)


def _words(spans: Sequence[Any], weights: NDArray[np.float64]) -> tuple[WordWeight, ...]:
    pairs = zip(spans, weights.tolist(), strict=True)
    return tuple(WordWeight(span.start, span.end, weight) for span, weight in pairs)


def _warn_of_short(lengths: IntArray, card: Mapping[str, Any]) -> None:
    short = np.flatnonzero(lengths < FEW_TOKENS)
    if len(short):
        warnings.warn(
            ReliabilityWarning(
                f"{len(short)} of {len(lengths)} texts have fewer than {FEW_TOKENS} tokens (the "
                f"first is X[{short[0]}] with {lengths[short[0]]}); a vector of so little text is "
                f"mostly chance{_measured(card)}: join short texts of one author, or leave them "
                "out",
                len(short),
            ),
            stacklevel=4,  # past scikit-learn's wrapper of transform
        )


def _measured(card: Mapping[str, Any]) -> str:
    """How unreliable short texts are, if the weights say it."""
    by_tokens: Mapping[str, float] = card.get("auc_by_tokens", {})
    if not by_tokens:
        return ""
    lengths = sorted(by_tokens, key=int)
    listed = ", ".join(f"{by_tokens[length]:.2f} at {length}" for length in lengths)
    return f" (AUC of telling unseen authors apart by tokens a text: {listed}; guessing has 0.50)"
