"""Folders of plain texts: a sub-folder per author, a flat folder, or ``Author_Title.txt`` names."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from whowrote.decoding import is_binary
from whowrote.errors import InputError
from whowrote.readers.files import binary, format_suffix, read_whole
from whowrote.readers.records import Note, NoteKind, Options, Raw

UNKNOWN = "unknown"
# Markup and tables are text to a computer but not an author's prose.
_NOT_PROSE = frozenset(
    {".xml", ".tei", ".html", ".htm", ".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".parquet"}
)


def visible(folder: Path) -> list[Path]:
    """The entries of a folder in a fixed order; hidden ones are no documents."""
    return sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))


def files_below(folder: Path) -> Iterator[Path]:
    """Every visible file of a folder and its sub-folders, in a fixed order."""
    for entry in visible(folder):
        if entry.is_dir():
            yield from files_below(entry)
        else:
            yield entry


def is_stylo(names: list[str]) -> bool:
    """Whether all names are ``Author_Title`` and at least one author has two texts.

    >>> is_stylo(["Austen_Emma.txt", "Austen_Persuasion.txt", "Bronte_Villette.txt"])
    True
    >>> is_stylo(["chapter_1.txt", "preface.txt"]), is_stylo(["a_1.txt", "b_1.txt"])
    (False, False)
    """
    if not all("_" in name.lstrip("_") for name in names):
        return False
    return max(Counter(map(_stylo_author, names)).values(), default=0) > 1


def _stylo_author(name: str) -> str:
    return unicodedata.normalize("NFC", name.split("_", 1)[0])


def read_author_folders(path: Path, options: Options) -> Iterator[Raw | Note]:
    """A sub-folder per author, of any depth; a sub-folder named ``unknown`` has no author."""
    for entry in visible(path):
        if entry.is_dir():
            author = None if entry.name.lower() == UNKNOWN else _label(entry.name)
            for file in files_below(entry):
                yield read_text_file(file, path, author, options)
        else:
            yield _skip(entry, path, "not-text", "lies beside the authors' folders: skipped")


def read_flat_folder(path: Path, options: Options) -> Iterator[Raw | Note]:
    """A folder of texts whose authors are unknown."""
    for file in files_below(path):
        yield read_text_file(file, path, None, options)


def read_stylo_folder(path: Path, options: Options) -> Iterator[Raw | Note]:
    """A folder of texts named ``Author_Title.txt``, the convention of the stylo package."""
    for file in files_below(path):
        if "_" not in file.name:
            raise InputError(
                f"{file}: the name has no underscore; each must be Author_Title.txt: rename it, or "
                "read the folder as texts of unknown authorship (--format flat)"
            )
        title = file.name.split("_", 1)[1].split(".")[0]
        author = _stylo_author(file.name)
        yield read_text_file(file, path, author, options, {"title": title})


def read_single_text(path: Path, options: Options) -> Iterator[Raw | Note]:
    """One text file, named directly, of unknown authorship."""
    data = read_whole(path, options.max_document_bytes)
    if is_binary(data):
        raise binary(path)
    yield Raw(data, None, _label(path.name), str(path))


def read_text_file(
    file: Path,
    root: Path,
    author: str | None,
    options: Options,
    metadata: dict[str, object] | None = None,
) -> Raw | Note:
    """One file among others: a raw text, or a note that it is no text."""
    suffix = format_suffix(file)
    if suffix in _NOT_PROSE:
        return _skip(file, root, "not-text", f"a {suffix} file is not plain text: skipped")
    data = read_whole(file, options.max_document_bytes)
    if is_binary(data):
        return _skip(file, root, "binary", "a binary file, not text: skipped")
    return Raw(data, author, identity(file, root), str(file), metadata=metadata or {})


def identity(file: Path, root: Path) -> str:
    """A document's id: its path below the corpus, with forward slashes on every system."""
    return _label(file.relative_to(root).as_posix())


def _label(name: str) -> str:
    return unicodedata.normalize("NFC", name)  # some file systems decompose accents


def _skip(file: Path, root: Path, kind: NoteKind, message: str) -> Note:
    return Note(kind, message, str(file), None, identity(file, root))
