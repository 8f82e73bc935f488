"""The server: one guard before everything, the interface, the page.

The guard looks at each request before anybody reads it: is it meant for this host, does it bear
the token where one is demanded, does it come from our own page, is it too large, has its sender too
many open already. It adds the headers by which a browser runs nothing but our own script.
"""

from __future__ import annotations

import hmac
import re
import socket
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from time import perf_counter
from typing import Any
from urllib.parse import parse_qs, urlsplit

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from whowrote import __version__
from whowrote.errors import InputError, first_line
from whowrote.web import api
from whowrote.web.engine import Counts, Engine
from whowrote.web.limits import TOKEN, Access, Limits, RefusalError, too_large

HERE = Path(__file__).parent
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; frame-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
UPLOADS = re.compile(r"/train/audit|/case/[^/]+/add")
"""Where a whole corpus may come in."""
OPEN = ("/health",)
"""What is told without a token."""

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Guard:
    """Looks at each request before the application, and at each answer behind it."""

    def __init__(self, app: Any, access: Access, limits: Limits, counts: Counts) -> None:
        self.app, self.access, self.limits, self.counts = app, access, limits, counts
        self.open: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = perf_counter(), 500
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        client = (scope.get("client") or ("", 0))[0]

        over: list[RefusalError] = []
        told = False

        async def secured(message: Message) -> None:
            nonlocal status, told
            if over:  # whatever was made of a body that broke off is not the answer
                await refused(over.pop())(scope, receive, secured)
                told = True
            if told:
                return
            if message["type"] == "http.response.start":
                status = message["status"]
                had = {name for name, _ in message.get("headers", ())}
                more = [
                    (k.encode(), v.encode()) for k, v in HEADERS.items() if k.encode() not in had
                ]
                message["headers"] = [*message.get("headers", ()), *more]
            await send(message)

        self.open[client] += 1
        try:
            self._check(scope, headers, client)
            await self.app(scope, self._counted(receive, scope["path"], over), secured)
        except RefusalError as refusal:
            over.clear()
            await refused(refusal)(scope, receive, secured)
        finally:
            self.open[client] -= 1
            if not self.open[client]:
                del self.open[client]
            self.counts.add(_route(scope), status, perf_counter() - began)

    def _check(self, scope: Scope, headers: Mapping[str, str], client: str) -> None:
        path, host = scope["path"], headers.get("host", "")
        if not self.access.knows(host):
            raise RefusalError(
                403, "the request names a host that this server is not: use the address it printed"
            )
        if (
            self.access.token is not None
            and path not in OPEN
            and not self._has_token(scope, headers)
        ):
            raise RefusalError(
                401, "this server demands a token: open the whole address that it printed"
            )
        origin = headers.get("origin")
        foreign = origin is not None and urlsplit(origin).netloc != host
        if foreign and scope["method"] not in ("GET", "HEAD"):
            raise RefusalError(403, "the request comes from another site: ask from this page")
        if self.open[client] > self.limits.per_client:
            raise RefusalError(
                429,
                f"more than {self.limits.per_client} requests of yours are open, which is the "
                "limit: wait for some of them",
            )
        length = headers.get("content-length", "0")
        if length.isdigit() and int(length) > self._limit(path):
            raise too_large("the request", int(length), self._limit(path), "send less at once")

    def _has_token(self, scope: Scope, headers: Mapping[str, str]) -> bool:
        wanted = (self.access.token or "").encode()
        query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
        given = [
            headers.get("authorization", "").removeprefix("Bearer "),
            cookies_of(headers.get("cookie", "")).get(TOKEN, ""),
            *query.get("token", ())[:1],
        ]
        return any(hmac.compare_digest(one.encode("latin-1", "replace"), wanted) for one in given)

    def _limit(self, path: str) -> int:
        return self.limits.upload_bytes if UPLOADS.fullmatch(path) else self.limits.body_bytes

    def _counted(self, receive: Receive, path: str, over: list[RefusalError]) -> Receive:
        """The same body, but not more of it than is allowed."""
        seen, limit = 0, self._limit(path)

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > limit:
                over.append(too_large("the request", seen, limit, "send less at once"))
                raise over[0]
            return message

        return counted


def cookies_of(header: str) -> dict[str, str]:
    """The cookies of a request; none where they cannot be read."""
    try:
        return {name: one.value for name, one in SimpleCookie(header).items()}
    except CookieError:
        return {}


def _route(scope: Scope) -> str:
    """The path as it is declared, so that no name of a client becomes a label."""
    route = scope.get("route")
    return str(getattr(route, "path", "other"))


def refused(refusal: RefusalError) -> JSONResponse:
    """A refusal as an answer."""
    headers = {"retry-after": "5"} if refusal.status in (429, 503) else None
    return JSONResponse({"detail": refusal.sentence}, refusal.status, headers)


def create_app(
    model: Path | None = None,
    *,
    models: Path = Path("whowrote-models"),
    cases: Path = Path("whowrote-cases"),
    limits: Limits | None = None,
    access: Access | None = None,
) -> FastAPI:
    """The application: its engine, its interface and its page."""
    from whowrote.web import casework, views
    from whowrote.web.processes import Processes, Trainings

    limits, access = limits or Limits(), access or Access()
    engine = Engine(limits, model)
    processes = Processes(limits)

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        await engine.start()
        yield
        await processes.stop()
        await engine.stop()

    app = FastAPI(
        title="whowrote",
        version=__version__,
        lifespan=life,
        docs_url=None,
        redoc_url=None,
        description="Who wrote this text? How sure is that, and may it be none of these?",
    )
    app.state.engine, app.state.access, app.state.limits = engine, access, limits
    app.state.trainings = Trainings(processes, models, model)
    app.state.cases = casework.Cases(processes, cases)
    app.state.shelves, app.state.explained, app.state.charts = {}, {}, {}
    app.include_router(api.router)
    app.include_router(views.router, include_in_schema=False)
    app.include_router(casework.router, include_in_schema=False)
    app.mount("/static", StaticFiles(directory=HERE / "static"), name="static")
    app.add_exception_handler(RefusalError, _refusal)
    app.add_exception_handler(InputError, _input_error)
    app.add_exception_handler(RequestValidationError, _not_understood)
    app.add_exception_handler(HTTPException, _missing)
    app.add_middleware(Guard, access=access, limits=limits, counts=engine.counts)
    return app


async def _refusal(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, RefusalError)
    if request.method == "GET" and "text/html" in request.headers.get("accept", ""):
        from whowrote.web.pages import page

        told = page(request, "problem.html", sentence=problem.sentence)
        told.status_code = problem.status
        return told
    return refused(problem)


async def _input_error(request: Request, problem: Exception) -> Response:
    return await _refusal(request, RefusalError(422, str(problem)))


async def _missing(request: Request, problem: Exception) -> Response:
    status = getattr(problem, "status_code", 404)
    sentence = "there is no such page here: begin at Ask" if status == 404 else str(problem)
    return await _refusal(request, RefusalError(status, sentence))


async def _not_understood(request: Request, problem: Exception) -> JSONResponse:
    """Where and what, without the text that was sent: an answer may be logged on its way."""
    assert isinstance(problem, RequestValidationError)
    first = problem.errors()[0]
    place = ".".join(str(part) for part in first.get("loc", ()) if part != "body")
    said = f"{place or 'the request'}: {first.get('msg', 'not understood')}"
    return refused(RefusalError(422, f"{said}; see /openapi.json for what is understood"))


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that listens, so that a port which is taken is one sentence and not a traceback."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named TCP, or asyncio leaves Nagle on, and each answer waits 40 ms for an acknowledgement.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
        made.listen(2048)  # whoever opens the printed address at once waits, and is not refused
    except OSError as problem:
        made.close()
        raise InputError(
            f"{host}:{port} cannot be listened at ({first_line(problem)}): give another --port, or "
            "--port 0 for a free one"
        ) from problem
    return made


def run(app: FastAPI, listening: socket.socket) -> None:
    """Serve until interrupted; what is asked is not logged."""
    import uvicorn

    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=2,
    )
    uvicorn.Server(config).run(sockets=[listening])
