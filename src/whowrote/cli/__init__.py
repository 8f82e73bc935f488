"""The command line: parse, call one typed function, render. No computing here.

Each command lives in a module of its own beside this one and imports what it needs when it runs,
so that ``whowrote --help`` answers without loading torch or scikit-learn.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from typing import Annotated

import typer

from whowrote import __version__
from whowrote.cli import (
    attribute,
    audit,
    cluster,
    demo,
    embed,
    enroll,
    evaluate,
    experiment,
    extractor,
    inspect,
    sweep,
    train,
    verify,
)
from whowrote.errors import InputError

app = typer.Typer(
    name="whowrote",
    help="Who wrote this text? From a folder of texts to a calibrated answer.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(name="train")(train.train)
app.command(name="attribute")(attribute.attribute)
app.command(name="evaluate")(evaluate.evaluate)
app.command(name="cluster")(cluster.cluster)
app.command(name="verify")(verify.verify)
app.command(name="enroll")(enroll.enroll)
app.command(name="inspect")(inspect.inspect)
app.command(name="audit")(audit.audit)
app.command(name="demo")(demo.demo)
app.command(name="embed")(embed.embed)
app.command(name="sweep")(sweep.sweep)
app.add_typer(experiment.experiment, name="experiment")
app.add_typer(extractor.extractor, name="extractor")


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
