"""Small sweeps for tests: three overlapping authors, three folds, quick fits, made-up records."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whowrote.corpus.splits import folds
from whowrote.sweep import Record, Results, sweep
from whowrote.sweep.grid import configurations

ROUNDING = 1e-9
N, L = 122, 5
NAMES = np.array(["ann", "bob", "cyd"])
QUICK: dict[str, Any] = {
    "hidden": 6,
    "max_epochs": 5,
    "batch_size": 20,
    "dropout": 0.1,
    "learning_rate": 0.02,
    "label_weight": 10.0,
}


def vectors() -> tuple[np.ndarray, np.ndarray]:
    """Three overlapping authors; their number of rows is no multiple of the folds."""
    rng = np.random.default_rng(0)
    codes = np.arange(N) % 3
    X = 1.1 * rng.normal(size=(3, L))[codes] + rng.normal(size=(N, L))
    return X * np.array([1.0, 10.0, 0.1, 1.0, 1.0]) + 3.0, NAMES[codes]


X, Y = vectors()
SPLITS = folds(Y, n_folds=3)


def run(grid: Any, out: Path, splits: Any = SPLITS, y: Any = Y, **options: Any) -> Results:
    grids = [grid] if isinstance(grid, Mapping) else grid
    return sweep([{**QUICK, **one} for one in grids], X, y, splits, out=out, **options)


def content(record: Record) -> dict[str, Any]:
    """All but the time it took."""
    return {name: value for name, value in record.to_dict().items() if name != "seconds"}


def assert_same(ours: Record, theirs: Record, tolerance: float = ROUNDING) -> None:
    a, b = content(ours), content(theirs)
    near = {"development_log_loss": tolerance, "test_log_loss": tolerance}
    for name, relative in {**near, "df": max(tolerance, 2e-5)}.items():  # df has six digits
        x, y = a.pop(name), b.pop(name)
        assert x is y is None or x == pytest.approx(y, rel=relative)
    assert a == b


def by_name(results: Results) -> dict[str, Record]:
    return {record.name: record for record in results}


def files(out: Path) -> dict[str, int]:
    """Every record's file with the time of its making; drafts are none."""
    return {path.name: path.stat().st_mtime_ns for path in out.glob("??/[!.]*.json")}


GRID: dict[str, Any] = {
    "component": ["student-t", "gaussian"],
    "latent_dim": [1, 3],
    "learning_rate": [0.002, 0.03],
}


def made(rate: float, error: float | None, loss: float | None = 1.0, **other: Any) -> Record:
    """A record of that step size and development error."""
    (configuration,) = configurations({"learning_rate": rate}, L)
    usual: dict[str, Any] = {
        "configuration": configuration,
        "protocol": {"watch": "error"},
        "split": "s",
        "data": "d",
        "seed": 0,
        "fold": 0,
        "share": 1.0,
        "development_error": error,
        "development_log_loss": loss,
        "test_error": 0.5,
        "test_log_loss": 1.0,
        "df": [5.0],
        "epochs": 3,
        "best_epoch": 2,
        "seconds": 0.1,
        "diverged": None,
        "versions": {},
    }
    return Record(**{**usual, **other})
