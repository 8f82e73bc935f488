r"""Vectors of style by trained networks: :math:`\text{text} \to \mathrm{LEV} \in (-1, 1)^{200}`.

The pre-trained networks come with the package and work offline. Texts by one author lie near each
other by cosine, also for authors that the network has never seen. A text is covered whole, by
overlapping windows whose states a second network reads in order; beyond 4,000 tokens it is cut into
equal sections whose vectors are averaged by their tokens. :class:`StyleExtractor` has a second
tower, a transformer, beside the recurrent one: :math:`[\mathrm{LEV}; t]`. A sentence-transformers
model of one's own stands behind the same interface, for comparison.
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
from whowrote.features.fitted_features import (
    FittedAdHominem,
    FittedSentences,
    FittedStyle,
    read_styles,
)
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


PRETRAINED_STYLE = Path(__file__).parent / "pretrained" / "style.safetensors"
SIZES = ("auto", "large", "small")
MOST_FOR_LARGE = 3000
"""Texts of ``fit`` up to which the large size reads: some two minutes of one core."""


class StyleExtractor(AdHominem):
    """The extractor with two towers as a scikit-learn transformer over texts.

    The *large* size has both towers, the *small* one the first alone, which has learnt beside the
    second and from both together; one file holds both. A text costs the large size six times as
    much.

    ``size`` is "large", "small", or "auto": then ``fit`` chooses by the number of texts
    (``size_``), and without a fit it is large. ``weights`` is a file that ``whowrote extractor
    train`` wrote for a configuration with an [encoder], by default the one that comes with the
    package; ``section`` and ``device`` are those of :class:`AdHominem`. :meth:`attention` is that
    of the first tower: the second one averages over all word pieces.

    >>> text = "Call me Ishmael. Some years ago, never mind how long precisely, having little money"
    >>> text += " in my purse, I thought I would sail about a little."
    >>> [StyleExtractor(size=s, device="cpu").transform([text]).shape for s in ("large", "small")]
    [(1, 400), (1, 200)]
    """

    def __init__(
        self,
        weights: str | os.PathLike[str] | None = None,
        *,
        size: str = "auto",
        section: int = SECTION,
        device: str | None = None,
    ) -> None:
        super().__init__(weights, section=section, device=device)
        self.size = size

    def fit(self, X: Sequence[str], y: Any = None) -> Self:
        """Choose the size; the network is trained."""
        few = len(checked_texts(X)) <= MOST_FOR_LARGE
        self.size_ = ("large" if few else "small") if self.size == "auto" else self.size
        return self

    def fitted(self) -> FittedStyle:
        """The network behind it, which reads texts."""
        if self.size not in SIZES:
            raise InputError(f"size is {self.size!r}; it must be one of {list(SIZES)}: choose one")
        if self.section < 1:
            raise InputError(f"section is {self.section}; it must be at least 1 token: give 4000")
        chosen = getattr(self, "size_", "large") if self.size == "auto" else self.size
        path = packaged(self.weights)
        return FittedStyle(path, self.section, self.device, known_hash(path), chosen)


def packaged(weights: str | os.PathLike[str] | None) -> Path:
    """The given file of weights, or the packaged one; a sentence where there is none."""
    if weights is None and not PRETRAINED_STYLE.is_file():
        raise InputError(
            "StyleExtractor() has no weights in this version of the package; give weights, a file "
            "that `whowrote extractor train` wrote with an [encoder], or use AdHominem()"
        )
    return Path(weights or PRETRAINED_STYLE)


class SentenceEncoder(TransformerMixin, BaseEstimator):
    """Any sentence-transformers model: a name, a folder, or anything with ``encode``.

    Such models are trained on meaning, so expect them to know topics better than habits. Texts
    beyond a model's own limit are cut by the model itself; :class:`AdHominem` cuts nothing.
    """

    def __init__(self, model: Any, *, device: str | None = None, batch_size: int = 32) -> None:
        self.model = model
        self.device = device
        self.batch_size = batch_size

    def fit(self, X: Sequence[str], y: Any = None) -> Self:
        """Nothing to learn: the model is trained."""
        return self

    def transform(self, X: Sequence[str]) -> NDArray[np.float32]:
        """One row per text."""
        return self.fitted().transform(X)

    def fitted(self) -> FittedSentences:
        """The model, which reads texts."""
        return FittedSentences(self.model, self.batch_size, self.device)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """``sentence0``, ``sentence1``, ..."""
        size = self.transform(["a"]).shape[1]  # the method that tells it changes its name
        return np.array([f"sentence{column}" for column in range(size)], dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        return text_tags(super().__sklearn_tags__(), fitted=False)
