"""The corrected resampled t-test against a computation by hand, and against the plain one."""

import math
import re

import numpy as np
import pytest
from scipy import stats

from whowrote.errors import InputError
from whowrote_experiments.paired import corrected_t_test

FIRST = [0.10, 0.12, 0.11, 0.14, 0.13]
SECOND = [0.12, 0.13, 0.14, 0.15, 0.16]


def test_by_hand() -> None:
    # d = -.02 -.01 -.03 -.01 -.03: mean -.02, squared deviations 0 1 1 1 1 (1e-4), s^2 = 1e-4
    # t = -.02 / sqrt((1/5 + 1/8) 1e-4) = -3.50823; two-sided p with 4 degrees of freedom 0.024721
    found = corrected_t_test(FIRST, SECOND, 1 / 8)
    assert found.difference == pytest.approx(-0.02)
    assert found.t == pytest.approx(-0.02 / math.sqrt(0.325 * 1e-4))
    assert found.t == pytest.approx(-3.50823, abs=1e-5)
    assert found.p == pytest.approx(0.02472, abs=5e-5)
    assert found.n_folds == 5


def test_without_overlap_it_is_the_plain_paired_test() -> None:
    found, plain = corrected_t_test(FIRST, SECOND, 0.0), stats.ttest_rel(FIRST, SECOND)
    assert found.t == pytest.approx(plain.statistic)
    assert found.p == pytest.approx(plain.pvalue)


def test_overlap_makes_it_less_sure() -> None:
    """Negative control: a test that ignored its third argument would give one p for all."""
    p = [corrected_t_test(FIRST, SECOND, ratio).p for ratio in (0.0, 0.125, 0.625)]
    assert p == sorted(p)
    assert p[2] > 2 * p[0]


def test_the_plain_test_is_too_sure_under_overlap() -> None:
    """Folds with a common part: at the 5 % level the plain test errs far more than it says."""
    random = np.random.default_rng(0)
    wrong = np.zeros(2)
    for _ in range(400):
        d = random.normal(0, 1, 5) + random.normal(0, 0.8)
        wrong += [corrected_t_test(d, np.zeros(5), ratio).p < 0.05 for ratio in (0.0, 0.64)]
    assert wrong[0] / 400 > 0.15
    assert wrong[1] / 400 < 0.09


def test_sides_swap() -> None:
    there, back = corrected_t_test(FIRST, SECOND, 0.1), corrected_t_test(SECOND, FIRST, 0.1)
    assert there.t == pytest.approx(-back.t)
    assert there.p == pytest.approx(back.p)


def test_no_spread_is_no_crash() -> None:
    same = corrected_t_test([0.1, 0.2], [0.1, 0.2], 0.1)
    assert (same.t, same.p) == (0.0, 1.0)
    assert corrected_t_test([0.5, 0.5], [0.25, 0.25], 0.1).p == 0.0


def test_the_folds_must_be_the_same() -> None:
    with pytest.raises(InputError, match=re.escape("there are 5 and 1 folds")):
        corrected_t_test(FIRST, [0.1], 0.1)
