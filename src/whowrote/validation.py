r"""Figures of likelihood ratios for texts of a given length, by people left out.

.. math:: (\text{known}_b, \text{questioned}_a) \to \mathrm{LR} \ \text{by a verifier without}\
    a \text{ and } b

Each person's texts fall, groups whole, into two parts: one is known, and from the texts of the
other so many words are questioned, in turn. Ratios of all such pairs by one person, and of some by
two, come from a centre or a curve that neither person was in. A corpus goes in, records come out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from whowrote.arrays import BoolArray, FloatArray, IntArray
from whowrote.attribution.population import (
    VECTORS,
    Population,
    Sides,
    extractor_of,
    read_by_extractor,
)
from whowrote.attribution.verification import (
    Enrolled,
    OwnCurve,
    fit_verifier,
    grounded,
    joined,
    read_authors,
    read_by_features,
)
from whowrote.corpus.texts import Corpus
from whowrote.errors import InputError
from whowrote.features.interface import FittedFeatures
from whowrote.features.kinds import named
from whowrote.metrics import Interval
from whowrote.progress import tell
from whowrote.ratios import LN10, RatioQuality, ratio_quality

MOST_PEOPLE, MOST_QUESTIONS, MOST_OTHERS = 60, 6, 6
"""People; questioned texts of each part of a person's; others with whom each is compared."""
LEAST_PEOPLE, LEAST_TEXTS = 3, 6
"""Fewer people, or fewer texts that are long enough, validate nothing."""
PEOPLE_FOLDS = 5
DRAWS = 400
INFORMATIVE = 0.95
"""Of Cllr: ratios near 1 cost about 1 bit also where authors are shuffled; less must be shown."""
SHORTEST = 25
"""Words of the shortest texts that are measured."""


# -- texts of so many words ----------------------------------------------------------------------


def first_words(text: str, words: int | None, start: float = 0.0) -> str:
    """So many words from a place in the text on, 0 its beginning and 1 as late as they go.

    >>> first_words("one two  three four", 2, 0.5), first_words("one two", None)
    ('two  three', 'one two')
    """
    starts = [0, *(at for at in range(1, len(text)) if _begins(text, at))]
    if text[:1].isspace():
        starts = starts[1:]
    if words is None or len(starts) <= words:
        return text
    first = int(start * (len(starts) - words))
    end = starts[first + words] if first + words < len(starts) else len(text)
    return text[starts[first] : end].rstrip()


def _begins(text: str, at: int) -> bool:
    return text[at - 1].isspace() and not text[at].isspace()


def condition_length(words: int) -> int:
    """The measured length for a text of so many words: two steps an octave, never longer.

    >>> condition_length(30), condition_length(150), condition_length(2100), condition_length(7)
    (25, 141, 1600, 7)
    """
    if words < SHORTEST:
        return max(1, words)
    return round(SHORTEST * 2 ** (int(2 * np.log2(words / SHORTEST) + 1e-9) / 2))


def octaves(longest: int) -> tuple[int, ...]:
    """25, 50, 100 ... words, up to the longest.

    >>> octaves(120)
    (25, 50, 100)
    """
    return tuple(SHORTEST * 2**n for n in range(12) if SHORTEST * 2**n <= longest)


def usable_length(corpus: Corpus, words: int) -> int:
    """The measured length of a questioned text, or less where too few known texts are so long."""
    lengths = np.sort(corpus.word_counts)[::-1]
    enough = int(lengths[min(len(lengths), LEAST_TEXTS) - 1])
    return condition_length(min(words, max(1, enough)))


# -- ratios of people left out -------------------------------------------------------------------


@dataclass(frozen=True)
class RatioValidation:
    """Ratios of held-out texts of ``words`` words (None: as long as they are).

    ``interval`` is that of Cllr over other samples of the people who wrote the questioned texts.
    """

    words: int | None
    texts: int
    people: int
    quality: RatioQuality
    interval: Interval
    log10_lr: tuple[float, ...] = field(repr=False)
    same: tuple[bool, ...] = field(repr=False)

    @property
    def informative(self) -> bool:
        """Whether ratios cost clearly less than none at all (Cllr of 1) over samples of people."""
        return self.interval.high < INFORMATIVE

    def to_dict(self) -> dict[str, Any]:
        """Plain values; ratios to six decimals."""
        plain = asdict(self) | {"quality": self.quality.to_dict()}
        plain["log10_lr"] = [round(one, 6) for one in self.log10_lr]
        return plain | {"same": list(self.same), "informative": self.informative}


@dataclass(frozen=True)
class _Pieces:
    """Texts with whose they are and in which of that person's two parts they lie."""

    texts: tuple[str, ...]
    person: IntArray
    part: IntArray

    @classmethod
    def of(cls, rows: Sequence[tuple[str, int, int]]) -> _Pieces:
        texts, person, part = zip(*rows, strict=True) if rows else ((), (), ())
        return cls(tuple(texts), np.array(person, dtype=np.intp), np.array(part, dtype=np.intp))


@dataclass(frozen=True)
class _Pairs:
    """Rows of known and of questioned sides."""

    known: IntArray
    questioned: IntArray
    persons: IntArray
    """(pairs, 2): whose the known side is, and whose the questioned one."""

    @property
    def same(self) -> BoolArray:
        return np.asarray(self.persons[:, 0] == self.persons[:, 1])


class HeldOutPeople:
    """The people of a corpus, each with two known sides; asked for ratios at any length."""

    def __init__(
        self,
        corpus: Corpus,
        features: str = "hybrid",
        *,
        known_words: int | None = None,
        seed: int = 0,
    ) -> None:
        self.corpus, self.features, self.seed = corpus.labelled(), features, seed
        self.known, self._questions = _two_parts(self.corpus, known_words, seed)
        people = len(np.unique(self.known.person))
        if people < LEAST_PEOPLE:
            raise InputError(
                f"{people} people have two or more texts in different groups; to measure ratios on "
                f"people left out, {LEAST_PEOPLE} must have: add reference texts by others"
            )
        self._ratios = self._scorer()

    def at(self, words: int | None) -> RatioValidation | None:
        """Ratios at one length; None where too few held-out texts are so long."""
        random = np.random.default_rng([self.seed, 23])
        asked = [
            (first_words(text, words, random.random()), int(person), int(part))
            for text, person, part in zip(
                self._questions.texts, self._questions.person, self._questions.part, strict=True
            )
            if words is None or len(text.split()) >= words
        ]
        questions = _Pieces.of(asked)
        if len(asked) < LEAST_TEXTS or len(np.unique(questions.person)) < 2:
            return None
        pairs = _pairs(self.known, questions, self.seed)
        log10_lr = self._ratios(questions, pairs)
        scored = np.isfinite(log10_lr)
        same, owner = pairs.same[scored], pairs.persons[scored, 1]
        if same.sum() < LEAST_TEXTS or (~same).sum() < LEAST_TEXTS:
            return None
        kept = log10_lr[scored]
        return RatioValidation(
            words=words,
            texts=len(asked),
            people=len(np.unique(owner)),
            quality=ratio_quality(kept, same),
            interval=cllr_interval(kept, same, owner, self.seed),
            log10_lr=tuple(kept.tolist()),
            same=tuple(same.tolist()),
        )

    def _scorer(self) -> Callable[[_Pieces, _Pairs], FloatArray]:
        features = fitted_features(self.features, self.corpus)
        population, extractor = Population.of(features), extractor_of(features)
        if population is None or extractor is None:
            return self._by_own_curves
        codes = _codes(self.corpus)
        authors = np.unique(codes)
        authors = np.random.default_rng([self.seed, 17]).permutation(authors)[:MOST_PEOPLE]
        centre = read_authors(extractor, self.corpus.texts, codes, authors)
        known = read_by_extractor(extractor, self.known.texts)
        own, reading = authors, extractor

        def ratios(questions: _Pieces, pairs: _Pairs) -> FloatArray:
            asked = read_by_extractor(reading, questions.texts)
            return _centred(population, (centre, own), known, asked, pairs)

        return ratios

    def _by_own_curves(self, questions: _Pieces, pairs: _Pairs) -> FloatArray:
        """People in folds; features and curve of each are learnt from everybody else's texts."""
        found, codes = np.full(len(pairs.known), np.nan), _codes(self.corpus)
        people = np.random.default_rng([self.seed, 29]).permutation(np.unique(self.known.person))
        n_folds = max(2, min(PEOPLE_FOLDS, len(people) // 2))
        for fold in range(n_folds):
            out = people[fold::n_folds]
            rest = self.corpus.subset(np.flatnonzero(~np.isin(codes, out)))
            rows = np.flatnonzero(np.isin(pairs.persons, out).all(axis=1))
            if not len(rows) or len(rest.author_names) < 2:
                continue
            features = fitted_features(self.features, rest)
            curve = fit_verifier(features, rest.texts, _codes(rest), self.seed)
            if isinstance(curve, OwnCurve):
                found[rows] = _curved(features, curve, self.known, questions, pairs, rows)
            tell("validating ratios", fold + 1, n_folds)
        return found


def fitted_features(features: str, corpus: Corpus) -> FittedFeatures:
    """Features that have read these texts."""
    made: FittedFeatures = named(features, few=True).fit(list(corpus.texts)).fitted()
    return made


def _codes(corpus: Corpus) -> IntArray:
    return np.searchsorted(np.array(corpus.author_names), np.array(corpus.authors)).astype(np.intp)


def _two_parts(corpus: Corpus, known_words: int | None, seed: int) -> tuple[_Pieces, _Pieces]:
    """Known sides, two a person, and the texts of the other part, of which questions are made."""
    random, codes = np.random.default_rng([seed, 19]), _codes(corpus)
    groups = np.array(corpus.units)
    known: list[tuple[str, int, int]] = []
    questions: list[tuple[str, int, int]] = []
    several = [c for c in np.unique(codes) if len(np.unique(groups[codes == c])) > 1]
    for code in random.permutation(several)[:MOST_PEOPLE]:
        own = np.flatnonzero(codes == code)
        order = random.permutation(np.unique(groups[own]))
        for part in (0, 1):
            rows = own[np.isin(groups[own], order[part::2])]
            whole = joined([corpus.texts[row] for row in rows])
            known.append((first_words(whole, known_words), int(code), part))
            drawn = random.permutation(rows)[:MOST_QUESTIONS]
            questions += [(corpus.texts[row], int(code), part) for row in drawn]
    return _Pieces.of(known), _Pieces.of(questions)


def _pairs(known: _Pieces, questions: _Pieces, seed: int) -> _Pairs:
    """Every question with its author's other part, and with the same part of some others."""
    random, rows = np.random.default_rng([seed, 31]), []
    for number, (person, part) in enumerate(zip(questions.person, questions.part, strict=True)):
        other = np.flatnonzero(known.part != part)
        own = other[known.person[other] == person]
        others = random.permutation(other[known.person[other] != person])[:MOST_OTHERS]
        rows += [(side, number) for side in (*own, *others)]
    both = np.array(rows, dtype=np.intp)
    persons = np.stack([known.person[both[:, 0]], questions.person[both[:, 1]]], axis=1)
    return _Pairs(both[:, 0], both[:, 1], persons)


def _centred(
    population: Population,
    reference: tuple[Enrolled, IntArray],
    known: Sides,
    asked: Sides,
    pairs: _Pairs,
) -> FloatArray:
    """log10 ratios by the packaged curve and the centre of everybody but the two people."""
    (own, authors), found = reference, np.full(len(pairs.known), np.nan)
    ordered = np.sort(pairs.persons, axis=1)
    for two in np.unique(ordered, axis=0):
        rows = np.flatnonzero((ordered == two).all(axis=1))
        rest = ~np.isin(authors, two)
        both = _stacked(known, pairs.known[rows], asked, pairs.questioned[rows])
        enrolled, weights = int(rest.sum()), None
        if enrolled:
            centre = own.kept(rest).centre(population)
            both, weights = centre.applied(both), centre.weights_of(population)
        n = len(rows)
        pair = np.stack([np.arange(n), np.arange(n) + n], axis=1)
        words, log_lr = both.words[pair], population.log_lr(both, pair, enrolled, weights)
        found[rows] = grounded(log_lr[:, :1], population.most(words), words)[:, 0] / LN10
    return found


def _stacked(known: Sides, first: IntArray, asked: Sides, second: IntArray) -> Sides:
    vectors = np.concatenate([known.rows[VECTORS][first], asked.rows[VECTORS][second]])
    return Sides({VECTORS: vectors}, np.concatenate([known.words[first], asked.words[second]]))


def _curved(
    features: FittedFeatures,
    curve: OwnCurve,
    known: _Pieces,
    questions: _Pieces,
    pairs: _Pairs,
    rows: IntArray,
) -> FloatArray:
    left, right = pairs.known[rows], pairs.questioned[rows]
    kept, place = np.unique(left, return_inverse=True)
    asked, second = np.unique(right, return_inverse=True)
    texts = [known.texts[row] for row in kept] + [questions.texts[row] for row in asked]
    sides = read_by_features(features, texts)
    pair = np.stack([place, second + len(kept)], axis=1)
    words = sides.words[pair]
    log_lr = curve.log_lr(sides.similarities(pair), words)
    return np.asarray(grounded(log_lr[:, :1], curve.most(words), words)[:, 0] / LN10)


def cllr_interval(log10_lr: FloatArray, same: BoolArray, owner: IntArray, seed: int) -> Interval:
    """The middle 95 % of Cllr over people drawn with replacement."""
    cost = np.logaddexp(0.0, np.where(same, -log10_lr, log10_lr) * LN10) / np.log(2.0)
    _, each = np.unique(owner, return_inverse=True)
    n = int(each.max()) + 1
    drawn = np.random.default_rng([seed, 37]).multinomial(n, np.full(n, 1 / n), DRAWS)
    halves = []
    for kind in (same, ~same):
        total, times = np.bincount(each, cost * kind, n), np.bincount(each, kind, n)
        with np.errstate(invalid="ignore"):
            halves.append((drawn @ total) / (drawn @ times))
    low, high = np.nanpercentile((halves[0] + halves[1]) / 2, [2.5, 97.5])
    return Interval(float(low), float(high))


def shortest_informative(found: Sequence[RatioValidation]) -> int | None:
    """The floor: the least length from which on every measured one is informative; None: none."""
    floor = None
    for one in sorted(found, key=lambda each: -(each.words or 0)):
        if not one.informative:
            break
        floor = one.words
    return floor
