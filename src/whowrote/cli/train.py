"""``whowrote train``: learn the styles of people from their texts."""

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
    Overwrite,
    Quiet,
    Seed,
    TextColumn,
    Verbose,
)

if TYPE_CHECKING:
    from whowrote.attribution.training import Trained


def train(
    corpus: CorpusPath,
    out: Annotated[
        Path | None, typer.Option(help="The model's folder; default: the corpus's name + .model.")
    ] = None,
    features: Features = "hybrid",
    seed: Seed = 0,
    format: Format = None,
    text_column: TextColumn = None,
    author_column: AuthorColumn = None,
    id_column: IdColumn = None,
    group_column: GroupColumn = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Learn who writes how, from texts whose authors are known.

    A folder with a folder of texts for each author, or a table with the columns author and text. At
    least two authors, and two texts (or one long one) of each; five or more texts are better. The
    model is a folder; no training text is in it.

    Example: `whowrote train letters/ --out letters.model`
    """
    from whowrote.attribution.training import train_model
    from whowrote.cli.options import read_corpus
    from whowrote.progress import stage_bars

    texts = read_corpus(
        corpus,
        format=format,
        text_column=text_column,
        author_column=author_column,
        id_column=id_column,
        group_column=group_column,
    )
    target = out or Path(f"{corpus.resolve().stem}.model")
    with stage_bars(not quiet):
        done = train_model(texts, target, features=features, seed=seed, overwrite=overwrite)
    if as_json:
        typer.echo(json.dumps(done.to_dict(), ensure_ascii=False))
    elif not quiet:
        _show(done, verbose)


def _show(done: Trained, verbose: bool) -> None:
    held_out = done.held_out
    typer.echo(
        f"{done.authors} authors, {done.texts} texts in {done.passages} passages, "
        f"{done.words} words.\n"
        f"Held out, {held_out.right} of {held_out.texts} of these texts go to their author "
        f"({held_out.right / held_out.texts:.1%}); `whowrote evaluate` measures it properly."
    )
    if verbose:
        for name, seconds in done.seconds.items():
            typer.echo(f"  {seconds:8.1f} s  {name}")
    typer.echo(f"Model: {done.out} ({done.megabytes:.1f} MB, {sum(done.seconds.values()):.0f} s)")
