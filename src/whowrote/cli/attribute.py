"""``whowrote attribute``: who wrote these texts, or none of the people the model knows."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from whowrote.cli.options import AsJson, Format, ModelPath, Quiet, TextColumn, told_on_stderr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from whowrote.attribution import Attribution

ROWS = 200  # of a table on screen; --json has them all


def attribute(
    model: ModelPath,
    texts: Annotated[
        list[str], typer.Argument(help="Text files, folders or tables of texts; - is stdin.")
    ],
    top: Annotated[int, typer.Option(min=1, help="Candidates shown for each text.")] = 3,
    none_below: Annotated[
        float | None,
        typer.Option(help="Say 'none of these' below this typicality; 0: always name somebody."),
    ] = None,
    format: Format = None,
    text_column: TextColumn = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Say who wrote texts: the best author with a probability, or none of these.

    The probability is that of an author given that one of the enrolled wrote the text. The
    typicality says how often a text of the best author is as little like him as this one: where
    it is below 2 %, the answer is "none of these". --json prints one object a line.

    Example: `whowrote attribute letters.model unknown.txt`
    """
    from whowrote.attribution.jobs import open_model, questioned
    from whowrote.progress import stage_bars

    with told_on_stderr():
        corpus = questioned(texts, sys.stdin, format=format, text_column=text_column)
    opened = open_model(model, none_below)
    with stage_bars(not quiet):
        answers = opened.attribute(corpus)
    if as_json:
        for answer in answers:
            typer.echo(answer.to_json())
    else:
        _show(answers, top)


def _show(answers: Sequence[Attribution], top: int) -> None:
    from rich.console import Console

    from whowrote.numbers import count

    console = Console()
    console.print(_table(answers, top))
    for answer in answers[:ROWS]:
        for warning in answer.warnings:
            console.print(f"{answer.document}: {warning}", style="yellow", markup=False)
    if len(answers) > ROWS:
        console.print(f"... and {len(answers) - ROWS} more texts (--json has all)")
    none = sum(answer.author is None for answer in answers)
    share = answers[0].none_below
    console.print(
        f"{count(len(answers), 'text')}, {none} by none of the {answers[0].model.authors} enrolled "
        f"authors (typicality below {share:.0%}). A probability is no proof.",
        highlight=False,
    )


def _table(answers: Sequence[Attribution], top: int) -> Table:
    from rich.markup import escape
    from rich.table import Table

    from whowrote.numbers import fine_percent, percent

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold underline")
    for name in ("text", "answer"):
        table.add_column(name)
    for name in ("tokens", "typicality"):
        table.add_column(name, justify="right")
    table.add_column("candidates")
    for answer in answers[:ROWS]:
        listed = ", ".join(
            f"{one.author} {percent(one.probability)}" for one in answer.ranking[:top]
        )
        table.add_row(
            escape(answer.document),
            "[bold]none of these[/bold]" if answer.author is None else escape(answer.author),
            str(answer.tokens),
            fine_percent(answer.typicality),
            escape(listed),
        )
    return table
