r"""A text as tokens: :math:`\text{text} \to (t_1, \dots, t_n)`, each with its place in the text.

Words keep their inner apostrophes and hyphens and their combining marks; numbers keep inner points
and commas; a run of one punctuation mark is one token, and a single space before it belongs to it
("a ,b" and "a, b" are habits); emoji are whole, with their variation, skin and joiner sequences;
white space that is not one plain space is a token. One compiled expression with possessive
repeats, so that no text, however odd, makes it backtrack.
"""

from __future__ import annotations

import re
import string
import unicodedata
from typing import NamedTuple

MAX_CHARACTERS = 15
"""A token is read by at most this many characters."""

_PUNCTUATION = string.punctuation + "“”‘’«»‹›„‚–—…·•¿¡§©®™°€£´"
_BLOCKS_WITH_MARKS = (
    *(range(0x300, 0x3100), range(0xA600, 0xAC00), range(0xFB00, 0xFF00)),
    *(range(0x10000, 0x12000), range(0x13400, 0x13500), range(0x16000, 0x17000)),
    *(range(0x1BC00, 0x1BD00), range(0x1CF00, 0x1EA00), range(0xE0100, 0xE01F0)),
)
"""Where Unicode keeps its combining marks: a look at all characters would delay every start."""


def _marks() -> str:
    """The combining marks of Unicode as the inside of a character class."""
    codes = [c for block in _BLOCKS_WITH_MARKS for c in block]
    marks = [c for c in codes if unicodedata.category(chr(c)).startswith("M")]
    starts = [c for c, before in zip(marks, [-1, *marks], strict=False) if c != before + 1]
    ends = [c for c, after in zip(marks, [*marks[1:], -1], strict=True) if c != after - 1]
    return "".join(f"{chr(a)}-{chr(b)}" for a, b in zip(starts, ends, strict=True))


def _pattern() -> re.Pattern[str]:
    letters = r"[^\W\d_]"
    joined = rf"[{_marks()}\u200c\u200d]"
    part = rf"{letters}++(?:{joined}++{letters}*+)*+"
    picture = "[\u2190-\u21ff\u2300-\u23ff\u2460-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff]"
    picture += "[\ufe0e\ufe0f\u20e3\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]*+"
    runs = "|".join(f"{re.escape(mark)}++" for mark in _PUNCTUATION)
    kinds = [
        rf"{part}(?:['’\-\u2010\u2011]{part})*+",  # a word
        r"(?: (?=\s)|[^\S ])\s*+",  # white space other than one plain space
        "[0-9#*]\ufe0f?\u20e3",  # a keycap
        r"\d++(?:[.,:]\d++)*+",  # a number
        rf" ?(?:{runs})",  # a run of one punctuation mark
        "[\U0001f1e6-\U0001f1ff]{2}",  # a flag
        f"{picture}(?:\u200d{picture})*+",  # an emoji
        r"[^\w\s]|_",  # any other symbol
    ]
    return re.compile("|".join(kinds))


_TOKEN = _pattern()


class Span(NamedTuple):
    """A token and where it lies: ``text[start:end] == token``."""

    token: str
    start: int
    end: int


def split(text: str) -> list[str]:
    r"""The tokens of a text, as written.

    >>> split("Don't  stop... at 3.50 , she said!!!\n")
    ["Don't", '  ', 'stop', '...', 'at', '3.50', ' ,', 'she', 'said', '!!!', '\n']
    """
    return _TOKEN.findall(text)


def spans(text: str) -> list[Span]:
    """The same tokens with their places.

    >>> spans("Yes !")
    [Span(token='Yes', start=0, end=3), Span(token=' !', start=3, end=5)]
    """
    return [Span(match.group(), *match.span()) for match in _TOKEN.finditer(text)]


def spelling(token: str) -> str:
    """What is read of a token: one Unicode form, at most 15 characters of it.

    >>> spelling("cafe\u0301"), spelling("a" * 40)
    ('café', 'aaaaaaaaaaaaaaa')
    """
    head = token[: 4 * MAX_CHARACTERS]
    return (head if head.isascii() else unicodedata.normalize("NFC", head))[:MAX_CHARACTERS]
