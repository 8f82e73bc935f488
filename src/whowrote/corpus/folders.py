"""Folders of texts: a sub-folder per author, a flat one, ``Author_Title.txt`` names, or blogs.

The Blog Authorship Corpus as published (Schler, Koppel, Argamon and Pennebaker, 2006) has one file
per blogger, ``NUMBER.gender.age.industry.sign.xml``, with ``<date>`` and ``<post>`` in turn. The
files are not well-formed XML and mix encodings from post to post, so the posts are cut out of the
bytes and decoded one by one.
"""

from __future__ import annotations

import html
import os
import re
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from whowrote.corpus.documents import Note, NoteKind, Options, Raw, is_binary, name_of, to_text
from whowrote.corpus.office import SUFFIXES, UNFOLDED, UnreadableError, extract
from whowrote.corpus.sources import binary, format_suffix, read_whole
from whowrote.errors import InputError

UNKNOWN = "unknown"
# Markup and tables are text to a computer but not an author's prose.
_NOT_PROSE = frozenset({".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".parquet"})


def visible(folder: Path) -> list[Path]:
    """The entries of a folder in a fixed order; hidden ones are no documents."""
    return [entry for entry, _ in _listed(folder)]


def _listed(folder: Path) -> list[tuple[Path, bool]]:
    """Its visible entries, and whether each is a folder, which the listing mostly knows by itself.

    A circle of links is none.
    """
    with os.scandir(folder) as found:
        kinds = {
            entry.name: Path(entry.path).is_dir() if entry.is_symlink() else entry.is_dir()
            for entry in found
            if not entry.name.startswith(".")
        }
    return [(folder / name, kinds[name]) for name in sorted(kinds)]


def files_below(folder: Path) -> Iterator[Path]:
    """Every visible file of a folder and its sub-folders, in a fixed order."""
    return (entry for entry, is_folder in _below(folder, set()) if not is_folder)


def entries_below(folder: Path, seen: set[Inode]) -> Iterator[Path]:
    """Every visible file below, and every folder that links lead to once more (not entered)."""
    return (entry for entry, _ in _below(folder, seen))


def _below(folder: Path, seen: set[Inode]) -> Iterator[tuple[Path, bool]]:
    ahead = [(folder, folder.is_dir())]
    while ahead:
        entry, is_folder = ahead.pop()
        if is_folder and inode(entry) not in seen:
            seen.add(inode(entry))
            ahead += reversed(_listed(entry))
        else:
            yield entry, is_folder


Inode = tuple[int, int]


def inode(folder: Path) -> Inode:
    """What a folder is, whatever path leads to it: links may form circles."""
    found = folder.stat()
    return found.st_dev, found.st_ino


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
    return name_of(name.split("_", 1)[0])


def read_author_folders(path: Path, options: Options) -> Iterator[Raw | Note]:
    """A sub-folder per author, of any depth; a sub-folder named ``unknown`` has no author."""
    seen = {inode(path)}
    for entry in visible(path):
        if entry.is_dir():
            author = None if entry.name.lower() == UNKNOWN else name_of(entry.name)
            for file in entries_below(entry, seen):
                yield read_text_file(file, path, author, options)
        else:
            yield _skip(entry, path, "not-text", "lies beside the authors' folders: skipped")


def read_flat_folder(path: Path, options: Options) -> Iterator[Raw | Note]:
    """A folder of texts whose authors are unknown."""
    for file in entries_below(path, set()):
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
    if format_suffix(path) in SUFFIXES:
        yield _office(path, data, None, name_of(path.name), options, {})
        return
    if is_binary(data):
        raise binary(path)
    yield Raw(data, None, name_of(path.name), str(path))


def read_text_file(
    file: Path,
    root: Path,
    author: str | None,
    options: Options,
    metadata: dict[str, object] | None = None,
) -> Raw | Note:
    """One file among others: a raw text, or a note that it is no text."""
    mode = _mode(file)
    if stat.S_ISDIR(mode):
        return _skip(file, root, "not-text", "a link to a folder that is read elsewhere: skipped")
    if mode and not stat.S_ISREG(mode):
        return _skip(file, root, "not-text", "a pipe or a device, no regular file: skipped")
    suffix = format_suffix(file)
    if suffix in _NOT_PROSE:
        return _skip(file, root, "not-text", f"a {suffix} file is not plain text: skipped")
    data = read_whole(file, options.max_document_bytes)
    if suffix in SUFFIXES:
        try:
            return _office(file, data, author, identity(file, root), options, metadata or {})
        except UnreadableError as problem:
            return _skip(file, root, "not-text", f"{problem} (skipped)")
    if is_binary(data):
        return _skip(file, root, "binary", "a binary file, not text: skipped")
    return Raw(data, author, identity(file, root), str(file), metadata=metadata or {})


def _mode(file: Path) -> int:
    """What a file is, links followed; 0 where there is none."""
    try:
        return file.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0


def _office(
    file: Path,
    data: bytes,
    author: str | None,
    name: str,
    options: Options,
    metadata: dict[str, object],
) -> Raw:
    """The prose of a document that is no plain text, with a note on what was left out."""
    found = extract(data, format_suffix(file), str(file), options)
    remark = found.remark()
    notes = (Note("left-out", remark, str(file), None, name),) if remark else ()
    return Raw(found.text, author, name, str(file), metadata=metadata, notes=notes)


def identity(file: Path, root: Path) -> str:
    """A document's id: its path below the corpus, with forward slashes on every system."""
    # Some file systems decompose accents.
    return name_of("/".join(file.parts[len(root.parts) :]))


def _skip(file: Path, root: Path, kind: NoteKind, message: str) -> Note:
    return Note(kind, message, str(file), None, identity(file, root))


# -- the Blog Authorship Corpus ------------------------------------------------------------------

_NAME = re.compile(
    r"(?P<number>\d+)\.(?P<gender>[A-Za-z]+)\.(?P<age>\d+)\.(?P<industry>[^.]+)\.(?P<sign>[^.]+)\.xml",
    re.IGNORECASE,
)
# A post ends at its closing tag or, where that was forgotten, before the next date or the end.
_POST = re.compile(
    rb"(?:<date>(?P<date>[^<]*)</date>\s*)?"
    rb"<post>(?P<text>.*?)(?P<end></post>|(?=<date>|<post>)|</Blog>|\Z)",
    re.DOTALL,
)


def is_blog_name(name: str) -> bool:
    """Whether a file is named like the corpus names them.

    >>> is_blog_name("1000331.female.37.indUnk.Leo.xml"), is_blog_name("letters.xml")
    (True, False)
    """
    return _NAME.fullmatch(name) is not None


def read_blogs(path: Path, options: Options) -> Iterator[Raw | Note]:
    """A folder of bloggers' files, or one such file; author is the blogger's number."""
    files = [path] if path.is_file() else list(files_below(path))
    if not any(is_blog_name(file.name) for file in files):
        raise InputError(
            f"{path} has no file of the Blog Authorship Corpus; each must be named "
            "NUMBER.gender.age.industry.sign.xml: give the folder of the published files, or "
            "another format (--format)"
        )
    for file in files:
        if is_blog_name(file.name):
            yield from _read_blogger(file, UNFOLDED * options.max_document_bytes)
        else:
            message = f"a {format_suffix(file) or 'nameless'} file among the blogs: skipped"
            yield Note("not-text", message, str(file))


def _read_blogger(file: Path, limit: int) -> Iterator[Raw | Note]:
    name = _NAME.fullmatch(file.name)
    about: dict[str, object] = name.groupdict() if name else {}
    number = str(about.pop("number"))
    count = 0
    for count, post in enumerate(_posts(file, limit), start=1):
        identity = f"{number}/{count:04d}"
        text = to_text(post.text)
        for repair in text.repairs:
            yield Note(repair.kind, repair.message, str(file), post.line, identity)
        if not post.closed:
            message = "a post without </post>: it was ended at the next tag"
            yield Note("unclosed", message, str(file), post.line, identity)
        yield Raw(
            text=html.unescape(text.text),
            author=number,
            id=identity,
            file=str(file),
            line=post.line,
            metadata={**about, "date": post.date},
        )
    if not count:
        yield Note("empty", "a blogger's file without <post>: skipped", str(file))


@dataclass(frozen=True, slots=True)
class _Post:
    line: int
    date: str | None
    text: bytes
    closed: bool


def _posts(file: Path, limit: int) -> Iterator[_Post]:
    data = read_whole(file, limit)
    line, counted = 1, 0
    for found in _POST.finditer(data):
        line += data.count(b"\n", counted, found.start("text"))
        counted = found.start("text")
        date = to_text(found["date"] or b"").text.strip() or None
        yield _Post(line, date, found["text"].strip(), found["end"] == b"</post>")
