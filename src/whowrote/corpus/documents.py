"""The records that readers exchange: a raw text, a finished document, a note, the options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

NoteKind = Literal[
    "empty", "binary", "not-text", "encoding", "undecodable", "control", "unicode", "unclosed"
]

DEFAULT_MAX_DOCUMENT_BYTES = 20_000_000
SKIPPED_KINDS = frozenset({"empty", "binary", "not-text"})
LOSSLESS_KINDS = frozenset({"control", "unicode"})


@dataclass(frozen=True, slots=True)
class Note:
    """What happened to a document that was skipped or repaired, and where it lies."""

    kind: NoteKind
    message: str
    file: str
    line: int | None = None
    document: str | None = None

    @property
    def skipped(self) -> bool:
        """Whether the document is absent from the corpus (else it is there, repaired)."""
        return self.kind in SKIPPED_KINDS

    @property
    def lossless(self) -> bool:
        """Whether the repair was a mere matter of form, not worth a warning."""
        return self.kind in LOSSLESS_KINDS

    def __str__(self) -> str:
        return f"{place(self.file, self.line)}: {self.message}"


@dataclass(frozen=True, slots=True)
class Document:
    """One text, who wrote it where known, and what else the source says about it.

    ``sha256`` is taken over the UTF-8 bytes of ``text`` as it stands here, that is after decoding
    and normalising, so that one text has one hash whatever file it came in.
    """

    text: str
    author: str | None
    id: str
    group: str
    metadata: Mapping[str, object]
    sha256: str


@dataclass(frozen=True, slots=True)
class Raw:
    """A text as a reader found it, before decoding, cleaning and hashing."""

    text: str | bytes
    author: str | None
    id: str
    file: str
    line: int | None = None
    group: str | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Options:
    """How to read: which columns hold what (None: guess, "": there is none), and the limit."""

    text_column: str | None = None
    author_column: str | None = None
    id_column: str | None = None
    group_column: str | None = None
    max_document_bytes: int = DEFAULT_MAX_DOCUMENT_BYTES


def place(file: str, line: int | None) -> str:
    """Where something is, for a message.

    >>> place("posts.jsonl", 3), place("letter.txt", None)
    ('posts.jsonl, line 3', 'letter.txt')
    """
    return file if line is None else f"{file}, line {line}"
