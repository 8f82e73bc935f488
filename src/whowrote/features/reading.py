r"""A trained extractor, its file, and how it reads.

.. math:: \text{text} \to (t_1, \dots, t_n) \to \mathrm{LEV} = \sum_k (n_k / n)\, f(\text{part}_k)

The file has the weights in half precision, vocabulary and settings in its header. The vectors of
all words of the table are computed once, when the weights are loaded; those of other spellings once
per block of texts. Nothing is remembered between blocks, so a vector depends on its block by
rounding at most, and several threads may share one reader. The only loop over tokens is inside the
regular expression that finds them.

A document of more than ``longest`` tokens is cut into equal segments whose vectors are averaged by
their tokens, so every token of it counts. Documents travel sorted by length, in batches of about as
many windows as the device likes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from whowrote.arrays import Arrays, IntArray
from whowrote.checks import choose_device
from whowrote.errors import InputError, first_line
from whowrote.features.counting import FittedNGrams
from whowrote.features.encoder import (
    DevicePieces,
    EncoderShape,
    encode,
    from_eight_bits,
    in_eight_bits,
    to_eight_bits,
)
from whowrote.features.layers import DeviceRows, GramRows
from whowrote.features.network import Architecture, Layout, Network, lay_out
from whowrote.features.pieces import PieceRows, PieceTable
from whowrote.features.vocabulary import (
    MAX_CHARACTERS,
    UNKNOWN_WORD,
    Span,
    Types,
    Vocabulary,
    spans,
    spelling,
    split,
    vocabulary_from,
)
from whowrote.files import ModelFile, below, read_model_file, stamp_of, write_model_file

KIND = "AdHominem"
NGRAMS, STEPS, ENCODER = "ngrams/", "steps/", "encoder."
MOST_TIMES = 16
"""A file whose network cannot be larger than its own numbers so many times is not looked through
before the network is made."""
SMALLEST_MATRIX = 4096
"""Numbers; a smaller one is not worth 8 bits."""


@dataclass(frozen=True)
class Extractor:
    """A network, what it reads, how long a stretch it was trained on, and where it comes from."""

    network: Network
    vocabulary: Vocabulary
    longest: int = 264
    card: Mapping[str, Any] = field(default_factory=dict)
    ngrams: FittedNGrams | None = None
    """The n-grams that it reads besides, if it does."""
    pieces: PieceTable | None = None
    """The word pieces that its second tower reads, if it has one."""


def write_extractor(path: Path, extractor: Extractor, *, bits: int = 16) -> None:
    """Write the weights in half precision, or large matrices in 8 bits with a step for each row."""
    if bits not in (8, 16):
        raise InputError(f"bits is {bits}; weights are kept in 8 or 16: give one of these")
    arrays: dict[str, NDArray[Any]] = {}
    for name, value in extractor.network.state_dict().items():
        own = value.detach().cpu().numpy()
        if bits == 8 and own.ndim > 1 and own.size >= SMALLEST_MATRIX:
            arrays[name], arrays[STEPS + name] = to_eight_bits(own)
        else:  # a variance of the second tower may be smaller than half precision can tell
            exact = name.startswith(ENCODER) and own.ndim < 2
            arrays[name] = own if exact else own.astype(np.float16)
    if extractor.ngrams is not None:
        arrays |= {f"{NGRAMS}{name}": a for name, a in extractor.ngrams.state().items()}
    values = {
        "architecture": extractor.network.architecture.to_dict(),
        "vocabulary": asdict(extractor.vocabulary),
        "longest": extractor.longest,
        "card": dict(extractor.card),
    }
    if extractor.pieces is not None:
        values["pieces"] = list(extractor.pieces.pieces)
    write_model_file(path, ModelFile(KIND, values, arrays))


def read_extractor(
    path: Path,
    device: torch.device | str = "cpu",
    *,
    small: bool = False,
    sha256: str | None = None,
) -> Extractor:
    """Weights of that ``sha256``, in single precision; ``small``: the first tower alone."""
    record = read_model_file(path, KIND, sha256=sha256)
    try:
        shape = Architecture.from_dict(record.values["architecture"])
        _check_size(path, shape, record.arrays)
        network = Network(replace(shape, encoder=EncoderShape()) if small else shape)
        own = below(NGRAMS, record.arrays)
        ngrams = FittedNGrams.restore(own) if network.grams is not None else None
        skipped = (NGRAMS, STEPS, ENCODER) if network.encoder is None else (NGRAMS, STEPS)
        network.load_state_dict(
            {
                name: torch.from_numpy(_single(name, record.arrays))
                for name in record.arrays
                if not name.startswith(skipped)
            }
        )
        pieces = PieceTable(record.values["pieces"]) if network.encoder is not None else None
        vocabulary = vocabulary_from(record.values["vocabulary"])
        longest, card = int(record.values["longest"]), record.values["card"]
    except (KeyError, TypeError, RuntimeError) as problem:
        raise InputError(
            f"the weights in '{path}' do not fit this version of whowrote "
            f"({first_line(problem)}); train them again or change versions"
        ) from None
    network.to(device).requires_grad_(False)
    return Extractor(network, vocabulary, longest, card, ngrams, pieces)


def _check_size(path: Path, shape: Architecture, arrays: Arrays) -> None:
    """Whether the arrays are as large as the shape says, before so much is allocated."""
    wrong = max(len(shape.character_widths), shape.encoder.layers) > len(arrays)
    if not wrong and _most_numbers(shape) > MOST_TIMES * sum(one.size for one in arrays.values()):
        # Exact, and slow: torch loads what it needs for this for a second.
        with torch.device("meta"):
            needed = {n: tuple(v.shape) for n, v in Network(shape).state_dict().items()}
        wrong = any(n not in arrays or arrays[n].shape != size for n, size in needed.items())
    if wrong:
        raise InputError(
            f"the weights in '{path}' are not as large as the file says of them; copy the file "
            "again, or train them again"
        )


def _most_numbers(shape: Architecture) -> int:
    """At least so many as a network of a shape has: every table and layer as if it were largest."""
    outer, inner = shape.to_dict(), asdict(shape.encoder)
    sizes = {n: v for n, v in (*inner.items(), *outer.items()) if isinstance(v, int)}
    tables = [sizes.pop(n) for n in ("n_words", "n_characters", "n_pieces", "n_grams")]
    widest = max(*sizes.values(), *shape.character_widths)
    return (max(tables) + (shape.encoder.layers + 1) * 12 * widest) * widest


def _single(name: str, arrays: Arrays) -> NDArray[np.float32]:
    """An array in single precision, however it is kept."""
    if arrays[name].dtype == np.int8:
        return from_eight_bits(arrays[name], arrays[STEPS + name])
    found: NDArray[np.float32] = arrays[name].astype(np.float32)
    return found


# -- many documents through the network ----------------------------------------------------------


@dataclass(frozen=True)
class DeviceCorpus:
    """The flat tokens and the table of types, where the network is."""

    tokens: Tensor
    characters: Tensor
    words: Tensor
    rows: DeviceRows | None = None
    pieces: DevicePieces | None = None

    @classmethod
    def place(
        cls,
        tokens: NDArray[np.int32],
        types: Types,
        device: torch.device | str,
        rows: GramRows | None = None,
        pieces: PieceRows | None = None,
    ) -> DeviceCorpus:
        """Copy them there."""
        return cls(
            torch.from_numpy(tokens).to(device),
            torch.from_numpy(types.characters).to(device),
            torch.from_numpy(types.words).to(device),
            None if rows is None else DeviceRows.place(rows, device),
            None if pieces is None else DevicePieces.place(pieces, device),
        )

    def rows_of(self, documents: IntArray) -> DeviceRows | None:
        """The n-grams of documents, by their numbers."""
        if self.rows is None:
            return None
        return self.rows.take(torch.from_numpy(documents).to(self.tokens.device))


@dataclass(frozen=True)
class Segments:
    """Stretches of tokens and the document each belongs to."""

    starts: IntArray
    lengths: IntArray
    document: IntArray


def cut(starts: IntArray, lengths: IntArray, longest: int) -> Segments:
    """Cut documents into equal segments of at most ``longest`` tokens (0: do not cut).

    >>> segments = cut(np.array([0, 10]), np.array([10, 3]), longest=4)
    >>> segments.starts.tolist(), segments.lengths.tolist(), segments.document.tolist()
    ([0, 3, 6, 10], [3, 3, 4, 3], [0, 0, 0, 1])
    """
    pieces = np.maximum(1, -(-lengths // longest)) if longest else np.ones_like(lengths)
    document = np.repeat(np.arange(len(starts)), pieces)
    place = np.arange(len(document)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    low = lengths[document] * place // pieces[document]
    high = lengths[document] * (place + 1) // pieces[document]
    return Segments(starts[document] + low, high - low, document)


def batches(lengths: IntArray, hop: int, windows: int) -> Iterator[IntArray]:
    """Positions, longest first, in batches of at most about so many windows."""
    order = np.argsort(-lengths, kind="stable")
    low = 0
    while low < len(order):
        most = int(lengths[order[low]]) // hop + 1
        high = low + max(1, windows // most)
        yield order[low:high]
        low = high


Forward = Callable[[Tensor, Layout, IntArray], Tensor]
"""From the types in windows, where the windows lie, and whose they are, to one vector each."""


@torch.no_grad()
def embed_stretches(
    forward: Forward,
    architecture: Architecture,
    tokens: Tensor,
    starts: IntArray,
    lengths: IntArray,
    *,
    longest: int,
    windows: int,
) -> Tensor:
    """One vector per stretch of tokens, whatever its length; segments count by their tokens."""
    a, device = architecture, tokens.device
    segments = cut(starts, lengths, longest)
    total = torch.zeros(len(starts), a.lev_dim, device=device)
    for rows in batches(segments.lengths, a.hop, windows):
        layout = lay_out(segments.starts[rows], segments.lengths[rows], a.window, a.hop, device)
        size = min(a.window, int(segments.lengths[rows[0]]))  # the first one is the longest
        share = segments.lengths[rows] / lengths[segments.document[rows]]
        vectors = forward(layout.ids(tokens, size), layout, segments.document[rows]).float()
        vectors = vectors * torch.from_numpy(share).to(vectors)[:, None]
        total.index_add_(0, torch.from_numpy(segments.document[rows]).to(device), vectors)
    return total


def embed(
    network: Network,
    corpus: DeviceCorpus,
    starts: IntArray,
    lengths: IntArray,
    *,
    longest: int = 264,
    windows: int = 8192,
    half: bool = False,
    documents: IntArray | None = None,
) -> Tensor:
    """The first tower's vectors of stretches of the corpus; ``half`` computes in bfloat16.

    ``documents`` says whose n-grams go with each stretch, by default those of the document of its
    number.
    """

    def forward(ids: Tensor, layout: Layout, stretches: IntArray) -> Tensor:
        rows = corpus.rows_of(stretches if documents is None else documents[stretches])
        with torch.autocast(ids.device.type, torch.bfloat16, enabled=half):
            levs: Tensor = network(ids, layout, corpus.characters, corpus.words, rows=rows)
        return levs

    return embed_stretches(
        forward,
        network.architecture,
        corpus.tokens,
        starts,
        lengths,
        longest=longest,
        windows=windows,
    )


# -- texts ---------------------------------------------------------------------------------------

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
    pieces: PieceRows | None = None
    """The word pieces of each text, if there is a second tower."""

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
        self.encoder = self.network.encoder
        if self.encoder is not None:
            self.encoder = in_eight_bits(self.encoder)
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
            None if self.extractor.pieces is None else self.extractor.pieces.read(texts),
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
        if self.encoder is None or block.pieces is None:
            return levs
        placed = DevicePieces.place(block.pieces, self.device)
        places = (block.pieces.offsets[:-1], block.pieces.lengths)
        encoded = encode(self.encoder, placed, *places, at_once=TEXTS_PER_BLOCK).cpu().numpy()
        alone = self.network.architecture.encoder.alone
        return encoded if alone else np.concatenate([levs, encoded], axis=1)

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


def open_reader(
    path: Path,
    device: torch.device | str | None = None,
    *,
    small: bool = False,
    sha256: str | None = None,
) -> Reader:
    """The reader of a file, or of the weights of that hash; loaded again when the file changes."""
    return _opened(path, sha256 or stamp_of(path), choose_device(device), small)


@lru_cache(maxsize=4)
def _opened(path: Path, known: str | object, device: torch.device, small: bool) -> Reader:
    sha256 = known if isinstance(known, str) else None
    return Reader(read_extractor(path, small=small, sha256=sha256), device)
