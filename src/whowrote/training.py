r"""One plain training loop for a whole fleet.

.. math:: \theta_m \leftarrow \theta_m - \eta_m(t)\, \mathrm{Adam}\!\left(
    g_m \min(1, c / \lVert g_m \rVert)\right), \qquad g_m = \nabla_{\theta_m} \mathrm{loss}_m

Each member has its own rows, gradient norm, Adam state, step size, early stop and best state; what
one does never touches another. A member that finishes or diverges leaves the fleet, so that no
work is spent on it. The loop appends records; drawing them is someone else's job.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field

import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from whowrote.errors import InputError
from whowrote.model import BoundTerms, MixtureVAE, Rows, Streams, place_components
from whowrote.model.fleet import State, snapshot
from whowrote.model.initialize import initialize_networks
from whowrote.model.objectives import NAMES
from whowrote.optimizer import FleetAdam, MovingAverage

EVALUATION_ROWS = 2048
PLACEMENT_ROWS = 4096


class DivergenceError(InputError, ArithmeticError):
    """Every member left the finite range before it had any usable state."""


class DivergenceWarning(ConvergenceWarning):
    """A member left the finite range and was stopped at its last good state."""


@dataclass(frozen=True)
class Plan:
    """How long and how carefully to train: what the whole fleet shares.

    ``watch`` names what early stopping looks at on the validation rows: ``"log-loss"`` and
    ``"error"`` of the known authors, or ``"bound"``.
    """

    max_epochs: int = 60
    batch_size: int = 256
    clip_norm: float = 1.0
    patience: int = 10
    final_rate: float = 0.05
    average: float = 0.99
    watch: str = "log-loss"


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
class Epoch:
    """One member's record of one epoch."""

    phase: str
    epoch: int
    member: int
    learning_rate: float
    terms: dict[str, float]
    watched: float | None
    seconds: float

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Divergence:
    """Where and how a member left the finite range."""

    member: int
    epoch: int
    term: str

    def __str__(self) -> str:
        return (
            f"member {self.member} diverged in epoch {self.epoch}: the term '{self.term}' left the "
            "finite range; the last good state is kept. Lower learning_rate, raise scale_floor or "
            "look for extreme values in X"
        )


@dataclass
class Outcome:
    """A trained fleet, what happened on the way, and each member's best watched value."""

    fleet: MixtureVAE
    history: list[Epoch] = field(default_factory=list)
    diverged: list[Divergence] = field(default_factory=list)
    best: list[float] = field(default_factory=list)


Callback = Callable[[Epoch], None]


def initialize(fleet: MixtureVAE, rows: Rows, assignment: Assignment) -> None:
    """Random networks from each member's seed; components placed by the labels of its rows."""
    initialize_networks(fleet, [member.seed for member in fleet.members])
    n = min(PLACEMENT_ROWS, *(len(index) for index in assignment.train), PLACEMENT_ROWS)
    batch = rows.take(torch.stack([index[:n] for index in assignment.train]))
    with torch.no_grad():
        place_components(fleet.mixture, fleet.encode(batch.inputs).mean, batch.labels)


@torch.no_grad()
def watched_values(
    fleet: MixtureVAE, rows: Rows, index: Sequence[Tensor], watch: str
) -> list[float | None]:
    """Each member's loss on its validation rows, smaller is better; none without rows."""
    longest = max(len(part) for part in index)
    noise = _validation_noise(fleet, rows, index, longest) if watch == "bound" else None
    padded = torch.stack([torch.nn.functional.pad(p, (0, longest - len(p))) for p in index])
    lengths = torch.tensor([len(part) for part in index], device=padded.device)
    total = torch.zeros(len(fleet), device=padded.device, dtype=torch.float64)
    for low in range(0, longest, EVALUATION_ROWS):
        part = padded[:, low : low + EVALUATION_ROWS]
        inside = torch.arange(low, low + part.shape[1], device=padded.device) < lengths[:, None]
        own = None if noise is None else noise[:, :, low : low + EVALUATION_ROWS].flatten(1, 2)
        losses = _row_losses(fleet, rows, part, watch, own)
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
    fleet: MixtureVAE, rows: Rows, index: Tensor, watch: str, noise: Tensor | None
) -> Tensor:
    batch = rows.take(index)
    if noise is not None:
        return -fleet.bound(fleet.encode(batch.inputs), batch.targets, noise)
    log_gamma = fleet.scores(batch.inputs).log_responsibilities
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
    good, and is kept where this phase finds no better one.
    """
    steps, batch_size = assignment.steps(plan.batch_size)
    optimizer = FleetAdam(
        fleet,
        [member.learning_rate for member in fleet.members],
        {"mixture.raw_df": [member.df_rate for member in fleet.members]},
    )
    average = MovingAverage(fleet, plan.average)
    ledger = Ledger(fleet, plan.patience, trained)
    outcome = Outcome(fleet)
    for epoch in range(1, plan.max_epochs + 1):
        began = time.perf_counter()
        decay = cosine(plan, epoch)
        terms = run_epoch(
            fleet,
            rows,
            assignment,
            streams,
            optimizer,
            average,
            steps,
            batch_size,
            decay,
            plan.clip_norm,
        )
        with average.applied():
            watched = watched_values(fleet, rows, assignment.validation, plan.watch)
            ledger.update(
                fleet, epoch, terms, watched, state_terms(fleet, rows, assignment, batch_size)
            )
        seconds = time.perf_counter() - began
        for record in ledger.records(phase, epoch, terms, watched, optimizer.rates(decay), seconds):
            outcome.history.append(record)
            if on_epoch is not None:
                on_epoch(record)
        keep = ledger.leave()
        if not keep:
            break
        if len(keep) < len(fleet):
            fleet, streams = fleet.select(keep), streams.select(keep)
            assignment, optimizer = assignment.select(keep), optimizer.select(fleet, keep)
            average = average.select(fleet, keep)
    return ledger.close(outcome)


def cosine(plan: Plan, epoch: int) -> float:
    """Half a cosine from 1 in the first epoch to ``final_rate`` in the last."""
    progress = (epoch - 1) / max(1, plan.max_epochs - 1)
    return plan.final_rate + (1 - plan.final_rate) * (1 + math.cos(math.pi * progress)) / 2


def run_epoch(
    fleet: MixtureVAE,
    rows: Rows,
    assignment: Assignment,
    streams: Streams,
    optimizer: FleetAdam,
    average: MovingAverage,
    steps: int,
    batch_size: int,
    decay: float,
    clip_norm: float,
) -> Tensor:
    """One pass of every member over its own rows, in its own order; mean terms (m, 5)."""
    order = [
        index[torch.randperm(len(index), generator=g, device=index.device)[: steps * batch_size]]
        for index, g in zip(assignment.train, streams.generators, strict=True)
    ]
    batches = torch.stack(order).reshape(len(order), steps, batch_size)
    total = torch.zeros(len(fleet), len(NAMES), device=rows.targets.device, dtype=torch.float64)
    for step in range(steps):
        terms = fleet(rows.take(batches[:, step]), streams)
        terms.loss.sum().backward()
        optimizer.step(decay, clip_norm)
        average.update()
        total += torch.stack(list(terms.means().values()), dim=1).detach()
    return total / steps


@torch.no_grad()
def state_terms(fleet: MixtureVAE, rows: Rows, assignment: Assignment, batch_size: int) -> Tensor:
    """Mean terms (m, 5) of the present state: those of an epoch precede its last step."""
    batch = rows.take(torch.stack([index[:batch_size] for index in assignment.train]))
    streams = Streams([0] * len(fleet), rows.targets.device, rows.targets.dtype)
    terms: BoundTerms = fleet(batch, streams, training=False)
    return torch.stack(list(terms.means().values()), dim=1)


class Ledger:
    """Who is still training, everyone's best state, and who fell out of the finite range."""

    def __init__(self, fleet: MixtureVAE, patience: int, trained: bool = False) -> None:
        self.fleet, self.patience, self.trained = fleet, patience, trained
        self.active = list(range(len(fleet)))
        self.best_state: State = snapshot(fleet)
        self.best = [math.inf] * len(fleet)
        self.waited = [0] * len(fleet)
        self.diverged: list[Divergence] = []
        self._leaving: set[int] = set()

    def update(
        self,
        fleet: MixtureVAE,
        epoch: int,
        terms: Tensor,
        watched: list[float | None],
        state: Tensor,
    ) -> None:
        """Book one epoch of the active members: its terms, and those of the state it led to."""
        finite = (torch.isfinite(terms) & torch.isfinite(state)).tolist()
        better = []
        for place, member in enumerate(self.active):
            seen = watched[place]
            value = -float(epoch) if seen is None else seen
            broken = [name for name, fine in zip(NAMES, finite[place], strict=True) if not fine]
            if broken or not math.isfinite(value):
                term = broken[0] if broken else "validation"
                self.diverged.append(Divergence(member, epoch, term))
                self._leaving.add(member)
            elif value < self.best[member]:
                self.best[member], self.waited[member] = value, 0
                better.append(place)
            else:
                self.waited[member] += 1
                if self.waited[member] >= self.patience:
                    self._leaving.add(member)
        self._keep_states(fleet, better)

    @torch.no_grad()
    def _keep_states(self, fleet: MixtureVAE, places: list[int]) -> None:
        if not places:
            return
        members = [self.active[place] for place in places]
        for name, value in fleet.named_parameters():
            self.best_state[name][members] = value.detach()[places]

    def records(
        self,
        phase: str,
        epoch: int,
        terms: Tensor,
        watched: list[float | None],
        rates: list[float],
        seconds: float,
    ) -> list[Epoch]:
        """The epoch as data, a record per active member."""
        return [
            Epoch(
                phase=phase,
                epoch=epoch,
                member=member,
                learning_rate=rates[place],
                terms=dict(zip(NAMES, row, strict=True)),
                watched=watched[place],
                seconds=seconds / len(self.active),
            )
            for place, (member, row) in enumerate(zip(self.active, terms.tolist(), strict=True))
        ]

    def leave(self) -> list[int]:
        """Drop who is done; the places of those who stay."""
        keep = [i for i, member in enumerate(self.active) if member not in self._leaving]
        self.active = [self.active[place] for place in keep]
        return keep

    def close(self, outcome: Outcome) -> Outcome:
        """Put every member into its best state and report who diverged."""
        usable = self.trained or any(map(math.isfinite, self.best))
        if len(self.diverged) == len(self.best) and not usable:
            raise DivergenceError(f"{self.diverged[0]}. No state was ever usable")
        self.fleet.load_state_dict(self.best_state, strict=False)
        for divergence in self.diverged:
            warnings.warn(str(divergence), DivergenceWarning, stacklevel=4)
        outcome.fleet, outcome.diverged, outcome.best = self.fleet, self.diverged, self.best
        return outcome
