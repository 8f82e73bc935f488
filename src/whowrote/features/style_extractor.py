r"""Style vectors by two towers: :math:`[\mathrm{LEV}; t]`, the recurrent one beside a transformer.

The *large* size has both, the *small* one the first alone, which has learnt beside the second and
from both together; one file holds both sizes. A text costs the large size six times as much, so by
default it reads where no more than 3,000 texts are learnt from, and the small one beyond.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from whowrote.errors import InputError
from whowrote.features.adhominem import AdHominem
from whowrote.features.fitted_features import FittedStyle
from whowrote.features.interface import checked_texts
from whowrote.features.reading import SECTION
from whowrote.files import known_hash

PRETRAINED_STYLE = Path(__file__).parent / "pretrained" / "style.safetensors"
SIZES = ("auto", "large", "small")
MOST_FOR_LARGE = 3000
"""Texts of ``fit`` up to which the large size reads: some two minutes of one core."""


class StyleExtractor(AdHominem):
    """The extractor with two towers as a scikit-learn transformer over texts.

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
