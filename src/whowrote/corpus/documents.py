r"""A document, and how bytes become its text: ``path -> bytes -> (text, encoding, repairs)``.

Readers exchange a raw text, a finished document, a note on every repair, and the options. Files are
plain, ``.gz`` or ``.zst``, read whole or line by line, never more than the limit at once. The order
of guesses is UTF-8 (with or without a byte order mark), UTF-16 with a byte order mark, then
Windows-1252, the usual encoding of old mail, blogs and word processors. Whatever the source, the
text then has one form: line ends are ``\n``, Unicode is NFC, and no control character is left but
newline and tab. Features count characters, so two spellings of one letter would be two letters.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from whowrote.formatting import count, one_line

NoteKind = Literal[
    "empty",
    "binary",
    "not-text",
    "encoding",
    "undecodable",
    "control",
    "unicode",
    "unclosed",
    "left-out",
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


FILE_HASH = "file_sha256"
"""What the metadata call the SHA-256 of the file that a text was read from, where it is told."""


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
    notes: tuple[Note, ...] = ()
    """What the reader left out of it."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to read: which columns hold what (None: guess, "": there is none), and the limit."""

    text_column: str | None = None
    author_column: str | None = None
    id_column: str | None = None
    group_column: str | None = None
    max_document_bytes: int = DEFAULT_MAX_DOCUMENT_BYTES
    elements: tuple[str, ...] = ()
    """Of XML, the elements that hold the prose; none: the body of TEI."""


def place(file: str, line: int | None) -> str:
    """Where something is, for a message.

    >>> place("posts.jsonl", 3), place("letter.txt", None)
    ('posts.jsonl, line 3', 'letter.txt')
    """
    return file if line is None else f"{file}, line {line}"


# -- from bytes to text --------------------------------------------------------------------------


RepairKind = Literal["encoding", "undecodable", "control", "unicode", "left-out"]

_LINE_ENDS = re.compile("\r\n?")
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_ASCII_CONTROLS = bytes(code for code in range(128) if _CONTROLS.match(chr(code)))
# Controls that separate words for str.split stay separators. C1 controls in a decoded text are
# nearly always Windows-1252 punctuation that someone decoded as Latin-1, so they become that.
_MEANT = str.maketrans(
    dict.fromkeys("\x0b\x0c\x1c\x1d\x1e", "\n")
    | {"\x1f": " "}
    | {chr(code): bytes([code]).decode("cp1252", "ignore") for code in range(0x80, 0xA0)}
)
_SURROGATES = re.compile("[\ud800-\udfff]")
_REPLACEMENT = "\ufffd"
_UNDEFINED_IN_CP1252 = re.compile(rb"[\x81\x8d\x8f\x90\x9d]")
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_SIGNATURES = (
    b"%PDF-",
    b"PK\x03\x04",
    b"\x89PNG",
    b"\xff\xd8\xff",
    b"GIF8",
    b"\x1f\x8b",
    b"\x7fELF",
)
_CONTROL_BYTES = bytes(set(range(32)) - set(b"\t\n\r\x0b\x0c\x1a\x1b\x85"))
_SAMPLE = 8192
_CONTROL_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Repair:
    """One change that was made to a text, and what it was."""

    kind: RepairKind
    message: str


@dataclass(frozen=True, slots=True)
class Decoded:
    """A clean text, the encoding it was read in, and what had to be repaired."""

    text: str
    encoding: str
    repairs: tuple[Repair, ...] = ()


def has_utf16_mark(data: bytes) -> bool:
    """Whether the bytes open with a UTF-16 byte order mark."""
    return data.startswith(_UTF16_MARKS)


def is_binary(data: bytes) -> bool:
    r"""Whether the bytes cannot be a text: a NUL, a well-known signature, or many control bytes.

    >>> is_binary(b"Dear sir,"), is_binary(b"\x89PNG..."), is_binary(b"a\x00b")
    (False, True, True)
    """
    if has_utf16_mark(data):
        return False
    if data.startswith(_SIGNATURES) or b"\0" in data:
        return True
    sample = data[:_SAMPLE]
    controls = len(sample) - len(sample.translate(None, _CONTROL_BYTES))
    return controls > _CONTROL_SHARE * len(sample)


def decode(data: bytes) -> Decoded:
    """Turn bytes into a clean text.

    >>> decode("café".encode("cp1252")).repairs[0].kind
    'encoding'
    >>> decode("café".encode("utf-8")).repairs
    ()
    """
    raw = to_text(data)
    cleaned = clean(raw.text)
    return Decoded(cleaned.text, raw.encoding, raw.repairs + cleaned.repairs)


def to_text(data: bytes) -> Decoded:
    """Decode only, for a line of a table whose text is still to be parsed."""
    return _decode_utf16(data) if has_utf16_mark(data) else _decode_bytes(data)


def _decode_utf16(data: bytes) -> Decoded:
    try:
        return Decoded(data.decode("utf-16"), "utf-16")
    except UnicodeDecodeError as problem:
        repair = Repair(
            "undecodable",
            f"bytes from {problem.start} are not valid UTF-16 and became U+FFFD",
        )
        return Decoded(data.decode("utf-16", "replace"), "utf-16", (repair,))


def _decode_bytes(data: bytes) -> Decoded:
    try:
        return Decoded(data.decode("utf-8-sig"), "utf-8")
    except UnicodeDecodeError as problem:
        value = data[problem.start]
        guess = Repair(
            "encoding", f"byte 0x{value:02x} at {problem.start} is not UTF-8; read as cp1252"
        )
    undefined = _UNDEFINED_IN_CP1252.findall(data)
    if not undefined:
        return Decoded(data.decode("cp1252"), "cp1252", (guess,))
    values = _values(f"0x{byte[0]:02x}" for byte in undefined)
    lost = Repair(
        "undecodable",
        f"{count(len(undefined), 'byte')} ({values}) undefined in cp1252 became U+FFFD",
    )
    return Decoded(data.decode("cp1252", "replace"), "cp1252", (guess, lost))


def clean(text: str) -> Decoded:
    r"""Give a text its one form; line ends are unified without a word, the rest is on record.

    Control characters disappear, except that those which separate words become a newline or a
    space, and those which stand for Windows-1252 punctuation become that punctuation.

    >>> clean("one\x0ctwo\x00").text
    'one\ntwo'
    """
    repairs: list[Repair] = []
    if "\r" in text:
        text = _LINE_ENDS.sub("\n", text)
    if not _is_plain(text) and (controls := _CONTROLS.findall(text)):
        values = _values(f"U+{ord(char):04X}" for char in controls)
        repairs.append(
            Repair(
                "control",
                f"{count(len(controls), 'control character')} ({values}) removed or replaced",
            )
        )
        text = _CONTROLS.sub("", text.translate(_MEANT))
    if text.isascii():
        return Decoded(text, "str", tuple(repairs))
    if not _is_unicode(text) and (surrogates := _SURROGATES.findall(text)):
        repairs.append(
            Repair("undecodable", f"{count(len(surrogates), 'lone surrogate')} became U+FFFD")
        )
        text = _SURROGATES.sub(_REPLACEMENT, text)
    if not unicodedata.is_normalized("NFC", text):
        text, lost = _without_piles(text)
        if lost:
            repairs.append(Repair("left-out", f"{count(lost, 'mark')} piled on letters left out"))
        repairs.append(Repair("unicode", "rewritten in Unicode NFC"))
        text = unicodedata.normalize("NFC", text)
    return Decoded(text, "str", tuple(repairs))


def _is_plain(text: str) -> bool:
    """Whether there are ASCII characters alone, and no control among them; four times as soon."""
    if not text.isascii():
        return False
    data = text.encode("ascii")
    return len(data.translate(None, _ASCII_CONTROLS)) == len(data)


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


MOST_MARKS = 30
"""Combining marks on one letter; of more, ordering them takes time that grows with their square."""


@cache
def _piles_of_marks() -> re.Pattern[str]:
    """More combining marks in a row than any language puts on a letter (UAX #15 allows 30)."""
    marks = (chr(code) for code in range(0x300, 0x1F000) if unicodedata.combining(chr(code)))
    one = f"[{''.join(marks)}]"
    return re.compile(f"({one}{{{MOST_MARKS}}}){one}+")


def _without_piles(text: str) -> tuple[str, int]:
    """The text with the first marks of each pile, and how many marks were lost."""
    piles = _piles_of_marks()
    if piles.search(text) is None:
        return text, 0
    kept = piles.sub(r"\1", text)
    return kept, len(text) - len(kept)


def name_of(label: str) -> str:
    r"""The name of an author, a document or a group in its one form: NFC, and printable on a line.

    >>> name_of("Zoe\u0308"), name_of("Zoë\x1b[2J")
    ('Zoë', 'Zoë\\u001b[2J')
    """
    if label.isascii() and label.isprintable():
        return label  # nearly all are
    label = one_line(label)
    if unicodedata.is_normalized("NFC", label):
        return label
    return unicodedata.normalize("NFC", _without_piles(label)[0])


def _values(names: Iterable[str]) -> str:
    return ", ".join(sorted(set(names)))
