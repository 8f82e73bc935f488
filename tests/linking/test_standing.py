"""Likeness and standings against their definitions, written out with loops and densities."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from planted_accounts import VIEW, planted, points
from whowrote.arrays import FloatArray
from whowrote.linking.accounts import Points, exact_neighbours, halves, texts_of, view_of
from whowrote.linking.discovery import RATIO, cohort_size, standing, standing_of_all


def by_density(first: Points, second: Points, i: int, j: int) -> float:
    """Ln of the density of two means of texts by one person over that by two."""
    total = 0.0
    m, n = texts_of(first.level[i]), texts_of(second.level[j])
    for column, spread in enumerate(first.spread):
        own, other = spread + 1 / m, spread + 1 / n
        x = first.z[i, column] * np.sqrt(own), second.z[j, column] * np.sqrt(other)
        together = multivariate_normal([0, 0], [[own, spread], [spread, other]]).logpdf(x)
        apart = norm(0, np.sqrt(own)).logpdf(x[0]) + norm(0, np.sqrt(other)).logpdf(x[1])
        total += float(together - apart)
    return total


def test_likeness_is_the_log_of_a_ratio_of_densities() -> None:
    one, other = points(9, 1), points(7, 2)
    found = one.alike(other)
    assert len(set(one.level.tolist())) > 2
    wanted = [[by_density(one, other, i, j) for j in range(7)] for i in range(9)]
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)
    pairs = np.argwhere(np.ones((9, 7)))
    np.testing.assert_allclose(one.of_pairs(other, pairs), found.ravel(), rtol=1e-3, atol=1e-4)
    cosines = one.cosines(other).ravel()
    np.testing.assert_allclose(one.cosines_of_pairs(other, pairs), cosines, rtol=1e-5, atol=1e-6)


def test_axes_and_spreads_are_those_that_accounts_were_drawn_from() -> None:
    """Texts of variance one around accounts of 1.6, so lambda is 2.56 beside a shrunk W."""
    accounts, _ = planted(800, 0, 3, texts=8)
    found = view_of(accounts, VIEW, halves(accounts, np.random.default_rng(0))).whole
    assert found.spread.mean() == pytest.approx(1.6**2, rel=0.1)
    assert (found.z**2).mean() == pytest.approx(1.0, abs=0.05)
    assert 6.0 < texts_of(found.level).mean() < 8.0  # of eight texts of unequal length


def test_more_texts_say_more_and_halves_are_like_each_other() -> None:
    accounts, _ = planted(200, 0, 4, texts=10)
    view = view_of(accounts, VIEW, halves(accounts, np.random.default_rng(0)))
    assert view.first.level.max() < view.whole.level.min()
    likeness = view.first.alike(view.second)
    same = np.diag(likeness)
    assert np.median(same) > 5.0
    assert np.median(likeness[~np.eye(200, dtype=bool)]) < -5.0  # control
    more = view.whole.alike(view.whole)
    assert np.median(np.diag(more)) > np.median(same)


def one_sided(values: FloatArray, i: int, j: int, k: int) -> float:
    """How far a pair stands out of the k largest of row i, without i and j."""
    others = np.sort(np.delete(values[i].astype(float), sorted({i, j})))[::-1][:k]
    return float((values[i, j] - others.mean()) / others.std())


def by_hand(first: Points, second: Points, i: int, j: int, k: int) -> float:
    parts = []
    for values in (first.alike(second), first.cosines(second)):
        parts.append((one_sided(values, i, j, k) + one_sided(values.T, j, i, k)) / 2)
    return RATIO * parts[0] + (1 - RATIO) * parts[1]


def test_a_standing_is_the_mean_of_both_sides_without_the_target() -> None:
    rows, k = points(30, 0), 5
    near = exact_neighbours(rows, rows, k + 1, np.arange(30))
    pairs = np.argwhere(np.triu(np.ones((30, 30)), 1))
    found = standing(pairs, rows, rows, near, near)
    wanted = [by_hand(rows, rows, i, j, k) for i, j in pairs.tolist()]
    np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=2e-3)


def test_halves_stand_among_the_halves_of_others() -> None:
    first, second, k = points(25, 1), points(25, 2), 4
    number = np.array([3, 9, 20])
    left = exact_neighbours(first[number], second, k + 1, number)
    right = exact_neighbours(second[number], first, k + 1, number)
    found = standing_of_all(first[number], second[number], left, right, number)
    for row, i in enumerate(number.tolist()):
        for column, j in enumerate(number.tolist()):
            assert found[row, column] == pytest.approx(by_hand(first, second, i, j, k), abs=2e-3)


def test_small_corpora_have_small_cohorts() -> None:
    assert [cohort_size(n) for n in (8, 40, 80, 10_000)] == [2, 10, 20, 20]
