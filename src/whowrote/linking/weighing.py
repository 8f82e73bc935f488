r"""What the likeness of two accounts says, and what it makes of a prior over all pairs.

.. math:: \ln \mathrm{LR}_{ij} = b_0 + \sum_v b_v z^v_{ij}, \qquad
    p_{ij} = \frac{\pi\, \mathrm{LR}_{ij}}{1 - \pi + \pi\, \mathrm{LR}_{ij}}, \qquad
    \mathrm{FDR}(R) = \frac{1}{\lvert R \rvert} \sum_{ij \in R} (1 - p_{ij})

The curve is learnt from accounts cut in two: both halves of one against halves of two. It is a
logistic regression in which a pair of two accounts is a hundred times as probable as a pair of one,
since it is far out, not at even odds, that the ratio of one pair among a million has to hold; no
rarer, since among the pairs of two accounts are those by one person that are looked for, which
would then outweigh the known ones.

With calibrated ratios :math:`1 - p_{ij}` is the local false-discovery rate, and its mean over what
is reported the rate itself. The prior :math:`\pi` is the share of links among all pairs: given, or
the one under which the ratios of the corpus are likeliest (expectation-maximisation).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from whowrote.arrays import BoolArray, FloatArray, IntArray
from whowrote.ratios import ridge_logistic

ODDS = 0.01
"""Of one person, at which the curve is learnt."""
FAR, SHARE = 0.97, 0.03
"""Pairs of two accounts beyond this quantile all count, of the others so many, weighed up."""
PENALTY = 1e-2
DRAWS, STEPS = 20, 200
REACH = 10.0
"""How many times as rare as anything seen a likeness may count as, by the curve alone."""


@dataclass(frozen=True)
class Simulated:
    """Standings (pairs, views) of halves, and the accounts that they are of."""

    same: FloatArray
    owner: IntArray
    """(same,): the account whose halves they are."""
    different: FloatArray
    owners: IntArray
    """(different, 2)."""

    @classmethod
    def join(cls, parts: Sequence[Simulated]) -> Simulated:
        """Those of several platforms."""
        return cls(
            np.concatenate([part.same for part in parts]),
            np.concatenate([part.owner for part in parts]),
            np.concatenate([part.different for part in parts]),
            np.concatenate([part.owners for part in parts]),
        )


@dataclass(frozen=True)
class LinkRatio:
    """The curve, those of other samples of accounts, and what it was learnt from."""

    views: tuple[str, ...]
    weights: FloatArray
    """(views + 1,): the bias comes last."""
    draws: FloatArray
    accounts: int
    pairs: int
    """Of halves of different accounts."""
    asked: int
    """Pairs of accounts that the curve is asked about: next to all are by two people."""

    @classmethod
    def learn(
        cls, views: Sequence[str], known: Simulated, asked: int, random: np.random.Generator
    ) -> Self:
        """Logistic regression on halves, and again on other samples of their accounts."""
        far = known.different.sum(axis=1)
        kept_far = far >= np.quantile(far, FAR)
        kept = kept_far | (random.random(len(far)) < SHARE)
        X = np.concatenate([known.same, known.different[kept]])
        X = np.column_stack([X, np.ones(len(X))])
        same = np.arange(len(X)) < len(known.same)
        each = np.where(kept_far[kept], 1.0, 1.0 / SHARE)
        every = _Rows(X, same, np.concatenate([np.ones(len(known.same)), each]))
        codes = np.unique(known.owner, return_inverse=True)[1]
        ends = np.unique(known.owners[kept], return_inverse=True)[1].reshape(-1, 2)
        draws = []
        for _ in range(DRAWS):
            times = np.bincount(random.integers(0, codes.max() + 1, codes.max() + 1))
            times = np.pad(times, (0, codes.max() + 1 - len(times)))
            again = np.concatenate([times[codes], times[ends[:, 0]] * times[ends[:, 1]]])
            draws.append(every.curve(again.astype(np.float64)))
        weights = every.curve(np.ones(len(X)))
        return cls(tuple(views), weights, np.array(draws), len(known.same), len(far), asked)

    @property
    def most(self) -> float:
        """The largest ln of a ratio: nothing rarer than one in so many pairs has been seen.

        The pairs asked about have been seen as well; and the curve may reach ten times as far.
        """
        return float(np.log1p(REACH * (self.pairs + self.asked)))

    def log_lr(self, standings: FloatArray) -> FloatArray:
        """(pairs,): ln of the ratio, bounded."""
        return np.clip(_with_one(standings) @ self.weights, -self.most, self.most)

    def interval(self, standings: FloatArray) -> FloatArray:
        """(pairs, 2): the least and the largest of the curve and of its draws."""
        every = np.vstack([self.weights, self.draws])
        found = np.clip(_with_one(standings) @ every.T, -self.most, self.most)
        return np.stack([found.min(axis=1), found.max(axis=1)], axis=1)

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        named = dict(zip((*self.views, "bias"), self.weights.round(4).tolist(), strict=True))
        return {"weights": named, "accounts": self.accounts, "pairs": self.pairs}


def _with_one(standings: FloatArray) -> FloatArray:
    return np.column_stack([standings, np.ones(len(standings))])


@dataclass(frozen=True)
class _Rows:
    """What a curve is learnt from; ``each``: how many pairs a row stands for."""

    X: FloatArray
    same: BoolArray
    each: FloatArray

    def curve(self, times: FloatArray) -> FloatArray:
        """The curve if every row occurs so many times."""
        weight = self.each * times
        total = weight[self.same].sum()
        weight = np.where(self.same, weight, weight * total / weight[~self.same].sum() / ODDS)
        penalty = np.full(self.X.shape[1], PENALTY)
        offset = np.full(len(self.X), np.log(ODDS))
        return ridge_logistic(self.X, self.same, weight, penalty, offset)


@dataclass(frozen=True)
class Prior:
    """How many links are expected among how many pairs, and whether that was given."""

    links: float
    pairs: int
    given: bool

    @classmethod
    def estimate(cls, log_lr: FloatArray, pairs: int) -> Self:
        """The likeliest number; pairs that are not listed are taken to be no links."""
        ratio, links = np.exp(log_lr), max(1.0, len(log_lr) / 100)
        for _ in range(STEPS):
            share = min(links / pairs, 0.5)
            links = float((share * ratio / (1 - share + share * ratio)).sum())
        return cls(links, pairs, given=False)

    def probabilities(self, log_lr: FloatArray) -> FloatArray:
        """Of one person, for each pair."""
        share = min(self.links / self.pairs, 0.5)
        return np.asarray(share / (share + (1 - share) * np.exp(-log_lr)))


def rates(probabilities: FloatArray) -> FloatArray:
    """The false-discovery rate of reporting a pair and all before it; probabilities fall.

    >>> rates(np.array([1.0, 0.9, 0.5])).round(2).tolist()
    [0.0, 0.05, 0.2]
    """
    return np.asarray(np.cumsum(1.0 - probabilities) / np.arange(1, len(probabilities) + 1))
