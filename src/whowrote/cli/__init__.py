"""The command line: parse, call one typed function, render. No computing here.

Each command lives in a module of its own beside this one and imports what it needs when it runs,
so that ``whowrote --help`` answers without loading torch or scikit-learn.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from importlib.metadata import entry_points
from typing import Annotated

import typer

from whowrote import __version__
from whowrote.cli import corpora, measures, models, vectors
from whowrote.errors import InputError

app = typer.Typer(
    name="whowrote",
    help="Who wrote this text? From a folder of texts to a calibrated answer.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS = (
    *(models.train, models.attribute, measures.evaluate, corpora.cluster, models.verify),
    *(models.enroll, models.inspect, corpora.audit, measures.demo, vectors.embed, vectors.sweep),
)
for _command in COMMANDS:
    app.command()(_command)
app.add_typer(vectors.extractor, name="extractor")
# Other packages may bring commands of their own; the paper's experiments do.
for _entry in entry_points(group="whowrote.commands"):
    app.add_typer(_entry.load(), name=_entry.name)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"whowrote {__version__}")
        raise typer.Exit


@app.callback(epilog="Example: `whowrote demo`")
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print it."),
    ] = False,
) -> None:
    """Who wrote this text? From a folder of texts to a calibrated answer."""


def main() -> None:
    """Run the command line; bad input is one sentence on standard error and status 2."""
    # Threads that wait for each other must sleep, not spin: beside another busy program a spinning
    # one takes the core that the other thread waits for, and seconds go by on milliseconds of work.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # read when torch is imported
    # Memory goes back whole when the process ends: looking through all of torch for garbage first
    # takes longer than an answer.
    atexit.register(gc.freeze)
    try:
        app()
    except InputError as problem:
        typer.echo(f"whowrote: {problem}", err=True)
        sys.exit(2)
