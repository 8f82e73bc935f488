r"""Zeta: the words that one set of texts has in most segments and another in few.

.. math:: \zeta(w) = \frac{\#\{a \in A : w \in a\}}{|A|}
    + \frac{\#\{b \in B : w \notin b\}}{|B|} - 1

A and B are the segments of both sides, equally long, so Zeta runs from -1 (all segments of B have
the word and none of A) to 1 (the other way round); Craig and Kinney's (2009) figure is one more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from whowrote.arrays import BoolArray, FloatArray, IntArray
from whowrote.attribution.rows import cut
from whowrote.errors import InputError
from whowrote.stylometry.frequencies import words_in

SEGMENT = 2000
"""Words of a segment."""
SHUFFLES = 200


@dataclass(frozen=True)
class Preferred:
    """A word, its Zeta, and the shares of segments of either side that have it."""

    word: str
    zeta: float
    first: float
    second: float


@dataclass(frozen=True)
class Zeta:
    """The words that either side prefers, strongest first.

    ``chance`` is what the strongest of all words reaches in one of twenty shufflings of the texts
    between the sides: a word below it may be chance.
    """

    sides: tuple[str, str]
    segment_words: int
    segments: tuple[int, int]
    chance: float | None
    first: tuple[Preferred, ...]
    second: tuple[Preferred, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def zeta(
    first: Sequence[str],
    second: Sequence[str],
    *,
    sides: tuple[str, str] = ("A", "B"),
    segment_words: int = SEGMENT,
    top: int = 30,
    least: int = 3,
    seed: int = 0,
) -> Zeta:
    """Words that two sets of texts prefer; a word must be in ``least`` segments to count."""
    if segment_words < 50:
        raise InputError(
            f"segment_words is {segment_words}; a segment must have at least 50 words: give 2000"
        )
    pieces, document, side = _segments(first, second, segment_words)
    for number, name in enumerate(sides):
        if int((side == number).sum()) < 2:
            raise InputError(
                f"{name} has {int((side == number).sum())} segment of {segment_words} words; Zeta "
                "needs at least two of each side: add texts, or lower segment_words "
                "(--segment-words)"
            )
    has, names = _presence(pieces, least)
    values, shares = _zeta(has, side == 0)
    order = sorted(range(len(names)), key=lambda j: (-values[j], names[j]))
    made = [Preferred(names[j], float(values[j]), *map(float, shares[:, j])) for j in order]
    return Zeta(
        sides=sides,
        segment_words=segment_words,
        segments=(int((side == 0).sum()), int((side == 1).sum())),
        chance=_chance(has, document, side, np.random.default_rng(seed)),
        first=tuple(one for one in made if one.zeta > 0)[:top],
        second=tuple(one for one in reversed(made) if one.zeta < 0)[:top],
    )


def _segments(
    first: Sequence[str], second: Sequence[str], words: int
) -> tuple[list[set[str]], IntArray, IntArray]:
    """The words of every segment, the number of its text, and its side."""
    pieces: list[set[str]] = []
    document: list[int] = []
    side: list[int] = []
    for number, text in enumerate([*first, *second]):
        for piece in cut(text, words):
            pieces.append({word for word in words_in(piece) if not word.isdigit()})
            document.append(number)
            side.append(int(number >= len(first)))
    return pieces, np.array(document), np.array(side)


def _presence(pieces: Sequence[set[str]], least: int) -> tuple[BoolArray, list[str]]:
    """(segments, words): whether a segment has a word."""
    total = Counter(word for piece in pieces for word in piece)
    names = sorted(word for word, times in total.items() if times >= least)
    return np.array([[word in piece for word in names] for piece in pieces]), names


def _zeta(has: BoolArray, in_first: BoolArray) -> tuple[FloatArray, FloatArray]:
    shares = np.stack([has[in_first].mean(axis=0), has[~in_first].mean(axis=0)])
    return shares[0] - shares[1], shares


def _chance(
    has: BoolArray, document: IntArray, side: IntArray, random: np.random.Generator
) -> float | None:
    """The largest Zeta that one in twenty shufflings of texts reaches; None with too few texts."""
    texts = np.unique(document)
    of_text = np.array([side[document == text][0] for text in texts])
    if min(np.bincount(of_text, minlength=2)) < 3 or not has.size:
        return None
    most = []
    for _ in range(SHUFFLES):
        shuffled = random.permutation(of_text)[document]
        most.append(np.abs(_zeta(has, shuffled == 0)[0]).max())
    return float(np.quantile(most, 0.95))
