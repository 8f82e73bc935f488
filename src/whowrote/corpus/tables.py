"""Tables, streamed: CSV, TSV, one JSON object per line, Parquet; ``path -> raw texts and notes``.

Which column holds the text, the author, the id and the group is as told, or as names suggest.
"""

from __future__ import annotations

import ast
import csv
import json
import math
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, cast

from whowrote.corpus.documents import (
    Line,
    Note,
    Options,
    Raw,
    Repair,
    compression,
    open_bytes,
    place,
    read_lines,
    to_text,
)
from whowrote.errors import InputError, first_line

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
    return ", ".join(map(repr, found)) or "no columns"


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
    columns = settle(header, options, file)
    for number, row in enumerate(rows, start=1):
        identity = _identity(row, number, columns, file)
        for note in row.notes:
            yield replace(note, document=identity)
        yield _document(row, identity, columns, file)


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
        return unicodedata.normalize("NFC", str(value)).strip() or None
    raise _wrong(role, str(name), value, file, row.line, "a string or a number")


def _wrong(
    role: str, name: str, value: object, file: str, line: int, requirement: str
) -> InputError:
    return InputError(
        f"{place(file, line)}: {name!r} is {str(value)[:40]!r} ({type(value).__name__}) and must "
        f"be {requirement}: correct it, or name another column with {role}_column (--{role}-column)"
    )


# -- rows of each kind of file -------------------------------------------------------------------

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
            f"{path} is not a readable Parquet file ({first_line(problem)}): give a whole "
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
