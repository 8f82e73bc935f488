"""Contrasts of training rows come from SVMs that have not seen them."""

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.svm import LinearSVC

from whowrote import Attributor
from whowrote.attribution import contrasts as contrasts_module
from whowrote.attribution.contrasts import (
    FIRST_SUM,
    PENALTY,
    PENALTY_OF_WORKS,
    TOLERANCE,
    Contrasts,
    Known,
    Scaled,
    _kernels,
    code_per_text,
    first_weights,
    hardness,
    ridge_contrasts,
    view_weights,
)
from whowrote.corpus.splits import spread
from whowrote.features.counting import READINGS
from whowrote.features.kinds import named
from whowrote.progress import Stage, listening

HALF = 2e-3  # relative rounding of half precision, and a little


def made_up(
    n: int = 40, columns: int = 300, authors: int = 3, signal: float = 0.4, seed: int = 0
) -> tuple[sparse.csr_matrix, np.ndarray, np.ndarray]:
    """Sparse rows of unit length, authors with a preference each, and folds."""
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % authors
    rows = rng.random((n, columns)) * (rng.random((n, columns)) < 0.1)
    rows += signal * (rng.random((authors, columns)) < 0.05)[codes]
    X = sparse.csr_matrix(rows / np.linalg.norm(rows, axis=1, keepdims=True))
    return X, codes, spread(codes, np.arange(n), 4, seed)


def svms(X: sparse.csr_matrix, codes: np.ndarray, folds: np.ndarray) -> dict[int, LinearSVC]:
    """One SVM per fold, learnt from the other folds."""
    return {
        int(fold): LinearSVC(tol=TOLERANCE, class_weight="balanced", random_state=0).fit(
            X[folds != fold], codes[folds != fold]
        )
        for fold in np.unique(folds)
    }


@pytest.mark.parametrize("authors", [3, 5])
def test_a_training_row_is_answered_by_an_svm_that_has_not_seen_it(authors: int) -> None:
    X, codes, folds = made_up(authors=authors)
    held_out = Contrasts([slice(None)]).fit_transform(X, codes, folds)
    direct = svms(X, codes, folds)
    for row, fold in enumerate(folds):
        expected = direct[int(fold)].decision_function(X[row])[0]
        np.testing.assert_allclose(held_out[row], expected, atol=1e-9)
    other = direct[int((folds[0] + 1) % 4)].decision_function(X[0])[0]
    assert np.abs(held_out[0] - other).max() > 0.01  # an SVM that has seen it says otherwise


def test_a_new_row_gets_the_mean_of_the_svms() -> None:
    X, codes, folds = made_up()
    new = made_up(n=9, seed=1)[0]
    contrasts = Contrasts([slice(None)])
    contrasts.fit_transform(X, codes, folds)
    direct = [svm.decision_function(new) for svm in svms(X, codes, folds).values()]
    found = contrasts.transform(new)
    assert found.shape == (9, contrasts.n_authors) == (9, 3)
    np.testing.assert_allclose(found, np.mean(direct, axis=0), atol=HALF)
    assert np.abs(found - direct[0]).max() > 10 * HALF


def test_a_row_left_out_does_not_move_its_own_contrast() -> None:
    """Only the weights of SVMs that learn from a row depend on its author."""
    X, codes, folds = made_up()
    changed = codes.copy()
    changed[0] = (codes[0] + 1) % 3
    before = Contrasts([slice(None)]).fit_transform(X, codes, folds)
    after = Contrasts([slice(None)]).fit_transform(X, changed, folds)
    same = folds == folds[0]
    np.testing.assert_array_equal(before[same], after[same])
    assert (before[~same] != after[~same]).any(axis=1).all()


def test_seen_noise_looks_like_knowledge() -> None:
    """Negative control: of pure noise, only contrasts of rows that were learnt from are large."""
    X, codes, folds = made_up(n=60, columns=2000, signal=0.0)
    contrasts = Contrasts([slice(None)])
    own = np.arange(len(codes)), codes
    held_out = contrasts.fit_transform(X, codes, folds)[own]
    seen = contrasts.transform(X)[own]
    assert held_out.mean() < 0 < 0.3 < seen.mean()
    assert (held_out > 0).mean() < 0.1 < 0.9 < (seen > 0).mean()


def test_two_authors_have_a_contrast_each() -> None:
    X, codes, folds = made_up(authors=2)
    contrasts = Contrasts([slice(None)])
    held_out = contrasts.fit_transform(X, codes, folds)
    assert held_out.shape == (len(codes), 2)
    np.testing.assert_allclose(held_out[:, 0], -held_out[:, 1])
    direct = svms(X, codes, folds)[int(folds[0])].decision_function(X[0])
    np.testing.assert_allclose(held_out[0, 1], direct[0])
    new = contrasts.transform(X)
    np.testing.assert_allclose(new[:, 0], -new[:, 1])
    assert (new.argmax(axis=1) == codes).all()


def test_views_stand_side_by_side() -> None:
    X, codes, folds = made_up()
    both = Contrasts([slice(0, None), slice(100, None)])
    held_out = both.fit_transform(X, codes, folds)
    for number, part in enumerate((X, X[:, 100:])):
        alone = Contrasts([slice(None)])
        own = slice(3 * number, 3 * number + 3)
        np.testing.assert_array_equal(held_out[:, own], alone.fit_transform(part, codes, folds))
        np.testing.assert_array_equal(both.transform(X)[:, own], alone.transform(part))
    assert both.n_authors == 3


def test_what_was_learnt_comes_back_equal() -> None:
    X, codes, folds = made_up()
    views = [slice(0, None), slice(50, 200)]
    contrasts = Contrasts(views)
    contrasts.fit_transform(X, codes, folds)
    state = contrasts.state()
    assert all(state[f"weights.{n}"].dtype == np.float16 for n in range(2))
    twin = Contrasts(views).restore(state)
    np.testing.assert_array_equal(twin.transform(X), contrasts.transform(X))


def test_whoever_listens_hears_of_every_fold() -> None:
    X, codes, folds = made_up()
    heard: list[Stage] = []
    with listening(heard.append):
        Contrasts([slice(None)]).fit_transform(X, codes, folds)
    assert [(stage.done, stage.total) for stage in heard] == [(n, 4) for n in (1, 2, 3, 4)]


# Folds


GROUPS = st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=6), min_size=1, max_size=5)


@given(GROUPS, st.integers(2, 10), st.integers(0, 99))
@settings(deadline=None)
def test_groups_stay_whole_and_every_author_is_in_two_folds(
    sizes: list[list[int]], n_folds: int, seed: int
) -> None:
    sizes = [own if sum(own) > 1 else [2] for own in sizes]
    rows = [(k, (k, g)) for k, own in enumerate(sizes) for g, n in enumerate(own) for _ in range(n)]
    codes = np.array([code for code, _ in rows])
    groups = np.unique([k * 10 + g for _, (k, g) in rows], return_inverse=True)[1]
    folds = spread(codes, groups, n_folds, seed)
    assert folds.min() >= 0
    assert folds.max() < n_folds
    for code, own in enumerate(sizes):
        assert len(np.unique(folds[codes == code])) >= 2
        if len(own) > 1:
            for group in np.unique(groups[codes == code]):
                assert len(np.unique(folds[groups == group])) == 1


def test_folds_are_spread_evenly_and_by_the_seed() -> None:
    codes, groups = np.repeat([0, 1], 50), np.arange(100)
    folds = spread(codes, groups, 5, 0)
    for code in (0, 1):
        assert np.bincount(folds[codes == code], minlength=5).tolist() == [10] * 5
    np.testing.assert_array_equal(folds, spread(codes, groups, 5, 0))
    assert (folds != spread(codes, groups, 5, 1)).any()


def test_an_author_of_one_group_is_dealt_row_by_row() -> None:
    codes, groups = np.array([0] * 6 + [1] * 6), np.array([0] * 6 + [1, 1, 2, 2, 3, 3])
    folds = spread(codes, groups, 3, 0)
    assert np.bincount(folds[:6]).tolist() == [2, 2, 2]
    assert (folds[6::2] == folds[7::2]).all()
    assert sorted(folds[6::2].tolist()) == [0, 1, 2]


def test_an_author_of_shared_groups_is_in_two_folds_too() -> None:
    """Letters and their answers: author 0 has two texts, each in a group with many by author 1."""
    codes = np.array([1] * 100 + ([0] + [1] * 5) * 2)
    groups = np.array([0] * 100 + [1] * 6 + [2] * 6)
    folds = spread(codes, groups, 2, 0)
    assert len(np.unique(folds[codes == 0])) == 2


# Few rows: ridge regressions


def known_rows(n: int = 36, authors: int = 4, *, dense: bool = False, seed: int = 0) -> Known:
    X, codes, folds = made_up(n, authors=authors, seed=seed)
    rows = X.toarray() if dense else X
    asked = np.arange(n) < n - 4
    document = np.arange(n) % (n - 4)
    return Known(rows, rows, rows, codes, folds, document, asked, np.arange(n - 4))


def by_hand(
    known: Known, away: np.ndarray, asked: np.ndarray, counts: np.ndarray | float = 1.0
) -> np.ndarray:
    """A regression on the other rows alone, each of which counts so much."""
    rows = np.asarray(sparse.csr_matrix(known.rows).todense())
    if not sparse.issparse(known.rows):
        spread = np.where(rows.std(0) > 0, rows.std(0), 1.0)
        rows = (rows - rows.mean(0)) / spread / np.sqrt(rows.shape[1])
    kernel = rows @ rows.T + 1
    n, k = len(known.codes), known.n_authors
    targets = np.where(known.codes[:, None] == np.arange(k), 1.0, -1 / (k - 1))
    thin = np.bincount(known.codes)[known.codes] * k / n / counts
    kept = np.flatnonzero(~away)
    left = kernel[np.ix_(kept, kept)] + PENALTY * np.diag(thin[kept])
    return kernel[np.ix_(asked, kept)] @ np.linalg.solve(left, targets[kept])


@pytest.mark.parametrize("dense", [False, True])
def test_held_out_answers_are_those_of_a_regression_without_them(dense: bool) -> None:
    known = known_rows(dense=dense)
    contrasts, held = ridge_contrasts(known, {"features": slice(0, None)})
    ((view, weight),) = held.weights
    assert view == "features"
    before = np.empty((36, known.n_authors, 1))
    for fold in np.unique(known.folds):
        out = known.folds == fold
        before[out, :, 0] = by_hand(known, out, np.flatnonzero(out))
    counts = hardness(known, before, np.array([FIRST_SUM]))
    for fold in np.unique(known.folds):
        out = known.folds == fold
        expected = weight * by_hand(known, out, np.flatnonzero(out), counts)
        np.testing.assert_allclose(held.held_out[out], expected, rtol=1e-8, atol=1e-10)
        for author in range(known.n_authors):
            theirs = known.codes == author
            asked = np.flatnonzero(out & theirs)
            expected = weight * by_hand(known, out | theirs, asked, counts)
            others = np.arange(known.n_authors) != author
            np.testing.assert_allclose(held.strangers[asked][:, others], expected[:, others])
            assert np.isnan(held.strangers[asked][:, author]).all()
    everyone = weight * by_hand(known, np.zeros(len(known.codes), bool), np.arange(36), counts)
    np.testing.assert_allclose(contrasts.transform(known.rows), everyone, atol=5e-3)


def test_texts_that_others_answer_well_weigh_less() -> None:
    known, sure = known_rows(), np.arange(32) % 2 == 0
    own = np.arange(known.n_authors) == known.codes[:, None]
    answers = np.where(own, np.where(sure[known.document], 1.0, 0.0)[:, None], 0.0)
    counts = hardness(known, answers[..., None], np.array([FIRST_SUM]))
    assert counts.mean() == pytest.approx(1.0)
    assert counts[sure[known.document]].max() < 0.7 * counts[~sure[known.document]].min()
    # Negative control: where all are answered alike, all weigh alike.
    np.testing.assert_allclose(hardness(known, own[..., None] * 1.0, np.array([FIRST_SUM])), 1.0)


def test_long_works_all_weigh_alike() -> None:
    """What was chosen on short texts leaves novels alone."""
    known = known_rows(dense=True)
    codes = np.concatenate([known.codes[:12][::-1], known.codes[12:]])  # some are hard to answer
    short, long = (replace(known, codes=codes, words=words) for words in (300.0, 30_000.0))
    parts = {"features": slice(0, None)}
    with patch.object(contrasts_module, "hardness") as asked:
        _, held = ridge_contrasts(long, parts)
        assert not asked.called
    with patch.object(contrasts_module, "PENALTY", PENALTY_OF_WORKS):
        _, before = ridge_contrasts(short, parts)
        with patch.object(contrasts_module, "HARDNESS", 0.0):
            _, even = ridge_contrasts(short, parts)
    np.testing.assert_allclose(held.held_out, even.held_out, rtol=1e-9)
    assert np.abs(held.held_out - before.held_out).max() > 1e-3  # negative control


def test_a_text_of_which_nothing_was_held_out_weighs_as_others_do() -> None:
    known = known_rows()
    known = replace(known, folds=np.where(known.codes == 0, 0, known.folds))
    alone = ~known.told()
    np.testing.assert_array_equal(alone, code_per_text(known) == 0)
    answers = np.random.default_rng(0).normal(size=(36, known.n_authors, 1))
    counts = hardness(known, answers, np.array([FIRST_SUM]))
    theirs = counts[alone[known.document]]
    assert np.ptp(theirs) == 0
    assert np.ptp(counts) > 0.1
    first = np.unique(known.document, return_index=True)[1]
    assert theirs[0] == pytest.approx(counts[first][~alone].mean())


def test_a_regression_that_has_seen_the_row_says_more() -> None:
    """Negative control: what was held out matters."""
    known = known_rows()
    contrasts, held = ridge_contrasts(known, {"features": slice(0, None)})
    own = np.arange(36), known.codes
    assert (contrasts.transform(known.rows)[own] > held.held_out[own]).mean() > 0.95


def test_the_view_that_tells_authors_apart_counts() -> None:
    known = known_rows(120)
    noise = sparse.csr_matrix(np.random.default_rng(1).random((120, 50)) / 10)
    both = sparse.csr_matrix(sparse.hstack([known.rows, noise]))
    known = replace(known, rows=both, as_new=both, as_stranger=both)
    _, held = ridge_contrasts(known, {"written": slice(0, 300), "masked": slice(300, 350)})
    weights = dict(held.weights)
    assert set(weights) == {"written", "masked"}
    assert weights["written"] > 2 * weights["masked"]


def test_what_holds_across_long_works_counts_first() -> None:
    views = [{"written": 1.0}, {"masked": 1.0}, {"plain": 1.0}, {"vectors": 1.0, "plain": 0.5}]
    short, longer, long = (first_weights(views, words) for words in (200.0, 3000.0, 30_000.0))
    np.testing.assert_allclose(short, FIRST_SUM / 4)
    assert short[2] < longer[2] < long[2]
    assert long[0] == long[1] == long[3] < long[2] / 10
    np.testing.assert_allclose([one.sum() for one in (short, longer, long)], FIRST_SUM)
    # Where none of them is there, nothing is put first.
    np.testing.assert_allclose(first_weights([{"features": 1.0}], 30_000.0), FIRST_SUM)


COMMON = [
    "the",
    "and",
    "of",
    "to",
    "a",
    "in",
    "that",
    "it",
    "is",
    "was",
    "he",
    "she",
    "for",
    "as",
    "not",
    "had",
    "be",
    "her",
    "his",
    "on",
    "at",
    "by",
    "you",
    "so",
    "this",
    "all",
    "they",
    "from",
    "or",
    "which",
    "when",
    "would",
    "if",
    "no",
    "there",
    "what",
    "my",
    "an",
    "were",
    "then",
    "we",
    "who",
    "some",
    "me",
    "their",
]
HOUSES = (
    lambda text: text.title().replace(",", ";"),
    lambda text: text.replace(",", " --").replace(".", "!"),
)
"""Two printers."""


def work(author: int, words: int, random: np.random.Generator) -> str:
    """Common words as this author likes them, and names and matter of this work alone."""
    own = np.random.default_rng(100 + author).dirichlet(np.full(len(COMMON), 4.0))
    common = random.choice(COMMON, words, p=own)
    matter = np.array(["".join(random.choice(list("abcdefghik"), 5)) for _ in range(80)])
    chosen = np.where(random.random(words) < 0.6, common, random.choice(matter, words))
    marks = random.choice(["", ",", "."], words, p=[0.84, 0.1, 0.06])
    return " ".join(map("".join, zip(chosen, marks, strict=True)))


def test_a_printer_is_not_taken_for_the_author() -> None:
    """Every author has one printer, but the questioned texts all come from the first one's."""
    random = np.random.default_rng(0)
    texts = [HOUSES[author](work(author, 3000, random)) for author in (0, 1) for _ in range(3)]
    asked = [HOUSES[0](work(author, 1000, random)) for author in (0, 1) for _ in range(8)]
    right = {}
    for least in (contrasts_module.LEAST, 1.0):  # negative control: all views alike at first
        with patch.object(contrasts_module, "LEAST", least):
            model = Attributor("ngrams", passage_words=3000).fit(texts, list("aaabbb"))
        right[least] = (model.predict(asked) == np.array(list("aaaaaaaabbbbbbbb"))).mean()
    assert right[contrasts_module.LEAST] > 0.9
    assert right[1.0] < 0.7


def test_short_texts_are_not_read_bare() -> None:
    short, long = (named("ngrams", few=True, long=one) for one in (False, True))
    assert tuple(short.get_params()["readings"]) == ("written", "masked", "plain")
    assert tuple(long.get_params()["readings"]) == tuple(READINGS)


def test_a_unit_counts_once_however_many_texts_it_has() -> None:
    """The texts of one work say the same of a view: forty times said is not forty times true."""
    known = known_rows(120)
    rng = np.random.default_rng(2)
    texts = len(known.units)
    held_out = rng.normal(size=(120, known.n_authors, 2)) / 10
    held_out[np.arange(120), known.codes, 0] += 1.0
    first = np.full(2, 1.0)
    alone = view_weights(known, held_out, first)
    together = view_weights(replace(known, units=known.codes[:texts].copy()), held_out, first)
    assert alone[0] > together[0] > 1.0  # four works say less than all these texts
    assert alone[0] / alone[1] > together[0] / together[1]


def test_common_and_rare_columns_are_multiplied_alike() -> None:
    known = known_rows()
    scaled = Scaled.of(known.rows)
    for product in _kernels(known, scaled, slice(0, None)):
        np.testing.assert_allclose(product, (known.rows @ known.rows.T).toarray(), atol=1e-12)
