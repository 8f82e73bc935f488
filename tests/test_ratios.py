"""Figures of likelihood ratios, against an independent package and in closed form."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lir.algorithms.bayeserror import elub
from lir.algorithms.isotonic_regression import IsotonicCalibrator
from lir.data.models import LLRData
from lir.metrics import cllr as their_cllr
from lir.metrics import cllr_min as their_cllr_min

from whowrote.arrays import BoolArray, FloatArray
from whowrote.errors import InputError
from whowrote.metrics import cllr
from whowrote.ratios import (
    LN10,
    as_ratio,
    bounds,
    cllr_min,
    pav,
    posteriors,
    ratio_quality,
    tippett,
    verbal,
)

SEEDS = range(60)


def drawn(seed: int) -> tuple[FloatArray, BoolArray]:
    """Overlapping, badly calibrated scores with ties, unequal numbers, sometimes perfect."""
    random = np.random.default_rng(seed)
    n_same, n_other = random.integers(2, 80, 2)
    gap, spread = random.uniform(0, 3), random.uniform(0.2, 2)
    scores = np.concatenate([random.normal(gap, spread, n_same), random.normal(0, 1, n_other)])
    return scores.round(int(random.integers(0, 6))), np.arange(n_same + n_other) < n_same


def theirs(scores: FloatArray, same: BoolArray) -> LLRData:
    return LLRData(features=scores.reshape(-1, 1), labels=same.astype(int))


@pytest.mark.parametrize("seed", SEEDS)
def test_costs_pav_and_bounds_are_those_of_lir(seed: int) -> None:
    scores, same = drawn(seed)
    assert cllr(scores * LN10, same) == pytest.approx(their_cllr(theirs(scores, same)), abs=1e-9)
    with np.errstate(divide="ignore"):
        least = their_cllr_min(theirs(scores, same))
    assert cllr_min(scores, same) == pytest.approx(least, abs=1e-9)
    for misleading in (0, 1):
        with np.errstate(divide="ignore"):
            expected = IsotonicCalibrator(misleading).fit_transform(scores, same.astype(int))
        np.testing.assert_allclose(pav(scores, same, misleading), expected, rtol=0, atol=1e-9)
    found = bounds(scores, same)
    assert (found.low, found.high) == pytest.approx(elub(scores.copy(), same.astype(int)), abs=1e-9)


def test_the_comparison_with_lir_can_fail() -> None:
    scores, same = drawn(3)
    assert cllr_min(scores + 1e-3 * same, ~same) != pytest.approx(
        their_cllr_min(theirs(scores, same)), abs=1e-9
    )


@given(
    st.lists(st.tuples(st.floats(-1e6, 1e6), st.booleans()), min_size=2, max_size=40),
    st.floats(-1e9, 1e9),
)
@settings(deadline=None, max_examples=150)
def test_ratios_stay_finite_and_in_order(pairs: list[tuple[float, bool]], asked: float) -> None:
    scores, same = np.array([one for one, _ in pairs]), np.array([two for _, two in pairs])
    if same.all() or not same.any():
        with pytest.raises(InputError, match="both kinds of pairs"):
            bounds(scores, same)
        return
    found = bounds(scores, same)
    assert -np.inf < found.low <= 0 <= found.high < np.inf
    assert found.high <= np.log10((~same).sum() + 1) + 0.01
    kept = found.clip(asked)
    assert found.low <= kept <= found.high
    assert all(0 < one.posterior < 1 for one in posteriors(kept, kept, kept))
    fitted = pav(scores, same, misleading=1)
    assert np.isfinite(fitted).all()
    assert (np.diff(fitted[np.argsort(scores)]) >= 0).all()


def test_pav_is_what_no_monotone_change_improves() -> None:
    scores, same = drawn(5)
    least = cllr_min(scores, same)
    assert least <= cllr(scores * LN10, same)
    assert cllr_min(np.exp(scores) * 3 - 1, same) == pytest.approx(least, abs=1e-12)
    for shift in (-0.3, 0.2):
        assert cllr((pav(scores, same, 1) + shift) * LN10, same) >= least


def test_quality_and_tippett_agree() -> None:
    scores, same = drawn(7)
    found, curves = ratio_quality(scores, same), tippett(scores, same)
    above = np.searchsorted(curves.log10_lr, 0.0, side="right")
    assert found.misleading_different == pytest.approx(curves.different[above])
    assert found.to_dict()["error"] == pytest.approx(found.error)
    assert (np.diff(curves.same) <= 0).all()


def test_a_missing_score_is_an_error() -> None:
    with pytest.raises(InputError, match="missing entry"):
        ratio_quality(np.array([np.nan, 1.0]), np.array([True, False]))


def test_words_follow_the_scale_and_both_sides() -> None:
    first, second = "A wrote it", "another wrote it"
    for log10_lr, words in ((0.29, "no noteworthy"), (0.31, "weak"), (1, "moderate"), (2, "mod")):
        assert verbal(log10_lr, first, second).startswith(words)
    assert verbal(-3.5, first, second) == "strong support for the proposition that another wrote it"
    assert verbal(9, first, second).startswith("extremely strong support")


def test_posteriors_are_bayes_rule() -> None:
    one = posteriors(1.0, 0.5, 1.5, (0.2,))[0]
    assert one.posterior / (1 - one.posterior) == pytest.approx(10 * 0.25)
    assert one.low < one.posterior < one.high
    with pytest.raises(InputError, match="prior is 1"):
        posteriors(1.0, 1.0, 1.0, (1.0,))
    assert as_ratio(-0.001) == "1.0"
