"""The sweep itself: expand, skip what is done, train the rest group by group, file the records.

    sweep = records of (configurations x splits x seeds), minus those on disk, by groups

Nothing is kept but records: a sweep that is killed loses the group in flight, and one that is
started again goes on where it was.
"""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import torch

from whowrote import checks
from whowrote.corpus.splits import folds
from whowrote.distributed import AHEAD, HERE, Here, Machines
from whowrote.errors import InputError
from whowrote.files import canonical_json
from whowrote.progress import Tally, fit_bar
from whowrote.schema import check_names, checked, from_table, read_toml, section
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
    check_name,
    configurations,
)
from whowrote.sweep.groups import PROTOCOL, Group, Task, fit_group, grouped
from whowrote.sweep.records import Candidate, Fit, Record, find, write
from whowrote.sweep.results import Rank, Results, rank
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
    machines: Machines = HERE,
) -> Results:
    """Fit every configuration on every split with every seed, and return all records.

    ``grid`` maps parameters of ``MixtureVAEClassifier`` to a list of values, one value or (for a
    random search) a ``Range``; several grids in a list are tried one after another. ``splits`` are
    those of ``whowrote.corpus.splits.folds``, or several under (fold, share) as ``shares_of`` gives
    them; vectors are standardised by the training rows of each. ``out`` is the folder of the
    records: a fit whose record is there is not fitted again.

    ``watch`` is what stops each fit early, the ``"log-loss"`` or ``"error"`` of its development
    rows. ``search`` may be ``RandomSearch``, which tries some of the grid, or ``Halving``, which
    tries all of it briefly and the best for longer. ``plan`` has settings of
    ``whowrote.training.Plan`` that no parameter sets, such as ``final_rate``. ``group_size``
    is the largest number of fits that train at once; None chooses. ``device`` is ``"auto"``,
    ``"cpu"``, ``"cuda"`` or ``"mps"``; ``dtype`` is ``"float32"`` or ``"float64"``. ``progress``
    shows a bar on a terminal. ``machines`` fit the groups, this process or a cluster
    (:func:`whowrote.distributed.machines_of`); the records are the same and all filed here.

    >>> import tempfile
    >>> from sklearn.datasets import make_blobs
    >>> from whowrote.corpus.splits import folds
    >>> X, y = make_blobs(120, centers=3, n_features=4, random_state=0)
    >>> grid = {"latent_dim": [1, 3], "max_epochs": 4, "hidden": 8}
    >>> results = sweep(grid, X, y, folds(y, n_folds=2), out=tempfile.mkdtemp())
    >>> len(results), [choice.key["component"] for choice in results.best()]
    (4, ['student-t'])
    """
    data = checked_data(X, y)
    tried = configurations(grid, data.X.shape[1], search)
    protocol = _checked_protocol(plan, watch, dtype)
    if group_size is not None:
        checks.at_least("group_size", group_size, 1, integer=True)
    parts, numbers, folder = (
        checked_parts(splits, data),
        _checked_seeds(seeds),
        _checked_folder(out),
    )
    where = _device_of(machines, device)
    study = Study(data, parts, numbers, protocol, folder, group_size, where, machines)
    return Results(tuple(_run(study, tried, search, progress)))


def _device_of(machines: Machines, device: str) -> torch.device:
    """Where groups train; what other machines have is not for this one to look up."""
    if isinstance(machines, Here):
        return checks.choose_device(device)
    return torch.device("cuda" if machines.gpus else "cpu")


def _run(
    study: Study, tried: Sequence[Configuration], search: Search | None, progress: bool
) -> list[Record]:
    rungs = search.sizes(len(tried)) if isinstance(search, Halving) else [len(tried)]
    total = sum(rungs) * len(study.parts) * len(study.seeds)
    with fit_bar(total, progress) as show:
        runner = Runner(study, total, show)
        if isinstance(search, Halving):
            return _halving(runner, tried, search)
        return runner.run(tried)


def _checked_seeds(seeds: Sequence[int]) -> tuple[int, ...]:
    for seed in seeds:
        checks.at_least("a seed", seed, 0, integer=True)
    if not seeds or len(set(seeds)) < len(seeds):
        raise InputError(f"seeds is {seeds!r}; it must be one or more different numbers")
    return tuple(int(seed) for seed in seeds)


def _checked_protocol(plan: Mapping[str, Any] | None, watch: str, dtype: str) -> dict[str, Any]:
    """Every setting of a plan that is no parameter, with the defaults filled in, and the dtype."""
    checks.one_of("watch", watch, ("log-loss", "error"))
    checks.one_of("dtype", dtype, ("float32", "float64"))
    given = dict(plan or {})
    check_names(given, sorted(set(PROTOCOL) - {"watch"}), "plan")
    for name, value in given.items():
        if type(value) is not type(PROTOCOL[name]):
            raise InputError(
                f"{name} in plan is {value!r}; it must be like its default, {PROTOCOL[name]!r}"
            )
    return {**PROTOCOL, **given, "watch": watch, "dtype": dtype}


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
    machines: Machines

    def tasks(self, tried: Iterable[Configuration]) -> list[Task]:
        """Every configuration on every split with every seed."""
        return [
            Task(Fit(one, self.protocol, part.hash, self.data.hash, seed), part)
            for one in tried
            for part in self.parts
            for seed in self.seeds
        ]

    def groups(self, tasks: Iterable[Task]) -> list[Group]:
        """The tasks as fleets; other machines get some for each slot."""
        if isinstance(self.machines, Here):
            return grouped(tasks, self.data, self.device, self.group_size)
        every = list(tasks)
        share = math.ceil(len(every) / (AHEAD * self.machines.slots))
        return grouped(every, self.data, torch.device("cpu"), self.group_size or max(1, share))

    def stage(self) -> Stage:
        """The rows where they are trained on."""
        return Stage(self.data, self.device, getattr(torch, self.protocol["dtype"]))


class Runner:
    """Works through tasks and says how far it is."""

    def __init__(self, study: Study, total: int, show: Report | None) -> None:
        self.study, self.show = study, show
        self.tally = Tally(total=total)

    def run(self, tried: Iterable[Configuration]) -> list[Record]:
        """All records of the configurations, read where they exist and made where not."""
        tasks = {task.fit.name: task for task in self.study.tasks(tried)}
        found = {name: self._found(name, task.part) for name, task in tasks.items()}
        missing = [tasks[name] for name, record in found.items() if record is None]
        known = len(tasks) - len(missing)
        self._report(done=self.tally.done + known, found=self.tally.found + known)
        for records in self._made(self.study.groups(missing)):
            for record in records:
                write(self.study.out, record)
                found[record.name] = record
            self._report(done=self.tally.done + len(records))
        return [record for record in found.values() if record is not None]

    def _made(self, groups: Sequence[Group]) -> Iterator[list[Record]]:
        """The records of each group, as they come."""
        if not groups:
            return
        if isinstance(self.study.machines, Here):
            stage = self.study.stage()
            for number, group in enumerate(groups, 1):
                yield fit_group(group, stage, self._epochs(number, len(groups)))
            return
        bare = replace(self.study, parts=(), machines=HERE)
        for _, records in self.study.machines.map(_fit, bare, groups, Group.work):
            yield records

    def _found(self, name: str, part: Part) -> Record | None:
        """The record on disk, under the label that this sweep has for its split."""
        record = find(self.study.out, name)
        return record and replace(record, **part.labels)

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


def _fit(study: Study, group: Group) -> list[Record]:
    """A group on another machine."""
    return fit_group(group, study.stage())


def _halving(runner: Runner, tried: Sequence[Configuration], search: Halving) -> list[Record]:
    """Run rung after rung, each with the best of the one before."""
    records: dict[str, Record] = {}
    survivors = list(tried)
    for rung, size in enumerate(search.sizes(len(tried))):
        short = [search.at(rung, one) for one in survivors[:size]]
        found = runner.run(short)
        records |= {record.name: record for record in found}
        ranks = _ranks(found)
        pairs = zip(short, survivors, strict=False)
        ranked = sorted(pairs, key=lambda pair: ranks[canonical_json(pair[0])])
        survivors = [full for one, full in ranked if not ranks[canonical_json(one)].diverged]
    return list(records.values())


def _ranks(records: Iterable[Record]) -> dict[str, Rank]:
    groups: dict[str, list[Candidate]] = defaultdict(list)
    for record in records:
        groups[canonical_json(record.configuration)].append(record.candidate())
    return {name: rank(group) for name, group in groups.items()}


# -- a sweep as a file ---------------------------------------------------------------------------

SECTIONS = ("data", "splits", "grid", "fit", "search")


@dataclass(frozen=True)
class Config:
    """What a file asks for.

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
    machines: Machines = HERE,
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
        machines=machines,
        **config.options,
    )


@dataclass(frozen=True)
class _Data:
    """The section [data]."""

    vectors: str = ""
    author: str | None = None
    vector: str | None = None
    group: str | None = None


@dataclass(frozen=True)
class _Splits:
    """The section [splits]."""

    folds: int = 5
    seed: int = 0
    shares: Sequence[float] = (1.0,)
    only: Sequence[int] | None = None

    def __post_init__(self) -> None:
        checks.at_least("seed in [splits]", self.seed, 0, integer=True)


@dataclass(frozen=True)
class _Options:
    """What [fit] may have beside parameters: arguments of the sweep."""

    seeds: Sequence[int] = (0,)
    watch: str = "log-loss"
    plan: Mapping[str, Any] | None = None
    dtype: str = "float32"
    group_size: int | None = None


def read_config(path: str | os.PathLike[str]) -> Config:
    """Read and check a file; whatever is wrong with it is one sentence."""
    path = Path(path)
    if path.suffix.lower() in (".npz", ".parquet"):
        raise InputError(
            f"'{path}' is a table of vectors; a sweep is asked for by a TOML file that names it: "
            f'write [data] and vectors = "{path.name}" into grid.toml, and give that'
        )
    tables = read_toml(path)
    check_names(tables, SECTIONS, "the file")
    columns = checked(_Data, section(tables, "data"), "[data]")
    if "vectors" not in columns:
        raise InputError(f"'{path}' names no vectors; add [data] with vectors = \"vectors.npz\"")
    splits = from_table(_Splits, section(tables, "splits"), "[splits]")
    fixed = section(tables, "fit")
    given = {one.name: fixed.pop(one.name) for one in fields(_Options) if one.name in fixed}
    return Config(
        vectors=path.parent / columns.pop("vectors"),
        grids=_grids(tables.get("grid", {}), fixed),
        columns=columns,
        n_folds=splits.folds,
        seed=splits.seed,
        shares=splits.shares,
        only=splits.only,
        search=_search(section(tables, "search")),
        options=checked(_Options, given, "[fit]"),
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
    check_names(given, ("kind", "n", "seed", "factor", "rungs"), "[search]")
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
