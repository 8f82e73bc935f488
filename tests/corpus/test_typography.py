"""Marks alone tell authors apart where they were set by different programs, and else not."""

import random

import pytest

from whowrote.corpus.audit import MARKS, audit, typography
from whowrote.corpus.texts import Corpus

WORDS = ["one", "can", "say", "that", "they", "would", "have", "been", "there", "before", "it"]


def texts_with(opening: str, closing: str, seed: int, n: int = 10) -> list[str]:
    """Texts of the same words, each with some of them in quotes of one kind."""
    draw = random.Random(seed)
    found = []
    for _ in range(n):
        words = draw.choices(WORDS, k=80)
        for place in draw.sample(range(80), 6):
            words[place] = f"{opening}{words[place]}{closing}"
        found.append(" ".join(words))
    return found


def corpus_of(*by_author: list[str]) -> Corpus:
    authors = [name for name, own in zip("abc", by_author, strict=False) for _ in own]
    return Corpus.from_texts([text for own in by_author for text in own], authors)


def test_quotes_of_two_programs_tell() -> None:
    found = typography(corpus_of(texts_with('"', '"', 1), texts_with("\u201c", "\u201d", 2)))
    assert found is not None
    assert found.telling
    assert found.right == 1.0
    assert set(found.marks[:2]) == {"curly quotes", "straight double quotes"}
    assert "--normalise" in found.in_words


def test_equal_marks_tell_nothing() -> None:
    """The control: the same marks, other words."""
    found = typography(corpus_of(texts_with('"', '"', 1), texts_with('"', '"', 2)))
    assert found is not None
    assert not found.telling
    assert "--normalise" not in found.in_words


def test_few_texts_prove_nothing_by_chance() -> None:
    """All of three texts of each right is no surprise where half are right by chance."""
    found = typography(corpus_of(texts_with('"', '"', 1, 3), texts_with("\u201c", "\u201d", 2, 3)))
    assert found is not None
    assert found.telling == (found.right - 0.5 >= 2 * (0.25 / 6) ** 0.5)


def test_a_book_is_one_group() -> None:
    """What is told apart inside one book is the book."""
    texts = [*texts_with('"', '"', 1), *texts_with("\u201c", "\u201d", 2)]
    groups = ["one"] * 10 + ["other"] * 10
    assert typography(Corpus.from_texts(texts, ["a"] * 10 + ["b"] * 10, groups=groups)) is None
    assert typography(corpus_of(texts_with('"', '"', 1))) is None


def test_the_audit_says_it() -> None:
    plain = audit(corpus_of(texts_with('"', '"', 1), texts_with("\u201c", "\u201d", 2))).to_dict()
    told = plain["typography"]
    assert isinstance(told, dict)
    assert told["telling"] is True
    assert told["in_words"].startswith("marks of typography alone name the author of 100%")


@pytest.mark.parametrize("name", MARKS)
def test_every_mark_is_found(name: str) -> None:
    """One text that has it, by its name, and that it is not found in plain words."""
    import re

    planted = {
        "curly quotes": "\u201cyes\u201d",
        "straight double quotes": '"yes"',
        "straight single quotes": "'yes'",
        "accents as quotes": "`yes\u00b4",
        "guillemets": "\u00abyes\u00bb",
        "em dashes": "yes\u2014no",
        "en dashes": "yes \u2013 no",
        "double hyphens": "yes--no",
        "spaced hyphens": "yes - no",
        "ellipsis characters": "yes\u2026",
        "dots in a row": "yes...",
        "several spaces": "yes  no",
        "no-break spaces": "yes\u00a0no",
        "tabs": "yes\tno",
        "line breaks": "yes\nno",
        "blank lines": "yes\n\nno",
        "indented lines": "yes\n  no",
        "spaces before marks": "yes , no",
        "no spaces after marks": "yes,no",
        "words in capitals": "it is YES",
        "capitals": "Yes",
        "small letters after full stops": "it is. yes",
        "a small i alone": "yes i am",
        "stars and underscores": "*yes*",
        "entities": "yes&nbsp;no",
    }
    assert re.search(MARKS[name], planted[name])
    assert not re.search(MARKS[name], "it is so and that is all")
