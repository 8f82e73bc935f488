r"""Look at a corpus before trusting anything computed from it: ``audit(corpus) -> Audit``.

A classifier that has seen a test text in training, or that knows an author by a signature line,
looks better than it is. The audit counts what is there, lists what would flatter a result
(duplicates, boilerplate, groups that leak, typography that names the author) and what would spoil
one (too little text, a mixture of languages).

Whether marks that a keyboard or a printer sets tell the authors apart, without one word:

.. math:: z = \bigl(\ln(1 + 1000\, n_j / n),\; [n_j > 0]\bigr)_j, \qquad
    \hat k(z) = \arg\max_k \; \mu_k' S^{-1} z - \tfrac12 \mu_k' S^{-1} \mu_k

for the counts :math:`n_j` of every kind of mark in a text of *n* words, standardised, with the
means of the authors and their common covariance, ridged, learnt from other groups of texts. Kinds
of quotes, dashes, spaces and line breaks come from a program, a printer or an editor as easily as
from a person: where they alone name most authors, so may any attribution that reads them.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np

from whowrote.arrays import BoolArray, FloatArray, IntArray
from whowrote.corpus.copies import SIMILARITY, near_copies
from whowrote.corpus.texts import Corpus, Note

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


LeakKind = Literal["duplicates-across-groups", "group-of-several-authors", "author-in-one-group"]

_TEXT_WORDS = 1000  # a long text is read in passages of so many words, and counts as so many texts
_LINE_CHARACTERS = 8
_LINE_TEXTS = 3
_LINE_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class AuthorCount:
    """How much there is of one author (None: of unknown authors)."""

    author: str | None
    texts: int
    words: int
    median_words: float
    groups: int


@dataclass(frozen=True, slots=True)
class DuplicateSet:
    """Documents that are the same text, or nearly: ``similarity`` is the lowest of the links."""

    documents: tuple[str, ...]
    authors: tuple[str | None, ...]
    groups: tuple[str, ...]
    similarity: float

    @property
    def between_authors(self) -> bool:
        """Whether the copies bear several names (an unknown author counts as one)."""
        return len(self.authors) > 1

    @property
    def across_groups(self) -> bool:
        """Whether a split by groups could still put copies into both training and test."""
        return len(self.groups) > 1


@dataclass(frozen=True, slots=True)
class Boilerplate:
    """A line that one author repeats: a signature or a template, not a style."""

    author: str
    line: str
    texts: int
    share: float


@dataclass(frozen=True, slots=True)
class ThinAuthor:
    """An author with too few texts, counting long ones several times, or too few words."""

    author: str
    texts: int
    words: int


@dataclass(frozen=True, slots=True)
class Languages:
    """Texts per language, told from the first characters of an even sample of the texts."""

    texts: Mapping[str, int]
    examined: int
    of: int
    characters: int


@dataclass(frozen=True, slots=True)
class Leak:
    """Something about groups that a split between training and test would suffer from."""

    kind: LeakKind
    groups: tuple[str, ...]
    documents: tuple[str, ...]
    authors: tuple[str | None, ...]


@dataclass(frozen=True)
class Settings:
    """What the audit was asked to look for; ``near_duplicates`` False switches that search off."""

    min_texts: int = 5
    min_words: int = 2_500
    near_duplicates: bool = True
    similarity: float = SIMILARITY
    language_texts: int = 5_000
    language_characters: int = 1_000


@dataclass(frozen=True, slots=True)
class Audit:
    """All findings; ``near_duplicates`` is None where they were not looked for."""

    documents: int
    words: int
    authors: tuple[AuthorCount, ...]
    exact_duplicates: tuple[DuplicateSet, ...]
    near_duplicates: tuple[DuplicateSet, ...] | None
    boilerplate: tuple[Boilerplate, ...]
    thin_authors: tuple[ThinAuthor, ...]
    languages: Languages
    leaks: tuple[Leak, ...]
    typography: Typography | None
    notes: tuple[Note, ...]
    fingerprint: str
    settings: Settings

    def to_dict(self) -> dict[str, object]:
        """Plain lists, dicts, strings and numbers, ready for JSON."""
        marks = self.typography
        told = {} if marks is None else {"telling": marks.telling, "in_words": marks.in_words}
        return asdict(self) | {"typography": None if marks is None else asdict(marks) | told}


def audit(
    corpus: Corpus,
    *,
    near_duplicates: bool = True,
    min_texts: int = Settings.min_texts,
    min_words: int = Settings.min_words,
    similarity: float = Settings.similarity,
) -> Audit:
    """Count and check a corpus.

    >>> corpus = Corpus.from_texts(["I am.", "I am.", "You are."], ["a", "b", "b"])
    >>> findings = audit(corpus)
    >>> findings.documents, findings.exact_duplicates[0].authors
    (3, ('a', 'b'))
    """
    settings = Settings(min_texts, min_words, near_duplicates, similarity)
    counts = count_authors(corpus)
    exact = exact_duplicates(corpus)
    near = find_near_duplicates(corpus, similarity) if near_duplicates else None
    return Audit(
        documents=len(corpus),
        words=sum(corpus.word_counts),
        authors=counts,
        exact_duplicates=exact,
        near_duplicates=near,
        boilerplate=tuple(repeated_lines(corpus)),
        thin_authors=tuple(thin_authors(counts, settings)),
        languages=languages(corpus, settings),
        leaks=(*_duplicate_leaks((*exact, *(near or ()))), *group_leaks(corpus)),
        typography=typography(corpus),
        notes=corpus.notes,
        fingerprint=corpus.fingerprint,
        settings=settings,
    )


def count_authors(corpus: Corpus) -> tuple[AuthorCount, ...]:
    """Texts and words of each author, sorted by name, unknown last."""
    rows: dict[str | None, list[int]] = defaultdict(list)
    for index, author in enumerate(corpus.authors):
        rows[author].append(index)
    return tuple(
        _count_author(corpus, author, rows[author]) for author in sorted(rows, key=_unknown_last)
    )


def _unknown_last(author: str | None) -> tuple[bool, str]:
    return author is None, author or ""


def _count_author(corpus: Corpus, author: str | None, rows: list[int]) -> AuthorCount:
    words = [corpus.word_counts[row] for row in rows]
    groups = {corpus.groups[row] for row in rows}
    return AuthorCount(author, len(rows), sum(words), statistics.median(words), len(groups))


def thin_authors(counts: Iterable[AuthorCount], settings: Settings) -> Iterator[ThinAuthor]:
    """Known authors below either threshold; a long text counts once for every thousand words.

    >>> novels, notes = AuthorCount("A", 2, 60_000, 30_000, 2), AuthorCount("B", 9, 900, 100, 9)
    >>> [author.author for author in thin_authors([novels, notes], Settings())]
    ['B']
    """
    for count in counts:
        texts = max(count.texts, count.words // _TEXT_WORDS)
        thin = texts < settings.min_texts or count.words < settings.min_words
        if thin and count.author is not None:
            yield ThinAuthor(count.author, count.texts, count.words)


def exact_duplicates(corpus: Corpus) -> tuple[DuplicateSet, ...]:
    """Sets of documents whose normalised texts are equal."""
    rows: dict[str, list[int]] = defaultdict(list)
    for index, digest in enumerate(corpus.sha256):
        rows[digest].append(index)
    return tuple(_duplicates(corpus, same, 1.0) for same in rows.values() if len(same) > 1)


def _duplicates(corpus: Corpus, rows: Iterable[int], similarity: float) -> DuplicateSet:
    rows = sorted(rows)
    authors = {corpus.authors[row] for row in rows}
    return DuplicateSet(
        documents=tuple(corpus.ids[row] for row in rows),
        authors=tuple(sorted(authors, key=_unknown_last)),
        groups=tuple(sorted({corpus.groups[row] for row in rows})),
        similarity=round(similarity, 4),
    )


def find_near_duplicates(corpus: Corpus, similarity: float) -> tuple[DuplicateSet, ...]:
    """Sets of texts that share at least ``similarity`` of their five-word shingles (Jaccard).

    Case and punctuation do not count. Of exact copies only the first is looked at; chains are one
    set.
    """
    first = {digest: row for row, digest in reversed(list(enumerate(corpus.sha256)))}
    rows = sorted(first.values())
    sets = near_copies([corpus.texts[row] for row in rows], similarity)
    return tuple(
        _duplicates(corpus, [rows[place] for place in found.rows], found.similarity)
        for found in sets
    )


def repeated_lines(corpus: Corpus) -> Iterator[Boilerplate]:
    """Lines that stand in at least three texts, and in one of twenty, of one author.

    Exact copies of a text count once, and a text of one line has no boilerplate.
    """
    for author, texts in _distinct_texts(corpus).items():
        lines = Counter(line for text in texts for line in _lines(text))
        for line, count in lines.most_common():
            share = count / len(texts)
            if count >= _LINE_TEXTS and share >= _LINE_SHARE:
                yield Boilerplate(author, line, count, round(share, 4))


def _distinct_texts(corpus: Corpus) -> dict[str, list[str]]:
    texts: dict[str, dict[str, str]] = {author: {} for author in corpus.author_names}
    for author, digest, text in zip(corpus.authors, corpus.sha256, corpus.texts, strict=True):
        if author is not None:
            texts[author][digest] = text
    return {author: list(found.values()) for author, found in texts.items()}


def _lines(text: str) -> set[str]:
    lines = {line.strip() for line in text.split("\n")} - {""}
    return {line for line in lines if len(line) >= _LINE_CHARACTERS} if len(lines) > 1 else set()


def languages(corpus: Corpus, settings: Settings) -> Languages:
    """Texts per language, the commonest first."""
    import py3langid

    size = min(len(corpus), settings.language_texts)
    sample = np.linspace(0, len(corpus) - 1, size).round().astype(int).tolist() if size else []
    limit = settings.language_characters
    counts = Counter(str(py3langid.classify(corpus.texts[row][:limit])[0]) for row in sample)
    return Languages(dict(counts.most_common()), size, len(corpus), limit)


def _duplicate_leaks(found: Iterable[DuplicateSet]) -> Iterator[Leak]:
    for same in found:
        if same.across_groups:
            yield Leak("duplicates-across-groups", same.groups, same.documents, same.authors)


def group_leaks(corpus: Corpus) -> Iterator[Leak]:
    """Groups with several authors, and authors whose every text lies in one group.

    The first cannot be stratified; the second cannot be both in training and in test.
    """
    groups: dict[str, list[int]] = defaultdict(list)
    authors: dict[str, list[int]] = defaultdict(list)
    for row, (group, author) in enumerate(zip(corpus.groups, corpus.authors, strict=True)):
        groups[group].append(row)
        if author is not None:
            authors[author].append(row)
    for rows in groups.values():
        found = _leak("group-of-several-authors", corpus, rows)
        if len(found.authors) > 1:
            yield found
    for name in sorted(authors):
        found = _leak("author-in-one-group", corpus, authors[name])
        if len(found.groups) == 1 and len(found.documents) > 1:
            yield found


def _leak(kind: LeakKind, corpus: Corpus, rows: list[int]) -> Leak:
    same = _duplicates(corpus, rows, 1.0)
    return Leak(kind, same.groups, same.documents, same.authors)
