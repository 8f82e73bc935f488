"""The shares of strangers are their formulas, each computed once more by other means."""

import numpy as np
import pytest
from scipy.stats import t as student
from sklearn.linear_model import LogisticRegression

from whowrote.attribution.calibration import RANKED_FROM, Strangers, _separating
from whowrote.attribution.few_people import FewPeople

ASKED = np.linspace(-3, 4, 9)


def curve(n: int, doubt: float, **more: object) -> Strangers:
    """One whose scores are the first figures."""
    reference = np.sort(np.random.default_rng(n).normal(size=n))
    plain = {"centers": np.zeros(4), "spreads": np.ones(4), "weights": np.eye(4)[0]}
    plain |= {"reference": reference, "own": np.zeros(0), "held_out": n, "people": 10}
    return Strangers(**{**plain, "doubt": doubt, **more})


def shares(made: Strangers) -> np.ndarray:
    figures = np.zeros((len(ASKED), 4))
    figures[:, 0] = ASKED
    return made.share(figures, np.full(len(ASKED), 300))


def spread_of(reference: np.ndarray) -> float:
    middle = np.median(reference)
    return float(np.sqrt(np.mean([(s - middle) ** 2 for s in reference if s >= middle])))


def among(once: np.ndarray, people: int) -> np.ndarray:
    return 1 - (1 - once) ** (people / (people - 1))


def test_of_many_texts_each_is_a_step_of_its_own() -> None:
    made = curve(RANKED_FROM + 20, 0.3)
    width, nu = 0.3 * spread_of(made.reference), 10 - 1 + 5
    once = [np.mean([student.cdf((s - one) / width, nu) for s in made.reference]) for one in ASKED]
    least = 1 / (RANKED_FROM + 21)
    wanted = np.maximum(among(np.array(once), 10), least)
    np.testing.assert_allclose(shares(made), wanted, rtol=1e-9)
    assert shares(made).min() == least


def test_few_texts_are_a_normal_sample() -> None:
    made = curve(20, 0.3)
    width = spread_of(made.reference) * np.sqrt(1 + 2 / 20 + 0.3**2)
    once = student.cdf((np.median(made.reference) - ASKED) / width, min(10 - 1 + 5, 20 - 1))
    wanted = np.maximum(among(once, 10), 0.005)
    np.testing.assert_allclose(shares(made), wanted, rtol=1e-9)
    assert shares(made).min() == 0.005


@pytest.mark.parametrize("n", [RANKED_FROM, 20])
def test_models_of_before_have_ranks_or_a_normal_sample(n: int) -> None:
    made = curve(n, 0.0)
    if n >= RANKED_FROM:
        wanted = np.array([(1 + (made.reference >= one).sum()) / (n + 1) for one in ASKED])
    else:
        spread = made.reference.std(ddof=1) * np.sqrt(1 + 1 / n)
        wanted = student.cdf((made.reference.mean() - ASKED) / spread, n - 1)
    np.testing.assert_allclose(shares(made), wanted, rtol=1e-9)
    assert made.least == 1 / (n + 1)


def test_few_people_are_drawn_to_other_people_by_their_number() -> None:
    others = FewPeople(np.array([0.0, 0, 0, 0, 0.1, 0]), np.linspace(-1, 1, 11), 100)
    alone = shares(curve(20, 0.3, people=3))
    there = 0.5 - 0.1 / 4 / 2  # the score of an author of four texts among scores of -1 to 1
    both = shares(curve(20, 0.3, people=3, others=others, texts=4.0))
    np.testing.assert_allclose(both, alone**0.5 * there**0.5, rtol=1e-9)


def test_texts_of_an_author_are_counted_in_the_mean() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(2, 60, 4))
    codes, words = np.arange(60) % 12, np.full(60, 300)
    made = Strangers.fit(rows[0] + 2, np.ones(60, bool), rows[1], codes, words)
    assert made.texts == 5


def test_weights_are_those_of_a_logistic_regression() -> None:
    rng = np.random.default_rng(1)
    inside, outside = rng.normal(size=(80, 4)), rng.normal(size=(60, 4))
    inside += np.array([1.0, 0.5, 0.0, -1.0])
    rows, sides = np.concatenate([inside, outside]), np.repeat([1, 0], [80, 60])
    wanted = LogisticRegression(C=1 / 30, tol=1e-10).fit(rows, sides).coef_[0]
    found = _separating(inside, outside, np.zeros(4), 30.0)
    np.testing.assert_allclose(found, wanted, atol=1e-3)
    first = np.array([0.6, 0.6, 0.3, 0.3])
    assert (_separating(inside, outside, first, np.inf) == first).all()
    drawn = [_separating(inside, outside, first, strength) for strength in (1.0, 1e3, 1e6)]
    away = [float(np.linalg.norm(one - first)) for one in drawn]
    assert away[0] > away[1] > away[2]
    np.testing.assert_allclose(drawn[2], first, atol=1e-3)
