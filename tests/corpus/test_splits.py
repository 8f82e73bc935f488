from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import StratifiedKFold

from whowrote.corpus.splits import Split, _check_training, combined_hash, folds
from whowrote.errors import InputError


@st.composite
def corpora(draw: st.DrawFn) -> dict[str, Any]:
    """Authors with at least as many texts as folds, in any order."""
    n_folds = draw(st.integers(2, 5))
    sizes = draw(st.lists(st.integers(n_folds, 25), min_size=2, max_size=5))
    authors = [f"author {k}" for k, size in enumerate(sizes) for _ in range(size)]
    authors = draw(st.permutations(authors))
    return {
        "authors": authors,
        "n_folds": n_folds,
        "random_state": draw(st.integers(0, 2**32 - 1)),
    }


@st.composite
def grouped_corpora(draw: st.DrawFn) -> dict[str, Any]:
    """Authors with at least as many groups as folds, groups of one to six texts."""
    n_folds = draw(st.integers(2, 4))
    groups: list[tuple[int, int]] = []
    for author in range(draw(st.integers(2, 4))):
        sizes = draw(st.lists(st.integers(1, 6), min_size=n_folds, max_size=8))
        groups += [(author, group) for group, size in enumerate(sizes) for _ in range(size)]
    return {
        "authors": [author for author, _ in groups],
        "groups": [f"{author}/{group}" for author, group in groups],
        "n_folds": n_folds,
        "random_state": draw(st.integers(0, 100)),
    }


def rows_of(split: Split) -> list[int]:
    return [*split.train, *split.development, *split.test, *split.unused]


def count(authors: list[Any], rows: Any) -> Counter[Any]:
    return Counter(authors[row] for row in rows)


@given(corpora())
@settings(deadline=None, max_examples=60)
def test_parts_are_disjoint_and_cover_everything(corpus: dict[str, Any]) -> None:
    splits = folds(**corpus)
    everything = list(range(len(corpus["authors"])))
    for split in splits:
        assert sorted(rows_of(split)) == everything
        assert sorted(rows_of(split.fraction(0.3))) == everything
        assert split.held_out == tuple(sorted(split.development + split.test))
    assert sorted(row for split in splits for row in split.held_out) == everything


@given(corpora())
@settings(deadline=None, max_examples=60)
def test_every_part_has_its_share_of_every_author_within_one_text(corpus: dict[str, Any]) -> None:
    authors, n_folds = corpus["authors"], corpus["n_folds"]
    for split in folds(**corpus):
        held, test = count(authors, split.held_out), count(authors, split.test)
        for author, size in Counter(authors).items():
            assert abs(held[author] - size / n_folds) < 1
            assert abs(test[author] - held[author] / 2) <= 0.5
        # Over all authors the halves differ by one text at most too.
        assert abs(len(split.development) - len(split.test)) <= 1


@given(corpora(), st.floats(0.01, 1.0), st.floats(0.01, 1.0))
@settings(deadline=None, max_examples=60)
def test_fractions_are_nested_and_stratified(
    corpus: dict[str, Any], one: float, other: float
) -> None:
    authors = corpus["authors"]
    full = folds(**corpus)[0]
    small, large = full.fraction(min(one, other)), full.fraction(max(one, other))
    assert set(small.train) <= set(large.train) <= set(full.train)
    assert small.development == full.development
    assert small.test == full.test
    kept = count(authors, small.train)
    for author, size in count(authors, full.train).items():
        assert kept[author] == max(1, np.floor(min(one, other) * size + 0.5))
    assert large.fraction(min(one, other)) == small


@given(grouped_corpora())
@settings(deadline=None, max_examples=60)
def test_groups_are_never_split(corpus: dict[str, Any]) -> None:
    for split in folds(**corpus):
        parts = [split.train, split.development, split.test]
        seen = [{corpus["groups"][row] for row in part} for part in parts]
        assert not seen[0] & seen[1]
        assert not seen[0] & seen[2]
        assert not seen[1] & seen[2]
        assert sorted(rows_of(split)) == list(range(len(corpus["authors"])))
        assert set(count(corpus["authors"], split.train)) == set(corpus["authors"])
        assert set(count(corpus["authors"], split.held_out)) == set(corpus["authors"])


def test_without_groups_the_same_texts_would_leak() -> None:
    """Negative control: passages of one address do fall on both sides if nobody says so."""
    authors, groups = ["a"] * 40 + ["b"] * 40, [row // 4 for row in range(80)]
    split = folds(authors)[0]
    assert {groups[row] for row in split.train} & {groups[row] for row in split.held_out}


@given(grouped_corpora())
@settings(deadline=None, max_examples=40)
def test_equal_groups_are_spread_within_one_group(corpus: dict[str, Any]) -> None:
    names = sorted(set(corpus["groups"]))
    groups = [name for name in names for _ in range(3)]
    authors = [name.split("/")[0] for name in groups]
    for split in folds(authors, groups, n_folds=corpus["n_folds"], random_state=1):
        held = count(authors, split.held_out)
        for author, size in Counter(authors).items():
            assert abs(held[author] - size / corpus["n_folds"]) < 3


def test_a_text_with_group_none_stands_alone() -> None:
    authors = ["a", "b"] * 20
    assert folds(authors, [None] * 40) == folds(authors, range(40)) == folds(authors)
    pair = folds(authors, ["letter", "letter", *[None] * 38])[0]
    assert count(authors, pair.held_out) == {"a": 4, "b": 4}
    assert len({0, 1} & set(pair.train)) in (0, 2)


def test_groups_of_several_authors_stay_whole() -> None:
    rng = np.random.default_rng(0)
    authors, groups = rng.integers(0, 3, 300).tolist(), rng.integers(0, 40, 300).tolist()
    for split in folds(authors, groups):
        assert not {groups[r] for r in split.train} & {groups[r] for r in split.held_out}
        held = count(authors, split.held_out)
        assert all(0.5 < held[a] / (n / 5) < 1.5 for a, n in Counter(authors).items())


@given(corpora())
@settings(deadline=None, max_examples=30)
def test_same_seed_same_hash(corpus: dict[str, Any]) -> None:
    first, second = folds(**corpus), folds(**corpus)
    assert first == second
    assert [split.hash for split in first] == [split.hash for split in second]
    assert combined_hash(first) == combined_hash(reversed(second))
    assert len({split.hash for split in first}) == len(first)


def test_another_seed_another_hash() -> None:
    authors = ["a", "b"] * 50
    hashes = {folds(authors, random_state=seed)[0].hash for seed in range(20)}
    assert len(hashes) == 20
    assert combined_hash(folds(authors)) != combined_hash(folds(authors, random_state=1))
    assert folds(authors)[0].fraction(0.5).hash != folds(authors)[0].hash


def test_the_hash_is_of_names_and_not_of_their_order() -> None:
    ids = ["x", "y", "z", "w"]
    one = Split(train=(0, 1), development=(2,), test=(3,), ids=tuple(ids))
    other = Split(train=(2, 3), development=(1,), test=(0,), ids=("w", "z", "x", "y"))
    swapped = Split(train=(0, 1), development=(3,), test=(2,), ids=tuple(ids))
    assert one.hash == other.hash
    assert one.hash != swapped.hash
    assert one.hash != Split(train=(0, 1), development=(2,), test=(3,)).hash


def test_the_hash_is_the_same_for_ever() -> None:
    """Published results carry it: a change of the recipe must be noticed."""
    split = Split(train=(0, 1), development=(2,), test=(3,))
    assert split.hash == "93f8c706f7348935f23b5d937be01de9233b53b153b4a404fdff90c20064f160"


def test_groups_are_dealt_the_same_way_for_ever() -> None:
    """Of authors and of groups in a drawn order: figures of one seed are those of everybody."""
    authors = [f"a{row % 3}" for row in range(60)]
    groups = [row // 2 if row % 5 else None for row in range(60)]
    found = combined_hash(folds(authors, groups))
    assert found == "134ef1a58912e8294876e9d37d1487019a70099c6f21aba1c73adc3c9b35a4e4"


def test_held_out_parts_are_those_of_scikit_learn() -> None:
    authors = np.random.default_rng(1).choice(["a", "b", "c"], 200).tolist()
    theirs = StratifiedKFold(5, shuffle=True, random_state=0).split(authors, authors)
    for ours, (train, test) in zip(folds(authors), theirs, strict=True):
        assert ours.held_out == tuple(test.tolist())
        assert ours.train == tuple(train.tolist())


def test_a_longer_ladder_of_fractions() -> None:
    split = folds(["a"] * 55 + ["b"] * 45)[0]
    ladder = [split.fraction(share).train for share in (0.2, 0.4, 0.6, 0.8, 1.0)]
    assert [len(rows) for rows in ladder] == [16, 32, 48, 64, 80]
    assert all(set(small) < set(large) for small, large in pairwise(ladder))
    assert split.fraction(1.0) == split


MANY = ["a", "b"] * 10


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"authors": []}, "authors is empty.*give one per text"),
        ({"authors": ["a", None, None]}, r"authors\[1\] is None \(2 of 3.*leave out"),
        ({"authors": ["a"] * 9}, "one author only, 'a'.*at least two"),
        (
            {"authors": [*MANY, "c"]},
            "author 'c' has 1 texts; 5 folds need at least 5.*n_folds to 2",
        ),
        ({"authors": ["a"] * 9 + ["b"] * 4}, "author 'b' has 4 texts.*n_folds to 4"),
        (
            {"authors": MANY, "groups": [row // 4 for row in range(20)], "n_folds": 6},
            "author 'a' has 5 groups of texts; 6 folds.*n_folds to 5",
        ),
        ({"authors": MANY, "groups": [1, 2]}, "groups has 2 entries for 20 texts.*None"),
        ({"authors": MANY, "ids": [1, 2]}, "ids has 2 entries for 20 texts.*leave ids out"),
        ({"authors": MANY, "ids": [1] * 20}, "ids has 1 different names for 20.*unique"),
        ({"authors": MANY, "n_folds": 1}, "n_folds is 1; .*at least 2"),
        ({"authors": MANY, "random_state": -1}, "random_state"),
        ({"authors": MANY, "n_folds": 2.5}, r"n_folds is 2\.5; .*whole number"),
    ],
)
def test_bad_input(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        folds(**arguments)


@pytest.mark.parametrize("share", [0.0, -0.1, 1.1, float("nan")])
def test_bad_fraction(share: float) -> None:
    with pytest.raises(InputError, match=r"share is .*above 0 and at most 1.*0\.2"):
        folds(MANY)[0].fraction(share)


def test_an_author_without_training_text_is_named() -> None:
    codes, held = np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1])
    with pytest.raises(InputError, match="author 'b' has no training text in fold 2 of 2"):
        _check_training(["a", "a", "b", "b"], codes, held, 2)
