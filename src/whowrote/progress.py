"""Rendering of long work on a terminal; silent elsewhere. The work itself only makes records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol


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
