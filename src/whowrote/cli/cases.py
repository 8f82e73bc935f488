"""Commands about a case: ``case new``, ``add``, ``run``, ``report`` and ``replay``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whowrote.cli.options import (
    PLAIN,
    AsJson,
    Features,
    Quiet,
    Reading,
    Seed,
    corpus_options,
    say,
)
from whowrote.formatting import count

if TYPE_CHECKING:
    from whowrote.case.replay import Replay

CasePath = Annotated[Path, typer.Argument(metavar="CASE", help="The folder of the case.")]
DIFFERENCES_SHOWN = 20

case = typer.Typer(
    help="Keep a case: hashed texts, a log, findings, a replay. Example: `whowrote case run will/`",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)


@case.callback()
def _group() -> None:
    """Keep a case: hashed texts, a log, findings, a replay. Example: `whowrote case run will/`."""


@case.command("new")
def new(
    folder: CasePath,
    question: Annotated[str, typer.Option(help="What is asked, in a sentence.")],
    population: Annotated[
        str, typer.Option(help="Who else may have written it, e.g. 'adults who blog in English'.")
    ],
    closed: Annotated[
        bool,
        typer.Option(
            "--closed",
            help="One of the candidates wrote each text; --population says why nobody else did.",
        ),
    ] = False,
    features: Features = "hybrid",
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Begin a case: the question and the population are written into its log.

    A candidate is weighed against another person of the population, or, in a closed case, against
    the other candidates; then no reference texts are needed.

    Example: `whowrote case new will/ --question "Who wrote the codicil?" --population "her family"`
    """
    from whowrote.case import Case

    made = Case.new(
        folder, question, population=population, features=features, seed=seed, closed=closed
    )
    if as_json:
        say(json.dumps({"case": str(folder), "head": made.log.head}))
    else:
        say(f"Case: {folder}\nNext: `whowrote case add {folder} TEXTS --as questioned`")


@case.command("add")
@corpus_options()
def add(
    folder: CasePath,
    texts: Annotated[Path, typer.Argument(help="A text, a folder or a table of texts.")],
    role: Annotated[
        str,
        typer.Option("--as", help="questioned, known (by a candidate) or reference (others)."),
    ],
    author: Annotated[
        str | None, typer.Option(help="Who wrote them; default: folder or column of each text.")
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="Where they come from; default: names of the files.")
    ] = None,
    reading: Reading = PLAIN,
    as_json: AsJson = False,
) -> None:
    """Register texts: a copy, its SHA-256 and its source go into the case.

    Example: `whowrote case add will/ letters/ --as known --author "Ann Lee" --source "bank, 2019"`
    """
    from whowrote.case import Case
    from whowrote.case.exhibits import read_unchanged

    there = Case.open(folder)
    corpus = read_unchanged(texts, reading.load)
    now = there.add(corpus, role, path=texts, author=author, source=source)
    new = now.exhibits[len(there.exhibits) :]
    if as_json:
        listed = [{"id": one.id, "sha256": one.sha256, "words": one.words} for one in new]
        say(json.dumps({"texts": listed, "head": now.log.head}))
        return
    words = sum(one.words for one in new)
    ids = new[0].id if len(new) == 1 else f"{new[0].id} to {new[-1].id}"
    say(f"{count(len(new), 'text')} {role}, {words:,} words: {ids}.")


@case.command("run")
def run(folder: CasePath, as_json: AsJson = False, quiet: Quiet = False) -> None:
    """Audit, validate under the conditions of the case, calibrate, and only then weigh.

    Writes findings.json; every step is an entry of the log. One that was stopped can be repeated.

    Example: `whowrote case run will/`
    """
    from whowrote.case import Case
    from whowrote.case.findings import run as run_case
    from whowrote.progress import stage_bars

    with stage_bars(not quiet):
        found = run_case(Case.open(folder))
    if as_json:
        say(json.dumps(found, ensure_ascii=False))
    else:
        _show_findings(found, folder)


def _show_findings(found: dict[str, Any], folder: Path) -> None:
    from whowrote.case.exhibits import FINDINGS

    for one in found["findings"]:
        say(f"{one['text']}: {one['reason']}")
        for ratio in one["ratios"]:
            say(f"  {ratio['candidate']}: {ratio['sentence']}")
    say(f"Findings: {folder / FINDINGS}\nNext: `whowrote case report {folder}`")


@case.command("report")
def report(folder: CasePath, as_json: AsJson = False) -> None:
    """Write the findings as one HTML page that needs no other file, and as JSON.

    Example: `whowrote case report will/`
    """
    from whowrote.case import Case
    from whowrote.case.dossier import write_report

    page, data = write_report(Case.open(folder))
    if as_json:
        say(json.dumps({"page": str(page), "data": str(data)}))
    else:
        say(f"Page: {page}\nData: {data}")


@case.command("replay")
def replay(folder: CasePath, as_json: AsJson = False, quiet: Quiet = False) -> None:
    """Check every text and the log by their hashes, compute all findings again, and compare.

    Says equal, equal within a tolerance, or what differs; exit status 1 where the findings do not
    stand.

    Example: `whowrote case replay will/`
    """
    from whowrote.case.replay import replay as replay_case
    from whowrote.progress import stage_bars

    with stage_bars(not quiet):
        found = replay_case(folder)
    if as_json:
        say(json.dumps(found.to_dict(), ensure_ascii=False))
    else:
        _show_replay(found)
    raise typer.Exit(0 if found.sound else 1)


def _show_replay(found: Replay) -> None:
    from whowrote.case.replay import WITHIN

    for one in found.problems:
        say(one)
    for difference in found.differences[:DIFFERENCES_SHOWN]:
        say(f"{difference.place}: was {difference.before!r}, is {difference.now!r}")
    hidden = len(found.differences) - DIFFERENCES_SHOWN
    if hidden > 0:
        say(f"... and {hidden} more (--json has all)")
    for one_version in found.versions:
        say(f"{one_version.place}: was {one_version.before}, is {one_version.now}")
    near = f" (tolerance {found.tolerance:g}, largest {found.largest:.1g})"
    say(f"Replay: {found.outcome}{near if found.outcome == WITHIN else ''}.")
