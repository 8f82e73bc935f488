"""The view of cases: a folder each, its texts, its log, validation, findings, report and replay.

Unlike every other view this one keeps texts on disk, since evidence must be there to be checked:
the page says so before the first one is sent. What is computed, is computed by
:mod:`whowrote.case` in a process of its own.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse
from sse_starlette.sse import EventSourceResponse
from starlette.datastructures import FormData

from whowrote.case import Case
from whowrote.case.exhibits import FINDINGS, LOG, ROLES, WRITTEN, problems
from whowrote.corpus.texts import Corpus
from whowrote.errors import InputError
from whowrote.files import bytes_of
from whowrote.web.api import engine_of
from whowrote.web.limits import RefusalError
from whowrote.web.pages import (
    attachment,
    form_of,
    labelled_texts,
    page,
    questioned_texts,
    uploads_of,
    watched,
)
from whowrote.web.processes import FEATURES, Job, Processes, checked_name

router = APIRouter(include_in_schema=False)
RUN, REPLAY = "run", "replay"
PAGE, DATA = WRITTEN["report"]
STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)
FRAMED = {"x-frame-options": "SAMEORIGIN"}


@dataclass(kw_only=True)
class CaseJob(Job):
    """A run or a replay of a case, and what came of the replay."""

    action: str
    replayed: dict[str, Any] | None = None


@dataclass(frozen=True)
class Line:
    """A case in the list: what is asked, how far it is; ``broken`` where its log is."""

    name: str
    question: str
    texts: int
    state: str
    broken: str = ""


class Cases:
    """The cases of one server.

    Parameters
    ----------
    processes : in which they are run and replayed.
    folder : in which their folders lie.

    """

    def __init__(self, processes: Processes, folder: Path) -> None:
        self.processes, self.folder = processes, folder

    def every(self) -> list[Line]:
        """All cases of the folder, by name."""
        inside = sorted(self.folder.iterdir()) if self.folder.is_dir() else []
        return [self._line(one) for one in inside if (one / LOG).is_file()]

    def _line(self, folder: Path) -> Line:
        try:
            case = Case.open(folder)
        except InputError as problem:
            return Line(folder.name, "", 0, "broken", str(problem))
        job = self.job(folder.name)
        state = job.state if job is not None and not job.ended else _state(case)
        return Line(folder.name, case.question.question, len(case.exhibits), state)

    def place(self, name: str) -> Path:
        """The folder of a case that is there."""
        place = self.folder / checked_name(name, "the will")
        if not (place / LOG).is_file():
            raise RefusalError(404, "there is no such case here: see the list under Case")
        return place

    def new(self, name: str, question: str, **about: Any) -> Case:
        """Begin one."""
        place = self.folder / checked_name(name, "the will")
        if (place / LOG).exists():  # a folder that a dead process has left is none
            raise InputError(f"a case named {name!r} is there already: give another name")
        return Case.new(place, question, **about)

    def job(self, name: str) -> CaseJob | None:
        """What was last begun on a case since the server started."""
        own = [one for one in self.processes.jobs.values() if isinstance(one, CaseJob)]
        return next((one for one in reversed(own) if one.name == name), None)

    def idle(self, name: str) -> Path:
        """The folder of a case on which nothing runs, so that only one hand writes its log."""
        place, job = self.place(name), self.job(name)
        if job is not None and not job.ended:
            raise InputError("the case is being worked on: wait for the end, or cancel it")
        return place

    def begin(self, name: str, action: str) -> CaseJob:
        """Run or replay a case in a process."""
        place = self.idle(name)
        case = Case.open(place)
        if not case.of_role("questioned") or not case.candidates:
            raise InputError(
                f"the case has {len(case.of_role('questioned'))} questioned texts and "
                f"{len(case.candidates)} candidates; it needs one of each: add texts"
            )
        job = CaseJob(name=name, action=action)
        self.processes.begin(job, {"task": action, "folder": str(place)})
        return job


def _state(case: Case) -> str:
    """How far a case is, by its log."""
    if case.log.last("findings") is None:
        return "texts" if case.exhibits else "empty"
    return "outdated" if _outdated(case) else "weighed"


def _outdated(case: Case) -> bool:
    """Whether texts were added after the findings."""
    added, found = case.log.last("add"), case.log.last("findings")
    return bool(added and found and added.number > found.number)


def cases_of(request: Request) -> Cases:
    """The cases of this server."""
    cases: Cases = request.app.state.cases
    return cases


def _to(name: str) -> Response:
    """The page of a case follows."""
    return HTMLResponse("", headers={"x-go-to": f"/case/{quote(name)}"})


# -- all cases -----------------------------------------------------------------------------------


@router.get("/case")
async def every(request: Request) -> Response:
    """The list, and a form for a new one."""
    cases = cases_of(request)
    listed = await engine_of(request).long(cases.every)
    return page(request, "cases.html", cases=listed, folder=cases.folder, features=FEATURES)


@router.post("/case")
async def new(request: Request) -> Response:
    """Begin a case; its page follows."""
    form, cases = await form_of(request), cases_of(request)
    name = str(form.get("name", "")).strip()
    cases.new(
        name,
        str(form.get("question", "")),
        population=str(form.get("population", "")),
        features=str(form.get("features", "hybrid")),
        closed=form.get("closed") == "yes",
    )
    return _to(name)


# -- one case ------------------------------------------------------------------------------------


@router.get("/case/{name}")
async def one(name: str, request: Request) -> Response:
    """A case as its log and its files tell of it."""
    cases = cases_of(request)
    place, job = cases.place(name), cases.job(name)
    told = await engine_of(request).long(lambda: _told(place))
    return page(request, "case.html", name=name, job=job, folder=place, **told)


def _told(place: Path) -> dict[str, Any]:
    """What the template says; of a case that is not as its log says, what is wrong."""
    from whowrote.case.findings import propositions_of  # late: what computes is slow to load

    wrong = problems(place)
    try:
        case = Case.open(place)
    except InputError:
        return {"case": None, "wrong": wrong, "found": None, "outdated": False, "report": False}
    path = place / FINDINGS
    sound = path.is_file() and not any(one.startswith((FINDINGS, LOG)) for one in wrong)
    plain = json.loads(case.written("findings", FINDINGS)) if sound else None
    return {
        "case": case,
        "wrong": wrong,
        "roles": [(role, case.of_role(role)) for role in ROLES if case.of_role(role)],
        "asked": ROLES[:2] if case.question.closed else ROLES,
        "sides": propositions_of("the candidate", case.question.closed),
        "found": None if plain is None else _found(plain, case),
        "outdated": _outdated(case),
        "report": (place / PAGE).is_file() and not any(one.startswith(PAGE) for one in wrong),
    }


def _found(plain: Mapping[str, Any], case: Case) -> dict[str, Any]:
    """Findings as a table: every ratio with its interval, and what validation says of them."""
    from whowrote.case.dossier import page_one
    from whowrote.case.findings import RATIO, interval_in_words

    rows = [
        {
            **{key: ratio[key] for key in ("candidate", "log10_lr", "limited", "support")},
            "text": finding["text"],
            "words": finding["words"],
            "interval": interval_in_words(ratio["low"], ratio["high"]),
        }
        for finding in plain["findings"]
        for ratio in finding["ratios"]
    ]
    texts = plain["texts"]
    names = sorted({one["author"] for one in texts if one["role"] == "known"})
    return {
        "lines": page_one({**plain, "candidates": names})["lines"],
        "rows": rows,
        "silent": [one for one in plain["findings"] if one["answer"] != RATIO],
        "validation": plain["validation"],
        "sources": {one["id"]: one["source"] for one in texts},
    }


@router.post("/case/{name}/add")
async def add(name: str, request: Request) -> Response:
    """Register texts; the page of the case follows."""
    cases, engine = cases_of(request), engine_of(request)
    place, form = cases.idle(name), await form_of(request)
    uploads, pasted = await uploads_of(form, "files"), str(form.get("text", ""))
    role, author = str(form.get("role", "")), _or_none(form, "author")

    def work() -> None:
        corpus: Corpus
        if role == "questioned" or author is not None:
            corpus = questioned_texts(uploads, pasted, engine.limits)
        elif pasted.strip():
            raise InputError(f"author is empty; a pasted {role} text needs one: say who wrote it")
        else:
            corpus = labelled_texts(uploads, engine.limits)
        source = _or_none(form, "source")
        Case.open(place).add(corpus, role, path=None, author=author, source=source)

    await engine.long(work)
    return _to(name)


def _or_none(form: FormData, field: str) -> str | None:
    return str(form.get(field, "")).strip() or None


@router.post("/case/{name}/run")
async def run(name: str, request: Request) -> Response:
    """Audit, validate, calibrate, weigh, report: in a process; the page watches."""
    await form_of(request)
    cases_of(request).begin(name, RUN)
    return _to(name)


@router.post("/case/{name}/replay")
async def replay(name: str, request: Request) -> Response:
    """Compute everything again and compare: in a process; the page watches."""
    await form_of(request)
    cases_of(request).begin(name, REPLAY)
    return _to(name)


@router.post("/case/{name}/cancel")
async def cancel(name: str, request: Request) -> Response:
    """End what runs on a case; its log says how far it came."""
    await form_of(request)
    cases = cases_of(request)
    job = cases.job(name)
    if job is not None:
        await cases.processes.cancel(job)
    return _to(name)


@router.get("/case/{name}/events")
async def events(name: str, request: Request) -> EventSourceResponse:
    """The state of what runs on a case, whenever it changes."""
    job = cases_of(request).job(name)
    if job is None:
        raise RefusalError(404, "nothing runs on this case: start it on its page")
    return watched(job, "casework.html")


# -- the report ----------------------------------------------------------------------------------


@router.get("/case/{name}/report")
async def report(name: str, request: Request) -> Response:
    """The report as it was written: in a sandbox, or to take home."""
    html = _sound(cases_of(request).place(name), PAGE)
    headers = {"content-security-policy": report_policy(html), **FRAMED}
    if "download" in request.query_params:
        headers |= attachment(f"{name} report.html")
    return HTMLResponse(html, headers=headers)


@router.get("/case/{name}/data")
async def data(name: str, request: Request) -> Response:
    """The report as JSON, to take home."""
    plain = _sound(cases_of(request).place(name), DATA)
    headers = attachment(f"{name} report.json")
    return Response(plain, media_type="application/json", headers=headers)


def _sound(place: Path, name: str) -> str:
    """A written file, if it is as the log says."""
    entry, path = Case.open(place).log.last("report"), place / name
    if entry is None or not path.is_file():
        raise RefusalError(404, "this case has no report yet: validate and weigh it first")
    written = bytes_of(path)
    if hashlib.sha256(written).hexdigest() != entry.details["sha256"][name]:
        raise RefusalError(422, f"{name} is not as the log says: its bytes changed; weigh anew")
    return written.decode("utf-8")


def report_policy(html: str) -> str:
    """What a report may do in a browser: show its own style and the pictures in it, nothing else.

    >>> report_policy("<style>p {}</style>").split("; ")[2][:25]
    "style-src 'sha256-SNJDlN1"
    """
    styles = [hashlib.sha256(one.encode()).digest() for one in STYLE.findall(html)]
    hashes = " ".join(f"'sha256-{base64.b64encode(one).decode()}'" for one in styles) or "'none'"
    return (
        f"sandbox; default-src 'none'; style-src {hashes}; img-src data:; form-action 'none'; "
        "base-uri 'none'; frame-ancestors 'self'"
    )
