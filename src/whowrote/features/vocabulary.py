r"""What the network reads of a text: tokens, words of a table, and the spelling of all others.

.. math:: \text{text} \to (t_1, \dots, t_n), \qquad \text{score}(t) = \frac1{|D|} \sum_{d \in D}
    \frac{\#\{\text{training authors of } d \text{ who use } t\}}{\#\{\text{authors of } d\}}

Words keep their inner apostrophes and hyphens and their combining marks; numbers keep inner points
and commas; a run of one punctuation mark is one token, and a single space before it belongs to it
("a ,b" and "a, b" are habits); emoji are whole, with their variation, skin and joiner sequences;
white space that is not one plain space is a token. One compiled expression with possessive
repeats, so that no text, however odd, makes it backtrack.

The word table holds the tokens of the highest score: what many people use is style, what one
person uses often is topic. With ``mask_rare`` every token outside the table, and every token with a
digit, reaches the network by its shape alone: letters become x and X, digits 9, runs are
shortened, and the last ``suffix`` letters stay.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whowrote.arrays import IntArray
from whowrote.errors import InputError

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


PAD, MASKED = 0, 1
"""Types that every table opens with: no token, and a token that dropout has hidden."""
UNKNOWN_WORD, FIRST_WORD = 1, 2
UNKNOWN_CHARACTER, MASK_CHARACTER, FIRST_CHARACTER = 1, 2, 3

_RUN = re.compile(r"(.)\1{4,}", re.DOTALL)
_DIGIT = re.compile(r"\d")
_LETTERS = re.compile(r"[^\W\d_]+")


def shape(token: str, suffix: int = 0) -> str:
    """A token by its shape; punctuation, spaces and emoji keep their own.

    >>> shape("Kierkegaard"), shape("Kierkegaard", suffix=2), shape("1984"), shape("!!!!!!!!")
    ('Xxxxx', 'Xxxxxrd', '9999', '!!!!')
    """
    masked = _DIGIT.sub("9", _LETTERS.sub(lambda found: _masked(found.group(), suffix), token))
    return _RUN.sub(lambda found: found.group(1) * 4, masked)


def _masked(letters: str, suffix: int) -> str:
    keep = suffix if len(letters) > suffix + 1 else 0
    cut = len(letters) - keep
    body = "".join("X" if letter.isupper() else "x" for letter in letters[:cut])
    return _RUN.sub(lambda found: found.group(1) * 4, body) + letters[cut:]


@dataclass(frozen=True)
class VocabularySettings:
    """How large the tables are and what becomes of rare tokens."""

    n_words: int = 5000
    n_characters: int = 200
    mask_rare: bool = True
    suffix: int = 2
    n_grams: tuple[int, ...] = (0, 0)
    """Widely used n-grams of characters and of words that the network reads besides."""

    def __post_init__(self) -> None:
        if len(self.n_grams) != 2 or min(self.n_grams) < 0:
            raise InputError(
                f"n_grams is {list(self.n_grams)}; it must be two whole numbers of 0 or more, of "
                "characters and of words: give [32768, 16384], or [0, 0] for none"
            )
        if self.n_words < 1 or self.n_characters < 1 or not 0 <= self.suffix <= 5:
            raise InputError(
                f"n_words is {self.n_words}, n_characters {self.n_characters}, suffix "
                f"{self.suffix}; the first two must be at least 1 and suffix from 0 to 5: give "
                "5000, 200 and 2"
            )


@dataclass(frozen=True)
class Types:
    """Distinct tokens as the network reads them: characters (types, 15) and word ids (types,)."""

    characters: NDArray[np.int16]
    words: NDArray[np.int32]


@dataclass(frozen=True)
class Vocabulary:
    """The word table, the character table, and the rule for everything else.

    >>> vocabulary = Vocabulary(("the", "whale"), ("e", "h", "t", "x"), mask_rare=True)
    >>> vocabulary.types(["the", "ship"]).words.tolist()
    [0, 1, 2, 1]
    """

    words: tuple[str, ...]
    characters: tuple[str, ...]
    mask_rare: bool = True
    suffix: int = 2

    @cached_property
    def _word_ids(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words, start=FIRST_WORD)}

    @cached_property
    def _character_ids(self) -> dict[str, int]:
        return {mark: number for number, mark in enumerate(self.characters, start=FIRST_CHARACTER)}

    def word_id(self, read: str) -> int:
        """The number of a token (as :func:`~whowrote.features.vocabulary.spelling` gives it)."""
        return self._word_ids.get(read, UNKNOWN_WORD)

    def spelled(self, read: str) -> str:
        """What the character network sees of a token."""
        rare = self.mask_rare and read not in self._word_ids
        return shape(read, self.suffix)[:MAX_CHARACTERS] if rare else read

    def types(self, tokens: Sequence[str]) -> Types:
        """The table of these distinct tokens; its first two rows are padding and the mask."""
        read = [spelling(token) for token in tokens]
        return self.table([self.word_id(r) for r in read], [self.spelled(r) for r in read])

    def table(self, words: Sequence[int], spellings: Sequence[str]) -> Types:
        """The table of types given by word id and spelling."""
        rows = [self._row(spelled) for spelled in spellings]
        characters = np.zeros((len(rows) + 2, MAX_CHARACTERS), dtype=np.int16)
        characters[MASKED, 0] = MASK_CHARACTER
        if rows:
            characters[2:] = rows
        return Types(characters, np.array([PAD, UNKNOWN_WORD, *words], dtype=np.int32))

    def _row(self, spelled: str) -> list[int]:
        known = self._character_ids
        ids = [known.get(mark, UNKNOWN_CHARACTER) for mark in spelled]
        return ids + [0] * (MAX_CHARACTERS - len(ids))


def vocabulary_from(values: Mapping[str, object]) -> Vocabulary:
    """A vocabulary from its JSON form."""
    words, characters = values["words"], values["characters"]
    assert isinstance(words, list)
    assert isinstance(characters, list)
    return Vocabulary(
        tuple(words), tuple(characters), bool(values["mask_rare"]), int(str(values["suffix"]))
    )


def choose(
    read: Sequence[str],
    scores: NDArray[np.float64],
    occurrences: IntArray,
    settings: VocabularySettings,
) -> Vocabulary:
    """The vocabulary of a training corpus; ties go to the earlier in the alphabet."""
    open_to = [
        i
        for i, token in enumerate(read)
        if scores[i] > 0 and not (settings.mask_rare and _DIGIT.search(token))
    ]
    best = sorted(open_to, key=lambda i: (-scores[i], read[i]))[: settings.n_words]
    words = tuple(read[i] for i in best)
    vocabulary = Vocabulary(words, (), settings.mask_rare, settings.suffix)
    counts: dict[str, int] = {}
    for token, count in zip(read, occurrences.tolist(), strict=True):
        for mark in vocabulary.spelled(token):
            counts[mark] = counts.get(mark, 0) + count
    used = [mark for mark, count in counts.items() if count]
    marks = sorted(used, key=lambda mark: (-counts[mark], mark))[: settings.n_characters]
    return Vocabulary(words, tuple(sorted(marks)), settings.mask_rare, settings.suffix)
