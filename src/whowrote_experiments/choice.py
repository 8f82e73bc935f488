r"""What is reported: in every fold, the settings with the lowest development error.

.. math:: \hat c_f = \arg\min_c e_{\mathrm{dev}}(c, f), \qquad
    \bar e = \frac1{|F|} \sum_f e_{\mathrm{test}}(\hat c_f, f)

The choice is that of :func:`whowrote.sweep.results.choose`, each fit counting for itself and the
largest ensemble before single fits. It is made among candidates, which carry no test figures; the
test error of what was chosen is looked up afterwards, by row number.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from whowrote.sweep.records import Candidate, Record
from whowrote.sweep.results import By, choose, every_fit
from whowrote_experiments.trials import Trials


def best_fits(candidates: Sequence[Candidate], by: By) -> dict[Hashable, int]:
    """The row number of the best fit of every group; a group that all diverged in has none."""
    chosen = choose(candidates, by, alike=every_fit)
    return {key: one.numbers[0] for key, one in chosen.items()}


@dataclass(frozen=True)
class Cell:
    """The chosen fits of one method at one training size, one for each fold."""

    chosen: tuple[Record, ...]

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


def cells(trials: Trials, by: By) -> dict[Hashable, Cell]:
    """The chosen fits of every group, each fold choosing for itself."""
    candidates = [row.candidate() for row in trials.rows]
    found: dict[Hashable, list[Record]] = defaultdict(list)
    chosen = best_fits(candidates, lambda candidate: (by(candidate), candidate.fold))
    for number in chosen.values():
        found[by(candidates[number])].append(trials.rows[number])
    return {
        key: Cell(tuple(sorted(own, key=lambda trial: trial.fold))) for key, own in found.items()
    }


def by_size(candidate: Candidate) -> Hashable:
    """The lines and columns of the published table."""
    return candidate.method, candidate.share


def by_dimension(candidate: Candidate) -> Hashable:
    """The points of the published figures over D."""
    return candidate.method, candidate.share, candidate.settings.get("latent_dim")
