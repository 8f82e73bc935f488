"""A sweep as a TOML file: data, splits, grid, fixed settings, search.

.. code-block:: toml

    [data]
    vectors = "vectors.npz"         # X and y; or .parquet
    [splits]
    folds = 5
    shares = [0.2, 1.0]
    [grid]
    latent_dim = [20, 50]
    [fit]
    max_epochs = 40
    seeds = [0, 1]
    [search]
    kind = "random"
    n = 20

Paths are relative to the file.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from whowrote.errors import InputError
from whowrote.splits import folds
from whowrote.sweep.grid import Grid, Halving, RandomSearch, Search, check_name, did_you_mean
from whowrote.sweep.results import Results
from whowrote.sweep.run import sweep
from whowrote.sweep.staging import shares_of
from whowrote.sweep.vectors import read_vectors

SECTIONS = ("data", "splits", "grid", "fit", "search")
OPTIONS = ("seeds", "watch", "plan", "dtype", "group_size")


@dataclass(frozen=True)
class Config:
    """What a file asks for."""

    vectors: Path
    grids: Sequence[Grid]
    columns: Mapping[str, str] = field(default_factory=dict)
    """Other names of the arrays or columns of author, vector and group."""
    n_folds: int = 5
    seed: int = 0
    shares: Sequence[float] = (1.0,)
    only: Sequence[int] | None = None
    search: Search | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the sweep: seeds, watch, plan, dtype, group_size."""

    @property
    def varied(self) -> list[str]:
        """The parameters that the grids name, in their order."""
        return list(dict.fromkeys(name for grid in self.grids for name in grid))


def run_config(
    config: Config,
    out: str | os.PathLike[str],
    *,
    device: str = "auto",
    progress: bool = False,
) -> Results:
    """Read the vectors, make the splits and run the sweep."""
    data = read_vectors(config.vectors, **config.columns)
    whole = folds(data.y.tolist(), data.groups, n_folds=config.n_folds, random_state=config.seed)
    return sweep(
        config.grids,
        data.X,
        data.y,
        shares_of(whole, config.shares, config.only),
        out=out,
        search=config.search,
        device=device,
        progress=progress,
        **config.options,
    )


def read_config(path: str | os.PathLike[str]) -> Config:
    """Read and check a file; whatever is wrong with it is one sentence."""
    path = Path(path)
    tables = _tables(path)
    data = _section(tables, "data", ("vectors", "author", "vector", "group"))
    if "vectors" not in data:
        raise InputError(f"'{path}' names no vectors; add [data] with vectors = \"vectors.npz\"")
    for name in data:
        _require(data, "data", name, _is_text, "a text in quotes")
    cut = _section(tables, "splits", ("folds", "seed", "shares", "only"))
    _require(cut, "splits", "seed", _is_count, "a whole number of at least 0")
    _require(cut, "splits", "shares", _listing(_is_number), "a list of numbers, such as [0.2, 1.0]")
    _require(cut, "splits", "only", _listing(_is_count), "a list of folds, counted from 0")
    fixed = _section(tables, "fit")
    options = {name: fixed.pop(name) for name in OPTIONS if name in fixed}
    _require(options, "fit", "seeds", _listing(_is_count), "a list of whole numbers, such as [0]")
    _require(options, "fit", "plan", _is_table, "a table, such as {final_rate = 0.1}")
    return Config(
        vectors=path.parent / data.pop("vectors"),
        grids=_grids(tables.get("grid", {}), fixed),
        columns=data,
        n_folds=cut.get("folds", 5),
        seed=cut.get("seed", 0),
        shares=cut.get("shares", [1.0]),
        only=cut.get("only"),
        search=_search(_section(tables, "search", ("kind", "n", "seed", "factor", "rungs"))),
        options=options,
    )


def _tables(path: Path) -> dict[str, Any]:
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise InputError(
            f"'{path}' cannot be read ({problem.strerror}); give the path of a TOML file"
        ) from None
    except ValueError as problem:  # bad TOML, or not even UTF-8
        raise InputError(f"'{path}' is not valid TOML ({problem}); correct it there") from None
    _check_keys(tables, SECTIONS, "the file")
    return tables


def _section(
    tables: Mapping[str, Any], name: str, keys: Sequence[str] | None = None
) -> dict[str, Any]:
    found = tables.get(name, {})
    if not isinstance(found, dict):
        raise InputError(f"{name} is {found!r}; it must be a section: write [{name}]")
    if keys is not None:
        _check_keys(found, keys, f"[{name}]")
    return dict(found)


def _check_keys(found: Mapping[str, Any], keys: Sequence[str], where: str) -> None:
    for name in found:
        if name not in keys:
            raise InputError(
                f"{where} has {name!r}; it may have {', '.join(keys)}{did_you_mean(name, keys)}"
            )


def _grids(given: Any, fixed: Mapping[str, Any]) -> list[Grid]:
    """The grid, or several as [[grid]], each with the fixed parameters."""
    single = {check_name(name): [value] for name, value in fixed.items()}
    grids = given if isinstance(given, list) else [given]
    for grid in grids:
        if not isinstance(grid, dict):
            raise InputError(f"grid is {given!r}; it must be a section: write [grid]")
        if both := sorted(set(grid) & set(single)):
            raise InputError(f"{both[0]} is in [grid] and in [fit]; leave it in one of them")
    return [{**grid, **single} for grid in grids]


def _search(given: Mapping[str, Any]) -> Search | None:
    if not given:
        return None
    kind, rest = given.get("kind"), {k: v for k, v in given.items() if k != "kind"}
    start = {name: rest.pop(name) for name in ("n", "seed") if name in rest}
    if kind == "random" and "n" in start and not rest:
        return RandomSearch(**start)
    if kind == "halving" and ("n" in start or not start):
        return Halving(**rest, start=RandomSearch(**start) if start else None)
    raise InputError(
        f'[search] is {dict(given)!r}; it must be kind = "random" with n (and seed), or kind = '
        '"halving" with factor and rungs (and n and seed for a random start)'
    )


def _require(
    found: Mapping[str, Any], section: str, name: str, good: Callable[[Any], bool], what: str
) -> None:
    if name in found and not good(found[name]):
        raise InputError(f"{name} in [{section}] is {found[name]!r}; it must be {what}")


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_table(value: Any) -> bool:
    return isinstance(value, dict)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _listing(good: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Whether a value is a list, not empty, of good ones."""
    return lambda value: isinstance(value, list) and bool(value) and all(map(good, value))
