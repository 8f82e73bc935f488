"""The command line: parse, call one typed function, render. No computing here.

A command's module is imported when the command is asked for, and what it needs when it runs, so
that ``whowrote --help`` answers without torch or scikit-learn, and no command loads another's.

What the system refuses becomes a sentence and a status here and nowhere else: 2, or 130 where
somebody pressed Ctrl-C. A full disk, a folder that cannot be written, a name that is too long, a
pipe whose reader has left: commands let such errors pass, and drafts are gone by the time they are
here.
"""

from __future__ import annotations

import atexit
import errno
import gc
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import entry_points, requires, version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from whowrote import __version__
from whowrote.errors import InputError, first_line
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
    "serve": "cases",
    "demo": "measures",
    **dict.fromkeys(("embed", "vectors"), "vectors"),
    "sweep": "measures",
    "extractor": "vectors",
}
"""The module of each command, in the order of ``whowrote --help``."""
PLUGINS = "whowrote.commands"
"""The entry points by which other packages bring commands; the paper's experiments do."""


# What the system refuses, as a sentence and a status.

STOPPED = 130
"""The status of a command that was stopped by Ctrl-C."""
ANOTHER_PLACE = "give another place"
CURES = {
    errno.ENOSPC: f"free some space, or {ANOTHER_PLACE}",
    errno.EDQUOT: f"free some space, or {ANOTHER_PLACE}",
    errno.EROFS: ANOTHER_PLACE,
    errno.EACCES: f"change its permissions, or {ANOTHER_PLACE}",
    errno.EPERM: f"change its permissions, or {ANOTHER_PLACE}",
    errno.EFBIG: f"raise the limit of file sizes (ulimit -f), or {ANOTHER_PLACE}",
    errno.ENAMETOOLONG: "give a shorter name",
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "check the path: a part of it is a file",
    errno.EEXIST: "check the path: a part of it is a file or a link that leads nowhere",
    errno.EISDIR: "give the name of a file",
    errno.ELOOP: "check the links of the path",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.EIO: "check the disk, and try again",
    errno.EPIPE: "whoever read the output has left before its end",
}


def sentence(problem: OSError) -> str:
    """What the system says, of which file, and what can be done.

    >>> sentence(OSError(errno.ENOSPC, "No space left on device", "a.csv"))
    "'a.csv': No space left on device; free some space, or give another place"
    """
    names = [repr(os.fspath(one)) for one in (problem.filename, problem.filename2) if one]
    said = problem.strerror or first_line(problem)
    cure = CURES.get(problem.errno or 0, "mend that, and run the command again")
    return f"{' and '.join(names)}{': ' if names else ''}{said}; {cure}"


@contextmanager
def guarded() -> Iterator[None]:
    """Errors of the system and Ctrl-C inside become what a command ends with."""
    try:
        yield
    except KeyboardInterrupt:
        say("stopped by Ctrl-C; what was finished is kept, and nothing is half written")
        raise typer.Exit(STOPPED) from None
    except OSError as problem:
        raise InputError(sentence(problem)) from problem
    except ModuleNotFoundError:
        raise
    except ImportError as problem:
        raise InputError(
            f"a library cannot be loaded ({first_line(problem)}); give more memory (ulimit -v), or "
            "install whowrote anew"
        ) from problem
    except MemoryError:
        raise InputError(
            "there is not enough memory; give fewer texts or fewer workers, or a larger machine"
        ) from None


def say(line: str) -> None:
    """One line on standard error, if anybody can read it."""
    try:
        typer.echo(printable(f"whowrote: {line}"), err=True)
    except OSError:
        _to_nowhere(sys.stderr)


def prepare_streams() -> None:
    """Streams that can be used: what is closed is told, and no name fails when it is printed."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115  (for as long as we run)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    try:
        os.getcwd()
    except OSError as problem:
        say(f"the folder in which this runs is not there ({problem.strerror}); change to another")
        sys.exit(2)
    if sys.stdout is None:
        say("standard output is closed, so no answer could be read; leave it open, or send it on")
        sys.exit(2)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a name of a file need not be text
            stream.reconfigure(errors="backslashreplace")


def leave(run: Callable[[], Any]) -> None:
    """Run to the end, print what is wrong, and leave with the status."""
    status: Any = None
    try:
        run()
    except SystemExit as leaving:
        status = leaving.code or 0
        if isinstance(leaving.__context__, BrokenPipeError):  # rich has left in its own way
            status = _refuse(leaving.__context__)
    except InputError as problem:
        say(str(problem))
        status = 2
    except KeyboardInterrupt:
        say("stopped by Ctrl-C")
        status = STOPPED
    try:
        sys.stdout.flush()
    except OSError as problem:
        status = status or _refuse(problem)
        _to_nowhere(sys.stdout)
    if status is not None:
        sys.exit(status)


def _refuse(problem: OSError) -> int:
    say(f"standard output: {sentence(problem)}")
    return 2


def _to_nowhere(stream: Any) -> None:
    """So that the end of the process does not stumble over it once more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


# The commands.


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
