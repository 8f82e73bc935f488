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
    found = Profiles.about(X, codes, COLUMNS, [None, None]).own_nearness(X, codes)
    for block, columns in enumerate(COLUMNS):
        part = unit(rows[:, columns])
        for row, code in enumerate(codes):
            others = part[(codes == code) & (np.arange(len(codes)) != row)].mean(axis=0)
            expected = part[row] @ others / length(part[codes == code])
            assert found[row, block] == pytest.approx(expected, abs=HALF)


def test_a_new_text_is_compared_with_all() -> None:
    rows, codes = made_up()
    new = np.random.default_rng(1).normal(size=(5, 40))
    profiles = Profiles.about(sparse.csr_matrix(rows), codes, COLUMNS, [None, None])
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
    profiles = Profiles.about(X, codes, COLUMNS, [None, None])
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
    profiles = Profiles.about(sparse.csr_matrix(rows), codes, [slice(None)], [None])
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
    profiles = Profiles.about(sparse.csr_matrix(rows), codes, COLUMNS, [None, None])
    once, twice = (profiles.nearness(sparse.csr_matrix(scale * rows[:3])) for scale in (1.0, 2.0))
    np.testing.assert_allclose(once, twice, atol=1e-6)


def test_an_author_of_one_text_is_compared_with_it() -> None:
    rows, codes = made_up((3, 1))
    X = sparse.csr_matrix(rows)
    found = Profiles.about(X, codes, COLUMNS, [None, None]).own_nearness(X, codes)
    np.testing.assert_allclose(found[3], 1.0, atol=HALF)


def test_rows_of_zeros_are_near_nobody() -> None:
    rows, codes = made_up()
    rows[0] = 0.0
    rows[codes == 1, 10:] = 0.0
    X = sparse.csr_matrix(rows)
    profiles = Profiles.about(X, codes, COLUMNS, [None, None])
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
    profiles = Profiles.about(X, codes, COLUMNS, [None, None])
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


# Centred


BLOCKS = {"vectors": slice(0, 10), "n-grams": slice(10, None)}


def test_the_centre_is_what_so_many_authors_can_tell_of() -> None:
    rows, codes = made_up()
    origin = np.full(10, -0.5)
    profiles = Profiles.learn(sparse.csr_matrix(rows), codes, BLOCKS, {"vectors": origin})
    means = np.stack([rows[codes == author, :10].mean(axis=0) for author in range(3)])
    np.testing.assert_allclose(profiles.shifts[0], -(3 * means.mean(axis=0) + origin) / 4)
    assert profiles.shifts[1] is None
    centred = rows[:, :10] + profiles.shifts[0]
    plain = Profiles.about(sparse.csr_matrix(centred), codes, [slice(None)], [None])
    np.testing.assert_allclose(
        profiles.nearness(sparse.csr_matrix(rows))[..., 0],
        plain.nearness(sparse.csr_matrix(centred))[..., 0],
        atol=1e-6,
    )


def test_who_plays_the_stranger_has_not_set_the_centre() -> None:
    """Their texts are as near to others as by a model that never had them."""
    rows, codes = made_up()
    X, origins = sparse.csr_matrix(rows), {"vectors": np.zeros(10)}
    profiles = Profiles.learn(X, codes, BLOCKS, origins)
    found = profiles.as_strangers(X, codes, X, BLOCKS, origins)
    for author in range(3):
        own, others = codes == author, [k for k in range(3) if k != author]
        left = np.searchsorted(others, codes[~own])
        never = Profiles.learn(sparse.csr_matrix(rows[~own]), left, BLOCKS, origins)
        expected = never.nearness(sparse.csr_matrix(rows[own]))[..., 0]
        np.testing.assert_allclose(found[own][:, others, 0], expected, atol=HALF)
    np.testing.assert_array_equal(found[..., 1], profiles.nearness(X)[..., 1])


@pytest.mark.parametrize("authors", [3, 20])
def test_strangers_among_few_are_as_near_as_strangers_are(authors: int) -> None:
    """Negative control: with those who play strangers in the centre, they look too far away."""
    rng = np.random.default_rng(authors)
    played, met, in_the_centre = [], [], []
    for _ in range(40):
        kind = 2 * rng.normal(size=60)
        places = kind + rng.normal(size=(authors + 5, 60))
        codes = np.repeat(np.arange(authors), 6)
        X = sparse.csr_matrix(places[codes] + rng.normal(size=(len(codes), 60)))
        new = sparse.csr_matrix(places[authors:].repeat(3, axis=0) + rng.normal(size=(15, 60)))
        blocks, origins = {"vectors": slice(None)}, {"vectors": np.zeros(60)}
        profiles = Profiles.learn(X, codes, blocks, origins)
        met.append(profiles.nearness(new)[..., 0].max(axis=1))
        for side, found in (
            (played, profiles.as_strangers(X, codes, X, blocks, origins)),
            (in_the_centre, profiles.nearness(X)),
        ):
            found = found[..., 0].copy()
            found[np.arange(len(codes)), codes] = -np.inf
            side.append(found.max(axis=1))
    true, left_out, left_in = (np.concatenate(one).mean() for one in (met, played, in_the_centre))
    assert abs(left_out - true) < 0.12
    assert left_in < left_out - 0.01
    if authors == 3:
        assert left_in < true - 0.2


def test_texts_of_one_work_are_not_compared_with_each_other() -> None:
    """Every author has works of their own bent; a text of a new work is as near as they say."""
    rng = np.random.default_rng(4)
    author, works, texts = rng.normal(size=(12, 60)), 4, 6
    bent = rng.normal(size=(12, works + 1, 60))
    rows = (
        author[:, None, None] + bent[:, :, None] + 0.5 * rng.normal(size=(12, works + 1, texts, 60))
    )
    known = sparse.csr_matrix(rows[:, :works].reshape(-1, 60))
    codes, units = np.repeat(np.arange(12), works * texts), np.repeat(np.arange(12 * works), texts)
    new = sparse.csr_matrix(rows[:, works].reshape(-1, 60))
    own = np.repeat(np.arange(12), texts)
    gap = {}
    for name, grouped in (("units", units), ("texts", None)):
        profiles = Profiles.about(known, codes, [slice(None)], [None], grouped)
        held_out = profiles.own_nearness(known, codes, units=grouped)[:, 0].mean()
        found = profiles.nearness(new)[np.arange(len(own)), own, 0].mean()
        gap[name] = abs(held_out - found)
    assert gap["units"] < 0.08 < gap["texts"]  # negative control: each text for itself


def test_an_author_of_one_work_is_compared_text_by_text() -> None:
    rng = np.random.default_rng(5)
    rows = sparse.csr_matrix(rng.normal(size=(8, 5)))
    codes = np.repeat([0, 1], 4)
    units = np.array([0, 0, 0, 0, 1, 2, 3, 4])
    found = [
        Profiles.about(rows, codes, [slice(None)], [None], one).own_nearness(rows, codes, units=one)
        for one in (units, None)
    ]
    np.testing.assert_allclose(found[0], found[1])
