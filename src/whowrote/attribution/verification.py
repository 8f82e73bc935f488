r"""Are two texts by one author? A likelihood ratio from how alike their rows are.

.. math:: \ln \mathrm{LR} = b + \sum_v w_v \cos(x_v, y_v)

over the blocks *v* of the features (the neural vector; the n-grams), each text being the mean of
its passages. The curve is fitted on pairs of training texts, as many by one author as by two, so it
holds for texts like those: their length, their genre, their topics.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from whowrote.attribution.profiles import blocks, text_rows, unit_rows
from whowrote.attribution.reading import Read
from whowrote.features.interface import TextFeatures
from whowrote.features.verification import auc, balanced_pairs

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
PAIRS = 10_000
LEAST_PAIRS = 6


@dataclass(frozen=True)
class Verdict:
    """Whether one author wrote both texts, as evidence and as a probability.

    ``log10_lr`` is the logarithm of the likelihood ratio: 2 means that texts so alike are a hundred
    times as frequent by one author as by two. ``probability`` is what it makes of even odds.
    """

    log10_lr: float
    probability: float
    similarities: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Verifier:
    """The curve, how many pairs it comes from, and how well it parts them."""

    weights: tuple[float, ...]
    bias: float
    pairs: int
    auc: float

    def verdict(self, read: Read, features: TextFeatures) -> Verdict:
        """Judge the first two texts that were read."""
        similar = similarities(read, features, np.array([[0, 1]]))
        log_lr = self.bias + float(np.dot(self.weights, list(similar.values()))[0])
        return Verdict(
            log_lr / float(np.log(10)),
            float(expit(log_lr)),
            {name: float(value[0]) for name, value in similar.items()},
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "weights": list(self.weights)}


def similarities(read: Read, features: TextFeatures, pairs: IntArray) -> dict[str, FloatArray]:
    """The cosine of every pair of texts, block by block."""
    rows = text_rows(read)
    found = {}
    for name, columns in blocks(features).items():
        unit = unit_rows(sparse.csr_matrix(rows[:, columns]))
        products = unit[pairs[:, 0]].multiply(unit[pairs[:, 1]])
        found[name] = np.asarray(products.sum(axis=1), dtype=np.float64).ravel()
    return found


def fit_verifier(read: Read, features: TextFeatures, codes: IntArray) -> Verifier | None:
    """Learn the curve from pairs of training texts; None where there are too few."""
    pairs = balanced_pairs(codes, PAIRS)
    if len(pairs.same) < LEAST_PAIRS:
        return None
    both = np.column_stack([pairs.left, pairs.right])
    similar = np.column_stack(list(similarities(read, features, both).values()))
    curve = LogisticRegression(C=100.0).fit(similar, pairs.same)
    return Verifier(
        tuple(curve.coef_[0].tolist()),
        float(curve.intercept_[0]),
        len(pairs.same),
        auc(curve.decision_function(similar), pairs.same),
    )
