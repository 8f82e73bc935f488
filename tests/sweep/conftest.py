"""A sweep that several files of tests look at."""

from pathlib import Path

import pytest

from sweep.small_sweeps import GRID, SPLITS, run
from whowrote.sweep import Results, shares_of


@pytest.fixture(scope="session")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the records."""
    return tmp_path_factory.mktemp("records")


@pytest.fixture(scope="session")
def results(out: Path) -> Results:
    """Two families, two sizes, two step sizes, three folds, two shares, two seeds."""
    return run(GRID, out, shares_of(SPLITS, [0.5, 1.0]), seeds=(0, 7))
