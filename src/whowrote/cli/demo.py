"""``whowrote demo``: the main job on real embedded texts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whowrote.cli.options import AsJson, Quiet

if TYPE_CHECKING:
    from rich.table import Table

    from whowrote.demo import Answer, DemoResult, Score

MARKS = {True: "right", False: "WRONG"}


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the page and plots.")] = Path(
        "whowrote-demo"
    ),
    presidents: Annotated[int, typer.Option(help="How many presidents to enrol.")] = 12,
    outsider: Annotated[
        str, typer.Option(help="A president who is not enrolled, by full name.")
    ] = "Abraham Lincoln",
    seed: Annotated[int, typer.Option(help="Chooses the held-out addresses.")] = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Learn presidents' styles, then say who held other State of the Union addresses.

    Trains on addresses that come with the installation, attributes addresses it has not seen, and
    those of a president it does not know, which are by none of the enrolled. Writes a page with
    plots. Takes about two minutes on two cores and downloads nothing.

    Example: `whowrote demo --presidents 6 --seed 1 --out /tmp/demo`
    """
    from whowrote.demo import run
    from whowrote.progress import stage_bars

    with stage_bars(not quiet):
        result = run(out, presidents=presidents, seed=seed, outsider=outsider)
    if as_json:
        import json

        typer.echo(json.dumps(result.to_dict(), ensure_ascii=False))
    else:
        _render(result)


def _render(result: DemoResult) -> None:
    from rich.console import Console

    console = Console()
    console.print(_table(result.answers), "", sep="\n")
    for line in _summary(result):
        console.print(line, highlight=False, markup=False)
    for name, path in (("Plot", result.plot), ("Page", result.page)):
        console.print(f"{name}: {path}", highlight=False, markup=False, soft_wrap=True)


def _table(answers: tuple[Answer, ...]) -> Table:
    from rich.table import Table

    from whowrote.numbers import fine_percent, percent

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold underline")
    for column in ("year", "true author", "whowrote"):
        table.add_column(column, no_wrap=True)
    for column in ("prob.", "typical"):
        table.add_column(column, justify="right")
    for column in ("", "SVM"):
        table.add_column(column, no_wrap=True)
    for row in answers:
        table.add_row(
            str(row.year),
            row.author,
            row.answer or "none of these",
            percent(row.probability),
            fine_percent(row.typicality),
            MARKS[row.right],
            MARKS[row.svm_right],
            style="" if row.right else "bold red",
        )
    return table


def _summary(result: DemoResult) -> list[str]:
    memory = result.peak_memory_mb
    used = "" if memory is None else f", peak memory {memory:.0f} MB"
    return [
        f"{len(result.enrolled)} presidents, {result.training_texts} training addresses in "
        f"{result.training_passages} passages, split {result.split_hash[:12]}, seed {result.seed}.",
        f"Held-out addresses of enrolled presidents, whowrote:   {_share(result.ours)}.",
        f"Held-out addresses of enrolled presidents, n-gram SVM: {_share(result.svm)}.",
        f"{result.outsider} is not enrolled: {result.none.right} of his {result.none.n} addresses "
        "are said to be by none of these. The SVM always names somebody.",
        f"Time {result.seconds['all']:.0f} s{used}.",
    ]


def _share(score: Score) -> str:
    low, high = score.interval.low, score.interval.high
    return f"{score.right} of {score.n} right (95 % interval {low:.0%} to {high:.0%})"
