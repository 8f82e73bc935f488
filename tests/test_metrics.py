import json
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, f1_score, log_loss, roc_auc_score

from whowrote.errors import InputError
from whowrote.metrics import (
    auc,
    balanced_pairs,
    calibration_error,
    cllr,
    cosines,
    evaluate,
    macro_f1,
    matched_pairs,
    recall_at_1,
    verify,
    wilson,
)

CLASSES = ["ann", "bob", "cyd"]
TRUTH = ["ann", "ann", "bob", "cyd"]
PROBA = [[0.7, 0.2, 0.1], [0.3, 0.6, 0.1], [0.1, 0.8, 0.1], [0.5, 0.1, 0.4]]


def test_every_figure_by_hand() -> None:
    result = evaluate(TRUTH, PROBA, CLASSES, n_bins=10)
    assert result.n == 4
    assert result.error == 0.5
    assert result.confusion == ((1, 1, 0), (0, 1, 0), (1, 0, 0))
    # F1: ann 2*1/(2+2), bob 2*1/(1+2), cyd 0.
    assert result.macro_f1 == pytest.approx((1 / 2 + 2 / 3 + 0) / 3)
    # Squares: .09+.04+.01, .49+.36+.01, .01+.04+.01, .25+.01+.36.
    assert result.brier == pytest.approx((0.14 + 0.86 + 0.06 + 0.62) / 4)
    assert result.log_loss == pytest.approx(-np.log([0.7, 0.3, 0.8, 0.4]).mean())
    # Each answer lies in a bin of its own: |1-.7|, |0-.6|, |1-.8|, |0-.5|.
    assert result.ece == pytest.approx((0.3 + 0.6 + 0.2 + 0.5) / 4)
    assert result.error_interval == wilson(2, 4)


def test_certain_and_right_is_perfect_and_certain_and_wrong_is_worst() -> None:
    best = evaluate([0, 1, 2], np.eye(3), [0, 1, 2])
    assert (best.error, best.macro_f1, best.brier, best.ece, best.log_loss) == (0, 1, 0, 0, 0)
    worst = evaluate([0, 1, 2], np.roll(np.eye(3), 1, axis=1), [0, 1, 2])
    assert (worst.error, worst.macro_f1, worst.brier, worst.ece) == (1, 0, 2, 1)
    assert worst.log_loss == np.inf


def test_figures_agree_with_scikit_learn_on_random_answers() -> None:
    rng = np.random.default_rng(0)
    proba, truth = rng.dirichlet(np.ones(4), 500), rng.integers(0, 4, 500)
    result = evaluate(truth, proba, range(4))
    assert result.log_loss == pytest.approx(log_loss(truth, proba))
    assert result.macro_f1 == pytest.approx(f1_score(truth, proba.argmax(1), average="macro"))
    assert result.error == pytest.approx((truth != proba.argmax(1)).mean())


def test_log_probabilities_survive_where_probabilities_underflow() -> None:
    log_proba = np.array([[0.0, -2000.0], [-2000.0, 0.0]])
    assert evaluate([1, 1], log_proba, [0, 1], log=True).log_loss == 1000.0
    assert evaluate([1, 1], np.exp(log_proba), [0, 1]).log_loss == np.inf
    assert evaluate([0, 1], log_proba, [0, 1], log=True).log_loss == 0.0


def test_honest_probabilities_have_little_ece_and_overconfident_ones_much() -> None:
    rng = np.random.default_rng(1)
    proba = rng.dirichlet([1.0, 1.0], 20_000)
    truth = (rng.random(20_000) < proba[:, 1]).astype(int)
    assert evaluate(truth, proba, [0, 1]).ece < 0.02
    sharp = proba**4 / (proba**4).sum(axis=1, keepdims=True)
    assert evaluate(truth, sharp, [0, 1]).ece > 0.1


def test_ece_of_one_bin_is_the_gap_of_the_means() -> None:
    assert calibration_error([0.9, 0.7], [True, False], n_bins=1) == pytest.approx(0.3)
    assert calibration_error([1.0], [True]) == 0.0


def test_wilson_covers_as_often_as_it_says() -> None:
    rng = np.random.default_rng(2)
    intervals = [wilson(int(count), 60) for count in rng.binomial(60, 0.1, 3000)]
    covered = np.mean([interval.low <= 0.1 <= interval.high for interval in intervals])
    assert 0.93 < covered < 0.98
    narrow = [wilson(int(c), 60, confidence=0.5) for c in rng.binomial(60, 0.1, 3000)]
    assert np.mean([interval.low <= 0.1 <= interval.high for interval in narrow]) < 0.7


def test_wilson_against_the_textbook() -> None:
    # Newcombe (1998): 81 of 263 has the score interval 0.2553 to 0.3662.
    interval = wilson(81, 263)
    assert (round(interval.low, 4), round(interval.high, 4)) == (0.2553, 0.3662)
    assert wilson(0, 5).low == 0.0
    assert wilson(5, 5).high == 1.0


def test_classes_that_never_occur_do_not_count_in_f1() -> None:
    assert macro_f1([[3, 0, 0], [0, 2, 0], [0, 0, 0]]) == 1.0


def test_to_dict_is_json() -> None:
    result = evaluate(np.array([0, 1]), [[0.0, 1.0], [0.0, 1.0]], np.array([0, 1]))
    plain = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert plain["log_loss"] is None
    assert plain["classes"] == [0, 1]
    assert plain["confusion"] == [[0, 1], [0, 1]]
    assert set(plain["error_interval"]) == {"low", "high"}
    assert evaluate(TRUTH, PROBA, CLASSES).to_dict()["log_loss"] > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((TRUTH, [[1.0, 0.0]], CLASSES), r"proba has shape \(1, 2\).*3 columns.*predict_proba"),
        ((TRUTH, [0.5], CLASSES), r"proba has shape \(1,\)"),
        ((["ann"], [[1.5, -0.5, 0.0]], CLASSES), "negative or missing entry.*log=True"),
        ((["ann"], [[np.nan, 0.5, 0.5]], CLASSES), "negative or missing entry"),
        ((["ann"], [[0.5, 0.2, 0.2]], CLASSES), r"proba\[0\] sums to 0\.9; .*normalise"),
        ((["ann"], PROBA, CLASSES), "y_true has 1 entries for 4 rows.*same order"),
        ((["dan"], [[1, 0, 0]], CLASSES), "y_true has 'dan', which is not among the 3 classes"),
        ((["ann"], [[1, 0]], ["ann", "ann"]), "classes has a name twice"),
    ],
)
def test_bad_input(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        evaluate(*arguments)


def test_log_probabilities_must_sum_to_one_too() -> None:
    with pytest.raises(InputError, match=r"proba\[0\] sums to 2"):
        evaluate([0], [[0.0, 0.0]], [0, 1], log=True)


@pytest.mark.parametrize(("count", "n"), [(3, 2), (-1, 2), (0, 0)])
def test_bad_counts(count: int, n: int) -> None:
    with pytest.raises(InputError, match=r"count is .* of n .*between 0 and n"):
        wilson(count, n)


def test_bad_confidence_and_bins() -> None:
    with pytest.raises(InputError, match=r"confidence is 95; .*between 0 and 1"):
        wilson(1, 2, confidence=95)
    with pytest.raises(InputError, match=r"n_bins is 0; .*at least 1"):
        calibration_error([0.5], [True], n_bins=0)


# Pairs of texts: PAN's figures against hand counts and scikit-learn


def test_auc_is_scikit_learns_ties_included() -> None:
    random = np.random.default_rng(0)
    scores, same = random.integers(0, 9, 300) / 9, random.random(300) < 0.4
    assert auc(scores, same) == pytest.approx(roc_auc_score(same, scores))


def test_all_figures() -> None:
    p = np.array([0.9, 0.8, 0.5, 0.3, 0.1, 0.6, 0.5, 0.2])
    same = np.array([True, True, True, True, False, False, False, False])
    found = verify(p, same)
    right, unanswered, n = 4, 2, 8
    assert found.c_at_1 == pytest.approx((right + unanswered * right / n) / n)
    assert found.f_05_u == pytest.approx(1.25 * 2 / (1.25 * 2 + 0.25 * (1 + 2) + 1))
    answered = p != 0.5
    assert found.f1 == pytest.approx(f1_score(same[answered], p[answered] > 0.5))
    assert found.brier == pytest.approx(brier_score_loss(same, p))
    assert verify(np.full(4, 0.5), same[2:6]).f1 == 0


def test_no_answer_is_worth_more_than_a_wrong_one() -> None:
    same = np.array([True, False, True, False])
    wrong, silent = np.array([0.9, 0.1, 0.2, 0.1]), np.array([0.9, 0.1, 0.5, 0.1])
    assert verify(silent, same).c_at_1 > verify(wrong, same).c_at_1


def test_pairs_are_balanced_distinct_and_true() -> None:
    authors = np.repeat(np.arange(40), 5)
    pairs = balanced_pairs(authors, 200)
    assert pairs.same.sum() == 100 == (~pairs.same).sum()
    assert ((authors[pairs.left] == authors[pairs.right]) == pairs.same).all()
    distinct = {frozenset(row) for row in zip(pairs.left, pairs.right, strict=True)}
    assert len(distinct) == 200
    assert len(balanced_pairs(np.array([0, 0, 1, 1]), 100).left) == 4


def test_perfect_vectors_are_found_and_random_ones_are_not() -> None:
    random = np.random.default_rng(0)
    authors = np.repeat(np.arange(50), 3)
    vectors = np.eye(50)[authors] + 0.01 * random.normal(size=(150, 50))
    pairs = balanced_pairs(authors, 100)
    assert recall_at_1(vectors, authors) == 1.0
    assert auc(cosines(vectors, pairs), pairs.same) == 1.0
    assert recall_at_1(random.normal(size=(150, 50)), authors) < 0.2


def test_cllr_by_hand() -> None:
    """Two same-author ratios of 1 and 3, one different-author ratio of 1/2."""
    log_lr, same = np.log([1.0, 3.0, 0.5]), np.array([True, True, False])
    by_hand = ((1.0 + np.log2(4 / 3)) / 2 + np.log2(1.5)) / 2
    assert cllr(log_lr, same) == pytest.approx(by_hand)
    assert cllr(np.zeros(3), same) == pytest.approx(1.0)
    assert cllr(-log_lr, same) > 1.0
    assert np.isfinite(cllr(np.array([-1e4, 1.0, 0.0]), same))


def test_cllr_is_that_of_lir() -> None:
    metrics = pytest.importorskip("lir.metrics", reason="the package lir is not installed")
    from lir.data.models import LLRData

    random = np.random.default_rng(0)
    same = random.random(200) < 0.4
    log_lr = random.normal(np.where(same, 1.0, -1.0), 1.5)
    theirs = metrics.cllr(LLRData(features=log_lr[:, None] / np.log(10), labels=same.astype(int)))
    assert cllr(log_lr, same) == pytest.approx(theirs)


def test_matched_pairs_share_no_part_and_tell_no_length() -> None:
    random = np.random.default_rng(0)
    author = np.repeat(np.arange(6), 12)
    part, length = np.tile(np.repeat([0, 1, 2], 4), 6), np.tile([5, 50, 500, 900], 18)
    kept = ~((author == 5) & (part > 0))  # a person with one part has no pair
    author, part, length = author[kept], part[kept], length[kept]
    found = matched_pairs(author, part, length, 7, random)
    left, right = found.rows.T
    assert found.same.sum() == 35
    assert np.array_equal(author[left] == author[right], found.same)
    assert (part[left] != part[right])[found.same].all()
    first, second = left[found.same], right[found.same]
    assert np.array_equal(left[~found.same], first)
    assert np.array_equal(length[right[~found.same]], length[second])
    weight = found.weights(np.array([1.0, 2.0, 1.0, 1.0, 1.0]))
    assert np.bincount(found.owner, weight).tolist() == pytest.approx([2, 4, 2, 2, 2])
