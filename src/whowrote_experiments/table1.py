r"""Table 1: the test error of every method at every training size, and whether methods differ.

.. math:: \bar e_{m,s} \pm \sqrt{\tfrac1{J-1} \textstyle\sum_j (e_{m,s,j} - \bar e_{m,s})^2}

Mean and standard deviation are over folds, each with the configuration that its development rows
chose; pairs of methods are compared fold by fold (:mod:`whowrote_experiments.paired`).

Command: ``whowrote experiment table1``. Any computer, seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

from whowrote_experiments.choice import Cell, by_size, cells
from whowrote_experiments.paired import Paired, corrected_t_test
from whowrote_experiments.trials import Trials

STUDENT, GAUSSIAN = "SMM-VAE", "GMM-VAE"
LINEAR, KERNEL = "SVM (linear)", "SVM (RBF kernel)"
FOUR = (STUDENT, GAUSSIAN, LINEAR, KERNEL)
EXTENDED = tuple(f"{name}, extended" for name in (STUDENT, GAUSSIAN))
FREE_TAILS = f"{STUDENT}, free tails"
READINGS = {
    f"{STUDENT}, bound, joint": GAUSSIAN,
    f"{STUDENT}, Algorithm 1, joint": GAUSSIAN,
    f"{STUDENT}, cross-entropy": f"{GAUSSIAN}, cross-entropy",
    f"{STUDENT}, bound, both terms": f"{GAUSSIAN}, both terms",
}
"""Readings of the published objective, each with its Gaussian counterpart.

A Gaussian has no scale u, so that ln rho is its score: both joint readings have one counterpart.
Cross-entropy has no rho: it is one loss for the bound and for Algorithm 1.
"""
TITLES = {
    STUDENT: f"{STUDENT}, bound, joint, linear nu",
    GAUSSIAN: f"{GAUSSIAN}, joint",
    FREE_TAILS: f"{STUDENT}, bound, joint, linear nu, 30 times as fast",
}
"""What the first records are by name: the bound, the joint score, and nu in linear steps."""
SIZES = (0.2, 0.4, 0.6, 0.8, 1.0)
PUBLISHED = {
    STUDENT: ((5.86, 0.60), (4.49, 0.46), (3.90, 0.34), (3.80, 0.10), (3.53, 0.24)),
    GAUSSIAN: ((6.24, 0.43), (4.73, 0.40), (4.25, 0.67), (3.95, 0.43), (3.86, 0.43)),
    LINEAR: ((6.15, 0.37), (5.05, 0.29), (4.35, 0.24), (3.92, 0.14), (3.71, 0.38)),
    KERNEL: ((6.41, 0.51), (5.04, 0.66), (4.41, 0.68), (4.09, 0.32), (3.70, 0.19)),
}
"""The published figures in per cent: mean and standard deviation at every size."""


@dataclass(frozen=True)
class Comparison:
    """Two methods at one size; the difference is that of their errors, first minus second."""

    first: str
    second: str
    share: float
    test: Paired


@dataclass(frozen=True)
class Table1:
    """The cells of the table, by method and size, and all comparisons."""

    corpus: str
    methods: Sequence[str]
    sizes: Sequence[float]
    cells: dict[tuple[str, float], Cell]
    comparisons: Sequence[Comparison]
    coverage: str
    n_diverged: int

    def best(self, share: float, among: Sequence[str] | None = None) -> str | None:
        """The method with the lowest mean test error; none unless all have the same folds."""
        names = self.methods if among is None else among
        found = [self.cells[name, share].folds for name in names if (name, share) in self.cells]
        if len(found) < len(names) or any(own != found[0] for own in found):
            return None
        return min(names, key=lambda name: self.cells[name, share].mean)

    def against(self, first: str) -> list[Comparison]:
        """The comparisons of one method with all others."""
        return [one for one in self.comparisons if one.first == first]

    def to_dict(self) -> dict[str, Any]:
        """Plain values: errors as shares, what was chosen in every fold, the split hashes."""
        rows = [
            {
                "method": method,
                "share": share,
                "test_error": cell.mean,
                "sd": cell.spread,
                "development_error": cell.development_error,
                "folds": [
                    {
                        "fold": one.fold,
                        "test_error": one.test_error,
                        "split": one.split,
                        "configuration": one.settings,
                    }
                    for one in cell.chosen
                ],
            }
            for (method, share), cell in self.cells.items()
        ]
        return {
            "corpus": self.corpus,
            "fits": self.coverage,
            "diverged": self.n_diverged,
            "rows": rows,
            "paired": [asdict(one) for one in self.comparisons],
        }


def title(method: str) -> str:
    """A line of the table named for what it is.

    >>> title("GMM-VAE"), title("SVM (linear)")
    ('GMM-VAE, joint', 'SVM (linear)')
    """
    return TITLES.get(method, method)


def _in_order(methods: Sequence[str]) -> list[str]:
    """Readings first, each Gaussian counterpart after them, the rest as it comes."""
    first = [*READINGS, STUDENT, *READINGS.values()]
    return [one for one in dict.fromkeys([*first, *methods]) if one in methods]


def table1(trials: Trials) -> Table1:
    """The table of one corpus' trials."""
    found = cells(trials, by_size)
    sizes = sorted({row.share for row in trials.rows})
    methods = _in_order(trials.methods)
    keys = [(method, share) for method in methods for share in sizes]
    table = {key: found[key] for key in keys if key in found}
    return Table1(
        corpus=trials.rows[0].corpus,
        methods=methods,
        sizes=sizes,
        cells=table,
        comparisons=[
            one
            for share in sizes
            for pair in combinations(methods, 2)
            for one in _compared(table, pair, share)
        ],
        coverage=trials.coverage(),
        n_diverged=sum(row.diverged is not None for row in trials.rows),
    )


def _compared(
    table: dict[tuple[str, float], Cell], pair: tuple[str, str], share: float
) -> list[Comparison]:
    """Both orders of a pair, on the folds that both have; nothing with fewer than two."""
    if any((name, share) not in table for name in pair):
        return []
    sides = [{one.fold: one for one in table[name, share].chosen} for name in pair]
    common = sorted(sides[0].keys() & sides[1].keys())
    if len(common) < 2:
        return []
    one = sides[0][common[0]]
    ratio = one.n_test / one.n_train
    errors = [[side[fold].test_error or 0.0 for fold in common] for side in sides]
    return [
        Comparison(pair[a], pair[b], share, corrected_t_test(errors[a], errors[b], ratio))
        for a, b in ((0, 1), (1, 0))
    ]
