r"""Which accounts belong to one person: rows, neighbours, standings, ratios, a controlled list.

.. math:: \text{accounts} \to \{a_i\} \to \{(i, j) : j \in N_K(i)\} \to z_{ij} \to \mathrm{LR}_{ij}
    \to p_{ij} \to R = \{ij : \mathrm{FDR} \le \alpha\}

.. math:: \ln \mathrm{LR}_{ij} = b_0 + \sum_v b_v z^v_{ij}, \qquad
    p_{ij} = \frac{\pi\, \mathrm{LR}_{ij}}{1 - \pi + \pi\, \mathrm{LR}_{ij}}, \qquad
    \mathrm{FDR}(R) = \frac{1}{\lvert R \rvert} \sum_{ij \in R} (1 - p_{ij})

A pair counts by its standing among the nearest of both, adaptive symmetric normalisation:

.. math:: z_{ij} = \tfrac12 \left(\frac{s_{ij} - m_{i \setminus j}}{\sigma_{i \setminus j}}
    + \frac{s_{ij} - m_{j \setminus i}}{\sigma_{j \setminus i}}\right)

:math:`m_{i \setminus j}` and :math:`\sigma_{i \setminus j}` are the mean and the spread of the
likeness of the accounts nearest to *i*, without *j*. Some accounts are near to everybody; a
likeness counts by how far it stands out of what is usual for both. In speaker recognition it is
known as AS-norm. Three parts of it are by the logarithm of the ratio :math:`s`, one by the cosine
in the same place, which trusts accounts of few texts more.

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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from whowrote.arrays import BoolArray, FloatArray, IntArray
from whowrote.errors import InputError
from whowrote.linking.accounts import (
    MOST_EXACT,
    Accounts,
    Nearest,
    Neighbours,
    Points,
    View,
    exact_neighbours,
    halves,
    neighbours,
    view_of,
)
from whowrote.progress import tell
from whowrote.ratios import ridge_logistic

MOST_CUT, LEAST_CUT = 1500, 20
"""Accounts that are cut in two to learn from, at most and at least."""
SAMPLE, LEAST_CHANCE = 200, 0.01
"""Accounts whose pairs are all weighed to see what pruning loses, of probabilities from here on."""


@dataclass(frozen=True)
class Found:
    """Candidate pairs, the likeliest first, with everything that was weighed."""

    pairs: IntArray
    standings: FloatArray
    cosines: FloatArray
    log_lr: FloatArray
    probabilities: FloatArray
    ratio: LinkRatio
    prior: Prior
    recall: float
    """Share of the nearest accounts that the search found."""
    kept: float
    """Share of the links expected among pairs worth a review that are candidates, on a sample."""

    def rates(self) -> FloatArray:
        """False-discovery rate of each pair and all before it."""
        return rates(self.probabilities)

    def reported(self, fdr: float) -> int:
        """How many of the first pairs can be reported at a false-discovery rate."""
        within = np.flatnonzero(self.rates() <= fdr)
        return int(within[-1]) + 1 if len(within) else 0


def find_links(
    accounts: Accounts,
    *,
    expected: float | None = None,
    most_exact: int = MOST_EXACT,
    random_state: int = 0,
) -> Found:
    """All candidate pairs of accounts, weighed; across platforms where there are two."""
    random = np.random.default_rng([random_state, 43])
    half = halves(accounts, random)
    _check(accounts, half)
    views = {name: view_of(accounts, name, half) for name in accounts.views}
    search = _Search(accounts, views, most_exact, random_state)
    known = _simulated(accounts, half, views, random)
    ratio = LinkRatio.learn(tuple(views), known, search.pairs_in_all(), random)
    pairs = search.candidates()
    standings, cosines = search.weigh(pairs)
    log_lr = ratio.log_lr(standings)
    total = ratio.asked
    prior = Prior.estimate(log_lr, total) if expected is None else Prior(expected, total, True)
    probabilities = prior.probabilities(log_lr)
    order = np.argsort(-standings @ ratio.weights[:-1], kind="stable")
    return Found(
        pairs[order],
        standings[order],
        cosines[order],
        log_lr[order],
        probabilities[order],
        ratio,
        prior,
        search.recall(),
        search.kept(ratio, prior, random),
    )


def _check(accounts: Accounts, half: IntArray) -> None:
    cut = len(np.unique(accounts.owner[half >= 0]))
    if cut < LEAST_CUT:
        raise InputError(
            f"{cut} of {len(accounts)} accounts have four texts that can be cut in two; what one "
            f"person's accounts look like is learnt from at least {LEAST_CUT} such accounts: add "
            "texts or accounts, or compare single ones by `whowrote verify`"
        )


def _simulated(
    accounts: Accounts, half: IntArray, views: Mapping[str, View], random: np.random.Generator
) -> Simulated:
    """Pairs of halves, platform by platform, under the conditions of the accounts themselves."""
    parts = []
    cut = np.unique(accounts.owner[half >= 0])
    for platform in np.unique(accounts.platform):
        own = np.flatnonzero(accounts.platform == platform)
        chosen = np.intersect1d(own, cut)
        chosen = np.sort(random.permutation(chosen)[:MOST_CUT])
        if len(chosen) < 2:
            continue
        number = np.searchsorted(own, chosen)
        k = cohort_size(len(own)) + 1
        tables = []
        for view in views.values():
            first, second = view.first[own], view.second[own]
            left = exact_neighbours(first[number], second, k, number)
            right = exact_neighbours(second[number], first, k, number)
            tables.append(standing_of_all(first[number], second[number], left, right, number))
        every = np.stack(tables, axis=-1)
        row, column = np.nonzero(~np.eye(len(chosen), dtype=bool))
        ends = np.stack([chosen[row], chosen[column]], axis=1)
        itself = np.arange(len(chosen))
        parts.append(Simulated(every[itself, itself], chosen, every[row, column], ends))
        tell("learning what one person's accounts look like", int(platform) + 1, 2)
    return Simulated.join(parts)


class _Search:
    """The nearest accounts of each account, in every view; across platforms if there are two."""

    def __init__(
        self, accounts: Accounts, views: Mapping[str, View], most_exact: int, seed: int
    ) -> None:
        self.across = accounts.platform.max() > 0
        self.first = np.flatnonzero(accounts.platform == 0)
        self.second = np.flatnonzero(accounts.platform == accounts.platform.max())
        self.left_rows = [view.whole[self.first] for view in views.values()]
        self.right_rows = [view.whole[self.second] for view in views.values()]
        self.left, self.right = [], []
        for left, right in zip(self.left_rows, self.right_rows, strict=True):
            found = self._near(left, right, most_exact, seed)
            self.left.append(found)
            self.right.append(self._near(right, left, most_exact, seed) if self.across else found)

    def _near(self, queries: Points, others: Points, most: int, seed: int) -> Neighbours:
        k = min(cohort_size(len(others)) + 1, len(others) - (not self.across))
        return neighbours(queries, others, k, same=not self.across, most_exact=most, seed=seed)

    def pairs_in_all(self) -> int:
        """How many pairs of accounts there are."""
        n = len(self.first)
        return n * len(self.second) if self.across else n * (n - 1) // 2

    def recall(self) -> float:
        """The share of neighbours found, in the worst of the views."""
        return min(near.recall for near in (*self.left, *self.right))

    def candidates(self) -> IntArray:
        """(pairs, 2): accounts of which one is among the nearest of the other in some view."""
        found = []
        for near, turned in [
            *((near, False) for near in self.left),
            *((near, True) for near in self.right if self.across),
        ]:
            own = np.repeat(np.arange(len(near.ids)), near.ids.shape[1])
            pair = np.stack([own, near.ids.ravel()], axis=1)
            found.append(pair[:, ::-1] if turned else pair)
        pairs = np.concatenate(found)
        pairs = pairs if self.across else np.sort(pairs, axis=1)
        key = np.unique(pairs[:, 0] * len(self.second) + pairs[:, 1])
        left, right = np.divmod(key, len(self.second))
        return np.stack([self.first[left], self.second[right]], axis=1)

    def weigh(self, pairs: IntArray) -> tuple[FloatArray, FloatArray]:
        """(pairs, views) each: standings and cosines."""
        places = np.stack(
            [
                np.searchsorted(self.first, pairs[:, 0]),
                np.searchsorted(self.second, pairs[:, 1]),
            ],
            axis=1,
        )
        standings, cosines = [], []
        views = zip(self.left_rows, self.right_rows, self.left, self.right, strict=True)
        for left, right, near, back in views:
            cosines.append(left.cosines_of_pairs(right, places))
            standings.append(standing(places, left, right, near, back))
        return np.stack(standings, axis=1), np.stack(cosines, axis=1)

    def kept(self, ratio: LinkRatio, prior: Prior, random: np.random.Generator) -> float:
        """How much of the probability of links lies among the candidates, for some accounts."""
        some = random.permutation(len(self.first))[:SAMPLE]
        left = np.repeat(some, len(self.second))
        right = np.tile(np.arange(len(self.second)), len(some))
        other = slice(None) if self.across else left != right
        every = np.stack([self.first[left], self.second[right]], axis=1)[other]
        if not self.across:
            every = np.sort(every, axis=1)
        near = np.zeros(len(every), dtype=bool)
        known = self.candidates()
        size = int(every.max()) + 1
        near = np.isin(every[:, 0] * size + every[:, 1], known[:, 0] * size + known[:, 1])
        chance = np.zeros(len(every))
        for low in range(0, len(every), 1_000_000):
            block = slice(low, low + 1_000_000)
            chance[block] = prior.probabilities(ratio.log_lr(self.weigh(every[block])[0]))
        # Millions of pairs of next to no probability add up; none of them is worth a review.
        chance[chance < LEAST_CHANCE] = 0.0
        total = float(chance.sum())
        return float(chance[near].sum() / total) if total > 0 else 1.0


# -- standing -----------------------------------------------------------------------------------

COHORT = 20
"""Nearest accounts that say what is usual."""
LEAST_SIGMA = 1e-3
RATIO = 0.75
"""The part of the ratio in a standing, beside the cosine; chosen on seeds 0 to 2."""


def cohort_size(accounts: int) -> int:
    """How many of so many accounts are the nearest.

    >>> cohort_size(1000), cohort_size(40)
    (20, 10)
    """
    return int(np.clip(accounts // 4, 2, COHORT))


def standing(
    pairs: IntArray, left: Points, right: Points, near: Neighbours, back: Neighbours
) -> FloatArray:
    """Of some pairs; the last neighbour is there to fill in for one that is the target."""

    def of(values: FloatArray, mine: Nearest, theirs: Nearest) -> FloatArray:
        one = _side(values, pairs[:, 0], pairs[:, 1], mine)
        return (one + _side(values, pairs[:, 1], pairs[:, 0], theirs)) / 2.0

    by_ratio = of(left.of_pairs(right, pairs), near.ratio, back.ratio)
    by_cosine = of(left.cosines_of_pairs(right, pairs), near.cosine, back.cosine)
    return RATIO * by_ratio + (1.0 - RATIO) * by_cosine


def _side(values: FloatArray, own: IntArray, target: IntArray, near: Nearest) -> FloatArray:
    total = near.values.sum(axis=1, dtype=np.float64)[own]
    squares = (near.values.astype(np.float64) ** 2).sum(axis=1)[own]
    dropped = near.values[own, -1].astype(np.float64)
    for column in range(near.ids.shape[1]):
        hit = near.ids[own, column] == target
        dropped[hit] = near.values[own[hit], column]
    return _standardised(values, total, squares, dropped, near.ids.shape[1] - 1)


def _standardised(
    values: FloatArray, total: FloatArray, squares: FloatArray, dropped: FloatArray, count: int
) -> FloatArray:
    mean = (total - dropped) / count
    spread = np.sqrt(np.maximum((squares - dropped**2) / count - mean**2, LEAST_SIGMA**2))
    return np.asarray((values - mean) / spread)


def standing_of_all(
    first: Points, second: Points, left: Neighbours, right: Neighbours, number: IntArray
) -> FloatArray:
    """(m, m): every account of ``first`` with every one of ``second``.

    ``number`` is how the neighbours call them. Number *i* of both is one account, whose standing
    with itself is on the diagonal: what a matched pair looks like.
    """

    def of(values: FloatArray, mine: Nearest, theirs: Nearest) -> FloatArray:
        values = values.astype(np.float64)
        return (_all(values, mine, number) + _all(values.T, theirs, number).T) / 2.0

    by_ratio = of(first.alike(second), left.ratio, right.ratio)
    return RATIO * by_ratio + (1.0 - RATIO) * of(first.cosines(second), left.cosine, right.cosine)


def _all(values: FloatArray, near: Nearest, number: IntArray) -> FloatArray:
    nearest = near.values.astype(np.float64)
    dropped = np.repeat(nearest[:, -1:], len(number), axis=1)
    order = np.argsort(number)
    place = np.searchsorted(number[order], near.ids).clip(max=len(number) - 1)
    known = number[order][place] == near.ids
    row, column = np.nonzero(known)
    dropped[row, order[place[row, column]]] = nearest[row, column]
    total, squares = nearest.sum(axis=1)[:, None], (nearest**2).sum(axis=1)[:, None]
    return _standardised(values, total, squares, dropped, nearest.shape[1] - 1)


# -- ratios --------------------------------------------------------------------------------------

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
