r"""How much a stretch of a text counts: the evidence with it less the evidence without it.

.. math:: d(S) = e(x) - e(x \setminus S), \qquad
    e(x) = \ln \frac{p(k \mid x)}{1 - p(k \mid x)}

for the best author *k* of the whole text. What is left is read again by the whole engine: features,
contrasts, mixture, calibration. The text is cut into its passages once, and only the passage in
which something was deleted is read anew, so that nothing moves but what was deleted.

Where the answer is beyond doubt, *e* hardly moves whatever is deleted, and chance puts stretches in
order. The contrasts behind it do not saturate, so phrases and sentences are ranked by how far the
lead in them falls,

.. math:: l(S) = \bar c(x) - \bar c(x \setminus S), \qquad
    \bar c = c_k - \frac{1}{K - 1} \sum_{j \ne k} c_j .

Whether the stretches that count most do count is checked by deleting them together, beside as many
words drawn at random.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp

from whowrote.arrays import FloatArray, IntArray
from whowrote.attribution.rows import cut
from whowrote.progress import tell

if TYPE_CHECKING:
    from whowrote.attribution.fitted_attributor import Evidence, FittedAttributor

MOST_UNITS = 150
"""Stretches of a passage that are deleted one by one; in a longer passage each has more words."""
SIZES = range(2, 9)
"""Words of a phrase."""
SCREENED, REFINED, MOST_PHRASES = 8, 8, 160
"""Runs of each size that are read; the best, whose ends are moved; runs after which none are."""
SHARES = (0.05, 0.10, 0.20)
"""Of the words, that are deleted together to check the marks."""
AT_ONCE = 128
_WORD = re.compile(r"\S+")
_SENTENCE = re.compile(r"[^\n]+?(?:[.!?\u2026]+[\"'\u201d\u2019)\]]*(?=\s|$)|(?=\n)|$)")
Range = tuple[int, int]


@dataclass(frozen=True)
class Mark:
    """A stretch of the text and by how much deleting it lowers the evidence; below 0: raises.

    ``lead`` is by how much it lowers the lead in contrasts (the evidence, where there are none).
    """

    start: int
    end: int
    drop: float
    lead: float


@dataclass(frozen=True)
class Deletion:
    """The marked share of the words deleted, beside as many at random.

    ``low`` and ``high`` are the limits of the 95 % interval, over draws, of how much more the
    evidence falls without the marked words.
    """

    share: float
    words: int
    marked: float
    random: float
    difference: float
    low: float
    high: float

    @property
    def holds(self) -> bool:
        """Whether the marked words count for more than chance."""
        return self.low > 0.0


def strongest(marks: Sequence[Mark], most: int) -> list[Mark]:
    """The marks of the largest leads, none of which overlaps another.

    >>> some = [Mark(0, 9, 1.0, 1.0), Mark(3, 12, 1.0, 2.0), Mark(12, 20, 1.0, 0.5)]
    >>> [mark.start for mark in strongest(some, 2)]
    [3, 12]
    """
    ranked = {(mark.start, mark.end): mark for mark in sorted(marks, key=lambda one: -one.lead)}
    return [ranked[one] for one in _apart(ranked, most)]


def _apart(ordered: Iterable[Range], most: int) -> list[Range]:
    """The first ones that overlap no earlier one."""
    found: list[Range] = []
    for low, high in ordered:
        if len(found) < most and all(high <= a or low >= b for a, b in found):
            found.append((low, high))
    return found


def words_in(text: str) -> list[Range]:
    """Where the words are, each with the white space behind it.

    >>> words_in("one  two three")
    [(0, 5), (5, 9), (9, 14)]
    """
    starts = [found.start() for found in _WORD.finditer(text)]
    return list(pairwise([*starts, len(text)]))


def sentences_in(text: str) -> list[Range]:
    r"""Where the sentences are: up to a full stop before white space, or the end of a line.

    >>> text = "Yes. It is 3.5 miles!\nNo"
    >>> [text[low:high] for low, high in sentences_in(text)]
    ['Yes.', 'It is 3.5 miles!', 'No']
    """
    found = []
    for match in _SENTENCE.finditer(text):
        low, high = match.span()
        low += len(text[low:high]) - len(text[low:high].lstrip())
        if low < high:
            found.append((low, high))
    return found


class Occlusion:
    """One text and its best author: the evidence for them without any stretches of it.

    Parameters
    ----------
    fitted : the model.
    text : the whole text.
    author : the number of the author whose evidence is asked for.

    """

    def __init__(self, fitted: FittedAttributor, text: str, author: int) -> None:
        self.fitted, self.text, self.author = fitted, text, author
        pieces = cut(text, fitted.reader.words)
        ends = np.cumsum([0, *map(len, pieces)]).tolist()
        self.pieces: list[Range] = list(pairwise(ends))
        self._whole = fitted.evidence(pieces)
        self._own = self._said(self._whole)
        self._total = self._own.sum(axis=0)
        self.evidence = float(self._odds(self._total[None])[0])

    def without(self, deletions: Sequence[Sequence[Range]]) -> FloatArray:
        """The evidence after each deletion of some stretches, which may not overlap."""
        return self._odds(self._left(deletions))

    def marks(self, ranges: Sequence[Range]) -> tuple[Mark, ...]:
        """By how much deleting each stretch alone lowers the evidence and the lead."""
        left = self._left([[one] for one in ranges])
        drops = self.evidence - self._odds(left)
        leads = (
            (self._total[-1] - left[:, -1]) / len(self.pieces) if self._with_contrasts else drops
        )
        columns = zip(ranges, drops.tolist(), leads.tolist(), strict=True)
        return tuple(Mark(low, high, drop, lead) for (low, high), drop, lead in columns)

    def units(self) -> list[Range]:
        """Words, or in long passages runs of words, of which each lies in one passage."""
        found = []
        for low, high in self.pieces:
            words = [(low + a, low + b) for a, b in words_in(self.text[low:high])]
            size = -(-len(words) // MOST_UNITS)
            runs = (words[first : first + size] for first in range(0, len(words), size))
            found += [(run[0][0], run[-1][1]) for run in runs]
        return found

    def phrases(self, units: Sequence[Mark]) -> tuple[Mark, ...]:
        """The runs of a few words that count most, none of which overlaps another.

        Runs whose words count most one by one are read as a whole. Of the best the ends are moved
        by a word as long as that helps: a longer run must gain more than as many words do on
        average, or the longest would always be the best.
        """
        words, worth = self._words(units)
        price = float(np.abs(worth).mean()) if len(worth) else 0.0
        tried: dict[Range, Mark] = {}
        fresh, best = self._screened(words, worth), list[Range]()
        while fresh and len(tried) < MOST_PHRASES:
            tried |= zip(fresh, self._runs(words, fresh), strict=True)
            gains = {run: tried[run].lead - price * (run[1] - run[0]) for run in tried}
            best = _apart(sorted(tried, key=lambda run: (-gains[run], run)), REFINED)
            moved = {run for one in best for run in _moved(*one)} - tried.keys()
            fresh = sorted(run for run in moved if self._together(words, run))
        return tuple(tried[run] for run in best)

    def _words(self, units: Sequence[Mark]) -> tuple[list[Range], FloatArray]:
        """Every word, and its part of the lead of the unit that it is in."""
        words, worth = list[Range](), list[float]()
        for one in units:
            own = words_in(self.text[one.start : one.end])
            words += [(one.start + low, one.start + high) for low, high in own]
            worth += [one.lead / len(own)] * len(own)
        return words, np.array(worth)

    def _screened(self, words: Sequence[Range], worth: FloatArray) -> list[Range]:
        """Of each size, the runs of words that should count most, by the numbers of their words."""
        found = list[Range]()
        for size in SIZES:
            sums = np.convolve(worth, np.ones(size), "valid") if len(worth) >= size else worth[:0]
            ordered = ((int(low), int(low) + size) for low in np.argsort(-sums, kind="stable"))
            found += _apart((run for run in ordered if self._together(words, run)), SCREENED)
        return found

    def _together(self, words: Sequence[Range], run: Range) -> bool:
        """Whether there are such words, all in one passage."""
        low, high = run
        if low < 0 or high > len(words) or high - low not in SIZES:
            return False
        first, last = words[low][0], words[high - 1][1]
        return any(start <= first and last <= end for start, end in self.pieces)

    def _runs(self, words: Sequence[Range], runs: Sequence[Range]) -> tuple[Mark, ...]:
        return self.marks([(words[low][0], words[high - 1][1]) for low, high in runs])

    def check(self, marks: Sequence[Mark], draws: int, seed: int) -> tuple[Deletion, ...]:
        """Delete the marks that count most, and as many words at random, share by share."""
        random = np.random.default_rng([seed, 29])
        words = np.array([len(self.text[one.start : one.end].split()) for one in marks])
        strongest = np.argsort([-one.drop for one in marks], kind="stable")
        sets, sizes = [], []
        for share in SHARES:
            orders = [strongest, *(random.permutation(len(marks)) for _ in range(draws))]
            chosen = [_first(order, words, share) for order in orders]
            sets += [[(marks[i].start, marks[i].end) for i in sorted(own)] for own in chosen]
            sizes.append(int(words[chosen[0]].sum()))
        drops = (self.evidence - self.without(sets)).reshape(len(SHARES), draws + 1)
        return tuple(
            _deletion(share, size, own)
            for share, size, own in zip(SHARES, sizes, drops, strict=True)
        )

    def _changed(self, ranges: Sequence[Range]) -> Iterator[tuple[int, str]]:
        """The passages that lose something: their numbers, and what is left of them."""
        for number, (low, high) in enumerate(self.pieces):
            own = sorted((max(a, low), min(b, high)) for a, b in ranges if a < high and b > low)
            if own:
                bounds = [low, *(place for pair in own for place in pair), high]
                kept = zip(bounds[::2], bounds[1::2], strict=True)
                yield number, "".join(self.text[a:b] for a, b in kept)

    def _left(self, deletions: Sequence[Sequence[Range]]) -> FloatArray:
        """What the passages say in sum after each deletion: of every author, and the lead."""
        rows = np.repeat(self._total[None], len(deletions), axis=0)
        changed = [
            (row, number, rest)
            for row, ranges in enumerate(deletions)
            for number, rest in self._changed(ranges)
        ]
        for low in range(0, len(changed), AT_ONCE):
            some = changed[low : low + AT_ONCE]
            for row, number, _ in some:
                rows[row] -= self._own[number]
            # A passage of which nothing is left says nothing for anybody.
            left = [(row, rest) for row, _, rest in some if rest.strip()]
            if left:
                found = self.fitted.evidence([rest for _, rest in left])
                np.add.at(rows, [row for row, _ in left], self._said(found))
            tell("deleting stretches", min(low + AT_ONCE, len(changed)), len(changed))
        return rows

    @property
    def _with_contrasts(self) -> int:
        """How many authors have contrasts, if this one has: those enrolled later have none."""
        contrasts = self.fitted.reader.contrasts
        if contrasts is None or self.author >= contrasts.n_authors:
            return 0
        return contrasts.n_authors

    def _said(self, found: Evidence) -> FloatArray:
        """(texts, authors + 1): the evidence of each author, and the lead in contrasts."""
        lead = np.zeros(len(found.counts))
        if self._with_contrasts:
            contrasts = found.figures[:, : self._with_contrasts, -1]
            rest = np.delete(contrasts, self.author, axis=1)
            lead = contrasts[:, self.author] - rest.mean(axis=1)
        return np.column_stack([found.log_likelihood, lead])

    def _odds(self, rows: FloatArray) -> FloatArray:
        log_likelihood = rows[:, :-1]
        counts = np.full(len(log_likelihood), len(self.pieces))
        found = replace(self._whole, counts=counts, log_likelihood=log_likelihood)
        log_proba = self.fitted.log_proba(found)
        others = np.delete(log_proba, self.author, axis=1)
        return np.asarray(log_proba[:, self.author] - logsumexp(others, axis=1))


def _moved(low: int, high: int) -> list[Range]:
    """One word more or less, in front or behind."""
    return [(low - 1, high), (low + 1, high), (low, high - 1), (low, high + 1)]


def _first(order: IntArray, words: IntArray, share: float) -> IntArray:
    """The first of them with so large a share of the words; one at least."""
    enough = np.searchsorted(np.cumsum(words[order]), share * words.sum() - 1e-9)
    return order[: int(enough) + 1]


def _deletion(share: float, words: int, drops: FloatArray) -> Deletion:
    marked, drawn = float(drops[0]), drops[1:]
    low, high = np.percentile(marked - drawn, [2.5, 97.5]).tolist()
    mean = float(drawn.mean())
    return Deletion(share, words, marked, mean, marked - mean, low, high)
