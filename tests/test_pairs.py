"""PAN's figures against hand counts and scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, f1_score, roc_auc_score

from whowrote.metrics import auc, balanced_pairs, cosines, recall_at_1, verify


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
