r"""Scores into probabilities with one number: the temperature.

.. math:: \log p(k \mid x) = s_k(x) / T - \log \sum_j \exp(s_j(x) / T)

A temperature cannot change the order of the classes, so a calibrated machine answers exactly what
the uncalibrated one answers. That is why it is used here and Platt's sigmoid per class is not.
*T* is the minimiser of the log-loss on cross-validated scores. A right answer's target is
(n + 1)/(n + 2) and not 1 (Platt, 1999): a few texts, all answered rightly, are no proof of
certainty.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn.model_selection import StratifiedKFold

from whowrote.errors import InputError

FloatArray = NDArray[np.float64]
LOG_BOUNDS = (-7.0, 7.0)


def log_probabilities(scores: FloatArray, temperature: float) -> FloatArray:
    """Row-wise log-softmax of ``scores / temperature``."""
    return np.asarray(log_softmax(scores / temperature, axis=1), dtype=np.float64)


def fit_temperature(scores: FloatArray, codes: NDArray[np.intp]) -> float:
    """Minimise the smoothed log-loss over log T; it is convex in 1/T, so the minimum is one.

    >>> rng = np.random.default_rng(0)
    >>> scores = rng.normal(size=(5000, 3))
    >>> codes = np.array([rng.choice(3, p=np.exp(row)) for row in log_probabilities(scores, 0.5)])
    >>> abs(fit_temperature(scores, codes) - 0.5) < 0.05
    True
    """
    n, n_classes = scores.shape
    wrong = 1.0 / (n + 2.0) / (n_classes - 1)
    targets = np.full(scores.shape, wrong)
    targets[np.arange(n), codes] = (n + 1.0) / (n + 2.0)

    def loss(log_temperature: float) -> float:
        log_proba = log_probabilities(scores, float(np.exp(log_temperature)))
        return -float(np.sum(targets * log_proba) / n)

    return float(np.exp(minimize_scalar(loss, bounds=LOG_BOUNDS, method="bounded").x))


def cross_scores(
    score: Callable[[Any, NDArray[np.intp], Any], FloatArray],
    X: Any,
    codes: NDArray[np.intp],
    *,
    n_folds: int,
    random_state: int | None,
) -> FloatArray:
    """Scores of every row from a machine that has not seen it: ``score(X_train, y_train, X_test)``.

    An author with fewer rows than folds lowers the number of folds; one row alone is an error.
    """
    counts = np.bincount(codes)
    if counts.min() < 2:
        raise InputError(
            f"class number {int(counts.argmin())} has {counts.min()} row; calibrated "
            "probabilities need at least 2 of each class: add texts or set probability=False"
        )
    folder = StratifiedKFold(
        min(n_folds, int(counts.min())), shuffle=True, random_state=random_state
    )
    scores = np.empty((len(codes), len(counts)))
    for train, test in folder.split(codes, codes):
        scores[test] = score(X[train], codes[train], X[test])
    return scores
