"""``whowrote sweep``: many fits from one file, resumable, chosen by development error."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from whowrote.sweep import Choice, Config, Results, Row

BY = ("component", "share")


def sweep(
    config: Annotated[Path, typer.Argument(help="A TOML file: data, splits, grid, fit, search.")],
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the records; CONFIG.records beside the file if not given."),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    test: Annotated[
        bool,
        typer.Option("--test", help="Show test errors too. To be read once, at the end."),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Fit a grid of models on every split, and show the best by development error.

    Writes one small record per fit. A sweep that was stopped goes on where it was when started
    again, and a finished one only reads its records. The file names a data set (`.npz` with X and
    y, or `.parquet`), splits, and lists of values for parameters:

        [data]
        vectors = "vectors.npz"

        [splits]
        folds = 5

        [grid]
        component = ["student-t", "gaussian"]
        latent_dim = [20, 50]

    Example: `whowrote sweep grid.toml --out results/grid --device cuda`
    """
    from whowrote.sweep import RecordWarning, read_config, run_config

    asked = read_config(config)
    folder = config.with_suffix(".records") if out is None else out
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RecordWarning)
        results = run_config(asked, folder, device=device, progress=not quiet)
    for warning in caught:
        typer.echo(f"whowrote: {warning.message}", err=True)
    best = results.best(BY)
    rows = results.table(BY) if test else []
    if as_json:
        import json

        typer.echo(json.dumps(_summary(folder, results, best, rows)))
    else:
        _show(asked, folder, results, best, rows)


def _summary(
    folder: Path, results: Results, best: Sequence[Choice], rows: Sequence[Row]
) -> dict[str, Any]:
    from dataclasses import asdict

    chosen = [
        {
            **choice.key,
            "configuration": choice.configuration,
            "development_error": choice.development_error,
            "development_log_loss": choice.development_log_loss,
            "n_candidates": choice.n_candidates,
        }
        for choice in best
    ]
    summary: dict[str, Any] = {
        "records": str(folder),
        "n_fits": len(results),
        "n_diverged": results.n_diverged,
        "best": chosen,
    }
    return summary | ({"test": [asdict(row) for row in rows]} if rows else {})


def _show(
    asked: Config,
    folder: Path,
    results: Results,
    best: Sequence[Choice],
    rows: Sequence[Row],
) -> None:
    from rich.console import Console

    console = Console()
    varied = [name for name in asked.varied if name not in BY]
    console.print(_best_table(best, [n for n in varied if _differs(results, n)]))
    if rows:
        console.print("", _test_table(rows), sep="\n")
    diverged = f", {results.n_diverged} diverged" if results.n_diverged else ""
    line = f"Records: {folder} ({len(results)} fits{diverged})"
    console.print(line, highlight=False, markup=False, soft_wrap=True)


def _differs(results: Results, name: str) -> bool:
    return len({str(record.configuration[name]) for record in results}) > 1


def _best_table(best: Sequence[Choice], varied: Sequence[str]) -> Table:
    table = _table("Best configuration by development error", (*BY, *varied))
    table.add_column("development error", justify="right")
    table.add_column("of", justify="right")
    for choice in best:
        values = [*choice.key.values(), *(choice.configuration[name] for name in varied)]
        error = f"{choice.development_error:.2%}"
        table.add_row(*map(_cell, values), error, str(choice.n_candidates))
    return table


def _test_table(rows: Sequence[Row]) -> Table:
    table = _table("Test error, every fold with its own choice by development error", BY)
    for name in ("test error", "sd", "folds", "fits"):
        table.add_column(name, justify="right")
    for row in rows:
        spread = "-" if row.test_sd is None else f"{row.test_sd:.2%}"
        counts = str(row.n_folds), str(row.n_fits)
        table.add_row(*map(_cell, row.key.values()), f"{row.test_error:.2%}", spread, *counts)
    return table


def _table(title: str, columns: Sequence[str]) -> Table:
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for name in columns:
        table.add_column(name)
    return table


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return ", ".join(map(_cell, value)) if isinstance(value, list) else str(value)
