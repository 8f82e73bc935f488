r"""Whether two methods differ, when their folds share training texts.

.. math:: t = \frac{\bar d}{\sqrt{\left(\frac1J + \frac{n_{\mathrm{test}}}{n_{\mathrm{train}}}
    \right) s_d^2}}, \qquad t \sim t_{J - 1}

:math:`d_j` is the difference of the two test errors in fold *j*. Folds overlap in what they train
on, so their differences are not independent and the plain paired t-test is far too sure; the second
term in the bracket makes up for it (Nadeau and Bengio, Machine Learning 52, 2003).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from whowrote.errors import InputError


@dataclass(frozen=True)
class Paired:
    """A difference of errors (first minus second), its statistic and two-sided p-value."""

    difference: float
    t: float
    p: float
    n_folds: int


def corrected_t_test(
    first: Sequence[float], second: Sequence[float], test_over_train: float
) -> Paired:
    """Compare errors of the same folds; ``test_over_train`` is n_test / n_train of a fold.

    >>> corrected_t_test([0.10, 0.12, 0.11], [0.13, 0.14, 0.13], 0.25).p < 0.2
    True
    """
    if len(first) != len(second) or len(first) < 2:
        raise InputError(
            f"there are {len(first)} and {len(second)} folds; a paired test needs the same ones on "
            "both sides, two at the least"
        )
    differences = np.asarray(first, dtype=float) - np.asarray(second, dtype=float)
    n, mean = len(differences), float(differences.mean())
    error = math.sqrt((1 / n + test_over_train) * float(differences.var(ddof=1)))
    with np.errstate(divide="ignore", invalid="ignore"):
        t = float(np.nan_to_num(np.float64(mean) / error, posinf=math.inf, neginf=-math.inf))
    return Paired(mean, t, float(2 * stats.t.sf(abs(t), n - 1)), n)
