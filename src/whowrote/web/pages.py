"""Pages, fragments and forms: templates with autoescape, cookies, and the mark of our own page."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from secrets import compare_digest, token_urlsafe
from typing import Any
from urllib.parse import quote

from fastapi import Request, Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import FormParser, MultiPartException, MultiPartParser

from whowrote import __version__
from whowrote.formatting import count, fine_percent, percent
from whowrote.ratios import as_ratio
from whowrote.web.api import engine_of
from whowrote.web.engine import Engine
from whowrote.web.limits import SESSION, TOKEN, RefusalError
from whowrote.web.uploads import Upload

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
