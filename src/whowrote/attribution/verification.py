r"""Are two texts by one author? A likelihood ratio from how alike their rows are.

.. math:: \ln \mathrm{LR} = b + \sum_v w_v \cos(x_v, y_v) + c\, (\ln n_x + \ln n_y)

over the blocks *v* of the features (the neural vector; the n-grams), each text of :math:`n` words
being the mean of its passages. Short texts are less alike even by one author: hence the last term.
The curve is fitted on pairs of training texts and of single passages of them, as many by one author
as by two, so it holds for texts like those: their length, their genre, their topics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.special import expit

from whowrote.arrays import BoolArray, FloatArray, IntArray
from whowrote.attribution.answers import words_of
from whowrote.attribution.profiles import row_products, text_rows, unit_rows
from whowrote.attribution.rows import Read

PAIRS = 10_000
LEAST_PAIRS = 6
PAIR = np.array([[0, 1]])
LITTLE, STRENGTHS = 0.3, ((1.0, "weakly"), (2.0, "moderately"))
"""Of log10 of the ratio: below 2 to 1 it says little, from 100 to 1 on it speaks strongly."""


@dataclass(frozen=True)
class Verdict:
    """Whether one author wrote both texts, as evidence and as a probability.

    ``log10_lr`` is the logarithm of the likelihood ratio: 2 means that texts so alike are a hundred
    times as frequent by one author as by two; ``limited`` says that it would be larger if the curve
    had been learnt from more pairs. ``probability`` is what it makes of even odds.
    """

    log10_lr: float
    probability: float
    similarities: dict[str, float]
    limited: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def in_words(self) -> str:
        """How much the likelihood ratio says.

        >>> Verdict(0.1, 0.56, {}).in_words, Verdict(-1.5, 0.03, {}).in_words
        ('says little either way', 'speaks moderately for two authors')
        """
        size = abs(self.log10_lr)
        if size < LITTLE:
            return "says little either way"
        how = next((word for limit, word in STRENGTHS if size < limit), "strongly")
        return f"speaks {how} for {'one author' if self.log10_lr > 0 else 'two authors'}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Verifier:
    """The curve, how many pairs it comes from, and how well it parts them."""

    weights: tuple[float, ...]
    length_weight: float
    bias: float
    pairs: int
    auc: float

    def verdict(self, read: Read, blocks: Mapping[str, slice]) -> Verdict:
        """Compare the first two texts that were read, block by block of their features."""
        rows = text_rows(read)
        similar = [cosines(rows[:, own], PAIR)[0] for own in blocks.values()]
        length = np.log(text_words(read)).sum()
        log_lr = self.bias + np.dot(self.weights, similar) + self.length_weight * length
        most = self.most()
        bounded = float(np.clip(log_lr, -most, most))
        return Verdict(
            bounded / np.log(10).item(),
            float(expit(bounded)),
            dict(zip(blocks, map(float, similar), strict=True)),
            limited=bool(abs(log_lr) > most),
        )

    def most(self) -> float:
        r"""The largest :math:`\lvert \ln \mathrm{LR} \rvert`: that of :math:`1 + n` to one.

        Among n pairs of either kind nothing rarer than about one in n has been seen, so nothing
        rarer can be claimed, however far the curve goes on.
        """
        return float(np.log1p(self.pairs / 2))

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "weights": list(self.weights)}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """The opposite of :meth:`to_dict`."""
        return cls(**{**plain, "weights": tuple(plain["weights"])})


def text_words(read: Read) -> IntArray:
    """Words of every text."""
    return np.bincount(read.passages.document, words_of(read.passages.texts)).astype(np.intp)


def cosines(rows: sparse.csr_matrix, pairs: IntArray) -> FloatArray:
    """The cosine of every pair of rows."""
    unit = unit_rows(sparse.csr_matrix(rows))
    return row_products(unit[pairs[:, 0]], unit[pairs[:, 1]])


@dataclass(frozen=True)
class _Examples:
    """Pairs to learn from: similarities and lengths, and whether one author wrote both."""

    figures: FloatArray
    same: BoolArray


def _examples(
    rows: sparse.csr_matrix, words: IntArray, codes: IntArray, columns: Sequence[slice]
) -> _Examples:
    from whowrote.metrics import balanced_pairs  # late: answers need none

    pairs = balanced_pairs(codes, PAIRS)
    both = np.column_stack([pairs.left, pairs.right])
    similar = [cosines(rows[:, own], both) for own in columns]
    return _Examples(np.column_stack([*similar, np.log(words)[both].sum(axis=1)]), pairs.same)


def fit_verifier(read: Read, columns: Sequence[slice], codes: IntArray) -> Verifier | None:
    """Learn the curve from pairs of training texts; None where there are too few."""
    from sklearn.linear_model import LogisticRegression  # late: answers need none

    from whowrote.metrics import auc

    whole = _examples(text_rows(read), text_words(read), codes, columns)
    if len(whole.same) < LEAST_PAIRS:
        return None
    _, first = np.unique(read.passages.document, return_index=True)
    words = words_of([read.passages.texts[row] for row in first])
    part = _examples(sparse.csr_matrix(read.X)[first], words, codes, columns)
    figures = np.concatenate([whole.figures, part.figures])
    same = np.concatenate([whole.same, part.same])
    curve = LogisticRegression(C=100.0, max_iter=1000).fit(figures, same)
    *weights, length_weight = curve.coef_[0].tolist()
    return Verifier(
        tuple(weights),
        length_weight,
        float(curve.intercept_[0]),
        len(whole.same),
        auc(curve.decision_function(whole.figures), whole.same),
    )
