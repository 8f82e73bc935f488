"""Rendering of long work: bars on a terminal, a line now and then elsewhere.

The work itself only makes records.

Long loops call :func:`tell`, which costs nothing until somebody listens; :func:`stage_bars`
listens and draws.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Lock
from time import perf_counter
from typing import Any, Protocol


@dataclass(frozen=True)
class Stage:
    """How far one kind of work is."""

    name: str
    done: int
    total: int


_listener: ContextVar[Callable[[Stage], None] | None] = ContextVar("listener", default=None)


def tell(name: str, done: int, total: int) -> None:
    """Say how far some work is, to whoever listens."""
    listener = _listener.get()
    if listener is not None:
        listener(Stage(name, done, total))


def current_listener() -> Callable[[Stage], None] | None:
    """Who listens here: to be taken along by work that goes on in other threads."""
    return _listener.get()


@contextmanager
def listening(listener: Callable[[Stage], None]) -> Iterator[None]:
    """Hear of all work that is done inside.

    >>> heard = []
    >>> with listening(heard.append):
    ...     tell("reading", 1, 2)
    >>> tell("nobody listens", 1, 1)
    >>> heard
    [Stage(name='reading', done=1, total=2)]
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


class Stopwatch:
    """A listener that adds up seconds by stage: those since the last word count for the next.

    >>> stopwatch = Stopwatch()
    >>> with listening(stopwatch):
    ...     tell("reading", 1, 1)
    >>> list(stopwatch.seconds)
    ['reading']
    """

    def __init__(self, also: Callable[[Stage], None] | None = None) -> None:
        self.also, self.seconds = also, dict[str, float]()
        self._last = perf_counter()

    def __call__(self, stage: Stage) -> None:
        """Hear of some work."""
        now = perf_counter()
        self.seconds[stage.name] = self.seconds.get(stage.name, 0.0) + now - self._last
        self._last = now
        if self.also is not None:
            self.also(stage)


@contextmanager
def timed() -> Iterator[Stopwatch]:
    """Add up the seconds of the stages inside, while whoever listens already goes on listening."""
    stopwatch = Stopwatch(_listener.get())
    with listening(stopwatch):
        yield stopwatch


EVERY = 15.0
"""Seconds between lines where there is no terminal; shorter work says nothing."""


class Lines:
    """A listener that writes a line now and then: for logs, which no bar can be drawn in.

    >>> clock = iter([0.0, 2.0, 16.0, 17.0]).__next__
    >>> lines = Lines(print, clock=clock)
    >>> for done in (1, 2, 3):
    ...     lines(Stage("reading", done, 4))
    reading: 2 of 4 (16 s)
    """

    def __init__(
        self,
        write: Callable[[str], object],
        *,
        every: float = EVERY,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self.write, self.every, self.clock = write, every, clock
        self._began = self._last = clock()

    def __call__(self, stage: Stage) -> None:
        """Hear of some work."""
        now = self.clock()
        if now - self._last >= self.every:
            self._last = now
            seconds = f"{now - self._began:.0f} s"
            self.write(f"{stage.name}: {stage.done} of {stage.total} ({seconds})")


def _on_stderr(line: str) -> None:
    print(f"whowrote: {line}", file=sys.stderr, flush=True)


@contextmanager
def stage_bars(wanted: bool = True) -> Iterator[None]:
    """One bar on standard error that names the work in hand; lines where that is no terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if not wanted:
        yield
        return
    if not console.is_terminal:
        with listening(Lines(_on_stderr, every=EVERY)):
            yield
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("starting", total=None)

        def show(stage: Stage) -> None:
            progress.update(
                task, description=stage.name, completed=stage.done, total=max(1, stage.total)
            )

        with listening(show):
            yield


class EpochLike(Protocol):
    """What an epoch's record must tell to be shown."""

    @property
    def phase(self) -> str:
        """What is being trained."""

    @property
    def epoch(self) -> int:
        """Which epoch ended, from one."""

    @property
    def watched(self) -> float | None:
        """What early stopping looks at."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""


@contextmanager
def epoch_bar(total: int, wanted: bool) -> Iterator[Callable[[EpochLike], None] | None]:
    """A progress bar fed with epoch records; None when nobody wants to see it."""
    if not wanted:
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(
        *columns,
        TextColumn("{task.fields[note]}"),
        console=console,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task("training", total=total, note="")

        def show(record: EpochLike) -> None:
            note = "" if record.watched is None else f"watched {record.watched:.4f}"
            bar.update(task, completed=record.epoch, description=record.phase, note=note)

        yield show


@dataclass(frozen=True)
class Told:
    """Passes an epoch's record on to whoever wants it, one at a time: members train in threads."""

    total: int
    show: Callable[[EpochLike], None] | None
    listener: Callable[[Stage], None] | None
    callbacks: tuple[Callable[[dict[str, Any]], object], ...]
    turn: Lock = field(default_factory=Lock)

    def __call__(self, record: EpochLike) -> None:
        """Tell everyone."""
        if self.listener is not None:
            self.listener(Stage("learning the authors", record.epoch, self.total))
        if self.show is not None:
            self.show(record)
        for callback in self.callbacks:
            with self.turn:
                callback(record.to_dict())


@dataclass(frozen=True)
class Tally:
    """How far a long list of fits is: all, done, those of them found done already, and a word."""

    total: int
    done: int = 0
    found: int = 0
    note: str = ""

    def pace(self, seconds: float) -> str:
        """Fits per second so far, and the time left at that pace.

        >>> Tally(total=100, done=40, found=20).pace(10.0)
        '2 fits/s, 0:00:30 left'
        >>> Tally(total=100, done=20, found=20).pace(10.0)
        ''
        """
        made = self.done - self.found
        if not made or seconds <= 0:
            return ""
        left = timedelta(seconds=round((self.total - self.done) * seconds / made))
        return f"{made / seconds:.3g} fits/s, {left} left"


@contextmanager
def fit_bar(total: int, wanted: bool) -> Iterator[Callable[[Tally], None] | None]:
    """A progress bar fed with tallies of fits, or lines; None when nobody wants to see it."""
    if not wanted:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        lines = Lines(_on_stderr, every=EVERY)
        yield lambda tally: lines(Stage("fits", tally.done, tally.total))
        return
    columns = ("fits", BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[note]}"))
    with Progress(*columns, console=console) as bar:
        task, began = bar.add_task("fits", total=total, note=""), perf_counter()

        def show(tally: Tally) -> None:
            words = filter(None, (tally.pace(perf_counter() - began), tally.note))
            bar.update(task, completed=tally.done, note=", ".join(words))

        yield show
