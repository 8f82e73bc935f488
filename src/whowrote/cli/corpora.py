"""Commands about a corpus: ``audit`` looks at it, ``cluster`` groups its texts.

``link`` says which of its accounts belong to one person.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whowrote.cli.options import (
    PLAIN,
    AsJson,
    CorpusPath,
    Device,
    Quiet,
    Ray,
    Reading,
    Seed,
    between,
    corpus_options,
    file_to_write,
    say,
    told_on_stderr,
)
from whowrote.formatting import count, fine_percent, screen, table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from whowrote.clustering import Agreement, Choice, Clustering
    from whowrote.corpus.audit import Audit, DuplicateSet
    from whowrote.corpus.texts import Corpus
    from whowrote.linking import Links

_ROWS = 40  # of a table on screen; --json has them all
_EXAMPLES = 3
_PAIRS = 20  # on screen; --json, --out and --graph have all of the budget


NearDuplicates = Annotated[bool, typer.Option("--near-duplicates", hidden=True)]
"""So by default, and may be said."""


@corpus_options()
def audit(
    corpus: CorpusPath,
    reading: Reading = PLAIN,
    max_document_mb: Annotated[
        float,
        typer.Option(callback=between(0, 1e6), help="The largest document or line, in megabytes."),
    ] = 20,
    no_near_duplicates: Annotated[
        bool,
        typer.Option("--no-near-duplicates", help="Do not look for near ones, the slowest part."),
    ] = False,
    _near_duplicates: NearDuplicates = False,
    similarity: Annotated[
        float,
        typer.Option(callback=between(0.1, 1), help="Shared shingles that make a near duplicate."),
    ] = 0.7,
    min_texts: Annotated[
        int, typer.Option(callback=between(0), help="Authors with fewer texts are listed.")
    ] = 5,
    min_words: Annotated[
        int, typer.Option(callback=between(0), help="Authors with fewer words are listed.")
    ] = 2_500,
    as_json: AsJson = False,
) -> None:
    """Count a corpus and look for what would flatter or spoil a result.

    Texts and words per author, exact and near duplicates, repeated lines, authors with too little
    text, languages, groups that would leak between training and test, and whether marks of
    typography (quotes, dashes, spaces, line breaks, capitals) name the author by themselves.

    Example: `whowrote audit my_corpus/ --json > audit.json`
    """
    from whowrote.corpus.audit import audit as audit_corpus

    findings = audit_corpus(
        _load(corpus, max_document_bytes=int(max_document_mb * 1e6), **asdict(reading)),
        near_duplicates=not no_near_duplicates,
        min_texts=min_texts,
        min_words=min_words,
        similarity=similarity,
    )
    if as_json:
        say(json.dumps(findings.to_dict()))
    else:
        _show_audit(findings)


def _load(path: Path, **reading: Any) -> Corpus:
    """Load without the warning: the notes are part of what is printed."""
    from whowrote.corpus.texts import load
    from whowrote.errors import CorpusWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CorpusWarning)
        return load(path, **reading)


def _show_audit(findings: Audit) -> None:
    console = screen()
    console.print(_audited_authors(findings))
    for title, lines in _sections(findings).items():
        _show_section(console, title, lines)


def _audited_authors(findings: Audit) -> Table:
    from rich.box import HEAVY_HEAD

    known = sum(one.author is not None for one in findings.authors)
    title = f"{count(findings.documents, 'text')}, {findings.words} words, {known} known authors"
    columns = ("author", ">texts", ">words", ">median words", ">groups")
    made = table(title, *columns, box=HEAVY_HEAD, title_justify="center")
    for one in findings.authors[:_ROWS]:
        numbers = (one.texts, one.words, f"{one.median_words:g}", one.groups)
        made.add_row(_escaped(_name(one.author)), *map(str, numbers))
    if len(findings.authors) > _ROWS:
        made.add_row(f"... and {len(findings.authors) - _ROWS} more (--json has all)")
    return made


def _sections(findings: Audit) -> dict[str, list[str] | None]:
    """Each kind of finding under its title; None where it was not looked for."""
    settings, languages = findings.settings, findings.languages
    near = findings.near_duplicates
    return {
        "exact duplicates": _duplicate_lines(findings.exact_duplicates),
        f"near duplicates (similarity {settings.similarity:g} or more)": (
            None if near is None else _duplicate_lines(near)
        ),
        "lines an author repeats": [
            f"{line.author}: {line.line[:60]!r} in {line.texts} texts ({line.share:.0%})"
            for line in findings.boilerplate
        ],
        f"authors with under {settings.min_texts} texts or {settings.min_words} words": [
            f"{thin.author}: {count(thin.texts, 'text')}, {thin.words} words"
            for thin in findings.thin_authors
        ],
        f"languages (first {languages.characters} characters of {languages.examined} of "
        f"{languages.of} texts)": [
            f"{name}: {count(texts, 'text')}" for name, texts in languages.texts.items()
        ],
        "groups that would leak between training and test": [
            f"{leak.kind}: {_some(leak.documents)}" for leak in findings.leaks
        ],
        "typography": [] if findings.typography is None else [findings.typography.in_words],
        "documents skipped or repaired": [str(note) for note in findings.notes],
    }


def _duplicate_lines(found: Iterable[DuplicateSet]) -> list[str]:
    ordered = sorted(found, key=lambda same: not same.between_authors)
    return [
        f"{'between' if same.between_authors else 'within'} {_some(map(_name, same.authors))}: "
        f"{_some(same.documents)} (similarity {same.similarity:.2f})"
        for same in ordered
    ]


def _show_section(console: Console, title: str, lines: list[str] | None) -> None:
    count = "not looked for" if lines is None else len(lines) or "none"
    console.print(f"[bold]{_escaped(title)}[/bold]: {count}")
    lines = lines or []
    for line in lines[:_EXAMPLES]:
        console.print(f"  {_escaped(line)}", highlight=False, soft_wrap=True)
    if len(lines) > _EXAMPLES:
        console.print(f"  ... and {len(lines) - _EXAMPLES} more (--json has all)")


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - _EXAMPLES} more" if len(listed) > _EXAMPLES else ""
    return ", ".join(listed[:_EXAMPLES]) + more


def _name(author: str | None) -> str:
    return "(unknown)" if author is None else author


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)


# -- whowrote cluster ----------------------------------------------------------------------------


@corpus_options(without=("group_column",))
def cluster(
    corpus: CorpusPath,
    authors: Annotated[
        str, typer.Option(help="How many authors there are, or auto: chosen by held-out texts.")
    ] = "auto",
    features: Annotated[str, typer.Option(help="adhominem, ngrams or hybrid.")] = "adhominem",
    seed: Seed = 0,
    reading: Reading = PLAIN,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Put texts into groups, one for each supposed author, without any labels.

    Says the size and the clearest texts of each group and, with auto, how well every number of
    groups explains texts that were held out. Where the corpus names authors, the groups are
    compared with them; they are never learnt from. --json has the group of every text.

    Example: `whowrote cluster letters/ --authors auto`
    """
    from whowrote.clustering import cluster as group_texts
    from whowrote.features import ReliabilityWarning
    from whowrote.progress import stage_bars

    texts = reading.load(corpus)
    wanted = int(authors) if authors.isdecimal() and len(authors) < 20 else authors
    with told_on_stderr(ReliabilityWarning), stage_bars(not quiet):
        found = group_texts(texts, wanted, features=features, random_state=seed)
    if as_json:
        say(json.dumps(found.to_dict(), ensure_ascii=False))
    else:
        _show_clusters(found)


def _show_clusters(found: Clustering) -> None:
    console = screen()
    console.print(_group_table(found))
    if found.choice.curve:
        console.print(_curve_table(found.choice))
    if found.agreement is not None:
        console.print(_agreement_table(found, found.agreement))
    for line in _remarks(found):
        console.print(line, highlight=False, markup=False)


def _group_table(found: Clustering) -> Table:
    title = f"{found.texts} texts in {count(found.n_groups, 'group')}"
    made = table(title, ">group", ">texts", "most typical")
    for group in found.groups:
        made.add_row(str(group.number), str(group.size), _escaped(", ".join(group.typical)))
    return made


def _curve_table(choice: Choice) -> Table:
    title = f"How well held-out texts are explained ({choice.n_folds} folds)"
    made = table(title, ">authors", ">bound a text", ">less than best", ">standard error", "")
    marks = {choice.best: "best", choice.n_authors: "chosen"}
    best = max(point.bound for point in choice.curve)
    for point in choice.curve:
        numbers = point.bound, best - point.bound, point.difference_error
        shown = (f"{number:.2f}" for number in numbers)
        made.add_row(str(point.n_authors), *shown, marks.get(point.n_authors, ""))
    return made


def _agreement_table(found: Clustering, agreement: Agreement) -> Table:
    columns = [f">{group.number}" for group in found.groups]
    made = table("Authors by group", "author", *columns)
    for author, counts in zip(agreement.authors, agreement.table, strict=True):
        made.add_row(_escaped(author), *(str(count) if count else "" for count in counts))
    return made


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


# -- whowrote link ------------------------------------------------------------------------------


Against = Annotated[
    Path | None, typer.Option(help="Accounts of another platform: pairs across both alone.")
]
StyleSize = Annotated[str, typer.Option(help="Of style: small, or large and slower.")]
Budget = Annotated[int, typer.Option(callback=between(1), help="Pairs that people can review.")]
Rate = Annotated[float, typer.Option(help="Share of the reported pairs that may be wrong.")]
Expect = Annotated[
    float | None, typer.Option(help="How many links there are; default: the likeliest number.")
]
MinWords = Annotated[
    int, typer.Option(callback=between(1), help="Accounts of fewer words are left out.")
]
Exact = Annotated[bool, typer.Option("--exact", help="Compare all pairs, however many.")]
TableOut = Annotated[Path | None, file_to_write("Write the pairs as a CSV table.")]
GraphOut = Annotated[Path | None, file_to_write("Write them as a graph (GraphML).")]


@corpus_options()
def link(
    corpus: CorpusPath,
    against: Against = None,
    features: Annotated[str, typer.Option(help="adhominem or style.")] = "adhominem",
    size: StyleSize = "small",
    budget: Budget = 200,
    fdr: Rate = 0.05,
    expect: Expect = None,
    min_words: MinWords = 100,
    exact: Exact = False,
    out: TableOut = None,
    graph: GraphOut = None,
    seed: Seed = 0,
    device: Device = None,
    ray: Ray = None,
    reading: Reading = PLAIN,
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
    corpora = [reading.load(path) for path in (corpus, against) if path is not None]
    settings = {"features": features, "size": size, "device": device, "budget": budget}
    limits = {"fdr": fdr, "expected": expect, "fewest_words": min_words, "exact": exact}
    found = _linked(corpora, not quiet, ray, random_state=seed, **settings, **limits)
    _write_links(found, out, graph)
    if as_json:
        typer.echo(found.to_json())
    elif not quiet:
        _show_links(found)


def _linked(corpora: Sequence[Corpus], bars: bool, ray: str | None, **settings: Any) -> Links:
    from whowrote.distributed import machines_of
    from whowrote.features import ReliabilityWarning
    from whowrote.linking import link as find
    from whowrote.progress import stage_bars

    gpus = (settings["device"] or "").startswith("cuda")
    with (
        machines_of(ray, gpus=gpus) as machines,
        told_on_stderr(ReliabilityWarning),
        stage_bars(bars),
    ):
        return find(*corpora, machines=machines, **settings)


def _write_links(found: Links, out: Path | None, graph: Path | None) -> None:
    from whowrote.files import write_text

    if out is not None:
        write_text(out, found.to_csv())
    if graph is not None:
        write_text(graph, found.to_graphml())


def _show_links(found: Links) -> None:
    console = screen()
    console.print(_pair_table(found))
    for line in _link_lines(found):
        console.print(line, highlight=False, markup=False)


def _pair_table(found: Links) -> Table:
    from rich.markup import escape

    columns = ("first", "second", ">words", ">log10 LR", ">probability", ">FDR", ">group")
    made = table(f"{count(found.reported, 'pair')} reported", ">", *columns)
    for link in found.links[: max(_PAIRS, found.reported)]:
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


def _link_lines(found: Links) -> list[str]:
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
