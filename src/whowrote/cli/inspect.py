"""``whowrote inspect``: what a model knows, and what it is made of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whowrote.cli.options import AsJson, ModelPath

if TYPE_CHECKING:
    from rich.table import Table

    from whowrote.attribution.jobs import Inspected

ROWS = 40  # of a table on screen; --json has them all


def inspect(
    model: ModelPath,
    plots: Annotated[
        Path | None, typer.Option(help="Folder for plots as PNG and SVG; none by default.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the authors of a model, their tails, its parts and their sizes, and where it comes from.

    With --plots: a map of the authors, a tree of who writes like whom, and the tails.

    Example: `whowrote inspect letters.model --plots figures/`
    """
    from whowrote.attribution.jobs import inspect_model

    found = inspect_model(model)
    if as_json:
        typer.echo(json.dumps(found.to_dict(), ensure_ascii=False))
    else:
        _show(found)
    if plots is not None:
        for path in _draw(model, plots):
            typer.echo(f"Plot: {path}", err=as_json)


def _show(found: Inspected) -> None:
    from rich.console import Console

    console = Console()
    console.print(_authors(found))
    console.print(_parts(found))
    for line in _lines(found):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _authors(found: Inspected) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=f"{len(found.authors)} authors", title_justify="left", box=None)
    table.add_column("author")
    for name in ("texts", "passages", "words", "nu"):
        table.add_column(name, justify="right")
    rows = list(zip(found.authors, found.degrees_of_freedom, strict=True))
    for author, df in rows[:ROWS]:
        numbers = (author.texts, author.passages, author.words, f"{df:.1f}")
        table.add_row(escape(author.name), *map(str, numbers))
    if len(rows) > ROWS:
        table.add_row(f"... and {len(rows) - ROWS} more (--json has all)")
    return table


def _parts(found: Inspected) -> Table:
    from rich.table import Table

    total = sum(found.bytes.values())
    table = Table(title=f"{total / 1e6:.1f} MB", title_justify="left", box=None)
    table.add_column("part")
    table.add_column("MB", justify="right")
    table.add_column("share", justify="right")
    for name, size in found.bytes.items():
        table.add_row(name, f"{size / 1e6:.2f}", f"{size / total:.0%}")
    return table


def _lines(found: Inspected) -> list[str]:
    held_out, pooling = found.held_out, found.calibration
    lines = [
        f"model {found.id[:16]}, whowrote {found.version}, features {found.features['kind']}, "
        f"{found.component} mixture, {found.latent_dim} latent dimensions, {found.members} members",
        f"held out, {held_out.right} of {held_out.texts} training texts go to their author",
        f"passages of {found.settings['passage_words']} words; temperature "
        f"{pooling['temperature']:.2f}, exponent {pooling['exponent']:.2f}; none of these below "
        f"{found.settings['none_below']:.0%} typicality; {found.settings['prior']} prior",
    ]
    if found.verification:
        lines.append(
            f"verification: {found.verification['pairs']} pairs, AUC "
            f"{found.verification['auc']:.3f}"
        )
    if found.card:
        about = ", ".join(f"{name} {value}" for name, value in found.card.items())
        lines.append(f"extractor: {about} (terms: docs/model_card.md)")
    return lines


def _draw(model: Path, folder: Path) -> list[Path]:
    """Every plot as PNG and SVG."""
    from whowrote import plots as pictures
    from whowrote.attribution import Attributor
    from whowrote.plots.portraits import author_pictures

    return [
        pictures.save(figure, folder / f"{name}.{kind}")
        for name, figure in author_pictures(Attributor.load(model)).items()
        for kind in ("png", "svg")
    ]
