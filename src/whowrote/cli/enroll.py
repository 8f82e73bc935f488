"""``whowrote enroll``: new authors for a model, without training it again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from whowrote.cli.options import (
    AsJson,
    AuthorColumn,
    CorpusPath,
    Format,
    IdColumn,
    ModelPath,
    Overwrite,
    Quiet,
    TextColumn,
)


def enroll(
    model: ModelPath,
    corpus: CorpusPath,
    out: Annotated[Path, typer.Option(help="The folder of the new model.")],
    format: Format = None,
    text_column: TextColumn = None,
    author_column: AuthorColumn = None,
    id_column: IdColumn = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Add authors to a model: its networks stay as they are, its mixture grows.

    Takes seconds instead of minutes, and tells new authors less well than a model that was trained
    on all texts; train anew when an author matters.

    Example: `whowrote enroll letters.model more_letters/ --out more.model`
    """
    from whowrote.attribution.jobs import enroll_model
    from whowrote.cli.options import read_corpus
    from whowrote.progress import stage_bars

    texts = read_corpus(
        corpus,
        format=format,
        text_column=text_column,
        author_column=author_column,
        id_column=id_column,
    )
    with stage_bars(not quiet):
        done = enroll_model(model, texts, out, overwrite=overwrite)
    if as_json:
        typer.echo(json.dumps(done.to_dict(), ensure_ascii=False))
    elif not quiet:
        names = ", ".join(f"{author.name} ({author.texts} texts)" for author in done.new)
        typer.echo(
            f"New: {names}.\nOf the texts just enrolled, {done.own_texts_right} of "
            f"{done.own_texts} go to their author (learnt from, so flattered).\nModel: {done.out}"
        )
