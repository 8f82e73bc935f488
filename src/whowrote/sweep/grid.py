r"""What to try: every point of a grid, some random ones, or rungs of growing length.

.. math:: \mathrm{configurations} = \bigcup_{\mathrm{grids}} \prod_{\mathrm{parameters}}
    \{\mathrm{values}\}

A configuration names every parameter, with the defaults filled in, as plain JSON values in one
canonical form: ``dropout=0.1`` and ``dropout=(0.1, 0.1)`` are the same configuration and get the
same hash, so that nothing is fitted twice.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from whowrote.checks import at_least
from whowrote.errors import InputError, did_you_mean
from whowrote.files import canonical_hash

Configuration = dict[str, Any]
Grid = Mapping[str, Any]

INTEGERS = ("latent_dim", "n_samples", "max_epochs", "batch_size", "patience")
NUMBERS = (
    *("scale_floor", "l1", "learning_rate", "clip_norm", "joint_weight", "label_weight"),
    *("initial_df", "df_rate", "average"),
)
WORDS = ("component", "activation", "objective")
TUPLES = ("hidden", "dropout")
PARAMETERS = tuple(sorted(INTEGERS + NUMBERS + WORDS + TUPLES))
ELSEWHERE = {
    "n_members": "give several seeds",
    "random_state": "give seeds",
    "validation_fraction": "the development rows of each split take its part",
    "device": "it is an argument of the sweep",
    "dtype": "it is an argument of the sweep",
    "watch": "it is an argument of the sweep",
    "warm_up": "a sweep is supervised and has no warm-up",
    "projection_dim": "a sweep reads dense X",
    "verbose": "give progress=True",
    "class_weight": "a sweep weighs all rows alike",
    "start": "a sweep starts from random networks",
    "warm_start": "every fit of a sweep starts anew",
}


@dataclass(frozen=True)
class Range:
    """Values between two limits, uniform or, with ``log``, uniform in the logarithm."""

    low: float
    high: float
    log: bool = False

    def draw(self, source: random.Random) -> float:
        """One value, short enough to be read in a table."""
        low, high = (math.log(x) if self.log else x for x in (self.low, self.high))
        value = low + (high - low) * source.random()
        return float(f"{math.exp(value) if self.log else value:.6g}")


@dataclass(frozen=True)
class RandomSearch:
    """``n`` configurations drawn from lists and ranges; from lists alone, all different."""

    n: int
    seed: int = 0

    def __post_init__(self) -> None:
        at_least("n", self.n, 1, integer=True)
        at_least("seed", self.seed, 0, integer=True)


@dataclass(frozen=True)
class Halving:
    """Train all briefly, keep the best 1/``factor``, train those longer, ``rungs`` times.

    Rung *r* of *R* trains for max_epochs / factor^(R - r) epochs; the order is by mean development
    error over splits and seeds. ``start`` draws the first rung at random instead of taking all.
    """

    factor: int = 3
    rungs: int = 3
    start: RandomSearch | None = None

    def __post_init__(self) -> None:
        at_least("factor", self.factor, 2, integer=True)
        at_least("rungs", self.rungs, 1, integer=True)

    def at(self, rung: int, configuration: Configuration) -> Configuration:
        """The configuration as it is trained on a rung, counted from 0.

        >>> [Halving(3, 3).at(rung, {"max_epochs": 60})["max_epochs"] for rung in range(3)]
        [7, 20, 60]
        """
        epochs = round(configuration["max_epochs"] / self.factor ** (self.rungs - 1 - rung))
        return {**configuration, "max_epochs": max(1, epochs)}

    def sizes(self, n: int) -> list[int]:
        """How many configurations each rung trains.

        >>> Halving(3, 3).sizes(20)
        [20, 7, 3]
        """
        return [math.ceil(n / self.factor**rung) for rung in range(self.rungs)]


Search = RandomSearch | Halving


def configurations(
    grid: Grid | Sequence[Grid], n_features: int, search: Search | None = None
) -> list[Configuration]:
    """Every configuration to be tried (first), checked, complete and without repetition.

    >>> found = configurations({"latent_dim": [2, 5], "l1": 0.01}, n_features=9)
    >>> [(one["latent_dim"], one["hidden"], one["l1"]) for one in found]
    [(2, [5], 0.01), (5, [7], 0.01)]
    """
    grids = [_checked(one) for one in ([grid] if isinstance(grid, Mapping) else grid)]
    if not grids:
        raise InputError("grid is empty; a sweep needs at least one mapping: {} tries the defaults")
    search = search.start if isinstance(search, Halving) else search
    points = _every(grids) if search is None else _drawn(grids, search)
    complete = (completed(point, n_features) for point in points)
    return list({configuration_hash(one): one for one in complete}.values())


def completed(given: Grid, n_features: int) -> Configuration:
    """Fill in the defaults, check as the estimator does, and make every value plain."""
    from whowrote.estimators import MixtureVAEClassifier  # who reads records does not load torch

    estimator = MixtureVAEClassifier(**{"start": "random", **given})
    estimator._check_parameters()
    by_rule = {"latent_dim", "hidden", "batch_size"}
    values = {name: estimator._setting(name) for name in PARAMETERS if name not in by_rule}
    d = values["latent_dim"] = estimator._latent_dim(0, 0, n_features)
    values["hidden"] = estimator._hidden_sizes(0, d, n_features)
    values["batch_size"] = estimator.batch_size  # None: it grows with the data
    values["dropout"] = estimator._dropout_rates()
    return {name: _plain(name, values[name]) for name in PARAMETERS}


def _plain(name: str, value: Any) -> Any:
    if name in WORDS:
        return str(value)
    if name in TUPLES:
        return [int(part) if name == "hidden" else float(part) for part in value]
    if value is None:  # a batch size that grows with the data
        return None
    return int(value) if name in INTEGERS else float(value)


def configuration_hash(configuration: Configuration) -> str:
    """SHA-256 of the configuration alone: no data, no split, no seed."""
    return canonical_hash(configuration)


# -- reading a grid ------------------------------------------------------------------------------


def _checked(grid: Any) -> dict[str, list[Any] | Range]:
    if not isinstance(grid, Mapping):
        raise InputError(
            f"a grid is {grid!r}; it must map names of parameters to lists of values, such as "
            "{'latent_dim': [20, 50]}"
        )
    return {check_name(name): _values(name, given) for name, given in grid.items()}


def check_name(name: Any) -> str:
    """Require the name of a parameter that can be swept."""
    if name in PARAMETERS:
        return str(name)
    if name in ELSEWHERE:
        raise InputError(f"{name!r} cannot be in a grid; {ELSEWHERE[name]}")
    raise InputError(
        f"{name!r} is no parameter of a grid; there are {', '.join(PARAMETERS)}"
        f"{did_you_mean(str(name), PARAMETERS)}"
    )


def _values(name: str, given: Any) -> list[Any] | Range:
    """The values of one parameter; a tuple is one value where the parameter takes tuples."""
    if isinstance(given, Mapping | Range):
        return _range(name, given)
    several = list, range, np.ndarray
    if not isinstance(given, several if name in TUPLES else (*several, tuple)):
        return [given]
    if len(given) == 0:
        raise InputError(f"the grid has no value for {name}; give at least one or leave it out")
    return list(given)


def _range(name: str, given: Mapping[str, Any] | Range) -> Range:
    if isinstance(given, Mapping):
        unknown = sorted(set(given) - {"low", "high", "log"})
        if unknown or not {"low", "high"} <= set(given):
            raise InputError(
                f"the range of {name} is {dict(given)!r}; it must have low and high, and may have "
                "log, such as {low = 0.001, high = 0.01, log = true}"
            )
        given = Range(**given)
    if name not in INTEGERS + NUMBERS:
        raise InputError(f"{name} takes no range; list its values")
    numbers = all(isinstance(end, Real) and math.isfinite(end) for end in (given.low, given.high))
    if not numbers or given.low >= given.high or (given.log and given.low <= 0):
        raise InputError(
            f"the range of {name} runs from {given.low!r} to {given.high!r}; both must be numbers, "
            "low below high, and above 0 if log is true"
        )
    return given


# -- points of a grid ----------------------------------------------------------------------------


def _every(grids: Sequence[Mapping[str, list[Any] | Range]]) -> Iterable[Grid]:
    for grid in grids:
        lists = [_listed(name, values) for name, values in grid.items()]
        for point in itertools.product(*lists):
            yield dict(zip(grid, point, strict=True))


def _listed(name: str, values: list[Any] | Range) -> list[Any]:
    if isinstance(values, Range):
        raise InputError(
            f"{name} is a range, and a full grid needs lists; list its values or search at "
            "random: RandomSearch(n=50)"
        )
    return values


def _drawn(
    grids: Sequence[Mapping[str, list[Any] | Range]], search: RandomSearch
) -> Iterable[Grid]:
    source = random.Random(search.seed)
    if any(isinstance(values, Range) for grid in grids for values in grid.values()):
        return [_point(source.choice(grids), source) for _ in range(search.n)]
    every = list(_every(grids))
    return source.sample(every, min(search.n, len(every)))


def _point(grid: Mapping[str, list[Any] | Range], source: random.Random) -> Grid:
    def one(name: str, values: list[Any] | Range) -> Any:
        if not isinstance(values, Range):
            return source.choice(values)
        drawn = values.draw(source)
        return round(drawn) if name in INTEGERS else drawn

    return {name: one(name, values) for name, values in grid.items()}
