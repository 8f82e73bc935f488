r"""Which accounts belong to one person: rows, neighbours, standings, ratios, a controlled list.

.. math:: \text{accounts} \to \{a_i\} \to \{(i, j) : j \in N_K(i)\} \to z_{ij} \to \mathrm{LR}_{ij}
    \to p_{ij} \to R = \{ij : \mathrm{FDR} \le \alpha\}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from whowrote.arrays import FloatArray, IntArray
from whowrote.errors import InputError
from whowrote.linking.accounts import (
    MOST_EXACT,
    Accounts,
    Neighbours,
    UnitRows,
    cohort_size,
    exact_neighbours,
    halves,
    neighbours,
    standing,
    standing_of_all,
    unit_rows,
)
from whowrote.linking.weighing import LinkRatio, Prior, Simulated, rates
from whowrote.progress import tell

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
    rows = {name: unit_rows(accounts, name, half) for name in accounts.views}
    search = _Search(accounts, rows, most_exact, random_state)
    known = _simulated(accounts, half, rows, random)
    ratio = LinkRatio.learn(tuple(rows), known, search.pairs_in_all(), random)
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
    accounts: Accounts, half: IntArray, rows: Mapping[str, UnitRows], random: np.random.Generator
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
        for view in rows.values():
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
        self, accounts: Accounts, rows: Mapping[str, UnitRows], most_exact: int, seed: int
    ) -> None:
        self.across = accounts.platform.max() > 0
        self.first = np.flatnonzero(accounts.platform == 0)
        self.second = np.flatnonzero(accounts.platform == accounts.platform.max())
        self.left_rows = [view.whole[self.first] for view in rows.values()]
        self.right_rows = [view.whole[self.second] for view in rows.values()]
        self.left, self.right = [], []
        for left, right in zip(self.left_rows, self.right_rows, strict=True):
            found = self._near(left, right, most_exact, seed)
            self.left.append(found)
            self.right.append(self._near(right, left, most_exact, seed) if self.across else found)

    def _near(self, queries: FloatArray, rows: FloatArray, most: int, seed: int) -> Neighbours:
        k = min(cohort_size(len(rows)) + 1, len(rows) - (not self.across))
        return neighbours(queries, rows, k, same=not self.across, most_exact=most, seed=seed)

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
            cosine = _products(left, right, places)
            cosines.append(cosine)
            standings.append(standing(cosine, places, near, back))
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


def _products(left: FloatArray, right: FloatArray, places: IntArray) -> FloatArray:
    found = np.empty(len(places))
    for low in range(0, len(places), 100_000):
        block = places[low : low + 100_000]
        found[low : low + 100_000] = np.einsum("ij,ij->i", left[block[:, 0]], right[block[:, 1]])
    return found
