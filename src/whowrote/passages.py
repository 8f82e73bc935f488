"""Long texts in passages: pieces of nearly equal length, cut between words, nothing lost.

A passage keeps the white space and the marks of its text: they are style.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

WORDS = 300
"""Words of a passage: long enough to show a style, short enough that a text has several."""
_WORD = re.compile(r"\S+")


def cut(text: str, words: int = WORDS) -> list[str]:
    r"""Cut a text into passages of about ``words`` words, all within one word of equal length.

    >>> [len(passage.split()) for passage in cut("word " * 1000, 300)]
    [334, 333, 333]
    >>> "".join(cut("one  two\n three four", 2))
    'one  two\n three four'
    """
    starts = [match.start() for match in _WORD.finditer(text)]
    pieces = max(1, round(len(starts) / words))
    if pieces == 1:
        return [text]
    firsts = [int(part[0]) for part in np.array_split(np.array(starts), pieces)]
    bounds = [0, *firsts[1:], len(text)]
    return [text[low:high] for low, high in pairwise(bounds)]


@dataclass(frozen=True)
class Passages:
    """The passages of several texts: each with the number of its text."""

    texts: tuple[str, ...]
    document: NDArray[np.intp]

    @property
    def counts(self) -> NDArray[np.intp]:
        """How many passages each text has."""
        return np.bincount(self.document)


def cut_all(texts: Sequence[str], words: int = WORDS) -> Passages:
    """Cut every text.

    >>> cut_all(["a b c d", "e"], 2).document.tolist()
    [0, 0, 1]
    """
    pieces = [cut(text, words) for text in texts]
    document = np.repeat(np.arange(len(pieces)), [len(own) for own in pieces])
    return Passages(tuple(piece for own in pieces for piece in own), document)
