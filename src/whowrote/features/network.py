r"""The AdHominem network: characters to words to windows to a document.

.. math:: w = [E_t; \max_i \tanh(C * c)_i], \qquad
    h = \mathrm{BiLSTM}(w), \quad a = \mathrm{softmax}(v^\top \tanh(W h + b)), \quad
    s = \textstyle\sum_i a_i h_i, \qquad
    \mathrm{LEV} = \tanh\bigl(A\, [\mathrm{pool}(\mathrm{BiLSTM}(s)); b] + d\bigr)

with :math:`b` the bag of widely used n-grams (:mod:`whowrote.features.layers`), if there is one.
The character network runs once per distinct token of a batch and is gathered, which is exact.
Padding never changes a result: the backward direction reads each sequence turned round inside its
own length, attention and means leave padding out. Randomness is an argument: without a generator
there is no dropout.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from whowrote.arrays import IntArray
from whowrote.errors import InputError
from whowrote.features.encoder import EncoderShape, Hiding, PieceBatch, PieceEncoder
from whowrote.features.layers import BiLSTM, DeviceRows, Pooling, Standardise, drop
from whowrote.features.vocabulary import FIRST_CHARACTER, FIRST_WORD, MASKED


@dataclass(frozen=True)
class Layout:
    r"""Where the windows of documents lie: :math:`[\,s_i + hj,\; s_i + hj + n_{ij})`.

    Every window's first token, length, document and place in it; every document's windows.
    Document i starts at :math:`s_i`; window j of it holds at most ``size`` tokens, the next one
    starts ``hop`` tokens later, and the last one ends where the document ends: nothing is cut. All
    of it is arithmetic on the host, so that the device is never asked for a length.
    """

    starts: Tensor
    lengths: Tensor
    document: Tensor
    slot: Tensor
    counts: Tensor
    most: int
    """Windows of the longest document."""

    def ids(self, tokens: Tensor, size: int) -> Tensor:
        """The types in every window, (windows, size), padded with 0; ``tokens`` is the corpus."""
        place = torch.arange(size, device=tokens.device)
        inside = place < self.lengths[:, None]
        index = torch.where(inside, self.starts[:, None] + place, 0)
        return torch.where(inside, tokens[index], 0)


def lay_out(
    starts: IntArray, lengths: IntArray, size: int, hop: int, device: torch.device | str = "cpu"
) -> Layout:
    """Cut documents into windows.

    >>> layout = lay_out(np.array([0, 100]), np.array([31, 4]), size=30, hop=26)
    >>> layout.starts.tolist(), layout.lengths.tolist(), layout.document.tolist()
    ([0, 26, 100], [30, 5, 4], [0, 0, 1])
    """
    counts = np.maximum(1, -(-(lengths - size) // hop) + 1)
    document = np.repeat(np.arange(len(starts)), counts)
    slot = np.arange(len(document)) - np.repeat(np.cumsum(counts) - counts, counts)
    inner = slot * hop
    table = np.stack(
        [starts[document] + inner, np.minimum(size, lengths[document] - inner), document, slot]
    )
    first, length, owner, place = _send(table, device)
    return Layout(first, length, owner, place, _send(counts, device), most=int(counts.max()))


def _send(array: IntArray, device: torch.device | str) -> Tensor:
    tensor = torch.from_numpy(np.ascontiguousarray(array, dtype=np.int64))
    if torch.device(device).type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor


@dataclass(frozen=True)
class Architecture:
    """Everything that decides the shape of the network; an ablation is an argument."""

    n_words: int = 5000
    n_characters: int = 200
    character_dim: int = 10
    character_widths: tuple[int, ...] = (4,)
    character_filters: int = 30
    word_dim: int = 100
    word_hidden: int = 128
    sentence_hidden: int = 128
    lev_dim: int = 200
    window: int = 30
    hop: int = 26
    mean_pooling: bool = False
    """Whether means of states and inputs stand beside the attention, at both levels."""
    standardise: bool = False
    """Whether windows and documents are centred and scaled by their running statistics."""
    lev_gain: float = 0.0
    """Deviation of the LEV before its tanh, which a cosine would drive to its ends; 0: free."""
    levels: int = 2
    """1: no sentence level; windows are averaged."""
    characters: bool = True
    """False: no character network."""
    n_grams: int = 0
    """Columns of the rows of n-grams beside the text (:mod:`whowrote.features.layers`); 0: none."""
    gram_dim: int = 192
    encoder: EncoderShape = field(default_factory=EncoderShape)
    """The second tower (:mod:`whowrote.features.encoder`), by default none."""

    def __post_init__(self) -> None:
        sizes = {
            name: value
            for name, value in asdict(self).items()
            if isinstance(value, int) and not isinstance(value, bool) and name != "n_grams"
        }
        for name, value in sizes.items():
            if value < 1:
                raise InputError(f"{name} is {value}; it must be at least 1: give a larger one")
        if self.hop > self.window:
            raise InputError(
                f"hop is {self.hop} and window {self.window}; a hop beyond the window would skip "
                "tokens: give at most the window"
            )
        if self.lev_gain < 0:
            raise InputError(f"lev_gain is {self.lev_gain}; it must be 0 or more: give 0.5")
        if self.levels > 2:
            raise InputError(f"levels is {self.levels}; it must be 1 or 2: give 2")

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        values = asdict(self) | {"character_widths": list(self.character_widths)}
        encoder = values.pop("encoder")
        lists = {name: list(value) for name, value in encoder.items() if isinstance(value, tuple)}
        return values | ({"encoder": encoder | lists} if self.encoder.layers else {})

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Architecture:
        """What :meth:`to_dict` gave."""

        def tuples(table: Mapping[str, Any]) -> dict[str, Any]:
            return {n: tuple(v) if isinstance(v, list) else v for n, v in table.items()}

        encoder = EncoderShape(**tuples(values.get("encoder", {})))
        return cls(**tuples(values) | {"encoder": encoder})

    @property
    def size(self) -> int:
        """Dimensions of a vector, of all towers together."""
        if not self.encoder.layers:
            return self.lev_dim
        return self.encoder.lev_dim + self.lev_dim * (not self.encoder.alone)


@dataclass(frozen=True)
class Dropout:
    """Shares that are hidden in training.

    Of tokens, word vectors, between the levels, of the LEV, of the n-grams, and of documents whose
    n-grams are hidden altogether, so that the rest of the network must do without; of the second
    tower's pieces, of its rare pieces besides, of its means, and of what its layers add.
    ``rare_spread`` s: every stretch hides a share of its rare pieces of its own, drawn evenly from
    1 - s to 1 + s times ``rare``; near 1, some are read whole and some by their common pieces.
    """

    tokens: float = 0.1
    words: float = 0.2
    levels: float = 0.2
    lev: float = 0.1
    grams: float = 0.3
    bags: float = 0.3
    pieces: float = 0.1
    rare: float = 0.5
    rare_spread: float = 0.0
    means: float = 0.1
    states: float = 0.0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not 0 <= value < 1:
                raise InputError(f"dropout {name} is {value}; it must be in [0, 1): give 0.2")


class CharacterNetwork(nn.Module):
    """Convolutions over the characters of a token, the largest answer of each filter.

    A filter sees every place where it touches the token, so beginnings and ends are known to it.
    """

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        a = architecture
        n_rows = a.n_characters + FIRST_CHARACTER
        self.embedding = nn.Embedding(n_rows, a.character_dim, padding_idx=0)
        self.widths = a.character_widths
        self.filters = nn.ModuleList(
            nn.Conv1d(a.character_dim, a.character_filters, width, padding=width - 1)
            for width in a.character_widths
        )

    def forward(self, characters: Tensor) -> Tensor:
        """(types, 15) to (types, filters x widths)."""
        real = (characters != 0).to(torch.float32)
        vectors = self.embedding(characters).transpose(1, 2)
        found = []
        for width, convolution in zip(self.widths, self.filters, strict=True):
            answers = convolution(vectors)
            touched = _touched(real, width)
            found.append(answers.masked_fill(~touched[:, None], -math.inf).amax(2).tanh())
        return torch.cat(found, dim=1)


def _touched(real: Tensor, width: int) -> Tensor:
    """Whether a filter at a place covers at least one real character."""
    padded = nn.functional.pad(real, (width - 1, width - 1))
    return padded.unfold(1, width, 1).amax(2) > 0


class Network(nn.Module):
    """From the types in windows to one vector per document."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.architecture = a = architecture
        self.words = nn.Embedding(a.n_words + FIRST_WORD, a.word_dim, padding_idx=0)
        self.spelling = CharacterNetwork(a) if a.characters else None
        inputs = a.word_dim + a.character_filters * len(a.character_widths) * a.characters
        self.words_to_window = BiLSTM(inputs, a.word_hidden)
        self.window_pooling = Pooling(2 * a.word_hidden, inputs, a.mean_pooling)
        size = self.window_pooling.size
        self.window_scaling = Standardise(size) if a.standardise else None
        self.windows_to_document = BiLSTM(size, a.sentence_hidden) if a.levels == 2 else None
        self.document_pooling = (
            Pooling(2 * a.sentence_hidden, size, a.mean_pooling) if a.levels == 2 else None
        )
        if self.document_pooling is not None:
            size = self.document_pooling.size
        self.grams = nn.Parameter(torch.zeros(a.n_grams, a.gram_dim)) if a.n_grams else None
        self.bag_scaling = Standardise(a.gram_dim) if a.n_grams else None
        self.document_scaling = Standardise(size) if a.standardise else None
        self.lev = nn.Linear(size + a.gram_dim * bool(a.n_grams), a.lev_dim)
        self.lev_scaling = Standardise(a.lev_dim) if a.lev_gain else None
        self.encoder = PieceEncoder(a.encoder) if a.encoder.layers else None

    def word_vectors(self, characters: Tensor, words: Tensor) -> Tensor:
        """(types, inputs): the word table beside the spelling."""
        table: Tensor = self.words(words.long())
        if self.spelling is None:
            return table
        spelled = self.spelling(characters.long())
        return torch.cat([table, spelled.to(table.dtype)], dim=1)

    def forward(
        self,
        ids: Tensor,
        layout: Layout,
        characters: Tensor,
        words: Tensor,
        dropout: Dropout | None = None,
        generator: torch.Generator | None = None,
        rows: DeviceRows | None = None,
        pieces: PieceBatch | None = None,
    ) -> Tensor:
        """Vectors (documents, size) of windows (windows, window) of type numbers.

        ``characters`` and ``words`` are the table of types, ``rows`` the n-grams of the documents,
        ``pieces`` what the second tower reads of them, if there is one. Dropout needs its
        generator.
        """
        if self.encoder is None or pieces is None:
            return self._lev(ids, layout, characters, words, dropout, generator, rows)
        drawn = None if generator is None else Hiding(asdict(dropout or Dropout()), generator)
        encoded: Tensor = self.encoder(pieces, drawn)
        if self.architecture.encoder.alone:
            return encoded
        lev = self._lev(ids, layout, characters, words, dropout, generator, rows)
        return torch.cat([lev, encoded], dim=1)

    def _lev(
        self,
        ids: Tensor,
        layout: Layout,
        characters: Tensor,
        words: Tensor,
        dropout: Dropout | None,
        generator: torch.Generator | None,
        rows: DeviceRows | None,
    ) -> Tensor:
        learn = generator is not None
        shares = dropout if learn and dropout is not None else Dropout(*[0] * len(fields(Dropout)))
        generator = generator or torch.Generator()
        inside = ids != 0
        if shares.tokens:
            hidden = torch.rand(ids.shape, generator=generator, device=ids.device) < shares.tokens
            ids = torch.where(hidden & inside, MASKED, ids)
        distinct, place = torch.unique(ids, return_inverse=True)
        vectors = self.word_vectors(characters[distinct], words[distinct])
        read = nn.functional.embedding(place, vectors)
        read = drop(read, shares.words, (len(ids), 1, read.shape[2]), generator)
        windows = self._windows(self.words_to_window(read, layout.lengths), read, inside, learn)
        windows = drop(windows, shares.levels, windows.shape, generator)
        document = self._document(windows, layout)
        if self.document_scaling is not None:
            document = self.document_scaling(document, learn)
        if rows is not None and self.grams is not None:
            kept = replace(
                rows, values=drop(rows.values, shares.grams, rows.values.shape, generator)
            )
            bag = self.bag(kept, learn)
            bag = drop(bag, shares.bags, (len(bag), 1), generator)
            document = torch.cat([document, bag], dim=1)
        document = drop(document, shares.levels, document.shape, generator)
        lev = self._squashed(document, learn)
        return drop(lev, shares.lev, lev.shape, generator)

    def bag(self, rows: DeviceRows, learn: bool = False) -> Tensor:
        """(documents, gram_dim): what the n-grams of documents say."""
        assert self.grams is not None
        assert self.bag_scaling is not None
        scaled: Tensor = self.bag_scaling(rows.times(self.grams), learn)
        return scaled

    def levs(
        self, read: Tensor, inside: Tensor, layout: Layout, bag: Tensor | None = None
    ) -> Tensor:
        """The same without dropout from word vectors and bags that are known already.

        ``read`` is (windows, time, inputs) and ``inside`` says where there is a token.
        """
        windows = self._windows(self.words_to_window(read, layout.lengths), read, inside)
        document = self._document(windows, layout)
        if self.document_scaling is not None:
            document = self.document_scaling(document, False)
        if bag is not None:
            document = torch.cat([document, bag], dim=1)
        return self._squashed(document)

    def attention(self, read: Tensor, inside: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
        """Weights of words in each window (windows, time), of windows in each document.

        The latter are (documents, most windows); without a sentence level all windows count alike.
        """
        states = self.words_to_window(read, layout.lengths)
        words = self.window_pooling.weights(states, inside)
        rows, there = self._rows(self._windows(states, read, inside), layout)
        if self.windows_to_document is None or self.document_pooling is None:
            return words, there / layout.counts[:, None]
        return words, self.document_pooling.weights(
            self.windows_to_document(rows, layout.counts), there
        )

    def _squashed(self, document: Tensor, learn: bool = False) -> Tensor:
        lev: Tensor = self.lev(document).float()
        if self.lev_scaling is not None:
            lev = self.architecture.lev_gain * self.lev_scaling(lev, learn)
        return lev.tanh()

    def _windows(self, states: Tensor, read: Tensor, inside: Tensor, learn: bool = False) -> Tensor:
        windows: Tensor = self.window_pooling(states, read, inside)
        return windows if self.window_scaling is None else self.window_scaling(windows, learn)

    def _rows(self, windows: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
        """Windows as (documents, most windows, size), and where there is one."""
        rows = windows.new_zeros(len(layout.counts), layout.most, windows.shape[1])
        rows = rows.index_put((layout.document, layout.slot), windows)
        place = torch.arange(layout.most, device=rows.device)
        return rows, place < layout.counts[:, None]

    def _document(self, windows: Tensor, layout: Layout) -> Tensor:
        rows, inside = self._rows(windows, layout)
        if self.windows_to_document is None or self.document_pooling is None:
            return rows.sum(1) / layout.counts[:, None].to(rows.dtype)
        states = self.windows_to_document(rows, layout.counts)
        return self.document_pooling(states, rows, inside)  # type: ignore[no-any-return]
