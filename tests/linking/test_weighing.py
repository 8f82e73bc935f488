"""The curve, the prior and the rate against what they are meant to be."""

import numpy as np
import pytest
from scipy.special import expit

from whowrote.linking.discovery import REACH, LinkRatio, Prior, Simulated, rates


def simulated(shift: float, seed: int = 0) -> Simulated:
    """Standings N(shift, 1) of 200 accounts with themselves, N(0, 1) with each other."""
    random = np.random.default_rng(seed)
    pairs = np.argwhere(~np.eye(200, dtype=bool))
    same = random.normal(shift, 1.0, (200, 1))
    return Simulated(same, np.arange(200), random.normal(0.0, 1.0, (len(pairs), 1)), pairs)


def learnt(shift: float, asked: int = 10**6) -> LinkRatio:
    return LinkRatio.learn(("view",), simulated(shift), asked, np.random.default_rng(0))


def test_the_ratio_of_two_normals_is_learnt() -> None:
    found = learnt(3.0)
    z = np.array([[1.0], [2.0], [3.0]])
    np.testing.assert_allclose(found.log_lr(z), 3.0 * z[:, 0] - 4.5, atol=0.6)
    low, high = found.interval(z).T
    assert (low <= found.log_lr(z)).all()
    assert (found.log_lr(z) <= high).all()


def test_standings_that_say_nothing_have_a_ratio_of_one() -> None:
    assert np.abs(learnt(0.0).log_lr(np.array([[-2.0], [0.0], [2.0]]))).max() < 0.7


def test_no_ratio_goes_beyond_ten_times_the_pairs_seen() -> None:
    found = learnt(3.0, asked=1000)
    most = found.log_lr(np.array([[100.0]]))[0]
    assert most == pytest.approx(np.log1p(REACH * (200 * 199 + 1000)))
    assert found.log_lr(np.array([[-100.0]]))[0] == pytest.approx(-most)


def test_the_number_of_links_is_recovered_from_calibrated_ratios() -> None:
    random = np.random.default_rng(1)
    z = np.concatenate([random.normal(4.0, 1.0, 80), random.normal(0.0, 1.0, 100_000)])
    found = Prior.estimate(4.0 * z - 8.0, len(z))
    assert found.links == pytest.approx(80, rel=0.25)
    nothing = Prior.estimate(4.0 * z[80:] - 8.0, len(z) - 80)
    assert nothing.links < 8


def test_the_rate_is_the_share_that_is_wrong() -> None:
    random = np.random.default_rng(2)
    z = np.concatenate([random.normal(4.0, 1.0, 300), random.normal(0.0, 1.0, 200_000)])
    true = np.arange(len(z)) < 300
    p = Prior(300, len(z), True).probabilities(4.0 * z - 8.0)
    order = np.argsort(-p)
    count = int((rates(p[order]) <= 0.05).sum())
    assert count > 100
    assert (~true[order[:count]]).mean() == pytest.approx(0.05, abs=0.04)
    np.testing.assert_allclose(p[:3], expit(np.log(300 / (len(z) - 300)) + 4.0 * z[:3] - 8.0))
