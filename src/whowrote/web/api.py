"""The interface for programs: JSON in, JSON out, one text or many; ``/docs`` describes it.

A request has ``text`` and gets an answer, or ``texts`` and gets ``{"answers": [...]}``. Whatever is
refused is ``{"detail": "one sentence"}``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, ConfigDict, Field, model_validator

from whowrote.web.engine import Engine, Plain, ratio_of
from whowrote.web.limits import check_texts

router = APIRouter()
Share = Annotated[float, Field(gt=0.0, lt=1.0)]


class Refused(BaseModel):
    """Why there is no answer, in a sentence."""

    detail: str


REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Refused, "description": what}
    for status, what in {
        400: "not understood",
        401: "a token is demanded",
        403: "from another site",
        413: "too large",
        422: "not understood",
        429: "too many requests of one client",
        503: "too much at once, or no model",
    }.items()
}


class Texts(BaseModel):
    """One text, or several."""

    model_config = ConfigDict(extra="forbid")
    text: str | None = None
    texts: list[str] | None = None

    @model_validator(mode="after")
    def _either(self) -> Texts:
        if (self.text is None) == (self.texts is None):
            raise ValueError("give text or texts, one of both")
        return self

    def every(self) -> list[str]:
        """All of them."""
        return [self.text] if self.text is not None else list(self.texts or ())

    def shown(self, answers: list[Plain]) -> Response:
        """One answer, or all, as they were asked."""
        return _json(answers[0] if self.text is not None else {"answers": answers})


class Asked(Texts):
    """Texts to attribute; ``false_attributions`` where another rate than the model's is meant."""

    false_attributions: Annotated[float, Field(gt=0.0, le=1.0)] | None = None


class Explained(Texts):
    """Texts to explain, each of 40 words or more."""

    draws: Annotated[int, Field(ge=2, le=100)] = 20
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0


class Rolled(Texts):
    """Long texts, answered window by window."""

    window: Annotated[int, Field(ge=200, le=100_000)] = 1000
    step: Annotated[int, Field(ge=50, le=100_000)] = 250
    bands: bool = True


class Pair(BaseModel):
    """One text, or several known ones of one person, and another."""

    model_config = ConfigDict(extra="forbid")
    first: str | list[str]
    second: str
    prior: Share | None = None

    def known(self) -> list[str]:
        """The first side."""
        return [self.first] if isinstance(self.first, str) else self.first


class Verify(BaseModel):
    """A pair, or several."""

    model_config = ConfigDict(extra="forbid")
    first: str | list[str] | None = None
    second: str | None = None
    prior: Share | None = None
    pairs: list[Pair] | None = None

    @model_validator(mode="after")
    def _either(self) -> Verify:
        alone = self.first is not None and self.second is not None
        if alone == (self.pairs is not None):
            raise ValueError("give first and second, or pairs")
        return self

    def every(self) -> list[Pair]:
        """All of them."""
        if self.pairs is not None:
            return self.pairs
        return [Pair(first=self.first or "", second=self.second or "", prior=self.prior)]


def _json(value: Any) -> Response:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=str)
    return Response(text.encode("utf-8", "replace"), media_type="application/json")


def engine_of(request: Request) -> Engine:
    """The one engine of this server."""
    engine: Engine = request.app.state.engine
    return engine


@router.post("/attribute", responses=REFUSALS)
async def attribute(asked: Asked, request: Request) -> Response:
    """Who wrote it, how sure is that, or none of these."""
    engine, texts = engine_of(request), asked.every()
    check_texts(texts, engine.limits)
    names = [str(number) for number in range(1, len(texts) + 1)]
    answers = await engine.attribute(texts, names, asked.false_attributions)
    model, shown = engine.require(), []
    for answer in answers:
        plain, (_, limited) = answer.to_dict(), ratio_of(model, answer)
        shown.append({**plain, "ratio": {**plain["ratio"], "limited": limited}})
    return asked.shown(shown)


@router.post("/explain", responses=REFUSALS)
async def explain(asked: Explained, request: Request) -> Response:
    """Which words, sentences and n-grams made the answer, and whether that holds."""
    engine, texts = engine_of(request), asked.every()
    check_texts(texts, engine.limits)
    model = engine.require()

    def work() -> list[Plain]:
        found = (model.explain(text, draws=asked.draws, seed=asked.seed) for text in texts)
        return [one.to_dict() for one in found]

    return asked.shown(await engine.long(work))


@router.post("/roll", responses=REFUSALS)
async def roll(asked: Rolled, request: Request) -> Response:
    """Who, window by window, and where that changes."""
    engine, texts = engine_of(request), asked.every()
    check_texts(texts, engine.limits)
    model, options = engine.require(), {"bands": asked.bands}

    def work() -> list[Plain]:
        return [model.roll(text, asked.window, asked.step, **options).to_dict() for text in texts]

    return asked.shown(await engine.long(work))


@router.post("/embed", responses=REFUSALS)
async def embed(asked: Texts, request: Request) -> Response:
    """The style vector of each text."""
    engine, texts = engine_of(request), asked.every()
    check_texts(texts, engine.limits)
    rows = await engine.long(lambda: engine.embed(texts))
    return asked.shown([{"vector": row} for row in rows])


@router.post("/verify", responses=REFUSALS)
async def verify(asked: Verify, request: Request) -> Response:
    """How much likelier two texts are so alike if one person wrote both."""
    engine, pairs = engine_of(request), asked.every()
    check_texts([text for pair in pairs for text in (*pair.known(), pair.second)], engine.limits)

    def work() -> list[Plain]:
        found = [engine.compare(one.known(), one.second, one.prior) for one in pairs]
        return [{**one.to_dict(), "in_words": one.in_words} for one in found]

    answers = await engine.long(work)
    return _json({"answers": answers} if asked.pairs is not None else answers[0])


@router.get("/model", responses=REFUSALS)
async def model(request: Request) -> Response:
    """What the model says of itself: authors, calibration, sizes, where it comes from."""
    from whowrote.attribution.jobs import inspect_model

    engine = engine_of(request)
    engine.require()
    path = engine.path
    assert path is not None
    told = (await engine.long(lambda: inspect_model(path))).to_dict()
    return _json({**told, "path": path.name})  # where it lies is nobody's business


@router.get("/health")
async def health(request: Request) -> dict[str, str]:
    """Whether the server is there, and whether it has a model."""
    model = engine_of(request).model
    return {"status": "ok", "model": "" if model is None else model.id}


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(request: Request) -> str:
    """Counters in the text format of Prometheus."""
    return metrics_text(engine_of(request))


def metrics_text(engine: Engine) -> str:
    """No text, name or address is among them."""
    counts = engine.counts
    lines = ["# TYPE whowrote_requests_total counter"]
    for (route, status), n in sorted(counts.requests.items()):
        lines.append(f'whowrote_requests_total{{route="{route}",status="{status}"}} {n}')
    lines.append("# TYPE whowrote_request_seconds_total counter")
    for route, seconds in sorted(counts.seconds.items()):
        lines.append(f'whowrote_request_seconds_total{{route="{route}"}} {seconds:.6f}')
    figures: dict[str, tuple[str, Callable[[], int]]] = {
        "whowrote_texts_total": ("counter", lambda: counts.texts),
        "whowrote_batches_total": ("counter", lambda: counts.batches),
        "whowrote_refused_total": ("counter", lambda: counts.refused),
        "whowrote_model_open": ("gauge", lambda: int(engine.model is not None)),
    }
    for name, (kind, value) in figures.items():
        lines += [f"# TYPE {name} {kind}", f"{name} {value()}"]
    return "\n".join(lines) + "\n"
