"""Commands for scholars: ``zeta``, ``tree``, ``distances``, ``compare``, and ``stress``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whowrote.cli.options import (
    PLAIN,
    AsJson,
    CorpusPath,
    ModelPath,
    Quiet,
    Reading,
    Seed,
    between,
    corpus_options,
    file_to_write,
    say,
    told_on_stderr,
)
from whowrote.errors import CorpusWarning, InputError
from whowrote.formatting import count, fine_percent, percent, screen, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from whowrote.corpus.texts import Corpus
    from whowrote.stress import Condition, Stress
    from whowrote.stylometry import Consensus, Distances, SideBySide, Zeta

Plot = Annotated[Path | None, file_to_write("Draw it as .png or .svg.")]
Questioned = Annotated[
    list[str] | None,
    typer.Option(help="A name in the author column that stands for 'questioned'; may be repeated."),
]
LeaveOut = Annotated[
    list[str] | None, typer.Option(help="An author whose texts are left out; may be repeated.")
]
SHOWN = 15


def _texts(path: str) -> Corpus:
    from whowrote.attribution.jobs import questioned

    with told_on_stderr(CorpusWarning):
        return questioned([path], sys.stdin)


def _side(path: str, corpus: Corpus | None) -> Corpus:
    """An author of the corpus, or a file or folder of texts."""
    if corpus is None:
        return _texts(path)
    own = corpus.by_author().get(path)
    if own is None:
        raise InputError(
            f"{path!r} is no author of the corpus; it has {', '.join(corpus.author_names)}: name "
            "two of them"
        )
    return own


def _asked(
    corpus: Corpus, questioned: Sequence[str] | None, left_out: Sequence[str] | None
) -> Corpus:
    from whowrote.corpus.texts import Corpus as Texts

    unknown = {*(questioned or ()), *(left_out or ())} - {*corpus.author_names}
    if unknown:
        raise InputError(
            f"{sorted(unknown)[0]!r} is no author of the corpus; it has "
            f"{', '.join(corpus.author_names)}: name one of them"
        )
    kept = corpus.subset(i for i, one in enumerate(corpus.authors) if one not in (left_out or ()))
    authors = [None if one in (questioned or ()) else one for one in kept.authors]
    return Texts.from_texts(kept.texts, authors, ids=kept.ids, groups=kept.groups)


# -- whowrote zeta -------------------------------------------------------------------------------


def zeta(
    a: Annotated[str, typer.Argument(help="A file or folder; with --corpus, an author.")],
    b: Annotated[str, typer.Argument(help="The other side.")],
    corpus: Annotated[Path | None, typer.Option(help="Texts in which A and B are authors.")] = None,
    segment_words: Annotated[int, typer.Option(help="Words of a segment.")] = 2000,
    top: Annotated[int, typer.Option(callback=between(1), help="Words of either side.")] = 30,
    plot: Plot = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Say which words A prefers and which B: in many segments of one, in few of the other.

    Beside the words stands what chance does: the largest Zeta of all words that one in twenty
    shufflings of the texts reaches. A word below it may be chance.

    Example: `whowrote zeta Hamilton Madison --corpus federalist.csv --plot zeta.png`
    """
    from whowrote.stylometry import zeta as prefer

    texts = None if corpus is None else PLAIN.load(corpus)
    sides = _side(a, texts).texts, _side(b, texts).texts
    found = prefer(*sides, sides=(a, b), segment_words=segment_words, top=top, seed=seed)
    if as_json:
        say(json.dumps(found.to_dict(), ensure_ascii=False))
    else:
        _show_zeta(found)
    if plot is not None:
        from whowrote.plots.style import save
        from whowrote.plots.trees import zeta_words

        say(f"Plot: {save(zeta_words(found), plot)}", err=as_json)


def _show_zeta(found: Zeta) -> None:
    from rich.markup import escape

    names = [escape(name) for name in found.sides]
    made = table("", names[0], ">Zeta", names[1], ">Zeta")
    for row in range(min(SHOWN, max(len(found.first), len(found.second)))):
        cells: list[str] = []
        for side in (found.first, found.second):
            one = side[row] if row < len(side) else None
            cells += ["", ""] if one is None else [escape(one.word), f"{one.zeta:+.2f}"]
        made.add_row(*cells)
    console = screen()
    console.print(made)
    sizes = f"{found.segments[0]} and {found.segments[1]} segments"
    chance = (
        "too few texts to say what chance does"
        if found.chance is None
        else f"chance reaches {found.chance:.2f} in 1 of 20 shufflings"
    )
    long = f"about {found.segment_words:,} words, shorter texts whole"
    console.print(f"{sizes} of {long}; {chance}.", highlight=False)


# -- whowrote tree -------------------------------------------------------------------------------


@corpus_options(without=("group_column",))
def tree(
    corpus: CorpusPath,
    questioned: Questioned = None,
    leave_out: LeaveOut = None,
    samples: Annotated[
        int,
        typer.Option(
            callback=between(0), help="Join known texts to samples of so many words; 0: do not."
        ),
    ] = 0,
    strength: Annotated[float, typer.Option(help="Share of trees that must have a group.")] = 0.5,
    newick: Annotated[Path | None, file_to_write("Write the tree.")] = None,
    graphml: Annotated[Path | None, file_to_write("Write the network of neighbours.")] = None,
    csv: Annotated[
        Path | None,
        file_to_write("Write its edges, as Gephi reads them."),
    ] = None,
    plot: Plot = None,
    reading: Reading = PLAIN,
    as_json: AsJson = False,
) -> None:
    """Grow a consensus tree of single texts, the questioned ones among them.

    Ward's trees of the cosine Delta over the 100, 200, ... 1,000 most frequent words; a group stays
    if more than half of them have it. Short texts keep few groups: --samples joins known ones.

    Example: `whowrote tree plays/ --questioned disputed --plot tree.png --newick tree.nwk`
    """
    from whowrote.files import write_text
    from whowrote.stylometry.delta import consensus, edge_list, joined_samples
    from whowrote.stylometry.delta import graphml as network

    texts = _asked(reading.load(corpus), questioned, leave_out)
    found = consensus(joined_samples(texts, samples) if samples else texts, strength=strength)
    if as_json:
        say(json.dumps(found.to_dict() | {"newick": found.newick()}, ensure_ascii=False))
    else:
        _show_tree(found)
    for path, made in (
        (newick, f"{found.newick()}\n"),
        (graphml, network(found)),
        (csv, edge_list(found)),
    ):
        if path is not None:
            write_text(path, made)
            say(f"File: {path}", err=as_json)
    if plot is not None:
        from whowrote.plots.style import save
        from whowrote.plots.trees import consensus_tree

        say(f"Plot: {save(consensus_tree(found), plot)}", err=as_json)


def _show_tree(found: Consensus) -> None:
    from rich.markup import escape

    console = screen()
    console.print(
        f"{len(found.names)} texts, {len(found.groups) - 1} groups in more than "
        f"{found.strength:.0%} of {len(found.bands)} trees ({found.bands[0]} to {found.bands[-1]} "
        "words).",
        highlight=False,
    )
    made = table("", "questioned text", "stands with", ">share of trees")
    for row, author in enumerate(found.authors):
        if author is None and any(found.authors):
            company = found.company(row)
            known = company[1].items() if company else ()
            said = ", ".join(f"{name} ({n})" for name, n in known) or "no text of known author"
            share = f"{company[0].share:.0%}" if company else ""
            made.add_row(escape(found.names[row]), escape(said), share)
    if made.row_count:
        console.print(made)
    console.print("A branch is likeness of style; it is no probability.", highlight=False)


# -- whowrote distances --------------------------------------------------------------------------


@corpus_options(without=("group_column",))
def distances(
    corpus: CorpusPath,
    method: Annotated[
        str, typer.Option(help="delta, cosine-delta, vectors or ngrams.")
    ] = "cosine-delta",
    words: Annotated[int, typer.Option(help="Most frequent words, for both Deltas.")] = 500,
    questioned: Questioned = None,
    leave_out: LeaveOut = None,
    csv: Annotated[Path | None, file_to_write("Write the whole table.")] = None,
    plot: Plot = None,
    reading: Reading = PLAIN,
    as_json: AsJson = False,
) -> None:
    """Measure how far texts are from each other: Delta, cosine Delta, style vectors, n-grams.

    Shows the nearest texts of each questioned one; --csv has the table, --plot a map.

    Example: `whowrote distances plays/ --questioned disputed --csv distances.csv --plot map.png`
    """
    from whowrote.stylometry import distances as measure

    texts = _asked(reading.load(corpus), questioned, leave_out)
    found = measure(texts, method, words)
    if as_json:
        say(json.dumps(found.to_dict(), ensure_ascii=False))
    else:
        _show_distances(found)
    if csv is not None:
        from whowrote.files import write_text

        write_text(csv, found.to_csv())
        say(f"File: {csv}", err=as_json)
    if plot is not None:
        from whowrote.plots.style import save
        from whowrote.plots.trees import distance_map

        say(f"Plot: {save(distance_map(found), plot)}", err=as_json)


def _show_distances(found: Distances) -> None:
    from rich.markup import escape

    asked = [row for row, one in enumerate(found.authors) if one is None]
    made = table(f"Nearest texts by {found.method}", "text", "nearest", ">distance")
    for row in (asked or range(len(found.names)))[:40]:
        near = found.nearest(row)
        said = ", ".join(f"{found.names[i]} ({found.authors[i] or '?'})" for i in near)
        made.add_row(escape(found.names[row]), escape(said), f"{found.table[row, near[0]]:.3f}")
    screen().print(made)


# -- whowrote compare ----------------------------------------------------------------------------


def compare(
    a: Annotated[str, typer.Argument(help="A text file, or a folder or table of them.")],
    b: Annotated[str, typer.Argument(help="The other side.")],
    model: Annotated[Path | None, typer.Option(help="A model as reference for the ratio.")] = None,
    prior: Annotated[float | None, typer.Option(help="Probability of one author before.")] = None,
    top: Annotated[int, typer.Option(callback=between(1), help="Words of either side.")] = 15,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Lay two texts, or two sets of texts, side by side: what differs, and how surely.

    The likelihood ratio of `verify`, Delta between and within, plain figures and words with 95 %
    limits over samples of texts (or of stretches of 250 words). Only the ratio has a population.

    Example: `whowrote compare letters/ann/ letters/bob/`
    """
    from whowrote.attribution.jobs import open_model
    from whowrote.stylometry import side_by_side

    opened = None if model is None else open_model(model)
    names = Path(a).stem, Path(b).stem
    found = side_by_side(_texts(a), _texts(b), names, model=opened, prior=prior, top=top, seed=seed)
    if as_json:
        say(json.dumps(found.to_dict(), ensure_ascii=False))
    else:
        _show_sides(found)


def _show_sides(found: SideBySide) -> None:
    from rich.markup import escape

    console, ratio = screen(), found.ratio
    console.print(
        f"log10 likelihood ratio {ratio.log10_lr:+.2f} (95 % interval {ratio.low:+.2f} to "
        f"{ratio.high:+.2f}): {ratio.in_words}.\nWeighed: {ratio.propositions[0]}; against: "
        f"{ratio.propositions[1]}.\nPopulation: {ratio.population.description}.",
        highlight=False,
        markup=False,
    )
    if found.delta is not None:
        within = f"{found.delta['first']:.2f} and {found.delta['second']:.2f} within"
        console.print(f"Delta: {found.delta['between']:.2f} between, {within}.", highlight=False)
    names = [escape(name) for name in found.names]
    made = table("", "figure (marks: by 100 words)", f">{names[0]}", f">{names[1]}", "")
    for one in found.measures:
        pairs = ((one.first, one.first_limits), (one.second, one.second_limits))
        cells = [f"{value:.2f} [{low:.2f}, {high:.2f}]" for value, (low, high) in pairs]
        made.add_row(one.name, *map(escape, cells), "differs" if one.differ else "")
    console.print(made)
    for name, words in zip(names, found.words, strict=True):
        made = table(f"More in {name}", "word", ">by 1,000", ">other", ">log2 ratio", "95 %")
        for key in words:
            limits = f"{key.low:+.1f} to {key.high:+.1f}"
            rates = (key.first, key.second) if key.first > key.second else (key.second, key.first)
            figures = (f"{rates[0]:.2f}", f"{rates[1]:.2f}", f"{key.log2_ratio:+.1f}")
            made.add_row(escape(key.word), *figures, limits)
        console.print(made)


# -- whowrote stress -----------------------------------------------------------------------------


def stress(
    model: ModelPath,
    corpus: CorpusPath,
    rewrites: Annotated[
        Path | None,
        typer.Option(help="A table of rewritten texts under their original authors' names."),
    ] = None,
    writer_column: Annotated[
        str | None, typer.Option(help="The column of that table that names who rewrote.")
    ] = None,
    length: Annotated[list[int] | None, typer.Option(help="Words; may be repeated.")] = None,
    noise: Annotated[
        list[float] | None, typer.Option(help="Share of wrong letters; may be repeated.")
    ] = None,
    most: Annotated[
        int, typer.Option(callback=between(10), help="Texts of a condition at most.")
    ] = 400,
    seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Measure how answers suffer when texts get shorter, lose their topic, are noisy or rewritten.

    CORPUS has texts that the model has not learnt from, under the names of its authors; texts by
    others are strangers, and show false attributions. Writers of rewrites are also enrolled, from
    half of the people, like anybody else; 'reads like a rewritten text' is said with its
    false-alarm rate or not at all.

    Example: `whowrote stress letters.model held_out/ --rewrites new.csv --writer-column writer`
    """
    from whowrote.attribution.jobs import open_model
    from whowrote.progress import stage_bars
    from whowrote.stress import LENGTHS, NOISE
    from whowrote.stress import stress as measure

    table_of = None if rewrites is None else Reading(group_column=writer_column).load(rewrites)
    texts, opened = PLAIN.load(corpus), open_model(model)
    with stage_bars(not quiet):
        found = measure(
            opened,
            texts,
            lengths=length or LENGTHS,
            noise=noise or NOISE,
            rewrites=table_of,
            most=most,
            seed=seed,
        )
    if as_json:
        say(json.dumps(found.to_dict(), ensure_ascii=False))
    else:
        _show_stress(found)


def _show_stress(found: Stress) -> None:
    from rich.markup import escape

    console = screen()
    columns = (">texts", ">error", ">misnamed", ">refused", ">strangers", ">named")
    made = table("", "condition", *columns)
    for one in found.conditions:
        made.add_row(escape(one.name), *_cells(one))
    console.print(made)
    told = found.writers
    if told is not None and told.measured:
        rate, limits = told.false_alarms / told.people_texts, told.to_dict()["false_alarm_limits"]
        console.print(
            f"Language models as candidates: {told.flagged} of {told.rewrites} rewrites read like "
            f"a rewritten text, {told.right} go to the model that wrote them; false alarms "
            f"{told.false_alarms} of {told.people_texts} texts by people ({fine_percent(rate)}, "
            f"95 % interval {percent(limits[0])} to {percent(limits[1])})"
            f"{'.' if told.usable else ': too many to raise that flag.'}",
            highlight=False,
        )
    if found.learnt_from:
        left = count(found.learnt_from, "text")
        console.print(f"{left} that the model has learnt from left out.", highlight=False)


def _cells(one: Condition) -> list[str]:
    def share(part: int, whole: int) -> str:
        return fine_percent(part / whole) if whole else ""

    shares = [share(part, one.texts) for part in (one.wrong, one.misnamed, one.refused)]
    return [str(one.texts), *shares, str(one.strangers), share(one.false, one.strangers)]
