"""A small case, run once for everyone who looks."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from attribution.people import name, texts_by
from whowrote import Corpus
from whowrote.case import Case
from whowrote.case.dossier import write_report
from whowrote.case.findings import run

HOSTILE = (
    "<script>console.error('run')</script>"
    "<img src=http://example.invalid/x onerror=console.error(1)>"
)


def add(case: Case, role: str, texts: list[str], author: str | None = None) -> Case:
    return case.add(Corpus.from_texts(texts), role, path=Path("letters"), author=author)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two candidates, one with a hostile name, six other people, three questioned texts."""
    folder = tmp_path_factory.mktemp("cases") / "case"
    case = Case.new(
        folder, f"Who wrote it? {HOSTILE}", population="made-up people", features="ngrams"
    )
    for author in range(8):
        role = "known" if author < 2 else "reference"
        who = f"{name(author)} {HOSTILE}" if author == 0 else name(author)
        case = add(case, role, texts_by(author, 5), who)
    asked = [texts_by(0, 1, seed=5)[0], texts_by(1, 1, seed=5)[0] + HOSTILE, "Not so long, this."]
    case = add(case, "questioned", asked)
    run(case)
    write_report(Case.open(folder))
    return folder


def command(*arguments: object, threads: int = 1) -> tuple[int, str]:
    """A command in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "whowrote", "case", *map(str, arguments)],
        env={**os.environ, "OMP_NUM_THREADS": str(threads)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def findings(folder: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / "findings.json").read_text(encoding="utf-8"))
    return found
