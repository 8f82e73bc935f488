"""Commands about a case, from ``case new`` to ``case replay``, and ``serve``, the local page."""

from __future__ import annotations

import json
import os
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
    between,
    corpus_options,
    say,
)
from whowrote.errors import InputError
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


# -- whowrote serve ------------------------------------------------------------------------------

EXTRA = "pip install 'whowrote[web]'"
DEMO = "presidents"


def serve(
    model: Annotated[
        Path | None, typer.Argument(help="The folder that `whowrote train` wrote; may be left out.")
    ] = None,
    port: Annotated[
        int, typer.Option(callback=between(0, 65535), help="0 takes a free one.")
    ] = 8765,
    host: Annotated[
        str, typer.Option(help="The address to listen at; beyond this machine a token is demanded.")
    ] = "127.0.0.1",
    token: Annotated[
        str | None,
        typer.Option(envvar="WHOWROTE_TOKEN", help="The token to demand; made up where needed."),
    ] = None,
    models: Annotated[
        Path, typer.Option(help="The folder in which the page saves and finds models.")
    ] = Path("whowrote-models"),
    cases: Annotated[
        Path, typer.Option(help="The folder in which the page keeps cases, with their texts.")
    ] = Path("whowrote-cases"),
    demo: Annotated[
        bool,
        typer.Option("--demo", help="Twelve presidents, learnt first if that was not done before."),
    ] = False,
) -> None:
    """Open a local page and an HTTP interface: ask, compare, keep cases, train, read the card.

    Binds to this machine alone unless --host says otherwise. Texts that are asked about stay in
    memory and are never logged. The interface is described at /openapi.json. Needs the extra
    `web`.

    Example: `whowrote serve letters.model`

    Example: `whowrote serve --demo --port 0` (a model of twelve presidents, at a free port)

    Example: `whowrote serve letters.model --host 0.0.0.0` (to others too: prints a token)
    """
    _require_extra()
    from whowrote.web.limits import access_for
    from whowrote.web.server import bound_socket, create_app, run

    access = access_for(host, token)
    if demo and model is None:
        model = _demo_model(models)
    listening = bound_socket(host, port)
    app = create_app(model, models=models, cases=cases, access=access)
    name = f"[{host}]" if ":" in host else host
    key = f"/?token={access.token}" if access.token else "/"
    say(f"Page: http://{name}:{listening.getsockname()[1]}{key} (Ctrl-C ends it)")
    run(app, listening)


def _require_extra() -> None:
    from importlib.util import find_spec

    needed = ("fastapi", "uvicorn", "sse_starlette", "python_multipart", "jinja2")
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        raise InputError(f"the page needs {', '.join(missing)}, not installed here: {EXTRA}")


def _demo_model(models: Path) -> Path:
    """The model of the demo, learnt from addresses that come with the installation."""
    from whowrote.attribution.jobs import train_model
    from whowrote.demo import OUTSIDER, as_corpus, hold_out, read_addresses
    from whowrote.progress import stage_bars

    out = models / f"{DEMO}.model"
    if not out.is_dir():
        say("Learning twelve presidents, once; about a minute.")
        trial = hold_out(read_addresses(), presidents=12, outsider=OUTSIDER, seed=0)
        os.makedirs(models, exist_ok=True)
        with stage_bars():
            train_model(as_corpus(trial.training), out)
    return out
