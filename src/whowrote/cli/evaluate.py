"""``whowrote evaluate``: how good would an answer be on texts like these."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whowrote.cli.options import (
    AsJson,
    AuthorColumn,
    CorpusPath,
    Features,
    Format,
    GroupColumn,
    IdColumn,
    Quiet,
    Seed,
    TextColumn,
)

if TYPE_CHECKING:
    from rich.table import Table

    from whowrote.evaluation import CrossValidation, Method

CONFUSIONS = 5


def evaluate(
    corpus: CorpusPath,
    baseline: Annotated[
        list[str] | None,
        typer.Option(help="A classic method beside it: ngram-svm, delta, linear-svm, rbf-svm."),
    ] = None,
    folds: Annotated[
        int | None, typer.Option(min=2, help="Parts; default: five, fewer for few texts.")
    ] = None,
    features: Features = "hybrid",
    plots: Annotated[
        Path | None, typer.Option(help="Folder for plots as PNG and SVG; none by default.")
    ] = None,
    seed: Seed = 0,
    format: Format = None,
    text_column: TextColumn = None,
    author_column: AuthorColumn = None,
    id_column: IdColumn = None,
    group_column: GroupColumn = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Cross-validate: each text is attributed by a model that has not seen it.

    Error with its 95 % interval, macro-F1, Brier score, calibration error, log-loss, the error
    against text length, the confusions, and the same for classic methods on the same folds. Takes
    as many trainings as there are folds.

    Example: `whowrote evaluate letters/ --baseline ngram-svm --plots figures/`
    """
    from whowrote.attribution import Attributor
    from whowrote.cli.options import read_corpus
    from whowrote.evaluation import cross_validate
    from whowrote.progress import stage_bars

    texts = read_corpus(
        corpus,
        format=format,
        text_column=text_column,
        author_column=author_column,
        id_column=id_column,
        group_column=group_column,
    )
    with stage_bars(not quiet):
        found = cross_validate(
            texts,
            Attributor(features, random_state=seed),
            baselines=baseline or (),
            n_folds=folds,
            seed=seed,
        )
    if as_json:
        typer.echo(json.dumps(found.to_dict(), ensure_ascii=False))
    else:
        _show(found)
    if plots is not None:
        for path in _draw(found, plots):
            typer.echo(f"Plot: {path}", err=as_json)


def _show(found: CrossValidation) -> None:
    from rich.console import Console

    console = Console()
    console.print(_figures(found))
    ours = found.methods[0]
    console.print(_lengths(ours))
    for line in _remarks(found, ours):
        console.print(line, highlight=False, markup=False)


def _figures(found: CrossValidation) -> Table:
    from rich.table import Table

    title = f"{found.texts} texts, {len(found.authors)} authors, {found.n_folds} folds"
    table = Table(title=title, title_justify="left", box=None)
    table.add_column("method")
    for name in ("error", "95 % interval", "macro-F1", "Brier", "ECE", "log-loss"):
        table.add_column(name, justify="right")
    for method in found.methods:
        e = method.evaluation
        table.add_row(
            method.name,
            f"{e.error:.1%}",
            f"{e.error_interval.low:.1%} to {e.error_interval.high:.1%}",
            f"{e.macro_f1:.3f}",
            f"{e.brier:.3f}",
            f"{e.ece:.3f}",
            f"{e.log_loss:.3f}",
        )
    return table


def _lengths(method: Method) -> Table:
    from rich.table import Table

    table = Table(title="Error by length of the text", title_justify="left", box=None)
    for name in ("words", "texts", "error", "95 % interval"):
        table.add_column(name, justify="right")
    for one in method.by_length:
        table.add_row(
            f"{one.low:.0f} to {one.high:.0f}",
            str(one.n),
            f"{one.error:.1%}",
            f"{one.interval.low:.1%} to {one.interval.high:.1%}",
        )
    return table


def _remarks(found: CrossValidation, ours: Method) -> list[str]:
    e = ours.evaluation
    pairs = [
        (count, e.classes[row], e.classes[column])
        for row, counts in enumerate(e.confusion)
        for column, count in enumerate(counts)
        if row != column and count
    ]
    worst = ", ".join(
        f"{true} for {named} ({count})" for count, true, named in sorted(pairs)[::-1][:CONFUSIONS]
    )
    return [
        f"Most often taken: {worst or 'nobody for anybody'}.",
        f"'None of these' was said of {ours.none_share or 0:.1%} of the texts, whose authors were "
        "all enrolled.",
        f"Split {found.split_hash[:12]}, seed {found.seed}.",
    ]


def _draw(found: CrossValidation, folder: Path) -> list[Path]:
    """Every plot as PNG and SVG."""
    from whowrote import plots as pictures

    ours = found.methods[0]
    figures = {
        "confusion": pictures.confusion_matrix(ours.evaluation.confusion, found.authors),
        "reliability": pictures.reliability_diagram(ours.confidence, ours.right),
        "lengths": pictures.length_errors(ours.by_length),
    }
    return [
        pictures.save(figure, folder / f"{name}.{kind}")
        for name, figure in figures.items()
        for kind in ("png", "svg")
    ]
