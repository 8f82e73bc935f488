"""``whowrote link``: which accounts of a corpus, or of two, belong to one person."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whowrote.cli.options import (
    AsJson,
    AuthorColumn,
    CorpusPath,
    Device,
    Format,
    GroupColumn,
    IdColumn,
    Quiet,
    Seed,
    TextColumn,
    read_corpus,
    told_on_stderr,
)
from whowrote.formatting import count, fine_percent, table

if TYPE_CHECKING:
    from rich.table import Table

    from whowrote.linking import Links

_SHOWN = 20  # rows on screen; --json, --out and --graph have all of the budget


def link(
    corpus: CorpusPath,
    against: Annotated[
        Path | None, typer.Option(help="Accounts of another platform: pairs across both alone.")
    ] = None,
    features: Annotated[str, typer.Option(help="adhominem or style.")] = "adhominem",
    size: Annotated[str, typer.Option(help="Of style: small, or large and slower.")] = "small",
    budget: Annotated[int, typer.Option(min=1, help="Pairs that people can review.")] = 200,
    fdr: Annotated[
        float, typer.Option(help="Share of the reported pairs that may be by two people.")
    ] = 0.05,
    expect: Annotated[
        float | None,
        typer.Option(help="Links that there are supposed to be; default: the likeliest number."),
    ] = None,
    min_words: Annotated[
        int, typer.Option(min=1, help="Accounts of fewer words are left out.")
    ] = 100,
    exact: Annotated[
        bool, typer.Option("--exact", help="Compare all pairs, however many accounts there are.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write the pairs as a CSV table.")] = None,
    graph: Annotated[Path | None, typer.Option(help="Write them as a graph (GraphML).")] = None,
    seed: Seed = 0,
    device: Device = None,
    format: Format = None,
    text_column: TextColumn = None,
    author_column: AuthorColumn = None,
    id_column: IdColumn = None,
    group_column: GroupColumn = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """List pairs of accounts by how strongly their style speaks for one person.

    Each account is an author of the corpus. The ratio of a pair weighs one person against two of
    the same corpus; it is learnt from accounts cut in two. The list is cut where the asked share of
    pairs by two people is expected, and ordered for review up to a budget. Texts copied from
    another account are taken out first and told apart. A link is a lead, never a finding: linking
    accounts can hurt people.

    Example: `whowrote link posts.csv --out links.csv --graph links.graphml`
    """
    from whowrote.features import ReliabilityWarning
    from whowrote.files import write_text
    from whowrote.linking import link as find
    from whowrote.progress import stage_bars

    columns = {
        **{"format": format, "text_column": text_column, "author_column": author_column},
        **{"id_column": id_column, "group_column": group_column},
    }
    first = read_corpus(corpus, **columns)
    second = None if against is None else read_corpus(against, **columns)
    with told_on_stderr(ReliabilityWarning), stage_bars(not quiet):
        found = find(
            first,
            second,
            features=features,
            size=size,
            device=device,
            budget=budget,
            fdr=fdr,
            expected=expect,
            fewest_words=min_words,
            exact=exact,
            random_state=seed,
        )
    if out is not None:
        write_text(out, found.to_csv())
    if graph is not None:
        write_text(graph, found.to_graphml())
    if as_json:
        typer.echo(found.to_json())
    elif not quiet:
        _show(found)


def _show(found: Links) -> None:
    from rich.console import Console

    console = Console()
    console.print(_pair_table(found))
    for line in _lines(found):
        console.print(line, highlight=False, markup=False)


def _pair_table(found: Links) -> Table:
    from rich.markup import escape

    columns = ("first", "second", ">words", ">log10 LR", ">probability", ">FDR", ">group")
    made = table(f"{count(found.reported, 'pair')} reported", ">", *columns)
    for link in found.links[: max(_SHOWN, found.reported)]:
        made.add_row(
            str(link.rank),
            escape(link.first),
            escape(link.second),
            f"{link.words[0]}, {link.words[1]}",
            f"{link.log10_lr:+.2f}",
            fine_percent(link.probability),
            fine_percent(link.false_discovery_rate),
            "" if link.group is None else str(link.group),
        )
    return made


def _lines(found: Links) -> list[str]:
    from whowrote.linking.linked import PROPOSITIONS, REMARK

    source = "as given" if found.prior_given else "the likeliest number for these ratios"
    lines = [
        f"{found.accounts:,} accounts, {found.texts:,} texts; {len(found.left_out)} accounts left "
        f"out, {count(found.copied_texts, 'copied text')} not weighed.",
        f"Weighed: {PROPOSITIONS[0]}; against: {PROPOSITIONS[1]}.",
        f"Population: {found.population}. No ratio goes beyond 10^{found.ratio['most_log10']:.1f}.",
        f"Prior: {found.expected_links:.0f} links among {found.pairs:,} pairs ({source}), one in "
        f"{1 / max(found.prior, 1e-12):,.0f}.",
        f"Reported: {count(found.reported, 'pair')} in {count(len(found.groups), 'group')} at a "
        f"false-discovery rate of {found.fdr:.0%}. Of the first {found.budget} pairs "
        f"{found.expected_in_budget:.0f} are expected to be by one person.",
    ]
    for first, second, runs in found.copies[:3]:
        lines.append(f"Shared text: {first} and {second} have {runs} runs of eight words alike.")
    return [*lines, *found.warnings, REMARK]
