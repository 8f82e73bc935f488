"""The sweep itself: expand, skip what is done, train the rest group by group, file the records.

    sweep = records of (configurations x splits x seeds), minus those on disk, by groups

Nothing is kept but records: a sweep that is killed loses the group in flight, and one that is
started again goes on where it was.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from whowrote.errors import InputError
from whowrote.estimators import checks
from whowrote.progress import Tally, fit_bar
from whowrote.sweep.grid import (
    Configuration,
    Grid,
    Halving,
    Search,
    canonical,
    configurations,
    did_you_mean,
)
from whowrote.sweep.groups import PROTOCOL, Group, Task, fit_group, grouped
from whowrote.sweep.records import Fit, Record, find, write
from whowrote.sweep.results import Results, Standing, standing
from whowrote.sweep.staging import (
    Dataset,
    Part,
    Splits,
    Stage,
    checked_data,
    checked_parts,
)
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
        Splits of ``whowrote.splits.folds``, or several under (fold, share) as ``shares_of`` gives
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
    >>> from whowrote.splits import folds
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
