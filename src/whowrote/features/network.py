r"""The AdHominem network: characters to words to windows to a document.

.. math:: w = [E_t; \max_i \tanh(C * c)_i], \qquad
    h = \mathrm{BiLSTM}(w), \quad a = \mathrm{softmax}(v^\top \tanh(W h + b)), \quad
    s = \textstyle\sum_i a_i h_i, \qquad
    \mathrm{LEV} = \tanh\bigl(A\, [\mathrm{pool}(\mathrm{BiLSTM}(s)); b] + d\bigr)

with :math:`b` the bag of widely used n-grams (:mod:`whowrote.features.bag`), if there is one. The
character network runs once per distinct token of a batch and is gathered, which is exact.
Padding never changes a result: the backward direction reads each sequence turned round inside its
own length, attention and means leave padding out. Randomness is an argument: without a generator
there is no dropout.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from whowrote import private
from whowrote.arrays import IntArray
from whowrote.errors import InputError
from whowrote.features.bag import DeviceRows
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


SMALLEST_VARIANCE = 1e-5


def drop(values: Tensor, share: float, shape: Sequence[int], generator: torch.Generator) -> Tensor:
    """Dropout with a mask of ``shape``, broadcast: one mask may serve all steps of a sequence."""
    if share == 0:
        return values
    kept = torch.rand(list(shape), generator=generator, device=values.device) >= share
    return values * (kept.to(values.dtype) / (1 - share))


class BiLSTM(nn.Module):
    """Two LSTMs, one of which reads every sequence from its own end.

    They compute in single precision, also under autocast. On a GPU both take their steps together,
    as products of matrices: for tens of thousands of short sequences cuDNN's kernels, made for few
    long ones, are several times slower.
    """

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.ahead = nn.LSTM(inputs, hidden, batch_first=True)
        self.back = nn.LSTM(inputs, hidden, batch_first=True)
        for lstm in (self.ahead, self.back):
            biases = dict(lstm.named_parameters())["bias_ih_l0"]
            nn.init.ones_(biases[hidden : 2 * hidden])  # gates that remember at first

    def forward(self, values: Tensor, lengths: Tensor) -> Tensor:
        """(n, time, inputs) to (n, time, 2 hidden)."""
        place = torch.arange(values.shape[1], device=values.device)
        turned = lengths[:, None] - 1 - place
        turned = torch.where(turned >= 0, turned, place)[:, :, None]
        with torch.autocast(values.device.type, enabled=False):
            values = values.float()
            reversed_ = values.gather(1, turned.expand(-1, -1, values.shape[2]))
            run = self.stepwise if values.device.type == "cuda" else self._library
            ahead, back = run(values, reversed_)
            back = back.gather(1, turned.expand(-1, -1, back.shape[2]))
        return torch.cat([ahead, back], dim=2)

    def _library(self, values: Tensor, reversed_: Tensor) -> tuple[Tensor, Tensor]:
        return self.ahead(values)[0], self.back(reversed_)[0]

    def stepwise(self, values: Tensor, reversed_: Tensor) -> tuple[Tensor, Tensor]:
        """The same, both directions in one product a step."""
        n, time, inputs = values.shape
        w_in, w_hidden, b_in, b_hidden = (
            torch.stack([getattr(lstm, f"{name}_l0") for lstm in (self.ahead, self.back)])
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        both = torch.stack([values, reversed_]).transpose(1, 2).reshape(2, time * n, inputs)
        bias = (b_in + b_hidden)[:, None]
        gates = torch.baddbmm(bias, both, w_in.mT).view(2, time, n, -1)
        state = cell = values.new_zeros(2, n, w_hidden.shape[2])
        states = []
        for step in gates.unbind(1):
            state, cell = lstm_cell(step, state @ w_hidden.mT, cell)
            states.append(state)
        ahead, back = torch.stack(states, dim=2).unbind(0)
        return ahead, back


def lstm_cell(inputs: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """The new state and cell from the gates' inputs (i, f, g, o side by side)."""
    if inputs.device.type == "cuda":
        flat = [tensor.flatten(0, 1) for tensor in (inputs, hidden, cell)]
        state, new = private.fused_lstm_cell(*flat)
        return state.view_as(cell), new.view_as(cell)
    i, f, g, o = (inputs + hidden).chunk(4, dim=-1)
    new = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return o.sigmoid() * new.tanh(), new


class Pooling(nn.Module):
    """Masked attention over states; beside it, if wanted, masked means of states and inputs."""

    def __init__(self, states: int, inputs: int, mean: bool) -> None:
        super().__init__()
        self.hidden = nn.Linear(states, states)
        self.score = nn.Linear(states, 1, bias=False)
        self.mean = mean
        self.size = 2 * states + inputs if mean else states

    def weights(self, states: Tensor, inside: Tensor) -> Tensor:
        """(n, time), each row summing to one."""
        scores: Tensor = self.score(self.hidden(states).tanh()).squeeze(2).float()
        return scores.masked_fill(~inside, -math.inf).softmax(1)

    def forward(self, states: Tensor, inputs: Tensor, inside: Tensor) -> Tensor:
        """(n, time, states) and (n, time, inputs) to (n, size)."""
        weights = self.weights(states, inside).to(states.dtype)
        attended = torch.einsum("nt,nti->ni", weights, states)
        if not self.mean:
            return attended
        even = inside / inside.sum(1, keepdim=True)
        means = [torch.einsum("nt,nti->ni", even.to(v.dtype), v) for v in (states, inputs)]
        return torch.cat([attended, *means], dim=1)


class Standardise(nn.Module):
    """(x - mean) / deviation; in training those of the batch, which it remembers.

    Pooled states of any two texts are nearly parallel at first and a cosine would see nothing. The
    running average of the weights averages these statistics too, and what is learnt after it is an
    affine map, so nothing but the start and the pace of learning changes.
    """

    mean: Tensor
    variance: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("variance", torch.ones(size))

    def forward(self, values: Tensor, learn: bool) -> Tensor:
        """(n, size) to (n, size)."""
        values = values.float()
        mean, variance = self.mean, self.variance
        if learn:
            variance, mean = torch.var_mean(values, dim=0, correction=0)
            self.mean.copy_(mean.detach())
            self.variance.copy_(variance.detach())
        return (values - mean) * torch.rsqrt(variance + SMALLEST_VARIANCE)


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
    """Columns of the rows of n-grams beside the text (:mod:`whowrote.features.bag`); 0: none."""
    gram_dim: int = 192

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
        return asdict(self) | {"character_widths": list(self.character_widths)}


@dataclass(frozen=True)
class Dropout:
    """Shares that are hidden in training.

    Of tokens, word vectors, between the levels, of the LEV, of the n-grams, and of documents whose
    n-grams are hidden altogether, so that the rest of the network must do without.
    """

    tokens: float = 0.1
    words: float = 0.2
    levels: float = 0.2
    lev: float = 0.1
    grams: float = 0.3
    bags: float = 0.3

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
    ) -> Tensor:
        """LEVs (documents, lev_dim) of windows (windows, window) of type numbers.

        ``characters`` and ``words`` are the table of types, ``rows`` the n-grams of the documents.
        Dropout needs its generator.
        """
        learn = generator is not None
        shares = dropout if learn and dropout is not None else Dropout(0, 0, 0, 0, 0, 0)
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
