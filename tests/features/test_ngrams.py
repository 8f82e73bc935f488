"""Hashed n-grams are scikit-learn's TF-IDF in another order of columns."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import FeatureUnion

from whowrote.errors import InputError
from whowrote.features import NGrams, counting
from whowrote.features.counting import (
    FittedNGrams,
    character_grams,
    grams,
    spelled_characters,
    spelled_words,
    word_grams,
)

WORDS = [
    "the",
    "a",
    "cat",
    "dog",
    "sat,",
    "on",
    "mat.",
    "THE!!",
    "10",
    "naïve",
    "",
    "don't\n\t--",
    "é́",
    "🙂",
    "אב",
    "of",
]


def made_up(n: int, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, size=rng.integers(3, 40))) for _ in range(n)]


def reference(min_df: tuple[int, int], max_features: tuple[int, int]) -> FeatureUnion:
    shared = {"sublinear_tf": True, "lowercase": False}
    characters = TfidfVectorizer(
        analyzer="char",
        ngram_range=(2, 4),
        min_df=min_df[0],
        max_features=max_features[0],
        **shared,
    )
    words = TfidfVectorizer(
        token_pattern=r"\w+|[^\w\s]",
        ngram_range=(1, 2),
        min_df=min_df[1],
        max_features=max_features[1],
        **shared,
    )
    return FeatureUnion([("characters", characters), ("words", words)])


def same_up_to_columns(one: sparse.csr_matrix, two: sparse.csr_matrix) -> bool:
    """Columns are permuted: sort them by their contents."""
    a, b = (np.round(rows.toarray(), 10) for rows in (one, two))
    return a.shape == b.shape and np.allclose(a[:, np.lexsort(a)], b[:, np.lexsort(b)], atol=1e-9)


@pytest.mark.parametrize("n", [3, 40, 250])
def test_rows_are_those_of_scikit_learn(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "TEXTS_PER_SURVEY", 64)  # several surveys are joined
    texts, new = made_up(n), made_up(20, seed=1)
    limits = {3: (1, 1), 40: (2, 2), 250: (5, 3)}[n]
    peer = reference(limits, (10**6, 10**6)).fit(texts)
    mine = NGrams().fit(texts)
    for some in (texts, new):
        assert same_up_to_columns(mine.transform(some), peer.transform(some).tocsr())


def test_a_weak_hash_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = made_up(40)
    monkeypatch.setattr(counting, "mix", lambda values: values % np.uint64(251))
    peer = reference((2, 2), (10**6, 10**6)).fit_transform(texts).tocsr()
    assert not same_up_to_columns(NGrams().fit_transform(texts), peer)


def test_the_most_frequent_are_kept() -> None:
    texts = made_up(60)
    mine = NGrams(min_df=(1, 1), max_features=(50, 7)).fit(texts)
    assert [len(block.keys) for block in mine.fitted_.grams] == [50, 7]
    kept = {name for name in mine.names_in(" ".join(texts)).values() if name in set(WORDS)}
    counts = {word: sum(text.split(" ").count(word) for text in texts) for word in kept}
    assert kept
    assert min(counts.values()) > 20


@given(st.text(max_size=60))
@settings(max_examples=200, deadline=None)
def test_hashes_and_spellings_go_together(text: str) -> None:
    for hashed, spelled in (
        (character_grams(text), spelled_characters(text)),
        (word_grams(text), spelled_words(text)),
    ):
        assert len(hashed) == len(spelled)
        pairs = dict(zip(hashed.tolist(), spelled, strict=True))
        assert len(pairs) == len(set(spelled))


def test_an_ngram_knows_its_size_and_order() -> None:
    a, b = (np.array(items, dtype=np.uint64) for items in ([1, 2], [2, 1]))
    assert grams(a, (2,)) != grams(b, (2,))
    assert grams(np.zeros(1, np.uint64), (1,)) != grams(np.zeros(2, np.uint64), (2,))


def test_odd_texts() -> None:
    odd = ["x", "\x00\x00", "\ud800 alone", "🙂", "y" * 5_000_000, "... !!"]
    rows = NGrams().fit([*odd, "two words"]).transform(odd)
    norms = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1))).ravel()
    assert np.isfinite(rows.data).all()
    assert (norms > 0.9).all()


def test_names_are_as_written() -> None:
    features = NGrams().fit(["No, no!", "Yes; yes."])
    names = features.names_in("No; maybe")
    rows = features.transform(["No; maybe"])
    assert set(names) == set(rows.indices.tolist())
    assert {"No", ";", "o;"} - set(names.values()) == {"o;"}
    assert features.get_feature_names_out()[0].startswith("characters__")
    assert len(features.get_feature_names_out()) == rows.shape[1]


def test_what_was_learnt_survives_as_arrays() -> None:
    features = NGrams().fit(made_up(30))
    twin = FittedNGrams.restore(features.fitted().state())
    new = made_up(5, seed=2)
    assert (features.transform(new) != twin.transform(new)).nnz == 0


def test_bad_input() -> None:
    with pytest.raises(NotFittedError):
        NGrams().transform(["a b"])
    with pytest.raises(InputError, match=r"no n-gram is in as many texts as min_df asks \(9, 9\)"):
        NGrams(min_df=(9, 9)).fit(["abc", "xyz"])
    with pytest.raises(InputError, match=r"min_df is 'few'.*give \(5, 3\)"):
        NGrams(min_df="few").fit(["a b", "b c"])


def test_a_training_text_as_if_it_were_new() -> None:
    """Leave each text out, fit again and transform it: nearly the rows of ``as_new``."""
    texts = made_up(30)
    features = NGrams(min_df=(2, 2)).fit(texts)
    rows = features.transform(texts)
    new = features.as_new(rows, np.arange(30))
    others = NGrams(min_df=(2, 2)).fit(texts[1:])
    gap = [
        abs(others.transform(texts[:1]) @ others.transform([text]).T)[0, 0] for text in texts[1:]
    ]
    as_new, as_is = ((one[0] @ rows[1:].T).toarray()[0] for one in (new, rows))
    assert np.abs(as_new - gap).mean() < 0.5 * np.abs(as_is - gap).mean()
    assert set(new[0].indices[new[0].data > 0]) < set(rows[0].indices)


def test_passages_of_one_text_do_not_keep_a_column_alive() -> None:
    texts = ["only here only here", "only here again", "quite another text", "another text indeed"]
    features = NGrams(min_df=(1, 1)).fit(texts)
    rows = features.transform(texts)
    column = next(c for c, gram in features.names_in("only").items() if gram == "only")
    assert features.as_new(rows, np.array([0, 1, 2, 3]))[0, column] > 0
    assert features.as_new(rows, np.array([0, 0, 1, 2]))[0, column] == 0


# Readings


def test_readings_stand_side_by_side_and_come_back() -> None:
    texts = ["Yes, I saw Nantucket!", "No; she saw 12 whales.", "yes i saw nantucket"]
    features = NGrams(min_df=(1, 1), readings=("plain", "written", "masked")).fit(texts)
    fitted = features.fitted()
    assert list(fitted.readings()) == ["written", "masked", "plain"]
    rows = fitted.transform(texts)
    plain = rows[:, fitted.readings()["plain"]].toarray()
    written = rows[:, fitted.readings()["written"]].toarray()
    np.testing.assert_allclose(plain[0], plain[2])
    assert np.abs(written[0] - written[2]).max() > 0.05
    again = FittedNGrams.restore(fitted.state())
    np.testing.assert_array_equal(again.transform(texts).toarray(), rows.toarray())
    assert features.as_new(rows, np.arange(3)).shape == rows.shape
    assert set(features.names_in("No whales").values()) >= {"No", "xxxxxx", "whales"}


def test_of_one_reading_rows_are_those_without_a_choice() -> None:
    texts = ["Yes, I saw.", "No; she saw."]
    one, other = (NGrams(**s).fit_transform(texts) for s in ({}, {"readings": ("written",)}))
    np.testing.assert_array_equal(one.toarray(), other.toarray())


@pytest.mark.parametrize("readings", [(), ("loud",)])
def test_unknown_readings_are_refused(readings: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match=r"readings is .*it must name some of written"):
        NGrams(readings=readings).fit(["a text", "and another"])
