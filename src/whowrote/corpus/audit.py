"""Look at a corpus before trusting anything computed from it: ``audit(corpus) -> Audit``.

A classifier that has seen a test text in training, or that knows an author by a signature line,
looks better than it is. The audit counts what is there, lists what would flatter a result
(duplicates, boilerplate, groups that leak) and what would spoil one (too little text, a mixture of
languages).
"""

from __future__ import annotations

import re
import statistics
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from whowrote.corpus.texts import Corpus, Note

LeakKind = Literal["duplicates-across-groups", "group-of-several-authors", "author-in-one-group"]

_WORD = re.compile(r"\w+")
_SHINGLE = 5  # words; shorter ones are shared by chance
_PERMUTATIONS = 128  # standard error of a similarity below 0.09; candidates are checked exactly
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # odd, from the golden ratio: spreads word hashes
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
    similarity: float = 0.7
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
    notes: tuple[Note, ...]
    fingerprint: str
    settings: Settings

    def to_dict(self) -> dict[str, object]:
        """Plain lists, dicts, strings and numbers, ready for JSON."""
        return asdict(self)


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

    MinHash and locality-sensitive hashing propose pairs, the exact share decides. Case and
    punctuation do not count. Of exact copies only the first is looked at; chains are one set.
    """
    from datasketch import MinHash, MinHashLSH

    first = {digest: row for row, digest in reversed(list(enumerate(corpus.sha256)))}
    rows = sorted(first.values())
    hashes = _WordHashes()
    # Recall matters more than false alarms, which the exact check below removes.
    index = MinHashLSH(threshold=similarity, num_perm=_PERMUTATIONS, weights=(0.2, 0.8))
    sets = _Components()
    batches = (shingles(corpus.texts[row], hashes).tolist() for row in rows)
    for row, sketch in zip(
        rows, MinHash.generator(batches, num_perm=_PERMUTATIONS, hashfunc=int), strict=True
    ):
        for other in index.query(sketch):
            if sets.root(row) != sets.root(other):
                share = jaccard(corpus.texts[row], corpus.texts[other], hashes)
                if share >= similarity:
                    sets.join(row, other, share)
        index.insert(row, sketch, check_duplication=False)
    return tuple(_duplicates(corpus, found.rows, found.weakest) for found in sets.found())


class _WordHashes(dict[str, int]):
    """The CRC of each word, computed once: the same on every machine and in every run."""

    def __missing__(self, word: str) -> int:
        value = self[word] = zlib.crc32(word.encode("utf-8"))
        return value


def shingles(text: str, hashes: Mapping[str, int] | None = None) -> NDArray[np.uint32]:
    """The distinct hashes of all runs of five words; a shorter text is one run.

    >>> len(shingles("one two three four five six")), len(shingles("Hello, you!"))
    (2, 1)
    """
    known = _WordHashes() if hashes is None else hashes
    words = np.array([known[word] for word in _WORD.findall(text.lower())], dtype=np.uint64)
    width = min(_SHINGLE, len(words))
    if not width:
        return np.zeros(0, dtype=np.uint32)
    total = np.zeros(len(words) - width + 1, dtype=np.uint64)
    for offset in range(width):  # a polynomial in the multiplier, modulo 2^64
        total = total * _MULTIPLIER + words[offset : len(words) - width + 1 + offset]
    mixed = (total ^ (total >> np.uint64(29))) * _MULTIPLIER
    return np.unique((mixed >> np.uint64(32)).astype(np.uint32))


def jaccard(first: str, second: str, hashes: Mapping[str, int] | None = None) -> float:
    """The share of shingles two texts have in common.

    >>> jaccard("It was the best of times", "it was the best of TIMES!")
    1.0
    """
    left, right = shingles(first, hashes), shingles(second, hashes)
    common = np.intersect1d(left, right, assume_unique=True).size
    union = left.size + right.size - common
    return common / union if union else 0.0


@dataclass(frozen=True, slots=True)
class _Component:
    rows: list[int]
    weakest: float


class _Components:
    """Disjoint sets of rows, with the weakest link of each."""

    def __init__(self) -> None:
        self._sets: dict[int, _Component] = {}
        self._home: dict[int, int] = {}

    def root(self, row: int) -> int:
        return self._home.get(row, row)

    def join(self, first: int, second: int, similarity: float) -> None:
        left, right = self._take(first), self._take(second)
        root = min(left.rows[0], right.rows[0])
        rows = left.rows + right.rows
        self._sets[root] = _Component(rows, min(left.weakest, right.weakest, similarity))
        self._home.update(dict.fromkeys(rows, root))

    def _take(self, row: int) -> _Component:
        return self._sets.pop(self.root(row), _Component([row], 1.0))

    def found(self) -> list[_Component]:
        return [self._sets[root] for root in sorted(self._sets)]


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
