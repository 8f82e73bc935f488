"""Who wrote what when nobody is labelled: groups, their number, and agreement with the truth."""

import json
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import pdist
from sklearn.decomposition import PCA
from sklearn.preprocessing import normalize

from features.made_up import texts_by
from whowrote import clustering
from whowrote.clustering import (
    METHOD,
    Clustering,
    CurvePoint,
    Placed,
    _groups,
    agreement,
    choose,
    cluster,
    fold_numbers,
    reduce,
    width,
    within_one_error,
)
from whowrote.corpus.texts import Corpus
from whowrote.errors import InputError
from whowrote.features import NGrams
from whowrote.progress import Stage, listening

PEOPLE, EACH = 3, 10


def made_up(labelled: bool = True) -> Corpus:
    texts = [text for person in range(PEOPLE) for text in texts_by(person, EACH, length=200)]
    names: list[str | None] = [f"author {number // EACH}" for number in range(len(texts))]
    return Corpus.from_texts(texts, names if labelled else None)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fits that are rough and short, where a test makes many."""
    monkeypatch.setattr(clustering, "WARM_UP", 12)
    monkeypatch.setattr(clustering, "EPOCHS", 4)


@pytest.fixture(scope="module")
def found() -> Clustering:
    return cluster(made_up(), PEOPLE, features="ngrams")


def blobs(k: int, n: int = 60, columns: int = 12, seed: int = 0) -> Any:
    """Rows of k well-parted kinds, in turn."""
    random = np.random.default_rng(seed)
    centres = 4.0 * np.eye(columns)[:k]
    return normalize(centres[np.arange(n) % k] + 0.5 * random.normal(size=(n, columns)))


def test_made_up_authors_are_told_apart(found: Clustering) -> None:
    assert found.agreement is not None
    assert found.agreement.adjusted_rand == 1.0
    assert found.agreement.accuracy == 1.0
    assert sorted(map(sorted, found.agreement.table)) == [[0, 0, EACH]] * PEOPLE
    assert [group.size for group in found.groups] == [EACH] * PEOPLE
    assert (found.choice.method, found.choice.n_authors, found.choice.curve) == ("given", 3, ())


def test_names_that_mean_nothing_do_not_agree(found: Clustering) -> None:
    shuffled = np.random.default_rng(0).permutation(made_up().authors).tolist()
    chance = agreement(shuffled, [text.group for text in found.placed])
    assert chance is not None
    assert abs(chance.adjusted_rand) < 0.2
    assert chance.accuracy < 0.6


def test_authors_are_not_learnt_from_and_a_seed_gives_the_same_groups(found: Clustering) -> None:
    unlabelled = cluster(made_up(labelled=False), PEOPLE, features=NGrams())
    assert unlabelled.agreement is None
    assert unlabelled.placed == found.placed
    assert (unlabelled.groups, unlabelled.features) == (found.groups, "NGrams")
    assert unlabelled.fingerprint != found.fingerprint  # the authors are part of a corpus


def test_a_feature_set_that_is_given_stays_unfitted() -> None:
    features = NGrams()
    cluster(Corpus.from_texts(texts_by(0, 4)), 1, features=features)
    assert not [name for name in vars(features) if name.endswith("_")]


def test_the_record_is_plain_and_holds_no_text(found: Clustering) -> None:
    corpus = made_up()
    plain = json.loads(json.dumps(found.to_dict()))
    assert (plain["texts"], plain["n_groups"], plain["dimensions"]) == (30, 3, 8)
    assert [text["id"] for text in plain["placed"]] == list(corpus.ids)
    assert [text["sha256"] for text in plain["placed"]] == list(corpus.sha256)
    assert all(0.5 < text["probability"] <= 1 for text in plain["placed"])
    assert all(0 <= text["typicality"] <= 1 for text in plain["placed"])
    assert not [text for text in corpus.texts if text[:30] in json.dumps(plain)]


def test_typical_texts_are_sure_and_usual() -> None:
    placed = [
        Placed("sure but odd", "", 1, 1.0, 0.01),
        Placed("usual", "", 1, 0.99, 0.9),
        Placed("elsewhere", "", 2, 1.0, 1.0),
        Placed("unsure", "", 1, 0.5, 0.9),
        Placed("usual too", "", 1, 0.99, 0.8),
    ]
    first, second = _groups(placed)
    assert (first.size, first.typical) == (4, ("usual", "usual too", "unsure"))
    assert (second.number, second.typical) == (2, ("elsewhere",))


# -- reduction -----------------------------------------------------------------------------------


def test_reduced_columns_have_one_variance_and_keep_distances() -> None:
    X = blobs(3) * np.linspace(1, 5, 12)
    leading = PCA(8).fit_transform(X)
    reduced = reduce(X, 0).transform(X)
    np.testing.assert_allclose(reduced.var(axis=0), leading.var(axis=0).mean())
    np.testing.assert_allclose(pdist(reduced), pdist(leading))
    np.testing.assert_allclose(reduced.mean(axis=0), 0, atol=1e-12)
    assert leading.var(axis=0).max() > 3 * leading.var(axis=0).min()  # what would be blown up


def test_sparse_rows_reduce_like_dense_ones() -> None:
    X = blobs(3)
    X[X < 0] = 0
    dense, thin = reduce(X, 0), reduce(sparse.csr_matrix(X), 0)
    new = blobs(3, seed=1)
    np.testing.assert_allclose(
        pdist(dense.transform(new)), pdist(thin.transform(sparse.csr_matrix(new))), atol=1e-8
    )


@pytest.mark.parametrize(
    ("shape", "expected"), [((2, 200), 1), ((4, 200), 2), ((9, 200), 8), ((50, 5), 4), ((50, 8), 8)]
)
def test_few_rows_have_few_columns(shape: tuple[int, int], expected: int) -> None:
    assert width(np.zeros(shape)) == expected
    assert width(sparse.csr_matrix(shape)) == (4 if shape[1] == 8 else expected)


def test_equal_texts_are_no_obstacle() -> None:
    same = cluster(Corpus.from_texts(["the very same words again"] * 6), 2, features="ngrams")
    assert sum(group.size for group in same.groups) == 6


# -- how many ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("k", [1, 2])
def test_held_out_rows_speak_for_the_right_number(k: int) -> None:
    heard: list[Stage] = []
    with listening(heard.append):
        choice = choose(blobs(k), np.arange(60) // 30, 3, 0)
    assert (choice.n_authors, choice.method, choice.n_folds) == (k, METHOD, 2)
    assert [point.n_authors for point in choice.curve] == [1, 2, 3]
    best = max(choice.curve, key=lambda point: point.bound)
    assert (choice.best, best.difference_error) == (best.n_authors, 0.0)
    assert all(0 <= point.difference_error < 3 * point.standard_error for point in choice.curve)
    assert {(stage.name, stage.total) for stage in heard} == {("choosing the number of authors", 6)}


def test_the_rule_of_one_standard_error() -> None:
    def chosen(*bounds: float, error: float) -> int:
        errors = np.where(np.array(bounds) == max(bounds), 0.0, error)
        points = enumerate(zip(bounds, errors, strict=True), start=1)
        return within_one_error([CurvePoint(k, b, 9.0, float(e)) for k, (b, e) in points])

    assert chosen(0.0, 2.0, 2.1, 2.2, error=0.3) == 2
    assert chosen(0.0, 2.0, 2.1, 2.2, error=0.01) == 4
    assert chosen(2.0, 1.0, 0.0, error=0.3) == 1


@pytest.mark.usefixtures("quick")
def test_auto_asks_the_held_out_texts() -> None:
    found = cluster(made_up(), "auto", features="ngrams", max_authors=1)
    assert found.choice.method == METHOD
    assert (len(found.choice.curve), found.n_groups, found.choice.n_folds) == (1, 1, 5)
    assert found.agreement is not None
    assert found.agreement.accuracy == pytest.approx(1 / PEOPLE)


def test_folds_keep_groups_together() -> None:
    groups = [f"book {number // 4}" for number in range(40)]
    folds = fold_numbers(groups, 0)
    assert sorted(set(folds.tolist())) == [0, 1, 2, 3, 4]
    assert all(len(set(folds[low : low + 4].tolist())) == 1 for low in range(0, 40, 4))
    alone = fold_numbers([str(number) for number in range(40)], 0)
    assert any(len(set(alone[low : low + 4].tolist())) > 1 for low in range(0, 40, 4))
    assert fold_numbers([str(number) for number in range(100)], 0).max() == 2
    assert fold_numbers(["a", "b"] * 6, 0).max() == 1


# -- agreement -----------------------------------------------------------------------------------


def test_agreement_is_blind_to_numbering_and_to_unknown_authors() -> None:
    authors = ["a", "a", "a", "b", "b", "c", None]
    found = agreement(authors, [1, 1, 2, 2, 2, 3, 3])
    renamed = agreement(authors, [2, 2, 3, 3, 3, 1, 1])
    assert found is not None
    assert renamed is not None
    assert found.table == ((2, 1, 0), (0, 2, 0), (0, 0, 1))
    assert (found.texts, found.accuracy) == (6, pytest.approx(5 / 6))
    assert (renamed.adjusted_rand, renamed.accuracy) == (found.adjusted_rand, found.accuracy)
    assert agreement([None, None], [1, 2]) is None


def test_an_author_is_matched_with_one_group_only() -> None:
    found = agreement(["a"] * 4, [1, 1, 1, 2])
    assert found is not None
    assert found.accuracy == 0.75


# -- bad requests --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_authors", "texts", "options", "message"),
    [
        (0, 6, {}, r"number of authors is 0; it must be 'auto' or a whole number from 1 to 6"),
        (7, 6, {}, r"number of authors is 7; .* the number of texts"),
        (2.5, 6, {}, r"number of authors is 2.5; .* give 'auto' if it is not known"),
        (True, 6, {}, r"number of authors is True"),
        ("many", 6, {}, r"number of authors is 'many'"),
        (2, 3, {}, r"the corpus has 3 texts and grouping needs at least 4: add texts"),
        ("auto", 11, {}, r"11 texts and choosing a number of authors needs at least 12"),
        ("auto", 12, {"max_authors": 0}, r"max_authors is 0; it must be at least 1: give 12"),
        (
            2,
            6,
            {"features": "words"},
            r"features is 'words'; it must be one of adhominem, style, ngrams",
        ),
    ],
)
def test_bad_requests(n_authors: Any, texts: int, options: dict[str, Any], message: str) -> None:
    corpus = Corpus.from_texts(texts_by(0, texts))
    with pytest.raises(InputError, match=message):
        cluster(corpus, n_authors, **{"features": "ngrams", **options})


def test_texts_of_one_group_cannot_be_held_out() -> None:
    corpus = Corpus.from_texts(texts_by(0, 12), groups=["book"] * 12)
    with pytest.raises(InputError, match=r"all 12 texts are of one group, 'book'; .* give the num"):
        cluster(corpus, "auto", features="ngrams")
