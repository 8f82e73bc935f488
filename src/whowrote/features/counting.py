r"""Which n-grams texts have, how rare each is, and rows of them.

.. math:: h_n(c_1 \dots c_n) = \mathrm{mix}(h_{n-1} p + c_n) \bmod 2^{64}, \qquad
    \text{tf-idf}_{ij} \propto (1 + \log n_{ij})
    \left(1 + \log \tfrac{1 + N}{1 + \text{df}_j}\right)

An n-gram is known by a 64-bit hash, so what has been learnt holds no text, and all n-grams of a
text are hashed and counted at once, by arithmetic on arrays: the rows are those of scikit-learn's
vectoriser in another order of columns, several times faster. ``mix`` is the finaliser of
splitmix64, a bijection that spreads every bit; ten million distinct n-grams meet by chance with a
probability of about one in four hundred thousand.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from whowrote.arrays import Arrays, BoolArray, FloatArray, IntArray
from whowrote.features.interface import FittedFeatures, Stored, checked_texts
from whowrote.progress import tell

Keys = NDArray[np.uint64]
CHARACTERS = (2, 3, 4)
WORDS = (1, 2)
WORD_OR_MARK = re.compile(r"\w+|[^\w\s]")
WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*")
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


def word_runs(text: str, size: int) -> Keys:
    """The hashes of all runs of ``size`` words, in lower case and without marks.

    >>> len(word_runs("Call me Ishmael. Some years ago", 4))
    3
    """
    words = WORD.findall(text.lower())
    items = np.fromiter(map(_word_hashes.__getitem__, words), np.uint64, len(words))
    return grams(items, (size,)) if len(words) >= size else np.empty(0, dtype=np.uint64)


def spelled_words(text: str) -> list[str]:
    """The same n-grams as written, in the same order.

    >>> spelled_words("Yes, yes")
    ['Yes', ',', 'yes', 'Yes ,', ', yes']
    """
    words = WORD_OR_MARK.findall(text)
    return [" ".join(words[i : i + n]) for n in WORDS for i in range(len(words) - n + 1)]


TEXTS_PER_SURVEY = 2000

Kind = Callable[[str], Keys]
BASES: dict[str, Kind] = {"characters": character_grams, "words": word_grams}
SPELLED = {"characters": spelled_characters, "words": spelled_words}


COMMON = frozenset((Path(__file__).parent / "common_words.txt").read_text(encoding="utf-8").split())
"""The 300 English words that most authors of blogs, reviews, letters and forums alike use."""


# -- readings ------------------------------------------------------------------------------------


def masked(text: str) -> str:
    """Style apart from topic: words outside the commonest, and digits, by their shape alone.

    >>> masked("The 3 whales of Nantucket")
    'The 0 xxxxxx of Xxxxxxxxx'
    """
    return WORD.sub(_mask, text)


class _Shapes(dict[int, str]):
    """The shape of each character, worked out when it is first met."""

    def __missing__(self, code: int) -> str:
        sign = chr(code)
        shape = "0" if sign.isdigit() else "X" if sign.isupper() else "x"
        self[code] = shape
        return shape


_SHAPES = _Shapes()


def _mask(found: re.Match[str]) -> str:
    word = found.group()
    if word.lower().replace("\u2019", "'") in COMMON:
        return word
    return word.translate(_SHAPES)


def plain(text: str) -> str:
    """What no printer decides: lower-case words without marks.

    >>> plain("Yes\u2014and *no*, Sir!").split()
    ['yes', 'and', 'no', 'sir']
    """
    return " ".join(WORD.findall(text.lower()))


def bare(text: str) -> str:
    """What neither printer nor topic decides: both of the above.

    >>> bare("The 3 whales of Nantucket!")
    'the 0 xxxxxx of xxxxxxxxx'
    """
    return plain(masked(text))


READINGS: dict[str, Callable[[str], str]] = {
    "written": lambda text: text,
    "masked": masked,
    "plain": plain,
    "bare": bare,
}
"""How a text may be read before its n-grams are counted."""
SHORT_READINGS = ("written", "masked", "plain")
"""How texts are read that are not long works."""


def _read_first(reading: str, base: str) -> Kind:
    return lambda text: BASES[base](READINGS[reading](text))


KINDS: dict[str, Kind] = BASES | {
    f"{reading}-{base}": _read_first(reading, base)
    for reading in ("masked", "plain", "bare")
    for base in BASES
}
"""The kinds of n-grams by name: as written, or of another reading."""


def kinds_of(reading: str) -> list[str]:
    """The names of a reading's kinds.

    >>> kinds_of("written"), kinds_of("plain")
    (['characters', 'words'], ['plain-characters', 'plain-words'])
    """
    return list(BASES) if reading == "written" else [f"{reading}-{base}" for base in BASES]


def spelled(kind: str, text: str) -> list[str]:
    """The n-grams of a kind as they stand in what is read, in the order of its hashes."""
    reading, _, base = kind.rpartition("-")
    return SPELLED[base](READINGS[reading or "written"](text))


@dataclass(frozen=True)
class Survey:
    """Distinct n-grams of some texts, sorted: how many texts have each, and how often in all."""

    keys: Keys
    texts: IntArray
    times: IntArray

    def joined(self, other: Survey) -> Survey:
        """The survey of both sets of texts."""
        keys, place = np.unique(np.concatenate([self.keys, other.keys]), return_inverse=True)
        totals = []
        for mine, theirs in ((self.texts, other.texts), (self.times, other.times)):
            both = np.concatenate([mine, theirs])
            totals.append(np.bincount(place, both, len(keys)).astype(np.int64))
        return Survey(keys, *totals)


Counts = tuple[Keys, IntArray]
REMEMBERED = 8_000_000
"""So many distinct n-grams of texts are remembered at most, 16 bytes each."""


class _Memory(dict[tuple[Kind, str], Counts]):
    """The counts of texts, as long as there is room."""

    room = REMEMBERED

    def of(self, text: str, kind: Kind) -> Counts:
        found = self.get((kind, text))
        if found is None:
            found = _count(text, kind)
            self.room -= len(found[0])
            if self.room >= 0:
                self[kind, text] = found
        return found


_memory: ContextVar[_Memory | None] = ContextVar("counts of n-grams", default=None)


@contextmanager
def counted_once() -> Iterator[None]:
    """Inside, the n-grams of a text are counted once, whoever asks for them.

    >>> with counted_once():
    ...     (first,), (second,) = (list(counted(["a cat"], word_grams)) for _ in range(2))
    >>> first[0] is second[0]
    True
    """
    token = _memory.set(_memory.get() or _Memory())
    try:
        yield
    finally:
        _memory.reset(token)


def _count(text: str, kind: Kind) -> Counts:
    return np.unique(kind(text), return_counts=True)


def counted(texts: Sequence[str], kind: Kind) -> Iterator[Counts]:
    """The distinct n-grams of each text and how often it has each."""
    memory = _memory.get()
    for text in texts:
        yield _count(text, kind) if memory is None else memory.of(text, kind)


def survey(texts: Sequence[str], kind: Kind) -> Survey:
    """Count all n-grams of the texts, some thousand texts at a time."""
    nothing = np.empty(0, dtype=np.int64)
    found = Survey(np.empty(0, dtype=np.uint64), nothing, nothing)
    for low in range(0, len(texts), TEXTS_PER_SURVEY):
        pairs = list(counted(texts[low : low + TEXTS_PER_SURVEY], kind))
        every = np.concatenate([keys for keys, _ in pairs])
        keys, place, n_texts = np.unique(every, return_inverse=True, return_counts=True)
        times = np.bincount(place, np.concatenate([counts for _, counts in pairs]), len(keys))
        found = found.joined(Survey(keys, n_texts, times.astype(np.int64)))
        tell("counting n-grams", min(low + TEXTS_PER_SURVEY, len(texts)), len(texts))
    return found


@dataclass(frozen=True)
class Block:
    """The n-grams of one kind that have a column, sorted, and how rare each is."""

    kind: str
    keys: Keys
    idf: FloatArray

    @classmethod
    def learn(cls, kind: str, texts: Sequence[str], min_df: int, most: int) -> Self:
        """Keep n-grams of at least ``min_df`` texts, and of those the ``most`` frequent."""
        found = survey(texts, KINDS[kind])
        kept = np.flatnonzero(found.texts >= min_df)
        if len(kept) > most:
            kept = np.sort(kept[np.argsort(-found.times[kept], kind="stable")[:most]])
        idf = 1.0 + np.log((1.0 + len(texts)) / (1.0 + found.texts[kept]))
        return cls(kind, found.keys[kept], idf)

    def rows(self, texts: Sequence[str]) -> sparse.csr_matrix:
        """One row of unit length per text; a text without a known n-gram has a row of zeros."""
        ends, columns, values = [0], [], []
        for keys, counts in counted(texts, KINDS[self.kind]):
            place, known = self._find(keys)
            column = place[known]
            value = (1.0 + np.log(counts[known])) * self.idf[column]
            ends.append(ends[-1] + len(column))
            columns.append(column.astype(np.int32))
            values.append(value / (np.linalg.norm(value) or 1.0))
        parts = (np.concatenate(values), np.concatenate(columns), np.array(ends))
        return sparse.csr_matrix(parts, shape=(len(texts), len(self.keys)))

    def names_in(self, text: str) -> dict[int, str]:
        """The columns of this block that a text has, and the n-gram of each as written there."""
        place, known = self._find(KINDS[self.kind](text))
        written = spelled(self.kind, text)
        return {int(place[i]): written[i] for i in np.flatnonzero(known)}

    def _find(self, keys: Keys) -> tuple[NDArray[np.intp], BoolArray]:
        """Where each key would stand, and whether it does."""
        place = np.searchsorted(self.keys, keys)
        known = place < len(self.keys)
        known[known] = self.keys[place[known]] == keys[known]
        return place, known


@dataclass(frozen=True)
class FittedNGrams(FittedFeatures):
    """The n-grams of all kinds that have a column: what is needed to read texts."""

    kind = "ngrams"
    grams: tuple[Block, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What they were learnt with."""

    def transform(self, X: Sequence[str]) -> sparse.csr_matrix:
        """One sparse row per text, the blocks side by side."""
        texts = checked_texts(X)
        return sparse.csr_matrix(sparse.hstack([block.rows(texts) for block in self.grams]))

    def readings(self) -> dict[str, slice]:
        """The columns of each reading, in their order."""
        found: dict[str, slice] = {}
        low = 0
        for block in self.grams:
            reading = block.kind.rpartition("-")[0] or "written"
            high = low + len(block.keys)
            found[reading] = slice(found[reading].start if reading in found else low, high)
            low = high
        return found

    def blocks(self) -> dict[str, slice]:
        """What is as written; all columns where nothing else is."""
        readings = self.readings()
        return {"features": readings["written"]} if len(readings) > 1 else super().blocks()

    def parts(self) -> dict[str, slice]:
        """Every reading."""
        return self.readings()

    def state(self) -> dict[str, NDArray[Any]]:
        """What was learnt, as arrays for a model file."""
        keys = {f"{block.kind}.keys": block.keys.view(np.int64) for block in self.grams}
        return keys | {f"{block.kind}.idf": block.idf for block in self.grams}

    def stored(self) -> Stored:
        """Hashes and their rarity, no n-gram."""
        return Stored({"kind": self.kind, **self.settings}, self.state())

    @classmethod
    def restore(cls, state: Arrays, settings: Mapping[str, Any] | None = None) -> Self:
        """The opposite of :meth:`state`."""
        kinds = [kind for kind in KINDS if f"{kind}.keys" in state]
        found = {kind: (state[f"{kind}.keys"], state[f"{kind}.idf"]) for kind in kinds}
        grams = (Block(kind, k.view(np.uint64), idf) for kind, (k, idf) in found.items())
        return cls(tuple(grams), settings or {})
