r"""What held-out texts, and authors left out in turn, teach an attributor of its own answers.

.. math:: \ln p(k \mid o_i)\ \text{held out} \to (T, a), \qquad
    \text{figures of own texts, figures as strangers} \to p

The same texts are asked twice: as texts of their authors that the model has not seen, and as texts
of strangers to a model that knows nothing of their authors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from whowrote.arrays import FloatArray, IntArray, per_text
from whowrote.attribution.calibration import (
    Calibration,
    HeldOut,
    Norms,
    Pooling,
    Strangers,
    best_figures,
    nearness_block,
)
from whowrote.attribution.few_people import FewPeople
from whowrote.attribution.fitted_attributor import figures, prior_of
from whowrote.attribution.profiles import Profiles, text_rows
from whowrote.attribution.rows import Learnt, Passages, mean_per_text
from whowrote.estimators import MixtureVAEClassifier
from whowrote.estimators.fitted_classifier import FittedClassifier

LEAST_PEOPLE = 2
"""With one author nobody is left over who could play the stranger."""


@dataclass(frozen=True)
class Truth:
    """Who wrote the training texts, how long they are, and how probable each author is."""

    codes: IntArray
    words: IntArray
    log_share: FloatArray
    prior: str


def held_out_log_proba(
    model: MixtureVAEClassifier, rows: FloatArray, members: IntArray
) -> FloatArray:
    """Log-probabilities of training rows, each by the member that has not learnt from it."""
    log_proba = np.empty((len(members), model.fitted_.n_components))
    for number in np.unique(members):
        own = members == number
        log_proba[own] = model.member(int(number)).predict_log_proba(rows[own])
    return log_proba


def loss_of_texts(log_proba: FloatArray, passages: Passages, codes: IntArray) -> float:
    """The log-loss of held-out texts, their passages weighed as well as they can be."""
    even = np.full(log_proba.shape[1], -np.log(log_proba.shape[1]))
    share = np.log(np.bincount(codes[passages.document]) / len(passages.document))
    evidence = per_text(log_proba - share, passages.document)
    pooling = Pooling.fit(evidence, passages.counts, even, codes)
    found = pooling.log_proba(evidence, passages.counts, even)
    return float(-found[np.arange(len(codes)), codes].mean())


def calibrate(
    learnt: Learnt,
    profiles: Profiles,
    model: FittedClassifier,
    log_proba: FloatArray,
    truth: Truth,
) -> Calibration:
    """Learn how sure and how usual answers are from texts that were held out."""
    read, codes = learnt.as_new, truth.codes
    counts, log_prior = read.passages.counts, prior_of(truth.prior, truth.log_share)
    evidence = per_text(log_proba - truth.log_share, read.passages.document)
    pooling = Pooling.fit(evidence, counts, log_prior, codes).sharper(learnt.n_folds)
    every = figures(read, log_proba, profiles, learnt.reader.contrasts)
    rows = text_rows(learnt.read)
    texts = rows, codes, rows if read is learnt.read else text_rows(read)
    nearness = profiles.own_nearness(*texts, learnt.units)
    every[np.arange(len(codes)), codes, : nearness.shape[1]] = nearness
    answers = pooling.log_proba(evidence, counts, log_prior)
    held_out = HeldOut(len(codes), int((answers.argmax(axis=1) == codes).sum()))
    norms = Norms.fit(every[np.arange(len(codes)), codes], truth.words, codes, learnt.units)
    calibration = Calibration(pooling, norms, held_out)
    if learnt.strangers is None or len(truth.log_share) < LEAST_PEOPLE:
        return calibration
    people = len(truth.log_share)
    block = nearness_block(nearness.shape[1], truth.words, people)
    inside = best_figures(norms, every, answers, truth.words, people, block)
    absent = _absent(learnt)
    asked = ~np.asarray(absent.all(axis=1))
    blocks, origins = learnt.reader.features.blocks(), learnt.reader.features.origins()
    near = profiles.as_strangers(*texts, blocks, origins, learnt.units)
    both = _as_strangers(learnt, model, calibration, truth, near, absent)
    strange, theirs = (one[asked] for one in both)
    outside = best_figures(norms, strange, theirs, truth.words[asked], people, block)
    right = answers.argmax(axis=1) == codes
    others = FewPeople.of(learnt.reader.features)
    met = float(people - absent[asked].sum(axis=1).mean())
    strangers = Strangers.fit(inside, right, outside, codes, truth.words, others, block, asked, met)
    return replace(calibration, strangers=strangers)


def _absent(learnt: Learnt) -> NDArray[np.bool_]:
    """Of each text as a stranger's, who was left out; everybody where it was not asked so."""
    assert learnt.strangers is not None  # for the type checker
    missing = np.isnan(learnt.strangers).astype(np.float64)
    return np.asarray(per_text(missing, learnt.read.passages.document) > 0)


def _as_strangers(
    learnt: Learnt,
    model: FittedClassifier,
    calibration: Calibration,
    truth: Truth,
    near: FloatArray,
    absent: NDArray[np.bool_],
) -> tuple[FloatArray, FloatArray]:
    """Figures and log-probabilities of texts by what knows nothing of their authors."""
    assert learnt.strangers is not None  # for the type checker
    passages = learnt.read.passages
    nobody = np.asarray(absent.all(axis=1, keepdims=True))  # not asked so
    # An author who is not there has no contrast; a middling one says nothing for or against.
    rows = np.where(nobody[passages.document], 0.0, learnt.strangers)
    contrasts = np.where(np.isnan(rows), np.nanmean(rows, axis=1)[:, None], rows)
    log_proba = model.score(contrasts).log_proba.mean(axis=0)
    evidence = per_text(log_proba - truth.log_share, passages.document)
    log_prior = prior_of(truth.prior, truth.log_share)
    answers = calibration.pooling.log_proba(evidence, passages.counts, log_prior)
    answers[absent & ~nobody] = -np.inf
    every = [
        near,
        mean_per_text(log_proba, passages)[..., None],
        mean_per_text(contrasts, passages)[..., None],
    ]
    return np.concatenate(every, axis=-1), log_softmax(answers, axis=1)
