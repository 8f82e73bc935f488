"""From what a reader found to what a corpus holds: decode, clean, check, hash."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from whowrote.decoding import Decoded, clean, decode
from whowrote.errors import InputError
from whowrote.readers.files import too_large
from whowrote.readers.records import Document, Note, Options, Raw, place


def finish(
    found: Iterable[Raw | Note], options: Options, *, unique: bool = False
) -> Iterator[Document | Note]:
    """Turn each raw text into a document, or into a note that says why it is none."""
    seen: dict[str, str] = {}
    for item in found:
        if isinstance(item, Note):
            yield item
            continue
        if unique:
            _check_new(item, seen)
        yield from _finish_one(item, options)


def _check_new(raw: Raw, seen: dict[str, str]) -> None:
    here = place(raw.file, raw.line)
    before = seen.setdefault(raw.id, here)
    if before != here:
        raise InputError(
            f"{here}: id {raw.id!r} was already used at {before}; ids must be unique: correct "
            "them, name another column with id_column (--id-column), or number the documents with "
            "id_column='' (--id-column '')"
        )


def _finish_one(raw: Raw, options: Options) -> Iterator[Document | Note]:
    decoded = clean(raw.text) if isinstance(raw.text, str) else decode(raw.text)
    data = decoded.text.encode("utf-8")
    if len(data) > options.max_document_bytes:
        raise too_large(raw.file, raw.line, len(data), options.max_document_bytes, "document")
    yield from _repairs(raw, decoded)
    if not decoded.text or decoded.text.isspace():
        yield Note("empty", "the text is empty: skipped", raw.file, raw.line, raw.id)
        return
    yield Document(
        text=decoded.text,
        author=raw.author,
        id=raw.id,
        group=_group(raw, options),
        metadata=raw.metadata,
        sha256=hashlib.sha256(data).hexdigest(),
    )


def _repairs(raw: Raw, decoded: Decoded) -> Iterator[Note]:
    for repair in decoded.repairs:
        yield Note(repair.kind, repair.message, raw.file, raw.line, raw.id)


def _group(raw: Raw, options: Options) -> str:
    """The group that the source gives, else the metadata entry that the user named, else the id."""
    if raw.group is not None:
        return raw.group
    name = options.group_column
    if not name:
        return raw.id
    if name not in raw.metadata:
        raise InputError(
            f"{place(raw.file, raw.line)}: group column {name!r} is missing; found "
            f"{', '.join(map(repr, raw.metadata)) or 'no metadata'}: name one of these with "
            "group_column (--group-column)"
        )
    value = raw.metadata[name]
    return raw.id if value is None else str(value)
