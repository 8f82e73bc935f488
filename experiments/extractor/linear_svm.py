"""The linear SVM on vectors under cross-validation: what an extractor is measured by."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold

from whowrote_experiments.svm_paths import decisions as decisions


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
