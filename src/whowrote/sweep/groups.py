r"""Groups of fits that train together: one fleet, one record for every member.

    group = fits that share (architecture, plan, steps of an epoch, rows of a step)

Seeds, splits, families, step sizes, floors, penalties, weights and dropout may differ inside a
group. A fit gives the same record in any group, but for the seconds. As many fits make a group as
memory holds:

.. math:: \mathrm{bytes}(M) = a + b M, \qquad
    M_{\max} = \lfloor (0.8\, \mathrm{free} - a) / b \rfloor

On a GPU *a* and *b* are measured by training and evaluating two small fleets for two steps. On a
CPU they are counted from the sizes of the arrays a step holds.
"""

from __future__ import annotations

import functools
import itertools
import math
import os
import platform
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace

import torch

from whowrote import __version__
from whowrote.estimators import MixtureVAEClassifier
from whowrote.files import canonical_json
from whowrote.model import Architecture, Member, MixtureVAE, Rows, Streams
from whowrote.model.distributions import FAMILIES
from whowrote.sweep.data import Dataset, Part, Places, Stage
from whowrote.sweep.grid import PARAMETERS
from whowrote.sweep.records import Divergence, Fit, Record, rounded
from whowrote.training import (
    Assignment,
    DivergenceError,
    DivergenceWarning,
    Epoch,
    Plan,
    initialize,
    train,
    validation_losses,
)
from whowrote.training.loop import EVALUATION_ROWS
from whowrote.training.step import BLOCK

LARGEST_GROUP = 512
"""More members do not train faster together, and a killed sweep loses more of them."""
USABLE = 0.8
PROBES, SMALLEST_PROBES = (4, 12), (1, 3)
"""Members of the fleets that are measured: memory comes in pieces, which few do not fill."""
PROTOCOL = {one.name: one.default for one in fields(Plan) if one.name not in PARAMETERS}
"""The settings of a training plan that are no parameters, with their defaults."""


# -- how many fit --------------------------------------------------------------------------------


def largest_group(
    architecture: Architecture, plan: Plan, device: torch.device, wanted: int = LARGEST_GROUP
) -> int:
    """The number of members to train together, at least one and at most ``wanted``.

    >>> small = Architecture(n_features=4, n_components=2, latent_dim=2, hidden=(3,))
    >>> largest_group(small, Plan(), torch.device("cpu"))
    512
    """
    wanted = min(wanted, LARGEST_GROUP)
    each = counted_bytes(architecture, plan)
    if device.type == "cuda":
        room = USABLE * torch.cuda.mem_get_info(device)[0]
        if 2 * wanted * each < room:  # no need to measure what fits twice
            return wanted
        few, more = PROBES if 2 * PROBES[1] * each < room else SMALLEST_PROBES
        lower, upper = (_measured(architecture, plan, m, device) for m in (few, more))
        each = max(1, (upper - lower) // (more - few))
        room = USABLE * torch.cuda.mem_get_info(device)[0] - max(0, lower - few * each)
    else:
        room = USABLE * _free_memory()
    return max(1, min(wanted, int(room // each)))


def counted_bytes(architecture: Architecture, plan: Plan) -> int:
    """Bytes a member holds at its worst moment, in single precision.

    Parameters live seven times (value, gradient, two moments, average, best state, scratch); a row
    lives in the whitened latents of every component four times and in every layer about twelve.
    """
    a = architecture
    fleet = MixtureVAE(replace(a, n_components=1), [Member()])
    networks = sum(p.numel() for net in (fleet.encoder, fleet.decoder) for p in net.parameters())
    mixture = a.n_components * (a.latent_dim**2 + a.latent_dim + 2)
    layers = a.encoder_width + a.n_features + 2 * (sum(a.hidden) + a.latent_dim)
    step_rows, evaluated_rows = plan.batch_size * a.n_samples, EVALUATION_ROWS
    whitened = a.n_components * a.latent_dim
    activations = max(step_rows, evaluated_rows) * (4 * whitened + 12 * layers)
    noise = BLOCK * step_rows * layers
    return 4 * (7 * (networks + mixture) + activations + noise)


def _measured(architecture: Architecture, plan: Plan, m: int, device: torch.device) -> int:
    """Peak bytes of two steps and an evaluation of ``m`` members on made-up rows."""
    n = 2 * plan.batch_size + EVALUATION_ROWS
    shape = replace(architecture, n_inputs=None)
    targets = torch.randn(n, shape.n_features, device=device, generator=_seeded(device))
    rows = Rows(targets, torch.arange(n, device=device) % shape.n_components)
    worst = Member(l1=0.1, label_weight=1.0, input_dropout=0.1, hidden_dropout=0.1)
    members = [replace(worst, seed=i) for i in range(m)]
    fleet = MixtureVAE(shape, members).to(device)
    index = torch.arange(n, device=device)
    assignment = Assignment((index[EVALUATION_ROWS:],) * m, (index[:EVALUATION_ROWS],) * m)
    torch.cuda.synchronize(device)
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved(device)
    torch.cuda.reset_peak_memory_stats(device)
    train(fleet, rows, assignment, replace(plan, max_epochs=2), Streams(range(m), device))
    return torch.cuda.max_memory_reserved(device) - before


def _seeded(device: torch.device) -> torch.Generator:
    return torch.Generator(device).manual_seed(0)


def _free_memory() -> int:
    """Bytes the machine can still give; a guess of 4 GB where the system does not say."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 4 << 30


# -- fits that share a fleet ---------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """A fit with the split that it is to be made on."""

    fit: Fit
    part: Part

    @property
    def member(self) -> Member:
        """What the fit has for itself in a fleet."""
        return self._estimator._members([self.fit.seed])[0]

    @property
    def _estimator(self) -> MixtureVAEClassifier:
        return MixtureVAEClassifier(start="random", **self.fit.configuration)


@dataclass(frozen=True)
class Shared:
    """What the members of a group must have in common."""

    architecture: Architecture
    plan: Plan
    steps: int
    batch_rows: int

    @classmethod
    def of(cls, task: Task, data: Dataset) -> Shared:
        """What a task needs the other members to have."""
        settings, n = task.fit.configuration, len(task.part.split.train)
        plan = task._estimator._plan(n, settings["max_epochs"], task.fit.protocol["watch"])
        plan = replace(plan, **{name: task.fit.protocol[name] for name in PROTOCOL})
        architecture = Architecture(
            n_features=data.X.shape[1],
            n_components=len(data.classes),
            latent_dim=settings["latent_dim"],
            hidden=tuple(settings["hidden"]),
            activation=settings["activation"],
            n_samples=settings["n_samples"],
            objective=settings["objective"],
        )
        batch_rows = min(plan.batch_size, n)
        return cls(architecture, plan, n // batch_rows, batch_rows)

    def order(self) -> tuple[int, int, str]:
        """Large models first: what does not fit into memory shows at once."""
        size = self.architecture.latent_dim, sum(self.architecture.hidden)
        return -size[0], -size[1], canonical_json(asdict(self))


@dataclass(frozen=True)
class Group:
    """Tasks that train as one fleet."""

    shared: Shared
    tasks: tuple[Task, ...]

    def work(self) -> float:
        """About how long it takes beside others: members, bytes of each, steps, epochs."""
        plan = self.shared.plan
        each = counted_bytes(self.shared.architecture, plan)
        return float(len(self.tasks) * each * self.shared.steps * plan.max_epochs)


def grouped(
    every: Iterable[Task], data: Dataset, device: torch.device, group_size: int | None
) -> list[Group]:
    """Cut tasks into groups of about equal size, none above the largest; the order is fixed."""
    alike: dict[Shared, list[Task]] = defaultdict(list)
    for task in every:
        alike[Shared.of(task, data)].append(task)
    # Measured once for all that differ in nothing but the number of their steps.
    largest = functools.cache(functools.partial(largest_group, device=device))
    groups = []
    for shared in sorted(alike, key=Shared.order):
        # Members with one step size lie side by side: the optimizer moves them in one go.
        tasks = sorted(alike[shared], key=lambda task: task.fit.configuration["learning_rate"])
        limit = group_size or _halved(
            largest(shared.architecture, shared.plan, wanted=len(tasks)), tasks
        )
        groups += [Group(shared, part) for part in _cut(tasks, limit)]
    return groups


def _halved(limit: int, tasks: Sequence[Task]) -> int:
    """Memory is measured in single precision; in double precision half as many fit."""
    double = tasks[0].fit.protocol["dtype"] == "float64"
    return max(1, limit // 2) if double else limit


def _cut(tasks: Sequence[Task], limit: int) -> list[tuple[Task, ...]]:
    n = math.ceil(len(tasks) / limit)
    edges = [round(place * len(tasks) / n) for place in range(n + 1)]
    return [tuple(tasks[low:high]) for low, high in itertools.pairwise(edges)]


# -- training a group ----------------------------------------------------------------------------


@dataclass(frozen=True)
class MemberHistory:
    """How the training of one member went."""

    epochs: list[Epoch]
    usable: bool
    """Whether there ever was a finite state."""
    left_range: bool
    """Whether the last epoch left the finite range."""

    @property
    def best_epoch(self) -> int | None:
        """The epoch whose state was kept: the first with the lowest watched value."""
        if not self.usable:
            return None
        sound = self.epochs[:-1] if self.left_range else self.epochs
        return min(sound, key=lambda e: math.inf if e.watched is None else e.watched).epoch

    @property
    def diverged(self) -> Divergence | None:
        """How the last epoch left the finite range, if it did.

        Read from the epoch itself: it says the same whether or not other members went on.
        """
        if not self.left_range:
            return None
        last = self.epochs[-1]
        seen = {**last.terms, "validation": last.watched or 0.0}
        broken = [name for name, value in seen.items() if not math.isfinite(value)]
        return Divergence(last.epoch, broken[0] if broken else "state")


@dataclass(frozen=True)
class Score:
    """Error and log-loss of a member on some of its rows; None where there is no such thing."""

    error: float | None = None
    log_loss: float | None = None


@dataclass(frozen=True)
class Trained:
    """A fleet after its training, the rows it read, and how each member got there."""

    fleet: MixtureVAE
    rows: Rows
    places: list[Places]
    histories: list[MemberHistory]


def fit_group(
    group: Group, stage: Stage, on_epoch: Callable[[Epoch], None] | None = None
) -> list[Record]:
    """Train a group and score its members; a member that diverges is a record like any other."""
    began = time.perf_counter()
    made = train_group(group, stage, on_epoch)
    fleet, rows = made.fleet, made.rows
    development = _scores(fleet, rows, [place.development for place in made.places])
    test = _scores(fleet, rows, [place.test for place in made.places])
    seconds = time.perf_counter() - began
    records = map(
        _record, group.tasks, made.histories, development, test, _degrees_of_freedom(fleet)
    )
    return _with_context(list(records), seconds, versions(stage.device))


def train_group(
    group: Group, stage: Stage, on_epoch: Callable[[Epoch], None] | None = None
) -> Trained:
    """Train a group as one fleet."""
    parts = {task.part.hash: task.part for task in group.tasks}
    staged = stage.staged([parts[key] for key in sorted(parts)])
    rows, places = staged.rows, [staged.places[task.part.hash] for task in group.tasks]
    members = [task.member for task in group.tasks]
    with stage.device:
        fleet = MixtureVAE(group.shared.architecture, members, stage.dtype)
    return Trained(fleet, rows, places, _train(group, fleet, rows, places, on_epoch))


def _train(
    group: Group,
    fleet: MixtureVAE,
    rows: Rows,
    places: Sequence[Places],
    on_epoch: Callable[[Epoch], None] | None,
) -> list[MemberHistory]:
    """Train in place, and return what every member did."""
    seeds = [task.fit.seed for task in group.tasks]
    assignment = Assignment(
        tuple(place.training_order(seed) for place, seed in zip(places, seeds, strict=True)),
        tuple(place.development for place in places),
    )
    _initialize(fleet, rows, assignment)
    history: list[list[Epoch]] = [[] for _ in seeds]

    def note(epoch: Epoch) -> None:
        history[epoch.member].append(epoch)
        if on_epoch is not None:
            on_epoch(epoch)

    streams = Streams(seeds, rows.targets.device, rows.targets.dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergenceWarning)  # it is in the records
        try:
            outcome = train(fleet, rows, assignment, group.shared.plan, streams, on_epoch=note)
        except DivergenceError:
            return [MemberHistory(epochs, usable=False, left_range=True) for epochs in history]
    diverged = {divergence.member for divergence in outcome.diverged}
    return [
        MemberHistory(epochs, math.isfinite(outcome.best[i]), i in diverged)
        for i, epochs in enumerate(history)
    ]


def _initialize(fleet: MixtureVAE, rows: Rows, assignment: Assignment) -> None:
    """Initialise members with training sets of one size at a time.

    Components are placed by as many rows as the smallest training set has: among members of other
    sizes a member would start elsewhere than alone.
    """
    sizes = defaultdict(list)
    for place, index in enumerate(assignment.train):
        sizes[len(index)].append(place)
    for members in sizes.values():
        alike = fleet.select(members)
        initialize(alike, rows, assignment.select(members))
        with torch.no_grad():
            for ours, theirs in zip(fleet.parameters(), alike.parameters(), strict=True):
                ours[members] = theirs


def _scores(fleet: MixtureVAE, rows: Rows, index: Sequence[torch.Tensor]) -> list[Score]:
    with fleet.mixture.factored():
        errors, losses = (validation_losses(fleet, rows, index, w) for w in ("error", "log-loss"))
    return [Score(error, _finite(loss)) for error, loss in zip(errors, losses, strict=True)]


def _finite(value: float | None) -> float | None:
    """JSON has no infinity."""
    return value if value is not None and math.isfinite(value) else None


def _degrees_of_freedom(fleet: MixtureVAE) -> list[list[float] | None]:
    df = fleet.mixture.df.detach().cpu().tolist()
    return [
        rounded(own) if FAMILIES[m.component].learns_df else None
        for own, m in zip(df, fleet.members, strict=True)
    ]


def _record(
    task: Task, history: MemberHistory, development: Score, test: Score, df: list[float] | None
) -> Record:
    """The record of one member; without a usable state, nothing about that state."""
    if not history.usable:
        development, test, df = Score(), Score(), None
    return Record(
        **vars(task.fit),
        **task.part.labels,
        development_error=development.error,
        development_log_loss=development.log_loss,
        test_error=test.error,
        test_log_loss=test.log_loss,
        df=df,
        epochs=len(history.epochs),
        best_epoch=history.best_epoch,
        seconds=0.0,
        diverged=history.diverged,
        versions={},
    )


def _with_context(
    records: Sequence[Record], seconds: float, versions: dict[str, str]
) -> list[Record]:
    """Each record with its part of the group's time, by epochs, and what computed it."""
    per_epoch = seconds / sum(record.epochs for record in records)
    return [
        replace(record, seconds=round(per_epoch * record.epochs, 4), versions=versions)
        for record in records
    ]


def versions(device: torch.device) -> dict[str, str]:
    """What a fit is computed with."""
    named = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    return {
        "whowrote": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "device": f"{device.type}: {named}",
    }
