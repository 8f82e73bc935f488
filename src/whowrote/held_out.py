"""Figures of answers: texts held out and cut to so many words, and people left out whole.

Held-out texts are attributed by models that have not seen them; texts of people who were left out
must be refused, "none of these". A corpus and an attributor go in, records come out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from whowrote.attribution import Attributor
from whowrote.corpus.splits import Split, folds
from whowrote.corpus.texts import Corpus
from whowrote.distributed import HERE, Machines
from whowrote.errors import InputError
from whowrote.evaluation import learnt, possible_folds
from whowrote.metrics import Interval, wilson
from whowrote.progress import tell
from whowrote.validation import LEAST_TEXTS, HeldOutPeople, RatioValidation, first_words


@dataclass(frozen=True)
class AnswerValidation:
    """Held-out texts of ``words`` words attributed: how often wrongly, how often at all.

    ``error`` counts the best candidate, named or not; ``coverage`` is the share of texts for which
    somebody was named, ``error_named`` the share of wrong ones among them.
    """

    words: int | None
    texts: int
    error: float
    interval: Interval
    coverage: float
    error_named: float | None
    confidence: tuple[float, ...] = field(repr=False)
    right: tuple[bool, ...] = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Plain values; confidences to six decimals."""
        plain = asdict(self) | {"right": list(self.right)}
        return plain | {"confidence": [round(one, 6) for one in self.confidence]}


def answers_at(
    corpus: Corpus, attributor: Attributor, lengths: Sequence[int | None], seed: int = 0
) -> tuple[AnswerValidation, ...]:
    """Texts held out in folds, cut to each length; a length that no text has is left out."""
    from sklearn.base import clone

    corpus = corpus.labelled()
    authors = [str(author) for author in corpus.authors]
    splits = _folds(corpus, seed)
    found: dict[int | None, list[tuple[float, bool, bool]]] = {words: [] for words in lengths}
    random = np.random.default_rng([seed, 41])
    start = random.random(len(corpus))
    for number, split in enumerate(splits):
        fitted = clone(attributor).fit(corpus.subset(split.train)).fitted()
        for words in lengths:
            rows = [r for r in split.held_out if corpus.word_counts[r] >= (words or 0)]
            texts = [first_words(corpus.texts[r], words, float(start[r])) for r in rows]
            for row, one in zip(rows, fitted.attribute(texts) if texts else [], strict=True):
                right = one.best.author == authors[row]
                found[words].append((one.best.probability, right, one.author is not None))
        tell("validating answers", number + 1, len(splits))
    return tuple(_answers(words, rows) for words, rows in found.items() if rows)


def _answers(words: int | None, rows: Sequence[tuple[float, bool, bool]]) -> AnswerValidation:
    wrong = sum(not right for _, right, _ in rows)
    named = [right for _, right, named in rows if named]
    return AnswerValidation(
        words=words,
        texts=len(rows),
        error=wrong / len(rows),
        interval=wilson(wrong, len(rows)),
        coverage=len(named) / len(rows),
        error_named=1 - sum(named) / len(named) if named else None,
        confidence=tuple(sure for sure, _, _ in rows),
        right=tuple(right for _, right, _ in rows),
    )


@dataclass(frozen=True)
class StrangerValidation:
    """People left out whole: how many of their texts are refused, and what that costs others.

    ``refused`` is the share of strangers' texts answered by "none of these", ``kept`` the share of
    enrolled people's held-out texts that were given to their author by name.
    """

    strangers: int
    refused: float
    refused_interval: Interval
    enrolled: int
    kept: float
    kept_interval: Interval
    people: int

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def strangers_refused(
    corpus: Corpus,
    attributor: Attributor,
    seed: int = 0,
    n_folds: int = 3,
    machines: Machines = HERE,
) -> StrangerValidation:
    """A share of the people is left out in turn; the others hold out a part of their texts."""
    corpus = corpus.labelled()
    names = np.random.default_rng([seed, 43]).permutation(np.array(corpus.author_names))
    if len(names) < 4:
        raise InputError(
            f"the corpus has {len(names)} authors; to leave people out and still tell others apart "
            "it must have 4: add texts by others"
        )
    tasks = [set(names[fold::n_folds].tolist()) for fold in range(n_folds)]
    found: dict[int, tuple[list[bool], list[bool]]] = {}
    for fold, answers in machines.map(_left_out, (corpus, attributor, seed), tasks):
        found[fold] = answers
        tell("leaving people out", len(found), n_folds)
    refused = [one for fold in range(n_folds) for one in found[fold][0]]
    kept = [one for fold in range(n_folds) for one in found[fold][1]]
    return StrangerValidation(
        strangers=len(refused),
        refused=float(np.mean(refused)),
        refused_interval=wilson(sum(refused), len(refused)),
        enrolled=len(kept),
        kept=float(np.mean(kept)),
        kept_interval=wilson(sum(kept), len(kept)),
        people=len(names),
    )


def _left_out(
    shared: tuple[Corpus, Attributor, int], out: set[str]
) -> tuple[list[bool], list[bool]]:
    """Without these people: which of their texts are refused, which of others' are kept."""
    (corpus, attributor, seed), rows = shared, range(len(shared[0]))
    inside = corpus.subset(r for r in rows if corpus.authors[r] not in out)
    outside = corpus.subset(r for r in rows if corpus.authors[r] in out)
    split = _folds(inside, seed)[0]
    fitted = learnt(attributor, inside.subset(split.train))
    asked = inside.subset(split.held_out)
    refused = [one.author is None for one in fitted.attribute(outside)]
    answers = zip(fitted.attribute(asked), asked.authors, strict=True)
    return refused, [one.author == author for one, author in answers]


def _folds(corpus: Corpus, seed: int) -> tuple[Split, ...]:
    authors = [str(author) for author in corpus.authors]
    n_folds = possible_folds(corpus)
    return folds(authors, corpus.units, ids=corpus.ids, n_folds=n_folds, random_state=seed)


@dataclass(frozen=True)
class LeftOut:
    """What a corpus shows with people left out: refusals, and ratios of whole texts."""

    strangers: StrangerValidation | None
    why_no_strangers: str
    verification: RatioValidation | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "strangers": self.strangers and self.strangers.to_dict(),
            "why_no_strangers": self.why_no_strangers,
            "verification": self.verification and self.verification.to_dict(),
        }


def people_left_out(
    corpus: Corpus,
    attributor: Attributor,
    *,
    strangers: bool,
    verify: bool,
    seed: int = 0,
    machines: Machines = HERE,
) -> LeftOut:
    """Either figure, or both; strangers that cannot be had are a reason, ratios an error."""
    refusals, why, ratios = None, "", None
    if strangers:
        try:
            refusals = strangers_refused(corpus, attributor, seed, machines=machines)
        except InputError as problem:
            why = str(problem)
    if verify:
        features = attributor.features if isinstance(attributor.features, str) else "hybrid"
        ratios = HeldOutPeople(corpus, features, seed=seed).at(None)
        if ratios is None:
            raise InputError(
                f"fewer than {LEAST_TEXTS} texts could be compared with others of their author and "
                "of other people; ratios need more: add texts by several people"
            )
    return LeftOut(refusals, why, ratios)
