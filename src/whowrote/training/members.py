"""What happened in training, as data: epochs, divergences, and everyone's best state."""

from __future__ import annotations

import math
import warnings
from dataclasses import asdict, dataclass, field

import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from whowrote.errors import InputError
from whowrote.model import MixtureVAE
from whowrote.model.fleet import State, snapshot
from whowrote.model.vae import NAMES

DROPPED_AT_ONCE = 1 / 8


class DivergenceError(InputError, ArithmeticError):
    """Every member left the finite range before it had any usable state."""


class DivergenceWarning(ConvergenceWarning):
    """A member left the finite range and was stopped at its last good state."""


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


class Ledger:
    """Who is still training, everyone's best state, and who fell out of the finite range."""

    def __init__(
        self, fleet: MixtureVAE, patience: int, earlier: list[float | None] | None = None
    ) -> None:
        """``earlier`` holds the watched values of a fleet that comes from an earlier phase."""
        self.fleet, self.patience, self.trained = fleet, patience, earlier is not None
        self.names = list(range(len(fleet)))
        self.active = list(range(len(fleet)))
        self.best_state: State = snapshot(fleet)
        known = earlier or [None] * len(fleet)
        self.best = [math.inf if value is None else value for value in known]
        self.waited = [0] * len(fleet)
        self.diverged: list[Divergence] = []
        self._leaving: set[int] = set()
        self.done: set[int] = set()

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
        for place, member in self._training():
            seen = watched[place]
            value = -float(epoch) if seen is None else seen
            broken = [name for name, fine in zip(NAMES, finite[place], strict=True) if not fine]
            if broken or not math.isfinite(value):
                term = broken[0] if broken else "validation"
                self.diverged.append(Divergence(self.names[member], epoch, term))
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
        """The epoch as data, a record for everyone who learnt in it."""
        training, values = self._training(), terms.tolist()
        return [
            Epoch(
                phase=phase,
                epoch=epoch,
                member=self.names[member],
                learning_rate=rates[place],
                terms=dict(zip(NAMES, values[place], strict=True)),
                watched=watched[place],
                seconds=seconds / len(training),
            )
            for place, member in training
        ]

    def _training(self) -> list[tuple[int, int]]:
        """Place and number of everyone who still learns; others only wait to be dropped."""
        return [(i, member) for i, member in enumerate(self.active) if member not in self.done]

    def leave(self) -> list[int]:
        """Drop who is done, once there are enough of them; the places of those who stay.

        Moving a crew together costs about as much as a few idle members do.
        """
        self.done |= self._leaving
        self._leaving = set()
        keep = [place for place, _ in self._training()]
        if keep and len(self.active) - len(keep) < DROPPED_AT_ONCE * len(self.active):
            return list(range(len(self.active)))
        self.active = [self.active[place] for place in keep]
        return keep

    def part(self, fleet: MixtureVAE, members: list[int]) -> Ledger:
        """A ledger for some members, who now train in ``fleet``; they keep their numbers."""
        earlier: list[float | None] = [self.best[member] for member in members]
        part = Ledger(fleet, self.patience, earlier if self.trained else None)
        part.names = members
        return part

    def absorb(self, part: Ledger) -> None:
        """Take over what a part has booked."""
        for name, state in part.best_state.items():
            self.best_state[name][part.names] = state
        for member, value in zip(part.names, part.best, strict=True):
            self.best[member] = value
        self.diverged = sorted([*self.diverged, *part.diverged], key=lambda d: (d.epoch, d.member))

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
