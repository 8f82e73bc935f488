r"""Whether marks that a keyboard or a printer sets tell the authors apart, without one word.

.. math:: z = \bigl(\ln(1 + 1000\, n_j / n),\; [n_j > 0]\bigr)_j, \qquad
    \hat k(z) = \arg\max_k \; \mu_k' S^{-1} z - \tfrac12 \mu_k' S^{-1} \mu_k

for the counts :math:`n_j` of every kind of mark in a text of *n* words, standardised, with the
means of the authors and their common covariance, ridged, learnt from other groups of texts. Kinds
of quotes, dashes, spaces and line breaks come from a program, a printer or an editor as easily as
from a person: where they alone name most authors, so may any attribution that reads them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from whowrote.arrays import BoolArray, FloatArray, IntArray
from whowrote.corpus.texts import Corpus

MARKS = {
    "curly quotes": "[\u201c\u201d\u2018\u2019]",
    "straight double quotes": '"',
    "straight single quotes": "'",
    "accents as quotes": "[`\u00b4]",
    "guillemets": "[\u00ab\u00bb\u2039\u203a]",
    "em dashes": "\u2014",
    "en dashes": "\u2013",
    "double hyphens": "--+",
    "spaced hyphens": r"(?<=\s)-(?=\s)",
    "ellipsis characters": "\u2026",
    "dots in a row": r"\.{2,}",
    "several spaces": r"(?<=\S)  +(?=\S)",
    "no-break spaces": "[\u00a0\u202f\u2009]",
    "tabs": r"\t",
    "line breaks": r"\n",
    "blank lines": r"\n[ \t]*\n",
    "indented lines": r"(?m)^[ \t]+(?=\S)",
    "spaces before marks": r"\s[,.;:!?](?=\s|$)",
    "no spaces after marks": r"[,;!?](?=\w)",
    "words in capitals": r"\b[A-Z]{2,}\b",
    "capitals": "[A-Z]",
    "small letters after full stops": r"[.!?]\s+[a-z]",
    "a small i alone": r"\bi\b",
    "stars and underscores": r"[*_]",
    "entities": r"&#?\w+;",
}
"""Kinds of marks, by what finds one."""
_PATTERNS = {name: re.compile(pattern) for name, pattern in MARKS.items()}
MOST_TEXTS, PIECE, LEAST_GROUPS, FOLDS, RIDGE = 3000, 1000, 3, 5, 0.1
"""Pieces that are looked at, words of each, groups of an author that count, folds, the ridge."""
TELLING = 0.5
"""Share of the errors of chance from which marks are called telling."""
SHOWN = 3


@dataclass(frozen=True, slots=True)
class Typography:
    """How many pieces of text go to their author by marks alone; each author counts alike."""

    right: float
    chance: float
    authors: int
    groups: int
    marks: tuple[str, ...]
    """Those that differ most between authors."""

    @property
    def telling(self) -> bool:
        """Whether marks alone remove half of the errors of chance, surely by more than chance."""
        above, spread = self.right - self.chance, self.chance * (1.0 - self.chance) / self.groups
        return bool(above >= max(TELLING * (1.0 - self.chance), 2.0 * spread**0.5))

    @property
    def in_words(self) -> str:
        """One sentence."""
        found = (
            f"marks of typography alone name the author of {self.right:.0%} of held-out texts "
            f"(chance {self.chance:.0%}, {self.authors} authors), most of all "
            f"{', '.join(self.marks)}"
        )
        if not self.telling:
            return found
        return (
            f"{found}: if programs or printers set them, an answer may name those; "
            "`whowrote train --normalise quotes,punctuation,case` reads without them"
        )


def typography(corpus: Corpus, seed: int = 0) -> Typography | None:
    """A classifier on marks alone, groups held out; None with under two authors of three groups.

    >>> dashes = [f"Yes -- it is {n}." for n in range(4)] + [f"Yes, it is {n}." for n in range(4)]
    >>> typography(Corpus.from_texts(dashes, ["a"] * 4 + ["b"] * 4)).right
    1.0
    """
    texts, authors, groups = _pieces(corpus, np.random.default_rng([seed, 37]))
    if len(texts) == 0:
        return None
    rows = _counts(texts)
    names, codes = np.unique(authors, return_inverse=True)
    right = _held_out(rows, codes, np.unique(groups, return_inverse=True)[1], seed)
    each = [float(right[codes == own].mean()) for own in range(len(names))]
    marks, n_groups = _most_different(rows, codes), len(set(groups))
    return Typography(float(np.mean(each)), 1.0 / len(names), len(names), n_groups, marks)


def _pieces(corpus: Corpus, random: np.random.Generator) -> tuple[list[str], list[str], list[str]]:
    """Pieces of the texts of authors with several groups: what is asked is not inside a book."""
    by_author: dict[str, set[str]] = {}
    for author, group in zip(corpus.authors, corpus.groups, strict=True):
        if author is not None:
            by_author.setdefault(author, set()).add(group)
    kept = {author for author, own in by_author.items() if len(own) >= LEAST_GROUPS}
    if len(kept) < 2:
        return [], [], []
    rows = [row for row, author in enumerate(corpus.authors) if author in kept]
    chosen = sorted(random.permutation(rows)[:MOST_TEXTS].tolist())
    found = [
        (piece, str(corpus.authors[row]), corpus.groups[row])
        for row in chosen
        for piece in _cut(corpus.texts[row], max(1, MOST_TEXTS // len(chosen)))
    ]
    texts, authors, groups = (list(column) for column in zip(*found, strict=True))
    return texts, authors, groups


def _cut(text: str, most: int) -> list[str]:
    """A text, or of a long one pieces from all over it."""
    starts = [match.start() for match in re.finditer(r"\S+", text)]
    n = len(starts) // PIECE
    if n < 2:
        return [text]
    chosen = np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(int)).tolist()
    ends = [*starts[PIECE::PIECE], len(text)]
    return [text[starts[PIECE * one] : ends[one]] for one in chosen]


def _counts(texts: Sequence[str]) -> FloatArray:
    """(texts, 2 kinds): logarithms of the rates in 1,000 words, and whether there is one at all."""
    counts = np.array([[len(one.findall(text)) for one in _PATTERNS.values()] for text in texts])
    words = np.array([max(1, len(text.split())) for text in texts])
    return np.concatenate([np.log1p(1000 * counts / words[:, None]), counts > 0], axis=1)


def _held_out(rows: FloatArray, codes: IntArray, groups: IntArray, seed: int) -> BoolArray:
    """Which rows are named rightly by what other groups have taught."""
    shuffled = np.random.default_rng([seed, 41]).permutation(int(groups.max()) + 1)
    fold, right = (shuffled % FOLDS)[groups], np.zeros(len(codes), dtype=bool)
    for own in np.unique(fold):
        asked, known = fold == own, fold != own
        spread = rows[known].std(axis=0)
        scaled = (rows - rows[known].mean(axis=0)) / np.where(spread > 1e-9, spread, 1.0)
        right[asked] = _nearest(scaled[known], codes[known], scaled[asked]) == codes[asked]
    return right


def _nearest(known: FloatArray, codes: IntArray, asked: FloatArray) -> IntArray:
    """Fisher's linear discriminant with a ridged common covariance."""
    names, own = np.unique(codes, return_inverse=True)
    means = np.zeros((len(names), known.shape[1]))
    np.add.at(means, own, known)
    means /= np.bincount(own)[:, None]
    within = known - means[own]
    covariance = within.T @ within / len(known) + RIDGE * np.eye(known.shape[1])
    maps = np.linalg.solve(covariance, means.T)
    return np.asarray(names[(asked @ maps - 0.5 * (means.T * maps).sum(axis=0)).argmax(axis=1)])


def _most_different(rows: FloatArray, codes: IntArray) -> tuple[str, ...]:
    """The kinds whose rates vary most between authors, as a share of all their variance."""
    rates = rows[:, : len(MARKS)]
    means = np.stack([rates[codes == own].mean(axis=0) for own in np.unique(codes)])[codes]
    total = rates.var(axis=0)
    share = np.where(total > 0, means.var(axis=0) / np.where(total > 0, total, 1.0), 0.0)
    best = [place for place in np.argsort(-share, kind="stable")[:SHOWN] if share[place] > 0]
    return tuple(list(MARKS)[place] for place in best)
