r"""How well vectors tell whether two texts are by one author, on authors never trained on.

.. math:: \text{AUC} = P(s_\text{same} > s_\text{different}), \qquad
    c@1 = \tfrac1n\bigl(n_c + n_u \tfrac{n_c}{n}\bigr), \qquad
    F_{0.5u} = \frac{1.25\, t_p}{1.25\, t_p + 0.25\,(f_n + n_u) + f_p}

PAN's figures: an answer of exactly 0.5 is no answer, and :math:`n_u` counts those. The Brier score
is the mean squared error of the probability (PAN prints one minus it).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Pairs:
    """Rows on the left, rows on the right, and whether one author wrote both."""

    left: IntArray
    right: IntArray
    same: NDArray[np.bool_]


def balanced_pairs(authors: IntArray, n_pairs: int, seed: int = 0) -> Pairs:
    """As many pairs by one author as by two; no pair twice, and all there are if that is fewer.

    >>> pairs = balanced_pairs(np.array([0, 0, 1, 1, 2]), 4)
    >>> pairs.same.tolist(), len(pairs.left)
    ([True, True, False, False], 4)
    """
    random = np.random.default_rng(seed)
    same = _same_pairs(authors, n_pairs // 2, random)
    other = _other_pairs(authors, len(same), random)
    both = np.concatenate([same, other])
    return Pairs(both[:, 0], both[:, 1], np.arange(len(both)) < len(same))


def _same_pairs(authors: IntArray, n: int, random: np.random.Generator) -> IntArray:
    """Round by round a new pair of each author, so that none of them dominates."""
    order = np.lexsort((random.random(len(authors)), authors))
    found = []
    for gap in range(1, max(2, int(np.bincount(authors).max()))):
        left, right = order[:-gap], order[gap:]
        kin = np.flatnonzero(authors[left] == authors[right])
        found.append(np.stack([left[kin], right[kin]], axis=1)[random.permutation(len(kin))])
        if sum(map(len, found)) >= n:
            break
    return np.asarray(np.concatenate(found)[:n], dtype=np.int64)


def _other_pairs(authors: IntArray, n: int, random: np.random.Generator) -> IntArray:
    drawn = random.integers(0, len(authors), (8 * n + 64, 2))
    drawn = np.unique(np.sort(drawn, axis=1), axis=0)
    drawn = drawn[authors[drawn[:, 0]] != authors[drawn[:, 1]]]
    return np.asarray(drawn[random.permutation(len(drawn))][:n], dtype=np.int64)


def auc(scores: FloatArray, same: NDArray[np.bool_]) -> float:
    """The chance that a pair by one author scores above one by two; ties count half.

    >>> auc(np.array([0.9, 0.8, 0.1, 0.8]), np.array([True, True, False, False]))
    0.875
    """
    values, place = np.unique(scores, return_inverse=True)
    counts = np.bincount(place, minlength=len(values))
    middle = (np.cumsum(counts) - counts + np.cumsum(counts) + 1) / 2
    n_same, n_other = int(same.sum()), int((~same).sum())
    return float((middle[place][same].sum() - n_same * (n_same + 1) / 2) / (n_same * n_other))


def cosines(vectors: FloatArray, pairs: Pairs) -> FloatArray:
    """The cosine of each pair."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray((unit[pairs.left] * unit[pairs.right]).sum(axis=1))


def recall_at_1(vectors: FloatArray, authors: IntArray) -> float:
    """How often the nearest of all authors' second texts is the same author's, asked by the first.

    One text of every author is the question, another one the answer to be found.
    """
    first = np.flatnonzero(np.diff(authors, prepend=-1))
    first = first[np.append(authors, -1)[first + 1] == authors[first]]
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    nearest = (unit[first] @ unit[first + 1].T).argmax(axis=1)
    return float((nearest == np.arange(len(first))).mean())


@dataclass(frozen=True)
class Verification:
    """PAN's figures for one set of pairs."""

    n: int
    auc: float
    c_at_1: float
    f_05_u: float
    f1: float
    brier: float

    def to_dict(self) -> dict[str, float]:
        """Plain values."""
        return asdict(self)


def verify(probability: FloatArray, same: NDArray[np.bool_]) -> Verification:
    """All figures of the probabilities that two texts are by one author.

    >>> verify(np.array([0.9, 0.5, 0.2, 0.6]), np.array([True, True, False, False])).c_at_1
    0.625
    """
    p = np.asarray(probability, dtype=np.float64)
    n, unanswered = len(p), int((p == 0.5).sum())
    yes, no = p > 0.5, p < 0.5
    tp, fp, fn = int((yes & same).sum()), int((yes & ~same).sum()), int((no & same).sum())
    right = tp + int((no & ~same).sum())
    return Verification(
        n=n,
        auc=auc(p, same),
        c_at_1=(right + unanswered * right / n) / n,
        f_05_u=_ratio(1.25 * tp, 1.25 * tp + 0.25 * (fn + unanswered) + fp),
        f1=_ratio(2 * tp, 2 * tp + fp + fn),
        brier=float(((p - same) ** 2).mean()),
    )


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
