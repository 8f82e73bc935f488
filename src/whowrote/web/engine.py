r"""One model behind many clients: texts that wait are answered together.

.. math:: \text{requests} \to \text{queue} \to \text{batches of at most } n \text{ texts}
    \to \text{attribute} \to \text{answers}

While a batch is being answered the next one gathers, so nobody waits for others to arrive and a
batch is as large as the load asks for. Explanations, rolling answers and comparisons take turns in
a thread of their own; each stops at its next word of progress once its time is over.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any, Generic, TypeVar

from whowrote.attribution.answers import Attribution, Comparison
from whowrote.attribution.fitted_attributor import FittedAttributor
from whowrote.corpus.texts import Corpus
from whowrote.progress import Stage, listening
from whowrote.web.limits import Limits, RefusalError

T = TypeVar("T")
NO_MODEL = (
    "no model is open; an answer needs one: train one under Train, open one under Model, or start "
    "`whowrote serve MODEL`"
)


@dataclass(frozen=True)
class _Waiting:
    texts: tuple[str, ...]
    answers: asyncio.Future[list[Attribution]]


@dataclass
class Counts:
    """What was done so far, for ``/metrics``; no text, name or address is among it."""

    requests: dict[tuple[str, int], int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    texts: int = 0
    batches: int = 0
    refused: int = 0

    def add(self, route: str, status: int, seconds: float) -> None:
        """One more request."""
        self.requests[route, status] = self.requests.get((route, status), 0) + 1
        self.seconds[route] = self.seconds.get(route, 0.0) + seconds
        self.refused += status in (413, 422, 429, 503)


class Engine:
    """A model and those who wait for it.

    Parameters
    ----------
    limits : how much may wait, and how long.
    path : the folder of the model, None to begin without one.

    """

    def __init__(self, limits: Limits, path: Path | None = None) -> None:
        self.limits, self.counts = limits, Counts()
        self.model: FittedAttributor | None = None
        self.path: Path | None = None
        self._waiting: deque[_Waiting] = deque()
        self._tasks = 0
        self._wake = asyncio.Event()
        self._answering: asyncio.Task[None] | None = None
        self._batches: ThreadPoolExecutor | None = None  # made anew with every start
        self._long: ThreadPoolExecutor | None = None
        if path is not None:
            self.open(path)

    # -- the model -------------------------------------------------------------------------------

    def open(self, path: Path) -> None:
        """Answer by the model of a folder from now on."""
        from whowrote.attribution.jobs import open_model

        self.model, self.path = open_model(path), path

    def require(self) -> FittedAttributor:
        """The model, or a refusal."""
        if self.model is None:
            raise RefusalError(503, NO_MODEL)
        return self.model

    # -- life ------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin to answer."""
        self._wake, self._tasks = asyncio.Event(), 0
        self._batches = ThreadPoolExecutor(1, "batches")
        self._long = ThreadPoolExecutor(1, "long work")
        self._answering = asyncio.create_task(self._answer())

    async def stop(self) -> None:
        """Stop, whoever waits."""
        if self._answering is not None:
            self._answering.cancel()
            with suppress(asyncio.CancelledError):
                await self._answering
        for pool in (self._batches, self._long):
            if pool is not None:
                pool.shutdown(wait=False, cancel_futures=True)

    # -- batches ---------------------------------------------------------------------------------

    async def attribute(
        self, texts: Sequence[str], names: Sequence[str], rate: float | None = None
    ) -> list[Attribution]:
        """The answer for each text, called by its name, at a rate of false attributions."""
        self.require()
        if sum(len(one.texts) for one in self._waiting) + len(texts) > self.limits.waiting_texts:
            raise RefusalError(
                503,
                f"{self.limits.waiting_texts:,} texts already wait, which is the limit: try again "
                "in a few seconds",
            )
        asked = _Waiting(tuple(texts), asyncio.get_running_loop().create_future())
        self._waiting.append(asked)
        self._wake.set()
        answers = await self._in_time(asked.answers)
        named = [replace(one, document=name) for one, name in zip(answers, names, strict=True)]
        return named if rate is None else [at_rate(one, rate) for one in named]

    async def _in_time(self, work: asyncio.Future[T]) -> T:
        try:
            return await asyncio.wait_for(work, self.limits.seconds)
        except TimeoutError:
            raise RefusalError(
                503,
                f"no answer within {self.limits.seconds:.0f} seconds, which is the limit: send "
                "less text, or try again later",
            ) from None

    async def _answer(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._wake.wait()
            batch = self._next_batch()
            if not batch:
                self._wake.clear()
                continue
            texts = [text for one in batch for text in one.texts]
            try:
                answers = await loop.run_in_executor(self._batches, self._attributed, texts)
            except asyncio.CancelledError:
                raise
            except Exception as problem:
                await self._one_by_one(batch, problem)
                continue
            self.counts.batches += 1
            self.counts.texts += len(texts)
            low = 0
            for one in batch:
                high = low + len(one.texts)
                if not one.answers.done():
                    one.answers.set_result(answers[low:high])
                low = high

    def _next_batch(self) -> list[_Waiting]:
        """Those who came first, as many as are answered at once; at least one."""
        batch: list[_Waiting] = []
        room = self.limits.at_once
        while self._waiting and (not batch or len(self._waiting[0].texts) <= room):
            one = self._waiting.popleft()
            if not one.answers.done():  # nobody waits for one that is: its time was over
                batch.append(one)
                room -= len(one.texts)
        return batch

    async def _one_by_one(self, batch: list[_Waiting], problem: Exception) -> None:
        """A text that cannot be answered must not spoil the answers of others."""
        loop = asyncio.get_running_loop()
        for one in batch:
            if one.answers.done():
                continue
            if len(batch) == 1:
                one.answers.set_exception(problem)
                continue
            try:
                one.answers.set_result(
                    await loop.run_in_executor(self._batches, self._attributed, list(one.texts))
                )
            except Exception as own:
                one.answers.set_exception(own)

    def _attributed(self, texts: list[str]) -> list[Attribution]:
        return self.require().attribute(Corpus.from_texts(texts))

    # -- long work -------------------------------------------------------------------------------

    async def long(self, work: Callable[[], T]) -> T:
        """Work that takes its turn with other long work, and ends when its time is over."""
        if self._tasks >= self.limits.waiting_tasks:
            raise RefusalError(
                503,
                f"{self._tasks} longer tasks already wait, which is the limit: try again in a "
                "minute",
            )
        self._tasks += 1
        until = monotonic() + self.limits.seconds

        def bounded() -> T:
            def look(stage: Stage) -> None:
                if monotonic() > until:
                    raise TimeoutError

            look(Stage("", 0, 0))
            with listening(look):
                return work()

        try:
            loop = asyncio.get_running_loop()
            return await self._in_time(loop.run_in_executor(self._long, bounded))
        finally:
            self._tasks -= 1

    def compare(self, known: Sequence[str], text: str, prior: float | None) -> Comparison:
        """By the model's population, or without a model by the packaged one."""
        if self.model is not None:
            return self.model.verify(list(known), text, prior=prior)
        from whowrote.attribution.verification import (
            compare,
            packaged_extractor,
        )

        return compare(packaged_extractor(), None, list(known), text, prior)

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Style vectors: of the model's extractor, or the packaged one."""
        from whowrote.attribution.population import (
            VECTORS,
            extractor_of,
            read_by_extractor,
        )
        from whowrote.attribution.verification import (
            packaged_extractor,
        )

        own = None if self.model is None else extractor_of(self.model.reader.features)
        sides = read_by_extractor(own or packaged_extractor(), texts)
        rows: list[list[float]] = sides.rows[VECTORS].tolist()
        return rows


def at_rate(answer: Attribution, rate: float) -> Attribution:
    """The same figures, decided at another rate of false attributions."""
    from whowrote.attribution.answers import check_limits

    check_limits(None, rate)
    if answer.stranger is None:
        return answer
    named = answer.typicality >= answer.none_below and answer.stranger <= rate
    author = answer.best.author if named else None
    return replace(answer, author=author, false_attributions=rate)


def ratio_of(model: FittedAttributor, answer: Attribution) -> tuple[float, bool]:
    """log10 of the ratio of the best author against the others enrolled.

    The second value says whether it is held at its bound: one more than the texts that were held
    out to calibrate it, for no number of texts can show more.
    """
    ratio = answer.best.log10_lr
    return ratio, ratio >= math.log10(1 + model.calibration.held_out.texts) - 1e-9


class Shelf(Generic[T]):
    """What people still look at, in memory alone: so many, for so long, the oldest leave first."""

    def __init__(self, most: int, seconds: float) -> None:
        self.most, self.seconds = most, seconds
        self._kept: OrderedDict[str, tuple[float, T]] = OrderedDict()

    def put(self, thing: T) -> str:
        """Keep it; its key cannot be guessed."""
        from secrets import token_urlsafe

        self._forget()
        key = token_urlsafe(12)
        self._kept[key] = (monotonic(), thing)
        while len(self._kept) > self.most:
            self._kept.popitem(last=False)
        return key

    def get(self, key: str) -> T:
        """What was kept, or a refusal."""
        self._forget()
        if key not in self._kept:
            raise RefusalError(
                404,
                "this text is no longer in memory, where alone it was kept: ask about it again",
            )
        return self._kept[key][1]

    def _forget(self) -> None:
        limit = monotonic() - self.seconds
        while self._kept and next(iter(self._kept.values()))[0] < limit:
            self._kept.popitem(last=False)


Plain = dict[str, Any]
