"""What is said of a text, and of whom: typed, whole, and plain enough for JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from scipy.special import expit

from whowrote.arrays import IntArray
from whowrote.attribution.rows import Passages
from whowrote.corpus.texts import Corpus
from whowrote.errors import InputError
from whowrote.ratios import Posterior, posteriors, verbal


@dataclass(frozen=True)
class Candidate:
    """One enrolled author and what speaks for them.

    ``probability`` is that of this author, given that one of the enrolled wrote the text;
    ``log_density`` the log density of the text's style under them, mean over its passages;
    ``typicality`` how often a text of their own is as unusual for them as this one is; ``log10_lr``
    the ratio of the two propositions of the :class:`Attribution`, this author or another enrolled
    one, never more than 1 + the number of texts that the model was calibrated on.
    """

    author: str
    probability: float
    log_density: float
    typicality: float
    log10_lr: float


@dataclass(frozen=True)
class Combination:
    """How the passages of a text were put together.

    The log-likelihoods of ``passages`` passages are summed, divided by ``temperature`` times
    ``passages`` to the power ``exponent``, and added to the log of the prior.
    """

    passages: int
    temperature: float
    exponent: float
    prior: str


@dataclass(frozen=True)
class ModelIdentity:
    """Which model spoke: the hash of everything it has learnt, and what made it."""

    id: str
    version: str
    features: str
    component: str
    authors: int


@dataclass(frozen=True)
class Attribution:
    """The answer for one text; ``author`` is None for "none of these".

    ``stranger`` is the share of texts by people who are not enrolled that look as much like one of
    the enrolled as this one does: where it is above ``false_attributions``, nobody is named. It is
    None where no author could be left out to learn it. ``typicality`` is the p-value of the best
    candidate: where it is below ``none_below``, nobody is named either.
    """

    document: str
    sha256: str
    author: str | None
    ranking: tuple[Candidate, ...]
    typicality: float
    none_below: float
    stranger: float | None
    false_attributions: float | None
    tokens: int
    combination: Combination
    warnings: tuple[str, ...]
    model: ModelIdentity

    @property
    def best(self) -> Candidate:
        """The most probable of the enrolled authors, whether or not they are the answer."""
        return self.ranking[0]

    @property
    def propositions(self) -> tuple[str, str]:
        """What the ratio of the best candidate weighs."""
        return f"{self.best.author} wrote the text", "another of the enrolled authors wrote it"

    @property
    def population(self) -> str:
        """Who "another" may be: nobody who is not enrolled."""
        weights = "equally probable" if self.combination.prior == "equal" else "by their passages"
        return f"the {self.model.authors} enrolled authors, {weights} beforehand"

    @property
    def in_words(self) -> str:
        """How much the ratio of the best candidate says, on the verbal scale of ENFSI."""
        return verbal(self.best.log10_lr, *self.propositions)

    @property
    def posteriors(self) -> tuple[Posterior, ...]:
        """What the ratio of the best candidate makes of probabilities beforehand."""
        ratio = self.best.log10_lr
        return posteriors(ratio, ratio, ratio)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, with what the ratio of the best candidate weighs, says and changes."""
        # A server does this for every text: asdict, which copies deeply, takes five times as long.
        plain = {
            **vars(self),
            "ranking": [dict(vars(one)) for one in self.ranking],
            "combination": dict(vars(self.combination)),
            "warnings": list(self.warnings),
            "model": dict(vars(self.model)),
        }
        table = [{"prior": one.prior, "posterior": one.posterior} for one in self.posteriors]
        return plain | {
            "ratio": {
                "log10_lr": self.best.log10_lr,
                "propositions": list(self.propositions),
                "population": self.population,
                "support": self.in_words,
                "posteriors": table,
            }
        }

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    def _repr_html_(self) -> str:
        from whowrote.attribution.marked_text import attribution_html  # late: for notebooks alone

        return attribution_html(self)


@dataclass(frozen=True)
class Enrolled:
    """An author as the model knows them."""

    name: str
    texts: int
    passages: int
    words: int


# -- two texts compared --------------------------------------------------------------------------

PROPOSITIONS = (
    "one person wrote both",
    "two different people of the population wrote them",
)


@dataclass(frozen=True)
class Reference:
    """Whom "two different people" means: how many, who they are, how many enrolled among them."""

    people: int
    description: str
    enrolled: int


@dataclass(frozen=True)
class Comparison:
    """How much likelier two texts are so alike under the first proposition than the second.

    ``log10_lr`` is the logarithm of the likelihood ratio: 2 means that texts so alike are a hundred
    times as frequent by one person as by two of the population. ``low`` and ``high`` are the
    limits of its 95 % interval, over other samples of that population. ``limited`` says that it
    would be larger had more people been learnt from. ``probability`` is there only for a given
    ``prior``, the probability of one author before the texts were read.
    """

    log10_lr: float
    low: float
    high: float
    words: tuple[int, int]
    similarities: dict[str, float]
    population: Reference
    propositions: tuple[str, str] = PROPOSITIONS
    limited: bool = False
    prior: float | None = None
    probability: float | None = None
    warnings: tuple[str, ...] = ()

    @property
    def in_words(self) -> str:
        """How much the ratio says, on the verbal scale of ENFSI; it decides nothing.

        >>> Comparison(1.5, 1.0, 2.0, (9, 9), {}, Reference(0, "", 0)).in_words
        'moderate support for the proposition that one person wrote both'
        """
        return verbal(self.log10_lr, *self.propositions)

    @property
    def posteriors(self) -> tuple[Posterior, ...]:
        """What the ratio makes of several probabilities of one author beforehand."""
        return posteriors(self.log10_lr, self.low, self.high)

    def given(self, prior: float | None) -> Comparison:
        """With the probability of one author that a probability beforehand makes of the ratio.

        >>> even = Comparison(1.0, 0.5, 1.5, (9, 9), {}, Reference(0, "", 0)).given(0.5)
        >>> round(even.probability, 3)
        0.909
        """
        if prior is None:
            return self
        if not 0.0 < prior < 1.0:
            raise InputError(
                f"prior is {prior}; it must lie between 0 and 1, the probability of one author "
                "before the texts are read: give 0.5 for even odds, or leave it out"
            )
        log_odds = np.log(prior / (1.0 - prior)) + self.log10_lr * np.log(10)
        return replace(self, prior=float(prior), probability=float(expit(log_odds)))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, with the ratio in words and a table of priors and posteriors."""
        table = [asdict(one) for one in self.posteriors]
        return {**asdict(self), "support": self.in_words, "posteriors": table}

    def _repr_html_(self) -> str:
        from whowrote.attribution.marked_text import comparison_html  # late: for notebooks alone

        return comparison_html(self)


# -- what every answer needs ---------------------------------------------------------------------


def enrolled_authors(corpus: Corpus, passages: Passages) -> tuple[Enrolled, ...]:
    """The authors of a labelled corpus in the order of their names."""
    counts = passages.counts
    rows: dict[str, list[int]] = {name: [] for name in corpus.author_names}
    for row, author in enumerate(corpus.authors):
        rows[str(author)].append(row)
    words = np.array(corpus.word_counts)
    return tuple(
        Enrolled(name, len(own), int(counts[own].sum()), int(words[own].sum()))
        for name, own in rows.items()
    )


def by_new_authors(enrolled: Sequence[Enrolled], corpus: Corpus) -> Corpus:
    """The texts of a corpus that have authors, none of whom is enrolled already."""
    corpus = corpus.labelled()
    corpus.require_attribution(min_authors=1, min_texts=1)
    twice = sorted({author.name for author in enrolled} & set(corpus.author_names))
    if twice:
        raise InputError(
            f"author {twice[0]!r} is enrolled already; enrolment adds new authors: leave their "
            "texts out, or train a new model on all texts"
        )
    return corpus


def as_corpus(texts: Corpus | Sequence[str], authors: Sequence[str | None] | None) -> Corpus:
    """A corpus, from one or from texts."""
    if isinstance(texts, Corpus):
        if authors is not None:
            raise InputError("a Corpus has its authors; give authors with a list of texts only")
        return texts
    if isinstance(texts, str | bytes):
        raise InputError(
            f"texts is one string ({texts[:40]!r}); it must be a list of texts: give [text]"
        )
    return Corpus.from_texts(texts, authors)


def require_two_rows(names: Sequence[str], rows: IntArray) -> None:
    """Every author must have something to learn from while something else is held out."""
    counts = np.bincount(rows, minlength=len(names))
    if counts.min() < 2:
        raise InputError(
            f"author {names[int(counts.argmin())]!r} has one short text; learning a style needs at "
            "least two texts or passages of each author: add texts, or leave this author out"
        )


def words_of(texts: Sequence[str]) -> IntArray:
    """Words of each text, at least one."""
    return np.array([max(1, len(text.split())) for text in texts])


def check_limits(none_below: Any, false_attributions: Any) -> None:
    """Whether both limits make sense; if not, a sentence on which does not."""
    check_limit(none_below)
    if not (isinstance(false_attributions, Real) and 0 < float(false_attributions) <= 1):
        raise InputError(
            f"false_attributions is {false_attributions!r}; it must be above 0 and at most 1: give "
            "0.05, or 1 to always name somebody"
        )


def check_limit(none_below: Any) -> None:
    """Whether a limit of typicality makes sense; if not, a sentence on why."""
    if none_below is not None and not (isinstance(none_below, Real) and 0 <= float(none_below) < 1):
        raise InputError(
            f"none_below is {none_below!r}; it must be at least 0 and below 1: give 0.02, "
            "or 0 to always name somebody"
        )
