"""What the system refuses, as a sentence and a status: 2, or 130 where somebody pressed Ctrl-C.

The one place for it. A full disk, a folder that cannot be written, a name that is too long, a pipe
whose reader has left: commands let such errors pass, and drafts are gone by the time they are here.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer

from whowrote.errors import InputError, first_line
from whowrote.formatting import printable

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
