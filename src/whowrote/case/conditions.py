r"""Validation under the conditions of a case: what is found where the author is known.

Held-out texts of known and reference people, cut to the length of each questioned text, go through
the same comparison. Out come figures for every length, the bounds that they bear out, and the
floor: the least length from which on ratios tell clearly more than none.

In a closed set one candidate wrote the text, against the other candidates:

.. math:: \mathrm{LR}_c(q) = p(q \mid c) \Big/ \frac{1}{K - 1} \sum_{j \ne c} p(q \mid j), \qquad
    \ln \mathrm{LR}'_c = a + b \ln \mathrm{LR}_c

Where it is known beforehand that one of *K* candidates wrote a text, no population of others is
needed. The known texts are held out in folds, cut to a length and attributed by a model that has
not seen them; from their ratios a and b are learnt by logistic regression, drawn towards 0 and 1.
What is validated are ratios by an a and b of the other folds. Known texts and lengths go in,
records and a curve for each length come out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np

from whowrote.arrays import BoolArray, FloatArray, IntArray
from whowrote.attribution import Attribution, Attributor
from whowrote.case.exhibits import Case
from whowrote.corpus.splits import folds
from whowrote.corpus.texts import Corpus
from whowrote.errors import InputError
from whowrote.evaluation import possible_folds
from whowrote.held_out import AnswerValidation, StrangerValidation, answers_at, strangers_refused
from whowrote.metrics import wilson
from whowrote.progress import tell
from whowrote.ratios import LN10, against_others, ratio_quality, ridge_logistic
from whowrote.validation import (
    LEAST_PEOPLE,
    LEAST_TEXTS,
    HeldOutPeople,
    RatioValidation,
    cllr_interval,
    first_words,
    octaves,
    shortest_informative,
    usable_length,
)


@dataclass(frozen=True)
class Conditions:
    """What was measured for the lengths of the questioned texts."""

    lengths: Mapping[str, int]
    """Of each questioned text, the words that held-out texts were cut to."""
    known_words: int
    ratios: tuple[RatioValidation, ...]
    answers: tuple[AnswerValidation, ...]
    floor: int | None
    why_not: str
    """Why ratios could not be validated; empty where they could."""
    strangers: StrangerValidation | None = None
    curves: Mapping[int, ClosedCurve] = field(default_factory=dict)
    """Of a closed case, by length."""

    def ratio_at(self, words: int) -> RatioValidation | None:
        """That of one length."""
        return next((one for one in self.ratios if one.words == words), None)

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "lengths": dict(self.lengths),
            "known_words": self.known_words,
            "ratios": [one.to_dict() for one in self.ratios],
            "answers": [one.to_dict() for one in self.answers],
            "floor": self.floor,
            "why_not": self.why_not,
            "strangers": self.strangers and self.strangers.to_dict(),
            "curves": curves_to_dict(self.curves),
        }


def validate(case: Case, labelled: Corpus, questioned: Corpus) -> Conditions:
    """Measure with held-out texts of the questioned texts' lengths, and find the floor."""
    seed, features = case.question.seed, case.question.features
    lengths = {
        name: usable_length(labelled, words)
        for name, words in zip(questioned.ids, questioned.word_counts, strict=True)
    }
    words = sorted({*lengths.values(), *octaves(max(lengths.values()))})
    of_candidate = [sum(own.word_counts) for own in case.corpus("known").by_author().values()]
    known_words = int(median(of_candidate))
    if case.question.closed:
        return _closed_conditions(case, labelled, lengths, known_words, words)
    ratios, why = _open_ratios(case, labelled, known_words, words)
    answers: tuple[AnswerValidation, ...] = ()
    strangers = None
    if attributable(labelled):
        attributor = Attributor(features, random_state=seed)
        answers = answers_at(labelled, attributor, sorted(set(lengths.values())), seed)
        if len(labelled.author_names) > LEAST_PEOPLE:
            strangers = strangers_refused(labelled, attributor, seed)
    floor = shortest_informative(ratios)
    return Conditions(lengths, known_words, tuple(ratios), answers, floor, why, strangers)


def _open_ratios(
    case: Case, labelled: Corpus, known_words: int, lengths: Sequence[int]
) -> tuple[list[RatioValidation], str]:
    """Of people left out, at every length; or why there are none."""
    seed, features = case.question.seed, case.question.features
    ratios: list[RatioValidation] = []
    try:
        people = HeldOutPeople(labelled, features, known_words=known_words, seed=seed)
        for number, one in enumerate(lengths):
            ratios += [found for found in [people.at(one)] if found is not None]
            tell("validating ratios", number + 1, len(lengths))
    except InputError as problem:
        return [], str(problem)
    if ratios:
        return ratios, ""
    return [], (
        f"too few held-out texts or people: at least {LEAST_PEOPLE} people with two texts each are "
        "needed, for n-grams alone four"
    )


def _closed_conditions(
    case: Case,
    known: Corpus,
    lengths: Mapping[str, int],
    known_words: int,
    words: Sequence[int],
) -> Conditions:
    if not attributable(known):
        why = "two candidates or more, each with two known texts in different groups, are needed"
        return Conditions(lengths, known_words, (), (), None, why)
    attributor = Attributor(case.question.features, random_state=case.question.seed)
    found = validate_closed(known, attributor, words, case.question.seed)
    asked = tuple(one for one in found.answers if one.words in set(lengths.values()))
    why = "" if found.ratios else f"fewer than {LEAST_TEXTS} known texts could be held out"
    floor = shortest_informative(found.ratios)
    return Conditions(lengths, known_words, found.ratios, asked, floor, why, curves=found.curves)


def attributable(labelled: Corpus) -> bool:
    """Whether a model can be learnt and validated: two people, two groups of texts each."""
    try:
        labelled.require_attribution(min_texts=2)
    except InputError:
        return False
    owned = set(zip(labelled.authors, labelled.units, strict=True))
    return min(Counter(author for author, _ in owned).values()) > 1


DRAWS, CONFIDENCE = 200, 0.95
PENALTY = np.array([1.0, 1.0])
"""Of a and b - 1: as much as one text."""


@dataclass(frozen=True)
class ClosedCurve:
    """What calibrates ratios: a and b - 1, and those of other samples of the known texts."""

    weights: tuple[float, float]
    draws: tuple[tuple[float, float], ...]

    def log10_lr(self, score: float) -> tuple[float, float, float]:
        """The calibrated ratio and the limits of its 95 % interval, from the raw one (log10)."""
        every = np.array([self.weights, *self.draws])
        found = (every[:, 0] + (LN10 + every[:, 1]) * score) / LN10
        tail = 100 * (1 - CONFIDENCE) / 2
        low, high = np.percentile(found, [tail, 100 - tail])
        one = float(found[0])
        return one, min(one, float(low)), max(one, float(high))


@dataclass(frozen=True)
class ClosedValidation:
    """What was measured at each length, and the curve for it."""

    ratios: tuple[RatioValidation, ...]
    answers: tuple[AnswerValidation, ...]
    curves: Mapping[int, ClosedCurve]


@dataclass(frozen=True)
class _HeldOut:
    """Held-out texts of one length: raw ratios, whose they are, in which fold, what was said."""

    scores: FloatArray
    truth: IntArray
    fold: IntArray
    named: BoolArray
    confidence: FloatArray

    @property
    def same(self) -> BoolArray:
        return np.asarray(np.arange(self.scores.shape[1])[None] == self.truth[:, None])


def closed_scores(answers: Sequence[Attribution], names: Sequence[str]) -> FloatArray:
    """(texts, candidates): raw log10 ratios, each as probable beforehand as the others."""
    table = np.empty((len(answers), len(names)))
    for row, answer in enumerate(answers):
        found = {one.author: one.probability for one in answer.ranking}
        table[row] = [found[name] for name in names]
    with np.errstate(divide="ignore"):
        return against_others(np.log(table), np.full(len(names), -np.log(len(names))))


def validate_closed(
    known: Corpus, attributor: Attributor, lengths: Sequence[int], seed: int
) -> ClosedValidation:
    """Hold out, cut, attribute, calibrate by the other folds, measure."""
    found = _held_out(known, attributor, lengths, seed)
    ratios, answers, curves = [], [], {}
    for words, texts in found.items():
        if len(texts.truth) < LEAST_TEXTS or len(np.unique(texts.truth)) < 2:
            continue
        ratios.append(_validated(words, texts, seed))
        answers.append(_answers(words, texts))
        curves[words] = learn_curve(texts.scores, texts.same, seed)
    return ClosedValidation(tuple(ratios), tuple(answers), curves)


def _held_out(
    known: Corpus, attributor: Attributor, lengths: Sequence[int], seed: int
) -> dict[int, _HeldOut]:
    from sklearn.base import clone

    authors, names = [str(author) for author in known.authors], known.author_names
    n_folds = possible_folds(known)
    splits = folds(authors, known.units, ids=known.ids, n_folds=n_folds, random_state=seed)
    start = np.random.default_rng([seed, 41]).random(len(known))
    rows: dict[int, list[tuple[int, int, Attribution]]] = {words: [] for words in lengths}
    for number, split in enumerate(splits):
        fitted = clone(attributor).fit(known.subset(split.train)).fitted()
        for words in lengths:
            own = [row for row in split.held_out if known.word_counts[row] >= words]
            texts = [first_words(known.texts[row], words, float(start[row])) for row in own]
            said = fitted.attribute(texts) if texts else []
            rows[words] += [(row, number, one) for row, one in zip(own, said, strict=True)]
        tell("validating among the candidates", number + 1, len(splits))
    return {words: _gathered(own, authors, names) for words, own in rows.items() if own}


def _gathered(
    rows: Sequence[tuple[int, int, Attribution]], authors: Sequence[str], names: Sequence[str]
) -> _HeldOut:
    said = [one for _, _, one in rows]
    return _HeldOut(
        scores=closed_scores(said, names),
        truth=np.array([names.index(authors[row]) for row, _, _ in rows], dtype=np.intp),
        fold=np.array([fold for _, fold, _ in rows], dtype=np.intp),
        named=np.array([one.author is not None for one in said]),
        confidence=np.array([one.best.probability for one in said]),
    )


def learn_curve(scores: FloatArray, same: BoolArray, seed: int) -> ClosedCurve:
    """The curve of texts (a row of ratios each), and those of texts drawn with replacement."""
    random, n = np.random.default_rng([seed, 47]), len(scores)
    drawn = [random.integers(n, size=n) for _ in range(DRAWS)]
    weights = [_weights(scores[rows], same[rows]) for rows in (np.arange(n), *drawn)]
    return ClosedCurve(weights[0], tuple(weights[1:]))


def _weights(scores: FloatArray, same: BoolArray) -> tuple[float, float]:
    raw, one = scores.ravel(), same.ravel()
    # Each text counts one: half for its author, half for the others together.
    weight = np.where(one, 0.5, 0.5 / (scores.shape[1] - 1))
    columns = np.column_stack([np.ones_like(raw), raw])
    a, b = ridge_logistic(columns, one, weight, PENALTY, LN10 * raw)
    return float(a), float(b)


def _validated(words: int, texts: _HeldOut, seed: int) -> RatioValidation:
    calibrated = np.empty_like(texts.scores)
    for fold in np.unique(texts.fold):
        own = texts.fold == fold
        a, b = _weights(texts.scores[~own], texts.same[~own]) if (~own).any() else (0.0, 0.0)
        calibrated[own] = (a + (LN10 + b) * texts.scores[own]) / LN10
    log10_lr, same = calibrated.ravel(), texts.same.ravel()
    owner = np.repeat(np.arange(len(texts.truth)), texts.scores.shape[1])
    return RatioValidation(
        words=words,
        texts=len(texts.truth),
        people=len(np.unique(texts.truth)),
        quality=ratio_quality(log10_lr, same),
        interval=cllr_interval(log10_lr, same, owner, seed),
        log10_lr=tuple(log10_lr.tolist()),
        same=tuple(same.tolist()),
    )


def _answers(words: int, texts: _HeldOut) -> AnswerValidation:
    right = texts.scores.argmax(axis=1) == texts.truth
    wrong, n = int((~right).sum()), len(right)
    return AnswerValidation(
        words=words,
        texts=n,
        error=wrong / n,
        interval=wilson(wrong, n),
        coverage=float(texts.named.mean()),
        error_named=float((~right[texts.named]).mean()) if texts.named.any() else None,
        confidence=tuple(texts.confidence.tolist()),
        right=tuple(right.tolist()),
    )


def curves_to_dict(curves: Mapping[int, ClosedCurve]) -> dict[str, Any]:
    """a and b of each length."""
    pairs = {words: one.weights for words, one in curves.items()}
    return {str(words): {"a": a, "b": 1 + b / LN10} for words, (a, b) in pairs.items()}
