r"""N-grams as numbers: :math:`h_n(c_1 \dots c_n) = \mathrm{mix}(h_{n-1} p + c_n)` modulo 2**64.

All n-grams of a text are hashed at once, by arithmetic on arrays. ``mix`` is the finaliser of
splitmix64, a bijection that spreads every bit; ten million distinct n-grams meet by chance with a
probability of about one in four hundred thousand.
"""

from __future__ import annotations

import hashlib
import re

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.uint64]
CHARACTERS = (2, 3, 4)
WORDS = (1, 2)
WORD_OR_MARK = re.compile(r"\w+|[^\w\s]")
_SPACES = re.compile(r"\s\s+")
_STEP, _FIRST, _SECOND = (
    np.uint64(number) for number in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


def mix(values: Keys) -> Keys:
    """Spread every bit over the word; no two numbers become one."""
    values = (values ^ (values >> np.uint64(30))) * _FIRST
    values = (values ^ (values >> np.uint64(27))) * _SECOND
    return values ^ (values >> np.uint64(31))


def grams(items: Keys, sizes: tuple[int, ...]) -> Keys:
    """The hashes of all runs of ``sizes`` items, one size after the other."""
    found, hashes = [], np.zeros(len(items), dtype=np.uint64)
    for size in range(1, max(sizes) + 1):
        hashes = mix(hashes[: len(items) - size + 1] * _STEP + items[size - 1 :] + np.uint64(size))
        if size in sizes:
            found.append(hashes)
    return np.concatenate(found)


def character_grams(text: str) -> Keys:
    """Character 2-4-grams of a text in which a run of white space is one space.

    >>> len(character_grams("a  b c"))
    9
    """
    codes = _folded(text).encode("utf-32-le", "surrogatepass")
    return grams(np.frombuffer(codes, dtype=np.uint32).astype(np.uint64), CHARACTERS)


def spelled_characters(text: str) -> list[str]:
    """The same n-grams as written, in the same order.

    >>> spelled_characters("a  b")
    ['a ', ' b', 'a b']
    """
    folded = _folded(text)
    return [folded[i : i + n] for n in CHARACTERS for i in range(len(folded) - n + 1)]


def _folded(text: str) -> str:
    return _SPACES.sub(" ", text)


class _WordHashes(dict[str, int]):
    """Word to hash, remembered; forgotten when there are too many, as a long stream brings."""

    LIMIT = 500_000

    def __missing__(self, word: str) -> int:
        if len(self) >= self.LIMIT:
            self.clear()
        digest = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        self[word] = value = int.from_bytes(digest, "little")
        return value


_word_hashes = _WordHashes()


def word_grams(text: str) -> Keys:
    """Words and marks of a text, one by one and in pairs.

    >>> len(word_grams("Yes, yes"))
    5
    """
    words = WORD_OR_MARK.findall(text)
    return grams(np.fromiter(map(_word_hashes.__getitem__, words), np.uint64, len(words)), WORDS)


def spelled_words(text: str) -> list[str]:
    """The same n-grams as written, in the same order.

    >>> spelled_words("Yes, yes")
    ['Yes', ',', 'yes', 'Yes ,', ', yes']
    """
    words = WORD_OR_MARK.findall(text)
    return [" ".join(words[i : i + n]) for n in WORDS for i in range(len(words) - n + 1)]
