r"""From wide sparse rows to a contrast per author: how much a text looks like theirs, not others'.

.. math:: c_k(x) = \frac1F \sum_{f=1}^{F} \left( w_{kf}^\top x + b_{kf} \right)

Each :math:`(w_{kf}, b_{kf})` is a linear SVM of author *k* against the rest, learnt from all folds
but *f*. A training row gets the answer of the one SVM that has not seen it, a new row the mean over
all of them, which is one linear map. So the contrasts of training rows spread as those of new rows
do: what is learnt from them, and what is called unusual by them, holds for texts never seen. A
linear map also means that each n-gram's part in an answer can be read off.

Several *views* (ranges of columns) give several sets of contrasts side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from whowrote.arrays import Arrays, FloatArray, IntArray
from whowrote.progress import tell

TOLERANCE = 0.03
"""Of the SVMs: a hundredth of scikit-learn's makes the same errors and takes twice as long."""


class Contrasts:
    """Cross-fitted linear SVMs over views of sparse rows.

    >>> X = sparse.csr_matrix([[1.0, 0], [0.9, 0.1], [0, 1.0], [0.2, 0.8]])
    >>> contrasts = Contrasts([slice(None)])
    >>> held_out = contrasts.fit_transform(X, np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]))
    >>> held_out.argmax(axis=1).tolist(), contrasts.transform(X).argmax(axis=1).tolist()
    ([0, 0, 1, 1], [0, 0, 1, 1])
    """

    def __init__(self, views: Sequence[slice]) -> None:
        self.views = tuple(views)

    def fit_transform(
        self,
        X: sparse.csr_matrix,
        codes: IntArray,
        folds: IntArray,
        as_new: sparse.csr_matrix | None = None,
    ) -> FloatArray:
        """Learn, and give every training row the contrasts of SVMs that have not seen it.

        ``as_new`` has the rows as new texts would have them, where those differ.
        """
        new = X if as_new is None else as_new
        parts = [self._view(X[:, view], new[:, view], codes, folds) for view in self.views]
        self.weights_ = tuple(weights for weights, _, _ in parts)
        self.bias_ = tuple(bias for _, bias, _ in parts)
        return np.hstack([held_out for _, _, held_out in parts])

    def _view(
        self, X: sparse.csr_matrix, new: sparse.csr_matrix, codes: IntArray, folds: IntArray
    ) -> tuple[NDArray[np.float32], FloatArray, FloatArray]:
        held_out = np.empty((len(codes), int(codes.max()) + 1))
        numbers = np.unique(folds)
        weights, bias = np.zeros((X.shape[1], held_out.shape[1])), np.zeros(held_out.shape[1])
        for done, fold in enumerate(numbers):
            out = folds == fold
            svm = _svm().fit(X[~out], codes[~out])
            w, b = _a_column_per_author(svm)
            held_out[out] = new[out] @ w + b
            weights += w / len(numbers)
            bias += b / len(numbers)
            tell("contrasting the authors", done + 1, len(numbers))
        # Half precision in memory as on disk, so that a loaded model gives equal answers.
        return weights.astype(np.float16).astype(np.float32), bias, held_out

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

    def restore(self, state: Arrays) -> Self:
        """The opposite of :meth:`state`."""
        numbers = range(len(self.views))
        self.weights_ = tuple(state[f"weights.{n}"].astype(np.float32) for n in numbers)
        self.bias_ = tuple(state[f"bias.{n}"] for n in numbers)
        return self


def _svm() -> Any:
    from sklearn.svm import LinearSVC  # late: answers need none

    # Balanced, or an author would look rarer to the very SVM that their text is held out of.
    return LinearSVC(C=1.0, tol=TOLERANCE, class_weight="balanced", random_state=0)


def _a_column_per_author(svm: Any) -> tuple[FloatArray, FloatArray]:
    """Scikit-learn gives two authors one map; give each their own."""
    w, b = svm.coef_.T, svm.intercept_
    return (np.hstack([-w, w]), np.concatenate([-b, b])) if w.shape[1] == 1 else (w, b)
