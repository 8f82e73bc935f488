"""The members still in training, with all that is theirs, and what became of each.

:class:`Assignment` says who learns from which rows, :class:`Members` holds fleet, streams,
optimizer and average of those who still learn, :class:`EarlyStopping` everyone's best state and
patience. :class:`Epoch`, :class:`Divergence` and :class:`Outcome` are what happened, as data.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from whowrote.arrays import IntArray
from whowrote.errors import InputError
from whowrote.model import MixtureVAE, Streams
from whowrote.model.fleet import State, snapshot
from whowrote.model.vae import NAMES
from whowrote.training.step import FleetAdam, MovingAverage

DROPPED_AT_ONCE = 1 / 8

LEAST_VALIDATION_ROWS = 20
"""Fewer are too few to steer by."""


@dataclass(frozen=True)
class Runs:
    """An order for rows in a file: runs of neighbours are shuffled, and the rows of each window.

    A window of runs is all that need be at hand, and all of what is read is soon learnt from.
    """

    length: int
    window: int

    def shuffled(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        """The rows in a random order of that kind."""
        # In NumPy: torch sorts with places of eight bytes, which of millions of rows are too many.
        ordered, device = np.sort(rows.cpu().numpy()), rows.device
        n_runs = int(ordered[-1]) // self.length + 1
        edges = np.searchsorted(ordered, np.arange(n_runs + 1) * self.length)
        runs = torch.rand(n_runs, generator=generator, device=device).argsort().cpu().numpy()
        found, low = np.empty_like(ordered), 0
        for first in range(0, n_runs, self.window):
            own = runs[first : first + self.window]
            lengths = edges[own + 1] - edges[own]
            starts = edges[own] - np.cumsum(lengths) + lengths
            places = np.repeat(starts, lengths) + np.arange(lengths.sum())
            mixed = torch.randperm(len(places), generator=generator, device=device)
            found[low : low + len(places)] = ordered[places[mixed.cpu().numpy()]]
            low += len(places)
        return torch.as_tensor(found, device=device)


@dataclass(frozen=True)
class Assignment:
    """Which rows each member learns from, and on which it is validated (none: no early stop).

    With ``runs``, an epoch goes through the rows in such an order.
    """

    train: tuple[Tensor, ...]
    validation: tuple[Tensor, ...]
    runs: Runs | None = None

    def select(self, keep: Sequence[int]) -> Assignment:
        """The assignment of some members."""
        return replace(
            self,
            train=tuple(self.train[i] for i in keep),
            validation=tuple(self.validation[i] for i in keep),
        )

    def held_out(self, candidates: IntArray) -> list[IntArray]:
        """What of the candidates and of the validation rows each member does not learn from."""
        found = []
        for own, watched in zip(self.train, self.validation, strict=True):
            taught, seen = own.cpu().numpy(), watched.cpu().numpy()
            most = max(int(rows.max(initial=-1)) for rows in (candidates, taught, seen))
            unseen = np.zeros(most + 1, dtype=bool)
            unseen[candidates] = unseen[seen] = True
            unseen[taught] = False
            found.append(np.flatnonzero(unseen))
        return found

    def with_rows(self, more: Tensor) -> Assignment:
        """Every member also learns from ``more``; what it is validated on stays."""
        return replace(self, train=tuple(torch.cat([own, more]) for own in self.train))

    def repeated(self, n: int) -> Assignment:
        """Every member's training rows, again and again until they are n; all of them at least.

        Labelled rows that are a hundredth of all would be a hundredth of every step: repeated, they
        are half of it, and count as much as in a phase of their own.
        """
        times = [max(1, -(-n // len(own))) for own in self.train]
        return replace(
            self,
            train=tuple(
                own.repeat(often)[: max(n, len(own))]
                for own, often in zip(self.train, times, strict=True)
            ),
        )

    def weighed(self, weights: Tensor, streams: Streams) -> Assignment:
        """Every member's training rows as often as they count, in as many places as before.

        Of n rows with weights w, row i gets n w_i / sum(w) places, rounded up or down at random
        (systematic resampling): equal weights give every row its one place. Steps in which every
        row counts alike then have the gradient of the weighted objective in expectation, and rows
        that count much do not come all at once, to be lost to the clipping of the gradient.
        """
        return replace(
            self,
            train=tuple(
                own[_systematic(weights[own], generator)]
                for own, generator in zip(self.train, streams.generators, strict=True)
            ),
        )

    def shuffled(self, streams: Streams) -> Tensor:
        """Every member's training rows in its own random order, as long as the shortest."""
        lengths = [len(rows) for rows in self.train]
        if self.runs is not None:
            pairs = zip(self.train, streams.generators, strict=True)
            orders = [self.runs.shuffled(*pair)[: min(lengths)] for pair in pairs]
            return torch.stack(orders) if len(orders) > 1 else orders[0].unsqueeze(0)
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


def _systematic(weights: Tensor, generator: torch.Generator) -> Tensor:
    """n numbers of rows, in order, each as often as its weight says."""
    n = len(weights)
    ends = weights.double().cumsum(0)
    start = torch.rand((), device=weights.device, dtype=torch.float64, generator=generator)
    places = (torch.arange(n, device=weights.device) + start) * (ends[-1] / n)
    return torch.searchsorted(ends, places, right=True).clamp(max=n - 1)


@dataclass(frozen=True)
class Validation:
    """What members stop early by: a part of the rows, a fold each, or rows that were given.

    ``every_class``: classes count by their weights, and one too small for rows of its own to be
    held out is watched on those that it is learnt from.
    """

    fraction: float = 0.0
    folds: IntArray | None = None
    given: IntArray | None = None
    every_class: bool = False

    def part(self, number: int, candidates: IntArray, labels: IntArray, seed: int) -> IntArray:
        """The held-out rows of one member; none where they are too few to steer by."""
        if self.given is not None:
            return self.given
        if self.folds is not None:
            return np.asarray(candidates[self.folds[candidates] == number])
        return validation_part(candidates, labels[candidates], self.fraction, seed)


def assign(
    fleet: MixtureVAE, candidates: IntArray, labels: IntArray, validation: Validation
) -> Assignment:
    """The rows that each member learns from, and those that it is validated on."""
    train_parts, validation_parts = [], []
    members, device, folds = fleet.members, fleet.mixture.loc.device, validation.folds
    for number, member in enumerate(members):
        chosen = validation.part(number, candidates, labels, member.seed)
        taught = np.ones(1 + max(candidates.max(), chosen.max(initial=0)), dtype=bool)
        taught[chosen] = False
        rest = candidates[taught[candidates]]
        np.random.RandomState(member.seed).shuffle(rest)
        if folds is not None:  # members step together: shorter parts repeat some rows
            smallest = np.bincount(folds[candidates], minlength=len(members)).min()
            rest = np.resize(rest, len(candidates) - smallest)
        if validation.given is None and len(chosen) < LEAST_VALIDATION_ROWS:
            chosen = chosen[:0]
        elif validation.every_class:
            unseen = ~np.isin(labels[candidates], labels[chosen])
            chosen = np.concatenate([chosen, candidates[unseen]])
        train_parts.append(torch.as_tensor(rest, device=device))
        validation_parts.append(torch.as_tensor(chosen, device=device))
    return Assignment(tuple(train_parts), tuple(validation_parts))


def validation_part(candidates: IntArray, labels: IntArray, fraction: float, seed: int) -> IntArray:
    """A stratified part of the candidates; empty when it would be too small to steer by."""
    random = np.random.RandomState(seed)
    chosen = []
    for label in np.unique(labels):
        own = candidates[labels == label]
        size = min(round(fraction * len(own)), len(own) - 1)  # someone has to be learnt from
        chosen.append(random.permutation(own)[:size])
    part = np.concatenate(chosen)
    return part if len(part) >= LEAST_VALIDATION_ROWS else part[:0]


def leave_out(codes: IntArray, n_folds: int, n_members: int, seed: int) -> list[IntArray]:
    """For every member a fold of the rows, stratified; a class of one row is always learnt from.

    >>> [len(part) for part in leave_out(np.array([0, 0, 0, 1, 1, 2]), 3, 2, seed=0)]
    [2, 2]
    """
    order = np.lexsort((np.random.RandomState(seed).rand(len(codes)), codes))
    folds = np.empty_like(codes)
    folds[order] = np.arange(len(codes)) % n_folds
    several = np.bincount(codes)[codes] > 1
    return [np.flatnonzero((folds == number) & several) for number in range(n_members)]


@dataclass(frozen=True)
class Members:
    """Those who still learn, with all that is theirs: who leaves takes it along."""

    fleet: MixtureVAE
    assignment: Assignment
    streams: Streams
    optimizer: FleetAdam
    average: MovingAverage

    @classmethod
    def start(
        cls, fleet: MixtureVAE, assignment: Assignment, streams: Streams, average: float
    ) -> Members:
        """Everyone with a fresh optimizer and a moving average of decay ``average``."""
        rates = [member.learning_rate for member in fleet.members]
        factors = {"mixture.log_excess": [member.df_rate for member in fleet.members]}
        optimizer = FleetAdam(fleet, rates, factors)
        return cls(fleet, assignment, streams, optimizer, MovingAverage(fleet, average))

    def select(self, keep: Sequence[int], fleet: MixtureVAE | None = None) -> Members:
        """Those who stay, in a fleet of their own."""
        fleet = fleet or self.fleet.select(keep)
        return Members(
            fleet,
            self.assignment.select(keep),
            self.streams.select(keep),
            self.optimizer.select(fleet, keep),
            self.average.select(fleet, keep),
        )


class DivergenceError(InputError, ArithmeticError):
    """Every member left the finite range before it had any usable state."""


class DivergenceWarning(ConvergenceWarning):
    """A member left the finite range and was stopped at its last good state."""


@dataclass(frozen=True)
class Epoch:
    """One member's record of one epoch; ``watched`` is its loss on its validation rows."""

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
    """A trained fleet, what happened on the way, and each member's best validation loss."""

    fleet: MixtureVAE
    history: list[Epoch] = field(default_factory=list)
    diverged: list[Divergence] = field(default_factory=list)
    best: list[float] = field(default_factory=list)


class EarlyStopping:
    """Everyone's best state and patience: who still learns, who is done, who diverged."""

    def __init__(
        self, fleet: MixtureVAE, patience: int, earlier: list[float | None] | None = None
    ) -> None:
        """``earlier`` holds the validation losses of a fleet that comes from an earlier phase."""
        self.fleet, self.patience, self.trained = fleet, patience, earlier is not None
        self.numbers = list(range(len(fleet)))
        self.active = list(range(len(fleet)))
        self.best_state: State = snapshot(fleet)
        known = earlier or [None] * len(fleet)
        self.best = [math.inf if value is None else value for value in known]
        self.waited = [0] * len(fleet)
        self.diverged: list[Divergence] = []
        self._finished: set[int] = set()
        self.done: set[int] = set()

    def update(
        self,
        fleet: MixtureVAE,
        epoch: int,
        terms: Tensor,
        losses: list[float | None],
        state: Tensor,
    ) -> None:
        """Take in one epoch of the active members: its terms, and those of the state it led to."""
        finite = (torch.isfinite(terms) & torch.isfinite(state)).tolist()
        better = []
        for place, member in self._training():
            loss = losses[place]
            value = -float(epoch) if loss is None else loss
            broken = [name for name, fine in zip(NAMES, finite[place], strict=True) if not fine]
            if broken or not math.isfinite(value):
                term = broken[0] if broken else "validation"
                self.diverged.append(Divergence(self.numbers[member], epoch, term))
                self._finished.add(member)
            elif value < self.best[member]:
                self.best[member], self.waited[member] = value, 0
                better.append(place)
            else:
                self.waited[member] += 1
                if self.waited[member] >= self.patience:
                    self._finished.add(member)
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
        losses: list[float | None],
        rates: list[float],
        seconds: float,
    ) -> list[Epoch]:
        """The epoch as data, a record for everyone who learnt in it."""
        training, values = self._training(), terms.tolist()
        return [
            Epoch(
                phase=phase,
                epoch=epoch,
                member=self.numbers[member],
                learning_rate=rates[place],
                terms=dict(zip(NAMES, values[place], strict=True)),
                watched=losses[place],
                seconds=seconds / len(training),
            )
            for place, member in training
        ]

    def _training(self) -> list[tuple[int, int]]:
        """Place and number of everyone who still learns; others only wait to be dropped."""
        return [(i, member) for i, member in enumerate(self.active) if member not in self.done]

    def drop(self) -> list[int]:
        """Drop who is done, once there are enough of them; the places of those who stay.

        Moving the rest together costs about as much as a few idle members do.
        """
        self.done |= self._finished
        self._finished = set()
        keep = [place for place, _ in self._training()]
        if keep and len(self.active) - len(keep) < DROPPED_AT_ONCE * len(self.active):
            return list(range(len(self.active)))
        self.active = [self.active[place] for place in keep]
        return keep

    def part(self, fleet: MixtureVAE, members: list[int]) -> EarlyStopping:
        """The same for some members, who now learn in ``fleet``; they keep their numbers."""
        earlier: list[float | None] = [self.best[member] for member in members]
        part = EarlyStopping(fleet, self.patience, earlier if self.trained else None)
        part.numbers = members
        return part

    def merge(self, part: EarlyStopping) -> None:
        """Take over what is known of the members of a part."""
        for name, state in part.best_state.items():
            self.best_state[name][part.numbers] = state
        for member, value in zip(part.numbers, part.best, strict=True):
            self.best[member] = value
        self.diverged = sorted([*self.diverged, *part.diverged], key=lambda d: (d.epoch, d.member))

    def finish(self, history: list[Epoch]) -> Outcome:
        """Put every member into its best state and report who diverged."""
        usable = self.trained or any(map(math.isfinite, self.best))
        if len(self.diverged) == len(self.best) and not usable:
            raise DivergenceError(f"{self.diverged[0]}. No state was ever usable")
        self.fleet.load_state_dict(self.best_state, strict=False)
        for divergence in self.diverged:
            warnings.warn(str(divergence), DivergenceWarning, stacklevel=4)
        return Outcome(self.fleet, history, self.diverged, self.best)
