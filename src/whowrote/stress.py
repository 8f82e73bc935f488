r"""How answers move when texts get harder: shorter, masked, noisy, rewritten.

.. math:: x \to t(x) \to \text{Attribution}, \qquad
    t \in \{\text{first words}, \text{mask}, \text{noise}, \text{rewrite}\}

A model and texts it has not learnt from go in, a row of counts for each condition comes out: of
texts by enrolled people how many have another best author, are given to another person, or are
refused; of texts by strangers how many are given to somebody. Language models may be candidates:
enrolled from samples like anybody else, and asked about rewrites of other people's texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from whowrote.attribution.enrolment import enroll
from whowrote.attribution.fitted_attributor import FittedAttributor
from whowrote.corpus.texts import Corpus
from whowrote.errors import InputError
from whowrote.features.counting import masked
from whowrote.metrics import wilson
from whowrote.progress import tell
from whowrote.validation import first_words

LENGTHS = (50, 100, 200, 400)
NOISE = (0.01, 0.05, 0.1)
"""Shares of letters that are swapped with the next, dropped, doubled or replaced."""
MOST = 400
"""Texts of a condition; of more, so many are drawn."""
TOO_MANY_ALARMS = 0.1
"""The flag is not raised where its false-alarm rate may be above this (upper 95 % limit)."""
LEAST_PEOPLE_TEXTS = 20
"""A false-alarm rate is said from so many texts of held-out people on."""

Change = Callable[[str, np.random.Generator], str]


@dataclass(frozen=True)
class Condition:
    """Texts changed in one way, and how they were answered.

    ``wrong``: the best author is another; ``misnamed``: another person is named; ``refused``:
    nobody is; ``false``: a stranger's text is given to somebody.
    """

    name: str
    texts: int
    wrong: int
    misnamed: int
    refused: int
    strangers: int
    false: int

    def to_dict(self) -> dict[str, Any]:
        """Counts, and shares with 95 % limits."""
        shares: dict[str, Any] = {}
        for name, part, whole in (
            ("error", self.wrong, self.texts),
            ("misnamed_share", self.misnamed, self.texts),
            ("false_attributions", self.false, self.strangers),
        ):
            limits = wilson(part, whole) if whole else None
            shares[name] = None if limits is None else [part / whole, limits.low, limits.high]
        return asdict(self) | shares


@dataclass(frozen=True)
class Writers:
    """Language models as candidates, enrolled from rewrites of some people's texts.

    The flag "reads like a rewritten text" is raised where the best candidate is one of them:
    ``flagged`` of ``rewrites`` by the other people, ``false_alarms`` of ``people_texts`` that those
    people wrote themselves. ``right``: the best candidate is the very model that rewrote it.
    """

    writers: tuple[str, ...]
    samples: int
    rewrites: int
    flagged: int
    right: int
    people_texts: int
    false_alarms: int

    @property
    def measured(self) -> bool:
        """Whether the false-alarm rate rests on enough texts to raise the flag at all."""
        return self.people_texts >= LEAST_PEOPLE_TEXTS

    @property
    def usable(self) -> bool:
        """Whether the flag may be raised: its false alarms are measured, and surely few."""
        if not self.measured:
            return False
        return wilson(self.false_alarms, self.people_texts).high <= TOO_MANY_ALARMS

    def to_dict(self) -> dict[str, Any]:
        """Plain values, and the false-alarm rate with its limits (None: too few texts)."""
        limits = wilson(self.false_alarms, self.people_texts) if self.measured else None
        rate = None if limits is None else self.false_alarms / self.people_texts
        both = None if limits is None else [limits.low, limits.high]
        return asdict(self) | {
            "false_alarm_rate": rate,
            "false_alarm_limits": both,
            "usable": self.usable,
        }


@dataclass(frozen=True)
class Stress:
    """Every condition, the first one with the texts as they are."""

    model: str
    learnt_from: int
    """Texts left out because the model has learnt from them."""
    conditions: tuple[Condition, ...]
    writers: Writers | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        plain = asdict(self)
        plain["conditions"] = [one.to_dict() for one in self.conditions]
        return plain | {"writers": None if self.writers is None else self.writers.to_dict()}


def stress(
    model: FittedAttributor,
    corpus: Corpus,
    *,
    lengths: Sequence[int] = LENGTHS,
    noise: Sequence[float] = NOISE,
    rewrites: Corpus | None = None,
    most: int = MOST,
    seed: int = 0,
) -> Stress:
    """Ask a model about texts as they are and as they get harder.

    ``corpus`` has texts by enrolled people, and perhaps by others: those are strangers.
    ``rewrites`` has texts that somebody rewrote, under the original author's name, with the
    writer as group.
    """
    asked, learnt_from = _new_texts(model, corpus.labelled())
    asked = drawn(asked, most, seed)
    changes = _changes(lengths, noise)
    made = []
    for number, (name, change) in enumerate(changes.items(), start=1):
        random = np.random.default_rng([seed, number])
        texts = [change(text, random) or text for text in asked.texts]
        made.append(condition(model, name, texts, asked.authors))
        tell("stress", number, len(changes))
    writers = None
    if rewrites is not None:
        rewritten = rewrites.labelled()
        made += [
            condition(model, f"rewritten by {writer}", own.texts, own.authors)
            for writer, own in _by_writer(rewritten, most, seed).items()
        ]
        writers = language_models(model, asked, rewritten, most=most, seed=seed)
    return Stress(model.id, learnt_from, tuple(made), writers)


def _new_texts(model: FittedAttributor, corpus: Corpus) -> tuple[Corpus, int]:
    known, names = set(model.training.sha256), set(model.names.tolist())
    rows = [row for row, one in enumerate(corpus.sha256) if one not in known]
    kept = corpus.subset(rows)
    if not any(author in names for author in kept.authors):
        raise InputError(
            f"of {len(corpus)} texts none is by an enrolled author and new to the model; answers "
            "to texts it has learnt from prove nothing: give texts that were held out, under the "
            "names of the model's authors"
        )
    return kept, len(corpus) - len(kept)


def drawn(corpus: Corpus, most: int, seed: int) -> Corpus:
    """So many texts at random, in their order."""
    order = np.random.default_rng([seed, 47]).permutation(len(corpus))[:most]
    return corpus.subset(sorted(order.tolist()))


def condition(
    model: FittedAttributor, name: str, texts: Sequence[str], authors: Sequence[str | None]
) -> Condition:
    """Attribute texts whose authors are known, and count."""
    names, counts = set(model.names.tolist()), np.zeros(6, dtype=np.intp)
    for answer, author in zip(model.attribute(list(texts)), authors, strict=True):
        if author in names:
            other = answer.author not in (None, author)
            wrong = answer.best.author != author
            counts += np.array([1, wrong, other, answer.author is None, 0, 0])
        else:
            counts += np.array([0, 0, 0, 0, 1, answer.author is not None])
    return Condition(name, *counts.tolist())


# -- harder texts --------------------------------------------------------------------------------


def _changes(lengths: Sequence[int], noise: Sequence[float]) -> dict[str, Change]:
    made: dict[str, Change] = {"as they are": lambda text, _: text}
    for words in sorted(lengths, reverse=True):
        made[f"{words} words"] = _shortened(words)
    made["masked topics"] = lambda text, _: masked(text)
    for share in sorted(noise):
        made[f"{share:.0%} of letters wrong"] = _noised(share)
    return made


def _shortened(words: int) -> Change:
    if words < 1:
        raise InputError(f"length is {words}; a text must have at least 1 word: give 100")
    return lambda text, random: first_words(text, words, random.random())


def _noised(share: float) -> Change:
    if not 0.0 < share <= 0.5:
        raise InputError(f"noise is {share}; it must be above 0 and at most 0.5: give 0.05")
    return lambda text, random: noisy(text, share, random)


def noisy(text: str, share: float, random: np.random.Generator) -> str:
    """A text with slips of the keyboard: letters swapped, dropped, doubled or replaced.

    >>> noisy("Nothing is changed here.", 0.0, np.random.default_rng(0))
    'Nothing is changed here.'
    """
    slips, kinds = random.random(len(text)) < share, random.integers(0, 4, len(text))
    others = random.integers(0, 26, len(text))
    out: list[str] = []
    for at, sign in enumerate(text):
        if not (slips[at] and sign.isalpha()):
            out.append(sign)
        elif kinds[at] == 0 and out and out[-1].isalpha():
            out.insert(len(out) - 1, sign)
        elif kinds[at] == 2:
            out += [sign, sign]
        elif kinds[at] == 3:
            out.append(chr(ord("a") + int(others[at])))
    return "".join(out)


# -- rewrites and their writers ------------------------------------------------------------------


def _by_writer(rewrites: Corpus, most: int, seed: int) -> dict[str, Corpus]:
    """Rewrites by whoever rewrote; one writer where the table names none."""
    groups = np.array(_writers(rewrites))
    parts = {name: rewrites.subset(np.flatnonzero(groups == name)) for name in np.unique(groups)}
    return {str(name): drawn(part, most, seed) for name, part in parts.items()}


def _writers(rewrites: Corpus) -> list[str]:
    """The group of every text; a table without groups has one a text, and so one writer."""
    if len(set(rewrites.groups)) == len(rewrites):
        return ["a language model"] * len(rewrites)
    return list(rewrites.groups)


def language_models(
    model: FittedAttributor, people: Corpus, rewrites: Corpus, *, most: int = MOST, seed: int = 0
) -> Writers | None:
    """Enrol writers from rewrites of half of the people; ask about the other half.

    None where fewer than two people have rewrites.
    """
    names = sorted({author for author in rewrites.authors if author is not None})
    half = set(np.random.default_rng([seed, 53]).permutation(names)[: len(names) // 2].tolist())
    if not half:
        return None
    first = rewrites.subset(i for i, one in enumerate(rewrites.authors) if one in half)
    second = rewrites.subset(i for i, one in enumerate(rewrites.authors) if one not in half)
    samples = Corpus.from_texts(first.texts, _writers(first))
    grown = enroll(model, drawn(samples, most, seed))
    return ask_writers(grown, samples.author_names, half, people, drawn(second, most, seed))


def ask_writers(
    model: FittedAttributor,
    writers: Sequence[str],
    sampled: set[str],
    people: Corpus,
    rewrites: Corpus,
) -> Writers:
    """Ask a model that knows writers: about rewrites, and texts by people not ``sampled``."""
    own = people.subset(i for i, one in enumerate(people.authors) if one not in sampled)
    best = model.predict(rewrites).tolist()
    alarms = model.predict(own).tolist() if len(own) else []
    right = [one == other for one, other in zip(best, _writers(rewrites), strict=True)]
    return Writers(
        writers=tuple(writers),
        samples=sum(author.texts for author in model.authors if author.name in writers),
        rewrites=len(rewrites),
        flagged=sum(one in writers for one in best),
        right=sum(right),
        people_texts=len(own),
        false_alarms=sum(one in writers for one in alarms),
    )
