r"""Two sides and their words: Zeta, and the ratio, distances, keywords and figures side by side.

.. math:: \zeta(w) = \frac{\#\{a \in A : w \in a\}}{|A|}
    + \frac{\#\{b \in B : w \notin b\}}{|B|} - 1

A and B are the segments of both sides, equally long, so Zeta runs from -1 (all segments of B have
the word and none of A) to 1 (the other way round); Craig and Kinney's (2009) figure is one more.

The likelihood ratio of two sides is that of ``verify``, with its two propositions and its
population; everything else describes, and has no population.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from whowrote.arrays import BoolArray, FloatArray, IntArray
from whowrote.attribution.answers import Comparison
from whowrote.attribution.fitted_attributor import FittedAttributor
from whowrote.attribution.rows import cut
from whowrote.attribution.verification import compare, joined, packaged_extractor
from whowrote.corpus.texts import Corpus
from whowrote.errors import InputError
from whowrote.stylometry.delta import Frequencies, cosine_of_ngrams, words_in

SEGMENT_WORDS, MOST_SEGMENTS = 500, 60
"""Words of a segment for Delta; of more segments of a side, so many at equal distances."""


@dataclass(frozen=True)
class SideBySide:
    """Two sides: how alike they are, and in what they differ.

    ``delta`` has Burrows' Delta between segments of both sides and within each: one side's own
    range is the yardstick. It is None where a side has fewer than two segments.
    """

    names: tuple[str, str]
    texts: tuple[int, int]
    ratio: Comparison
    ngram_cosine: float
    delta: dict[str, float] | None
    measures: tuple[Measure, ...]
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
    seed: int = 0,
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
        measures=measures(first.texts, second.texts, seed),
        words=keywords(first.texts, second.texts, top, seed),
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


# -- figures and words with their intervals --------------------------------------------------------

DRAWS, UNIT_WORDS, FEW_UNITS = 400, 250, 5
"""Bootstrap samples; words of a stretch that is drawn; so many texts are drawn as texts."""
_SENTENCE = re.compile(r"[.!?\u2026]+[\"'\u201d\u2019)\]]*(?:\s|$)")
_MARKS = {
    "commas": ",",
    "semicolons": ";",
    "colons": ":",
    "dashes": "\u2014|\u2013| -+ |--",
    "exclamation marks": "!",
    "question marks": r"\?",
}


def units(texts: Sequence[str]) -> list[str]:
    """What is drawn again: texts where there are five or more, else stretches of 250 words."""
    if len(texts) >= FEW_UNITS:
        return list(texts)
    return [piece for text in texts for piece in cut(text, UNIT_WORDS)]


@dataclass(frozen=True)
class Measure:
    """A figure of either side with 95 % limits; ``differ``: those of the difference miss 0."""

    name: str
    first: float
    second: float
    first_limits: tuple[float, float]
    second_limits: tuple[float, float]
    differ: bool


@dataclass(frozen=True)
class Key:
    """A word that one side uses more: rates by 1,000 words, Dunning's G2, log2 of the ratio.

    ``low`` and ``high`` are the 95 % limits of that logarithm over samples of texts or stretches: a
    topic that fills one text has a large G2 and limits that include 0.
    """

    word: str
    first: float
    second: float
    g2: float
    log2_ratio: float
    low: float
    high: float


@dataclass(frozen=True)
class _Side:
    """Counts by unit, and how often each unit was drawn in every sample (the first one: once)."""

    words: list[Counter[str]]
    counts: FloatArray
    times: FloatArray

    @classmethod
    def of(cls, texts: Sequence[str], random: np.random.Generator) -> _Side:
        pieces = units(texts)
        n = len(pieces)
        drawn = random.multinomial(n, np.full(n, 1.0 / n), DRAWS)
        counts = np.array([_counts(piece) for piece in pieces], dtype=np.float64)
        words = [Counter(words_in(piece)) for piece in pieces]
        return cls(words, counts, np.vstack([np.ones(n), drawn]))


def _counts(text: str) -> list[float]:
    words = words_in(text)
    sentences = max(1, len(_SENTENCE.findall(text)))
    marks = [float(len(re.findall(sign, text))) for sign in _MARKS.values()]
    starts = range(0, max(1, len(words) - STRETCH + 1), STRETCH)
    varied = sum(len(set(words[low : low + STRETCH])) for low in starts)
    return [len(words), sentences, sum(map(len, words)), varied, len(starts), *marks]


STRETCH = 100
"""Words of a stretch in which different ones are counted, so that length plays no part."""
NAMES = ("words a sentence", "letters a word", f"different words in {STRETCH}", *_MARKS)


def _rates(side: _Side) -> FloatArray:
    """(samples, figures): ratios of sums, marks by 100 words."""
    total = side.times @ side.counts
    n = np.maximum(total[:, :1], 1.0)
    ratios = [n / total[:, 1:2], total[:, 2:3] / n, total[:, 3:4] / total[:, 4:5]]
    return np.hstack([*ratios, 100.0 * total[:, 5:] / n])


def measures(first: Sequence[str], second: Sequence[str], seed: int = 0) -> tuple[Measure, ...]:
    """How either side is written, in plain figures.

    >>> found = measures(["I came. I saw, and I won!"], ["I came, I saw, I won, I left."])
    >>> found[0].name, found[0].first, found[0].second
    ('words a sentence', 3.5, 8.0)
    """
    random = np.random.default_rng([seed, 41])
    both = [_rates(_Side.of(texts, random)) for texts in (first, second)]
    made = []
    for column, name in enumerate(NAMES):
        one, other = (rates[:, column] for rates in both)
        apart = _limits(one[1:] - other[1:])
        # A mark that a side never has is 0 in all samples: they cannot say how rare it is there.
        never = min(one[0], other[0]) == 0.0
        differ = bool(not never and (apart[0] > 0 or apart[1] < 0))
        values = float(one[0]), float(other[0])
        made.append(Measure(name, *values, _limits(one[1:]), _limits(other[1:]), differ))
    return tuple(made)


def _limits(values: FloatArray) -> tuple[float, float]:
    low, high = np.percentile(values, [2.5, 97.5]).tolist()
    return low, high


def keywords(
    first: Sequence[str], second: Sequence[str], top: int = 15, seed: int = 0
) -> tuple[tuple[Key, ...], tuple[Key, ...]]:
    r"""Words that either side uses more than the other, by Dunning's log-likelihood.

    .. math:: G^2 = 2 \sum_{i} O_i \ln (O_i / E_i)

    >>> ours, theirs = keywords(["upon upon the the"], ["whilst whilst whilst the the"])
    >>> ours[0].word, theirs[0].word
    ('upon', 'whilst')
    """
    random = np.random.default_rng([seed, 43])
    sides = [_Side.of(texts, random) for texts in (first, second)]
    totals = [sum(side.words, Counter[str]()) for side in sides]
    n = np.array([max(1, own.total()) for own in totals], dtype=np.float64)
    names = sorted({*totals[0], *totals[1]})
    seen = np.array([[own[word] for word in names] for own in totals], dtype=np.float64)
    expected = seen.sum(axis=0) * (n / n.sum())[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        g2 = 2.0 * np.where(seen > 0, seen * np.log(seen / expected), 0.0).sum(axis=0)
    rates = seen / n[:, None]
    order = sorted(range(len(names)), key=lambda j: (-g2[j], names[j]))
    found: tuple[list[Key], list[Key]] = ([], [])
    for j in order:
        more = int(rates[1, j] > rates[0, j])
        if rates[0, j] != rates[1, j] and len(found[more]) < top:
            one, other = (1000.0 * rates[:, j]).tolist()
            ratio = _ratio(sides, names[j])
            found[more].append(Key(names[j], one, other, float(g2[j]), *ratio))
    return tuple(found[0]), tuple(found[1])


def _ratio(sides: Sequence[_Side], word: str) -> tuple[float, float, float]:
    """log2 of the ratio of rates, each with half a word added (0 where none has it); limits."""
    logs, half = [], 1.0 / sum(float(side.counts[:, 0].sum()) for side in sides)
    for side in sides:
        times = side.times @ np.array([own[word] for own in side.words], dtype=np.float64)
        logs.append(np.log2(times / np.maximum(side.times @ side.counts[:, 0], 1.0) + half))
    apart = logs[0] - logs[1]
    return float(apart[0]), *_limits(apart[1:])


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
