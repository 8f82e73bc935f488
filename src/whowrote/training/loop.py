r"""One plain training loop for a whole fleet.

.. math:: \theta_m \leftarrow \theta_m - \eta_m(t)\, \mathrm{Adam}\!\left(
    g_m \min(1, c / \lVert g_m \rVert)\right), \qquad g_m = \nabla_{\theta_m} \mathrm{loss}_m

:func:`train` is the loop over epochs: step through an epoch, validate, stop early. Each member has
its own rows, gradient norm, Adam state, step size, early stop and best state; what one does never
touches another. A member that finishes or diverges leaves the fleet, so that no work is spent on
it. The loop appends records; drawing them is someone else's job.
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

from whowrote import checks
from whowrote.model import (
    BoundTerms,
    MixtureVAE,
    Rows,
    Streams,
    initialize_networks,
    place_components,
)
from whowrote.model.fleet import SharedStream
from whowrote.model.logistic import logistic_start, scores_start
from whowrote.model.precision import products
from whowrote.model.unlabelled import refine_by_all_rows
from whowrote.training.members import Assignment, EarlyStopping, Epoch, Members, Outcome
from whowrote.training.step import BLOCK, GraphedStep, Step

EVALUATION_ROWS = 2048
CACHED_ROWS = 256
"""On a CPU: more rows at once would be written to fresh memory instead of the cache."""
PLACEMENT_ROWS = 4096
REGRESSION_ROWS = 20_000
PRECISIONS = ("highest", "high")

Callback = Callable[[Epoch], None]


@dataclass(frozen=True)
class Plan:
    """How long and how carefully to train: what the whole fleet shares.

    ``watch`` names the loss on the validation rows that early stopping goes by: ``"log-loss"`` and
    ``"error"`` of the known authors, or ``"bound"``. ``precision`` is that of products on a GPU, as
    torch names it: "highest" is exact, "high" shortens the factors of networks and distances to
    TF32. Factorisations are always exact.
    """

    max_epochs: int = 60
    batch_size: int = 256
    clip_norm: float = 1.0
    patience: int = 10
    final_rate: float = 0.05
    average: float = 0.99
    watch: str = "log-loss"
    precision: str = "high"

    def __post_init__(self) -> None:
        checks.one_of("precision", self.precision, PRECISIONS)


def cosine(plan: Plan, epoch: int) -> float:
    """Half a cosine from 1 in the first epoch to ``final_rate`` in the last."""
    progress = (epoch - 1) / max(1, plan.max_epochs - 1)
    return plan.final_rate + (1 - plan.final_rate) * (1 + math.cos(math.pi * progress)) / 2


def initialize(fleet: MixtureVAE, rows: Rows, assignment: Assignment) -> None:
    """Random networks from each member's seed; components placed by the labels of its rows."""
    initialize_networks(fleet.encoder, fleet.decoder, [member.seed for member in fleet.members])
    n = min(PLACEMENT_ROWS, *(len(index) for index in assignment.train), PLACEMENT_ROWS)
    index = torch.stack([own[:n] for own in assignment.train])
    with torch.no_grad():
        parts = torch.split(index, _at_once(index.device), dim=1)
        means = torch.cat([fleet.encode(rows.take(part).inputs).mean for part in parts], dim=1)
        weights = None if rows.weights is None else rows.weights[index]
        place_components(fleet.mixture, means, rows.labels[index].long(), weights)


def initialize_by_regression(fleet: MixtureVAE, rows: Rows, assignment: Assignment) -> None:
    """Networks and components by a logistic regression of each member's own rows."""
    initialize_networks(fleet.encoder, fleet.decoder, [member.seed for member in fleet.members])
    index = _first_rows(assignment)
    weights = None if rows.weights is None else rows.weights[index]
    logistic_start(fleet, rows.take(index), weights)


def initialize_by_scores(
    fleet: MixtureVAE, rows: Rows, assignment: Assignment, unit: float
) -> None:
    """Components where held-out scores of the classes, a column each, put them."""
    initialize_networks(fleet.encoder, fleet.decoder, [member.seed for member in fleet.members])
    scores_start(fleet, rows.take(_first_rows(assignment)), unit)


def refine(fleet: MixtureVAE, rows: Rows, assignment: Assignment, watch: str) -> list[bool]:
    """Fit a component a class to all rows after a regression, for the members that gain by it.

    What is gained is the Brier score of labels that were hidden in turn
    (:func:`~whowrote.model.unlabelled.refine_by_all_rows`) or, where the bound is watched, the
    bound on the validation rows, on the training rows where there are none.
    """
    candidate = fleet.select(range(len(fleet)))
    batch = rows.take(_first_rows(assignment))
    gains = refine_by_all_rows(candidate, batch, widen=watch != "bound")
    if watch == "bound":
        watched = [
            a if len(a) else b for a, b in zip(assignment.validation, assignment.train, strict=True)
        ]
        losses = (validation_losses(one, rows, watched, watch) for one in (fleet, candidate))
        gains = [(then or 0.0) - (now or 0.0) for then, now in zip(*losses, strict=True)]
    refined = [gain > 0 for gain in gains]
    better = dict(candidate.named_parameters())
    with torch.no_grad():
        for name, value in fleet.named_parameters():
            value[refined] = better[name][refined]
    return refined


def _first_rows(assignment: Assignment) -> Tensor:
    """As many training rows of every member as a regression looks at."""
    n = min(REGRESSION_ROWS, *(len(index) for index in assignment.train), REGRESSION_ROWS)
    return torch.stack([own[:n] for own in assignment.train])


def _at_once(device: torch.device) -> int:
    """How many rows of every member are looked at together."""
    return min(EVALUATION_ROWS, CACHED_ROWS) if device.type == "cpu" else EVALUATION_ROWS


# -- the loop ------------------------------------------------------------------------------------


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
    device, before = rows.targets.device, None
    if trained:
        with products(plan.precision, device):
            before = validation_losses(fleet, rows, assignment.validation, plan.watch)
    stopping = EarlyStopping(fleet, plan.patience, before)
    members = Members.start(fleet, assignment, streams, plan.average)
    loop = Loop(rows, plan, phase, on_epoch)
    shares = divided(len(fleet), device)
    if len(shares) == 1:
        loop.run(members, stopping)
    else:
        _run_in_threads(loop, members, stopping, shares)
    return stopping.finish(sorted(loop.history, key=lambda record: (record.epoch, record.member)))


@dataclass
class Loop:
    """The loop over epochs: what it reads, how it reports, and what it has recorded."""

    rows: Rows
    plan: Plan
    phase: str
    on_epoch: Callback | None = None
    history: list[Epoch] = field(default_factory=list)
    halted: threading.Event = field(default_factory=threading.Event)

    def run(self, members: Members, stopping: EarlyStopping) -> None:
        """Train until everyone has stopped, or someone calls a halt."""
        rows, plan = self.rows, self.plan
        step = step_for(members, rows, plan)
        for epoch in range(1, plan.max_epochs + 1):
            began = time.perf_counter()
            decay = cosine(plan, epoch)
            terms = run_epoch(members, rows, plan, decay, step)
            with members.average.applied():
                losses, state = validate(members, rows, plan)
                stopping.update(members.fleet, epoch, terms, losses, state)
            seconds, rates = time.perf_counter() - began, members.optimizer.rates(decay)
            self._record(stopping.records(self.phase, epoch, terms, losses, rates, seconds))
            keep = stopping.drop()
            if not keep or self.halted.is_set():
                return
            if len(keep) < len(members.fleet):
                members, former = members.select(keep), step
                step = step_for(members, rows, plan)
                step.continue_from(former)
                del former  # and with it the memory of those who left

    def _record(self, records: Sequence[Epoch]) -> None:
        for record in records:
            self.history.append(record)
            if self.on_epoch is not None:
                self.on_epoch(record)


def step_for(members: Members, rows: Rows, plan: Plan) -> Step:
    """How these members step: replayed where the device can, rows of unequal length excepted."""
    steps, _ = members.assignment.steps(plan.batch_size)
    blocks = -(-steps // BLOCK)
    graphed = rows.targets.device.type == "cuda" and rows.replayable
    return (GraphedStep if graphed else Step)(
        members.fleet,
        rows,
        members.streams,
        members.optimizer,
        members.average,
        plan.clip_norm,
        block=-(-steps // blocks),
    )


def run_epoch(members: Members, rows: Rows, plan: Plan, decay: float, step: Step) -> Tensor:
    """One pass of every member over its own rows, in its own order; mean terms (m, 5)."""
    steps, size = members.assignment.steps(plan.batch_size)
    assignment = members.assignment
    if rows.weights is not None:
        assignment = assignment.weighed(rows.weights, members.streams)
    order = assignment.shuffled(members.streams)[:, : steps * size]
    batches = order.reshape(-1, steps, size)
    members.optimizer.set_decay(decay)
    step.begin_epoch(batches)
    with products(plan.precision, rows.targets.device):
        for index in batches.unbind(1):
            step(index)
    return step.total / steps


# -- validation ----------------------------------------------------------------------------------


@torch.no_grad()
def validate(members: Members, rows: Rows, plan: Plan) -> tuple[list[float | None], Tensor]:
    """Validation losses, and mean terms (m, 5) of the present state.

    The terms of an epoch precede its last step; these say whether the state itself is finite.
    """
    fleet, assignment, like = members.fleet, members.assignment, rows.targets
    with products(plan.precision, like.device), fleet.mixture.factored():
        losses = validation_losses(fleet, rows, assignment.validation, plan.watch)
        _, size = assignment.steps(plan.batch_size)
        batch = rows.take(torch.stack([index[:size] for index in assignment.train]))
        streams = SharedStream(0, len(fleet), like.device, like.dtype)
        terms: BoundTerms = fleet(batch, streams, training=False)
    return losses, torch.stack(list(terms.means().values()), dim=1)


@torch.no_grad()
def validation_losses(
    fleet: MixtureVAE, rows: Rows, index: Sequence[Tensor], watch: str
) -> list[float | None]:
    """Each member's mean loss on its validation rows, smaller is better; none without rows."""
    longest = max(len(part) for part in index)
    noise = _validation_noise(fleet, rows, index, longest) if watch == "bound" else None
    padded = torch.nn.utils.rnn.pad_sequence(list(index), batch_first=True)
    lengths = torch.tensor([len(part) for part in index], device=padded.device)
    total = torch.zeros(len(fleet), device=padded.device, dtype=torch.float64)
    divisor = torch.zeros_like(total)
    size = _at_once(padded.device)
    with fleet.mixture.factored():
        for low in range(0, longest, size):
            part = padded[:, low : low + size]
            places = torch.arange(low, low + part.shape[1], device=padded.device)
            own = None if noise is None else noise[:, :, low : low + size].flatten(1, 2)
            losses = _row_losses(fleet, rows, part, watch, own)
            weights = torch.ones_like(losses) if rows.weights is None else rows.weights[part]
            weights = torch.where(places < lengths[:, None], weights, 0.0)
            total += torch.where(weights > 0, losses * weights, 0.0).sum(1)
            divisor += weights.sum(1)
    means = (total / divisor).tolist()
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
    fleet: MixtureVAE, rows: Rows, index: Tensor, watch: str, noise: Tensor | None
) -> Tensor:
    batch = rows.take(index)
    if noise is not None:
        return -fleet.bound(fleet.encode(batch.inputs), batch.targets, noise)
    log_gamma = fleet.scores(batch.inputs).log_responsibilities
    if watch == "error":
        return (log_gamma.argmax(-1) != batch.labels).to(log_gamma)
    return -log_gamma.gather(-1, batch.labels.unsqueeze(-1)).squeeze(-1)


# -- threads -------------------------------------------------------------------------------------


def divided(n_members: int, device: torch.device) -> list[list[int]]:
    """The members of each thread: on a CPU they are divided among as many as it may use.

    A thread that works through its own members waits for no other; threads that share every small
    product do little else.
    """
    n = min(n_members, torch.get_num_threads()) if device.type == "cpu" else 1
    edges = [round(i * n_members / n) for i in range(n + 1)]
    return [list(range(low, high)) for low, high in pairwise(edges)]


def _run_in_threads(
    loop: Loop, members: Members, stopping: EarlyStopping, shares: list[list[int]]
) -> None:
    """Run every share in its own thread, each on one core; an exception in one halts all."""
    n_threads = torch.get_num_threads()
    parts = [stopping.part(members.fleet.select(share), share) for share in shares]

    def run(share: list[int], part: EarlyStopping) -> None:
        torch.set_num_threads(1)
        try:
            loop.run(members.select(share, part.fleet), part)
        except BaseException:
            loop.halted.set()
            raise

    try:
        with ThreadPoolExecutor(len(shares)) as pool:
            waiting = [pool.submit(run, *pair) for pair in zip(shares, parts, strict=True)]
            try:
                for future in waiting:
                    future.result()
            except BaseException:  # an interrupt as well: no thread may go on unseen
                loop.halted.set()
                raise
    finally:
        torch.set_num_threads(n_threads)
    for part in parts:
        stopping.merge(part)
