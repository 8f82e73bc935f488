r"""Likelihood ratios: what they cost, how far they may go, what they are called, what they change.

.. math:: C_\mathrm{llr}^\mathrm{min} = C_\mathrm{llr}(\mathrm{PAV}(s)), \qquad
    \frac{P(H_1 \mid E)}{P(H_2 \mid E)} = \mathrm{LR}\, \frac{P(H_1)}{P(H_2)}

``pav`` finds the nondecreasing ratios that fit pairs of known authorship best (pool adjacent
violators), ``cllr_min`` what they cost: no monotone recalibration does better. ``bounds`` are the
empirical limits of Vergeer et al. (2016): beyond them a ratio would cost more than no ratio, if one
misleading pair more had been seen on either side. Scores and ratios go in as logarithms to base 10,
with whether one person wrote both texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logsumexp

from whowrote.arrays import BoolArray, FloatArray
from whowrote.errors import InputError
from whowrote.metrics import auc, cllr

STEP = 0.01
"""Of the grid of thresholds, in log10: how finely bounds are found."""
EXTREME = 9.0
"""No log10 ratio counts as more when bounds are looked for."""
LN10 = float(np.log(10.0))
LEAST_LOG = -700.0
"""Of a probability: what underflows counts as so much, so that no ratio is infinite."""
SCALE = (
    (0.30103, "no noteworthy support"),
    (1.0, "weak support"),
    (2.0, "moderate support"),
    (3.0, "moderately strong support"),
    (4.0, "strong support"),
    (6.0, "very strong support"),
    (float("inf"), "extremely strong support"),
)
"""The verbal scale of the ENFSI guideline (2015): log10 of the ratio below which the words hold."""
PRIORS = (0.000001, 0.001, 0.01, 0.1, 0.5, 0.9)
"""Probabilities before the texts are read for which a table shows what the ratio makes of them."""


# -- curves -------------------------------------------------------------------------------------


def ridge_logistic(
    X: FloatArray,
    same: BoolArray,
    weight: FloatArray,
    penalty: FloatArray,
    offset: FloatArray | None = None,
) -> FloatArray:
    r"""Minimise :math:`\sum_i w_i \ln(1 + e^{-y_i (o_i + x_i' b)}) + \sum_j \lambda_j b_j^2 / 2`.

    Newton's steps, halved until they descend.
    """
    start = np.zeros(len(X)) if offset is None else offset
    sign, found = np.where(same, 1.0, -1.0), np.zeros(X.shape[1])

    def loss(b: FloatArray) -> float:
        risk = weight @ np.logaddexp(0.0, -sign * (start + X @ b))
        return float(risk + penalty @ (b * b) / 2)

    now = loss(found)
    for _ in range(100):
        p = expit(start + X @ found)
        slope = X.T @ (weight * (p - same)) + penalty * found
        step = np.linalg.solve((X.T * (weight * p * (1 - p))) @ X + np.diag(penalty), slope)
        size = 1.0
        while size > 1e-6 and loss(found - size * step) > now:
            size /= 2
        found = found - size * step
        before, now = now, loss(found)
        if before - now < 1e-10 * (1 + abs(now)):
            break
    return found


# -- the best monotone ratios --------------------------------------------------------------------


def pav(scores: FloatArray, same: BoolArray, misleading: int = 0) -> FloatArray:
    """log10 of the nondecreasing ratios that fit best, one per score; equal scores have one ratio.

    Both kinds of pairs weigh the same in all. Where only one kind lies, the ratio is infinite;
    ``misleading`` adds so many pairs of the other kind beyond either end, and nothing is.

    >>> pav(np.array([1.0, 2.0, 3.0, 4.0]), np.array([False, True, False, True])).tolist()
    [-inf, 0.0, 0.0, inf]
    """
    _check_pairs(scores, same)
    x, y = _with_misleading(np.asarray(scores, dtype=np.float64), same, misleading)
    values, place = np.unique(x, return_inverse=True)
    # So that the sums of both kinds are equal whatever their numbers.
    for_same = np.bincount(place, np.where(y, (~y).sum(), 0), len(values)).astype(float)
    for_other = np.bincount(place, np.where(y, 0, y.sum()), len(values)).astype(float)
    with np.errstate(divide="ignore"):
        found = np.log10(_pooled(for_same, for_other))
    return np.asarray(found[place[: len(scores)]])


def _with_misleading(
    scores: FloatArray, same: BoolArray, misleading: int
) -> tuple[FloatArray, BoolArray]:
    above, below = np.full(misleading, scores.max() + 1), np.full(misleading, scores.min() - 1)
    x = np.concatenate([scores, above, below])
    return x, np.concatenate([same, np.zeros(misleading, bool), np.ones(misleading, bool)])


def _pooled(for_same: FloatArray, for_other: FloatArray) -> FloatArray:
    """same / other of each place after neighbours that fall were pooled."""
    blocks: list[tuple[float, float, int]] = []
    for a, b in zip(for_same.tolist(), for_other.tolist(), strict=True):
        blocks.append((a, b, 1))
        # a1/(a1 + b1) >= a2/(a2 + b2), without a division
        while len(blocks) > 1 and blocks[-2][0] * blocks[-1][1] >= blocks[-1][0] * blocks[-2][1]:
            right, left = blocks.pop(), blocks.pop()
            blocks.append((left[0] + right[0], left[1] + right[1], left[2] + right[2]))
    a, b, times = (np.array(column) for column in zip(*blocks, strict=True))
    return np.repeat(np.divide(a, b, out=np.full(len(a), np.inf), where=b > 0), times)


def cllr_min(scores: FloatArray, same: BoolArray) -> float:
    """The cost in bits of the best monotone ratios: what the scores tell, however calibrated.

    >>> cllr_min(np.array([1.0, 2.0]), np.array([False, True]))
    0.0
    """
    return cllr(pav(scores, same) * LN10, same)


# -- how far ratios may go -----------------------------------------------------------------------


@dataclass(frozen=True)
class Bounds:
    """log10 of the smallest and the largest ratio that the pairs seen so far bear out."""

    low: float
    high: float

    def clip(self, log10_lr: float) -> float:
        """The ratio, or the bound beyond which it lies.

        >>> Bounds(-1.0, 2.0).clip(3.5)
        2.0
        """
        return float(min(max(log10_lr, self.low), self.high))


def bounds(log10_lr: FloatArray, same: BoolArray, *, step: float = STEP) -> Bounds:
    """Empirical bounds: thresholds at which deciding by the ratios is no worse than without them.

    >>> found = bounds(np.array([-2.0] * 20 + [2.0] * 20), np.arange(40) >= 20)
    >>> round(found.low, 2), round(found.high, 2)
    (-1.3, 1.3)
    """
    _check_pairs(log10_lr, same)
    llr = np.clip(log10_lr, -EXTREME, EXTREME)
    n_same, n_other = int(same.sum()), int((~same).sum())
    least = max(float(llr.min()), -np.log10(n_same + 1))
    most = min(float(llr.max()), np.log10(n_other + 1))
    first = min(0, int(np.floor_divide(least, step)))
    last = max(0, int(np.floor_divide(most, step)) + 1)
    threshold = np.linspace(first * step, last * step, last - first + 1)
    neutral = _cost(np.zeros_like(llr), same, threshold, 0)
    worse = neutral / _cost(llr, same, threshold, 1) < 1
    low = np.max(threshold[(threshold <= 0) & worse] + step, initial=float(threshold.min()))
    high = np.min(threshold[(threshold >= 0) & worse] - step, initial=float(threshold.max()))
    return Bounds(min(float(low), 0.0), max(float(high), 0.0))


def _cost(llr: FloatArray, same: BoolArray, threshold: FloatArray, misleading: int) -> FloatArray:
    """Missed pairs by one person, and false ones as often as the threshold says they cost."""
    ratio, limit = 10.0**llr, 10.0**threshold
    n_same, n_other = int(same.sum()), int((~same).sum())
    hit = n_same - np.searchsorted(np.sort(ratio[same]), limit, side="right")
    false = n_other - np.searchsorted(np.sort(ratio[~same]), limit, side="right") + misleading
    missed = 1 - hit / (n_same + misleading)
    return np.asarray(missed + limit * (false / (n_other + misleading)))


# -- one set of ratios, summed up ----------------------------------------------------------------


@dataclass(frozen=True)
class RatioQuality:
    """How good log10 ratios of pairs of known authorship are.

    ``misleading_same`` is the share of pairs by one person with a ratio below 1,
    ``misleading_different`` that of pairs by two with one above 1.
    """

    same: int
    different: int
    cllr: float
    cllr_min: float
    auc: float
    misleading_same: float
    misleading_different: float
    bounds: Bounds

    @property
    def error(self) -> float:
        """Mean of both misleading shares: how often a ratio points to the wrong proposition."""
        return (self.misleading_same + self.misleading_different) / 2

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "error": self.error}


def ratio_quality(log10_lr: FloatArray, same: BoolArray) -> RatioQuality:
    """All figures of ratios.

    >>> found = ratio_quality(np.array([1.0, -1.0, -1.0]), np.array([True, True, False]))
    >>> found.misleading_same, found.misleading_different
    (0.5, 0.0)
    """
    _check_pairs(log10_lr, same)
    return RatioQuality(
        same=int(same.sum()),
        different=int((~same).sum()),
        cllr=cllr(log10_lr * LN10, same),
        cllr_min=cllr_min(log10_lr, same),
        auc=auc(log10_lr, same),
        misleading_same=float((log10_lr[same] < 0).mean()),
        misleading_different=float((log10_lr[~same] > 0).mean()),
        bounds=bounds(log10_lr, same),
    )


@dataclass(frozen=True)
class Tippett:
    """For each ratio (log10, rising) the share of pairs of either kind with one at least as large.

    ``different`` at 0 is the share of pairs by two people that point to one person.
    """

    log10_lr: FloatArray
    same: FloatArray
    different: FloatArray


def tippett(log10_lr: FloatArray, same: BoolArray) -> Tippett:
    """The curves of both kinds at every ratio that occurs.

    >>> found = tippett(np.array([-1.0, 0.5, 1.0]), np.array([False, False, True]))
    >>> found.same.tolist(), found.different.tolist()
    ([1.0, 1.0, 1.0], [1.0, 0.5, 0.0])
    """
    _check_pairs(log10_lr, same)
    at = np.unique(log10_lr)
    shares = [
        1.0 - np.searchsorted(np.sort(log10_lr[own]), at, side="left") / own.sum()
        for own in (same, ~same)
    ]
    return Tippett(at, np.asarray(shares[0]), np.asarray(shares[1]))


def _check_pairs(scores: FloatArray, same: BoolArray) -> None:
    if scores.ndim != 1 or scores.shape != same.shape or same.all() or not same.any():
        raise InputError(
            f"scores has shape {scores.shape} and same {same.shape} with {int(same.sum())} true; "
            "there must be one entry per pair and both kinds of pairs: add texts by more people"
        )
    if np.isnan(scores).any():
        raise InputError("scores has a missing entry; every pair needs a number: leave it out")


# -- one of several, against the others ----------------------------------------------------------


def against_others(log_p: FloatArray, log_prior: FloatArray, limit: float = EXTREME) -> FloatArray:
    r"""log10 ratio of each of several propositions against the others, from their probabilities.

    .. math:: \mathrm{LR}_c = \frac{p_c}{\sum_{j \ne c} p_j} \Big/
        \frac{\pi_c}{\sum_{j \ne c} \pi_j}

    A row of ln p per text; ``log_prior`` is what p was computed with. Never beyond ``limit``.

    >>> against_others(np.log([[0.8, 0.1, 0.1]]), np.log([1 / 3] * 3)).round(2).tolist()
    [[0.9, -0.65, -0.65]]
    """
    columns = range(log_p.shape[1])
    with np.errstate(divide="ignore"):
        after, before = (
            np.stack([one[:, c] - logsumexp(np.delete(one, c, axis=1), axis=1) for c in columns], 1)
            for one in (np.maximum(log_p, LEAST_LOG), log_prior[None])
        )
    return np.asarray(np.clip((after - before) / LN10, -limit, limit))


# -- in words, and with a prior ------------------------------------------------------------------


def strength(log10_lr: float) -> str:
    """The words of the scale for a ratio or its inverse.

    >>> strength(-1.5)
    'moderate support'
    """
    return next(name for limit, name in SCALE if abs(log10_lr) < limit)


def verbal(log10_lr: float, first: str, second: str) -> str:
    """The ratio in the words of the ENFSI scale, with the proposition that it supports.

    >>> verbal(1.5, "Ann wrote it", "another person wrote it")
    'moderate support for the proposition that Ann wrote it'
    >>> verbal(-0.1, "Ann wrote it", "another person wrote it")
    'no noteworthy support for either proposition'
    """
    words = strength(log10_lr)
    if words == SCALE[0][1]:
        return f"{words} for either proposition"
    return f"{words} for the proposition that {first if log10_lr > 0 else second}"


@dataclass(frozen=True)
class Posterior:
    """The probability of the first proposition before the texts were read, and after."""

    prior: float
    posterior: float
    low: float
    high: float


def posteriors(
    log10_lr: float, low: float, high: float, priors: Sequence[float] = PRIORS
) -> tuple[Posterior, ...]:
    """What the ratio and the limits of its interval make of each prior.

    >>> [round(one.posterior, 3) for one in posteriors(1.0, 1.0, 1.0, (0.01, 0.5))]
    [0.092, 0.909]
    """
    for prior in priors:
        if not 0.0 < prior < 1.0:
            raise InputError(f"prior is {prior}; it must lie between 0 and 1: give 0.5")

    def after(prior: float, ratio: float) -> float:
        return float(expit(np.log(prior / (1.0 - prior)) + ratio * LN10))

    return tuple(Posterior(p, after(p, log10_lr), after(p, low), after(p, high)) for p in priors)


def as_ratio(log10_lr: float) -> str:
    """A ratio as people read it, two digits; below 1 as its inverse.

    >>> as_ratio(1.53), as_ratio(-1.0), as_ratio(0.0), as_ratio(4.1)
    ('34', '1/10', '1.0', '13,000')
    """
    size = 10.0 ** abs(log10_lr)
    digits = f"{float(f'{size:.2g}'):,.0f}" if size >= 9.95 else f"{size:.1f}"
    return digits if log10_lr >= 0 or digits == "1.0" else f"1/{digits}"
