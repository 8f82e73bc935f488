"""Many rows: what is solved step by step is what a direct solution says, and strangers are away."""

from unittest.mock import patch

import numpy as np
import pytest
from scipy import sparse

from attribution.people import STRANGE, corpus, texts_by
from whowrote import Attributor
from whowrote.attribution import attributor, many_rows
from whowrote.attribution.contrasts import Held, Known
from whowrote.attribution.many_rows import PENALTY, VIEW, contrasts_of_many
from whowrote.corpus.splits import spread
from whowrote.progress import Stage, listening

N, AUTHORS, FOLDS = 120, 6, 4
PARTS = {"vectors": slice(0, 8), "written": slice(8, 300)}
CLOSE = 0.02
"""Of contrasts between about -1 and 1: a step by step solution stops at some thousandths."""


def made_up(seed: int = 0) -> Known:
    """Rows of two parts, authors of unequal sizes."""
    rng = np.random.default_rng(seed)
    codes = np.minimum(np.arange(N) % (AUTHORS + 2), AUTHORS - 1)
    dense = rng.standard_normal((N, 8)) + rng.standard_normal((AUTHORS, 8))[codes]
    wide = rng.random((N, 292)) * (rng.random((N, 292)) < np.linspace(0.02, 0.4, 292))
    wide += 0.3 * (rng.random((AUTHORS, 292)) < 0.05)[codes]
    parts = [one / np.linalg.norm(one, axis=1, keepdims=True) for one in (dense, wide)]
    rows, texts = sparse.csr_matrix(np.hstack(parts)), np.arange(N)
    folds = spread(codes, texts, FOLDS, seed)
    return Known(rows, rows, rows, codes, folds, texts, np.ones(N, bool), texts)


def direct(known: Known, asked: np.ndarray, there: np.ndarray) -> np.ndarray:
    """What a regression of the rows that are there answers to those asked, by a direct solution."""
    rows = known.rows.toarray()
    weighed = np.hstack([VIEW[name] * rows[:, own] for name, own in PARTS.items()])
    kernel = 1.0 + weighed @ weighed.T
    thinness = np.bincount(known.codes)[known.codes] * AUTHORS / N
    targets = np.where(known.codes[:, None] == np.arange(AUTHORS), 1.0, -1.0 / (AUTHORS - 1))
    system = kernel[np.ix_(there, there)] + PENALTY * np.diag(thinness[there])
    return kernel[np.ix_(asked, there)] @ np.linalg.solve(system, targets[there])


@pytest.fixture(scope="module")
def known() -> Known:
    return made_up()


@pytest.fixture(scope="module")
def held(known: Known) -> Held:
    return contrasts_of_many(known, PARTS)[1]


def test_new_rows_are_answered_by_all(known: Known) -> None:
    contrasts, _ = contrasts_of_many(known, PARTS)
    everybody = np.ones(N, bool)
    np.testing.assert_allclose(
        contrasts.transform(known.rows), direct(known, everybody, everybody), atol=CLOSE
    )


def test_held_out_rows_are_answered_without_their_fold(known: Known, held: Held) -> None:
    for fold in range(FOLDS):
        out = known.folds == fold
        expected = direct(known, out, ~out)
        np.testing.assert_allclose(held.held_out[out], expected, atol=CLOSE)
        seen = direct(known, out, np.ones(N, bool))  # negative control
        assert np.abs(held.held_out[out] - seen).max() > 5 * CLOSE


def test_strangers_are_answered_without_their_author(known: Known, held: Held) -> None:
    asked = np.isfinite(held.strangers).any(axis=1)
    assert set(known.codes[asked]) == set(range(AUTHORS))
    for author in range(AUTHORS):  # six authors are left out one by one
        own = asked & (known.codes == author)
        (fold,) = set(known.folds[own])
        assert own.sum() == ((known.folds == fold) & (known.codes == author)).sum()
        there = (known.folds != fold) & (known.codes != author)
        others = np.arange(AUTHORS) != author
        expected = direct(known, own, there)[:, others]
        np.testing.assert_allclose(held.strangers[own][:, others], expected, atol=CLOSE)
        assert np.isnan(held.strangers[own][:, author]).all()
        knowing = direct(known, own, known.folds != fold)[:, others]  # negative control
        assert np.abs(held.strangers[own][:, others] - knowing).max() > 2 * CLOSE


def test_many_authors_are_left_out_in_groups(known: Known) -> None:
    with patch.object(many_rows, "LEFT_OUT", 12), patch.object(many_rows, "LEAST_GROUPS", 2):
        held = contrasts_of_many(known, PARTS)[1]
    asked = np.isfinite(held.strangers).any(axis=1)
    away = np.isnan(held.strangers[asked])
    assert set(away.sum(axis=1)) <= {1, 2}
    assert (away.sum(axis=1) == 2).any()
    assert away[np.arange(asked.sum()), known.codes[asked]].all()


def test_dense_rows_too(known: Known) -> None:
    dense = np.asarray(known.rows[:, PARTS["vectors"]].toarray())
    rows = Known(
        dense, dense, dense, known.codes, known.folds, known.document, known.asked, known.units
    )
    contrasts, held = contrasts_of_many(rows, {"features": slice(None)})
    right = held.held_out.argmax(axis=1) == known.codes
    assert right.mean() > 0.6 > 1.5 / AUTHORS
    assert contrasts.transform(dense).shape == (N, AUTHORS)


def products(known: Known, directions: int) -> int:
    """How many products with the kernel all solutions take."""
    counted, times = [], many_rows._System._times

    def count(self: many_rows._System, columns: np.ndarray) -> np.ndarray:
        counted.append(1)
        return times(self, columns)

    with (
        patch.object(many_rows._System, "_times", count),
        patch.object(many_rows, "DIRECTIONS", directions),
    ):
        contrasts_of_many(known, PARTS)
    return len(counted)


def test_leading_directions_save_most_of_the_products() -> None:
    """Also for what is solved without some rows; one direction is the control."""
    known = made_up(seed=1)
    systems = 1 + FOLDS + AUTHORS
    assert products(known, 30) < 12 * systems
    assert products(known, 1) > 1.4 * products(known, 30)


def test_groups_have_as_many_texts() -> None:
    codes = np.repeat(np.arange(6), [50, 40, 30, 4, 3, 2])
    with patch.object(many_rows, "LEFT_OUT", 18), patch.object(many_rows, "LEAST_GROUPS", 3):
        groups = many_rows._groups(codes, 2)
    assert np.bincount(groups[codes]).tolist() == [54, 43, 32]


def test_whoever_listens_hears_how_far_it_is(known: Known) -> None:
    heard: list[Stage] = []
    with listening(heard.append):
        contrasts_of_many(known, PARTS)
    for name in ("comparing the texts", "contrasting the authors"):
        stages = [one for one in heard if one.name == name]
        assert stages[-1].done == stages[-1].total > 1


@pytest.fixture(scope="module")
def many() -> Attributor:
    """Eight people whose texts are too many to be held out one by one."""
    with patch.object(attributor, "MOST_FEW", 50):
        return Attributor("ngrams", random_state=0).fit(*corpus(8, 12))


def test_many_texts_have_authors_and_strangers(many: Attributor) -> None:
    texts, authors = corpus(8, 6, seed=5)
    answers = many.attribute(texts)
    assert (
        np.mean([one.best.author == own for one, own in zip(answers, authors, strict=True)]) > 0.9
    )
    curve = many.fitted_.calibration.strangers
    assert curve is not None
    assert curve.met == 7
    away = many.attribute(texts_by(99, 10, vocabulary=STRANGE))
    own, other = (np.array([one.stranger for one in some]) for some in (answers, away))
    assert np.median(own) < 0.05 < np.median(other)


def test_many_and_few_agree(many: Attributor) -> None:
    few = Attributor("ngrams", random_state=0).fit(*corpus(8, 12))
    texts = corpus(8, 6, seed=5)[0]
    assert (few.predict(texts) == many.predict(texts)).mean() > 0.9
    assert few.id_ != many.id_


def test_many_texts_are_answered_alike_in_any_order(many: Attributor) -> None:
    texts, authors = corpus(8, 12)
    order = np.random.default_rng(3).permutation(len(texts))
    with patch.object(attributor, "MOST_FEW", 50):
        other = Attributor("ngrams", random_state=0).fit(
            [texts[i] for i in order], [authors[i] for i in order]
        )
    assert other.id_ == many.id_
