"""Commands that say why and where: ``explain`` an answer, ``roll`` along a long text."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whowrote.cli.options import (
    PLAIN,
    AsJson,
    ModelPath,
    Quiet,
    Seed,
    between,
    file_to_write,
    say,
    told_on_stderr,
)
from whowrote.errors import CorpusWarning, InputError
from whowrote.formatting import count, percent, screen, table

if TYPE_CHECKING:
    from whowrote.attribution.explanation import Explanation
    from whowrote.attribution.rolling import Milestone, Rolling
    from whowrote.corpus.documents import Document

TextPath = Annotated[str, typer.Argument(help="The text file; - is standard input.")]
SHOWN = 6


def _one_text(path: str) -> Document:
    from whowrote.attribution.jobs import questioned

    with told_on_stderr(CorpusWarning):
        corpus = questioned([path], sys.stdin)
    if len(corpus) != 1:
        raise InputError(f"'{path}' has {len(corpus)} texts; it must be one text: give its file")
    return next(iter(corpus))


# -- whowrote explain ----------------------------------------------------------------------------


def explain(
    model: ModelPath,
    text: TextPath,
    known: Annotated[
        Path | None,
        typer.Option(help="Texts by known authors: lines around the n-grams are shown from them."),
    ] = None,
    html: Annotated[Path | None, file_to_write("Write a page with the marked text.")] = None,
    draws: Annotated[
        int,
        typer.Option(
            callback=between(2), help="Random deletions beside the marked one, at each share."
        ),
    ] = 20,
    seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Say why the best author of a text is the best, and whether that explanation holds.

    Words and sentences are marked by deleting each and asking the whole engine again. The marks are
    checked: deleting them together must lower the evidence more than deleting as many random words,
    at 5, 10 and 20 % of the text; an explanation that fails says so. The lead over the second
    author is split into n-grams, which a reader can look up, and the style vector, which nobody
    can.

    Example: `whowrote explain letters.model unknown.txt --known letters/ --html why.html`
    """
    from whowrote.attribution.jobs import open_model
    from whowrote.progress import stage_bars

    document = _one_text(text)
    texts = None if known is None else PLAIN.load(known)
    opened = open_model(model)
    with stage_bars(not quiet):
        found = opened.explain(document.text, texts, draws=draws, seed=seed)
    if as_json:
        say(json.dumps(found.to_dict(), ensure_ascii=False))
    elif not quiet:
        _show_explanation(found)
    if html is not None:
        from whowrote.report import write_explanation

        say(f"Page: {write_explanation(html, found)}", err=as_json)


def _show_explanation(found: Explanation) -> None:
    from rich.markup import escape

    console = screen()
    said = found.best if found.attribution.author else f"none of these (best: {found.best})"
    best = found.attribution.best
    console.print(
        f"{said}: {percent(best.probability)} among the enrolled, ln odds {found.evidence:+.2f}; "
        f"next is {found.second}.",
        markup=False,
        highlight=False,
    )
    if found.parts:
        parts = table("Parts of the lead", "part", ">lead", ">share")
        for one in found.parts:
            parts.add_row(one.title, f"{one.lead:+.3f}", percent(one.share))
        console.print(parts)
        can = percent(found.checkable or 0.0)
        console.print(f"A reader can check {can} of it: n-grams can be looked up, a vector cannot.")
    if found.ngrams_for or found.ngrams_against:
        ngrams = table("N-grams (as written, \u2423 is a space)", "for the best", "for the second")
        for row in range(SHOWN):
            sides = (found.ngrams_for, found.ngrams_against)
            cells = [
                side[row].text.replace(" ", "\u2423") if row < len(side) else "" for side in sides
            ]
            ngrams.add_row(*map(escape, cells))
        console.print(ngrams)
    sentences = table("Sentences that count most", ">evidence", "sentence")
    for mark in sorted(found.sentences, key=lambda mark: -mark.drop)[:SHOWN]:
        sentences.add_row(f"{mark.drop:+.2f}", escape(found.text[mark.start : mark.end]))
    console.print(sentences)
    for use in found.concordance[:SHOWN]:
        line = f"{use.author}: \u2026{use.left}[{use.hit}]{use.right}\u2026"
        console.print(line, markup=False, highlight=False)
    console.print(found.in_words, highlight=False, style="" if found.holds else "yellow")
    for warning in found.warnings:
        console.print(warning, style="yellow", markup=False)


# -- whowrote roll -------------------------------------------------------------------------------


def roll(
    model: ModelPath,
    text: TextPath,
    window: Annotated[int, typer.Option(help="Words of a window.")] = 1000,
    step: Annotated[int, typer.Option(help="Words from one window to the next.")] = 250,
    milestones: Annotated[
        str | None,
        typer.Option(
            help="A file of lines '1200 Chapter 2' (number of the word, name), or a regular "
            "expression that finds headings, such as '^CHAPTER .*'."
        ),
    ] = None,
    plot: Annotated[Path | None, file_to_write("Draw it as .png or .svg.")] = None,
    csv: Annotated[Path | None, file_to_write("Write a row per window.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Say who wrote which part of a long text: windows, their probabilities, where they change.

    Every window is a text of its own: the probability of each enrolled author with a 95 % band, and
    that of none of these. Change points are where the answers change for good. Train the model on
    texts about as long as a window, or other lengths will look strange to it.

    Example: `whowrote roll plays.model henry8.txt --milestones '^SCENE .*' --plot henry8.png`
    """
    from whowrote.attribution.jobs import open_model
    from whowrote.files import write_text
    from whowrote.progress import stage_bars

    document = _one_text(text)
    stones = _milestones(milestones, document.text)
    opened = open_model(model)
    with stage_bars(not quiet):
        found = opened.roll(document.text, window, step, milestones=stones)
    if as_json:
        say(json.dumps(found.to_dict(), ensure_ascii=False))
    elif not quiet:
        _show_rolling(found)
    if csv is not None:
        write_text(csv, found.to_csv())
        say(f"Table: {csv}", err=as_json)
    if plot is not None:
        from whowrote.plots import save
        from whowrote.plots.along import along_text

        say(f"Plot: {save(along_text(found, document.id), plot)}", err=as_json)


def _milestones(given: str | None, text: str) -> tuple[Milestone, ...]:
    from whowrote.attribution.rolling import milestones_by_pattern, milestones_of_lines
    from whowrote.corpus.documents import to_text
    from whowrote.files import bytes_of

    if given is None:
        return ()
    if Path(given).is_file():
        return milestones_of_lines(to_text(bytes_of(Path(given))).text)
    return milestones_by_pattern(text, given)


def _show_rolling(found: Rolling) -> None:
    from rich.markup import escape

    console = screen()
    parts = table("", ">from word", ">to", "most like", ">share")
    for one in found.segments:
        name = "none of these" if one.author is None else escape(one.author)
        parts.add_row(f"{one.start + 1:,}", f"{one.end:,}", name, percent(one.probability))
    console.print(parts)
    none = sum(one.author is None for one in found.windows)
    console.print(
        f"{count(len(found.windows), 'window')} of {found.window:,} words, {none} by none of the "
        f"{len(found.authors)} enrolled authors; {count(len(found.change_points), 'change point')}."
        " A probability is no proof.",
        highlight=False,
    )
    if not found.strangers_known:
        console.print(
            "This model has not learnt how strangers look: a window is by none of these where its "
            "typicality is low.",
            highlight=False,
        )
