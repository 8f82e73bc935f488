"""``whowrote cluster``: who wrote what when nobody is labelled."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from whowrote.cli.options import (
    AsJson,
    AuthorColumn,
    CorpusPath,
    Format,
    IdColumn,
    Quiet,
    Seed,
    TextColumn,
)

if TYPE_CHECKING:
    from rich.table import Table

    from whowrote.clustering import Agreement, Choice, Clustering


def cluster(
    corpus: CorpusPath,
    authors: Annotated[
        str, typer.Option(help="How many authors there are, or auto: chosen by held-out texts.")
    ] = "auto",
    features: Annotated[str, typer.Option(help="adhominem, ngrams or hybrid.")] = "adhominem",
    seed: Seed = 0,
    format: Format = None,
    text_column: TextColumn = None,
    author_column: AuthorColumn = None,
    id_column: IdColumn = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Put texts into groups, one for each supposed author, without any labels.

    Says the size and the clearest texts of each group and, with auto, how well every number of
    groups explains texts that were held out. Where the corpus names authors, the groups are
    compared with them; they are never learnt from. --json has the group of every text.

    Example: `whowrote cluster letters/ --authors auto`
    """
    from whowrote.cli.options import read_corpus
    from whowrote.clustering import cluster as group_texts
    from whowrote.progress import stage_bars

    texts = read_corpus(
        corpus,
        format=format,
        text_column=text_column,
        author_column=author_column,
        id_column=id_column,
    )
    wanted = int(authors) if authors.isdecimal() else authors
    with _short_texts_told(), stage_bars(not quiet):
        found = group_texts(texts, wanted, features=features, random_state=seed)
    if as_json:
        typer.echo(json.dumps(found.to_dict(), ensure_ascii=False))
    else:
        _show(found)


@contextmanager
def _short_texts_told() -> Iterator[None]:
    """A warning of texts too short to judge becomes one line on standard error."""
    from whowrote.features import ReliabilityWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ReliabilityWarning)
        yield
    for warning in caught:
        typer.echo(f"whowrote: {warning.message}", err=True)


def _show(found: Clustering) -> None:
    from rich.console import Console

    console = Console()
    console.print(_group_table(found))
    if found.choice.curve:
        console.print(_curve_table(found.choice))
    if found.agreement is not None:
        console.print(_author_table(found, found.agreement))
    for line in _remarks(found):
        console.print(line, highlight=False, markup=False)


def _group_table(found: Clustering) -> Table:
    from rich.markup import escape

    table = _table(f"{found.texts} texts in {found.n_groups} groups", "group", "texts")
    table.add_column("most typical")
    for group in found.groups:
        table.add_row(str(group.number), str(group.size), escape(", ".join(group.typical)))
    return table


def _curve_table(choice: Choice) -> Table:
    title = f"How well held-out texts are explained ({choice.n_folds} folds)"
    table = _table(title, "authors", "bound a text", "less than best", "standard error")
    table.add_column("")
    marks = {choice.best: "best", choice.n_authors: "chosen"}
    best = max(point.bound for point in choice.curve)
    for point in choice.curve:
        numbers = point.bound, best - point.bound, point.difference_error
        shown = (f"{number:.2f}" for number in numbers)
        table.add_row(str(point.n_authors), *shown, marks.get(point.n_authors, ""))
    return table


def _author_table(found: Clustering, agreement: Agreement) -> Table:
    from rich.markup import escape

    columns = [str(group.number) for group in found.groups]
    table = _table("Authors by group", "author", *columns)
    table.columns[0].justify = "left"
    for author, counts in zip(agreement.authors, agreement.table, strict=True):
        table.add_row(escape(author), *(str(count) if count else "" for count in counts))
    return table


def _table(title: str, *numbers: str) -> Table:
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=None)
    for name in numbers:
        table.add_column(name, justify="right")
    return table


def _remarks(found: Clustering) -> list[str]:
    lines = []
    if found.n_groups < found.choice.n_authors:
        lines.append(
            f"{found.choice.n_authors} groups were asked for; {found.n_groups} of them have texts."
        )
    if found.agreement is not None:
        lines.append(
            f"Agreement over {found.agreement.texts} texts of known authors: adjusted Rand index "
            f"{found.agreement.adjusted_rand:.2f}, {found.agreement.accuracy:.0%} of them in the "
            "group that matches the author best."
        )
    lines.append("A group is a likeness of style; one author may have two, and two may share one.")
    return lines
