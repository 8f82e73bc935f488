r"""Figures 4 and 5: test error, and degrees of freedom of all authors, against D for each size.

.. math:: D \mapsto \bar e_{D,s}, \qquad D \mapsto \bar\nu_{k,D,s}
    = \exp \frac1{|F|} \sum_f \ln \nu_{k,f}

At every D each fold chooses among the settings that have it, by development error.

Commands: ``whowrote experiment figure4`` and ``... figure5``. Any computer, seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from whowrote.arrays import FloatArray
from whowrote.errors import InputError
from whowrote_experiments.choice import Cell, by_dimension, cells
from whowrote_experiments.table1 import GAUSSIAN, STUDENT
from whowrote_experiments.trials import Trials


@dataclass(frozen=True)
class Dimensions:
    """What was chosen, by method, size and D."""

    cells: dict[tuple[str, float, int], Cell]
    coverage: str

    @property
    def methods(self) -> list[str]:
        """Those that have fits, in the order in which they were asked for."""
        return list(dict.fromkeys(method for method, _, _ in self.cells))

    @property
    def sizes(self) -> list[float]:
        """All training sizes, small first."""
        return sorted({share for _, share, _ in self.cells})

    def of(self, method: str, share: float) -> dict[int, Cell]:
        """The cells of a method at one size, by D."""
        own = {d: cell for (m, s, d), cell in self.cells.items() if (m, s) == (method, share)}
        return dict(sorted(own.items()))

    def best(self, method: str, share: float) -> int:
        """The D with the lowest mean test error, which is what the published figure shows."""
        own = self.of(method, share)
        return min(own, key=lambda d: own[d].mean)

    def chosen(self, method: str, share: float) -> list[int]:
        """The D that each fold would choose, by its development error."""
        own = self.of(method, share)
        folds = sorted({fold for cell in own.values() for fold in cell.folds})
        return [min(own, key=lambda d: _development(own[d], fold)) for fold in folds]


def _development(cell: Cell, fold: int) -> float:
    found = (one.development_error for one in cell.chosen if one.fold == fold)
    return next((error for error in found if error is not None), float("inf"))


def dimensions(trials: Trials, methods: Sequence[str] = (STUDENT, GAUSSIAN)) -> Dimensions:
    """Figures 4 and 5 of one corpus' trials."""
    kept = trials.only(methods)
    ours = tuple(t for name in methods for t in kept.rows if t.method == name)
    if not ours:
        raise InputError(
            f"the records have no fits of {' or '.join(methods)}, and these figures are of them; "
            "fit those first"
        )
    kept = Trials(ours, kept.expected)
    return Dimensions(cells(kept, by_dimension), kept.coverage())  # type: ignore[arg-type]


def tails(found: Dimensions, share: float) -> dict[int, FloatArray]:
    """Nu of every author, the geometric mean over folds, by D; of the first method."""
    return {
        d: geometric_mean([trial.df for trial in cell.chosen if trial.df is not None])
        for d, cell in found.of(found.methods[0], share).items()
        if any(trial.df is not None for trial in cell.chosen)
    }


def geometric_mean(rows: Sequence[Sequence[float]]) -> FloatArray:
    """Column by column.

    >>> geometric_mean([[2.0, 3.0], [8.0, 3.0]]).tolist()
    [4.0, 3.0]
    """
    return np.asarray(np.exp(np.mean(np.log(np.asarray(rows, dtype=np.float64)), axis=0)).round(9))
