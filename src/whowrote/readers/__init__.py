"""One reader per format, and the choice between them: ``path -> documents and notes``.

A reader yields raw texts and notes; ``finish`` decodes, cleans, checks and hashes them. This is
the only place where user files are opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from whowrote.errors import InputError
from whowrote.readers import blogs, folders, pan, tables
from whowrote.readers.files import format_suffix
from whowrote.readers.finishing import finish
from whowrote.readers.records import DEFAULT_MAX_DOCUMENT_BYTES as DEFAULT_MAX_DOCUMENT_BYTES
from whowrote.readers.records import Document as Document
from whowrote.readers.records import Note as Note
from whowrote.readers.records import Options as Options
from whowrote.readers.records import Raw as Raw

Reader = Callable[[Path, Options], Iterator[Raw | Note]]

READERS: dict[str, Reader] = {
    "authors": folders.read_author_folders,
    "flat": folders.read_flat_folder,
    "stylo": folders.read_stylo_folder,
    "text": folders.read_single_text,
    "csv": tables.read_csv,
    "tsv": tables.read_tsv,
    "jsonl": tables.read_jsonl,
    "amazon": tables.read_jsonl,
    "parquet": tables.read_parquet,
    "blogs": blogs.read_blogs,
    "pan-attribution": pan.read_attribution,
    "pan-verification": pan.read_verification,
}
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
    _check_format(path, format)
    return finish(READERS[format or detect(path, options)](path, options), options, unique=unique)


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
    if blogs.is_blog_name(path.name):
        return "blogs"
    found = _BY_SUFFIX.get(format_suffix(path), "text")
    if found == "jsonl":
        first = next(tables.json_rows(path, options), None)
        if first and "pair" in first.values and not options.text_column:
            return "pan-verification"
    return found


def _detect_folder(path: Path) -> str:
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
    if any(blogs.is_blog_name(file.name) for file in files):
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
