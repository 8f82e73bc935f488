"""Files that came over the network, as texts: ``(name, bytes) -> Corpus``, in memory alone.

Plain texts, Word, PDF and the other kinds that :mod:`whowrote.corpus.office` reads, and ZIP
archives of them, with folders. Names are only names: nothing is unpacked to disk, no path opened.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import PurePosixPath

from whowrote.corpus.documents import FILE_HASH, Document, Note, Options, Raw, is_binary
from whowrote.corpus.folders import UNKNOWN, is_stylo
from whowrote.corpus.formats import finish
from whowrote.corpus.office import SUFFIXES, extract
from whowrote.corpus.texts import Corpus
from whowrote.errors import InputError, first_line
from whowrote.web.limits import Limits, RefusalError, too_large

TABLES = frozenset({".csv", ".tsv", ".json", ".jsonl", ".parquet"})
MOST_FILES = 20_000


@dataclass(frozen=True)
class Upload:
    """A file as a client sent it: its name, with folders if it had some, and its bytes."""

    name: str
    data: bytes


def unpacked(uploads: Iterable[Upload], limits: Limits) -> list[Upload]:
    """The files themselves, archives opened; hidden ones and what packers add are left out."""
    found: list[Upload] = []
    room = limits.upload_bytes
    for upload in uploads:
        if not upload.name.lower().endswith(".zip"):
            found.append(upload)
            continue
        for one in _members(upload, room):
            room -= len(one.data)
            found.append(one)
    if len(found) > MOST_FILES:
        raise RefusalError(
            413, f"there are {len(found):,} files and the limit is {MOST_FILES:,}: send fewer"
        )
    return [one for one in found if not _hidden(one.name)]


def _members(upload: Upload, room: int) -> Iterator[Upload]:
    """Files of an archive that unfolds to no more than there is room for."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(upload.data))
        every = [one for one in archive.infolist() if not one.is_dir()]
        size = sum(one.file_size for one in every)
        if size > room or len(every) > MOST_FILES:
            raise too_large(f"{upload.name} unpacked", size, room, "send fewer or shorter texts")
        for one in every:
            if not _hidden(one.filename):
                with archive.open(one) as entry:  # no more than it declares: a bomb lies about it
                    yield Upload(one.filename, entry.read(one.file_size))
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError, EOFError, OSError) as problem:
        raise InputError(
            f"{upload.name} cannot be read as .zip ({first_line(problem)[:120]}): pack it again, "
            "without a password"
        ) from problem


def _hidden(name: str) -> bool:
    parts = PurePosixPath(name.replace("\\", "/")).parts
    return any(part.startswith((".", "__MACOSX")) and part != ".." for part in parts)


def questioned_texts(uploads: Sequence[Upload], pasted: str, limits: Limits) -> Corpus:
    """The texts to ask about: each file one, and what was pasted, in their order."""
    options = Options(max_document_bytes=limits.body_bytes)
    found: list[Document | Note] = []
    files = unpacked(uploads, limits)
    if pasted.strip():
        found += finish([Raw(pasted, None, "pasted text", "pasted text")], options)
    names = _unique([one.name for one in files])
    raws = (
        _raw(one, name, None, options, alone=len(files) == 1)
        for one, name in zip(files, names, strict=True)
    )
    found += finish(raws, options)
    corpus = Corpus.from_documents(found)
    if not corpus:
        why = f" ({corpus.notes[0].message})" if corpus.notes else ""
        raise InputError(
            f"no text was found{why}: paste one, or drop .txt, .md, .docx, .pdf or .zip files"
        )
    return corpus


def labelled_texts(uploads: Sequence[Upload], limits: Limits) -> Corpus:
    """The texts to learn from: the folder of a text is its author, or ``Austen_Emma.txt`` is."""
    options = Options(max_document_bytes=limits.body_bytes)
    files = unpacked(uploads, limits)
    if not files:
        raise InputError(
            "no file was sent; learning needs texts: drop a folder or .zip with a folder of texts "
            "for each author"
        )
    names = _unique([one.name for one in files])
    paths = _below_root([PurePosixPath(name) for name in names])
    authors = _authors(paths)
    raws = (
        _raw(one, str(path), author, options, alone=False)
        for one, path, author in zip(files, paths, authors, strict=True)
    )
    return Corpus.from_documents(finish(raws, options))


def _raw(
    upload: Upload, name: str, author: str | None, options: Options, *, alone: bool
) -> Raw | Note:
    """One file: a raw text, or a note that it is none; a file sent alone must be one."""
    suffix = PurePosixPath(name).suffix.lower()
    about = {FILE_HASH: sha256(upload.data).hexdigest()}
    try:
        if suffix in TABLES:
            raise InputError(
                f"{name} is a table, which this page does not read: use `whowrote train` or "
                "`whowrote attribute` on it"
            )
        if suffix in SUFFIXES:
            prose = extract(upload.data, suffix, name, options)
            remark = prose.remark()
            notes = (Note("left-out", remark, name, None, name),) if remark else ()
            return Raw(prose.text, author, name, name, metadata=about, notes=notes)
        if is_binary(upload.data):
            raise InputError(f"{name} is a binary file, not text: save it as plain text")
    except InputError as problem:
        if alone:
            raise
        return Note("not-text", f"{problem} (skipped)", name, None, name)
    return Raw(upload.data, author, name, name, metadata=about)


def _unique(names: Sequence[str]) -> list[str]:
    r"""Names with forward slashes, numbered where two are the same.

    >>> _unique(["a.txt", "b\\c.txt", "a.txt"])
    ['a.txt', 'b/c.txt', 'a (2).txt']
    """
    found: dict[str, None] = {}
    for name in names:
        path = PurePosixPath(name.replace("\\", "/").lstrip("/") or "text")
        wanted, number = str(path), 1
        while wanted in found:
            number += 1
            wanted = str(path.with_stem(f"{path.stem} ({number})"))
        found[wanted] = None
    return list(found)


def _below_root(paths: Sequence[PurePosixPath]) -> list[PurePosixPath]:
    """Without the one folder that holds everything, as long as folders are left below it."""
    while len({path.parts[0] for path in paths}) == 1 and all(len(p.parts) > 2 for p in paths):
        paths = [PurePosixPath(*path.parts[1:]) for path in paths]
    if len({path.parts[0] for path in paths}) == 1 and all(len(p.parts) == 2 for p in paths):
        paths = [PurePosixPath(path.name) for path in paths]  # a folder of files: no author folders
    return list(paths)


def _authors(paths: Sequence[PurePosixPath]) -> list[str | None]:
    if all(len(path.parts) == 1 for path in paths):
        by_name = is_stylo([path.name for path in paths])
        return [path.name.split("_")[0] if by_name else None for path in paths]
    named = [path.parts[0] if len(path.parts) > 1 else None for path in paths]
    return [None if name is None or name.lower() == UNKNOWN else name for name in named]
