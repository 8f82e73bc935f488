"""Two texts, or two sets of them, side by side: the ratio, distances, words and plain figures.

The likelihood ratio is that of ``verify``, with its two propositions and its population; everything
else describes, and has no population.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from whowrote.attribution.answers import Comparison
from whowrote.attribution.fitted_attributor import FittedAttributor
from whowrote.attribution.rows import cut
from whowrote.attribution.verification import compare, joined, packaged_extractor
from whowrote.corpus.texts import Corpus
from whowrote.stylometry.frequencies import Frequencies, cosine_of_ngrams, words_in

SEGMENT_WORDS, MOST_SEGMENTS = 500, 60
"""Words of a segment for Delta; of more segments of a side, so many at equal distances."""


@dataclass(frozen=True)
class SideBySide:
    """Two sides: how alike they are, and in what they differ.

    ``delta`` has Burrows' Delta between segments of both sides and within each: one side's own range
    is the yardstick. It is None where a side has fewer than two segments.
    """

    names: tuple[str, str]
    texts: tuple[int, int]
    ratio: Comparison
    ngram_cosine: float
    delta: dict[str, float] | None
    statistics: tuple[dict[str, float], dict[str, float]]
    words: tuple[tuple[Key, ...], tuple[Key, ...]]

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def side_by_side(
    first: Corpus,
    second: Corpus,
    names: tuple[str, str] = ("A", "B"),
    *,
    model: FittedAttributor | None = None,
    prior: float | None = None,
    top: int = 15,
) -> SideBySide:
    """Compare two sides, each taken to be of one hand; a model's authors are the reference."""
    sides = joined(first.texts), joined(second.texts)
    if model is None:
        ratio = compare(packaged_extractor(), None, *sides, prior)
    else:
        ratio = model.verify(*sides, prior=prior)
    return SideBySide(
        names=names,
        texts=(len(first), len(second)),
        ratio=ratio,
        ngram_cosine=float(1.0 - cosine_of_ngrams(sides)[0, 1]),
        delta=_delta(*sides),
        statistics=(statistics(sides[0]), statistics(sides[1])),
        words=keywords(*sides, top),
    )


def _delta(first: str, second: str) -> dict[str, float] | None:
    """Means over pairs of segments: between the sides, and within each."""
    pieces = [_some(cut(side, SEGMENT_WORDS)) for side in (first, second)]
    if min(map(len, pieces)) < 2:
        return None
    table = Frequencies.of([*pieces[0], *pieces[1]], 150).delta(150)
    n = len(pieces[0])
    within = [table[:n, :n], table[n:, n:]]
    means = [float(own[np.triu_indices(len(own), 1)].mean()) for own in within]
    return {"between": float(table[:n, n:].mean()), "first": means[0], "second": means[1]}


def _some(pieces: list[str]) -> list[str]:
    kept = min(len(pieces), MOST_SEGMENTS)
    return [pieces[number * len(pieces) // kept] for number in range(kept)]


_SENTENCE = re.compile(r"[.!?…]+[\"'”’)\]]*(?:\s|$)")
WINDOW = 100


def statistics(text: str) -> dict[str, float]:
    """How a text is written, in plain figures; marks are by 100 words.

    >>> round(statistics("I came. I saw, and I won!")["words a sentence"], 1)
    3.5
    """
    words = words_in(text)
    n = max(1, len(words))
    sentences = max(1, len(_SENTENCE.findall(text)))
    marks = {name: 100.0 * len(re.findall(sign, text)) / n for name, sign in _MARKS.items()}
    return {
        "words": float(len(words)),
        "words a sentence": n / sentences,
        "letters a word": sum(map(len, words)) / n,
        f"different words of {WINDOW}": _variety(words),
        **marks,
    }


_MARKS = {
    "commas": ",",
    "semicolons": ";",
    "colons": ":",
    "dashes": r"—|–| -+ |--",
    "exclamation marks": "!",
    "question marks": r"\?",
}


def _variety(words: Sequence[str]) -> float:
    """The mean number of different words in stretches of 100, so that length plays no part."""
    starts = range(0, max(1, len(words) - WINDOW + 1), WINDOW)
    return float(np.mean([len(set(words[low : low + WINDOW])) for low in starts]))


@dataclass(frozen=True)
class Key:
    """A word that one side uses more: times by 1,000 words on either, and Dunning's G2."""

    word: str
    first: float
    second: float
    g2: float


def keywords(first: str, second: str, top: int = 15) -> tuple[tuple[Key, ...], tuple[Key, ...]]:
    r"""Words that either text uses more than the other, by Dunning's log-likelihood.

    .. math:: G^2 = 2 \sum_{i} O_i \ln (O_i / E_i)

    >>> ours, theirs = keywords("upon upon the the", "whilst whilst whilst the the")
    >>> ours[0].word, theirs[0].word
    ('upon', 'whilst')
    """
    counts = [Counter(words_in(text)) for text in (first, second)]
    n = np.array([max(1, own.total()) for own in counts], dtype=np.float64)
    names = sorted({*counts[0], *counts[1]})
    seen = np.array([[own[word] for word in names] for own in counts], dtype=np.float64)
    expected = seen.sum(axis=0) * (n / n.sum())[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        g2 = 2.0 * np.where(seen > 0, seen * np.log(seen / expected), 0.0).sum(axis=0)
    rates = 1000.0 * seen / n[:, None]
    order = sorted(range(len(names)), key=lambda j: (-g2[j], names[j]))
    made = [Key(names[j], float(rates[0, j]), float(rates[1, j]), float(g2[j])) for j in order]
    ours = tuple(one for one in made if one.first > one.second)[:top]
    return ours, tuple(one for one in made if one.second > one.first)[:top]
