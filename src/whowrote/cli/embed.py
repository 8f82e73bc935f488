"""``whowrote embed``: a corpus of any size into a table of vectors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from whowrote.cli.options import AuthorColumn, CorpusPath, Format, IdColumn, TextColumn

if TYPE_CHECKING:
    from whowrote.features.streaming import Embedded, Part


def embed(
    corpus: CorpusPath,
    out: Annotated[Path, typer.Option(help="The table to write, ending in .parquet.")],
    features: Annotated[
        str, typer.Option(help="adhominem, or sentences (a sentence-transformers model).")
    ] = "adhominem",
    model: Annotated[
        str | None,
        typer.Option(help="Weights of your own, or the sentence-transformers model."),
    ] = None,
    workers: Annotated[int, typer.Option(help="Processes that share the work.")] = 1,
    device: Annotated[
        str | None, typer.Option(help="cpu, cuda, ...; default: a GPU if any.")
    ] = None,
    format: Format = None,
    text_column: TextColumn = None,
    author_column: AuthorColumn = None,
    id_column: IdColumn = None,
    part: Annotated[
        int, typer.Option(help="Texts per part: as many are lost at most by a kill.")
    ] = 4096,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Write over a table that is there already.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="No progress bar and no closing line.")
    ] = False,
) -> None:
    """Turn every text of a corpus into a vector of its author's style.

    Writes a Parquet table with id, author, sha256 of the text, and vector. The corpus may be larger
    than memory. Parts are kept in a folder beside the table until it is whole: the same command
    resumes a run that was stopped or killed.

    Example: `whowrote embed posts.jsonl --out levs.parquet --workers 2`
    """
    from whowrote.features.streaming import Choice, embed_corpus

    with _bar(wanted=not quiet) as show:
        done = embed_corpus(
            corpus,
            out,
            Choice(features, model, device),
            workers=workers,
            texts_per_part=part,
            overwrite=overwrite,
            on_part=show,
            format=format,
            text_column=text_column,
            author_column=author_column,
            id_column=id_column,
        )
    for line in _remarks(done):
        typer.echo(f"whowrote: {line}", err=True)
    if as_json:
        typer.echo(json.dumps(done.to_dict()))
    elif not quiet:
        typer.echo(_summary(done))


def _summary(done: Embedded) -> str:
    made = done.texts - done.found
    speed = f"{made / done.seconds:.0f} texts/s" if made else "nothing to embed"
    found = f", {done.found} found done already" if done.found else ""
    return f"{done.texts} texts, {done.dimensions} dimensions{found}, {speed}\nVectors: {done.out}"


def _remarks(done: Embedded) -> list[str]:
    """What the user should know even when nothing else is printed."""
    lines = [f"{count} texts of the corpus: {kind}" for kind, count in sorted(done.notes.items())]
    if done.short:
        lines.append(
            f"{done.short} of {done.texts} texts have fewer than 20 tokens; their vectors are "
            "mostly chance: join short texts of one author, or leave them out"
        )
    return lines


@contextmanager
def _bar(wanted: bool) -> Iterator[Callable[[Part], None]]:
    """Texts so far and texts per second; silent off a terminal."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.completed:.0f} texts"), TimeElapsedColumn())
    with Progress(
        *columns,
        TextColumn("{task.fields[note]}"),
        console=console,
        disable=not (wanted and console.is_terminal),
    ) as bar:
        task, began = bar.add_task("embedding", total=None, note=""), perf_counter()
        made = 0

        def show(part: Part) -> None:
            nonlocal made
            made += 0 if part.found else part.texts
            speed = made / (perf_counter() - began)
            bar.update(task, advance=part.texts, note=f"{speed:.0f} texts/s")

        yield show
