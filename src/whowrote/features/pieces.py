r"""Word pieces of a text: :math:`\text{text} \to (p_1, m_1), \dots, (p_n, m_n)`.

A word is a run of characters that are neither white space nor punctuation; every punctuation mark
and every Chinese character is one of its own. A word is read without case and accents, as the
longest pieces of the table from its beginning on; pieces after the first are written with ``##``. A
word that cannot be put together is one unknown piece. So far this is what BERT's tokenizers do, and
a test compares both. They forget how a word was written, which is half of style: the *mark* of a
piece keeps the shape of its word (lower, Title, UPPER, mixed, none) and what stood before it
(nothing, one space, more space, a line break).
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whowrote.arrays import IntArray
from whowrote.errors import InputError

PAD, UNKNOWN, START, END, HIDDEN = SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LONGEST_WORD = 100
"""Characters; a longer word is unknown."""
SHAPES, SPACES = 5, 4
NONE, LOWER, TITLE, UPPER, MIXED = range(SHAPES)
NOTHING, SPACE, MORE_SPACE, LINE_BREAK = range(SPACES)
MARKS = SHAPES * SPACES
_CHINESE = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002fa1f"


@functools.cache
def _pattern() -> re.Pattern[str]:
    """White space, then a word or one mark; the scan of Unicode waits for the first text."""
    marks = [chr(c) for c in range(0x10000) if unicodedata.category(chr(c)).startswith("P")]
    single = re.escape("".join(marks)) + re.escape("$+<=>^`|~") + _CHINESE
    return re.compile(rf"(\s*+)([^\s{single}]++|[{single}])")


def shape_of(word: str) -> int:
    """How a word is written.

    >>> [shape_of(word) for word in ("!", "whale", "Whale", "WHALE", "iPhone", "I")]
    [0, 1, 2, 3, 4, 2]
    """
    if not any(character.isalpha() for character in word):
        return NONE
    if word.islower():
        return LOWER
    if word.istitle():
        return TITLE
    return UPPER if word.isupper() else MIXED


def space_of(before: str) -> int:
    r"""What stands before a word.

    >>> [space_of(space) for space in ("", " ", "  ", " \n")]
    [0, 1, 2, 3]
    """
    if not before:
        return NOTHING
    if before == " ":
        return SPACE
    return LINE_BREAK if "\n" in before or "\r" in before else MORE_SPACE


def folded(word: str) -> str:
    """A word without case, accents and characters that do not print.

    >>> folded("Éclair")
    'eclair'
    """
    if word.isascii() and word.isprintable():
        return word.lower()
    kept = "".join(c for c in word if c != "\ufffd" and not unicodedata.category(c).startswith("C"))
    spread = unicodedata.normalize("NFD", kept.lower())
    return "".join(c for c in spread if unicodedata.category(c) != "Mn")


@dataclass(frozen=True)
class PieceRows:
    """Pieces of many texts, one after another: text i is ``offsets[i]:offsets[i + 1]``."""

    pieces: NDArray[np.uint16]
    marks: NDArray[np.uint8]
    offsets: IntArray

    @property
    def lengths(self) -> IntArray:
        """Pieces of each text."""
        return np.diff(self.offsets)

    @staticmethod
    def join(parts: Sequence[PieceRows]) -> PieceRows:
        """One after another."""
        lengths = np.concatenate([part.lengths for part in parts])
        return PieceRows(
            np.concatenate([part.pieces for part in parts]),
            np.concatenate([part.marks for part in parts]),
            np.concatenate([[0], np.cumsum(lengths)]),
        )


class PieceTable:
    """The pieces that there are, in their order; the special ones among them.

    >>> table = PieceTable((*SPECIAL, "wh", "##ale", "a", "!"))
    >>> table.read(["Whale  a!"]).pieces.tolist(), table.read(["Whale  a!"]).marks.tolist()
    ([5, 6, 7, 8], [8, 8, 6, 0])
    """

    def __init__(self, pieces: Sequence[str]) -> None:
        self.pieces = tuple(pieces)
        self.index = {piece: number for number, piece in enumerate(self.pieces)}
        missing = [piece for piece in SPECIAL if piece not in self.index]
        if missing or len(self.index) != len(self.pieces) or len(self.pieces) > 2**16:
            raise InputError(
                f"a table of {len(self.pieces)} pieces, {len(self.index)} of them different, lacks "
                f"{missing}; it must have at most {2**16} different ones and {list(SPECIAL)}: give "
                "the vocab.txt of a BERT model"
            )

    def __len__(self) -> int:
        return len(self.pieces)

    def of_word(self, word: str) -> list[int]:
        """The pieces of one word; none where nothing of it prints."""
        plain = folded(word)
        if len(plain) > LONGEST_WORD:
            return [self.index[UNKNOWN]]
        found, low = [], 0
        while low < len(plain):
            start = "##" if low else ""
            ends = range(len(plain), low, -1)
            high = next((end for end in ends if start + plain[low:end] in self.index), None)
            if high is None:
                return [self.index[UNKNOWN]]
            found.append(self.index[start + plain[low:high]])
            low = high
        return found

    def reader(self) -> Callable[[Sequence[str]], PieceRows]:
        """A reader that remembers words, for texts that come in several calls."""
        memory: dict[str, tuple[list[int], int]] = {}
        return lambda texts: self._read(texts, memory)

    def read(self, texts: Sequence[str]) -> PieceRows:
        """The pieces of texts; a text without any becomes one unknown piece."""
        return self._read(texts, {})

    def _read(self, texts: Sequence[str], memory: dict[str, tuple[list[int], int]]) -> PieceRows:
        pieces: list[int] = []
        marks: list[int] = []
        ends = [0]
        for text in texts:
            for before, word in _pattern().findall(text):
                if word not in memory:
                    memory[word] = (self.of_word(word), SPACES * shape_of(word))
                own, shape = memory[word]
                pieces += own
                if len(own) == 1:
                    marks.append(shape + space_of(before))
                elif own:
                    marks += [shape + space_of(before), *[shape] * (len(own) - 1)]
            if len(pieces) == ends[-1]:
                pieces.append(self.index[UNKNOWN])
                marks.append(0)
            ends.append(len(pieces))
        return PieceRows(
            np.array(pieces, np.uint16), np.array(marks, np.uint8), np.array(ends, np.int64)
        )

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where the word of each piece lies in the text.

        >>> PieceTable((*SPECIAL, "wh", "##ale", "a", "!")).spans("Whale  a!")
        [(0, 5), (0, 5), (7, 8), (8, 9)]
        """
        return [
            found.span(2)
            for found in _pattern().finditer(text)
            for _ in self.of_word(found.group(2))
        ]


def shares_of_users(
    rows: PieceRows, authors: IntArray, domain_of: IntArray, learnt: NDArray[np.bool_], size: int
) -> NDArray[np.float64]:
    r"""For each piece :math:`\frac1{|D|} \sum_d` the share of d's training authors who use it."""
    writer = np.repeat(authors, rows.lengths)
    inside = learnt[writer]
    pairs = np.unique(writer[inside] * np.int64(size) + rows.pieces[inside])
    domains = np.unique(domain_of[learnt])
    total = np.zeros(size)
    for domain in domains:
        own = domain_of[pairs // size] == domain
        users = np.bincount(pairs[own] % size, minlength=size)
        total += users / (learnt & (domain_of == domain)).sum() / len(domains)
    return total
