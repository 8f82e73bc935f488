"""Long texts in passages: nothing lost, nearly equal lengths, always between words."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whowrote.attribution.rows import (
    NORMALISE,
    WORDS,
    check_normalise,
    cut,
    cut_all,
    english_share,
    normalised,
)
from whowrote.errors import InputError

SPACES = " \t\n\r\x0b\x0c\x1c\x1f\x85\xa0\u2003\u2028\u3000"
SMILING = "\U0001f600\U0001f3fd\u200d\U0001f469"  # a face, a tone of skin, a joiner, a woman
ODD = st.text(st.sampled_from(f"ab'-.,\u0301\u00df\u4e2d\x00\ud800{SMILING}{SPACES}"), max_size=400)
ANY = st.one_of(ODD, st.text(max_size=200), st.text(st.sampled_from(SPACES), max_size=5))


@given(ANY, st.integers(1, 40))
def test_nothing_is_lost_and_nothing_is_split(text: str, words: int) -> None:
    pieces = cut(text, words)
    assert "".join(pieces) == text
    assert [word for piece in pieces for word in piece.split()] == text.split()


@given(ANY, st.integers(1, 40))
def test_lengths_differ_by_at_most_one_word(text: str, words: int) -> None:
    lengths = [len(piece.split()) for piece in cut(text, words)]
    assert max(lengths) - min(lengths) <= 1
    if len(lengths) > 1:
        assert min(lengths) >= 1
        assert 0.6 * words < np.mean(lengths) < 1.5 * words


@given(st.integers(0, 2000), st.integers(1, 400))
def test_the_number_of_passages_is_the_nearest_to_so_many_words(count: int, words: int) -> None:
    assert len(cut("w " * count, words)) == max(1, round(count / words))


@pytest.mark.parametrize("text", ["", " ", "\n\t", "word", " word ", "one two three"])
def test_a_short_text_is_one_passage_as_it_is(text: str) -> None:
    assert cut(text) == [text]


def test_white_space_stays_with_the_word_before_it() -> None:
    assert cut("\n one\n\n two  three\tfour ", 2) == ["\n one\n\n two  ", "three\tfour "]


def test_a_text_just_too_short_for_two_passages_is_one() -> None:
    assert len(cut("w " * (WORDS + WORDS // 2 - 1))) == 1
    assert [len(piece.split()) for piece in cut("w " * (WORDS + WORDS // 2 + 1))] == [226, 225]


@given(st.lists(ODD, min_size=1, max_size=6), st.integers(1, 20))
def test_every_passage_knows_its_text(texts: list[str], words: int) -> None:
    found = cut_all(texts, words)
    for number, text in enumerate(texts):
        own = [piece for piece, d in zip(found.texts, found.document, strict=True) if d == number]
        assert own == cut(text, words)
    assert found.counts.tolist() == [len(cut(text, words)) for text in texts]
    assert (np.diff(found.document) >= 0).all()


def test_texts_are_cut_apart_from_each_other() -> None:
    """Two texts never share a passage, as they would if they were cut as one."""
    assert cut_all(["a b c", "d e f"], 2).texts == ("a b ", "c", "d e ", "f")
    assert cut("a b cd e f", 2) != ["a b ", "c", "d e ", "f"]


@given(ANY, st.sets(st.sampled_from(NORMALISE)))
def test_what_is_normalised_has_words_if_the_text_has(text: str, without: set[str]) -> None:
    found = normalised(text, sorted(without))
    assert bool(found.strip()) == bool(text.strip())
    if not without:
        assert found == text


@pytest.mark.parametrize(
    ("without", "one", "other"),
    [
        ("case", "Dear Sir, YES.", "dear sir, yes."),
        ("punctuation", "Dear Sir, -- yes!", "Dear Sir yes"),
        ("quotes", "\u201cDear\u201d\u00a0Sir\u2026 yes\u2014no", '"Dear" Sir... yes - no'),
        ("names", "Then Mary met Tom Hall in Rome. She left.", "Then Name met Name Name in Name"),
    ],
)
def test_texts_that_differ_in_it_alone_become_equal(without: str, one: str, other: str) -> None:
    assert one != other
    if without == "names":
        assert normalised(one, [without]).startswith(other)
        other = one.replace("Mary", "Ann").replace("Rome", "Bath")
    assert normalised(one, [without]) == normalised(other, [without])
    others = [kind for kind in NORMALISE if kind != without]
    assert normalised("Plain words.", others) != normalised("Other words.", others)


def test_what_is_no_normalisation_is_refused() -> None:
    with pytest.raises(InputError, match="normalise is 'colour'; it must be"):
        check_normalise(["case", "colour"])


def test_english_is_told_from_other_languages() -> None:
    english = "It was on a dreary night of November that I beheld the end of all my work."
    german = "Es war einmal ein kleines Mädchen, das hatte jedermann lieb, der es nur ansah."
    assert english_share(english) > 0.4
    assert english_share(german) < 0.1
    assert english_share("") == 0.0
