"""Who is enrolled, and texts as a corpus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whowrote.corpus import Corpus
from whowrote.errors import InputError
from whowrote.passages import Passages

IntArray = NDArray[np.intp]


@dataclass(frozen=True)
class Enrolled:
    """An author as the model knows him."""

    name: str
    texts: int
    passages: int
    words: int


def roll(corpus: Corpus, passages: Passages) -> tuple[Enrolled, ...]:
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
    if authors is not None:
        authors = [None if name is None else str(name) for name in authors]
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
