r"""Ratios among a closed set: one candidate wrote the text, against the other candidates.

.. math:: \mathrm{LR}_c(q) = p(q \mid c) \Big/ \frac{1}{K - 1} \sum_{j \ne c} p(q \mid j), \qquad
    \ln \mathrm{LR}'_c = a + b \ln \mathrm{LR}_c

Where it is known beforehand that one of *K* candidates wrote a text, no population of others is
needed. The known texts are held out in folds, cut to a length and attributed by a model that has
not seen them; from their ratios a and b are learnt by logistic regression, drawn towards 0 and 1.
What is validated are ratios by an a and b of the other folds. Known texts and lengths go in,
records and a curve for each length come out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from whowrote.arrays import BoolArray, FloatArray, IntArray
from whowrote.attribution import Attribution, Attributor
from whowrote.corpus.splits import folds
from whowrote.corpus.texts import Corpus
from whowrote.evaluation import possible_folds
from whowrote.held_out import AnswerValidation
from whowrote.metrics import wilson
from whowrote.progress import tell
from whowrote.ratios import LN10, against_others, ratio_quality, ridge_logistic
from whowrote.validation import (
    LEAST_TEXTS,
    RatioValidation,
    cllr_interval,
    first_words,
)

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
