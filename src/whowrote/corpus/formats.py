"""One reader per format, and the choice between them: ``path -> documents and notes``.

A reader yields raw texts and notes; ``finish`` decodes, cleans, checks and hashes them, each text
once. A reader's module is imported when its format is read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from whowrote.corpus.documents import (
    Decoded,
    Document,
    Note,
    Options,
    Raw,
    clean,
    decode,
    name_of,
    place,
)
from whowrote.corpus.sources import format_suffix, require_regular, too_large
from whowrote.errors import InputError
from whowrote.formatting import quoted

Reader = Callable[[Path, Options], Iterator[Raw | Note]]

READERS = {
    "authors": "folders.read_author_folders",
    "flat": "folders.read_flat_folder",
    "stylo": "folders.read_stylo_folder",
    "text": "folders.read_single_text",
    "csv": "tables.read_csv",
    "tsv": "tables.read_tsv",
    "jsonl": "tables.read_jsonl",
    "amazon": "tables.read_jsonl",
    "parquet": "tables.read_parquet",
    "blogs": "folders.read_blogs",
    "pan-attribution": "pan.read_attribution",
    "pan-verification": "pan.read_verification",
}
"""The module and the function that read each format."""
_OF_FOLDERS = frozenset({"authors", "flat", "stylo", "pan-attribution"})
_OF_EITHER = frozenset({"blogs", "pan-verification"})
_BY_SUFFIX = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".json": "jsonl",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}


def read(
    path: Path, options: Options, format: str | None = None, *, unique: bool = False
) -> Iterator[Document | Note]:
    """Read a corpus of any known format; ``unique`` remembers all ids and refuses a second use."""
    if not path.exists():
        raise InputError(
            f"{path} does not exist; a corpus is a file or a folder of texts: check the path"
        )
    if not path.is_dir():
        require_regular(path)
    _check_format(path, format)
    found = reader(format or detect(path, options))(path, options)
    return finish(found, options, unique=unique)


def reader(format: str) -> Reader:
    """The function that reads a format.

    >>> reader("csv").__name__
    'read_csv'
    """
    module, name = READERS[format].split(".")
    found: Reader = getattr(import_module(f"whowrote.corpus.{module}"), name)
    return found


def _check_format(path: Path, format: str | None) -> None:
    if format is None:
        return
    if format not in READERS:
        raise InputError(
            f"format {format!r} is unknown; it must be one of {', '.join(READERS)}: choose one, or "
            "leave it out and it is detected"
        )
    if format not in _OF_EITHER and (format in _OF_FOLDERS) != path.is_dir():
        needed, given = ("folder", "file") if format in _OF_FOLDERS else ("file", "folder")
        raise InputError(
            f"{path} is a {given} and format {format!r} needs a {needed}: give a {needed}, or "
            "another format (--format)"
        )


def detect(path: Path, options: Options) -> str:
    """The format of a file or a folder, from names alone where they suffice."""
    return _detect_folder(path) if path.is_dir() else _detect_file(path, options)


def _detect_file(path: Path, options: Options) -> str:
    from whowrote.corpus import folders

    if folders.is_blog_name(path.name):
        return "blogs"
    found = _BY_SUFFIX.get(format_suffix(path), "text")
    if found == "jsonl":
        from whowrote.corpus import tables

        first = next(tables.json_rows(path, options), None)
        if first and "pair" in first.values and not options.text_column:
            return "pan-verification"
    return found


def _detect_folder(path: Path) -> str:
    from whowrote.corpus import folders, pan

    entries = folders.visible(path)
    if pan.is_problem(path) or pan.is_collection(path):
        return "pan-attribution"
    if pan.pair_files(path):
        return "pan-verification"
    files = list(folders.files_below(path))
    if not files:
        raise InputError(
            f"{path} is an empty folder; a corpus needs at least one text: put texts into it, one "
            "sub-folder per author"
        )
    if any(folders.is_blog_name(file.name) for file in files):
        return "blogs"
    if any(entry.is_dir() and any(folders.files_below(entry)) for entry in entries):
        return "authors"
    _refuse_tables(path, files)
    return "stylo" if folders.is_stylo([file.name for file in files]) else "flat"


def _refuse_tables(path: Path, files: list[Path]) -> None:
    """A folder of tables alone is more likely a wrong path than a corpus of texts."""
    if all(format_suffix(file) in _BY_SUFFIX for file in files):
        raise InputError(
            f"{path} holds tables and no text ({files[0].name}, {len(files)} in all); one table is "
            "one corpus: name the file itself"
        )


# -- from what a reader found to what a corpus holds: decode, clean, check, hash -----------------


def finish(
    found: Iterable[Raw | Note], options: Options, *, unique: bool = False
) -> Iterator[Document | Note]:
    """Turn each raw text into a document, or into a note that says why it is none."""
    seen: dict[str, str] = {}
    for item in found:
        if isinstance(item, Note):
            yield item
            continue
        named = _named(item)
        if unique:
            _check_new(named, seen)
        decoded = clean(named.text) if isinstance(named.text, str) else decode(named.text)
        yield from named.notes
        if decoded.repairs:
            yield from _repairs(named, decoded)
        yield _finished(named, decoded, options)


def _named(raw: Raw) -> Raw:
    """With names in their one form; nearly all are."""
    author = None if raw.author is None else name_of(raw.author)
    identity = name_of(raw.id)
    if author == raw.author and identity == raw.id:
        return raw
    return replace(raw, author=author, id=identity)


def _check_new(raw: Raw, seen: dict[str, str]) -> None:
    here = place(raw.file, raw.line)
    before = seen.setdefault(raw.id, here)
    if before != here:
        raise InputError(
            f"{here}: id {raw.id!r} was already used at {before}; ids must be unique: correct "
            "them, name another column with id_column (--id-column), or number the documents with "
            "id_column='' (--id-column '')"
        )


def _finished(raw: Raw, decoded: Decoded, options: Options) -> Document | Note:
    data = decoded.text.encode("utf-8")
    if len(data) > options.max_document_bytes:
        raise too_large(raw.file, raw.line, len(data), options.max_document_bytes, "document")
    if not decoded.text or decoded.text.isspace():
        return Note("empty", "the text is empty: skipped", raw.file, raw.line, raw.id)
    group = _group(raw, options)
    return Document(
        text=decoded.text,
        author=raw.author,
        id=raw.id,
        group=group if group is raw.id else name_of(group),
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
            f"{quoted(raw.metadata) or 'no metadata'}: name one of these with "
            "group_column (--group-column)"
        )
    value = raw.metadata[name]
    return raw.id if value is None else str(value)
