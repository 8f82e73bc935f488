"""The demo's page: the table, the pictures, and how to read them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from whowrote import __version__
from whowrote.numbers import fine_percent, percent
from whowrote.report import Facts, Figure, Paragraph, Section, Table, write_page

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from whowrote.demo import Answer, DemoResult

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


def write_demo_page(result: DemoResult, figures: Mapping[str, Drawing]) -> Path:
    """Write the page to ``result.page``."""
    pictures = [Figure(figure, CAPTIONS[name]) for name, figure in figures.items()]
    return write_page(
        result.page,
        "Who held this address?",
        [
            Section("What was asked", [Paragraph(_question(result))]),
            Section("The answers", [_table(result), Paragraph(READING, kind="note")]),
            Section("Pictures", pictures),
            Section("How it was made", [_facts(result)]),
        ],
        lead=_lead(result),
        footer=f"Made by whowrote {__version__}. A probability is no proof of authorship.",
    )


READING = (
    "Probability: of the best enrolled author, given that one of the enrolled held the address. "
    "Typicality: how often an address of his own is as little like his others as this one; below "
    "2 % the answer is none of these, which one in fifty of his own addresses will get as well."
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


def _table(result: DemoResult) -> Table:
    return Table(
        ["year", "held by", "whowrote", "probability", "typicality", "", "n-gram SVM"],
        [_row(answer) for answer in result.answers],
        ["number", "text", "text", "number", "number", "text", "text"],
        [_mark(answer) for answer in result.answers],
    )


def _row(answer: Answer) -> list[str]:
    return [
        str(answer.year),
        answer.author,
        answer.answer or "none of these",
        percent(answer.probability),
        fine_percent(answer.typicality),
        "right" if answer.right else "wrong",
        answer.svm,
    ]


def _mark(answer: Answer) -> str:
    if not answer.right:
        return "wrong"
    return "right" if answer.enrolled else "outside"


def _facts(result: DemoResult) -> Facts:
    memory = result.peak_memory_mb
    return Facts(
        [
            ("training", f"{result.training_texts} texts in {result.training_passages} passages"),
            ("split", result.split_hash),
            ("seed", result.seed),
            ("memory", "unknown" if memory is None else f"{memory:.0f} MB at most"),
            *(("time, " + name, f"{value:.1f} s") for name, value in result.seconds.items()),
        ]
    )
