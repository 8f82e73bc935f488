"""What a sweep tries: grids, random draws, rungs of growing length."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from sweep.small_sweeps import (
    SPLITS,
    L,
    X,
    Y,
    by_name,
    files,
    run,
)
from threads import one_thread as one_thread
from whowrote import MixtureVAEClassifier
from whowrote.errors import InputError
from whowrote.estimators.classifier import RULES
from whowrote.sweep import (
    Halving,
    RandomSearch,
    Range,
)
from whowrote.sweep.grid import PARAMETERS, configuration_hash, configurations


def test_a_configuration_is_complete_and_plain() -> None:
    (one,) = configurations({"latent_dim": np.int64(3), "l1": 0}, L)
    assert set(one) == set(PARAMETERS)
    assert json.loads(json.dumps(one)) == one
    assert (one["latent_dim"], one["hidden"], one["batch_size"]) == (3, [4], None)
    assert one["learning_rate"] == RULES["random"]["learning_rate"]
    # What is chosen can be fitted by hand.
    MixtureVAEClassifier(start="random", **one)._check_parameters()


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
        MixtureVAEClassifier(start="random", **bad).fit(X, Y)
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
