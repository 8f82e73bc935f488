"""The sweep: fits as fleets, records that resume, choices by development error alone."""

import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from scipy import sparse

from threads import one_thread as one_thread
from whowrote import MixtureVAEClassifier, __version__
from whowrote.corpus.splits import Split, folds
from whowrote.errors import InputError
from whowrote.model import Architecture, Member, MixtureVAE, Rows, Streams
from whowrote.sweep import (
    Halving,
    RandomSearch,
    Range,
    Record,
    RecordWarning,
    Results,
    pack,
    read,
    read_vectors,
    shares_of,
    sweep,
)
from whowrote.sweep import groups as capacity
from whowrote.sweep.data import Dataset, Part
from whowrote.sweep.grid import PARAMETERS, configuration_hash, configurations
from whowrote.sweep.groups import PROTOCOL, Shared, Task, grouped
from whowrote.sweep.results import Fit, record_path, write
from whowrote.training import Assignment, Plan, initialize, train

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


# ----------------------------------------------------------------------------------- the grid


def test_a_configuration_is_complete_and_plain() -> None:
    (one,) = configurations({"latent_dim": np.int64(3), "l1": 0}, L)
    assert set(one) == set(PARAMETERS)
    assert json.loads(json.dumps(one)) == one
    assert (one["latent_dim"], one["hidden"], one["batch_size"]) == (3, [4], None)
    defaults = MixtureVAEClassifier()
    assert one["learning_rate"] == defaults.learning_rate
    # What is chosen can be fitted by hand.
    MixtureVAEClassifier(**one)._check_parameters()


SAME = [
    ({"dropout": 0.1}, {"dropout": (0.1, 0.1)}),
    ({"hidden": 4}, {"hidden": [(4,)]}),
    ({"latent_dim": None}, {"latent_dim": np.array([L])}),
    ({"l1": 0}, {"l1": 0.0}),
    ({}, {"component": "student-t"}),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_one_configuration_has_one_hash(one: dict[str, Any], other: dict[str, Any]) -> None:
    hashes = [configuration_hash(*configurations(grid, L)) for grid in (one, other)]
    assert hashes[0] == hashes[1]


def test_every_parameter_changes_the_hash() -> None:
    others = {"component": "gaussian", "activation": "relu", "objective": "algorithm-1"}
    numbers = {"hidden": 9, "batch_size": 7, "latent_dim": 1, "average": 0.5, "dropout": 0.3}
    default = configuration_hash(*configurations({}, L))
    for name in PARAMETERS:
        value = {**others, **numbers}.get(name, 3)
        assert configuration_hash(*configurations({name: value}, L)) != default


def test_a_grid_is_a_product_without_repetition() -> None:
    grid = {"latent_dim": [1, 2], "l1": (0.0, 0.1), "dropout": [0.1, (0.1, 0.2)], "patience": 4}
    found = configurations([grid, {"latent_dim": range(2, 4)}, {"latent_dim": 3}], L)
    assert len(found) == 8 + 2
    assert {one["patience"] for one in found[:8]} == {4}
    assert [one["dropout"] for one in found[:2]] == [[0.1, 0.1], [0.1, 0.2]]


BAD_VALUES: list[dict[str, Any]] = [
    {"component": "student"},
    {"latent_dim": 0},
    {"latent_dim": 2.5},
    {"scale_floor": -1.0},
    {"dropout": 1.0},
    {"dropout": (0.1, 0.2, 0.3)},
    {"initial_df": 2.0},
    {"objective": "elbo"},
    {"max_epochs": "many"},
]


@pytest.mark.parametrize("bad", BAD_VALUES)
def test_bad_values_raise_what_the_estimator_raises(bad: dict[str, Any]) -> None:
    with pytest.raises(InputError) as theirs:
        MixtureVAEClassifier(**bad).fit(X, Y)
    with pytest.raises(InputError) as ours:
        configurations({name: [value] for name, value in bad.items()}, L)
    assert str(ours.value) == str(theirs.value)


BAD_GRIDS: list[tuple[Any, str]] = [
    ({"latent_dims": [2]}, "'latent_dims' is no parameter of a grid; .*did you mean 'latent_dim'?"),
    ({"n_members": [4]}, "'n_members' cannot be in a grid; give several seeds"),
    ({"device": "cpu"}, "'device' cannot be in a grid; it is an argument"),
    ({"l1": []}, "the grid has no value for l1; give at least one"),
    ([], "grid is empty; a sweep needs at least one mapping"),
    (["latent_dim"], "a grid is 'latent_dim'; it must map names"),
    ({"l1": Range(0.1, 1.0)}, "l1 is a range, and a full grid needs lists; .*RandomSearch"),
    ({"component": Range(0, 1)}, "component takes no range; list its values"),
    ({"l1": {"low": 1.0}}, "the range of l1 is {'low': 1.0}; it must have low and high"),
    ({"l1": Range(1.0, 0.5)}, "runs from 1.0 to 0.5; both must be numbers, low below high"),
    ({"l1": Range(0.0, 0.5, log=True)}, "and above 0 if log is true"),
    ({"l1": {"low": "a", "high": 1.0}}, "runs from 'a' to 1.0; both must be numbers"),
]


@pytest.mark.parametrize(("grid", "message"), BAD_GRIDS)
def test_bad_grids(grid: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        configurations(grid, L)


# --------------------------------------------------------------------------------- the search


def test_random_search_draws_different_points_of_lists() -> None:
    grid = {"latent_dim": [1, 2, 3, 4], "l1": [0.0, 0.1, 0.2]}
    drawn, again, other = (
        [configuration_hash(one) for one in configurations(grid, L, RandomSearch(7, seed))]
        for seed in (0, 0, 1)
    )
    assert len(set(drawn)) == 7
    assert drawn == again
    assert drawn != other
    assert len(configurations(grid, L, RandomSearch(99))) == 12


def test_random_search_draws_from_ranges() -> None:
    grid = {
        "learning_rate": {"low": 1e-4, "high": 1e-2, "log": True},
        "latent_dim": Range(2, 5),
        "l1": Range(0.0, 1.0),
        "component": ["gaussian", "student-t"],
    }
    found = configurations(grid, L, RandomSearch(200))
    assert len(found) == 200
    rates = np.array([one["learning_rate"] for one in found])
    assert 1e-4 <= rates.min() < 2e-4
    assert 8e-3 < rates.max() <= 1e-2
    # Uniform in the logarithm: half lies below the geometric mean; of l1 half below the middle.
    assert 0.4 < (rates < 1e-3).mean() < 0.6
    assert 0.4 < np.mean([one["l1"] < 0.5 for one in found]) < 0.6
    assert {one["latent_dim"] for one in found} == {2, 3, 4, 5}
    assert {one["component"] for one in found} == {"gaussian", "student-t"}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RandomSearch(0), "n is 0; it must be an integer of at least 1"),
        (lambda: RandomSearch(2, seed=-1), "seed is -1"),
        (lambda: Halving(factor=1), "factor is 1; it must be an integer of at least 2"),
        (lambda: Halving(rungs=0), "rungs is 0"),
    ],
)
def test_bad_searches(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_halving_trains_the_best_longer(tmp_path: Path) -> None:
    grid = {"learning_rate": [1e-5, 1e-4, 0.003, 0.01, 0.03, 1e6], "max_epochs": 9}
    results = run(grid, tmp_path, search=Halving(factor=3, rungs=2))
    rungs = {
        epochs: [r for r in results if r.configuration["max_epochs"] == epochs] for epochs in (3, 9)
    }
    assert {epochs: len(records) for epochs, records in rungs.items()} == {3: 18, 9: 6}

    def mean_error(rate: float) -> tuple[float, float]:
        own = [r for r in rungs[3] if r.configuration["learning_rate"] == rate]
        if any(r.development_error is None for r in own):
            return math.inf, math.inf
        return fmean(r.development_error for r in own), fmean(r.development_log_loss for r in own)

    kept = {r.configuration["learning_rate"] for r in rungs[9]}
    assert kept == set(sorted(grid["learning_rate"], key=mean_error)[:2])
    assert 1e6 not in kept
    # Resumable for free, and the last rung is what a plain sweep of those would have been.
    before = files(tmp_path)
    assert by_name(run(grid, tmp_path, search=Halving(factor=3, rungs=2))) == by_name(results)
    assert files(tmp_path) == before
    plain = run({**grid, "learning_rate": sorted(kept)}, tmp_path)
    assert files(tmp_path) == before
    assert set(by_name(plain)) == {record.name for record in rungs[9]}


def test_halving_may_start_at_random_and_end_with_no_one(tmp_path: Path) -> None:
    grid = {"learning_rate": [1e6, 2e6, 3e6], "max_epochs": 4, "batch_size": 200}
    search = Halving(factor=2, rungs=2, start=RandomSearch(2))
    results = run(grid, tmp_path, SPLITS[:1], search=search)
    assert [record.configuration["max_epochs"] for record in results] == [2, 2]
    assert results.best() == []


# -------------------------------------------------------------------------------- the records

GRID: dict[str, Any] = {
    "component": ["student-t", "gaussian"],
    "latent_dim": [1, 3],
    "learning_rate": [0.002, 0.03],
}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("records")


@pytest.fixture(scope="module")
def results(out: Path) -> Results:
    """Two families, two sizes, two step sizes, three folds, two shares, two seeds."""
    return run(GRID, out, shares_of(SPLITS, [0.5, 1.0]), seeds=(0, 7))


def test_there_is_a_record_for_every_fit(results: Results, out: Path) -> None:
    assert len(results) == len(by_name(results)) == 8 * 6 * 2
    assert set(files(out)) == {f"{name}.json" for name in by_name(results)}
    assert by_name(read(out)) == by_name(results)
    labels = {(r.fold, r.share, r.seed) for r in results}
    assert labels == {(f, s, seed) for f in range(3) for s in (0.5, 1.0) for seed in (0, 7)}
    assert {r.split for r in results} == {s.hash for s in shares_of(SPLITS, [0.5, 1.0]).values()}


def test_a_record_says_what_was_found(results: Results) -> None:
    for record in results:
        split = SPLITS[record.fold]
        for error, rows in (
            (record.development_error, split.development),
            (record.test_error, split.test),
        ):
            assert error is not None
            assert error * len(rows) == pytest.approx(round(error * len(rows)), abs=1e-6)
            assert 0 <= error <= 1
        assert record.development_log_loss > 0
        assert 1 <= record.best_epoch <= record.epochs <= 5
        assert record.seconds > 0
        assert record.diverged is None
        assert record.versions["whowrote"] == __version__
        assert record.versions["torch"] == torch.__version__
        assert record.versions["device"].startswith("cpu")
        assert record.protocol["watch"] == "log-loss"
        if record.configuration["component"] == "gaussian":
            assert record.df is None
        else:
            assert len(record.df) == 3
            assert min(record.df) > 2
    # Something was learnt: chance is two thirds.
    assert min(choice.development_error for choice in results.best()) < 0.35


@pytest.mark.parametrize("place", [0, 37, 95])
def test_a_record_is_what_training_by_hand_gives(results: Results, place: int) -> None:
    """Scaled by its own training rows, stopped on the development rows, tested once."""
    record = results.records[place]
    by_hand = trained_by_hand(record, scale_by_all=False)
    assert by_hand["development"] == pytest.approx(record.development_log_loss, rel=1e-4)
    assert by_hand["test"] == pytest.approx(record.test_log_loss, rel=1e-4)
    assert by_hand["error"] == pytest.approx(record.test_error, abs=1e-6)
    assert by_hand["epochs"] == record.epochs
    # Negative control: the test rows had a part in the scaling.
    leaky = trained_by_hand(record, scale_by_all=True)
    ours = [record.development_log_loss, record.test_log_loss]
    assert [leaky["development"], leaky["test"]] != pytest.approx(ours, rel=1e-4)


def trained_by_hand(record: Record, *, scale_by_all: bool) -> dict[str, float]:
    split = shares_of(SPLITS, [0.5, 1.0])[(record.fold, record.share)]
    settings = record.configuration
    part = slice(None) if scale_by_all else list(split.train)
    scaled = (X - X[part].mean(0)) / X[part].std(0)
    labels = torch.as_tensor(np.searchsorted(NAMES, Y))
    rows = Rows(torch.as_tensor(scaled, dtype=torch.float32), labels)
    order = np.random.RandomState(record.seed).permutation(np.array(split.train))
    names = ("component", "learning_rate", "scale_floor", "l1", "joint_weight", "label_weight")
    member = Member(
        seed=record.seed,
        input_dropout=settings["dropout"][0],
        hidden_dropout=settings["dropout"][1],
        **{name: settings[name] for name in (*names, "initial_df", "df_rate")},
    )
    shape = Architecture(L, 3, settings["latent_dim"], tuple(settings["hidden"]))
    fleet = MixtureVAE(shape, [member])
    assignment = Assignment((torch.as_tensor(order),), (torch.tensor(split.development),))
    initialize(fleet, rows, assignment)
    plan = Plan(max_epochs=5, batch_size=20, patience=15)
    outcome = train(fleet, rows, assignment, plan, Streams([record.seed]))
    test = list(split.test)
    log_gamma = fleet.scores(rows.targets[test][None]).log_responsibilities[0].detach()
    right = log_gamma.argmax(-1) == labels[test]
    return {
        "development": outcome.best[0],
        "test": -float(log_gamma[torch.arange(len(test)), labels[test]].mean()),
        "error": 1 - float(right.double().mean()),
        "epochs": len(outcome.history),
    }


def test_early_stopping_watches_what_it_is_told_to(tmp_path: Path) -> None:
    """Of the same epochs, each keeps the one that is best in what it watches."""
    grid = {"learning_rate": [0.01, 0.05], "max_epochs": 10, "patience": 99, "average": 0.0}
    by_error, by_loss = (
        run(grid, tmp_path, watch=watch, seeds=range(3)) for watch in ("error", "log-loss")
    )
    assert len(by_name(by_error) | by_name(by_loss)) == 36
    for a, b in zip(by_error, by_loss, strict=True):
        assert a.development_error <= b.development_error
        assert a.development_log_loss >= b.development_log_loss
    assert any(a.best_epoch != b.best_epoch for a, b in zip(by_error, by_loss, strict=True))
    assert {record.epochs for record in (*by_error, *by_loss)} == {10}


# ----------------------------------------------------------------------- groups do not matter


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


# --------------------------------------------------------------------------------- divergence

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


# ------------------------------------------------------------------------------------- resume


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    first = run(GRID, tmp_path, SPLITS[:2])
    before = files(tmp_path)
    again = run(GRID, tmp_path, SPLITS[:2])
    assert list(again) == list(first)
    assert files(tmp_path) == before
    # Negative control: what is missing is done, and only that.
    gone = first.records[5].name
    record_path(tmp_path, gone).unlink()
    assert_same(by_name(run(GRID, tmp_path, SPLITS[:2]))[gone], first.records[5], 1e-5)
    after = files(tmp_path)
    assert {name for name in after if after[name] != before[name]} == {f"{gone}.json"}
    more = run(GRID, tmp_path, SPLITS)
    assert len(more) == 24
    assert set(by_name(first)) < set(by_name(more))


def test_a_split_may_be_called_otherwise_the_next_time(tmp_path: Path) -> None:
    run({}, tmp_path, {(2, 1.0): SPLITS[2]})
    before = files(tmp_path)
    (record,) = run({}, tmp_path, [SPLITS[2]])
    assert (record.fold, files(tmp_path)) == (0, before)


DAMAGE: dict[str, Callable[[bytes, bytes], bytes]] = {
    "half": lambda own, other: own[: len(own) // 2],
    "empty": lambda own, other: b"",
    "not UTF-8": lambda own, other: b"\xff\xfe" + own,
    "another record": lambda own, other: other,
    "another format": lambda own, other: own.replace(b'"format":1', b'"format":0'),
    "a field less": lambda own, other: own.replace(b'"epochs"', b'"epoch"'),
    "a list": lambda own, other: b"[]",
    "another setting": lambda own, other: own.replace(b'"seed":0', b'"seed":1'),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_record_is_named_and_done_again(tmp_path: Path, how: str) -> None:
    first = run({"learning_rate": [0.01, 0.02]}, tmp_path, SPLITS[:1])
    paths = [record_path(tmp_path, record.name) for record in first]
    own, other = (path.read_bytes() for path in paths)
    paths[0].write_bytes(DAMAGE[how](own, other))
    assert paths[0].read_bytes() != own
    with pytest.warns(RecordWarning, match=f"'{paths[0]}' is damaged .* fits it again"):
        again = run({"learning_rate": [0.01, 0.02]}, tmp_path, SPLITS[:1])
    assert_same(again.records[0], first.records[0], 1e-5)
    assert len(read(tmp_path)) == 2  # mended, and no warning


def test_drafts_of_a_killed_sweep_are_no_records(tmp_path: Path) -> None:
    (record,) = run({}, tmp_path, SPLITS[:1])
    path = record_path(tmp_path, record.name)
    path.with_name(f".{path.name}.x1y2.json").write_bytes(path.read_bytes()[:40])
    assert list(read(tmp_path)) == [record]


LONGER = {"latent_dim": [1, 2], "learning_rate": [0.005, 0.02], "batch_size": 10}
KILLED = """
import json
import sys
import numpy as np
from whowrote.corpus.splits import folds
from whowrote.sweep import sweep
with np.load(sys.argv[1]) as data:
    X, y = data["X"], data["y"]
splits = folds(y, n_folds=3)
sweep(json.loads(sys.argv[3]), X, y, splits, out=sys.argv[2], group_size=3, dtype="float64")
"""


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_a_killed_sweep_goes_on_to_the_same_records(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", X=X, y=Y)
    killed = tmp_path / "killed"
    arguments = [tmp_path / "data.npz", killed, json.dumps({**QUICK, **LONGER})]
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, *map(str, arguments)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        patience = time.monotonic() + 60
        while len(files(killed)) < 3 and process.poll() is None and time.monotonic() < patience:
            time.sleep(0.002)
    finally:
        process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    before = files(killed)
    assert 3 <= len(before) < 12
    ours, whole = (
        by_name(run(LONGER, out, group_size=3, dtype="float64"))
        for out in (killed, tmp_path / "whole")
    )
    assert len(whole) == 12
    assert set(ours) == set(whole)
    for name, record in whole.items():
        assert_same(ours[name], record)
    # What had been done before the kill was not done again.
    after = files(killed)
    assert all(after[name] == made for name, made in before.items())


# ----------------------------------------------------------------------------------- choosing


def corrupted(rows: Sequence[int]) -> np.ndarray:
    """Every one of these labels wrong."""
    y = Y.copy()
    y[list(rows)] = NAMES[(np.searchsorted(NAMES, y[list(rows)]) + 1) % 3]
    return y


def chosen(grid: Any, out: Path, label: tuple[int, float], y: np.ndarray) -> Any:
    results = run(grid, out, {label: SPLITS[label[0]]}, y=y)
    return [(choice.key, choice.configuration) for choice in results.best()], results


CHOICES = {**GRID, "learning_rate": [1e-4, 0.002, 0.01, 0.03], "label_weight": [0.0, 10.0]}


@pytest.mark.parametrize("fold", [0, 1, 2])
def test_no_test_label_has_a_part_in_a_choice(tmp_path: Path, fold: int) -> None:
    label, split = (fold, 1.0), SPLITS[fold]
    honest, results = chosen(CHOICES, tmp_path / "honest", label, Y)
    wrong, other = chosen(CHOICES, tmp_path / "test", label, corrupted(split.test))
    assert wrong == honest
    for a, b in zip(results, other, strict=True):
        assert a.development_error == b.development_error
    # The labels did arrive: the test errors are others.
    assert [r.test_error for r in other] != [r.test_error for r in results]
    assert results.table() != other.table()
    # Negative control: development labels do decide.
    assert chosen(CHOICES, tmp_path / "dev", label, corrupted(split.development))[0] != honest


def test_test_columns_can_be_anything(results: Results) -> None:
    source = random.Random(0)
    shuffled = Results(tuple(replace(r, test_error=source.random()) for r in results))
    for by in (("component", "share"), ("component", "share", "fold"), ()):
        ours, theirs = results.best(by), shuffled.best(by)
        assert [choice.configuration for choice in ours] == [c.configuration for c in theirs]
    developed = Results(tuple(replace(r, development_error=source.random()) for r in results))
    assert [c.configuration for c in results.best()] != [c.configuration for c in developed.best()]


def test_the_best_has_the_lowest_mean_development_error(results: Results) -> None:
    choices = results.best(["component", "share"])
    assert [tuple(choice.key.values()) for choice in choices] == [
        ("gaussian", 0.5),
        ("gaussian", 1.0),
        ("student-t", 0.5),
        ("student-t", 1.0),
    ]
    for choice in choices:
        assert choice.n_candidates == 4
        assert len(choice.records) == 3 * 2
        means = {}
        for record in results:
            settings = record.configuration
            if (settings["component"], record.share) == tuple(choice.key.values()):
                means.setdefault(json.dumps(settings), []).append(record.development_error)
        assert choice.development_error == pytest.approx(min(map(fmean, means.values())))
        assert fmean(means[json.dumps(choice.configuration)]) == choice.development_error


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


def best_rate(*records: Record) -> float:
    (choice,) = Results(records).best()
    return choice.configuration["learning_rate"]


def test_ties_go_to_the_log_loss_and_then_to_the_hash_of_the_configuration() -> None:
    assert best_rate(made(0.1, 0.2), made(0.2, 0.1)) == 0.2
    assert best_rate(made(0.1, 0.1, 0.9), made(0.2, 0.1, 0.8)) == 0.2
    tied = made(0.1, 0.1), made(0.2, 0.1)
    first = best_rate(*tied)
    assert best_rate(*tied[::-1]) == first
    # Neither the data nor the split turn a tie.
    for data in map(str, range(20)):
        assert best_rate(*(replace(record, data=data, split=data) for record in tied)) == first


def test_who_diverged_anywhere_is_never_chosen() -> None:
    first = made(0.1, 0.0), made(0.1, None, None, split="t", fold=1)
    second = made(0.2, 0.9), made(0.2, 0.9, split="t", fold=1)
    assert best_rate(*first, *second) == 0.2
    assert Results(first).best() == []
    infinite = Results((made(0.1, 0.3, None),)).best()[0]
    assert (infinite.development_error, infinite.development_log_loss) == (0.3, None)


def test_half_a_sweep_gives_no_half_answers() -> None:
    whole = made(0.1, 0.3), made(0.1, 0.3, split="t", fold=1)
    assert best_rate(*whole, made(0.2, 0.1)) == 0.1
    assert best_rate(*whole, made(0.2, 0.1), made(0.2, 0.1, split="t", fold=1)) == 0.2


def test_records_of_other_data_do_not_mix() -> None:
    results = Results((made(0.1, 0.3), made(0.2, 0.1, data="e")))
    with pytest.raises(InputError, match="2 different X and y, whose errors do not compare"):
        results.best()
    assert [c.configuration["learning_rate"] for c in results.best(["data"])] == [0.1, 0.2]


@pytest.mark.parametrize(("by", "name"), [(["sharing"], "'sharing'"), ("share", "'share'")])
def test_what_to_choose_by_must_be_names(results: Results, by: Any, name: str) -> None:
    with pytest.raises(InputError, match=f"by has {name}; it must be a list of names .*did you"):
        results.best(by)


def test_the_table_reads_the_test_column_of_the_chosen(results: Results) -> None:
    for row in results.table():
        errors = [
            fmean(record.test_error for record in choice.records)
            for choice in results.best(("component", "share", "fold"))
            if {**choice.key, **row.key} == choice.key
        ]
        assert (row.n_folds, row.n_fits) == (3, 24)
        assert row.test_error == pytest.approx(fmean(errors))
        assert row.test_sd == pytest.approx(stdev(errors))
    one_for_all = results.table(per_fold=False)
    for row, choice in zip(one_for_all, results.best(), strict=True):
        assert row.test_error == pytest.approx(fmean(r.test_error for r in choice.records))
        assert row.development_error == pytest.approx(choice.development_error)


def test_one_fold_has_no_spread_and_no_test_rows_have_no_table(tmp_path: Path) -> None:
    split = SPLITS[0]
    (row,) = run({}, tmp_path, [split]).table()
    assert (row.test_sd, row.n_folds) == (None, 1)
    bare = Split(split.train, split.development, ())
    results = run({}, tmp_path, [bare])
    assert results.records[0].test_error is None
    assert len(results.best()) == 1
    with pytest.raises(InputError, match="there is no test error to show"):
        results.table()


# -------------------------------------------------------------------------------------- packed


def test_a_packed_file_holds_the_same_records(results: Results, out: Path, tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl.zst"
    assert pack(out, file) == len(results)
    assert list(read(file)) == list(read(out))
    again = tmp_path / "again.jsonl.zst"
    pack(out, again)
    assert again.read_bytes() == file.read_bytes()
    assert [c.configuration for c in read(file).best()] == [c.configuration for c in results.best()]


def test_a_packed_record_takes_less_than_four_hundred_bytes(tmp_path: Path) -> None:
    """Then 25,000 of them, of thirty authors, stay below ten megabytes."""
    source = random.Random(0)
    rates = [0.001 * (1 + i) for i in range(8)]
    texts = []
    for split in range(25):
        for rate in rates:
            df = [float(f"{2 + 60 * source.random():.6g}") for _ in range(30)]
            error, loss = source.randrange(2034) / 2034, source.random()
            record = made(rate, error, loss, split=f"{split:064x}", data="d" * 64, df=df)
            texts.append(replace(record, test_error=source.random(), test_log_loss=source.random()))
    for record in texts:
        write(tmp_path / "out", record)
    pack(tmp_path / "out", tmp_path / "all.jsonl.zst")
    assert (tmp_path / "all.jsonl.zst").stat().st_size < 400 * len(texts)


def test_files_that_are_no_records(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there are no records at .*gone"):
        read(tmp_path / "gone")
    with pytest.raises(InputError, match=r"does not end in \.jsonl\.zst; name the packed file so"):
        pack(tmp_path, tmp_path / "records.json")
    plain = tmp_path / "x.jsonl"
    plain.write_text("{}\n")
    with pytest.raises(InputError, match=r"line 1 of .* is no record of a sweep"):
        read(plain)
    damaged = tmp_path / "x.jsonl.zst"
    damaged.write_bytes(b"\x28\xb5\x2f\xfd but no more")
    with pytest.raises(InputError, match="cannot be read"):
        read(damaged)


# ------------------------------------------------------------------------------------ bad input


def with_label(row: int, label: Any) -> list[Any]:
    y: list[Any] = Y.tolist()
    y[row] = label
    return y


BARE = SPLITS[0]
BAD_INPUT: dict[str, tuple[dict[str, Any], str]] = {
    "sparse": ({"X": sparse.csr_array(X)}, "X is sparse and a sweep reads dense rows; project"),
    "no label": ({"y": with_label(4, None)}, "row 4 has no label; a sweep needs the author"),
    "NaN": ({"X": np.where(np.arange(N)[:, None] == 3, np.nan, X)}, "X contains NaN in row 3"),
    "lengths": ({"y": Y[:-1]}, "inconsistent numbers of samples"),
    "no splits": ({"splits": []}, "splits is empty; a sweep needs at least one"),
    "the same split": (
        {"splits": [BARE, BARE]},
        r"\(fold 0, share 1\) and \(fold 1, share 1\) hold the same rows; leave one out",
    ),
    "no development": (
        {"splits": [Split(BARE.train, (), BARE.test)]},
        "and 0 development rows; a fit learns from the first and stops by the second",
    ),
    "a row too far": (
        {"splits": [Split(BARE.train, BARE.development, (N,))]},
        f"has row {N} and X has {N} rows; make the splits from the labels of this X",
    ),
    "a class missing": (
        {"splits": [Split(tuple(np.flatnonzero(Y != "bob").tolist()), (1, 4), ())]},
        "class 'bob' has no training row in the split",
    ),
    "no seed": ({"seeds": []}, r"seeds is \[\]; it must be one or more different numbers"),
    "a seed twice": ({"seeds": [1, 1]}, r"seeds is \[1, 1\]; it must be"),
    "a negative seed": ({"seeds": [-1]}, "a seed is -1; it must be an integer of at least 0"),
    "watch": ({"watch": "errors"}, "watch is 'errors'; .*did you mean 'error'?"),
    "dtype": ({"dtype": "float16"}, "dtype is 'float16'"),
    "device": ({"device": "tpu"}, "device is 'tpu'"),
    "group size": ({"group_size": 0}, "group_size is 0; it must be an integer of at least 1"),
    "plan": ({"plan": {"final_rat": 0.1}}, "plan has 'final_rat'; .*did you mean 'final_rate'?"),
    "plan value": ({"plan": {"final_rate": "x"}}, "final_rate in plan is 'x'; it must be like"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input(tmp_path: Path, case: str) -> None:
    given, message = BAD_INPUT[case]
    arguments: dict[str, Any] = {"grid": QUICK, "X": X, "y": Y, "splits": SPLITS[:1], **given}
    with pytest.raises(InputError, match=message):
        sweep(**arguments, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    with pytest.raises(InputError, match="x', a file; give the name of a folder"):
        run({}, tmp_path / "x")


def test_only_must_name_folds() -> None:
    with pytest.raises(InputError, match="only has fold 3; there are 3 folds, counted from 0"):
        shares_of(SPLITS, only=[3])


def test_other_settings_of_the_plan_are_other_fits(tmp_path: Path) -> None:
    plain, slow = (run({}, tmp_path, SPLITS[:1], plan=p) for p in (None, {"final_rate": 1.0}))
    assert plain.records[0].name != slow.records[0].name
    assert plain.records[0].development_log_loss != slow.records[0].development_log_loss


# ----------------------------------------------------------------------------- vectors in files


def test_vectors_of_numpy_and_parquet(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=X.astype(np.float16), y=Y)
    author, pages = pa.array(Y.tolist()), pa.array(np.arange(N) // 2)
    rows = X.astype(np.float32).tolist()
    tables = {
        "lists": {"vector": pa.array(rows)},
        "fixed": {"v": pa.array(rows, pa.list_(pa.float32(), L))},
        "numbered": {f"v{i}": pa.array(X[:, i].astype(np.float32)) for i in reversed(range(L))},
    }
    for name, columns in tables.items():
        table = pa.table({"author": author, "page1": pages, **columns})
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=50)
        found = read_vectors(tmp_path / f"{name}.parquet", group="page1")
        np.testing.assert_array_equal(found.X, X.astype(np.float32))
        assert found.y.tolist() == Y.tolist()
        assert found.groups == pages.to_pylist()
    numpy = read_vectors(tmp_path / "a.npz")
    assert (numpy.X.dtype, numpy.y.tolist(), numpy.groups) == (np.float16, Y.tolist(), None)
    swapped = read_vectors(tmp_path / "numbered.parquet", author="page1", vector="v")
    assert swapped.y.tolist() == pages.to_pylist()


def test_vectors_that_cannot_be_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "names.npz", X=X, Y=Y)
    np.save(tmp_path / "array.npy", X)
    (tmp_path / "array.npy").rename(tmp_path / "array.npz")
    np.savez(tmp_path / "objects.npz", X=X, y=Y.astype(object))
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1")
    (tmp_path / "x.csv").write_text("1,2")
    pq.write_table(pa.table({"author": ["a", "b"]}), tmp_path / "none.parquet")
    pq.write_table(pa.table({"author": ["a"], "v": [["x"]]}), tmp_path / "text.parquet")
    uneven = pa.table({"author": ["a", "b"], "v": [[1.0], [1.0, 2.0]]})
    pq.write_table(uneven, tmp_path / "uneven.parquet")
    for name, message in {
        "gone.npz": "there is no file of vectors at",
        "x.csv": "ends in '.csv'; vectors must be in .npz or .parquet",
        "names.npz": "has no array 'y'; it has 'X', 'Y'",
        "objects.npz": "cannot be read .*names as text",
        "broken.npz": "cannot be read",
        "array.npz": "cannot be read",
        "broken.parquet": "is not a readable Parquet file",
        "none.parquet": "has no vectors; it needs one column of lists, or numbered columns",
        "text.parquet": "are not numbers or have lengths",
        "uneven.parquet": r"have lengths \[1, 2\]; every text needs one vector of the same",
    }.items():
        with pytest.raises(InputError, match=message):
            read_vectors(tmp_path / name)
    with pytest.raises(InputError, match=r"has no column 'auther'; .*did you mean 'author'?"):
        read_vectors(tmp_path / "none.parquet", author="auther")
    with pytest.raises(InputError, match="has no vectors called 'w'"):
        read_vectors(tmp_path / "uneven.parquet", vector="w")


# ------------------------------------------------------------------------------------ progress


def test_a_terminal_sees_fits_and_pace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("FORCE_COLOR", "1")  # what rich takes for a terminal
    run({"latent_dim": [1, 2]}, tmp_path, SPLITS[:1], progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "2/2" in shown.err
    assert "fits/s, 0:00:00 left, group 2/2, epoch 5" in shown.err
    # Nothing is fitted, so there is no pace.
    run({"latent_dim": [1, 2]}, tmp_path, SPLITS[:1], progress=True)
    shown = capsys.readouterr()
    assert "2/2" in shown.err
    assert "fits/s" not in shown.err


def test_a_pipe_sees_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    run({}, tmp_path, SPLITS[:1], progress=True)
    assert capsys.readouterr() == ("", "")
