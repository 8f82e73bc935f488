r"""What is reported: in every fold, the configuration with the lowest development error.

.. math:: \hat c_f = \arg\min_c e_{\mathrm{dev}}(c, f), \qquad
    \bar e = \frac1{|F|} \sum_f e_{\mathrm{test}}(\hat c_f, f)

Ties go to the lower log-loss on the development rows, then to the name of the configuration. A
method that is tried as ensembles is reported as its largest one: the best of many lone fits owes
part of its development error to chance, an ensemble of what was chosen does not. The choice is made
among candidates, which carry no test figures; the test error of what was chosen is looked up
afterwards, by row number.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from whowrote_experiments.trials import Candidate, Trial, Trials

Key = Callable[[Candidate], Hashable]


def choose(candidates: Sequence[Candidate], by: Key) -> dict[Hashable, int]:
    """The row number of the best candidate of every group; a group that all diverged in has none.

    Of a configuration fitted with several seeds the first one counts.
    """
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for number, candidate in enumerate(candidates):
        if candidate.development_error is not None:
            groups[by(candidate)].append(number)
    return {
        key: min(numbers, key=lambda number: _rank(candidates[number]))
        for key, numbers in groups.items()
    }


def _rank(candidate: Candidate) -> tuple[int, float, float, str, int]:
    error, loss = candidate.development_error, candidate.development_log_loss
    assert error is not None  # for the type checker: choose() leaves those out
    members = int(candidate.settings.get("n_members", 1))
    loss = math.inf if loss is None else loss
    return -members, error, loss, candidate.configuration, candidate.seed


@dataclass(frozen=True)
class Cell:
    """The chosen fits of one method at one training size, one for each fold."""

    chosen: tuple[Trial, ...]

    @property
    def folds(self) -> list[int]:
        """The folds that there are."""
        return [trial.fold for trial in self.chosen]

    @property
    def errors(self) -> list[float]:
        """Test error by fold."""
        return [math.nan if t.test_error is None else t.test_error for t in self.chosen]

    @property
    def mean(self) -> float:
        """Mean test error over folds."""
        return fmean(self.errors)

    @property
    def spread(self) -> float:
        """Standard deviation over folds; 0 of a single one."""
        return stdev(self.errors) if len(self.chosen) > 1 else 0.0

    @property
    def development_error(self) -> float:
        """Mean development error over folds, on which nothing is reported."""
        return fmean(t.development_error or 0.0 for t in self.chosen)


def cells(trials: Trials, by: Key) -> dict[Hashable, Cell]:
    """The chosen fits of every group, each fold choosing for itself."""
    blind = [trial.blind() for trial in trials.rows]
    found: dict[Hashable, list[Trial]] = defaultdict(list)
    chosen = choose(blind, lambda candidate: (by(candidate), candidate.fold))
    for number in chosen.values():
        found[by(blind[number])].append(trials.rows[number])
    return {
        key: Cell(tuple(sorted(own, key=lambda trial: trial.fold))) for key, own in found.items()
    }


def by_size(candidate: Candidate) -> Hashable:
    """The lines and columns of the published table."""
    return candidate.method, candidate.share


def by_dimension(candidate: Candidate) -> Hashable:
    """The points of the published figures over D."""
    return candidate.method, candidate.share, candidate.settings.get("latent_dim")
