"""Tables, streamed: CSV, TSV, one JSON object per line, Parquet; ``path -> raw texts and notes``.

Which column holds the text, the author, the id and the group is as told, or as names suggest.
"""

from __future__ import annotations

import ast
import csv
import json
import math
import os
import reprlib
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import numpy as np

from whowrote.corpus.documents import Note, Options, Raw, Repair, name_of, place, to_text
from whowrote.corpus.sources import (
    Line,
    compression,
    most_unfolded,
    open_bytes,
    read_lines,
    unfolds,
)
from whowrote.drafts import regular
from whowrote.errors import InputError, first_line
from whowrote.formatting import clipped, quoted

if TYPE_CHECKING:
    import pyarrow.parquet as pq

# In order of trust; matched without regard to case. reviewText/reviewerID are the Amazon dump of
# 2014, text/user_id that of 2023.
_TEXT_NAMES = (
    *("text", "body", "content", "reviewText", "review_text", "review_body", "review"),
    *("post", "document", "message", "comment", "selftext", "article"),
)
_AUTHOR_NAMES = (
    *("author", "author_id", "author_name", "user_id", "user", "username", "user_name"),
    *("reviewerID", "reviewer_id", "reviewer", "writer", "blogger", "speaker", "screen_name"),
)
_ID_NAMES = ("id", "doc_id", "document_id", "text_id", "post_id", "review_id", "message_id")
_GROUP_NAMES = ("group", "group_id")
# The Blog Authorship Corpus as one table calls the blogger "id".
_BLOG_TABLE = frozenset({"id", "gender", "age", "sign", "text"})
_LOOK_AHEAD = 100
MOST_COLUMNS = 5_000
MOST_EMPTY = 100_000
"""Rows without a text in a row."""


@dataclass(frozen=True, slots=True)
class Row:
    """One record of a table, with its line (its row in Parquet) and what its line needed."""

    line: int
    values: Mapping[str, object]
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True)
class Columns:
    """The names that were settled on; None where a table has no such column."""

    text: str
    author: str | None
    id: str | None
    group: str | None

    def rest(self, values: Mapping[str, object]) -> dict[str, object]:
        """What remains of a row as metadata."""
        taken = (self.text, self.author, self.id, self.group)
        return {name: value for name, value in values.items() if name not in taken}


def settle(found: Sequence[str], options: Options, file: str) -> Columns:
    """Settle the columns of a table.

    >>> settle(["asin", "reviewerID", "reviewText"], Options(), "reviews.json").author
    'reviewerID'
    """
    text = _settle_one("text", options.text_column, _TEXT_NAMES, found, file)
    if text is None:
        raise InputError(
            f"{file}: no column looks like the text; found {_listed(found)}: name it with "
            "text_column (--text-column)"
        )
    author = _settle_one("author", options.author_column, _AUTHOR_NAMES, found, file)
    identity = _settle_one("id", options.id_column, _ID_NAMES, found, file)
    if author is None and options.author_column is None and options.id_column is None:
        lowered = {name.lower(): name for name in found}
        if lowered.keys() >= _BLOG_TABLE:
            author, identity = lowered["id"], None
    group = _settle_one("group", options.group_column, _GROUP_NAMES, found, file)
    return Columns(text, author, None if identity == author else identity, group)


def _settle_one(
    role: str, named: str | None, guesses: Sequence[str], found: Sequence[str], file: str
) -> str | None:
    if named == "":
        return None
    if named is not None:
        if named not in found:
            raise InputError(
                f"{file}: {role} column {named!r} is missing; found {_listed(found)}: name one of "
                f"these with {role}_column (--{role}-column)"
            )
        return named
    lowered = {name.lower(): name for name in reversed(found)}
    return next((lowered[guess.lower()] for guess in guesses if guess.lower() in lowered), None)


def _listed(found: Sequence[str]) -> str:
    return quoted(found) or "no columns"


def documents(
    rows: Iterable[Row], file: str, options: Options, header: Sequence[str] | None = None
) -> Iterator[Raw | Note]:
    """Raw texts from rows; without a header the names come from the first hundred rows."""
    rows = iter(rows)
    if header is None:
        ahead = list(islice(rows, _LOOK_AHEAD))
        if not ahead:
            return
        header = list(dict.fromkeys(chain.from_iterable(row.values for row in ahead)))
        rows = chain(ahead, rows)
    columns, empty = settle(header, options, file), 0
    for number, row in enumerate(rows, start=1):
        identity = _identity(row, number, columns, file)
        for note in row.notes:
            yield replace(note, document=identity)
        found = _document(row, identity, columns, file)
        empty = empty + 1 if isinstance(found, Note) or not found.text else 0
        if empty > MOST_EMPTY:
            raise InputError(
                f"{place(file, row.line)}: {MOST_EMPTY:,} rows in a row without a text in "
                f"{columns.text!r}: take them out, or name another column with text_column "
                "(--text-column)"
            )
        yield found


def _document(row: Row, identity: str, columns: Columns, file: str) -> Raw | Note:
    values = row.values
    text = values.get(columns.text)
    if text is None:
        return Note("empty", f"no {columns.text!r}: skipped", file, row.line, identity)
    if not isinstance(text, (str, bytes)):
        raise _wrong("text", columns.text, text, file, row.line, "a string")
    return Raw(
        text=text,
        author=_label("author", columns.author, row, file),
        id=identity,
        file=file,
        line=row.line,
        group=_label("group", columns.group, row, file),
        metadata=columns.rest(values),
    )


def _identity(row: Row, number: int, columns: Columns, file: str) -> str:
    if columns.id is None:
        return str(number)
    value = _label("id", columns.id, row, file)
    if value is None:
        raise InputError(
            f"{place(file, row.line)}: the id column {columns.id!r} is empty; every document needs "
            "an id: fill it in, or number the documents with id_column='' (--id-column '')"
        )
    return value


def _label(role: str, name: str | None, row: Row, file: str) -> str | None:
    """A name as text: numbers are spelt out, empty and not-a-number mean unknown."""
    value = None if name is None else row.values.get(name)
    if value is None:
        return None
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return str(int(value)) if value.is_integer() else str(value)
    if isinstance(value, (str, int)):
        return name_of(str(value).strip()) or None
    raise _wrong(role, str(name), value, file, row.line, "a string or a number")


def _wrong(
    role: str, name: str, value: object, file: str, line: int, requirement: str
) -> InputError:
    return InputError(
        f"{place(file, line)}: {name!r} is {reprlib.repr(value)[:40]!r} "
        f"({type(value).__name__}) and must be {requirement}: correct it, or name another column "
        f"with {role}_column "
        f"(--{role}-column)"
    )


# -- rows of each kind of file -------------------------------------------------------------------

_DELIMITERS = ",;\t|"
_BATCH, _LARGEST_BATCH = 512, 65_536
_BATCHES = 8
"""Of a group of rows, so many batches, as far as their size permits."""
MOST_SMALL_ROWS = 100_000
"""Rows of a Parquet file, beside one for each of its bytes."""


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
    _check_columns(path, line.number, len(value))
    return Row(line.number, value, _notes(path, line.number, decoded.repairs))


def _check_columns(path: Path, line: int, found: int) -> None:
    if found > MOST_COLUMNS:
        raise InputError(
            f"{place(str(path), line)}: {found:,} columns and the limit is {MOST_COLUMNS:,}: keep "
            "those of the text, the author, the id and the group"
        )


def _parse(path: Path, number: int, text: str) -> object:
    try:
        # Raw control characters inside strings are tolerated here: cleaning records them later.
        return _DECODER.decode(text)
    except (ValueError, RecursionError) as problem:
        # The oldest Amazon files hold Python literals; their trees take a hundred times the space.
        if text.startswith("{'") and len(text) <= _MOST_LITERAL:
            return _parse_literal(path, number, text)
        raise _broken(path, number, text, str(problem)) from problem


_DECODER = json.JSONDecoder(strict=False)
_MOST_LITERAL = 500_000


def _parse_literal(path: Path, number: int, text: str) -> object:
    try:
        return ast.literal_eval(text.strip())
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        raise _broken(path, number, text, str(problem)) from problem


def _broken(path: Path, number: int, text: str, why: str) -> InputError:
    return InputError(
        f"{place(str(path), number)}: {text.strip()[:40]!r} is not valid JSON "
        f"({clipped(why.strip())}); each line must hold one JSON object: correct the line, or "
        "write one object per line"
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
    # The csv module has one limit for the whole process, 128 KB by default; it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), min(options.max_document_bytes, sys.maxsize)))
    first = next(lines, "")
    if delimiter is None:
        delimiter = max(_DELIMITERS, key=first.count)
    header = _header(path, first, delimiter)
    rows = _csv_rows(path, lines, header, delimiter, pending)
    yield from documents(rows, str(path), options, header)


def _header(path: Path, first: str, delimiter: str) -> list[str]:
    try:
        fields = next(iter(csv.reader([first], delimiter=delimiter)), [])
    except csv.Error as problem:
        raise _not_csv(path, 1, problem) from problem
    _check_columns(path, 1, len(fields))
    names = [name.strip() for name in fields]
    twice = sorted(name for name, times in Counter(names).items() if times > 1)
    if twice:
        raise InputError(
            f"{place(str(path), 1)}: column {clipped(repr(twice[0]))} occurs twice in the header; "
            "names must be unique: rename one"
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
        raise _not_csv(path, start, problem) from problem


def _not_csv(path: Path, line: int, problem: csv.Error) -> InputError:
    if "new-line" in str(problem):
        return InputError(
            f"{place(str(path), line)}: a line ends in a carriage return alone, as on old "
            "Macintoshes: save the file with other line ends"
        )
    return InputError(
        f"{place(str(path), line)}: the row that starts here is not valid CSV ({problem}): "
        "put fields that hold quotes, line ends or delimiters in quotes, inner ones doubled"
    )


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
        with open(path, "rb", opener=regular) as raw:
            size = os.fstat(raw.fileno()).st_size
            table = _open_parquet(path, raw, size, options)
            names = table.schema_arrow.names
            rows = _parquet_rows(path, table, most_unfolded(size))
            yield from documents(rows, str(path), options, names)
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError, OverflowError) as problem:
        raise InputError(
            f"{path} is not a readable Parquet file ({first_line(problem)}): give a whole "
            "Parquet file, or name the right format (--format)"
        ) from problem


def _open_parquet(path: Path, raw: BinaryIO, size: int, options: Options) -> pq.ParquetFile:
    """The table in an open file: what was looked at is what is read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    source: Any = raw
    if compression(path) is not None:
        # Parquet is read from its end, so a compressed file has to be in memory whole.
        with open_bytes(path, options.max_document_bytes) as stream:
            source = pa.py_buffer(stream.read())
    table = pq.ParquetFile(_again(source))
    about, schema = table.metadata, table.schema_arrow
    _check_columns(path, 1, about.num_columns)
    _check_unfolded(path, about, size)
    # As dictionaries: a value that a thousand rows share is in memory once, as it is in the file.
    kinds = pa.types
    strings = [one.name for one in schema if kinds.is_string(one.type) or kinds.is_binary(one.type)]
    return pq.ParquetFile(_again(source), read_dictionary=strings)


def _again(source: Any) -> Any:
    """An open file, or a reader of bytes in memory from their beginning."""
    import pyarrow as pa

    return pa.BufferReader(source) if isinstance(source, pa.Buffer) else source


def _check_unfolded(path: Path, about: Any, size: int) -> None:
    """Refuse a table that says itself that it has far more in it than its file could hold."""
    most = MOST_SMALL_ROWS + size
    if about.num_rows > most:
        raise InputError(
            f"{path} has {about.num_rows:,} rows in {size:,} bytes; a table of that size may have "
            f"{most:,} rows: give it as CSV, if it is one that you trust"
        )
    # Columns are not asked: of a damaged footer that ends the whole process (pyarrow 26).
    groups = range(about.num_row_groups)
    unpacked = sum(about.row_group(number).total_byte_size for number in groups)
    if unpacked > most_unfolded(size):
        raise unfolds(path, most_unfolded(size))


def _parquet_rows(path: Path, table: pq.ParquetFile, most: int) -> Iterator[Row]:
    number = given = 0
    names = table.schema_arrow.names
    for batch in table.iter_batches(batch_size=_rows_at_once(table.metadata)):
        columns = [_values(column) for column in batch.columns]
        for column in columns:
            given += sum(len(value) for value in column if isinstance(value, (str, bytes)))
        if given > most:
            raise unfolds(path, most)
        for row in zip(*columns, strict=True):
            number += 1
            yield Row(number, dict(zip(names, row, strict=True)))


def _rows_at_once(about: Any) -> int:
    """Rows of a batch: each brings the dictionary of all before it, so there must not be many."""
    groups = range(about.num_row_groups)
    longest = max((about.row_group(number).num_rows for number in groups), default=0)
    return min(max(longest // _BATCHES, _BATCH), _LARGEST_BATCH)


def _values(column: Any) -> list[object]:
    """A column as Python values, each of a dictionary made once."""
    import pyarrow as pa

    if not isinstance(column, pa.DictionaryArray):
        return cast(list[object], column.to_pylist())
    if not column.null_count and len(column.dictionary) <= 2 * len(column):
        every = column.dictionary.to_pylist()
        return [every[place] for place in column.indices.to_pylist()]
    used, places = np.unique(column.indices.fill_null(-1).to_numpy(), return_inverse=True)
    values = column.dictionary.take(pa.array(used[used >= 0])).to_pylist()
    values = [None, *values] if len(used) and used[0] < 0 else values
    return [values[place] for place in places.tolist()]
