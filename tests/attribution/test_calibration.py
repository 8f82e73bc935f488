"""Temperature, exponent and p-values from simulated authors whose truth is known."""

import json
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from scipy.stats import kstest

from whowrote.arrays import per_text
from whowrote.attribution.calibration import (
    Calibration,
    HeldOut,
    Norms,
    Pooling,
    Strangers,
    best_figures,
    nearness_block,
)
from whowrote.attribution.few_people import FewPeople

AUTHORS = 5
EVEN = np.full(AUTHORS, -np.log(AUTHORS))


def test_rows_are_summed_by_text() -> None:
    values, document = np.random.default_rng(0).normal(size=(7, 3)), np.array([0, 0, 1, 2, 2, 2, 3])
    expected = [values[document == text].sum(axis=0) for text in range(4)]
    np.testing.assert_allclose(per_text(values, document), expected)


# Pooling


class Texts(NamedTuple):
    """The summed evidence of texts, how many passages each has, and who wrote it."""

    evidence: np.ndarray
    counts: np.ndarray
    codes: np.ndarray


def simulated(copies: bool, sharpness: float = 1.0, n: int = 3000) -> Texts:
    """Passages of normal authors: log densities times ``sharpness``; copies repeat the first."""
    rng = np.random.default_rng(0)
    places = rng.normal(size=(AUTHORS, 2))
    codes, counts = rng.integers(AUTHORS, size=n), rng.integers(1, 13, size=n)
    evidence = np.zeros((n, AUTHORS))
    for text, (code, count) in enumerate(zip(codes, counts, strict=True)):
        passages = places[code] + rng.normal(size=(1 if copies else count, 2))
        distances = ((passages[:, None] - places) ** 2).sum(-1)
        evidence[text] = -distances.sum(0) / 2 * (count if copies else 1)
    return Texts(sharpness * evidence, counts, codes)


def fitted(texts: Texts) -> Pooling:
    return Pooling.fit(texts.evidence, texts.counts, EVEN, texts.codes)


def log_loss(pooling: Pooling, texts: Texts) -> float:
    log_proba = pooling.log_proba(texts.evidence, texts.counts, EVEN)
    return -float(log_proba[np.arange(len(texts.codes)), texts.codes].mean())


@pytest.mark.parametrize("sharpness", [0.5, 1.0, 4.0])
@pytest.mark.parametrize(("copies", "exponent"), [(False, 0.0), (True, 1.0)])
def test_the_truth_is_found(copies: bool, exponent: float, sharpness: float) -> None:
    found = fitted(simulated(copies, sharpness))
    assert found.exponent == pytest.approx(exponent, abs=0.07)
    assert found.temperature == pytest.approx(sharpness, rel=0.12)


@pytest.mark.parametrize("copies", [False, True])
def test_the_other_extreme_costs(copies: bool) -> None:
    """Negative control: counting copies as independent (or the opposite) is worse."""
    texts = simulated(copies)
    found = fitted(texts)
    wrong = replace(found, exponent=1.0 - found.exponent)
    assert log_loss(found, texts) < log_loss(wrong, texts) - 0.05


def test_few_texts_hardly_move_it() -> None:
    few = Texts(*(part[:4] for part in simulated(copies=True)))
    found = fitted(few)
    assert 0.4 < found.temperature < 2.5
    assert abs(found.exponent - 0.5) < 0.2


@pytest.mark.parametrize("n", [3, 10, 100])
def test_a_few_right_answers_are_no_proof_of_certainty(n: int) -> None:
    codes = np.arange(n) % AUTHORS
    evidence = np.where(np.arange(AUTHORS) == codes[:, None], 5.0, -5.0)
    texts = Texts(evidence, np.ones(n, dtype=int), codes)
    surest = np.exp(fitted(texts).log_proba(evidence, texts.counts, EVEN).max())
    assert 1 - surest > 1 / (3 * (n + 2))
    assert 1 - surest < 0.15  # but right answers are believed


def test_one_passage_keeps_its_order() -> None:
    rng = np.random.default_rng(1)
    evidence, one = rng.normal(size=(50, AUTHORS)), np.ones(50, dtype=int)
    for pooling in (Pooling(0.1, 0.0), Pooling(7.0, 1.0)):
        log_proba = pooling.log_proba(evidence, one, EVEN)
        np.testing.assert_array_equal(log_proba.argsort(axis=1), evidence.argsort(axis=1))
        np.testing.assert_allclose(np.exp(log_proba).sum(axis=1), 1.0)


def test_pooling_is_its_formula() -> None:
    evidence, counts = np.array([[1.0, -2.0], [6.0, 0.0]]), np.array([1, 4])
    prior = np.log([0.25, 0.75])
    raw = prior + evidence / (2.0 * np.array([[1.0], [2.0]]))
    expected = raw - np.log(np.exp(raw).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(Pooling(2.0, 0.5).log_proba(evidence, counts, prior), expected)


# Norms


class World(NamedTuple):
    """Authors with centres of three figures; longer texts are more alike, and scatter less."""

    centers: np.ndarray
    slopes: np.ndarray
    narrowing: float

    def texts(
        self, codes: np.ndarray, rng: np.random.Generator, off: float = 0.0
    ) -> tuple[np.ndarray, np.ndarray]:
        words = np.exp(rng.uniform(np.log(80), np.log(2500), len(codes))).astype(int)
        w = np.log(words / 450.0)[:, None]
        common, own = rng.normal(size=(len(codes), 1)), rng.normal(size=(len(codes), 3))
        noise = (0.6 * common + 0.8 * own) * np.exp(self.narrowing * w)
        return self.centers[codes] + self.slopes * w + noise - off, words


def world(rng: np.random.Generator, authors: int) -> World:
    scales = np.array([1.0, 0.5, 2.0])
    return World(scales * rng.normal(size=(authors, 3)), np.array([0.8, 0.0, 1.5]), -0.25)


def fresh_p_values(authors: int, texts: int, *, off: float = 0.0) -> np.ndarray:
    """Of one new text in each of many corpora, under its true author."""
    rng, found = np.random.default_rng(0), []
    for _ in range(250):
        truth = world(rng, authors)
        codes = np.repeat(np.arange(authors), texts)
        norms = Norms.fit(*truth.texts(codes, rng), codes)
        code = rng.integers(authors, size=1)
        figures, words = truth.texts(code, rng, off)
        everyone = np.repeat(figures[:, None], authors, axis=1)
        found.append(norms.p_values(everyone, words)[0, code[0]])
    return np.array(found)


SIZES = [(8, 13), (20, 10), (3, 4), (5, 6)]


@pytest.mark.parametrize(("authors", "texts"), SIZES)
def test_p_values_of_own_texts_are_uniform(authors: int, texts: int) -> None:
    found = fresh_p_values(authors, texts)
    assert kstest(found, "uniform").pvalue > 0.01
    assert (found < 0.05).mean() < 0.1


@pytest.mark.parametrize(("authors", "texts"), SIZES)
def test_texts_of_outsiders_have_small_ones(authors: int, texts: int) -> None:
    """Negative control: four standard deviations off in all figures."""
    found = fresh_p_values(authors, texts, off=4.0)
    assert np.median(found) < 0.05
    assert kstest(found, "uniform").pvalue < 1e-9


def test_uniform_at_every_length() -> None:
    """Short texts are not called unusual for being short, nor long ones usual for being long."""
    rng = np.random.default_rng(0)
    truth = world(rng, 10)
    codes = np.repeat(np.arange(10), 40)
    norms = Norms.fit(*truth.texts(codes, rng), codes)
    new = rng.integers(10, size=4000)
    figures, words = truth.texts(new, rng)
    rows = np.arange(len(new)), new

    def shares(norms: Norms) -> list[float]:
        found = norms.p_values(np.repeat(figures[:, None], 10, axis=1), words)[rows]
        return [float((found[part] < 0.1).mean()) for part in (words < 200, words > 1000)]

    assert shares(norms) == pytest.approx([0.1, 0.1], abs=0.06)
    short, long = shares(replace(norms, slopes=np.zeros(3)))
    assert short > 0.25  # negative control: without slopes the short ones stand out
    assert long < 0.02
    short, long = shares(replace(norms, narrowing=0.0))
    assert short > long + 0.05  # and without narrowing they scatter too widely


def test_slopes_and_narrowing_are_found() -> None:
    rng = np.random.default_rng(0)
    truth = world(rng, 10)
    codes = np.repeat(np.arange(10), 200)
    norms = Norms.fit(*truth.texts(codes, rng), codes)
    np.testing.assert_allclose(norms.slopes, truth.slopes, atol=0.1)
    assert norms.narrowing == pytest.approx(truth.narrowing, abs=0.08)
    level = truth.centers + truth.slopes * (norms.middle - np.log(450.0))
    np.testing.assert_allclose(norms.centers, level, atol=0.3)


def test_texts_of_one_length_have_no_narrowing() -> None:
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(3), 5)
    norms = Norms.fit(rng.normal(size=(15, 2)), np.full(15, 300), codes)
    assert norms.narrowing == 0.0
    np.testing.assert_array_equal(norms.slopes, 0.0)


def test_texts_of_nearly_one_length_tell_little_of_other_lengths() -> None:
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(4), 5)
    norms = Norms.fit(rng.normal(size=(20, 2)), rng.integers(298, 303, 20), codes)
    figures = np.repeat(rng.normal(size=(100, 1, 2)), 4, axis=1)
    own = norms.p_values(figures, np.full(100, 900))[:, 0]  # of the same authors, but longer
    assert 0.2 < np.median(own) < 0.8


def test_centres_of_few_texts_are_drawn_to_everybodys() -> None:
    figures = np.array([[0.0]] * 20 + [[6.0]])
    codes = np.array([0] * 10 + [1] * 10 + [2])
    norms = Norms.fit(figures, np.full(21, 300), codes)
    everybody = figures.mean()
    assert norms.centers[2, 0] == pytest.approx((2 * everybody + 6.0) / 3)
    assert norms.centers[0, 0] == pytest.approx(2 * everybody / 12)


def test_ranks_are_their_formula() -> None:
    rng = np.random.default_rng(2)
    codes = np.arange(150) % 3
    norms = Norms.fit(rng.normal(size=(150, 2)), rng.integers(100, 900, 150), codes)
    figures, words = rng.normal(size=(20, 3, 2)), rng.integers(100, 900, 20)
    standing = norms.standing(figures, words)
    expected = (1 + (norms.reference[:, None, None] <= standing).sum(axis=0)) / 151
    np.testing.assert_allclose(norms.p_values(figures, words), expected)
    assert (norms.p_values(figures + 0.5, words) >= norms.p_values(figures, words)).all()


def test_a_missing_figure_is_left_out() -> None:
    rng = np.random.default_rng(2)
    codes = np.arange(30) % 3
    norms = Norms.fit(rng.normal(size=(30, 2)), np.full(30, 300), codes)
    figures = rng.normal(size=(4, 3, 2))
    missing = figures.copy()
    missing[:, 2, 1] = np.nan
    words = np.full(4, 300)
    with_nan, whole = norms.standing(missing, words), norms.standing(figures, words)
    np.testing.assert_array_equal(with_nan[:, :2], whole[:, :2])
    only = (figures[:, 2, 0] - norms.centers[2, 0]) / norms.spreads[0]
    np.testing.assert_allclose(with_nan[:, 2], only)


@pytest.mark.parametrize("n", [30, 150])
def test_everything_comes_back_from_json(n: int) -> None:
    rng = np.random.default_rng(3)
    codes = np.arange(n) % 3
    norms = Norms.fit(rng.normal(size=(n, 2)), rng.integers(100, 900, n), codes)
    before = Calibration(Pooling(1.25, 0.3), norms, HeldOut(n, 20))
    after = Calibration.from_dict(json.loads(json.dumps(before.to_dict())))
    assert (after.pooling, after.held_out) == (before.pooling, before.held_out)
    figures, words = rng.normal(size=(20, 3, 2)), rng.integers(100, 900, 20)
    np.testing.assert_array_equal(
        after.norms.p_values(figures, words), before.norms.p_values(figures, words)
    )
    assert after.to_dict() == before.to_dict()


# Strangers


def look_of(n: int, shift: float, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, 4)) + shift


def learnt(
    n: int, shift: float, people: int = 10, others: FewPeople | None = None, seed: int = 0
) -> Strangers:
    codes, words = np.arange(n) % people, np.full(n, 200)
    inside, outside = look_of(n, shift, 2 * seed), look_of(n, 0.0, 2 * seed + 1)
    return Strangers.fit(inside, np.ones(n, bool), outside, codes, words, others)


@pytest.mark.parametrize("n", [30, 400])
def test_strangers_are_named_as_often_as_asked(n: int) -> None:
    words, named = np.full(4000, 200), {0.05: [], 0.2: []}
    for seed in range(20):
        curve = learnt(n, 2.0, seed=seed)
        shares = curve.share(look_of(4000, 0.0, 100 + seed), words)
        for rate, found in named.items():
            found.append((shares <= rate).mean())
    for rate, found in named.items():
        assert np.mean(found) == pytest.approx(rate, abs=0.04)
    own = curve.share(look_of(4000, 2.0, 3), words)
    assert curve.missed(0.05) == pytest.approx((own > 0.05).mean(), abs=0.1)
    assert (own <= 0.05).mean() > 0.5


def test_where_strangers_look_like_everybody_nobody_is_named() -> None:
    """Negative control: a rate is kept by refusing, not by knowing."""
    assert learnt(400, 0.0).missed(0.05) > 0.9


def unit_norms() -> Norms:
    """Figures stand as they are."""
    return Norms(np.zeros((2, 3)), np.zeros(3), np.ones(3), 0.0, 0.0, np.zeros(1))


def test_the_figures_are_those_of_the_most_probable() -> None:
    proba, words = np.array([[0.2, 0.8], [0.5, 0.5]]), np.array([100, 100])
    tables = np.arange(12.0).reshape(2, 2, 3)
    found = best_figures(unit_norms(), tables, np.log(proba), words, people=6)
    standing = np.arcsinh([4.0, 7.0])
    expected = [[5, np.log(4), 3, standing[0]], [8, 0, 6, standing[1]]]
    np.testing.assert_allclose(found, expected, atol=1e-9)
    few = best_figures(unit_norms(), tables, np.log(proba), words, people=5)
    np.testing.assert_allclose(few[:, 3], np.arcsinh([3.0, 6.0]))  # nearness alone


def test_of_long_texts_the_n_grams_tell_strangers_and_not_the_vectors() -> None:
    short, long = np.array([200, 300, 9000]), np.array([200, 3000, 9000])
    assert [nearness_block(2, words, 10) for words in (short, long)] == [0, 1]
    assert nearness_block(1, long, 10) == 0  # there are no vectors
    assert nearness_block(2, long, 5) == 0  # the curve of other people is one of vectors
    tables = np.arange(16.0).reshape(2, 2, 4)
    proba, words = np.array([[0.2, 0.8], [0.5, 0.5]]), np.array([3000, 3000])
    norms = Norms(np.zeros((2, 4)), np.zeros(4), np.ones(4), 0.0, 0.0, np.zeros(1))
    found = [
        best_figures(norms, tables, np.log(proba), words, people=6, block=block) for block in (0, 1)
    ]
    np.testing.assert_allclose(found[0][:, 2] + 1, found[1][:, 2])
    tables[..., 0] = 1e6  # what the vectors say is not heard at all
    again = best_figures(norms, tables, np.log(proba), words, people=6, block=1)
    np.testing.assert_allclose(again, found[1])


def test_what_is_usual_is_learnt_across_works() -> None:
    """Texts of a work share its bent: measured inside the work, its next work looks strange."""
    rng = np.random.default_rng(3)
    authors, works, texts = 10, 5, 8
    bent = rng.normal(size=(authors, works + 1, 1, 2))
    every = bent + 0.3 * rng.normal(size=(authors, works + 1, texts, 2))
    figures = every[:, :works].reshape(-1, 2)
    codes = np.repeat(np.arange(authors), works * texts)
    units, words = np.repeat(np.arange(authors * works), texts), np.full(len(codes), 300)
    new, own = every[:, works].reshape(-1, 2), np.repeat(np.arange(authors), texts)
    unusual = []
    for grouped in (units, None):
        norms = Norms.fit(figures, words, codes, grouped)
        asked = np.repeat(new[:, None], authors, axis=1)
        p = norms.p_values(asked, np.full(len(new), 300))[np.arange(len(new)), own]
        unusual.append((p <= 0.1).mean())
    assert unusual[0] <= unusual[1]
    assert unusual[0] == pytest.approx(0.1, abs=0.1)


def test_few_people_leave_doubt_about_the_next_one() -> None:
    """The same scores by fewer people: a text must be more like somebody to be named."""
    asked, words = look_of(500, 1.5, 9), np.full(500, 200)
    shares = [learnt(400, 2.0, people).share(asked, words).mean() for people in (6, 20, 100)]
    assert shares[0] > shares[1] > shares[2]


def test_of_two_people_the_packaged_curve_tells_most() -> None:
    words = np.full(50, 200)
    strict, lax = (
        FewPeople(np.array([0.0, 1, 0, 0, 0, 0]), np.linspace(low, low + 1, 11), 100)
        for low in (50.0, -50.0)
    )
    asked = look_of(50, 0.0, 4)
    by_lax, own = (learnt(40, 2.0, 2, others).share(asked, words) for others in (lax, None))
    by_strict = learnt(40, 2.0, 2, strict).share(asked, words)
    assert (by_lax < own).all()
    assert (by_strict > own).all()
    assert learnt(60, 2.0, 6, strict).others is None  # enough people of their own


def test_strangers_come_back_from_json() -> None:
    rng = np.random.default_rng(0)
    norms = Norms.fit(rng.normal(size=(30, 2)), np.full(30, 300), np.arange(30) % 3)
    others = FewPeople(np.arange(6.0), np.linspace(-9, 9, 11), 100)
    curve = learnt(50, 1.0, 3, others)
    before = Calibration(Pooling(1.0, 0.5), norms, HeldOut(30, 20), curve)
    after = Calibration.from_dict(json.loads(json.dumps(before.to_dict())))
    assert after.strangers is not None
    asked = look_of(20, 0.5, 5)
    words = np.full(20, 300)
    same = [one.share(asked, words).tolist() for one in (curve, after.strangers)]
    np.testing.assert_allclose(same[0], same[1], rtol=1e-5)  # the packaged curve has six digits
    assert after.strangers.missed(0.05) == curve.missed(0.05)


def test_all_texts_make_surer_than_all_but_a_fold() -> None:
    assert Pooling(2.0, 0.5).sharper(2).temperature == pytest.approx(2 * np.sqrt(1 / 2))
    assert Pooling(2.0, 0.5).sharper(4).temperature == pytest.approx(2 * (3 / 4) ** (1 / 4))
    assert Pooling(2.0, 0.5).sharper(None) == Pooling(2.0, 0.5)
