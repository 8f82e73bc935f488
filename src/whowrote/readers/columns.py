"""Which column holds the text, the author, the id and the group: as told, or as names suggest."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice

from whowrote.errors import InputError
from whowrote.readers.records import Note, Options, Raw, place

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
