"""The page for people: Ask, Compare, Train, Model. Each view reads a form and renders a template.

Everything that changes something is a POST that bears the mark of our own page; fragments come back
and stand where the page kept room for them. Texts live on shelves in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from sse_starlette.sse import EventSourceResponse
from starlette.datastructures import FormData

from whowrote import __version__
from whowrote.attribution.answers import Attribution, Comparison
from whowrote.attribution.explanation import LEAST_WORDS, MOST_WORDS, Explanation
from whowrote.attribution.fitted_attributor import FittedAttributor
from whowrote.corpus.texts import Corpus
from whowrote.errors import InputError
from whowrote.formatting import fine_percent
from whowrote.ratios import as_ratio, verbal
from whowrote.web.api import engine_of
from whowrote.web.drawings import along_of, chart_of, ngram_marks, runs_of
from whowrote.web.engine import Engine, Shelf, at_rate, ratio_of
from whowrote.web.limits import Limits, RefusalError, check_texts
from whowrote.web.pages import (
    download,
    form_of,
    labelled_texts,
    page,
    questioned_texts,
    rendered,
    uploads_of,
    watched,
)
from whowrote.web.processes import FEATURES, Trainings

router = APIRouter(include_in_schema=False)
SHOWN = 5
WINDOWS = ((1000, 250), (400, 100))
"""Words of a window and of a step: the first for which a text is long enough."""
RATES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)
"""Where the slider stops."""
RANGE = 12
"""Known texts of one writer that are left out in turn."""


# -- what every view needs -----------------------------------------------------------------------


@dataclass(frozen=True)
class Kept:
    """A questioned text, its answer, and what it was answered by."""

    answer: Attribution
    text: str
    model: FittedAttributor


def _trainings(request: Request) -> Trainings:
    trainings: Trainings = request.app.state.trainings
    return trainings


def _shelf(request: Request, name: str, most: int | None = None) -> Shelf[Any]:
    """The shelf of that name, made when first asked for."""
    shelves: dict[str, Shelf[Any]] = request.app.state.shelves
    limits: Limits = request.app.state.limits
    if name not in shelves:
        shelves[name] = Shelf(most or limits.kept, limits.kept_seconds)
    shelf: Shelf[Any] = shelves[name]
    return shelf


# -- Ask -----------------------------------------------------------------------------------------


@router.get("/")
async def ask(request: Request) -> Response:
    """The view for questions."""
    model = engine_of(request).model
    return page(request, "ask.html", costs=_costs(model), rate=_rate(model), rates=RATES)


def _rate(model: FittedAttributor | None) -> float:
    return 0.05 if model is None else model.false_attributions


def _costs(model: FittedAttributor | None) -> list[float] | None:
    """What each rate of the slider costs: the share of own texts that get nobody, or another."""
    curve = None if model is None else model.calibration.strangers
    return None if curve is None else [round(curve.missed(rate), 4) for rate in RATES]


@router.post("/ask")
async def asked(request: Request) -> Response:
    """Answers for pasted and dropped texts, as a fragment."""
    engine, form = engine_of(request), await form_of(request)
    model, limits = engine.require(), engine.limits
    uploads, pasted = await uploads_of(form, "files"), str(form.get("text", ""))
    corpus = await engine.long(lambda: questioned_texts(uploads, pasted, limits))
    check_texts(list(corpus.texts), limits)
    answers = await engine.attribute(corpus.texts, corpus.ids, _asked_rate(form))
    charts = await engine.long(lambda: [chart_of(model, [text]) for text in corpus.texts[:20]])
    shelf = _shelf(request, "answers")
    shown = [
        _shown(model, answer, text, shelf.put(Kept(answer, text, model)))
        for answer, text in zip(answers, corpus.texts, strict=True)
    ]
    for one, chart in zip(shown, charts, strict=False):
        one["chart"] = chart
    notes = [note for note in corpus.notes if not note.lossless]
    html = rendered("answers.html", answers=shown, notes=notes, enrolled=len(model.authors))
    return HTMLResponse(html)


def _asked_rate(form: FormData) -> float | None:
    try:
        return float(str(form["rate"])) if "rate" in form else None
    except ValueError:
        raise RefusalError(422, "rate is no number; give one above 0 and at most 1") from None


def _shown(model: FittedAttributor, answer: Attribution, text: str, key: str) -> dict[str, Any]:
    """What the template says of one text."""
    ratio, limited = ratio_of(model, answer)
    best, others = answer.best.author, len(answer.ranking) - 1
    who = (
        "the other enrolled author"
        if others == 1
        else f"one of the other {others} enrolled authors"
    )
    sides = (f"{best} wrote it", f"{who} wrote it")
    words = len(text.split())
    window = next((two for two in WINDOWS if words >= 2 * sum(two)), None)
    return {
        "key": key,
        "answer": answer,
        "words": words,
        "ratio": ratio,
        "limited": limited,
        "held_out": model.calibration.held_out.texts,
        "said": verbal(ratio, *sides),
        "sides": sides,
        "top": answer.ranking[:SHOWN],
        "rest": answer.ranking[SHOWN:],
        "window": window,
        "explainable": LEAST_WORDS <= words <= MOST_WORDS,
        "chart": None,
    }


@router.post("/ask/{key}/explain")
async def explained(key: str, request: Request) -> Response:
    """Why, as a fragment."""
    await form_of(request)
    found = await _explanation(request, key)
    switched = [
        ("words", "Words", runs_of(found.text, found.words)),
        ("sentences", "Sentences", runs_of(found.text, found.sentences)),
        ("ngrams", "N-grams", runs_of(found.text, ngram_marks(found))),
    ]
    return HTMLResponse(rendered("explanation.html", key=key, found=found, switched=switched))


async def _explanation(request: Request, key: str) -> Explanation:
    kept: Kept = _shelf(request, "answers").get(key)
    made: dict[str, Explanation] = request.app.state.explained
    if key not in made:
        while len(made) >= 50:
            made.pop(next(iter(made)))
        found = await engine_of(request).long(lambda: kept.model.explain(kept.text))
        made[key] = replace(found, attribution=kept.answer)
    return made[key]


@router.post("/ask/{key}/roll")
async def rolled(key: str, request: Request) -> Response:
    """Along the text, as a fragment."""
    await form_of(request)
    kept: Kept = _shelf(request, "answers").get(key)
    words = len(kept.text.split())
    window, step = next((two for two in WINDOWS if words >= 2 * sum(two)), WINDOWS[-1])
    found = await engine_of(request).long(lambda: kept.model.roll(kept.text, window, step))
    return HTMLResponse(rendered("rolling.html", key=key, found=found, along=along_of(found)))


@router.get("/ask/{key}/report")
async def report_of(key: str, request: Request) -> Response:
    """A page to take home that stands alone: the answer, and why where that was asked."""
    kept: Kept = _shelf(request, "answers").get(key)
    made = request.app.state.explained
    rate = request.query_params.get("rate")
    try:
        answer = kept.answer if rate is None else at_rate(kept.answer, float(rate))
    except ValueError:
        raise RefusalError(422, "rate is no number above 0 and at most 1") from None
    return download(answer_page(kept, answer, made.get(key)), f"{kept.answer.document} report.html")


def answer_page(kept: Kept, answer: Attribution, why: Explanation | None) -> str:
    """The report of one text."""
    from whowrote.attribution.marked_text import attribution_html, explanation_sections
    from whowrote.report import Block, Facts, Fragment, Paragraph, Section
    from whowrote.report import page as report_page

    shown = _shown(kept.model, answer, kept.text, "")
    rule = (
        f"none of these below {fine_percent(answer.none_below)} typicality"
        if answer.false_attributions is None
        else f"none of these where more than {fine_percent(answer.false_attributions)} of "
        "strangers' texts look as much like somebody enrolled"
    )
    facts = [
        ("weighed", shown["sides"][0]),
        ("against", shown["sides"][1]),
        ("likelihood ratio", f"about {as_ratio(shown['ratio'])}: {shown['said']}"),
        ("population", f"the {len(answer.ranking)} authors enrolled in the model"),
        ("rule", rule),
        ("text", f"{shown['words']:,} words, SHA-256 {answer.sha256}"),
        ("model", f"{answer.model.id}, whowrote {answer.model.version}"),
    ]
    note = Paragraph("This is evidence among the enrolled authors, not a verdict.", kind="note")
    blocks: list[Block] = [Fragment(attribution_html(answer)), Facts(facts), note]
    sections = [Section("The answer", blocks)]
    if why is not None:
        more = explanation_sections(replace(why, attribution=answer))[1:]
        sections += [Section(name, [Fragment(html)]) for name, html in more]
    return report_page(f"Who wrote {answer.document}?", sections, footer=f"whowrote {__version__}")


# -- Compare -------------------------------------------------------------------------------------


@router.get("/compare")
async def compare(request: Request) -> Response:
    """The view for two texts, or one writer's range."""
    return page(request, "compare.html")


@router.post("/compare")
async def compared(request: Request) -> Response:
    """The likelihood ratio, and where it lies in the writer's own range, as a fragment."""
    engine, form = engine_of(request), await form_of(request)
    sides = []
    for side in ("known", "other"):
        uploads, pasted = await uploads_of(form, f"{side}_files"), str(form.get(side, ""))
        if not uploads and not pasted.strip():
            which = "first side" if side == "known" else "other text"
            raise InputError(f"the {which} is empty; a comparison needs both: paste or drop a text")
        sides.append(questioned_texts(uploads, pasted, engine.limits))
    known, other = sides
    check_texts([*known.texts, *other.texts], engine.limits)
    prior = _prior(str(form.get("prior", "")))

    def work() -> tuple[list[Comparison], list[Comparison]]:
        told = [engine.compare(known.texts, text, prior) for text in other.texts]
        return told, _own_range(engine, known) if len(known) > 2 else []

    told, own = await engine.long(work)
    pairs = list(zip(other.ids, told, strict=True))
    html = rendered("comparison.html", pairs=pairs, known=known, own=own, strip=_strip(told, own))
    return HTMLResponse(html)


def _prior(given: str) -> float | None:
    try:
        return float(given) / 100.0 if given.strip() else None
    except ValueError:
        raise InputError(
            f"the probability beforehand is {given[:20]!r}; give per cent, 50"
        ) from None


def _own_range(engine: Engine, known: Corpus) -> list[Comparison]:
    """Each known text against the writer's others: how like themselves they are."""
    rows = np.unique(np.linspace(0, len(known) - 1, RANGE).astype(int)).tolist()
    texts = known.texts
    return [engine.compare([*texts[:i], *texts[i + 1 :]], texts[i], None) for i in rows]


def _strip(told: Sequence[Comparison], own: Sequence[Comparison]) -> dict[str, Any] | None:
    """Places on a line from the least ratio to the largest, in units of its width."""
    if not own:
        return None
    every = [one.log10_lr for one in (*told, *own)]
    low, high = min(-1.0, *every) - 0.2, max(1.0, *every) + 0.2

    def at(value: float) -> float:
        return round(20 + 560 * (value - low) / (high - low), 1)

    ratios = [one.log10_lr for one in own]
    return {
        "own": [(at(value), value) for value in ratios],
        "told": [(at(one.log10_lr), one.log10_lr) for one in told],
        "ticks": [(at(value), value) for value in range(int(np.ceil(low)), int(high) + 1)],
        "below": [sum(value <= one.log10_lr for value in ratios) for one in told],
    }


# -- Train ---------------------------------------------------------------------------------------


@router.get("/train")
async def train(request: Request) -> Response:
    """The view for learning from texts."""
    jobs = _trainings(request).every()[::-1]
    return page(request, "train.html", jobs=jobs, features=FEATURES)


@router.post("/train/audit")
async def audited(request: Request) -> Response:
    """What is in the texts, before anything is learnt, as a fragment."""
    from whowrote.corpus.audit import audit

    engine, form = engine_of(request), await form_of(request)
    uploads = await uploads_of(form, "files")

    def work() -> tuple[Corpus, Any, str]:
        corpus = labelled_texts(uploads, engine.limits)
        try:
            corpus.require_attribution()
        except InputError as problem:
            return corpus, audit(corpus), str(problem)
        return corpus, audit(corpus), ""

    corpus, found, problem = await engine.long(work)
    key = _shelf(request, "corpora", 4).put(corpus)
    html = rendered("audit.html", key=key, found=found, problem=problem, features=FEATURES)
    return HTMLResponse(html)


@router.post("/train/start")
async def started(request: Request) -> Response:
    """Begin; the page of the job follows."""
    form = await form_of(request)
    corpus: Corpus = _shelf(request, "corpora", 4).get(str(form.get("corpus", "")))
    job = _trainings(request).start(
        corpus,
        str(form.get("name", "")).strip(),
        str(form.get("features", "hybrid")),
        0,
        form.get("evaluate") == "yes",
    )
    return HTMLResponse("", headers={"x-go-to": f"/train/{job.id}"})


@router.get("/train/{key}")
async def training(key: str, request: Request) -> Response:
    """A job as it is now; the page goes on watching."""
    job = _trainings(request).get(key)
    return page(request, "training.html", job=job, state=job.to_dict())


@router.get("/train/{key}/events")
async def events(key: str, request: Request) -> EventSourceResponse:
    """The state of a job whenever it changes."""
    return watched(_trainings(request).get(key), "progress.html")


@router.post("/train/{key}/cancel")
async def cancelled(key: str, request: Request) -> Response:
    """End a job."""
    await form_of(request)
    trainings = _trainings(request)
    await trainings.processes.cancel(trainings.get(key))
    return HTMLResponse("", headers={"x-go-to": f"/train/{key}"})


# -- Model ---------------------------------------------------------------------------------------


@router.get("/card")
async def card(request: Request) -> Response:
    """What the open model says of itself, and the others in the folder."""
    from whowrote.attribution.jobs import inspect_model

    engine, told = engine_of(request), None
    if engine.path is not None:
        path = engine.path
        told = await engine.long(lambda: inspect_model(path))
    chart = None if engine.model is None else _chart(request, engine.model)
    return page(
        request, "card.html", told=told, saved=list(_trainings(request).saved()), chart=chart
    )


def _chart(request: Request, model: FittedAttributor) -> Any:
    """The map without a questioned text, drawn once for each model."""
    made = request.app.state.charts
    if model.id not in made:
        made.clear()
        made[model.id] = chart_of(model, [])
    return made[model.id]


@router.post("/card/open")
async def opened(request: Request) -> Response:
    """Answer by another model of the folder from now on."""
    form = await form_of(request)
    name, saved = str(form.get("name", "")), _trainings(request).saved()
    if name not in saved:
        raise InputError(f"there is no model named {name[:60]!r} here: choose one of the list")
    engine = engine_of(request)
    await engine.long(lambda: engine.open(saved[name]))
    return HTMLResponse("", headers={"x-go-to": "/card"})


@router.get("/favicon.ico")
async def icon() -> Response:
    """The icon of the page."""
    return RedirectResponse("/static/icon.svg", 308)
