r"""What a case finds: audit, validation, calibration, and only then findings.

.. math:: \mathrm{LR}_c(q) = \frac{p(\text{likeness of } q \text{ and the known texts of } c \mid
    c \text{ wrote } q)}{p(\text{likeness} \mid \text{another person of the population did})}

For every questioned text: validation with held-out texts cut to its length; where that length is
below the measured floor the answer is "too little text", and no ratio is given. Otherwise there is
a ratio for each candidate, by a verifier that the candidate was not in, with its interval, within
the bounds that validation bears out; and who among all is the likeliest. In a closed case the
second proposition is that another candidate wrote it (:mod:`whowrote.case.conditions`). Nothing
here depends on the time or the place, so that it can be computed again and compared.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

import numpy as np

from whowrote import __version__
from whowrote.attribution import Attribution, Attributor
from whowrote.attribution.explanation import Use
from whowrote.attribution.fitted_attributor import FittedAttributor
from whowrote.attribution.occlusion import strongest
from whowrote.attribution.population import (
    extractor_of,
)
from whowrote.attribution.verification import (
    Verifier,
    compare,
    fit_verifier,
)
from whowrote.case.conditions import ClosedCurve, Conditions, attributable, closed_scores, validate
from whowrote.case.exhibits import FINDINGS, Case
from whowrote.corpus.audit import audit
from whowrote.corpus.texts import Corpus
from whowrote.errors import InputError
from whowrote.features.interface import FittedFeatures
from whowrote.files import canonical_hash
from whowrote.progress import tell
from whowrote.ratios import Bounds, Posterior, as_ratio, posteriors, verbal
from whowrote.validation import RatioValidation, fitted_features

RATIO, TOO_LITTLE, NOT_VALIDATED = "ratio", "too little text", "not validated"
STEPS = ("audit", "validation", "calibration", "findings")
SHOWN_NGRAMS, SHOWN_PHRASES = 8, 3


# -- one ratio -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class CandidateRatio:
    """A likelihood ratio that cannot be printed without its propositions and its population."""

    candidate: str
    propositions: tuple[str, str]
    population: str
    log10_lr: float
    low: float
    high: float
    bounds: Bounds
    limited: bool
    """Whether it would go further had more been seen."""
    words: tuple[int, int]
    """Of the known texts and of the questioned one."""
    support: str
    posteriors: tuple[Posterior, ...]
    warnings: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"The likeness is {as_ratio(self.log10_lr)} times as probable (95 % interval "
            f"{interval_in_words(self.low, self.high)}) if {self.propositions[0]} as if "
            f"{self.propositions[1]}: {self.support}. Population: {self.population}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, and the sentence."""
        return {**asdict(self), "sentence": str(self)}


def interval_in_words(low: float, high: float) -> str:
    """An interval of ratios; one that a bound has shrunk to a point says so.

    >>> interval_in_words(1.0, 2.0), interval_in_words(1.5, 1.5)
    ('10 to 100', 'at the bound or beyond')
    """
    return f"{as_ratio(low)} to {as_ratio(high)}" if low < high else "at the bound or beyond"


def propositions_of(candidate: str, closed: bool = False) -> tuple[str, str]:
    """What is weighed for a candidate."""
    if closed:
        return f"{candidate} wrote the questioned text", "another of the candidates wrote it"
    return (
        f"{candidate} wrote the questioned text",
        f"another person of the population, not {candidate}, wrote it",
    )


def weigh(
    features: FittedFeatures,
    verifier: Verifier | None,
    known: Sequence[str],
    questioned: str,
    *,
    candidate: str,
    population: str,
    bounds: Bounds,
) -> CandidateRatio:
    """The ratio of one candidate, within bounds; finite for any texts."""
    found = compare(features, verifier, known, questioned)
    return _bounded(
        (found.log10_lr, found.low, found.high),
        bounds,
        candidate=candidate,
        propositions=propositions_of(candidate),
        population=population,
        limited=found.limited,
        words=found.words,
        warnings=found.warnings,
    )


def _bounded(
    ratio: tuple[float, float, float],
    bounds: Bounds,
    *,
    propositions: tuple[str, str],
    limited: bool,
    **about: Any,
) -> CandidateRatio:
    """A ratio with its interval, within bounds, in words and with its posteriors."""
    one, low, high = (bounds.clip(each) for each in ratio)
    return CandidateRatio(
        log10_lr=one,
        low=low,
        high=high,
        bounds=bounds,
        propositions=propositions,
        limited=limited or one != ratio[0],
        support=verbal(one, *propositions),
        posteriors=posteriors(one, low, high),
        **about,
    )


# -- findings ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Finding:
    """What is said of one questioned text; ``answer`` is one of three, none of them a verdict."""

    text: str
    sha256: str
    words: int
    validated_at: int
    answer: str
    reason: str
    ratios: tuple[CandidateRatio, ...]
    attribution: Mapping[str, Any] | None
    explanation: Mapping[str, Any] | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "ratios": [one.to_dict() for one in self.ratios]}


@dataclass(frozen=True)
class _Means:
    """What findings are made with: calibrated on everything that is known."""

    features: FittedFeatures
    fitted: FittedAttributor | None
    verifiers: Mapping[str, Verifier | None]


def calibrate(case: Case, labelled: Corpus) -> _Means:
    """Learn from all known and reference texts; a candidate's verifier is without the candidate."""
    seed, fitted = case.question.seed, None
    if attributable(labelled):
        fitted = Attributor(case.question.features, random_state=seed).fit(labelled).fitted()
        features = fitted.reader.features
    else:
        features = fitted_features(case.question.features, labelled)
    verifiers: dict[str, Verifier | None] = {}
    for name in case.candidates:
        rest = labelled.subset(r for r, who in enumerate(labelled.authors) if who != name)
        if len(rest) and not case.question.closed:
            codes = np.searchsorted(np.array(rest.author_names), np.array(rest.authors))
            verifiers[name] = fit_verifier(features, rest.texts, codes.astype(np.intp), seed)
    return _Means(features, fitted, verifiers)


def _reason(conditions: Conditions, words: int, at: int) -> tuple[str, str]:
    """The kind of answer for a text of so many words, and why."""
    if conditions.why_not:
        return NOT_VALIDATED, f"No ratio: it could not be validated. {conditions.why_not}."
    if conditions.floor is None:
        return NOT_VALIDATED, (
            f"No ratio: at no measured length up to {max(conditions.lengths.values()):,} words did "
            "ratios of held-out texts tell clearly more than none, so they would mislead here."
        )
    if at < conditions.floor:
        return TOO_LITTLE, (
            f"Too little text: {words:,} words, and ratios tell clearly more than none from "
            f"{conditions.floor:,} words on (measured on held-out texts)."
        )
    return RATIO, (
        f"{words:,} words; validated with held-out texts of {at:,} words, above the floor of "
        f"{conditions.floor:,}."
    )


def find(
    case: Case, conditions: Conditions, means: _Means, labelled: Corpus
) -> tuple[Finding, ...]:
    """A finding for each questioned text."""
    questioned, fitted = case.corpus("questioned"), means.fitted
    known = case.corpus("known").by_author()
    given = fitted.attribute(questioned) if fitted else []
    found = []
    for number, document in enumerate(questioned):
        words, at = len(document.text.split()), conditions.lengths[document.id]
        answer, reason = _reason(conditions, words, at)
        measured = conditions.ratio_at(at)
        ratios: tuple[CandidateRatio, ...] = ()
        attribution = explanation = None
        if answer == RATIO and measured is not None:
            curve = conditions.curves.get(at)
            if curve is not None:
                ratios = _closed_ratios(case, curve, given[number], words, measured)
            else:
                ratios = _ratios(case, means, known, document.text, measured.quality.bounds)
            attribution = _short(given[number].to_dict()) if given else None
            explanation = _explanation(fitted, document.text, labelled)
        found.append(
            Finding(
                text=document.id,
                sha256=document.sha256,
                words=words,
                validated_at=at,
                answer=answer,
                reason=reason,
                ratios=ratios,
                attribution=attribution,
                explanation=explanation,
            )
        )
        tell("weighing", number + 1, len(questioned))
    return tuple(found)


def _ratios(
    case: Case, means: _Means, known: Mapping[str, Corpus], text: str, bounds: Bounds
) -> tuple[CandidateRatio, ...]:
    return tuple(
        weigh(
            means.features,
            means.verifiers.get(name),
            known[name].texts,
            text,
            candidate=name,
            population=case.question.population,
            bounds=bounds,
        )
        for name in case.candidates
    )


def _closed_ratios(
    case: Case, curve: ClosedCurve, answer: Attribution, words: int, measured: RatioValidation
) -> tuple[CandidateRatio, ...]:
    scores = closed_scores([answer], case.candidates)[0]
    known = case.corpus("known").by_author()
    return tuple(
        _bounded(
            curve.log10_lr(float(score)),
            measured.quality.bounds,
            candidate=name,
            propositions=propositions_of(name, closed=True),
            population=f"{', '.join(case.candidates)}; {case.question.population}",
            limited=False,
            words=(sum(known[name].word_counts), words),
            warnings=answer.warnings,
        )
        for name, score in zip(case.candidates, scores, strict=True)
    )


def _short(attribution: Mapping[str, Any]) -> dict[str, Any]:
    wanted = ("author", "ranking", "typicality", "stranger", "false_attributions", "warnings")
    return {name: attribution[name] for name in wanted}


def _explanation(
    fitted: FittedAttributor | None, text: str, known: Corpus
) -> dict[str, Any] | None:
    """What speaks for the likeliest author, and whether that holds; or why it cannot be said."""
    if fitted is None:
        return None
    try:
        found = fitted.explain(text, known)
    except InputError as problem:
        return {"why_not": str(problem)}
    rates = {use.ngram: use for use in found.uses}
    listed = [
        {"text": one.text, "times": one.times, **_rates(rates.get(one.text))}
        for one in found.ngrams_for[:SHOWN_NGRAMS]
    ]
    phrases = strongest(found.phrases, SHOWN_PHRASES)
    return {
        "best": found.best,
        "second": found.second,
        "checkable": found.checkable,
        "ngrams": listed,
        "parts": [{"name": one.title, "share": one.share} for one in found.parts],
        "phrases": [" ".join(text[one.start : one.end].split()) for one in phrases],
        "holds": found.holds,
        "check": found.in_words,
    }


def _rates(use: Use | None) -> dict[str, float]:
    return {} if use is None else {"best": use.best, "second": use.second}


# -- all of it, in order -------------------------------------------------------------------------

Step = Callable[[str, Mapping[str, Any]], None]


def compute(case: Case, done: Step = lambda name, result: None) -> dict[str, Any]:
    """Everything that ``findings.json`` holds; ``done`` hears of every step in its order."""
    if not case.of_role("questioned") or not case.candidates:
        raise InputError(
            f"the case has {len(case.of_role('questioned'))} questioned texts and "
            f"{len(case.candidates)} candidates; it needs one of each: `whowrote case add`"
        )
    labelled, questioned = case.corpus("known", "reference"), case.corpus("questioned")
    audited = audit(Corpus.join([labelled, questioned])).to_dict()
    done("audit", audited)
    conditions = validate(case, labelled, questioned)
    done("validation", conditions.to_dict())
    means = calibrate(case, labelled)
    calibrated = _calibration(means, conditions)
    done("calibration", calibrated)
    findings = [one.to_dict() for one in find(case, conditions, means, labelled)]
    result = {
        "question": asdict(case.question),
        "texts": [asdict(one) for one in case.exhibits],
        "audit": audited,
        "validation": conditions.to_dict(),
        "calibration": calibrated,
        "findings": findings,
        "versions": _versions(),
    }
    plain: dict[str, Any] = json.loads(json.dumps(result))
    return plain


def _calibration(means: _Means, conditions: Conditions) -> dict[str, Any]:
    bounds = {str(one.words): asdict(one.quality.bounds) for one in conditions.ratios}
    extractor = extractor_of(means.features)
    return {
        "model": means.fitted.id if means.fitted else None,
        "features": means.features.kind,
        "extractor_sha256": extractor.weights_sha256() if extractor else None,
        "bounds": bounds,
        "verifiers": {n: v and canonical_hash(v.to_dict()) for n, v in means.verifiers.items()},
    }


def _versions() -> dict[str, str]:
    packages = ("torch", "numpy", "scipy", "scikit-learn")
    found = {"whowrote": __version__, "python": platform.python_version()}
    return found | {name: version(name) for name in packages}


def run(case: Case) -> dict[str, Any]:
    """Compute, log every step, and write ``findings.json``, whole or not at all."""

    def log(name: str, result: Mapping[str, Any]) -> None:
        case.record(name, {"sha256_of_result": canonical_hash(json.loads(json.dumps(result)))})

    found = compute(case, log)
    text = json.dumps(found, indent=1, sort_keys=True, allow_nan=False) + "\n"
    case.write("findings", {FINDINGS: text})
    return found
