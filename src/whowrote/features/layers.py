r"""What the towers of the extractor are made of: recurrent layers, pooling, the bag of n-grams.

.. math:: h = \mathrm{BiLSTM}(w), \qquad a = \mathrm{softmax}(v^\top \tanh(W h + b)), \quad
    s = \textstyle\sum_i a_i h_i, \qquad z = (x - \mu) / \sigma, \qquad b = \sum_j x_j W_j

Padding never changes a result, and randomness is an argument.

The bag: :math:`x` is the text's row of character and word n-grams, each weighed by
:math:`(1 + \log n_j)(1 - \log s_j)` with :math:`s_j` the share of training authors who use it. Only
the n-grams that the most authors use have a column, each domain counting alike: what one person
writes about has none. :math:`W` starts in the leading right singular vectors of the training rows
and is learnt with the rest of the network. The rows of many texts lie one after another in flat
arrays, as documents do everywhere here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from whowrote import private
from whowrote.arrays import IntArray
from whowrote.features.counting import BASES, Block, FittedNGrams, Keys

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


PASSES, ROWS_PER_PRODUCT = 3, 2048
"""Of the power iteration that finds where :math:`W` starts."""


@dataclass(frozen=True)
class Users:
    """N-grams of one kind, sorted, and how many authors use each."""

    keys: Keys
    authors: IntArray


def count_users(texts: Sequence[str], authors: IntArray) -> tuple[Users, ...]:
    """How many of these authors use each n-gram, kind by kind; an author's texts lie together.

    What only one of several authors uses is left out: it is most of all, and never widely used.

    >>> found, _ = count_users(["a cat", "a dog", "a cow"], np.array([0, 0, 1]))
    >>> found.authors.tolist()
    [2, 2, 2]
    """
    firsts = [*np.flatnonzero(np.diff(authors, prepend=-1)), len(texts)]
    found = []
    for kind in BASES.values():
        own = [
            np.unique(np.concatenate([kind(text) for text in texts[low:high]]))
            for low, high in pairwise(firsts)
        ]
        everyone = np.concatenate([np.empty(0, dtype=np.uint64), *own])
        keys, counts = np.unique(everyone, return_counts=True)
        several = counts >= min(2, len(own))
        found.append(Users(keys[several], counts[several]))
    return tuple(found)


def choose_grams(
    domains: Sequence[tuple[Sequence[tuple[Users, ...]], int]], most: Sequence[int]
) -> FittedNGrams:
    """The n-grams that the most authors use: so many of each kind.

    A domain is what :func:`count_users` found in its parts, and how many authors it has.
    """
    blocks = []
    for number, (kind, limit) in enumerate(zip(BASES, most, strict=True)):
        parts = [(part[number], n_authors) for own, n_authors in domains for part in own]
        keys, place = np.unique(np.concatenate([p.keys for p, _ in parts]), return_inverse=True)
        share = np.concatenate([p.authors / n_authors / len(domains) for p, n_authors in parts])
        share = np.bincount(place, share, len(keys))
        kept = np.sort(np.argsort(-share, kind="stable")[:limit])
        blocks.append(Block(kind, keys[kept], 1.0 - np.log(share[kept])))
    return FittedNGrams(tuple(blocks))


@dataclass(frozen=True)
class GramRows:
    """Row i is ``columns[offsets[i]:offsets[i + 1]]`` with their ``values``."""

    columns: NDArray[np.int32]
    values: NDArray[np.float16]
    offsets: IntArray

    @classmethod
    def of(cls, texts: Sequence[str], ngrams: FittedNGrams) -> Self:
        """The rows of texts."""
        rows = ngrams.transform(texts)
        values = rows.data.astype(np.float16)
        return cls(rows.indices.astype(np.int32), values, rows.indptr.astype(np.int64))

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """One after another."""
        lengths = np.concatenate([np.diff(part.offsets) for part in parts])
        return cls(
            np.concatenate([part.columns for part in parts]),
            np.concatenate([part.values for part in parts]),
            np.concatenate([[0], np.cumsum(lengths)]),
        )


@dataclass(frozen=True)
class DeviceRows:
    """Rows where the network is."""

    columns: Tensor
    values: Tensor
    offsets: Tensor

    @classmethod
    def place(cls, rows: GramRows, device: torch.device | str) -> DeviceRows:
        """Copy them there."""
        return cls(
            *(torch.from_numpy(a).to(device) for a in (rows.columns, rows.values, rows.offsets))
        )

    def take(self, rows: Tensor) -> DeviceRows:
        """Some rows, in this order."""
        first, length = self.offsets[rows], self.offsets[rows + 1] - self.offsets[rows]
        ends = length.cumsum(0)
        owner = torch.repeat_interleave(length)
        place = torch.arange(len(owner), device=owner.device) + (first - ends + length)[owner]
        offsets = torch.cat([ends.new_zeros(1), ends])
        return DeviceRows(self.columns[place], self.values[place], offsets)

    def times(self, table: Tensor) -> Tensor:
        """(rows, n-grams) x (n-grams, size)."""
        product: Tensor = nn.functional.embedding_bag(
            self.columns.long(),
            table,
            self.offsets,
            mode="sum",
            per_sample_weights=self.values.to(table.dtype),
            include_last_offset=True,
        )
        return product

    def transposed_times(self, values: Tensor, n_columns: int) -> Tensor:
        """(n-grams, rows) x (rows, size): the slope of :meth:`times` along ``values``."""
        table = values.new_zeros(n_columns, values.shape[1], requires_grad=True)
        with torch.enable_grad():
            product = self.times(table)
        slope: Tensor = torch.autograd.grad(product, table, values)[0]
        return slope


def leading_directions(rows: DeviceRows, n_columns: int, size: int, seed: int) -> Tensor:
    """(n-grams, size): about the leading right singular vectors, of root mean square one."""
    generator = torch.Generator().manual_seed(seed)
    device = rows.columns.device
    basis = torch.randn(n_columns, size, generator=generator).to(device)
    order = torch.arange(len(rows.offsets) - 1, device=device)
    for _ in range(PASSES):
        total = torch.zeros_like(basis)
        for some in torch.split(order, ROWS_PER_PRODUCT):
            part = rows.take(some)
            total += part.transposed_times(part.times(basis), n_columns)
        basis = torch.linalg.qr(total)[0]
    scaled: Tensor = basis * n_columns**0.5
    return scaled
