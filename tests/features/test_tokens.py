"""Tokens: what they are, and that they map back to the text."""

import sys
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whowrote.features.vocabulary import MAX_CHARACTERS, spans, spelling, split

ODD = [
    "\x00",
    "\ud800",
    "e\u0301",
    "👩\u200d👩\u200d👧",
    "👍🏽",
    "🇩🇪",
    "1\ufe0f\u20e3",
    "שלום",
    "हिन्दी",
    "  ",
    "\n",
]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("rock'n'roll isn’t well-known", ["rock'n'roll", "isn’t", "well-known"]),
        ("wait... what?!", ["wait", "...", "what", "?", "!"]),
        ("a ,b", ["a", " ,", "b"]),
        ("1,000.50 at 10:30", ["1,000.50", "at", "10:30"]),
        ("one  two\n\nthree\tfour", ["one", "  ", "two", "\n\n", "three", "\t", "four"]),
        ("hi 👩\u200d👩\u200d👧👍🏽🇩🇪1\ufe0f\u20e3", ["hi", *ODD[3:7]]),
        ("cafe\u0301 हिन्दी שלום", ["cafe\u0301", "हिन्दी", "שלום"]),
        ("x_y", ["x", "_", "y"]),
        ("\x00\ud800", ["\x00", "\ud800"]),
        ("", []),
        (" ", []),
    ],
)
def test_tokens(text: str, tokens: list[str]) -> None:
    assert split(text) == tokens


def test_every_combining_mark_of_unicode_stays_inside_its_word() -> None:
    everything = map(chr, range(sys.maxunicode + 1))
    marks = [mark for mark in everything if unicodedata.category(mark).startswith("M")]
    assert len(marks) > 2000
    torn = [f"U+{ord(mark):04X}" for mark in marks if len(split(f"a{mark}b")) != 1]
    assert torn == []
    assert len(split("a\u00b4b")) == 3  # negative control: an accent alone is no letter's


@given(st.text(st.one_of(st.characters(exclude_categories=()), st.sampled_from("a'- .!1\n"))))
def test_offsets_give_back_the_exact_characters_and_nothing_is_lost(text: str) -> None:
    found = spans(text)
    assert [span.token for span in found] == split(text)
    assert all(text[span.start : span.end] == span.token for span in found)
    edges = [0, *(edge for span in found for edge in (span.start, span.end)), len(text)]
    gaps = [text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)]
    assert set(gaps) <= {"", " "}


@given(st.lists(st.sampled_from([*ODD, "word", " ", ".", "\u05d0", "\u0301"])).map("".join))
def test_offsets_hold_for_emoji_marks_and_right_to_left(text: str) -> None:
    assert all(text[span.start : span.end] == span.token for span in spans(text))


@pytest.mark.parametrize("unit", ["a", "a\u0301", "a'", "!", " ", "1.", "👩\u200d"])
def test_five_megabytes_without_a_break_are_quick(unit: str) -> None:
    text = unit * (5_000_000 // len(unit))
    began = time.perf_counter()
    tokens = split(text)
    assert time.perf_counter() - began < 10
    assert len(tokens) <= 2
    assert len(spelling(tokens[0])) <= MAX_CHARACTERS


def test_two_forms_of_one_letter_are_spelled_alike() -> None:
    assert spelling("cafe\u0301") == spelling("café")
