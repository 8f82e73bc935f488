"""``whowrote demo``: the main job on real embedded texts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from whowrote.demo import Answer, DemoResult, Report, Score

STAGES = 4
MARKS = {True: "right", False: "WRONG", None: "-"}
STYLES = {True: "", False: "bold red", None: "yellow"}


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the plot.")] = Path("whowrote-demo"),
    presidents: Annotated[int, typer.Option(help="How many presidents to enrol.")] = 12,
    seed: Annotated[int, typer.Option(help="Chooses the held-out addresses.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Learn presidents' styles, then say who held other State of the Union addresses.

    Trains on addresses that come with the installation, attributes addresses it has not seen, and
    some by a president it does not know. Takes under a minute and downloads nothing.

    Example: `whowrote demo --presidents 6 --seed 1 --out /tmp/demo`
    """
    from whowrote.demo import run

    with _progress() as report:
        result = run(out, presidents=presidents, seed=seed, report=report)
    if as_json:
        import json

        typer.echo(json.dumps(result.to_dict(), ensure_ascii=False))
    else:
        _render(result)


@contextmanager
def _progress() -> Iterator[Report]:
    """A bar on standard error that names the stage; silent where that is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    silent = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=silent) as progress:
        task = progress.add_task("starting", total=STAGES, completed=-1)
        yield lambda stage: progress.update(task, description=stage, advance=1)


def _render(result: DemoResult) -> None:
    from rich.console import Console

    console = Console()
    console.print(_table(result.answers), "", sep="\n")
    for line in _summary(result):
        console.print(line, highlight=False, markup=False)
    console.print(f"Plot: {result.plot}", highlight=False, markup=False, soft_wrap=True)


def _table(answers: tuple[Answer, ...]) -> Table:
    from rich.table import Table

    from whowrote.plots import percent

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold underline")
    for column in ("address", "year", "true author", "answer"):
        table.add_column(column, no_wrap=True)
    table.add_column("prob.", justify="right")
    table.add_column("", no_wrap=True)
    for row in answers:
        cells = row.address, str(row.year), row.author, row.answer, percent(row.probability)
        table.add_row(*cells, MARKS[row.right], style=STYLES[row.right])
    return table


def _summary(result: DemoResult) -> list[str]:
    memory = result.peak_memory_mb
    used = "" if memory is None else f", peak memory {memory:.0f} MB"
    return [
        f"{result.model}, {len(result.enrolled)} presidents, {result.training_passages} training "
        f"passages, split {result.split_hash[:12]}, seed {result.seed}.",
        f"Addresses right: {_share(result.addresses)}.",
        f"Passages right: {_share(result.passages)}.",
        _about_outsider(result),
        f"Time {result.seconds:.1f} s{used}.",
    ]


def _share(score: Score) -> str:
    low, high = score.interval.low, score.interval.high
    return f"{score.right} of {score.n} ({score.share:.1%}, 95 % interval {low:.0%} to {high:.0%})"


def _about_outsider(result: DemoResult) -> str:
    given = [row.probability for row in result.answers if row.right is None]
    return (
        f"{result.outsider} is not enrolled, so no answer (-) to his {len(given)} addresses can be "
        f"right. {result.model} must name someone and cannot say 'none of these' yet; it gave its "
        f"answers {sum(given) / len(given):.0%} on average."
    )
