"""Tables: CSV and TSV, one JSON object per line, Parquet. All are streamed."""

from __future__ import annotations

import ast
import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

from whowrote.decoding import Repair, to_text
from whowrote.errors import InputError
from whowrote.readers.columns import Row, documents
from whowrote.readers.files import Line, compression, open_bytes, read_lines
from whowrote.readers.records import Note, Options, Raw, place

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_DELIMITERS = ",;\t|"
_BATCH = 512


def read_jsonl(path: Path, options: Options) -> Iterator[Raw | Note]:
    """One JSON object per line; also the Amazon dumps, which are that under other names."""
    return documents(json_rows(path, options), str(path), options)


def json_rows(path: Path, options: Options) -> Iterator[Row]:
    """The objects of a JSON-lines file, blank lines left out."""
    for line in read_lines(path, options.max_document_bytes):
        if not line.data.isspace():
            yield _json_row(path, line)


def _json_row(path: Path, line: Line) -> Row:
    decoded = to_text(line.data)
    value = _parse(path, line.number, decoded.text)
    if not isinstance(value, dict):
        raise InputError(
            f"{place(str(path), line.number)}: {decoded.text.strip()[:40]!r} is not a JSON object; "
            "each line must hold one: write one object per line (JSON Lines)"
        )
    return Row(line.number, value, _notes(path, line.number, decoded.repairs))


def _parse(path: Path, number: int, text: str) -> object:
    try:
        # Raw control characters inside strings are tolerated here: cleaning records them later.
        return _DECODER.decode(text)
    except (json.JSONDecodeError, RecursionError) as problem:
        if text.startswith("{'"):  # the oldest Amazon files hold Python literals
            return _parse_literal(path, number, text)
        raise _broken(path, number, text, str(problem)) from problem


_DECODER = json.JSONDecoder(strict=False)


def _parse_literal(path: Path, number: int, text: str) -> object:
    try:
        return ast.literal_eval(text.strip())
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        raise _broken(path, number, text, str(problem)) from problem


def _broken(path: Path, number: int, text: str, why: str) -> InputError:
    return InputError(
        f"{place(str(path), number)}: {text.strip()[:40]!r} is not valid JSON ({why.strip()}); "
        "each line must hold one JSON object: correct the line, or write one object per line"
    )


def _notes(path: Path, number: int, repairs: tuple[Repair, ...]) -> tuple[Note, ...]:
    return tuple(Note(repair.kind, repair.message, str(path), number) for repair in repairs)


def read_csv(path: Path, options: Options) -> Iterator[Raw | Note]:
    """A CSV file with a header; the delimiter is the most frequent of ``, ; tab |`` in it."""
    return _read_delimited(path, options, None)


def read_tsv(path: Path, options: Options) -> Iterator[Raw | Note]:
    """A tab-separated file with a header, quoted like CSV."""
    return _read_delimited(path, options, "\t")


def _read_delimited(path: Path, options: Options, delimiter: str | None) -> Iterator[Raw | Note]:
    pending: list[Note] = []
    lines = _text_lines(path, options, pending)
    first = next(lines, "")
    if delimiter is None:
        delimiter = max(_DELIMITERS, key=first.count)
    header = _header(path, first, delimiter)
    # The csv module has one limit for the whole process, 128 KB by default; it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), options.max_document_bytes))
    rows = _csv_rows(path, lines, header, delimiter, pending)
    yield from documents(rows, str(path), options, header)


def _header(path: Path, first: str, delimiter: str) -> list[str]:
    names = [name.strip() for name in next(iter(csv.reader([first], delimiter=delimiter)), [])]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(
            f"{place(str(path), 1)}: column {twice[0]!r} occurs twice in the header; names must be "
            "unique: rename one"
        )
    return names


def _text_lines(path: Path, options: Options, pending: list[Note]) -> Iterator[str]:
    for line in read_lines(path, options.max_document_bytes):
        decoded = to_text(line.data)
        pending.extend(_notes(path, line.number, decoded.repairs))
        yield decoded.text


def _csv_rows(
    path: Path, lines: Iterator[str], names: list[str], delimiter: str, pending: list[Note]
) -> Iterator[Row]:
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    start = 2  # the header was line 1
    try:
        for fields in reader:
            if fields:
                _check_width(path, start, fields, names)
                yield Row(start, dict(zip(names, fields, strict=True)), tuple(pending))
                pending.clear()
            start = reader.line_num + 2
    except csv.Error as problem:
        raise InputError(
            f"{place(str(path), start)}: the row that starts here is not valid CSV ({problem}): "
            "put fields that hold quotes, line ends or delimiters in quotes, inner ones doubled"
        ) from problem


def _check_width(path: Path, number: int, fields: list[str], names: list[str]) -> None:
    if len(fields) != len(names):
        raise InputError(
            f"{place(str(path), number)}: the row has {len(fields)} fields and the header "
            f"{len(names)}: put fields that hold delimiters in quotes"
        )


def read_parquet(path: Path, options: Options) -> Iterator[Raw | Note]:
    """A Parquet file, batch by batch."""
    import pyarrow as pa  # late: other formats need none

    try:
        table = _open_parquet(path)
        yield from documents(_parquet_rows(table), str(path), options, table.schema_arrow.names)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as problem:
        raise InputError(
            f"{path} is not a readable Parquet file ({str(problem).splitlines()[0]}): give a whole "
            "Parquet file, or name the right format (--format)"
        ) from problem


def _open_parquet(path: Path) -> pq.ParquetFile:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if compression(path) is None:
        return pq.ParquetFile(path)
    # Parquet is read from its end, so a compressed file has to be in memory whole.
    with open_bytes(path) as stream:
        return pq.ParquetFile(pa.BufferReader(stream.read()))


def _parquet_rows(table: pq.ParquetFile) -> Iterator[Row]:
    number = 0
    for batch in table.iter_batches(batch_size=_BATCH):
        for values in cast(list[dict[str, object]], batch.to_pylist()):
            number += 1
            yield Row(number, values)
