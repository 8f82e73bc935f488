"""The sweep itself: expand, skip what is done, train the rest group by group, file the records.

    sweep = records of (configurations x splits x seeds), minus those on disk, by groups

Nothing is kept but records: a sweep that is killed loses the group in flight, and one that is
started again goes on where it was.
"""

from __future__ import annotations

import os
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from whowrote import checks
from whowrote.corpus.splits import folds
from whowrote.errors import InputError
from whowrote.progress import Tally, fit_bar
from whowrote.sweep.data import (
    Dataset,
    Part,
    Splits,
    Stage,
    checked_data,
    checked_parts,
    read_vectors,
    shares_of,
)
from whowrote.sweep.grid import (
    Configuration,
    Grid,
    Halving,
    RandomSearch,
    Search,
    canonical,
    check_name,
    configurations,
    did_you_mean,
)
from whowrote.sweep.groups import PROTOCOL, Group, Task, fit_group, grouped
from whowrote.sweep.results import Fit, Record, Results, Standing, find, standing, write
from whowrote.training import Epoch

Report = Callable[[Tally], None]


def sweep(
    grid: Grid | Sequence[Grid],
    X: Any,
    y: Any,
    splits: Splits,
    *,
    out: str | os.PathLike[str],
    seeds: Sequence[int] = (0,),
    watch: str = "log-loss",
    search: Search | None = None,
    plan: Mapping[str, Any] | None = None,
    group_size: int | None = None,
    device: str = "auto",
    dtype: str = "float32",
    progress: bool = False,
) -> Results:
    """Fit every configuration on every split with every seed, and return all records.

    Parameters
    ----------
    grid
        Parameters of ``MixtureVAEClassifier`` by name: a list of values, one value, or (for a
        random search) a ``Range``. Several grids in a list are tried one after another.
    X, y
        Vectors and the author of each.
    splits
        Splits of ``whowrote.corpus.splits.folds``, or several under (fold, share) as ``shares_of`` gives
        them. Vectors are standardised by the training rows of each split.
    out
        Folder of the records. A fit whose record is there is not fitted again.
    seeds
        Every configuration is fitted once with each.
    watch
        ``"log-loss"`` or ``"error"`` of the development rows stops each fit.
    search
        None tries the whole grid; ``RandomSearch`` some of it; ``Halving`` all of it briefly and
        the best for longer.
    plan
        Settings of ``whowrote.training.Plan`` that no parameter sets, such as ``final_rate``.
    group_size
        The largest number of fits that train at once; None chooses.
    device
        ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"mps"``.
    dtype
        ``"float32"`` or ``"float64"``.
    progress
        Show a bar on a terminal.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import make_blobs
    >>> from whowrote.corpus.splits import folds
    >>> X, y = make_blobs(120, centers=3, n_features=4, random_state=0)
    >>> grid = {"latent_dim": [1, 3], "max_epochs": 4, "hidden": 8}
    >>> results = sweep(grid, X, y, folds(y, n_folds=2), out=tempfile.mkdtemp())
    >>> len(results), [choice.key["component"] for choice in results.best()]
    (4, ['student-t'])

    """
    checks.one_of("watch", watch, ("log-loss", "error"))
    checks.one_of("dtype", dtype, ("float32", "float64"))
    if group_size is not None:
        checks.at_least("group_size", group_size, 1, integer=True)
    data = checked_data(X, y)
    tried = configurations(grid, data.X.shape[1], search)
    study = Study(
        data,
        checked_parts(splits, data),
        _checked_seeds(seeds),
        {**_checked_plan(plan), "watch": watch, "dtype": dtype},
        _checked_folder(out),
        group_size,
        checks.device_named(device),
    )
    rungs = search.sizes(len(tried)) if isinstance(search, Halving) else [len(tried)]
    total = sum(rungs) * len(study.parts) * len(study.seeds)
    with fit_bar(total, progress) as show:
        runner = Runner(study, total, show)
        if isinstance(search, Halving):
            return Results(tuple(_halving(runner, tried, search)))
        return Results(tuple(runner.run(tried)))


def _checked_seeds(seeds: Sequence[int]) -> tuple[int, ...]:
    for seed in seeds:
        checks.at_least("a seed", seed, 0, integer=True)
    if not seeds or len(set(seeds)) < len(seeds):
        raise InputError(f"seeds is {seeds!r}; it must be one or more different numbers")
    return tuple(int(seed) for seed in seeds)


def _checked_plan(plan: Mapping[str, Any] | None) -> dict[str, Any]:
    """Every setting of a plan that is no parameter, with the defaults filled in."""
    given = dict(plan or {})
    for name, value in given.items():
        if name not in PROTOCOL or name == "watch":
            choices = sorted(set(PROTOCOL) - {"watch"})
            raise InputError(
                f"plan has {name!r}; it may have {', '.join(choices)}{did_you_mean(name, choices)}"
            )
        if type(value) is not type(PROTOCOL[name]):
            raise InputError(
                f"{name} in plan is {value!r}; it must be like its default, {PROTOCOL[name]!r}"
            )
    return {**PROTOCOL, **given}


def _checked_folder(out: str | os.PathLike[str]) -> Path:
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"out is '{folder}', a file; give the name of a folder for the records")
    return folder


@dataclass(frozen=True)
class Study:
    """What is fixed for a whole sweep."""

    data: Dataset
    parts: tuple[Part, ...]
    seeds: tuple[int, ...]
    protocol: dict[str, Any]
    out: Path
    group_size: int | None
    device: torch.device

    def tasks(self, tried: Iterable[Configuration]) -> list[Task]:
        """Every configuration on every split with every seed."""
        return [
            Task(Fit(one, self.protocol, part.hash, self.data.hash, seed), part)
            for one in tried
            for part in self.parts
            for seed in self.seeds
        ]

    def groups(self, tasks: Iterable[Task]) -> list[Group]:
        """The tasks as fleets."""
        return grouped(tasks, self.data, self.device, self.group_size)


class Runner:
    """Works through tasks and says how far it is."""

    def __init__(self, study: Study, total: int, show: Report | None) -> None:
        self.study, self.show = study, show
        self.stage = Stage(study.data, study.device, getattr(torch, study.protocol["dtype"]))
        self.tally = Tally(total=total)

    def run(self, tried: Iterable[Configuration]) -> list[Record]:
        """All records of the configurations, read where they exist and made where not."""
        tasks = {task.fit.name: task for task in self.study.tasks(tried)}
        found = {name: self._found(name, task.part) for name, task in tasks.items()}
        missing = [tasks[name] for name, record in found.items() if record is None]
        known = len(tasks) - len(missing)
        self._report(done=self.tally.done + known, found=self.tally.found + known)
        groups = self.study.groups(missing)
        for number, group in enumerate(groups, 1):
            for record in fit_group(group, self.stage, self._epochs(number, len(groups))):
                write(self.study.out, record)
                found[record.name] = record
            self._report(done=self.tally.done + len(group.tasks))
        return [record for record in found.values() if record is not None]

    def _found(self, name: str, part: Part) -> Record | None:
        """The record on disk, under the label that this sweep has for its split."""
        record = find(self.study.out, name)
        return record and replace(record, fold=part.fold, share=part.share)

    def _report(self, **changes: Any) -> None:
        self.tally = replace(self.tally, **changes)
        if self.show is not None:
            self.show(self.tally)

    def _epochs(self, number: int, of: int) -> Callable[[Epoch], None] | None:
        if self.show is None:
            return None

        def show(epoch: Epoch) -> None:
            note = f"group {number}/{of}, epoch {epoch.epoch}"
            if note != self.tally.note:
                self._report(note=note)

        return show


def _halving(runner: Runner, tried: Sequence[Configuration], search: Halving) -> list[Record]:
    """Run rung after rung, each with the best of the one before."""
    records: dict[str, Record] = {}
    survivors = list(tried)
    for rung, size in enumerate(search.sizes(len(tried))):
        short = [search.at(rung, one) for one in survivors[:size]]
        found = runner.run(short)
        records |= {record.name: record for record in found}
        standings = _standings(found)
        ranked = sorted(
            zip(short, survivors, strict=False), key=lambda pair: standings[canonical(pair[0])]
        )
        survivors = [full for one, full in ranked if standings[canonical(one)].sound]
    return list(records.values())


def _standings(records: Iterable[Record]) -> dict[str, Standing]:
    groups: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        groups[canonical(record.configuration)].append(record)
    return {name: standing(group) for name, group in groups.items()}


# DOC """A sweep as a TOML file: data, splits, grid, fixed settings, search.
# DOC
# DOC .. code-block:: toml
# DOC
# DOC     [data]
# DOC     vectors = "vectors.npz"         # X and y; or .parquet
# DOC     [splits]
# DOC     folds = 5
# DOC     shares = [0.2, 1.0]
# DOC     [grid]
# DOC     latent_dim = [20, 50]
# DOC     [fit]
# DOC     max_epochs = 40
# DOC     seeds = [0, 1]
# DOC     [search]
# DOC     kind = "random"
# DOC     n = 20
# DOC
# DOC Paths are relative to the file.
# DOC """

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
