"""A corpus: texts, who wrote them, and the way to read them from disk.

``load`` reads a whole corpus into memory, ``stream`` passes over one that does not fit; both use
the same readers (:mod:`whowrote.corpus.formats`). Nothing is dropped silently: each document that
was skipped or repaired has an entry in ``Corpus.notes``. A text is cleaned and hashed once, when it
comes in; subsets and joined corpora keep what was found then.
"""

from __future__ import annotations

import hashlib
import operator
import os
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count as numbered_from
from numbers import Integral
from pathlib import Path
from typing import Any, BinaryIO

from whowrote.corpus.copies import joined_groups, linked
from whowrote.corpus.documents import (
    DEFAULT_MAX_DOCUMENT_BYTES,
    Document,
    Note,
    Options,
    Raw,
    is_binary,
)
from whowrote.corpus.formats import finish, read
from whowrote.corpus.sources import binary, read_stream
from whowrote.errors import CorpusWarning, InputError
from whowrote.formatting import count

_HALF_CHARACTER = re.compile("[\ud800-\udfff]")
__all__ = ["Corpus", "Document", "Note", "load", "stream"]


@dataclass(frozen=True)
class Corpus:
    """An immutable corpus: tuples of equal length, one entry per document.

    ``authors`` holds None where the author is unknown. ``groups`` names what must not be split
    between training and test (passages of one book, a pair); by default each document is its own
    group. ``sha256`` is the hash of each text's UTF-8 bytes after decoding and normalising.

    >>> corpus = Corpus.from_texts(["Call me Ishmael.", "It was night."], ["Melville", None])
    >>> len(corpus), corpus.word_counts
    (2, (3, 3))
    >>> [document.id for document in corpus.labelled()]
    ['1']
    """

    texts: tuple[str, ...]
    authors: tuple[str | None, ...]
    ids: tuple[str, ...]
    groups: tuple[str, ...]
    metadata: tuple[Mapping[str, object], ...] = field(hash=False)
    sha256: tuple[str, ...]
    notes: tuple[Note, ...] = ()

    def __post_init__(self) -> None:
        columns = ("authors", "ids", "groups", "metadata", "sha256")
        for name in columns:
            _check_length(name, len(getattr(self, name)), len(self.texts))
        _check_unique(self.ids)

    @classmethod
    def from_texts(
        cls,
        texts: Sequence[str],
        authors: Sequence[str | None] | None = None,
        *,
        ids: Sequence[str] | None = None,
        groups: Sequence[str] | None = None,
        metadata: Sequence[Mapping[str, object]] | None = None,
    ) -> Corpus:
        """Build a corpus from texts in memory, normalised like those from files.

        An empty text is an error here, not a note: skipping it would shift every later position.
        """
        texts = in_order("texts", texts)
        _check_texts(texts)
        n = len(texts)
        authors = [None] * n if authors is None else author_names("authors", authors)
        ids = [str(number) for number in range(1, n + 1)] if ids is None else in_order("ids", ids)
        groups = None if groups is None else in_order("groups", groups)
        metadata = [{}] * n if metadata is None else in_order("metadata", metadata)
        given = {"authors": authors, "ids": ids, "groups": groups, "metadata": metadata}
        for name, column in given.items():
            _check_length(name, n if column is None else len(column), n)
        raws = (
            Raw(
                text, authors[i], ids[i], "texts", i + 1, groups[i] if groups else None, metadata[i]
            )
            for i, text in enumerate(texts)
        )
        found = list(finish(raws, Options(max_document_bytes=2**63)))
        for note in found:
            if isinstance(note, Note) and note.skipped:
                raise InputError(f"text {note.line} is empty; every text needs words: leave it out")
        return cls.from_documents(found)

    @classmethod
    def from_documents(cls, found: Iterable[Document | Note]) -> Corpus:
        """Gather documents, and notes if there are any, into a corpus."""
        items = list(found)
        documents = [item for item in items if isinstance(item, Document)]
        return cls(
            texts=tuple(document.text for document in documents),
            authors=tuple(document.author for document in documents),
            ids=tuple(document.id for document in documents),
            groups=tuple(document.group for document in documents),
            metadata=tuple(document.metadata for document in documents),
            sha256=tuple(document.sha256 for document in documents),
            notes=tuple(item for item in items if isinstance(item, Note)),
        )

    @classmethod
    def join(cls, corpora: Iterable[Corpus]) -> Corpus:
        """All documents of several corpora in their order, as they are, with the notes on them.

        Where two documents have the same id, all are numbered.

        >>> one, two = Corpus.from_texts(["I am."], ids=["a"]), Corpus.from_texts(["I was."])
        >>> Corpus.join([one, two]).ids, Corpus.join([one, one]).ids
        (('a', '1'), ('1: a', '2: a'))
        """
        parts = list(corpora)
        known = [name for part in parts for name in part.ids]
        alike = len(set(known)) < len(known)
        numbers = numbered_from(1)
        found: list[Document | Note] = []
        for part in parts:
            names: dict[str | None, str] = {
                name: f"{next(numbers)}: {name}" if alike else name for name in part.ids
            }
            found += [_renamed(document, names[document.id]) for document in part]
            for note in part.notes:
                found.append(replace(note, document=names.get(note.document, note.document)))
        return cls.from_documents(found)

    def __len__(self) -> int:
        return len(self.texts)

    def __iter__(self) -> Iterator[Document]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, index: int) -> Document:
        return Document(
            self.texts[index],
            self.authors[index],
            self.ids[index],
            self.groups[index],
            self.metadata[index],
            self.sha256[index],
        )

    @cached_property
    def word_counts(self) -> tuple[int, ...]:
        """Words of each text, where a word is what white space separates."""
        return tuple(len(text.split()) for text in self.texts)

    @cached_property
    def author_names(self) -> tuple[str, ...]:
        """The known authors, sorted."""
        return tuple(sorted({author for author in self.authors if author is not None}))

    @cached_property
    def units(self) -> tuple[str, ...]:
        """What no split may divide: groups, joined where they hold equal or nearly equal texts.

        Warns once with :class:`~whowrote.errors.CorpusWarning` where such texts stand under two
        authors. A part of the corpus keeps the units of the whole.

        >>> corpus = Corpus.from_texts(["I am.", "You are.", "I am!"], ["a", "b", "a"])
        >>> corpus.groups, corpus.units
        (('1', '2', '3'), ('1', '2', '1'))
        """
        links = linked(self.texts, self.sha256)
        _warn_of_shared(self, links)
        return joined_groups(self.groups, links)

    @property
    def fingerprint(self) -> str:
        """A hash over all texts, authors, ids and groups in order: names the corpus in results."""
        digest = hashlib.sha256()
        for row in zip(self.ids, self.authors, self.groups, self.sha256, strict=True):
            digest.update(repr(row).encode("utf-8"))
        return digest.hexdigest()

    def by_author(self) -> dict[str, Corpus]:
        """One corpus per known author, in the order of their names."""
        rows: dict[str, list[int]] = {name: [] for name in self.author_names}
        for index, author in enumerate(self.authors):
            if author is not None:
                rows[author].append(index)
        return {author: self.subset(indices) for author, indices in rows.items()}

    def labelled(self) -> Corpus:
        """The documents whose author is known."""
        return self.subset(i for i, author in enumerate(self.authors) if author is not None)

    def unlabelled(self) -> Corpus:
        """The documents whose author is unknown."""
        return self.subset(i for i, author in enumerate(self.authors) if author is None)

    def subset(self, indices: Iterable[int]) -> Corpus:
        """The documents at these positions, in this order, with the notes on them."""
        rows = [_position(index) for index in indices]
        kept = {self.ids[row] for row in rows}
        notes = tuple(note for note in self.notes if note.document in kept)
        part = Corpus.from_documents([*(self[row] for row in rows), *notes])
        if "units" in self.__dict__:
            part.__dict__["units"] = tuple(self.units[row] for row in rows)
        return part

    def require_attribution(self, *, min_authors: int = 2, min_texts: int = 2) -> None:
        """Check that attribution can be learnt here: enough authors, enough texts of each."""
        counts = Counter(author for author in self.authors if author is not None)
        for author in counts:
            if _HALF_CHARACTER.search(str(author)):
                raise InputError(
                    f"author {author!r} has a name that is no text (half a character, or bytes of "
                    "another encoding); rename the folder, or mend the column of the table"
                )
        if len(counts) < min_authors:
            names = ", ".join(map(repr, sorted(counts))) or "none"
            raise InputError(
                f"the corpus has {count(len(counts), 'known author')} ({names}) and attribution "
                f"needs at least {min_authors}: add texts by others; an author is the folder of a "
                "text, the first part of a name like Austen_Emma.txt, or a column of a table (name "
                "it with author_column, --author-column)"
            )
        for author, n_texts in sorted(counts.items()):
            if n_texts < min_texts:
                raise InputError(
                    f"author {author!r} has {count(n_texts, 'text')} and attribution needs at "
                    f"least {min_texts} of each author: add texts, cut long ones into passages, "
                    "or leave this author out"
                )


def load(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    text_column: str | None = None,
    author_column: str | None = None,
    id_column: str | None = None,
    group_column: str | None = None,
    max_document_bytes: int = DEFAULT_MAX_DOCUMENT_BYTES,
    elements: Sequence[str] = (),
) -> Corpus:
    """Read a corpus from a file or a folder.

    The format is detected where ``format`` is None, and so is a column; a column of ``""`` says
    that there is none. In formats without columns ``group_column`` names an entry of the metadata.
    ``elements`` are those of XML files that hold the prose; by default the body of TEI.
    Warns once with :class:`~whowrote.errors.CorpusWarning` if a document was skipped or had to be
    guessed at; every such case, and every lesser repair, is in ``corpus.notes``.
    """
    columns = (text_column, author_column, id_column, group_column)
    options = Options(*columns, max_document_bytes, tuple(elements))
    corpus = Corpus.from_documents(read(Path(path), options, format, unique=True))
    if not corpus:
        why = f" ({corpus.notes[0]})" if corpus.notes else ""
        raise InputError(
            f"{path} holds no text{why}; a corpus needs at least one: put texts that are not empty "
            "into it"
        )
    _warn_of_repairs(corpus, str(path))
    return corpus


def load_stream(
    source: BinaryIO, *, id: str = "-", max_document_bytes: int = DEFAULT_MAX_DOCUMENT_BYTES
) -> Corpus:
    r"""One text from an open stream of bytes, decoded as that of a file is; it is called ``id``.

    >>> import io
    >>> load_stream(io.BytesIO("\ufeffI am.".encode("utf-16-le"))).texts
    ('I am.',)
    """
    name = "standard input" if id == "-" else id
    data = read_stream(source, max_document_bytes, name)
    if is_binary(data):
        raise binary(name)
    found = finish([Raw(data, None, id, name)], Options(max_document_bytes=max_document_bytes))
    corpus = Corpus.from_documents(found)
    if not corpus:
        raise InputError(f"{name} is empty; a text must have words: pipe one in")
    _warn_of_repairs(corpus, name)
    return corpus


def stream(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    text_column: str | None = None,
    author_column: str | None = None,
    id_column: str | None = None,
    group_column: str | None = None,
    max_document_bytes: int = DEFAULT_MAX_DOCUMENT_BYTES,
    elements: Sequence[str] = (),
    on_note: Callable[[Note], None] | None = None,
) -> Iterator[Document]:
    """Pass over a corpus one document at a time, in memory that does not grow with it.

    Options are those of :func:`load`. Notes go to ``on_note``; without it one warning at the end
    counts them. Duplicate ids are not looked for: that would need all ids in memory.
    """
    columns = (text_column, author_column, id_column, group_column)
    options = Options(*columns, max_document_bytes, tuple(elements))
    return _pass(read(Path(path), options, format), Path(path), on_note)


def _pass(
    found: Iterator[Document | Note], path: Path, on_note: Callable[[Note], None] | None
) -> Iterator[Document]:
    kinds: Counter[str] = Counter()
    for item in found:
        if isinstance(item, Document):
            yield item
        elif on_note is not None:
            on_note(item)
        elif not item.lossless:
            kinds[item.kind] += 1
    _warn(kinds, str(path), "pass on_note to see them")


def _warn_of_repairs(corpus: Corpus, name: str) -> None:
    kinds = Counter[str](note.kind for note in corpus.notes if not note.lossless)
    _warn(kinds, name, "all are in corpus.notes", stacklevel=4)


def _warn(kinds: Mapping[str, int], path: str, cure: str, stacklevel: int = 3) -> None:
    if kinds:
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        warnings.warn(f"{path}: {counts} ({cure})", CorpusWarning, stacklevel=stacklevel)


def _warn_of_shared(corpus: Corpus, links: Iterable[tuple[int, int]]) -> None:
    """Name a text that stands under two authors: one of the names is wrong, or both wrote it."""
    authors = corpus.authors
    shared = [
        (one, other)
        for one, other in links
        if authors[one] != authors[other] and None not in (authors[one], authors[other])
    ]
    if shared:
        one, other = shared[0]
        warnings.warn(
            f"texts {corpus.ids[one]!r} by {authors[one]!r} and {corpus.ids[other]!r} by "
            f"{authors[other]!r} are equal or nearly so ({count(len(shared), 'such pair')} in "
            "all): copies stay on one side of every split; correct the names, or leave copies out",
            CorpusWarning,
            stacklevel=4,
        )


def _renamed(document: Document, name: str) -> Document:
    """With another id; a document that is its own group stays so."""
    alone = document.group == document.id
    return replace(document, id=name, group=name if alone else document.group)


def in_order(name: str, values: Any) -> list[Any]:
    """A list of what was given, if that has an order and one dimension: a list, tuple, or column.

    >>> in_order("texts", ("I am.", "You are."))
    ['I am.', 'You are.']
    """
    if isinstance(values, str | bytes):
        raise InputError(
            f"{name} is one string ({values[:40]!r}) and must be a sequence: put it in a list"
        )
    ordered = isinstance(values, Iterable) and not isinstance(values, Set | Mapping)
    if not ordered or getattr(values, "ndim", 1) != 1:
        raise InputError(
            f"{name} is a {type(values).__name__} and must be a sequence, whose order says what "
            "belongs together: give a list"
        )
    return list(values)


def author_names(name: str, values: Any) -> list[str | None]:
    """Authors as strings, None where unknown; a whole number is its digits.

    >>> author_names("authors", ["Ann", None, 7])
    ['Ann', None, '7']
    """
    return [_author_name(name, row, one) for row, one in enumerate(in_order(name, values))]


def _author_name(name: str, row: int, value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return None if value is None else str(value)
    if isinstance(value, Integral) and not isinstance(value, bool):
        return str(int(value))
    raise InputError(
        f"{name}[{row}] is {value!r:.40} ({type(value).__name__}); an author is a string, or None "
        "where unknown: give a name, or leave the text out"
    )


def _check_texts(texts: Sequence[str]) -> None:
    for number, text in enumerate(texts, start=1):
        if not isinstance(text, str):
            raise InputError(
                f"text {number} is {text!r:.40} ({type(text).__name__}) and must be a string: "
                "convert it, or leave it out"
            )


def _position(index: int) -> int:
    if isinstance(index, bool):
        raise InputError(
            f"subset takes positions and got {index!r}; a mask is not one: pass the positions "
            "where it is true, e.g. numpy.flatnonzero(mask)"
        )
    return operator.index(index)


def _check_length(name: str, length: int, needed: int) -> None:
    if length != needed:
        raise InputError(
            f"{name} has {length} entries for {needed} texts; there must be one per text: give as "
            "many"
        )


def _check_unique(ids: Sequence[str]) -> None:
    if len(set(ids)) == len(ids):
        return
    first, count = Counter(ids).most_common(1)[0]
    raise InputError(
        f"id {first!r} is given to {count} documents; ids must be unique: give each its own"
    )
