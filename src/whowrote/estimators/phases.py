"""A fit in the making: which rows each member learns from and is held out, and who is told.

What is shared by all phases of a fit; how a phase is trained stands in :mod:`whowrote.training`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

import numpy as np
import torch

from whowrote.arrays import FloatArray, IntArray
from whowrote.errors import InputError
from whowrote.estimators.fitted_classifier import FittedClassifier
from whowrote.model import Rows
from whowrote.progress import EpochLike, Stage
from whowrote.training import Assignment, Epoch

LEAST_VALIDATION_ROWS = 20

Callback = Callable[[dict[str, Any]], object]


@dataclass
class Fit:
    """What a fit builds up, phase by phase.

    ``earlier`` counts the records of the fit that this one goes on from (``warm_start``).
    """

    fitted: FittedClassifier
    history: list[dict[str, Any]] = field(default_factory=list)
    earlier: int = 0
    converged: bool = False
    sound: bool = False
    """Whether the present state is worth keeping: trained, or started in closed form."""
    callbacks: tuple[Callback, ...] = ()

    def rows(
        self, X: Any, labels: IntArray | None = None, weights: FloatArray | None = None
    ) -> Rows:
        """X as the rows of the model, with class numbers and weights where there are any."""
        rows = self.fitted.scaling.rows(X, labels, self.fitted.device, self.fitted.dtype)
        if weights is None:
            return rows
        return replace(rows, weights=torch.as_tensor(weights).to(rows.targets))


@contextmanager
def all_or_nothing(estimator: object) -> Iterator[None]:
    """A fit that fails, or is stopped by a callback, leaves the estimator as it was."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


# -- held-out rows -------------------------------------------------------------------------------


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


def assign(fit: Fit, candidates: IntArray, labels: IntArray, validation: Validation) -> Assignment:
    """The rows that each member learns from, and those that it is validated on."""
    train_parts, validation_parts = [], []
    members, device, folds = fit.fitted.fleet.members, fit.fitted.device, validation.folds
    for number, member in enumerate(members):
        chosen = validation.part(number, candidates, labels, member.seed)
        rest = candidates[~np.isin(candidates, chosen)]
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


# -- who is told ---------------------------------------------------------------------------------


def callable_or_list(callbacks: Any) -> tuple[Callback, ...]:
    """One callable, several, or None, as a tuple."""
    given = () if callbacks is None else (callbacks,) if callable(callbacks) else callbacks
    if not isinstance(given, (tuple, list)) or not all(map(callable, given)):
        raise InputError(
            f"callbacks is {callbacks!r}; it must be a callable or a list of callables that take "
            "the record of an epoch, a dictionary"
        )
    return tuple(given)


@dataclass(frozen=True)
class Told:
    """Passes an epoch's record on to whoever wants it, one at a time: members train in threads."""

    total: int
    show: Callable[[EpochLike], None] | None
    listener: Callable[[Stage], None] | None
    callbacks: tuple[Callback, ...]
    turn: Lock = field(default_factory=Lock)

    def __call__(self, record: Epoch) -> None:
        """Tell everyone."""
        if self.listener is not None:
            self.listener(Stage("learning the authors", record.epoch, self.total))
        if self.show is not None:
            self.show(record)
        for callback in self.callbacks:
            with self.turn:
                callback(record.to_dict())
