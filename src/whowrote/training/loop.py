r"""One plain training loop for a whole fleet.

.. math:: \theta_m \leftarrow \theta_m - \eta_m(t)\, \mathrm{Adam}\!\left(
    g_m \min(1, c / \lVert g_m \rVert)\right), \qquad g_m = \nabla_{\theta_m} \mathrm{loss}_m

Each member has its own rows, gradient norm, Adam state, step size, early stop and best state; what
one does never touches another. A member that finishes or diverges leaves the fleet, so that no
work is spent on it. The loop appends records; drawing them is someone else's job.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise

import torch
from torch import Tensor

from whowrote.errors import InputError
from whowrote.model import BoundTerms, MixtureVAE, Rows, Streams, place_components
from whowrote.model.fast.devices import products
from whowrote.model.fast.precision import Precision
from whowrote.model.initialize import initialize_networks
from whowrote.model.streams import Unison
from whowrote.training.members import Divergence as Divergence
from whowrote.training.members import DivergenceError as DivergenceError
from whowrote.training.members import DivergenceWarning as DivergenceWarning
from whowrote.training.members import Epoch as Epoch
from whowrote.training.members import Ledger as Ledger
from whowrote.training.members import Outcome as Outcome
from whowrote.training.optimizer import FleetAdam, MovingAverage
from whowrote.training.step import BLOCK, GraphedStep, Step

EVALUATION_ROWS = 2048
CACHED_ROWS = 256
"""On a processor: more rows at once would be written to fresh memory instead of the cache."""
PLACEMENT_ROWS = 4096


@dataclass(frozen=True)
class Plan:
    """How long and how carefully to train: what the whole fleet shares.

    ``watch`` names what early stopping looks at on the validation rows: ``"log-loss"`` and
    ``"error"`` of the known authors, or ``"bound"``. The scale matrices move in every
    ``scale_every``-th step of an epoch; in between they stand still, and what is known of them
    stays exact. ``precision`` is that of products on a graphics processor, as torch names it:
    "highest" is exact, "high" shortens the factors of networks and distances to TF32, and "medium"
    also those of the gradients of scale matrices, to bfloat16, where the joint score is all that is
    maximised. Factorisations are always exact.
    """

    max_epochs: int = 60
    batch_size: int = 256
    clip_norm: float = 1.0
    patience: int = 10
    final_rate: float = 0.05
    average: float = 0.99
    watch: str = "log-loss"
    scale_every: int = 1
    precision: str = "medium"


@dataclass(frozen=True)
class Assignment:
    """Which rows each member learns from, and on which it is watched (none: no early stop)."""

    train: tuple[Tensor, ...]
    validation: tuple[Tensor, ...]

    def select(self, keep: Sequence[int]) -> Assignment:
        """The assignment of some members."""
        return Assignment(
            tuple(self.train[i] for i in keep), tuple(self.validation[i] for i in keep)
        )

    def with_rows(self, more: Tensor) -> Assignment:
        """Every member also learns from ``more``; what it is watched on stays."""
        return Assignment(tuple(torch.cat([own, more]) for own in self.train), self.validation)

    def shuffled(self, streams: Streams) -> Tensor:
        """Every member's training rows in its own random order, as long as the shortest."""
        lengths = [len(rows) for rows in self.train]
        padded = torch.nn.utils.rnn.pad_sequence(list(self.train), batch_first=True)
        keys = torch.full(padded.shape, torch.inf, device=padded.device)
        for row, length, generator in zip(keys, lengths, streams.generators, strict=True):
            row[:length].uniform_(generator=generator)
        order = keys.argsort(dim=1, stable=True)[:, : min(lengths)]
        return padded.gather(1, order)

    def steps(self, batch_size: int) -> tuple[int, int]:
        """Steps of an epoch and rows of a step; members must agree so that none waits."""
        sizes = {len(rows) for rows in self.train}
        rows = min(batch_size, *sizes, batch_size)
        steps = {size // rows for size in sizes}
        if len(steps) > 1:
            raise InputError(
                f"members of one fleet have training sets of {sorted(sizes)} rows, which make "
                f"{sorted(steps)} batches of {rows}; put them in separate fleets"
            )
        return steps.pop(), rows


@dataclass(frozen=True)
class Crew:
    """The members still in training, with all that is theirs: who leaves takes it along."""

    fleet: MixtureVAE
    assignment: Assignment
    streams: Streams
    optimizer: FleetAdam
    average: MovingAverage

    @classmethod
    def muster(
        cls, fleet: MixtureVAE, assignment: Assignment, streams: Streams, plan: Plan
    ) -> Crew:
        """Everyone at the start, with a fresh optimizer."""
        rates = [member.learning_rate for member in fleet.members]
        factors = {"mixture.raw_df": [member.df_rate for member in fleet.members]}
        optimizer = FleetAdam(fleet, rates, factors, triangular=("mixture.factor",))
        return cls(fleet, assignment, streams, optimizer, MovingAverage(fleet, plan.average))

    def select(self, keep: Sequence[int], fleet: MixtureVAE | None = None) -> Crew:
        """Those who stay, in a fleet of their own."""
        fleet = fleet or self.fleet.select(keep)
        return Crew(
            fleet,
            self.assignment.select(keep),
            self.streams.select(keep),
            self.optimizer.select(fleet, keep),
            self.average.select(fleet, keep),
        )


Callback = Callable[[Epoch], None]


def step_for(crew: Crew, rows: Rows, plan: Plan) -> Step:
    """How this crew steps: replayed where the device can, rows of unequal length excepted."""
    steps, _ = crew.assignment.steps(plan.batch_size)
    blocks = -(-steps // BLOCK)
    graphed = rows.targets.device.type == "cuda" and rows.sparse is None
    return (GraphedStep if graphed else Step)(
        crew.fleet,
        rows,
        crew.streams,
        crew.optimizer,
        crew.average,
        plan.clip_norm,
        block=-(-steps // blocks),
    )


def initialize(fleet: MixtureVAE, rows: Rows, assignment: Assignment) -> None:
    """Random networks from each member's seed; components placed by the labels of its rows."""
    initialize_networks(fleet, [member.seed for member in fleet.members])
    n = min(PLACEMENT_ROWS, *(len(index) for index in assignment.train), PLACEMENT_ROWS)
    index = torch.stack([own[:n] for own in assignment.train])
    with torch.no_grad():
        parts = torch.split(index, _at_once(index.device), dim=1)
        means = torch.cat([fleet.encode(rows.take(part).inputs).mean for part in parts], dim=1)
        place_components(fleet.mixture, means, rows.labels[index])


def _at_once(device: torch.device) -> int:
    """How many rows of every member are looked at together."""
    return min(EVALUATION_ROWS, CACHED_ROWS) if device.type == "cpu" else EVALUATION_ROWS


@torch.no_grad()
def watched_values(
    fleet: MixtureVAE,
    rows: Rows,
    index: Sequence[Tensor],
    watch: str,
    precision: Precision | None = None,
) -> list[float | None]:
    """Each member's loss on its validation rows, smaller is better; none without rows.

    ``precision`` is that of the present scale matrices where it is already known.
    """
    precision = precision or fleet.mixture.precision()
    longest = max(len(part) for part in index)
    noise = _validation_noise(fleet, rows, index, longest) if watch == "bound" else None
    padded = torch.nn.utils.rnn.pad_sequence(list(index), batch_first=True)
    lengths = torch.tensor([len(part) for part in index], device=padded.device)
    total = torch.zeros(len(fleet), device=padded.device, dtype=torch.float64)
    size = _at_once(padded.device)
    for low in range(0, longest, size):
        part = padded[:, low : low + size]
        inside = torch.arange(low, low + part.shape[1], device=padded.device) < lengths[:, None]
        own = None if noise is None else noise[:, :, low : low + size].flatten(1, 2)
        losses = _row_losses(fleet, rows, part, watch, own, precision)
        total += torch.where(inside, losses, 0.0).sum(1)
    means = (total / lengths).tolist()
    return [float(mean) if len(part) else None for mean, part in zip(means, index, strict=True)]


def _validation_noise(
    fleet: MixtureVAE, rows: Rows, index: Sequence[Tensor], longest: int
) -> Tensor:
    """(m, t, longest, d), each member's drawn for its own number of rows and padded."""
    t, d = fleet.architecture.n_samples, fleet.architecture.latent_dim
    like = rows.targets
    drawn = [Streams([0], like.device, like.dtype).normal(t, len(part), d)[0] for part in index]
    pad = torch.nn.functional.pad
    return torch.stack([pad(z, (0, 0, 0, longest - z.shape[1])) for z in drawn])


def _row_losses(
    fleet: MixtureVAE,
    rows: Rows,
    index: Tensor,
    watch: str,
    noise: Tensor | None,
    precision: Precision,
) -> Tensor:
    batch = rows.take(index)
    if noise is not None:
        return -fleet.bound(fleet.encode(batch.inputs), batch.targets, noise, precision)
    log_gamma = fleet.scores(batch.inputs, precision).log_responsibilities
    if watch == "error":
        return (log_gamma.argmax(-1) != batch.labels).to(log_gamma)
    return -log_gamma.gather(-1, batch.labels.unsqueeze(-1)).squeeze(-1)


def train(
    fleet: MixtureVAE,
    rows: Rows,
    assignment: Assignment,
    plan: Plan,
    streams: Streams,
    *,
    phase: str = "fit",
    trained: bool = False,
    on_epoch: Callback | None = None,
) -> Outcome:
    """Train every member to its own early stop; the outcome holds each one's best state.

    ``trained`` says that the fleet comes from an earlier phase: then the state it comes with is
    good, and is kept where this phase finds no better one on the validation rows.
    """
    with products(plan.precision, rows.targets.device):
        before = watched_values(fleet, rows, assignment.validation, plan.watch) if trained else None
    ledger = Ledger(fleet, plan.patience, before)
    crew = Crew.muster(fleet, assignment, streams, plan)
    course = Course(rows, plan, phase, on_epoch or _ignore)
    watches = _watches(len(fleet), rows.targets.device)
    if len(watches) == 1:
        course.run(crew, ledger)
    else:
        _side_by_side(course, crew, ledger, watches)
    history = sorted(course.history, key=lambda record: (record.epoch, record.member))
    return ledger.close(Outcome(fleet, history))


def _ignore(record: Epoch) -> None:
    """Nobody looks."""


@dataclass
class Course:
    """The loop over epochs: what it reads, how it reports, and what it has recorded."""

    rows: Rows
    plan: Plan
    phase: str
    on_epoch: Callback
    history: list[Epoch] = field(default_factory=list)
    halted: threading.Event = field(default_factory=threading.Event)

    def run(self, crew: Crew, ledger: Ledger) -> None:
        """Train a crew until everyone has left, or someone calls a halt."""
        rows, plan = self.rows, self.plan
        step = step_for(crew, rows, plan)
        for epoch in range(1, plan.max_epochs + 1):
            began = time.perf_counter()
            decay = cosine(plan, epoch)
            terms = run_epoch(crew, rows, plan, decay, step)
            with crew.average.applied():
                watched, state = judged(crew, rows, plan)
                ledger.update(crew.fleet, epoch, terms, watched, state)
            seconds = time.perf_counter() - began
            rates = crew.optimizer.rates(decay)
            for record in ledger.records(self.phase, epoch, terms, watched, rates, seconds):
                self.history.append(record)
                self.on_epoch(record)
            keep = ledger.leave()
            if not keep or self.halted.is_set():
                return
            if len(keep) < len(crew.fleet):
                crew, former = crew.select(keep), step
                step = step_for(crew, rows, plan)
                step.succeed(former)
                del former  # and with it the memory of those who left


def _watches(n_members: int, device: torch.device) -> list[list[int]]:
    """Members who train in one thread: on a processor, as many watches as it may use threads.

    A thread that works through its own members waits for no other; threads that share every small
    product do little else.
    """
    n = min(n_members, torch.get_num_threads()) if device.type == "cpu" else 1
    edges = [round(i * n_members / n) for i in range(n + 1)]
    return [list(range(low, high)) for low, high in pairwise(edges)]


def _side_by_side(course: Course, crew: Crew, ledger: Ledger, watches: list[list[int]]) -> None:
    """Run every watch in its own thread, each on one core; an exception in one halts all."""
    n_threads = torch.get_num_threads()
    parts = [ledger.part(crew.fleet.select(watch), watch) for watch in watches]

    def sail(watch: list[int], part: Ledger) -> None:
        torch.set_num_threads(1)
        try:
            course.run(crew.select(watch, part.fleet), part)
        except BaseException:
            course.halted.set()
            raise

    try:
        with ThreadPoolExecutor(len(watches)) as pool:
            waiting = [pool.submit(sail, *pair) for pair in zip(watches, parts, strict=True)]
            try:
                for future in waiting:
                    future.result()
            except BaseException:  # an interrupt as well: no thread may go on unseen
                course.halted.set()
                raise
    finally:
        torch.set_num_threads(n_threads)
    for part in parts:
        ledger.absorb(part)


def cosine(plan: Plan, epoch: int) -> float:
    """Half a cosine from 1 in the first epoch to ``final_rate`` in the last."""
    progress = (epoch - 1) / max(1, plan.max_epochs - 1)
    return plan.final_rate + (1 - plan.final_rate) * (1 + math.cos(math.pi * progress)) / 2


def run_epoch(crew: Crew, rows: Rows, plan: Plan, decay: float, step: Step | None = None) -> Tensor:
    """One pass of every member over its own rows, in its own order; mean terms (m, 5)."""
    step = step or step_for(crew, rows, plan)
    steps, size = crew.assignment.steps(plan.batch_size)
    order = crew.assignment.shuffled(crew.streams)[:, : steps * size]
    batches = order.reshape(-1, steps, size)
    crew.optimizer.set_decay(decay)
    step.begin_epoch(batches)
    with products(plan.precision, rows.targets.device):
        for number, index in enumerate(batches.unbind(1)):
            step(index, moves_scales=number % plan.scale_every == 0)
    return step.total / steps


@torch.no_grad()
def judged(crew: Crew, rows: Rows, plan: Plan) -> tuple[list[float | None], Tensor]:
    """What is watched, and the terms, of the present state; its scale matrices factored once."""
    with products(plan.precision, rows.targets.device):
        known = crew.fleet.mixture.precision()
        watched = watched_values(crew.fleet, rows, crew.assignment.validation, plan.watch, known)
        return watched, state_terms(crew, rows, plan, known)


@torch.no_grad()
def state_terms(crew: Crew, rows: Rows, plan: Plan, precision: Precision | None = None) -> Tensor:
    """Mean terms (m, 5) of the present state: those of an epoch precede its last step."""
    _, size = crew.assignment.steps(plan.batch_size)
    batch = rows.take(torch.stack([index[:size] for index in crew.assignment.train]))
    streams = Unison(0, len(crew.fleet), rows.targets.device, rows.targets.dtype)
    terms: BoundTerms = crew.fleet(batch, streams, training=False, precision=precision)
    return torch.stack(list(terms.means().values()), dim=1)
