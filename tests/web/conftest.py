"""A server over made-up people, in this process and as a process of its own."""

import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from attribution.people import corpus
from whowrote.attribution import Attributor
from whowrote.web.server import create_app

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it would rather have the successor of httpx
    from fastapi.testclient import TestClient

CHROMIUM = Path("/usr/bin/chromium")


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model of eight people, learnt from n-grams in a moment."""
    path = tmp_path_factory.mktemp("models") / "people.model"
    Attributor("ngrams").fit(*corpus(8, 8)).save(path)
    return path


@pytest.fixture
def client(folder: Path, tmp_path: Path) -> Iterator[TestClient]:
    """A client of a server with that model."""
    app = create_app(folder, models=tmp_path / "models", cases=tmp_path / "cases")
    with TestClient(app, base_url="http://127.0.0.1") as made:
        yield made


@pytest.fixture(scope="session")
def address(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of ``whowrote serve``, as a user starts it."""
    models = tmp_path_factory.mktemp("trained")
    command = [sys.executable, "-m", "whowrote", "serve", str(folder), "--port", "0"]
    server = subprocess.Popen(
        [*command, "--models", str(models), "--cases", str(models / "cases")],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"},
    )
    assert server.stdout is not None
    line = server.stdout.readline()
    assert line.startswith("Page: http://127.0.0.1:"), line
    yield line.split()[1].rstrip("/")
    server.terminate()
    server.wait(10)
    server.stdout.close()
