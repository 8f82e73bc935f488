"""The command line: parse, call one typed function, render. No computing here.

A command's module is imported when the command is asked for, and what it needs when it runs, so
that ``whowrote --help`` answers without torch or scikit-learn, and no command loads another's.
"""

from __future__ import annotations

import atexit
import gc
import warnings
from importlib import import_module
from importlib.metadata import entry_points, requires, version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from whowrote import __version__
from whowrote.cli.faults import guarded, leave, prepare_streams
from whowrote.errors import InputError
from whowrote.formatting import printable
from whowrote.runtime import let_waiting_threads_sleep

COMMANDS = {
    **dict.fromkeys(("train", "attribute"), "models"),
    **dict.fromkeys(("explain", "roll"), "explanations"),
    "evaluate": "measures",
    "cluster": "corpora",
    "link": "corpora",
    **dict.fromkeys(("zeta", "tree", "distances", "compare", "stress"), "scholars"),
    **dict.fromkeys(("verify", "enroll", "inspect"), "models"),
    "audit": "corpora",
    "case": "cases",
    "serve": "serving",
    "demo": "measures",
    **dict.fromkeys(("embed", "sweep", "extractor"), "vectors"),
}
"""The module of each command, in the order of ``whowrote --help``."""
PLUGINS = "whowrote.commands"
"""The entry points by which other packages bring commands; the paper's experiments do."""


class _Commands(TyperGroup):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Our own, then those of other packages."""
        return [*COMMANDS, *(entry.name for entry in entry_points(group=PLUGINS))]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name; None, with all others at hand for a guess, if there is none."""
        if cmd_name not in self.commands:
            known = cmd_name in COMMANDS or cmd_name in self.list_commands(ctx)
            for name in [cmd_name] if known else self.list_commands(ctx):
                self.commands.setdefault(name, _command(name))
        return self.commands.get(cmd_name)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; what the system refuses, and Ctrl-C, become a sentence."""
        with guarded():
            return super().invoke(ctx)


def _command(name: str) -> Any:
    """A function, or a group of them, as Typer makes a command of it."""
    if name in COMMANDS:
        found = getattr(import_module(f"whowrote.cli.{COMMANDS[name]}"), name)
    else:
        (entry,) = entry_points(group=PLUGINS, name=name)
        found = entry.load()
    holder = typer.Typer(add_completion=False, rich_markup_mode="markdown")
    if not isinstance(found, typer.Typer):
        holder.command(name)(found)
        return typer.main.get_command(holder)
    holder.add_typer(found, name=name)
    return typer.main.get_group(holder).commands[name]


app = typer.Typer(
    name="whowrote",
    cls=_Commands,
    help="Who wrote this text? From a folder of texts to a calibrated answer.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def versions() -> dict[str, str]:
    """What answers here: the package, Python, and each of its own dependencies."""
    import platform  # late, as all that --help does without
    import re

    needed = [name for name in requires("whowrote") or () if "extra ==" not in name]
    names = sorted(re.split(r"[^\w.-]", name)[0] for name in needed)
    listed = {"whowrote": __version__, "python": platform.python_version()}
    return {**listed, "system": platform.platform(), **{name: version(name) for name in names}}


@app.callback(epilog="Example: `whowrote demo`", invoke_without_command=True)
def _options(
    context: typer.Context,
    asked: Annotated[bool, typer.Option("--version", help="Print it.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --version: those of what it runs on as well.")
    ] = False,
) -> None:
    """Who wrote this text? From a folder of texts to a calibrated answer."""
    if asked:
        import json

        typer.echo(json.dumps(versions()) if as_json else f"whowrote {__version__}")
        raise typer.Exit
    if as_json:
        raise InputError("--json before a command goes with --version; put it after the command")
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)


def _tell(message: Warning | str, *_: Any) -> None:
    """A warning, ours or a library's, is one line on standard error."""
    typer.echo(printable(f"whowrote: {message}"), err=True)


def main() -> None:
    """Run the command line; whatever goes wrong is one sentence on standard error and status 2."""
    prepare_streams()
    let_waiting_threads_sleep()
    # Memory goes back whole when the process ends: looking through all of torch for garbage first
    # takes longer than an answer.
    atexit.register(gc.freeze)
    warnings.showwarning = _tell  # type: ignore[assignment]
    leave(app)
