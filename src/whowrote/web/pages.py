"""Pages, forms and files: templates with autoescape, cookies, the mark of our own page, uploads.

Files that came over the network become texts, ``(name, bytes) -> Corpus``, in memory alone: plain
texts, Word, PDF and the other kinds that :mod:`whowrote.corpus.office` reads, and ZIP archives of
them, with folders. Names are only names: nothing is unpacked to disk, no path opened.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path, PurePosixPath
from secrets import compare_digest, token_urlsafe
from typing import Any
from urllib.parse import quote

from fastapi import Request, Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from sse_starlette.sse import EventSourceResponse
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import FormParser, MultiPartException, MultiPartParser

from whowrote import __version__
from whowrote.corpus.documents import FILE_HASH, Document, Note, Options, Raw, is_binary
from whowrote.corpus.folders import UNKNOWN, is_stylo
from whowrote.corpus.formats import finish
from whowrote.corpus.office import SUFFIXES, extract
from whowrote.corpus.texts import Corpus
from whowrote.errors import InputError, first_line
from whowrote.formatting import count, fine_percent, percent
from whowrote.ratios import as_ratio
from whowrote.web.api import engine_of
from whowrote.web.engine import Engine
from whowrote.web.limits import SESSION, TOKEN, Limits, RefusalError, too_large
from whowrote.web.processes import Job

VIEWS = (
    ("/", "Ask"),
    ("/compare", "Compare"),
    ("/case", "Case"),
    ("/train", "Train"),
    ("/card", "Model"),
)
"""The views in the order of the navigation; a view is added by a line here and its routes."""


class InMemory(MultiPartParser):
    """Uploads stay in memory, however large: a temporary file would be a text on disk."""

    spool_max_size = 2**62


TURNS = dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)], "\ufffd")
"""Signs that turn the direction of whatever follows: a name must not turn our sentences."""


def unturned(value: Any) -> Any:
    """What a template writes, with those signs made visible.

    >>> unturned("a" + chr(0x202E) + "b"), unturned(3)
    ('a\ufffdb', 3)
    """
    if isinstance(value, Markup):
        return Markup(str(value).translate(TURNS))
    return value.translate(TURNS) if isinstance(value, str) else value


@cache
def templates() -> Environment:
    """The templates; whatever they write is escaped."""
    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        finalize=unturned,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"percent": percent, "fine": fine_percent, "ratio": as_ratio}
    made.globals |= {"count": count, "version": __version__, "views": VIEWS}
    return made


def rendered(name: str, /, **values: Any) -> str:
    """A template with values; half characters, which no page may hold, become a mark."""
    text = templates().get_template(name).render(values)
    return text.encode("utf-8", "replace").decode()


def page(request: Request, name: str, /, **values: Any) -> Response:
    """A whole page, with the mark that its forms must bear."""
    access, model = request.app.state.access, engine_of(request).model
    session = request.cookies.get(SESSION) or token_urlsafe(24)
    html = rendered(
        name,
        csrf=access.csrf(session),
        here=f"/{request.url.path.split('/')[1]}",
        model=model,
        model_name=_model_name(engine_of(request)),
        limits=request.app.state.limits,
        **values,
    )
    response = HTMLResponse(html)
    response.set_cookie(SESSION, session, httponly=True, samesite="strict")
    if access.token is not None and request.query_params.get("token") == access.token:
        response.set_cookie(TOKEN, access.token, httponly=True, samesite="strict")
    return response


def watched(job: Job, template: str) -> EventSourceResponse:
    """The state of a job whenever it changes, with a template of it."""

    async def states() -> AsyncIterator[dict[str, str]]:
        async for state in job.watch():
            html = rendered(template, job=job, state=state)
            yield {"event": "state", "data": json.dumps({**state, "html": html})}

    return EventSourceResponse(states())


def _model_name(engine: Engine) -> str:
    return "" if engine.path is None else engine.path.name.removesuffix(".model")


async def form_of(request: Request) -> FormData:
    """The fields and files of a form of our own page, in memory."""
    kind = request.headers.get("content-type", "")
    try:
        if kind.startswith("multipart/form-data"):
            most = {"max_files": 20_000, "max_fields": 100, "max_part_size": 12_000_000}
            form = await InMemory(request.headers, request.stream(), **most).parse()
        else:
            form = await FormParser(request.headers, request.stream()).parse()
    except (MultiPartException, KeyError) as problem:
        raise RefusalError(422, "the form cannot be read: load the page again") from problem
    access, session = request.app.state.access, request.cookies.get(SESSION, "")
    given = str(form.get("csrf", ""))
    if not session or not compare_digest(given.encode(), access.csrf(session).encode()):
        raise RefusalError(403, "the form is not from this page, or is old: load the page again")
    return form


async def uploads_of(form: FormData, field: str) -> list[Upload]:
    """The files of a field."""
    found = []
    for one in form.getlist(field):
        if isinstance(one, UploadFile):
            if one.filename:
                found.append(Upload(one.filename, await one.read()))
            await one.close()
    return found


def download(html: str, name: str) -> Response:
    """A page as a file to keep."""
    return HTMLResponse(html, headers=attachment(name))


def attachment(name: str) -> dict[str, str]:
    """The header of a file to keep; no name of a user can break out of it."""
    safe = quote(name.replace("/", " "), safe="")
    return {"content-disposition": f"attachment; filename*=UTF-8''{safe}"}


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
