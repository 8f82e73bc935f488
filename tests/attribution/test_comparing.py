"""Texts compared: one author or two, and no more claimed than people have shown."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from attribution.people import corpus, texts_by
from whowrote.arrays import FloatArray, IntArray
from whowrote.attribution import Attributor
from whowrote.attribution.population import (
    PRETRAINED,
    VECTORS,
    Population,
    Sides,
    extractor_of,
    figures,
    shown,
)
from whowrote.attribution.storage import load
from whowrote.attribution.verification import (
    PRIOR_CENTRE,
    Centre,
    Enrolled,
    OwnCurve,
    compare,
    enrolled_of,
    fit_verifier,
    grounded,
    packaged_extractor,
    read_authors,
    restore_verifier,
)
from whowrote.demo import read_addresses
from whowrote.errors import InputError
from whowrote.features.fitted_features import FittedAdHominem
from whowrote.features.ngrams import NGrams
from whowrote.metrics import cllr
from whowrote.ratios import ridge_logistic

GOLDEN = Path(__file__).parents[1] / "golden"


def own_curve(model: Attributor) -> OwnCurve:
    found = model.fitted_.verifier
    assert isinstance(found, OwnCurve)
    return found


def packaged() -> Population:
    found = Population.of(packaged_extractor())
    assert found is not None
    return found


@pytest.fixture(scope="module")
def addresses() -> dict[str, str]:
    """Real English: addresses of two presidents."""
    return {f"{one.author} {one.year}": one.text for one in read_addresses()}


# Enrolled authors alone


def test_verification_tells_one_author_from_two(model: Attributor) -> None:
    same = [model.verify(*texts_by(author, 2, seed=3)) for author in range(4)]
    two = [
        model.verify(texts_by(author, 1, seed=3)[0], texts_by((author + 1) % 4, 1, seed=4)[0])
        for author in range(4)
    ]
    assert min(v.log10_lr for v in same) > 0 > max(v.log10_lr for v in two)
    for found in same + two:
        assert found.low <= found.log10_lr <= found.high
        assert json.loads(json.dumps(found.to_dict()))["log10_lr"] == found.log10_lr


def test_a_probability_needs_a_prior(model: Attributor) -> None:
    pair = texts_by(1, 2, seed=3)
    silent, even, rare = (model.verify(*pair, prior=prior) for prior in (None, 0.5, 0.01))
    assert silent.probability is silent.prior is None
    for found in (even, rare):
        assert found.prior is not None
        assert found.probability is not None
        odds = 10**found.log10_lr * found.prior / (1 - found.prior)
        assert found.probability == pytest.approx(odds / (1 + odds))
    for bad in (0.0, 1.0, -1.0, float("nan")):
        with pytest.raises(InputError, match=r"prior is .*; it must lie between 0 and 1"):
            model.verify(*pair, prior=bad)


def test_a_ratio_claims_no_more_than_people_have_shown(model: Attributor) -> None:
    curve, text = own_curve(model), texts_by(1, 1, seed=3)[0]
    features = model.fitted_.reader.features
    free = replace(curve, bias=curve.bias + 500.0)
    bounded = compare(features, free, text, text)
    assert bounded.limited
    assert 10**bounded.log10_lr == pytest.approx(1 + curve.authors)
    many = compare(features, replace(free, authors=10**15), text, text)
    assert many.log10_lr > bounded.log10_lr + 1
    assert not model.verify(text, texts_by(2, 1, seed=3)[0]).limited


def test_few_authors_say_less_than_many() -> None:
    pair, features = texts_by(30, 2, seed=3), NGrams().fit(corpus(20, 4)[0]).fitted()
    found = []
    for authors in (2, 20):
        texts = corpus(authors, 4)[0]
        curve = fit_verifier(features, texts, np.repeat(np.arange(authors), 4))
        found.append(compare(features, curve, *pair))
    assert 0 < found[0].log10_lr < 0.25 < found[1].log10_lr
    assert [one.population.people for one in found] == [2, 20]


def test_lengths_that_were_not_learnt_from_say_less(model: Attributor) -> None:
    curve = own_curve(model)
    low, high = curve.words
    words = np.array([[high, high], [10 * high, 10 * high], [low, low], [low, 1]])
    inside, longer, least, short = curve.log_lr(np.ones((4, 1)), words)[:, 0]
    assert longer == pytest.approx(inside / 10)
    assert abs(short) < abs(least)


def sides_of(cosines: FloatArray, words: IntArray, length: float = 5.0) -> tuple[Sides, IntArray]:
    """Two sides a pair, of such cosines, in the plane."""
    angles = np.arccos(cosines)
    left = np.column_stack([np.ones_like(angles), np.zeros_like(angles)])
    right = np.column_stack([np.cos(angles), np.sin(angles)])
    n = len(cosines)
    sides = Sides({VECTORS: length * np.concatenate([left, right])}, words.T.ravel())
    return sides, np.stack([np.arange(n), np.arange(n) + n], axis=1)


def test_pairs_without_meaning_give_ratios_near_one() -> None:
    """Negative control: the same curve, learnt from shuffled answers, says nothing."""
    random = np.random.default_rng(0)
    same = np.arange(4000) < 2000
    alike = np.clip(random.normal(np.where(same, 0.4, 0.1), 0.15), -1, 1)
    X = figures(*sides_of(alike, random.integers(20, 1000, (4000, 2))), np.zeros(4000), 1600)
    weight, penalty = np.ones(4000), np.full(X.shape[1], 1e-2)
    costs = []
    for learnt in (same, random.permutation(same)):
        costs.append(cllr(X @ ridge_logistic(X, learnt, weight, penalty), same))
    assert costs[0] < 0.6
    assert costs[1] == pytest.approx(1.0, abs=0.02)


def test_where_domains_do_not_agree_the_ratio_is_near_one() -> None:
    """The more the curves of domains differ, the less is claimed; alike, they say it in full."""
    columns, nobody = np.zeros((2, 18)), np.zeros(2)
    columns[:, 0] = [3.0, -3.0]
    draws = np.zeros((64, 18))
    draws[:, 0] = 1.0
    normals = np.random.default_rng(0).normal(size=(32, 2))
    found = []
    for spread in (0.0, 1.0, 3.0):
        own = Population(
            {"letters": 200},
            ((100.0, 200),),
            draws,
            np.concatenate([normals, -normals]),
            np.array([[0.0, spread], [0.0, spread]]),
        )
        every = own.over_domains(columns, nobody)
        assert own.over_domains(columns, nobody + 1e12)[:, 0] == pytest.approx([3.0, -3.0])
        assert (every[:, 1:].min(axis=1) <= every[:, 0] + 1e-9).all()
        assert (every[:, 1:].max(axis=1) >= every[:, 0] - 1e-9).all()
        found.append(every[:, 0])
    same, two = np.array(found).T
    assert same[0] == pytest.approx(3.0)
    assert same[0] > same[1] > same[2] > 0
    assert two[0] < two[1] < two[2] < 0


def test_a_domain_moves_short_texts_less() -> None:
    """A shift by two, with nothing else said: half of it at 50 words, all of it at very many."""
    own = Population(
        {"letters": 200},
        ((1e6, 200),),
        np.zeros((1, 18)),
        np.array([[1.0, 0.0]]),
        np.array([[2.0, 2.0], [0.0, 0.0]]),
    )
    words = np.array([[50, 50], [10**6, 10**6], [26, 650]])  # the last ones' harmonic mean is 50
    sides, pairs = sides_of(np.full(3, 0.5), words)
    assert own.log_lr(sides, pairs, 3)[:, 0] == pytest.approx([1.0, 2.0, 1.0], abs=1e-3)


def test_cosines_of_dense_and_of_sparse_rows_are_equal() -> None:
    rows = np.random.default_rng(0).normal(size=(5, 7))
    rows[4] = 0.0
    pairs = np.array([[0, 1], [2, 3], [3, 4]])
    dense, few = (
        Sides({VECTORS: each}, np.full(5, 99)).similarities(pairs)[:, 0]
        for each in (rows, sparse.csr_matrix(rows))
    )
    assert dense == pytest.approx(few, abs=1e-12)
    assert dense[2] == 0.0
    assert abs(dense[0]) > 0.01


def test_the_regression_is_scikit_learns() -> None:
    random = np.random.default_rng(1)
    X, offset = random.normal(size=(300, 3)), np.zeros(300)
    same = X @ [2.0, -1.0, 0.5] + random.normal(size=300) > 0
    weight = random.uniform(0.5, 2.0, 300)
    theirs = LogisticRegression(C=0.1, fit_intercept=False, tol=1e-9).fit(X, same, weight)
    ours = ridge_logistic(X, same, weight, np.full(3, 10.0), offset)
    assert ours == pytest.approx(theirs.coef_[0], abs=1e-5)
    # What the offset says already need not be learnt.
    rest = ridge_logistic(X, same, weight, np.full(3, 1e-9), X @ ours)
    free = ridge_logistic(X, same, weight, np.full(3, 1e-9))
    assert rest + ours == pytest.approx(free, rel=1e-4)


# The packaged population


def test_a_population_belongs_to_its_extractor(tmp_path: Path) -> None:
    found = packaged()
    assert set(found.people) == {"blogs", "hotels", "mail", "forum"}
    assert sum(found.people.values()) > 900
    assert found.draws.shape == (16, 18)
    assert found.normals.shape == (256, 2)
    again = Population.from_dict(json.loads(json.dumps(found.to_dict())))
    for one, other in zip(vars(again).values(), vars(found).values(), strict=True):
        assert np.array_equal(one, other) if isinstance(one, np.ndarray) else one == other
    (tmp_path / "other.safetensors").write_bytes(b"other weights")
    assert Population.of(FittedAdHominem(tmp_path / "other.safetensors", 4000)) is None
    assert Population.of(NGrams().fit(["a b", "b c"]).fitted()) is None


def test_the_packaged_curve_knows_lengths_and_references() -> None:
    """The same likeness is worth less in long texts, and where nothing is known of the domain."""
    curve, words = packaged(), np.array([[n, n] for n in (100, 400, 1600)])
    sides, pairs = sides_of(np.full(3, 0.5), words)
    alike = [curve.log_lr(sides, pairs, authors)[:, 0] for authors in (0, 20)]
    assert alike[1][0] > alike[1][1] > alike[1][2]
    assert (alike[1] > alike[0]).all()
    sides, pairs = sides_of(np.full(2, 0.3), np.array([[50, 800], [800, 50]]))
    assert np.ptp(curve.log_lr(sides, pairs, 5)[:, 0]) == pytest.approx(0, abs=1e-9)
    most = curve.most(np.array([[50, 50], [1600, 1600]]))
    assert most[0] > most[1] > np.log(100)
    sides, pairs = sides_of(np.full(2, 0.6), np.array([[1600, 1600], [9999, 9999]]))
    beyond = curve.log_lr(sides, pairs, 5)
    assert beyond[0, 0] == beyond[1, 0]


def test_equal_texts_have_a_finite_ratio() -> None:
    sides = Sides({VECTORS: np.ones((2, 4))}, np.array([300, 300]))
    assert np.isfinite(packaged().log_lr(sides, np.array([[0, 1]]), 0)).all()


def test_a_centre_of_another_extractor_says_nothing() -> None:
    pair = texts_by(30, 2, seed=3)
    alone = compare(packaged_extractor(), None, *pair)
    other = compare(packaged_extractor(), Centre(9, (1.0, 2.0)), *pair)
    assert other == alone


def test_real_texts_without_a_model(addresses: dict[str, str]) -> None:
    first, second, other = (
        addresses[name] for name in ("Ronald Reagan 1983", "Ronald Reagan 1985", "John Adams 1798")
    )
    same, two = (compare(packaged_extractor(), None, first, text) for text in (second, other))
    assert same.log10_lr > 0 > two.log10_lr
    assert same.population.enrolled == 0
    assert same.population.description.startswith(f"{sum(packaged().people.values()):,} people")
    assert set(same.similarities) == {VECTORS}
    known = compare(packaged_extractor(), None, [first, second], addresses["Ronald Reagan 1986"])
    assert known.log10_lr > 0
    assert known.words[0] == len(first.split()) + len(second.split())


def test_notes_of_a_few_words_say_nothing(addresses: dict[str, str]) -> None:
    notes = [compare(packaged_extractor(), None, *pair) for pair in NOTES]
    assert max(abs(found.log10_lr) for found in notes) < 0.2
    assert {found.in_words for found in notes} == {"no noteworthy support for either proposition"}
    text = addresses["Ronald Reagan 1983"]
    long, short = (
        compare(packaged_extractor(), None, text, part) for part in (text, "See you at noon then")
    )
    assert long.log10_lr > 0.5  # negative control: it is not silent
    assert abs(short.log10_lr) < 0.2


NOTES = [
    ("See you at noon then", "Call me when you can"),
    ("Thanks, got it. Will do!", "thanks got it will do"),
    ("Please find attached the report", "lol ok see ya there"),
]


def test_a_ratio_shrinks_with_the_shorter_side() -> None:
    words = np.array([[7, 3000], [14, 14], [35, 35], [500, 500]])
    found = grounded(np.full((4, 1), 3.0), np.full(4, 2.0), words)
    assert found[:, 0] == pytest.approx([0.4, 0.8, 2.0, 2.0])


# Enrolled authors and the population


def test_a_centre_is_what_all_authors_share() -> None:
    """Vectors that are a common one and an author's own: the centre finds the first."""
    random = np.random.default_rng(0)
    common, own = np.full(20, 2.0), random.normal(size=(400, 20))
    codes, words = np.repeat(np.arange(400), 3), np.tile([20, 100, 500], 400)
    vectors = shown(words)[:, None] * (common + own[codes])
    centre = Centre.learn(vectors, words, codes)
    assert np.abs(np.array(centre.vector) - common).max() < 0.2
    pair = np.array([[2, 5], [0, 3]])
    sides = Sides({VECTORS: vectors}, words)
    before, after = sides.similarities(pair), centre.applied(sides).similarities(pair)
    assert (before > 0.6).all()
    assert (after < 0.5).all()
    again = restore_verifier(json.loads(json.dumps(centre.to_dict())), 0)
    assert again == centre
    few = replace(centre, authors=1).applied(sides).similarities(pair)
    assert (few > after).all()  # so few cannot tell


def test_enrolled_authors_find_the_centre(hybrid: Attributor) -> None:
    """Made-up people all write unlike the population, and so like each other."""
    pair = [texts_by(30, 1, seed=3)[0], texts_by(31, 1, seed=3)[0]]
    found, alone = hybrid.verify(*pair), compare(packaged_extractor(), None, *pair)
    assert found.population.enrolled == len(hybrid.authors_) == 3
    assert found.population.people == alone.population.people
    assert "centred by 3 enrolled authors" in found.population.description
    assert found.similarities[VECTORS] < alone.similarities[VECTORS]
    assert found.log10_lr < 0.3


def writers(n: int, random: np.random.Generator, alike: float = 1.0) -> Enrolled:
    """Two parts of people's vectors, long and short; the common vector is large."""
    own, words = random.normal(size=(n, 1, 1, 20)), np.array([600, 300])
    noise = random.normal(size=(n, 2, 2, 20)) / np.sqrt(alike)
    vectors = shown(words)[:, None] * (3.0 + own + 0.7 * noise)
    sides = Sides({VECTORS: vectors.reshape(-1, 20)}, np.tile(words, 2 * n))
    return Enrolled(sides, np.arange(4 * n).reshape(n, 2, 2))


def test_a_pair_is_compared_about_the_centre_of_all_others() -> None:
    enrolled = writers(4, np.random.default_rng(0))
    found, vectors = enrolled.pairs(1600), enrolled.vectors()
    assert found.same.sum() == 4 * 2
    assert (~found.same).sum() == 4 * 3 * 2
    for one, (other, m) in {(0, 0): (0, 3), (1, 2): (2, 2)}.items():
        del other
        rest = np.delete(vectors, list(set(one)), axis=0)
        rows = enrolled.rows[one[0], 0, 0], enrolled.rows[one[1], 1, 0]
        at = np.array(rows)
        centre = rest.sum(axis=0) / (m + PRIOR_CENTRE)
        moved = enrolled.sides.rows[VECTORS][at] - np.outer(shown(np.array([600, 600])), centre)
        pair = Sides({VECTORS: moved}, np.array([600, 600]))
        expected = figures(pair, np.array([[0, 1]]), np.array([float(m)]), 1600)[0]
        assert np.isclose(found.columns, expected).all(axis=1).sum() == 1


def test_the_authors_own_pairs_tell_which_draws_are_theirs() -> None:
    """A population whose curves are too low, right and too high for a domain far from its own."""
    random = np.random.default_rng(3)
    draws = np.zeros((1, 18))
    draws[0, [0, 6]] = [-2.5, 8.0]
    normals = np.array([[shift, 0.0] for shift in (-4.0, -2.0, 0.0, 2.0, 4.0)])
    spread = np.array([[1.0, 1.0], [0.0, 0.0]])
    wide = Population({"letters": 200}, ((1600.0, 200),), draws, normals, spread)
    pairs, asked = (writers(n, random).pairs(1600) for n in (20, 60))
    log_lr = wide.over_domains(asked.columns, asked.authors)
    costs = [cllr(each, asked.same) for each in log_lr[:, 1:].T]
    weights = wide.weights(pairs)
    assert weights.sum() == pytest.approx(1)
    assert weights.argmax() == int(np.argmin(costs))
    before, after = (
        cllr(wide.over_domains(asked.columns, asked.authors, own)[:, 0], asked.same)
        for own in (None, weights)
    )
    assert after < before - 0.05
    # Control: pairs whose authorship is shuffled say that likeness means nothing.
    same = random.permutation(pairs.same)
    shuffled = wide.weights(replace(pairs, same=same, owner=np.arange(len(same))))
    assert shuffled.argmax() != weights.argmax()
    # One author, or nobody with two parts: nothing is known of the domain.
    for few in (writers(1, random), writers(5, random)):
        alone = Enrolled(few.sides, np.where([[[True], [len(few.rows) == 1]]], few.rows, -1))
        assert wide.weights(alone.pairs(1600)) == pytest.approx(np.full(5, 0.2))


def test_weights_are_those_of_one_population(addresses: dict[str, str]) -> None:
    names = sorted(addresses)
    texts = [addresses[name][:3000] for name in names]
    codes = np.unique([name.rpartition(" ")[0] for name in names], return_inverse=True)[1]
    kept = np.flatnonzero(codes < 6)
    rest = [texts[row] for row in kept]
    centre = fit_verifier(packaged_extractor(), rest, codes[kept])
    assert isinstance(centre, Centre)
    found = centre.weights_of(packaged())
    assert found is not None
    assert len(found) == 256
    assert found.max() > 1.5 / 256
    assert restore_verifier(json.loads(json.dumps(centre.to_dict())), 0) == centre
    assert centre.weights_of(replace(packaged(), spread=np.ones((2, 2)))) is None
    assert Centre(centre.authors, centre.vector).weights_of(packaged()) is None
    told, untold = (
        compare(packaged_extractor(), one, texts[-1], texts[-2])
        for one in (centre, Centre(centre.authors, centre.vector))
    )
    assert told.similarities == untold.similarities
    assert told.log10_lr != untold.log10_lr
    assert told.low <= told.log10_lr <= told.high


def test_authors_are_read_in_two_parts_without_a_text_in_common() -> None:
    texts = [f"{word} " * 400 for word in ("one", "two", "three", "four", "five")]
    found = read_authors(packaged_extractor(), texts, np.array([0, 0, 0, 1, 2]), np.arange(3))
    assert (found.rows[:, :, 0] >= 0).tolist() == [[True, True], [True, False], [True, False]]
    first, whole = found.sides.words[found.rows[0, 0]][::-1]
    assert first == pytest.approx(whole / 2, abs=1)
    assert found.sides.words[found.rows[0, 1, 0]] == 400
    assert found.rows[0, 1, 0] == found.rows[0, 1, 1]  # it has one passage
    assert found.kept(np.array([True, False, True])).vectors().shape == (2, 400)
    assert np.isfinite(found.sides.rows[VECTORS]).all()
    passages = Sides({VECTORS: np.arange(6.0).reshape(3, 2)}, np.array([10, 30, 7]))
    which = np.array([[[0, 1], [2, -1]]])
    small = enrolled_of(passages, which)
    assert small.sides.rows[VECTORS][small.rows[0, :, 0]].tolist() == [[1.0, 2.0], [4.0, 5.0]]
    assert small.sides.words[small.rows[0]].tolist() == [[40, 10], [7, 7]]


# Remarks and files


def test_verification_warns_of_what_proves_nothing(model: Attributor) -> None:
    text = texts_by(1, 1, seed=3)[0]
    assert model.verify(text, texts_by(2, 1, seed=3)[0]).warnings == ()
    few, same = model.verify("so few words", text).warnings, model.verify(text, text).warnings
    assert few == ("only 3 tokens: an answer from fewer than 20 is mostly chance",)
    assert same == ("both texts are the same: their likeness proves nothing",)


def test_curves_of_earlier_versions_are_read(model: Attributor, tmp_path: Path) -> None:
    old = {"weights": [3.0], "length_weight": 0.1, "bias": -2.0, "pairs": 40, "auc": 0.9}
    found = restore_verifier(old, 6)
    assert isinstance(found, OwnCurve)
    assert (found.authors, found.weights, found.draws) == (6, (3.0,), ())
    own = own_curve(model)
    assert restore_verifier(json.loads(json.dumps(own.to_dict())), 99) == own
    for kind in ("ngrams", "hybrid"):
        folder = Path(shutil.copytree(GOLDEN / kind, tmp_path / kind))
        if kind == "hybrid":  # the packaged weights are too large to be kept twice
            shutil.copyfile(PRETRAINED / "adhominem.safetensors", folder / "extractor.safetensors")
        opened = load(folder)
        assert isinstance(opened.verifier, OwnCurve)
        told = opened.verify(*texts_by(1, 2, seed=3))
        known = extractor_of(opened.reader.features) is not None
        assert (told.population.people > 900) is known
