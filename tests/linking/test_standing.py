"""Standings against their definition, written out with loops."""

import numpy as np
import pytest

from whowrote.arrays import FloatArray
from whowrote.linking.accounts import cohort_size, exact_neighbours, standing, standing_of_all


def unit(n: int, seed: int, size: int = 6) -> FloatArray:
    rows = np.random.default_rng(seed).standard_normal((n, size)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def by_hand(cosines: FloatArray, i: int, j: int, k: int) -> float:
    """How far c_ij stands out of the k largest of row i, without i and j."""
    others = np.sort(np.delete(cosines[i].astype(float), sorted({i, j})))[::-1][:k]
    return float((cosines[i, j] - others.mean()) / others.std())


def test_a_standing_is_the_mean_of_both_sides_without_the_target() -> None:
    rows, k = unit(30, 0), 5
    near = exact_neighbours(rows, rows, k + 1, np.arange(30))
    pairs = np.argwhere(np.triu(np.ones((30, 30)), 1))
    cosines = rows @ rows.T
    found = standing(cosines[pairs[:, 0], pairs[:, 1]], pairs, near, near)
    wanted = [
        (by_hand(cosines, i, j, k) + by_hand(cosines, j, i, k)) / 2 for i, j in pairs.tolist()
    ]
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)


def test_halves_stand_among_the_halves_of_others() -> None:
    first, second, k = unit(25, 1), unit(25, 2), 4
    number = np.array([3, 9, 20])
    left = exact_neighbours(first[number], second, k + 1, number)
    right = exact_neighbours(second[number], first, k + 1, number)
    found = standing_of_all(first[number], second[number], left, right, number)
    cosines = first @ second.T
    for row, i in enumerate(number.tolist()):
        for column, j in enumerate(number.tolist()):
            wanted = by_hand(cosines, i, j, k) + by_hand(cosines.T, j, i, k)
            assert found[row, column] == pytest.approx(wanted / 2, abs=1e-3)


def test_an_account_near_to_everybody_stands_out_less() -> None:
    rows = unit(40, 3)
    hub = rows.mean(axis=0) / np.linalg.norm(rows.mean(axis=0))
    rows[0] = hub
    near = exact_neighbours(rows, rows, 11, np.arange(40))
    cosines = rows @ rows.T
    pairs = np.array([[0, 1], [2, 3]])
    same = np.array([0.5, 0.5])  # the same cosine, once with the hub
    found = standing(same, pairs, near, near)
    assert cosines[0].mean() > cosines[2].mean()
    assert found[0] != pytest.approx(found[1])


def test_small_corpora_have_small_cohorts() -> None:
    assert [cohort_size(n) for n in (8, 40, 80, 10_000)] == [2, 10, 20, 20]
