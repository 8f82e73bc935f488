"""A file and its bytes: regular, unpacked on the way, whole or line by line, within limits.

Files are plain, ``.gz`` or ``.zst``. A pipe or a device, which may never end, is refused; so is a
line or a document beyond the limit, and a compressed file that unfolds to far more than prose does.
"""

from __future__ import annotations

import codecs
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from whowrote.corpus.documents import DEFAULT_MAX_DOCUMENT_BYTES, has_utf16_mark, is_binary, place
from whowrote.drafts import regular
from whowrote.errors import InputError, first_line

_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
_BUFFER = 1 << 20
_PART = 1 << 16
"""Read at once of a document: to get room for the whole limit takes longer than most texts."""
_HEAD = 4096
_MOST_COUNTED = 1 << 26
"""Of a document or a line that is too long, no more bytes are counted for the message."""
LEAST_UNFOLDED, MOST_RATIO = 50_000_000, 100
"""A compressed file may hold so many bytes, and so many times its own size more."""
MOST_BLANK = 200_000
"""Empty lines in a row."""


@dataclass(frozen=True, slots=True)
class Line:
    """One physical line, its number counted from 1, and its bytes without the line end."""

    number: int
    data: bytes


def compression(path: Path) -> str | None:
    """The compression that a file's last suffix announces."""
    return _COMPRESSIONS.get(path.suffix.lower())


def format_suffix(path: Path) -> str:
    """The suffix that tells the format, below .gz or .zst.

    >>> format_suffix(Path("reviews.JSON.gz"))
    '.json'
    """
    suffix = path.suffix.lower()
    return path.with_suffix("").suffix.lower() if suffix in _COMPRESSIONS else suffix


@contextmanager
def open_bytes(path: Path, limit: int = DEFAULT_MAX_DOCUMENT_BYTES) -> Iterator[BinaryIO]:
    """Open a file for reading, decompressing on the way; a damaged archive is bad input."""
    with _opened(path, limit) as raw, io.BufferedReader(raw, _BUFFER) as stream:
        yield cast(BinaryIO, stream)  # the buffer finds the lines


@contextmanager
def _opened(path: Path, limit: int) -> Iterator[io.RawIOBase]:
    try:
        with _unpacked(path, limit) as stream:
            yield stream
    except OSError as problem:
        raise InputError(
            f"{path} cannot be read ({first_line(problem)}): "
            "give a readable file, and compress it again if it is damaged"
        ) from problem


def require_regular(path: Path) -> None:
    """Require a file that has an end: a pipe or a device may wait, or give bytes, for ever."""
    os.close(regular(path, os.O_RDONLY))


def most_unfolded(size: int, limit: int = DEFAULT_MAX_DOCUMENT_BYTES) -> int:
    """How many bytes a compressed file of ``size`` may hold.

    Prose packs to a third, tables to a tenth, what is made to fill the memory to a thousandth.
    """
    return max(LEAST_UNFOLDED, limit) + MOST_RATIO * size


def unfolds(path: Path, most: int) -> InputError:
    """The error for a compressed file that holds too much."""
    return InputError(
        f"{path} unfolds to more than {_spelt(most)}, over {MOST_RATIO} times its size: give the "
        "file unpacked, if it is one that you trust"
    )


def _unpacked(path: Path, limit: int) -> io.RawIOBase:
    raw = io.FileIO(path, opener=regular)
    if compression(path) is None:
        return raw
    import pyarrow as pa  # late: plain files need none

    # It decompresses block by block.
    most = most_unfolded(os.fstat(raw.fileno()).st_size, limit)
    packed = cast(io.RawIOBase, pa.input_stream(raw, compression=compression(path)))
    return _Unfolding(packed, path, most)


class _Unfolding(io.RawIOBase):
    """A stream that is refused once it has given more than ``most`` bytes."""

    def __init__(self, inner: io.RawIOBase, path: Path, most: int) -> None:
        super().__init__()
        self._inner, self._path, self._most, self._given = inner, path, most, 0

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: Any, /) -> int | None:
        """The next bytes."""
        got = self._inner.readinto(buffer)
        self._given += got or 0
        if self._given > self._most:
            raise unfolds(self._path, self._most)
        return got

    def close(self) -> None:
        """Close what is below, too."""
        self._inner.close()
        super().close()


def read_whole(path: Path, limit: int) -> bytes:
    """All bytes of one document's file, at most ``limit`` of them."""
    with _opened(path, limit) as stream:
        return read_stream(stream, limit, str(path))


def read_stream(stream: BinaryIO | io.RawIOBase, limit: int, name: str) -> bytes:
    """All bytes of one document, at most ``limit`` of them; an endless stream is not waited for."""
    parts, size = list[bytes](), 0
    while size <= limit and (part := stream.read(min(_PART, limit + 1 - size))):
        parts.append(part)
        size += len(part)
    if size > limit:
        while size <= _MOST_COUNTED and (part := stream.read(_BUFFER)):
            size += len(part)
        raise too_large(name, None, size, limit, "document")
    return b"".join(parts)


def read_lines(path: Path, limit: int) -> Iterator[Line]:
    """The lines of a file, UTF-16 recoded to UTF-8; a line over the limit is bad input."""
    with open_bytes(path, limit) as stream:
        head = cast(io.BufferedReader, stream).peek(_HEAD)[:_HEAD]
        if is_binary(head):
            raise binary(path)
        readline = _recoded(path, stream) if has_utf16_mark(head) else stream.readline
        number = blank = 0
        while data := readline(limit + 2):
            number += 1
            if len(data) > limit and len(data.rstrip(b"\r\n")) > limit:
                size = len(data) + _rest_of_line(readline, data)
                raise too_large(str(path), number, size, limit, "line")
            blank = blank + 1 if data.isspace() else 0
            if blank > MOST_BLANK:
                raise InputError(
                    f"{place(str(path), number)}: {MOST_BLANK:,} empty lines in a row; a table "
                    "must hold rows: take the empty lines out"
                )
            yield Line(number, data.removeprefix(codecs.BOM_UTF8) if number == 1 else data)


def _recoded(path: Path, stream: BinaryIO) -> Callable[[int], bytes]:
    """A ``readline`` that gives the lines of a UTF-16 stream as UTF-8 bytes."""
    text = io.TextIOWrapper(stream, encoding="utf-16", newline="\n")

    def readline(limit: int) -> bytes:
        try:
            return text.readline(limit).encode("utf-8")
        except UnicodeError as problem:
            raise InputError(
                f"{path} opens as UTF-16 but is not valid UTF-16 ({problem}): save it as UTF-8"
            ) from problem

    return readline


def _rest_of_line(readline: Callable[[int], bytes], data: bytes) -> int:
    size = 0
    while size < _MOST_COUNTED and not data.endswith(b"\n") and (data := readline(_BUFFER)):
        size += len(data)
    return size


def too_large(file: str, line: int | None, size: int, limit: int, what: str) -> InputError:
    """The error for a document or a line beyond the limit."""
    least = "at least " if size > _MOST_COUNTED else ""
    return InputError(
        f"{place(file, line)}: the {what} has {least}{_spelt(size)} and the limit is "
        f"{_spelt(limit)}: split it, or raise max_document_bytes (--max-document-mb)"
    )


def _spelt(size: int) -> str:
    return f"{size} bytes" if size < 100_000 else f"{size / 1e6:.1f} MB"


def binary(path: Path | str) -> InputError:
    """The error for a file that was named as text and is not."""
    if Path(path).suffix.lower() in (".npy", ".npz"):
        return InputError(
            f"{path} holds vectors, and texts are asked for here: `whowrote sweep` and "
            "MixtureVAEClassifier learn from vectors"
        )
    return InputError(
        f"{path} is a binary file (it holds NUL or control bytes), not text: give plain text in "
        "UTF-8, or in UTF-16 with a byte order mark"
    )
