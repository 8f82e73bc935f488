"""Pages whose blocks are run: every ``sh`` and ``python`` block, in order, in one folder.

A ``text`` block right after one is what it prints; there ``...`` stands for anything, and white
space does not count. One page is one story: its Python blocks share their names. Plain
``whowrote`` lines run in this process, so that torch is loaded once; all else is given to bash,
where ``whowrote`` is the package of this checkout.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from whowrote.cli import app
from whowrote.errors import InputError

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
_RUN = ("sh", "python")
_SHELL = re.compile(r"[|<>&;$`*#]|\\$")
SOURCE = Path(__file__).resolve().parents[1] / "src"


@dataclass(frozen=True)
class Block:
    """A block of a page, the line it opens on, and what it should print, if that is said."""

    kind: str
    code: str
    line: int
    expected: str | None


def blocks_of(page: str) -> list[Block]:
    """The blocks of a page that are run."""
    found = list(_BLOCK.finditer(page))
    made = []
    for here, after in zip(found, [*found[1:], None], strict=True):
        if here[1] not in _RUN:
            continue
        answered = after is not None and after[1] == "text"
        between = page[here.end() : after.start()] if after is not None else " "
        expected = after[2] if answered and after is not None and not between.strip() else None
        made.append(Block(here[1], here[2], page[: here.start()].count("\n") + 1, expected))
    return made


def matches(expected: str, printed: str) -> bool:
    """Whether a text is printed; ``...`` stands for anything, white space for white space.

    >>> matches("3 authors ... words", "3 authors, 15 texts,\\n 900 words")
    True
    """
    parts = [re.escape(" ".join(part.split())) for part in expected.split("...")]
    return bool(re.fullmatch(r"\s*.*?\s*".join(parts), " ".join(printed.split()), re.S))


def walk(page: Path, folder: Path) -> list[str]:
    """Run a page in a folder; the sentences say which blocks failed, and how."""
    names: dict[str, Any] = {"__name__": page.stem}
    for block in blocks_of(page.read_text(encoding="utf-8")):
        kind: Callable[[str, dict[str, Any]], str] = {"sh": _shell, "python": _python}[block.kind]
        where = f"{page.name}:{block.line}"
        try:
            with contextlib.chdir(folder):
                printed = kind(block.code, names)
        except Exception as problem:
            return [f"{where} failed: {type(problem).__name__}: {problem}"]  # the rest builds on it
        if block.expected is not None and not matches(block.expected, printed):
            return [f"{where} printed:\n{printed}\nwhere the page has:\n{block.expected}"]
    return []


def _python(code: str, names: dict[str, Any]) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, names["__name__"], "exec"), names)
    return printed.getvalue()


def _shell(code: str, _: dict[str, Any]) -> str:
    lines = code.strip().splitlines()
    if all(line.startswith("whowrote ") and not _SHELL.search(line) for line in lines):
        return "".join(_command(shlex.split(line)[1:]) for line in lines)
    return _bash(code)


def _command(arguments: list[str]) -> str:
    done = CliRunner().invoke(app, arguments)
    if done.exit_code:
        said = done.exception if isinstance(done.exception, InputError) else done.output
        raise RuntimeError(f"whowrote {shlex.join(arguments)}: status {done.exit_code}: {said}")
    return done.stdout


def _bash(code: str) -> str:
    search = {"PATH": Path(sys.executable).parent, "PYTHONPATH": SOURCE}
    own = {name: f"{first}{os.pathsep}{os.environ.get(name, '')}" for name, first in search.items()}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **own},
    )
    if done.returncode:
        raise RuntimeError(f"status {done.returncode}: {done.stderr or done.stdout}")
    return done.stdout
