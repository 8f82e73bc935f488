"""Bytes from disk: plain, .gz or .zst, whole or line by line, never more than the limit at once."""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from whowrote.decoding import has_utf16_mark, is_binary
from whowrote.errors import InputError
from whowrote.readers.records import place

_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
_BUFFER = 1 << 20
_HEAD = 4096


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
    inner = path.with_suffix("") if compression(path) else path
    return inner.suffix.lower()


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading, decompressing on the way; a damaged archive is bad input."""
    try:
        # The buffer finds the lines.
        with io.BufferedReader(_unpacked(path), _BUFFER) as stream:
            yield cast(BinaryIO, stream)
    except OSError as problem:
        raise InputError(
            f"{path} cannot be read ({_first_line(problem)}): "
            "give a readable file, and compress it again if it is damaged"
        ) from problem


def _unpacked(path: Path) -> io.RawIOBase:
    if compression(path) is None:
        return io.FileIO(path)
    import pyarrow as pa  # late: plain files need none

    # It decompresses block by block.
    return cast(io.RawIOBase, pa.input_stream(str(path), compression=compression(path)))


def read_whole(path: Path, limit: int) -> bytes:
    """All bytes of one document's file, at most ``limit`` of them."""
    with open_bytes(path) as stream:
        data = stream.read(limit + 1)
        if len(data) > limit:
            size = len(data) + sum(len(part) for part in iter(lambda: stream.read(_BUFFER), b""))
            raise too_large(str(path), None, size, limit, "document")
    return data


def read_lines(path: Path, limit: int) -> Iterator[Line]:
    """The lines of a file, UTF-16 recoded to UTF-8; a line over the limit is bad input."""
    with open_bytes(path) as stream:
        head = cast(io.BufferedReader, stream).peek(_HEAD)[:_HEAD]
        if is_binary(head):
            raise binary(path)
        readline = _recoded(path, stream) if has_utf16_mark(head) else stream.readline
        number = 0
        while data := readline(limit + 2):
            number += 1
            if len(data) > limit and len(data.rstrip(b"\r\n")) > limit:
                size = len(data) + _rest_of_line(readline, data)
                raise too_large(str(path), number, size, limit, "line")
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
    while not data.endswith(b"\n") and (data := readline(_BUFFER)):
        size += len(data)
    return size


def too_large(file: str, line: int | None, size: int, limit: int, what: str) -> InputError:
    """The error for a document or a line beyond the limit."""
    return InputError(
        f"{place(file, line)}: the {what} has {_spelt(size)} and the limit is {_spelt(limit)}: "
        "split it, or raise max_document_bytes (--max-document-mb)"
    )


def _spelt(size: int) -> str:
    return f"{size} bytes" if size < 100_000 else f"{size / 1e6:.1f} MB"


def binary(path: Path) -> InputError:
    """The error for a file that was named as text and is not."""
    return InputError(
        f"{path} is a binary file (it holds NUL or control bytes), not text: give plain text in "
        "UTF-8, or in UTF-16 with a byte order mark"
    )


def _first_line(problem: BaseException) -> str:
    return str(problem).splitlines()[0] if str(problem) else type(problem).__name__
