"""Tables that break parsers, and arguments that are no texts: each is one sentence."""

import json
import math
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import corpus.nasty as nasty
from attribution.people import quick, texts_by
from whowrote.checks import seed
from whowrote.corpus.documents import clean, decode, name_of
from whowrote.corpus.office import tidy
from whowrote.corpus.splits import folds
from whowrote.corpus.texts import Corpus, load
from whowrote.errors import InputError
from whowrote.formatting import escaped, one_line, printable
from whowrote.plots import Bar, probability_bars, svg
from whowrote.stylometry.delta import Consensus, Edge, Group, graphml

DEEP = "[" * 100_000
SENTENCES: dict[str, tuple[str, bytes, str]] = {
    "old line ends": ("a.csv", b"text,author\rI am.,Ann\r", "a carriage return alone"),
    "a huge name": ("a.csv", b'"' + b"x" * 200_000 + b'",author\na,b\n', "no column looks like"),
    "a huge name twice": (
        "a.csv",
        b",".join([b"x" * 200_000] * 2) + b"\n",
        "occurs twice in the header",
    ),
    "an open quote": ("a.csv", b'"text\n', "holds no text"),
    "an integer": ("a.jsonl", b'{"text": ' + b"9" * 5000 + b"}", "is not valid JSON"),
    "an integer as author": (
        "a.jsonl",
        b'{"text": "a", "author": ' + b"9" * 5000 + b"}",
        "is not valid JSON",
    ),
    "nesting": ("a.jsonl", f'{{"text": {DEEP}'.encode(), "is not valid JSON"),
    "nesting that closes": (
        "a.jsonl",
        b'{"text": ' + b"[" * 900 + b"]" * 900 + b"}",
        "'text' is .* must be a string|is not valid JSON",
    ),
    "a Python literal": ("a.jsonl", b"{'text': " + b"-" * 100_000 + b"1}", "is not valid JSON"),
    "many names": (
        "a.jsonl",
        json.dumps({f"c{n}": n for n in range(6000)}).encode(),
        "6,000 columns and the limit is 5,000",
    ),
}


@pytest.mark.parametrize("kind", SENTENCES)
def test_a_sentence(kind: str, tmp_path: Path) -> None:
    name, content, message = SENTENCES[kind]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        load(tmp_path / name)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("content", ['{"a": ' + DEEP, '{"a": ' + "9" * 5000 + "}", "[1"])
def test_what_pan_says_of_a_problem(content: str, tmp_path: Path) -> None:
    (tmp_path / "candidate1").mkdir()
    (tmp_path / "candidate1" / "a.txt").write_text("I am.")
    (tmp_path / "problem-info.json").write_text(content)
    with pytest.raises(InputError, match=r"problem-info\.json.*: not valid JSON"):
        load(tmp_path)


def test_marks_piled_on_a_letter_are_cut() -> None:
    """Normalising them takes time that grows with their square; thirty are left, and a note."""
    found = clean("e" + "\u0301\u0327" * 50_000 + " Zoë")
    assert len(found.text) < 40
    assert {repair.kind for repair in found.repairs} == {"left-out", "unicode"}
    assert len(name_of("e" + "\u0301\u0327" * 50_000)) < 40
    # Negative control: what languages have stays.
    vietnamese = "ế ộ ử Zoë שָׁלוֹם"
    assert "left-out" not in {one.kind for one in clean(vietnamese).repairs}


def test_blanks_around_line_ends_take_no_time() -> None:
    assert tidy("a" + " " * 2_000_000 + "b") == "a" + " " * 2_000_000 + "b"


# -- what is given in memory ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("authors", "shown"),
    [
        (["Ann", math.nan], r"authors\[1\] is nan \(float\); an author is a string"),
        (["Ann", 2.0], r"authors\[1\] is 2.0 \(float\)"),
        (["Ann", np.float64(1)], r"authors\[1\] is .*\(float64\)"),
        ([b"Ann", "Bob"], r"authors\[0\] is b'Ann' \(bytes\)"),
        (["Ann", True], r"authors\[1\] is True \(bool\)"),
        ({"Ann", "Bob"}, "authors is a set and must be a sequence"),
        ("ab", "authors is one string"),
    ],
)
def test_an_author_is_a_string_or_none(authors: Any, shown: str) -> None:
    with pytest.raises(InputError, match=shown):
        Corpus.from_texts(["I am.", "You are."], authors)
    with pytest.raises(InputError, match=shown):
        quick().fit(["I am.", "You are."], authors)


@pytest.mark.parametrize(
    "texts",
    [{"I am.", "You are."}, {"I am.": 1}, frozenset(["a"]), 7, None, np.array([["a", "b"]])],
    ids=lambda texts: type(texts).__name__,
)
def test_texts_have_an_order(texts: Any) -> None:
    with pytest.raises(InputError, match=r"texts is an? .* and must be a sequence"):
        Corpus.from_texts(texts)


def test_columns_go_by_their_order_not_by_their_labels() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"t": ["I am.", "You are."], "a": ["Ann", "Bob"]}, index=[1, 0])
    corpus = Corpus.from_texts(table["t"], table["a"])
    assert (corpus.texts, corpus.authors) == (("I am.", "You are."), ("Ann", "Bob"))


def test_whole_numbers_are_names() -> None:
    assert Corpus.from_texts(["I am."] * 3, [7, np.int64(8), None]).authors == ("7", "8", None)


@pytest.mark.parametrize("value", [-1, 2**32, 10**5000, 0.5, True, math.nan, "1"], ids=range(7))
def test_a_seed_has_32_bits(value: Any) -> None:
    with pytest.raises(InputError, match="it must be a whole number from 0 to 4294967295"):
        seed("random_state", value)
    with pytest.raises(InputError, match="random_state is"):
        quick(random_state=value).fit([*texts_by(0, 3), *texts_by(1, 3)], ["A"] * 3 + ["B"] * 3)
    with pytest.raises(InputError, match="random_state is"):
        folds(["a", "b"] * 5, random_state=value)


# -- what is shown -------------------------------------------------------------------------------

ANY = st.text(st.characters(codec=None, exclude_categories=()), max_size=60)


@settings(max_examples=150, deadline=None)
@given(ANY)
def test_names_are_printable_and_stay_so(name: str) -> None:
    made = name_of(name)
    assert one_line(made) == made
    assert name_of(made) == made
    assert json.loads(printable(json.dumps(name, ensure_ascii=False))) == name
    made.encode("utf-8")
    assert nasty.CONTROL.search(escaped(name)) is None


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200))
def test_decoded_texts_are_clean_and_stay_so(data: bytes) -> None:
    text = decode(data).text
    nasty.sound_text(text)
    assert decode(text.encode()).text == text.removeprefix("\ufeff")


@settings(max_examples=60, deadline=None)
@given(ANY)
def test_networks_are_well_formed(name: str) -> None:
    groups, edges = (Group((0, 1), 1.0),), (Edge(0, 1, 1.0),)
    tree = Consensus((name, "b"), (name, None), (100,), 0.5, groups, edges)
    root = ElementTree.fromstring(graphml(tree))
    assert "b" in [node.text for node in root.iter() if node.text]


@pytest.mark.filterwarnings("ignore:Glyph")
def test_pictures_are_well_formed() -> None:
    steering = "Ann\x1b[2J\x00\ufffe"
    figure = probability_bars([Bar(steering, steering, 0.7, None), Bar("b", "Bob", 0.3, True)])
    assert ElementTree.fromstring(svg(figure)).tag.endswith("svg")


def test_mutated_inputs_are_answered_or_refused() -> None:
    """The short form of the recorded run (docs/reliability.md): two thousand executions."""
    counts, refused, failures = nasty.run(60, seed=7, most=2000)
    assert not failures, failures[0]
    assert counts.total() == 2000 or counts.total() > 300  # a slow machine does what it can
    assert refused.total() > 20


def test_the_fuzzer_sees_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: a reader that raises, and a page that passes a tag on, are failures."""
    monkeypatch.setattr(nasty, "name_of", lambda name: name)
    monkeypatch.setattr(nasty, "page", lambda title, *_, **__: f"<h1>{title}</h1>")
    _, _, failures = nasty.run(30, seed=7, most=400)
    assert any(one.startswith("names ") for one in failures)
    assert any(one.startswith("shown ") for one in failures)
