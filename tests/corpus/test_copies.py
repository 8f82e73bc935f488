"""Equal and nearly equal texts are one thing to every split, and are named where two claim them."""

import itertools
import random
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attribution.people import quick, texts_by
from whowrote.attribution import Attributor
from whowrote.corpus.copies import SIMILARITY, jaccard, joined_groups, linked, near_copies
from whowrote.corpus.splits import folds
from whowrote.corpus.texts import Corpus
from whowrote.errors import CorpusWarning, InputError
from whowrote.evaluation import cross_validate

WORDS = [
    *("the", "of", "and", "to", "in", "that", "it", "was", "he", "she", "we", "house"),
    *("river", "stone", "bird", "walk", "slow", "green", "then"),
]


def text(seed: int, words: int = 120) -> str:
    return " ".join(random.Random(seed).choices(WORDS, k=words))


def changed(whole: str, words: int, seed: int = 0) -> str:
    """The text with so many of its words exchanged."""
    drawn, own = random.Random(seed), whole.split()
    for place in drawn.sample(range(len(own)), words):
        own[place] = drawn.choice(WORDS)
    return " ".join(own)


BASE = [text(seed) for seed in range(6)]
CLAIMED = Corpus.from_texts(BASE * 3, [name for name in "ABC" for _ in range(6)])


@pytest.mark.filterwarnings("ignore::whowrote.errors.CorpusWarning")
def test_the_same_texts_under_three_names_are_at_chance() -> None:
    found = cross_validate(CLAIMED, Attributor("ngrams"))
    assert found.methods[0].evaluation.error == pytest.approx(2 / 3)
    held_out = Attributor("ngrams").fit(CLAIMED).fitted_.calibration.held_out
    assert (held_out.right, held_out.texts) == (6, 18)
    # Negative control: other texts by three people are told apart.
    own = [one for author in range(3) for one in texts_by(author, 6)]
    solved = cross_validate(Corpus.from_texts(own, list(CLAIMED.authors)), Attributor("ngrams"))
    assert solved.methods[0].evaluation.error < 0.2


@pytest.mark.filterwarnings("ignore::whowrote.errors.CorpusWarning")
def test_nearly_the_same_texts_are_at_chance() -> None:
    near = [changed(one, 2, 10 * row + copy) for copy in range(3) for row, one in enumerate(BASE)]
    assert len(set(near)) == 18
    corpus = Corpus.from_texts(near, list(CLAIMED.authors))
    assert len(set(corpus.units)) == 6
    assert cross_validate(corpus, Attributor("ngrams")).methods[0].evaluation.error > 0.5


@pytest.mark.filterwarnings("ignore::whowrote.errors.CorpusWarning")
def test_one_text_by_everybody_measures_nothing() -> None:
    corpus = Corpus.from_texts([BASE[0]] * 18, list(CLAIMED.authors))
    with pytest.raises(InputError, match=r"author 'A' has 1 groups of texts.*copies of one text"):
        cross_validate(corpus, Attributor("ngrams"))


def test_whoever_learns_is_told_of_a_text_that_two_claim() -> None:
    with pytest.warns(CorpusWarning, match=r"'\d+' by 'A' and '\d+' by 'B' are equal or nearly so"):
        quick().fit(CLAIMED)
    with pytest.warns(CorpusWarning, match=r"12 such pairs in all.*one side of every split"):
        _ = Corpus.from_texts(CLAIMED.texts, CLAIMED.authors).units


def test_copies_of_one_author_and_of_nobody_are_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(set(Corpus.from_texts(BASE * 2, ["A"] * 12).units)) == 6
        assert len(set(Corpus.from_texts(BASE * 2, ["A"] * 6 + [None] * 6).units)) == 6


@pytest.mark.filterwarnings("ignore::whowrote.errors.CorpusWarning")
def test_no_split_has_copies_on_two_sides() -> None:
    splits = folds([str(one) for one in CLAIMED.authors], CLAIMED.units, n_folds=3)
    for split in splits:
        sides = [{CLAIMED.texts[row] for row in part} for part in (split.train, split.held_out)]
        assert not sides[0] & sides[1]
    # Negative control: by the groups that were given, copies lie on both.
    plain = folds([str(one) for one in CLAIMED.authors], CLAIMED.groups, n_folds=3)
    assert any(
        {CLAIMED.texts[row] for row in one.train} & {CLAIMED.texts[row] for row in one.held_out}
        for one in plain
    )


def test_units_join_the_groups_that_were_given() -> None:
    texts = [BASE[0], BASE[1], BASE[0] + "!", BASE[2], BASE[3]]
    corpus = Corpus.from_texts(texts, groups=["u", "u", "t", "t", "s"])
    assert corpus.units == ("t", "t", "t", "t", "s")
    assert corpus.groups == ("u", "u", "t", "t", "s")


def test_a_part_keeps_the_units_of_the_whole() -> None:
    """A chain of copies stays one unit also where its middle is not in the part."""
    first, last = changed(BASE[0], 4, 1), changed(changed(BASE[0], 4, 1), 4, 7)
    chain = [BASE[0], first, last, BASE[1]]
    corpus = Corpus.from_texts(chain)
    assert jaccard(chain[0], chain[2]) < SIMILARITY
    assert corpus.units == ("1", "1", "1", "4")
    assert corpus.subset([2, 0, 3]).units == ("1", "1", "4")


def test_near_copies_are_those_of_every_pair_compared() -> None:
    texts = [text(seed, 40 + 20 * (seed % 9)) for seed in range(60)]
    texts += [changed(texts[row], 1 + row % 9, row) for row in range(60)]
    texts += ["", "Hello", "hello!", "!!", "Hello, you"]
    pairs = [
        (one, other)
        for one, other in itertools.combinations(range(len(texts)), 2)
        if jaccard(texts[one], texts[other]) >= SIMILARITY
    ]
    wanted = joined_groups([f"{row:03}" for row in range(len(texts))], pairs)
    found = near_copies(texts)
    links = [(own.rows[0], row) for own in found for row in own.rows]
    assert joined_groups([f"{row:03}" for row in range(len(texts))], links) == wanted
    assert 10 < len(pairs) < 60  # of the changed ones, some are near and some are not
    assert all(own.similarity >= SIMILARITY for own in found)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_units_do_not_depend_on_the_order_of_rows(rows: list[int], order: random.Random) -> None:
    names = [f"{place:02}" for place in range(len(rows))]
    texts = [BASE[row] for row in rows]

    def units(places: list[int]) -> dict[str, str]:
        own = [texts[place] for place in places]
        links = linked(own, own)
        found = joined_groups([names[place] for place in places], links)
        return dict(zip((names[place] for place in places), found, strict=True))

    shuffled = order.sample(range(len(rows)), len(rows))
    assert units(list(range(len(rows)))) == units(shuffled)
    assert len(set(units(shuffled).values())) == len(set(rows))


def test_a_template_of_many_texts_is_not_quadratic() -> None:
    """Texts that share a half fill whole bands; each is compared with a few of a band."""
    shared = text(0, 60)
    texts = [f"{shared} {' '.join(f'w{row}x{n}' for n in range(40))}" for row in range(1500)]
    assert near_copies(texts) == []
    assert np.mean([jaccard(texts[0], one) for one in texts[1:20]]) > 0.3
