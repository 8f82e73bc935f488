"""Validation under the conditions of a case: what is found where the author is known.

Held-out texts of known and reference people, cut to the length of each questioned text, go through
the same comparison. Out come figures for every length, the bounds that they bear out, and the
floor: the least length from which on ratios tell clearly more than none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from whowrote.attribution import Attributor
from whowrote.case.closed_set import ClosedCurve, curves_to_dict, validate_closed
from whowrote.case.exhibits import Case
from whowrote.corpus.texts import Corpus
from whowrote.errors import InputError
from whowrote.held_out import AnswerValidation, StrangerValidation, answers_at, strangers_refused
from whowrote.progress import tell
from whowrote.validation import (
    LEAST_PEOPLE,
    LEAST_TEXTS,
    HeldOutPeople,
    RatioValidation,
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
