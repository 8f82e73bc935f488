"""Fits that share a fleet give the records they give alone, and none falls with another."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sweep.small_sweeps import GRID, NAMES, QUICK, SPLITS, L, X, Y, assert_same, by_name, run
from threads import one_thread as one_thread
from whowrote.sweep import (
    Record,
    read,
)
from whowrote.sweep import groups as capacity
from whowrote.sweep.data import Dataset, Part
from whowrote.sweep.grid import configurations
from whowrote.sweep.groups import PROTOCOL, Shared, Task, grouped
from whowrote.sweep.records import Fit


def test_fits_that_can_share_a_fleet_do() -> None:
    data = Dataset(X, np.searchsorted(NAMES, Y), NAMES)
    grid = {**QUICK, **GRID, "scale_floor": [0.1, 0.5], "l1": [0.0, 0.01], "dropout": [0.0, 0.2]}
    tasks = [
        Task(Fit(one, {**PROTOCOL, "dtype": "float32"}, part.hash, data.hash, seed), part)
        for one in configurations(grid, L)
        for part in (Part(fold, 1.0, split) for fold, split in enumerate(SPLITS))
        for seed in (0, 1)
    ]
    sizes = {len(split.train) for split in SPLITS}
    assert len(sizes) > 1  # and still one fleet: they make the same number of steps
    groups = grouped(tasks, data, torch.device("cpu"), 1000)
    assert [group.shared.architecture.latent_dim for group in groups] == [3, 1]
    assert [len(group.tasks) for group in groups] == [len(tasks) // 2] * 2
    small = Part(0, 0.5, SPLITS[0].fraction(0.5))
    more = [replace_part(task, small) for task in tasks[:2]]
    assert len(grouped(tasks + more, data, torch.device("cpu"), 1000)) == 3
    # None is larger than asked for, and the order does not depend on that of the tasks.
    cut = grouped(tasks, data, torch.device("cpu"), 50)
    assert max(len(group.tasks) for group in cut) <= 50
    assert sum(len(group.tasks) for group in cut) == len(tasks)
    turned = grouped(tasks[::-1], data, torch.device("cpu"), 50)
    assert [group.shared for group in turned] == [group.shared for group in cut]


def test_the_size_of_a_group_is_what_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half as many in double precision, and at least one."""
    data = Dataset(X, np.searchsorted(NAMES, Y), NAMES)
    part = Part(0, 1.0, SPLITS[0])
    (one,) = configurations(QUICK, L)

    def sizes(dtype: str) -> list[int]:
        fits = [Fit(one, {**PROTOCOL, "dtype": dtype}, part.hash, data.hash, s) for s in range(24)]
        tasks = [Task(fit, part) for fit in fits]
        return [len(group.tasks) for group in grouped(tasks, data, torch.device("cpu"), None)]

    fit = Fit(one, {**PROTOCOL, "dtype": "float32"}, part.hash, data.hash, 0)
    shared = Shared.of(Task(fit, part), data)
    each = capacity.counted_bytes(shared.architecture, shared.plan)
    monkeypatch.setattr(capacity, "_free_memory", lambda: int(9 * each / capacity.USABLE))
    assert sizes("float32") == [8, 8, 8]
    assert sizes("float64") == [4] * 6
    monkeypatch.setattr(capacity, "_free_memory", lambda: 1)
    assert sizes("float64") == [1] * 24


def replace_part(task: Task, part: Part) -> Task:
    return Task(replace(task.fit, split=part.hash), part)


MIXED: list[dict[str, Any]] = [
    {
        "component": component,
        "learning_rate": rate,
        "dropout": dropout,
        "l1": l1,
        "scale_floor": floor,
        "patience": 2,
        "max_epochs": 8,
    }
    for component, rate, dropout, l1, floor in (
        ("student-t", 0.003, 0.0, 0.0, 0.1),
        ("student-t", 0.05, (0.2, 0.1), 0.01, 0.5),
        ("gaussian", 0.05, 0.0, 0.01, 0.1),
        ("gaussian", 0.1, 0.2, 0.0, 0.01),
    )
]


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Record]:
    return by_name(run(MIXED, tmp_path_factory.mktemp("together"), dtype="float64"))


@pytest.mark.parametrize("group_size", [1, 7])
def test_a_fit_is_the_same_in_any_group(
    together: dict[str, Record], tmp_path: Path, group_size: int
) -> None:
    """In float64 to rounding; members stop at different epochs and have unequal training sets."""
    apart = by_name(run(MIXED, tmp_path, dtype="float64", group_size=group_size))
    assert set(apart) == set(together)
    for name, record in together.items():
        assert_same(record, apart[name])
    assert len({record.epochs for record in together.values()}) > 2


def test_a_fit_in_single_precision_makes_the_same_errors_in_any_group(tmp_path: Path) -> None:
    both = [run(MIXED, tmp_path / str(size), group_size=size) for size in (5, None)]
    for a, b in zip(*both, strict=True):
        assert (a.name, a.development_error, a.test_error) == (
            b.name,
            b.development_error,
            b.test_error,
        )


def test_another_seed_is_another_fit(together: dict[str, Record], tmp_path: Path) -> None:
    """The negative control of the comparisons above."""
    other = run(MIXED, tmp_path, dtype="float64", seeds=[3])
    assert not set(by_name(other)) & set(together)
    losses = [r.development_log_loss for r in together.values()]
    assert not np.allclose([r.development_log_loss for r in other], losses, rtol=1e-3)


WILD = {"learning_rate": [0.02, 1e6], "batch_size": 200, "max_epochs": 4}


def test_a_divergence_is_a_record_and_touches_no_one(tmp_path: Path) -> None:
    results = run(WILD, tmp_path / "both", dtype="float64")
    sound = run({**WILD, "learning_rate": 0.02}, tmp_path / "sound", dtype="float64")
    fell = [record for record in results if record.configuration["learning_rate"] == 1e6]
    assert len(fell) == results.n_diverged == 3
    for record in fell:
        assert record.diverged.epoch == record.epochs >= 1
        assert record.diverged.term
        nothing = record.development_error, record.test_error, record.df, record.best_epoch
        assert nothing == (None, None, None, None)
    stayed = by_name(results)
    for record in sound:
        assert_same(stayed[record.name], record)
    assert results.best()[0].configuration["learning_rate"] == 0.02


def test_a_group_that_diverges_as_a_whole_gives_the_same_records(tmp_path: Path) -> None:
    among = by_name(run(WILD, tmp_path / "both", dtype="float64"))
    alone = run({**WILD, "learning_rate": 1e6}, tmp_path / "alone", dtype="float64")
    assert len(alone) == alone.n_diverged == 3
    for record in alone:
        assert_same(among[record.name], record)
    assert alone.best() == []
    assert alone.table() == []
    assert by_name(read(tmp_path / "alone")) == by_name(alone)
