r"""From wide sparse rows to one contrast per author: how much a text looks like his, not others'.

.. math:: c_k(x) = \frac1F \sum_{f=1}^{F} \left( w_{kf}^\top x + b_{kf} \right)

Each :math:`(w_{kf}, b_{kf})` is a linear support vector machine of author *k* against the rest,
learnt from all folds but *f*. A training row gets the answer of the one machine that has not seen
it, a new row the mean over all of them, which is one linear map. So the contrasts of training rows
spread as those of new rows do: what is learnt from them, and what is called unusual by them, holds
for texts never seen. A linear map also means that each n-gram's part in an answer can be read off.

Several *views* (ranges of columns) give several sets of contrasts side by side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from whowrote.arrays import FloatArray, IntArray
from whowrote.corpus.splits import deal
from whowrote.progress import tell

TOLERANCE = 0.03
"""Of the machines: a hundredth of scikit-learn's makes the same errors and takes twice as long."""
MANY_ROWS = 4000
"""From so many rows on, five folds do; fewer rows are better used by ten."""


def spread(codes: IntArray, groups: IntArray, n_folds: int, seed: int) -> IntArray:
    """A fold for every row: groups stay whole if they can, every author is in two folds at least.

    The rows of an author who would be in one fold only are dealt one by one: there is nothing else
    to hold out from him.

    >>> folds = spread(np.array([0, 0, 1, 1]), np.array([0, 1, 2, 2]), 2, 0)
    >>> sorted(folds[:2].tolist()), sorted(folds[2:].tolist())
    ([0, 1], [0, 1])
    """
    folds = deal(codes, groups, n_folds, np.random.default_rng(seed))
    lone = [k for k in range(int(codes.max()) + 1) if len(np.unique(folds[codes == k])) < 2]
    if not lone:
        return folds
    rows = np.flatnonzero(np.isin(codes, lone))
    units = groups.copy()
    units[rows] = int(groups.max()) + 1 + np.arange(len(rows))
    return deal(codes, units, n_folds, np.random.default_rng(seed))


def finer(folds: IntArray, codes: IntArray, groups: IntArray, seed: int) -> IntArray:
    """Two folds of each, groups whole where they were: what a coarse fold leaves out, both do.

    >>> finer(np.array([0, 0, 1]), np.array([0, 0, 0]), np.array([0, 1, 2]), 0).tolist()
    [0, 1, 2]
    """
    halves = np.zeros_like(folds)
    for fold in np.unique(folds):
        rows = np.flatnonzero(folds == fold)
        halves[rows] = deal(codes[rows], groups[rows], 2, np.random.default_rng(seed))
    return np.asarray(np.unique(2 * folds + halves, return_inverse=True)[1])


class Contrasts:
    """Cross-fitted linear machines over views of sparse rows.

    >>> X = sparse.csr_matrix([[1.0, 0], [0.9, 0.1], [0, 1.0], [0.2, 0.8]])
    >>> contrasts = Contrasts([slice(None)])
    >>> held_out = contrasts.fit_transform(X, np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]))
    >>> held_out.argmax(axis=1).tolist(), contrasts.transform(X).argmax(axis=1).tolist()
    ([0, 0, 1, 1], [0, 0, 1, 1])
    """

    def __init__(self, views: Sequence[slice], C: float = 1.0) -> None:
        self.views = tuple(views)
        self.C = C

    def fit_transform(
        self,
        X: sparse.csr_matrix,
        codes: IntArray,
        folds: IntArray,
        blind: sparse.csr_matrix | None = None,
    ) -> FloatArray:
        """Learn, and give every training row the contrasts of machines that have not seen it.

        ``blind`` has the rows as they are to be judged, where that is not as they are learnt from.
        """
        judged = X if blind is None else blind
        parts = [self._view(X[:, view], judged[:, view], codes, folds) for view in self.views]
        self.weights_ = tuple(weights for weights, _, _ in parts)
        self.bias_ = tuple(bias for _, bias, _ in parts)
        return np.hstack([held_out for _, _, held_out in parts])

    def _view(
        self, X: sparse.csr_matrix, judged: sparse.csr_matrix, codes: IntArray, folds: IntArray
    ) -> tuple[NDArray[np.float32], FloatArray, FloatArray]:
        held_out = np.empty((len(codes), int(codes.max()) + 1))
        numbers = np.unique(folds)
        weights, bias = np.zeros((X.shape[1], held_out.shape[1])), np.zeros(held_out.shape[1])
        for done, fold in enumerate(numbers):
            out = folds == fold
            machine = self._machine().fit(X[~out], codes[~out])
            w, b = _a_column_per_author(machine)
            held_out[out] = judged[out] @ w + b
            weights += w / len(numbers)
            bias += b / len(numbers)
            tell("contrasting the authors", done + 1, len(numbers))
        # Half precision in memory as on disk, so that a loaded model gives equal answers.
        return weights.astype(np.float16).astype(np.float32), bias, held_out

    def _machine(self) -> Any:
        from sklearn.svm import LinearSVC  # late: answers need none

        # Balanced, or an author would look rarer to the very machine that his text is held out of.
        return LinearSVC(C=self.C, tol=TOLERANCE, class_weight="balanced", random_state=0)

    def transform(self, X: sparse.csr_matrix) -> FloatArray:
        """The contrasts of new rows, (n, views x authors)."""
        X = X.astype(np.float32)
        parts = [
            X[:, view] @ weights + bias
            for view, weights, bias in zip(self.views, self.weights_, self.bias_, strict=True)
        ]
        return np.hstack(parts)

    @property
    def n_authors(self) -> int:
        """How many authors have a contrast."""
        return len(self.bias_[0])

    def state(self) -> dict[str, NDArray[Any]]:
        """What was learnt, as arrays for a model file."""
        arrays: dict[str, NDArray[Any]] = {}
        for number, (weights, bias) in enumerate(zip(self.weights_, self.bias_, strict=True)):
            arrays[f"weights.{number}"] = weights.astype(np.float16)
            arrays[f"bias.{number}"] = bias
        return arrays

    def restore(self, state: Mapping[str, NDArray[Any]]) -> Self:
        """The opposite of :meth:`state`."""
        numbers = range(len(self.views))
        self.weights_ = tuple(state[f"weights.{n}"].astype(np.float32) for n in numbers)
        self.bias_ = tuple(state[f"bias.{n}"] for n in numbers)
        return self


def _a_column_per_author(machine: Any) -> tuple[FloatArray, FloatArray]:
    """Scikit-learn gives two authors one map; give each his own."""
    w, b = machine.coef_.T, machine.intercept_
    return (np.hstack([-w, w]), np.concatenate([-b, b])) if w.shape[1] == 1 else (w, b)
