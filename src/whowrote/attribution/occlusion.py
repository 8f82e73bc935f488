r"""How much a stretch of a text counts: the evidence with it less the evidence without it.

.. math:: d(S) = e(x) - e(x \setminus S), \qquad
    e(x) = \ln \frac{p(k \mid x)}{1 - p(k \mid x)}

for the best author *k* of the whole text. What is left is read again by the whole engine: features,
contrasts, mixture, calibration. The text is cut into its passages once, and only the passage in
which something was deleted is read anew, so that nothing moves but what was deleted.

Whether the stretches that count most do count is checked by deleting them together, beside as many
words drawn at random.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp

from whowrote.arrays import FloatArray, IntArray
from whowrote.attribution.rows import cut
from whowrote.progress import tell

if TYPE_CHECKING:
    from whowrote.attribution.fitted_attributor import FittedAttributor

MOST_UNITS = 150
"""Stretches of a passage that are deleted one by one; in a longer passage each has more words."""
RUN, MOST_PHRASES = 4, 200
"""Words of a phrase, and phrases of a passage: in a longer passage each has more words."""
SHARES = (0.05, 0.10, 0.20)
"""Of the words, that are deleted together to check the marks."""
AT_ONCE = 128
_WORD = re.compile(r"\S+")
_SENTENCE = re.compile(r"[^\n]+?(?:[.!?\u2026]+[\"'\u201d\u2019)\]]*(?=\s|$)|(?=\n)|$)")
Range = tuple[int, int]


@dataclass(frozen=True)
class Mark:
    """A stretch of the text and by how much deleting it lowers the evidence; below 0: raises."""

    start: int
    end: int
    drop: float


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
    """Those that count most and lie apart: of marks that overlap, the stronger one alone.

    >>> strongest([Mark(0, 9, 1.0), Mark(3, 12, 2.0), Mark(12, 20, 0.5)], 2)
    [Mark(start=3, end=12, drop=2.0), Mark(start=12, end=20, drop=0.5)]
    """
    found: list[Mark] = []
    for one in sorted(marks, key=lambda mark: -mark.drop):
        if len(found) < most and all(one.end <= a.start or one.start >= a.end for a in found):
            found.append(one)
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
        self.evidence = float(self._odds(self._whole.log_likelihood.sum(axis=0)[None])[0])

    def without(self, deletions: Sequence[Sequence[Range]]) -> FloatArray:
        """The evidence after each deletion of some stretches, which may not overlap."""
        rows = np.repeat(self._whole.log_likelihood.sum(axis=0)[None], len(deletions), axis=0)
        changed = [
            (row, number, rest)
            for row, ranges in enumerate(deletions)
            for number, rest in self._changed(ranges)
        ]
        for low in range(0, len(changed), AT_ONCE):
            some = changed[low : low + AT_ONCE]
            for row, number, _ in some:
                rows[row] -= self._whole.log_likelihood[number]
            # A passage of which nothing is left says nothing for anybody.
            left = [(row, rest) for row, _, rest in some if rest.strip()]
            if left:
                found = self.fitted.evidence([rest for _, rest in left])
                np.add.at(rows, [row for row, _ in left], found.log_likelihood)
            tell("deleting stretches", min(low + AT_ONCE, len(changed)), len(changed))
        return self._odds(rows)

    def drops(self, ranges: Sequence[Range]) -> FloatArray:
        """By how much deleting each stretch alone lowers the evidence."""
        return self.evidence - self.without([[one] for one in ranges])

    def units(self) -> list[Range]:
        """Words, or in long passages runs of words, of which each lies in one passage."""
        found = []
        for low, high in self.pieces:
            words = [(low + a, low + b) for a, b in words_in(self.text[low:high])]
            size = -(-len(words) // MOST_UNITS)
            runs = (words[first : first + size] for first in range(0, len(words), size))
            found += [(run[0][0], run[-1][1]) for run in runs]
        return found

    def phrases(self) -> list[Range]:
        """Runs of a few neighbouring words of one passage, wherever they may begin.

        A phrase that is cut in two by fixed places counts for half, so the next run begins a word
        later, or in long passages a few.
        """
        found = []
        for low, high in self.pieces:
            words = [(low + a, low + b) for a, b in words_in(self.text[low:high])]
            size = -(-len(words) // MOST_PHRASES)
            run = min(RUN * size, len(words))
            firsts = range(0, len(words) - run + 1, max(size, 1))
            found += [(words[i][0], words[i + run - 1][1]) for i in firsts if run]
        return found

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

    def _odds(self, log_likelihood: FloatArray) -> FloatArray:
        counts = np.full(len(log_likelihood), len(self.pieces))
        found = replace(self._whole, counts=counts, log_likelihood=log_likelihood)
        log_proba = self.fitted.log_proba(found)
        others = np.delete(log_proba, self.author, axis=1)
        return np.asarray(log_proba[:, self.author] - logsumexp(others, axis=1))


def _first(order: IntArray, words: IntArray, share: float) -> IntArray:
    """The first of them with so large a share of the words; one at least."""
    enough = np.searchsorted(np.cumsum(words[order]), share * words.sum() - 1e-9)
    return order[: int(enough) + 1]


def _deletion(share: float, words: int, drops: FloatArray) -> Deletion:
    marked, drawn = float(drops[0]), drops[1:]
    low, high = np.percentile(marked - drawn, [2.5, 97.5]).tolist()
    mean = float(drawn.mean())
    return Deletion(share, words, marked, mean, marked - mean, low, high)
