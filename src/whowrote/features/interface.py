r"""What every feature set is: :math:`\text{texts} \to X \in \mathbb R^{n \times L}`, row by row.

A feature set is a scikit-learn transformer over a sequence of texts; what it has learnt is a
:class:`FittedFeatures`, which reads texts without scikit-learn. Its rows depend on their own
text alone (and on what ``fit`` has seen), never on the other texts of the call. A text must be a
``str`` with something in it; null bytes, lone surrogates and a token of megabytes are fine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from whowrote.arrays import Arrays, FloatArray
from whowrote.errors import InputError

FEW_TOKENS = 20
"""Below so many tokens a vector of style is mostly chance."""

Rows = NDArray[np.float32] | sparse.csr_matrix


class ReliabilityWarning(UserWarning):
    """An answer was asked for that the evidence hardly bears; ``count`` texts are concerned."""

    def __init__(self, message: str, count: int = 1) -> None:
        super().__init__(message)
        self.count = count


@dataclass(frozen=True)
class Stored:
    """A fitted feature set as plain values, arrays, and files by the name they shall have."""

    values: Mapping[str, Any]
    arrays: Arrays = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)
    hashes: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of the files that it has read with."""


class FittedFeatures(ABC):
    """A feature set that has learnt what there is to learn: it reads texts, and nothing else."""

    kind: ClassVar[str]
    """What a model folder calls it."""

    @abstractmethod
    def transform(self, X: Sequence[str]) -> Rows:
        """One row per text, dense or sparse."""

    @abstractmethod
    def stored(self) -> Stored:
        """Everything that a model folder has to hold of it."""

    def views(self) -> list[slice]:
        """Ranges of columns that are worth a look of their own; by default all at once."""
        return [slice(0, None)]

    def blocks(self) -> dict[str, slice]:
        """The parts of a row that are compared on their own; by default all columns at once."""
        return {"features": slice(0, None)}

    def parts(self) -> dict[str, slice]:
        """All columns by what they say, for weighing; by default one part."""
        return {"features": slice(0, None)}

    def origins(self) -> dict[str, FloatArray]:
        """Where rows of unknown people are expected, for the blocks that can be centred."""
        return {}


@runtime_checkable
class TextFeatures(Protocol):
    """The interface that all feature sets share."""

    def fit(self, X: Sequence[str], y: Any = None) -> Self:
        """Learn from texts what there is to learn; nothing, for a network trained before."""

    def transform(self, X: Sequence[str]) -> Rows:
        """One row per text, dense or sparse."""

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """One name per column."""

    def fitted(self) -> FittedFeatures:
        """What was learnt, without scikit-learn."""


def text_tags(tags: Any, *, fitted: bool) -> Any:
    """scikit-learn's tags of what reads texts; ``fitted``: whether fit must come first."""
    tags.input_tags.string = True
    tags.input_tags.two_d_array = False
    tags.requires_fit = fitted
    return tags


def checked_texts(X: Iterable[str]) -> list[str]:
    """A list of non-empty strings, or a sentence on what it is instead.

    >>> checked_texts(["Call me Ishmael.", ""])
    Traceback (most recent call last):
    whowrote.errors.InputError: X[1] is ''; a text must have words: leave it out
    """
    if isinstance(X, str | bytes):
        unit = "characters" if isinstance(X, str) else "bytes"
        raise InputError(
            f"X is one string of {len(X)} {unit}; it must be a list of texts: give [text]"
        )
    texts = list(X) if isinstance(X, Iterable) else _refuse(X)
    if not texts:
        raise InputError("X is empty; there must be at least one text: give a list of texts")
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(
                f"X[{row}] is of type {type(text).__name__}; every text must be a str: give texts "
                "here and vectors to LinearSVM or RBFSVM"
            )
        if not text.strip():
            raise InputError(f"X[{row}] is {text[:20]!r}; a text must have words: leave it out")
    return texts


def _refuse(X: object) -> list[str]:
    raise InputError(f"X is of type {type(X).__name__}; it must be a list of texts: give [text]")
