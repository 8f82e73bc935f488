r"""A linear SVM on few columns, exact and quick.

.. math:: \min_w \tfrac12 \lVert w \rVert^2 + C \sum_i \max(0, 1 - y_i\, w^\top x_i)^2

for each author against all others, the constant being one of the columns: the very problem that
``sklearn.svm.LinearSVC(dual=False)`` solves, so there is one answer. Newton's method finds it in
about ten steps, each of which is one product of matrices; on 20,000 x 200 vectors and 30 authors
that is seconds where coordinate methods take a minute.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler

FloatArray = NDArray[np.float64]


def fit(X: FloatArray, y: FloatArray, C: float, tolerance: float = 1e-6) -> FloatArray:
    """The weights (columns,) for signs y; X has its constant column already."""
    w = np.zeros(X.shape[1])
    answers = np.zeros(len(X))
    first = None
    for _ in range(50):
        slack = 1 - y * answers
        active = np.flatnonzero(slack > 0)
        near = X[active]
        gradient = w - 2 * C * near.T @ (y[active] * slack[active])
        first = first or float(np.linalg.norm(gradient))
        if np.linalg.norm(gradient) <= tolerance * first:
            break
        hessian = 2 * C * near.T @ near
        hessian[np.diag_indices_from(hessian)] += 1
        step = -np.linalg.solve(hessian, gradient)
        w, answers = _descend(X, y, C, w, answers, step, gradient)
    return w


def _descend(
    X: FloatArray,
    y: FloatArray,
    C: float,
    w: FloatArray,
    answers: FloatArray,
    step: FloatArray,
    gradient: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Halve the step until it improves enough."""
    moved, slope, now = X @ step, float(gradient @ step), _objective(w, y * answers, C)
    size = 1.0
    while (
        _objective(w + size * step, y * (answers + size * moved), C) > now + 1e-4 * size * slope
        and size > 1e-8
    ):
        size /= 2
    return w + size * step, answers + size * moved


def _objective(w: FloatArray, margins: FloatArray, C: float) -> float:
    slack = np.maximum(0, 1 - margins)
    return float(w @ w / 2 + C * slack @ slack)


def decisions(X: FloatArray, codes: NDArray[np.int64], new: FloatArray, C: float) -> FloatArray:
    """(new rows, classes): standardise, fit every class against the rest, answer."""
    scaler = StandardScaler().fit(X)
    old, new = (np.column_stack([scaler.transform(v), np.ones(len(v))]) for v in (X, new))
    signs = [np.where(codes == k, 1.0, -1.0) for k in range(int(codes.max()) + 1)]
    return new @ np.stack([fit(old, y, C) for y in signs], axis=1)


def cross_validated_errors(
    X: NDArray[np.floating], authors: NDArray[np.str_], C: float = 0.1, folds: int = 5
) -> list[float]:
    """The share of wrong answers in each of the stratified folds (shuffled, seed 0)."""
    X = np.asarray(X, dtype=np.float64)
    _, codes = np.unique(authors, return_inverse=True)
    errors = []
    for train, test in StratifiedKFold(folds, shuffle=True, random_state=0).split(X, codes):
        answers = decisions(X[train], codes[train], X[test], C).argmax(axis=1)
        errors.append(float((answers != codes[test]).mean()))
    return errors
