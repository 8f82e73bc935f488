"""Nearness to an author's mean, and to the mean of his others for a training text."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

from whowrote.attribution.profiles import Profiles, text_rows, unit_rows
from whowrote.attribution.rows import Read, cut_all
from whowrote.features import NGrams

HALF = 3e-3
COLUMNS = [slice(0, 10), slice(10, None)]
Array = NDArray[np.float64]
Codes = NDArray[np.intp]


def made_up(counts: tuple[int, ...] = (4, 2, 7)) -> tuple[Array, Codes]:
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(len(counts)), counts)
    places = 2 * rng.normal(size=(len(counts), 40))
    return places[codes] + rng.normal(size=(len(codes), 40)), codes


def unit(rows: Array) -> Array:
    return np.asarray(rows / np.linalg.norm(rows, axis=-1, keepdims=True))


def length(rows: Array) -> float:
    """Of the mean behind rows of one author: the mean product of two different ones, rooted."""
    products = rows @ rows.T
    return float(np.sqrt(products[~np.eye(len(rows), dtype=bool)].mean()))


def test_a_training_text_is_compared_with_the_others() -> None:
    rows, codes = made_up()
    X = sparse.csr_matrix(rows)
    found = Profiles.learn(X, codes, COLUMNS).own_nearness(X, codes)
    for block, columns in enumerate(COLUMNS):
        part = unit(rows[:, columns])
        for row, code in enumerate(codes):
            others = part[(codes == code) & (np.arange(len(codes)) != row)].mean(axis=0)
            expected = part[row] @ others / length(part[codes == code])
            assert found[row, block] == pytest.approx(expected, abs=HALF)


def test_a_new_text_is_compared_with_all() -> None:
    rows, codes = made_up()
    new = np.random.default_rng(1).normal(size=(5, 40))
    profiles = Profiles.learn(sparse.csr_matrix(rows), codes, COLUMNS)
    found = profiles.nearness(sparse.csr_matrix(new))
    assert found.shape == (5, 3, 2)
    for block, columns in enumerate(COLUMNS):
        part, asked = unit(rows[:, columns]), unit(new[:, columns])
        for author in range(3):
            own = part[codes == author]
            expected = asked @ own.mean(axis=0) / length(own)
            np.testing.assert_allclose(found[:, author, block], expected, atol=HALF)


def test_left_in_a_text_is_its_own_witness() -> None:
    """Negative control: against a mean that has it, any text is nearer; of two texts, by far."""
    rows, codes = made_up()
    X = sparse.csr_matrix(rows)
    profiles = Profiles.learn(X, codes, COLUMNS)
    gain = profiles.nearness(X)[np.arange(len(codes)), codes] - profiles.own_nearness(X, codes)
    assert gain.min() > HALF
    assert gain[codes == 1].mean() > 2 * gain[codes == 2].mean()


@pytest.mark.parametrize("texts", [2, 3, 10])
def test_held_out_texts_are_as_near_as_new_ones(texts: int) -> None:
    """However few the texts; a plain cosine would find new texts nearer, the fewer the more."""
    rng = np.random.default_rng(0)
    codes, new_codes = np.repeat(np.arange(200), texts), np.repeat(np.arange(200), 3)
    places = rng.normal(size=(200, 60))
    rows = unit(places[codes] + 1.5 * rng.normal(size=(len(codes), 60)))
    new = unit(places[new_codes] + 1.5 * rng.normal(size=(600, 60)))
    profiles = Profiles.learn(sparse.csr_matrix(rows), codes, [slice(None)])
    held_out = profiles.own_nearness(sparse.csr_matrix(rows), codes)
    fresh = profiles.nearness(sparse.csr_matrix(new))[np.arange(600), new_codes]
    assert fresh.mean() / held_out.mean() == pytest.approx(1.0, abs=0.1 if texts == 2 else 0.04)
    if texts == 2:
        means = np.stack([rows[codes == author].mean(axis=0) for author in range(200)])
        cosine = (new * unit(means)[new_codes]).sum(axis=1)
        left_out = (rows[0::2] * rows[1::2]).sum(axis=1)
        assert cosine.mean() / left_out.mean() > 1.2


def test_the_length_of_a_row_says_nothing() -> None:
    rows, codes = made_up()
    profiles = Profiles.learn(sparse.csr_matrix(rows), codes, COLUMNS)
    once, twice = (profiles.nearness(sparse.csr_matrix(scale * rows[:3])) for scale in (1.0, 2.0))
    np.testing.assert_allclose(once, twice, atol=1e-6)


def test_an_author_of_one_text_is_compared_with_it() -> None:
    rows, codes = made_up((3, 1))
    X = sparse.csr_matrix(rows)
    found = Profiles.learn(X, codes, COLUMNS).own_nearness(X, codes)
    np.testing.assert_allclose(found[3], 1.0, atol=HALF)


def test_rows_of_zeros_are_near_nobody() -> None:
    rows, codes = made_up()
    rows[0] = 0.0
    rows[codes == 1, 10:] = 0.0
    X = sparse.csr_matrix(rows)
    profiles = Profiles.learn(X, codes, COLUMNS)
    own, everybody = profiles.own_nearness(X, codes), profiles.nearness(X)
    assert np.isfinite(own).all()
    assert np.isfinite(everybody).all()
    assert (own[0] == 0.0).all()
    assert (own[codes == 1, 1] == 0.0).all()
    assert (everybody[0] == 0.0).all()
    assert (everybody[:, 1, 1] == 0.0).all()
    np.testing.assert_array_equal(unit_rows(X)[0].toarray(), 0.0)


def test_what_was_learnt_comes_back_equal() -> None:
    rows, codes = made_up()
    X = sparse.csr_matrix(rows)
    profiles = Profiles.learn(X, codes, COLUMNS)
    twin = Profiles.restore(COLUMNS, profiles.state())
    np.testing.assert_array_equal(twin.nearness(X), profiles.nearness(X))
    np.testing.assert_array_equal(twin.own_nearness(X, codes), profiles.own_nearness(X, codes))


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_a_text_is_the_mean_of_its_passages(kind: type) -> None:
    passages = cut_all(["a b c d e f", "g", "h i j k"], 2)
    X = np.random.default_rng(0).normal(size=(6, 4))
    found = text_rows(Read(passages, kind(X), X)).toarray()
    np.testing.assert_allclose(found, [X[:3].mean(0), X[3], X[4:].mean(0)])


def test_one_block_where_the_features_are_one() -> None:
    assert NGrams().fit(["a b", "a c"]).fitted().blocks() == {"features": slice(0, None)}
