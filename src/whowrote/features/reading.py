r"""A trained extractor, its file, and how it reads: :math:`\text{text} \to (t_i) \to \mathrm{LEV}`.

The file has the weights in half precision, vocabulary and settings in its header. The vectors of
all words of the table are computed once, when the weights are loaded; those of other spellings once
per block of texts. Nothing is remembered between blocks, so a vector depends on its block by
rounding at most, and several threads may share one reader. The only loop over tokens is inside the
regular expression that finds them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from whowrote.arrays import IntArray
from whowrote.checks import choose_device
from whowrote.errors import InputError
from whowrote.features.bag import DeviceRows, GramRows
from whowrote.features.counting import FittedNGrams
from whowrote.features.embedding import cut, embed_stretches
from whowrote.features.network import Architecture, Layout, Network, lay_out
from whowrote.features.vocabulary import (
    MAX_CHARACTERS,
    UNKNOWN_WORD,
    Span,
    Vocabulary,
    spans,
    spelling,
    split,
    vocabulary_from,
)
from whowrote.files import ModelFile, below, read_model_file, write_model_file

KIND = "AdHominem"
NGRAMS = "ngrams/"


@dataclass(frozen=True)
class Extractor:
    """A network, what it reads, how long a stretch it was trained on, and where it comes from."""

    network: Network
    vocabulary: Vocabulary
    longest: int = 264
    card: Mapping[str, Any] = field(default_factory=dict)
    ngrams: FittedNGrams | None = None
    """The n-grams that it reads besides, if it does."""


def write_extractor(path: Path, extractor: Extractor) -> None:
    """Write the weights in half precision."""
    state = extractor.network.state_dict()
    arrays = {
        name: value.detach().cpu().numpy().astype(np.float16) for name, value in state.items()
    }
    if extractor.ngrams is not None:
        arrays |= {f"{NGRAMS}{name}": a for name, a in extractor.ngrams.state().items()}
    values = {
        "architecture": extractor.network.architecture.to_dict(),
        "vocabulary": asdict(extractor.vocabulary),
        "longest": extractor.longest,
        "card": dict(extractor.card),
    }
    write_model_file(path, ModelFile(KIND, values, arrays))


def read_extractor(path: Path, device: torch.device | str = "cpu") -> Extractor:
    """Read weights; the network computes in single precision."""
    record = read_model_file(path, KIND)
    try:
        shape = dict(record.values["architecture"])
        shape["character_widths"] = tuple(shape["character_widths"])
        network = Network(Architecture(**shape))
        ngrams = _ngrams(record.arrays) if network.grams is not None else None
        network.load_state_dict(
            {
                name: torch.from_numpy(a.astype(np.float32))
                for name, a in record.arrays.items()
                if not name.startswith(NGRAMS)
            }
        )
        vocabulary = vocabulary_from(record.values["vocabulary"])
        longest, card = int(record.values["longest"]), record.values["card"]
    except (KeyError, TypeError, RuntimeError) as problem:
        raise InputError(
            f"the weights in '{path}' do not fit this version of whowrote "
            f"({str(problem).splitlines()[0]}); train them again or change versions"
        ) from None
    return Extractor(network.to(device).requires_grad_(False), vocabulary, longest, card, ngrams)


def _ngrams(arrays: Mapping[str, NDArray[Any]]) -> FittedNGrams:
    return FittedNGrams.restore(below(NGRAMS, arrays))


SECTION = 4000
"""Tokens that go through the network in one piece; longer texts are averaged over sections."""
TEXTS_PER_BLOCK = 2048
CHARACTERS_PER_BLOCK = 4_000_000
WINDOWS_PER_BATCH = {"cpu": 256, "cuda": 8192}


class Numbering(dict[str, int]):
    """Token to row of the table of vectors; new spellings are numbered as they come."""

    def __init__(self, vocabulary: Vocabulary, known: dict[str, int]) -> None:
        super().__init__(known)
        self.vocabulary, self.first = vocabulary, len(vocabulary.words) + 2
        self.spellings: dict[str, int] = {}

    def __missing__(self, token: str) -> int:
        read = spelling(token)
        number = self.vocabulary.word_id(read)
        if number == UNKNOWN_WORD:
            spelled = self.vocabulary.spelled(read)
            number = self.spellings.setdefault(spelled, self.first + len(self.spellings))
        if len(token) <= 4 * MAX_CHARACTERS:  # a token of megabytes is not worth remembering
            self[token] = number
        return number


@dataclass(frozen=True)
class Block:
    """Texts as rows of a table: flat numbers, where each text begins and ends, the table."""

    tokens: Tensor
    offsets: IntArray
    vectors: Tensor
    bags: Tensor | None = None
    """What the n-grams of each text say, if the network reads them."""

    @property
    def lengths(self) -> IntArray:
        """Tokens of each text."""
        return np.diff(self.offsets)


@dataclass(frozen=True)
class Weights:
    """What the network looks at in one text, by token numbers.

    ``windows`` holds the weight of each window, its first token and its number of tokens;
    ``words`` (windows, size) the weights of the tokens in each window, zero after its end.
    """

    spans: Sequence[Span]
    windows: NDArray[np.float64]
    starts: IntArray
    lengths: IntArray
    words: NDArray[np.float64]

    def per_token(self) -> NDArray[np.float64]:
        """Weights of the tokens over the whole text; where windows overlap they are added."""
        place = np.arange(self.words.shape[1])
        inside = place < self.lengths[:, None]
        index = (self.starts[:, None] + place)[inside]
        weights = (self.windows[:, None] * self.words)[inside]
        return np.bincount(index, weights, minlength=len(self.spans)).astype(np.float64)


class Reader:
    """An extractor on its device."""

    def __init__(self, extractor: Extractor, device: torch.device) -> None:
        self.extractor, self.device = extractor, device
        self.network = extractor.network.to(device).requires_grad_(False)
        self.vocabulary = extractor.vocabulary
        self.known = {word: self.vocabulary.word_id(word) for word in self.vocabulary.words}
        types = self.vocabulary.types(self.vocabulary.words)
        self.table = self._vectors(types.characters, types.words)

    @torch.no_grad()
    def _vectors(self, characters: NDArray[np.int16], words: NDArray[np.int32]) -> Tensor:
        sent = [torch.from_numpy(array).to(self.device) for array in (characters, words)]
        return self.network.word_vectors(*sent)

    def block(self, texts: Sequence[str]) -> Block:
        """Find the tokens of texts and compute the vectors of spellings beyond the word table."""
        numbers = Numbering(self.vocabulary, self.known)
        rows = [np.fromiter(map(numbers.__getitem__, split(text)), np.int32) for text in texts]
        return Block(
            torch.from_numpy(np.concatenate(rows)).to(self.device),
            np.cumsum([0, *map(len, rows)]),
            self._table(list(numbers.spellings)),
            self._bags(texts),
        )

    @torch.no_grad()
    def _bags(self, texts: Sequence[str]) -> Tensor | None:
        if self.extractor.ngrams is None:
            return None
        rows = GramRows.of(texts, self.extractor.ngrams)
        return self.network.bag(DeviceRows.place(rows, self.device))

    def _table(self, spellings: Sequence[str]) -> Tensor:
        if not spellings:
            return self.table
        types = self.vocabulary.table([UNKNOWN_WORD] * len(spellings), spellings)
        return torch.cat([self.table, self._vectors(types.characters[2:], types.words[2:])])

    def levs(self, block: Block, section: int = SECTION) -> NDArray[np.float32]:
        """One vector per text."""

        def forward(ids: Tensor, layout: Layout, texts: IntArray) -> Tensor:
            read = nn.functional.embedding(ids, block.vectors)
            bags = None if block.bags is None else block.bags[torch.from_numpy(texts)]
            return self.network.levs(read, ids != 0, layout, bags)

        levs: NDArray[np.float32] = (
            embed_stretches(
                forward,
                self.network.architecture,
                block.tokens,
                block.offsets[:-1],
                block.lengths,
                longest=section,
                windows=WINDOWS_PER_BATCH.get(self.device.type, 8192),
            )
            .cpu()
            .numpy()
        )
        return levs

    def weights(self, text: str, section: int = SECTION) -> Weights:
        """What the network looks at; a section of a long text counts by its tokens."""
        block = self.block([text])
        segments = cut(block.offsets[:-1], block.lengths, section)
        bounds = zip(segments.starts, segments.lengths, strict=True)
        parts = [self._section_weights(block, *bound) for bound in bounds]
        return Weights(spans(text), *(np.concatenate(each) for each in zip(*parts, strict=True)))

    @torch.no_grad()
    def _section_weights(self, block: Block, start: np.int64, length: np.int64) -> tuple[Any, ...]:
        a = self.network.architecture
        layout = lay_out(np.array([start]), np.array([length]), a.window, a.hop, self.device)
        ids = layout.ids(block.tokens, a.window)
        read = nn.functional.embedding(ids, block.vectors)
        words, windows = self.network.attention(read, ids != 0, layout)
        share = float(length / block.lengths.sum())
        found = (windows[0].double() * share, layout.starts, layout.lengths, words.double())
        return tuple(tensor.cpu().numpy() for tensor in found)


def blocks(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Runs of texts that are worth sorting by length together and fit easily into memory.

    >>> [len(block) for block in blocks(["a" * 3_000_000] * 3)]
    [2, 1]
    """
    low = size = 0
    for number, text in enumerate(texts):
        if number - low == TEXTS_PER_BLOCK or size >= CHARACTERS_PER_BLOCK:
            yield texts[low:number]
            low, size = number, 0
        size += len(text)
    if low < len(texts):
        yield texts[low:]


def open_reader(path: Path, device: torch.device | str | None = None) -> Reader:
    """The reader for a file of weights; loaded once, and again when the file changes."""
    stamp = os.stat(path).st_mtime_ns if path.is_file() else 0
    return _opened(path, stamp, choose_device(device))


@lru_cache(maxsize=4)
def _opened(path: Path, stamp: int, device: torch.device) -> Reader:
    return Reader(read_extractor(path), device)
