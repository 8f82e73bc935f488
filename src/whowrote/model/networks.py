r"""Fully connected networks whose output is a distribution.

.. math:: h = f(W_1 a + b_1), \qquad (m, \ell) = W_2 h + b_2, \qquad
    \ln s = c \tanh(\ell / c), \qquad o \sim N(m, \mathrm{diag}\, s^2)

Every weight has a leading member dimension, so that a layer of a whole fleet is one batched
matrix product. The log scale is bounded smoothly at :math:`c = 6`: on standardised data a standard
deviation of 1/400 is exact reconstruction, and without a floor a constant column would drive the
density to infinity.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from whowrote.model.normal import DiagonalNormal
from whowrote.model.rows import SparseRows
from whowrote.model.streams import Streams

LOG_SCALE_LIMIT = 6.0
WIDE_LOADS = {"cuda"}
ACTIVATIONS = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "gelu": functional.gelu,
    "silu": functional.silu,
}


class Layer(nn.Module):
    """W a + b for every member; sparse rows are multiplied as weighted sums of rows of W."""

    def __init__(self, m: int, n_in: int, n_out: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(m, n_in, n_out))
        self.bias = nn.Parameter(torch.zeros(m, n_out))

    def forward(
        self, a: Float[Tensor, "m n l"] | SparseRows, spare: int = 0
    ) -> Float[Tensor, "m n h"]:
        """Apply the layer; dense rows may come with spare columns, and get as many as asked."""
        if isinstance(a, SparseRows):
            return self._sparse_product(a) + self.bias.unsqueeze(1)
        unused = a.shape[-1] - self.weight.shape[1]
        if not spare and not unused:
            return torch.baddbmm(self.bias.unsqueeze(1), a, self.weight)
        weight = functional.pad(self.weight, (0, spare, 0, unused))
        return torch.baddbmm(functional.pad(self.bias, (0, spare)).unsqueeze(1), a, weight)

    def _sparse_product(self, rows: SparseRows) -> Float[Tensor, "m n h"]:
        m, n_in, n_out = self.weight.shape
        per_member = (len(rows.start) - 1) // m
        length = rows.start[per_member::per_member] - rows.start[:-1:per_member]
        member = torch.repeat_interleave(
            torch.arange(m, device=length.device), length, output_size=len(rows.columns)
        )
        product = functional.embedding_bag(
            rows.columns + member * n_in,
            self.weight.reshape(m * n_in, n_out),
            rows.start[:-1],
            mode="sum",
            per_sample_weights=rows.values,
        )
        return product.reshape(m, per_member, n_out)


def dropped(a: Tensor, rate: Float[Tensor, " m"] | None, streams: Streams | None) -> Tensor:
    """Inverted dropout with each member's own rate; identity without a rate or streams."""
    if streams is None or rate is None:
        return a
    keep = 1 - rate.reshape(-1, *(1,) * (a.dim() - 1))
    return a * ((streams.uniform(*a.shape[1:]) < keep) * (1 / keep))


def dropped_sparse(
    rows: SparseRows, rate: Float[Tensor, " m"] | None, streams: Streams | None
) -> SparseRows:
    """Dropout on the stored values, member by member (their numbers of values differ)."""
    if streams is None or rate is None:
        return rows
    m = len(rate)
    bounds = rows.start[:: (len(rows.start) - 1) // m].tolist()
    values = [
        dropped(part.unsqueeze(0), rate[i : i + 1], streams.select([i])).squeeze(0)
        for i, part in enumerate(rows.values[low:high] for low, high in pairwise(bounds))
    ]
    return SparseRows(rows.start, rows.columns, torch.cat(values))


def _spare_units(bias: Float[Tensor, "m h"]) -> int:
    """Units that make an odd number of them a multiple of four, where loads are four wide.

    A product whose rows begin at odd addresses runs without tensor cores.
    """
    n = bias.shape[-1]
    return -n % 4 if n % 2 and bias.device.type in WIDE_LOADS else 0


class Network(nn.Module):
    """in-H-...-H-out with a normal distribution over the output."""

    def __init__(
        self, m: int, n_in: int, hidden: Sequence[int], n_out: int, activation: str
    ) -> None:
        super().__init__()
        sizes = [n_in, *hidden, 2 * n_out]
        self.layers = nn.ModuleList(Layer(m, low, high) for low, high in pairwise(sizes))
        self.activation = activation

    @property
    def last(self) -> Layer:
        """The output layer: means first, then raw log scales."""
        layer = self.layers[-1]
        assert isinstance(layer, Layer)  # for the type checker: ModuleList forgets
        return layer

    def forward(
        self,
        a: Float[Tensor, "m n l"] | SparseRows,
        dropout: Float[Tensor, " m"] | None = None,
        streams: Streams | None = None,
    ) -> DiagonalNormal:
        """The distribution of the output given the input; dropout acts on the hidden units."""
        activation = ACTIVATIONS[self.activation]
        drops = streams is not None and dropout is not None
        for layer in self.layers[:-1]:
            assert isinstance(layer, Layer)  # for the type checker: ModuleList forgets
            # Every activation takes zero to zero, so that spare units stay idle.
            spare = 0 if drops else _spare_units(layer.bias)
            a = dropped(activation(layer(a, spare)), dropout, streams)
        mean, raw = self.last(a).chunk(2, dim=-1)
        return DiagonalNormal(mean, LOG_SCALE_LIMIT * torch.tanh(raw / LOG_SCALE_LIMIT))

    def absolute_sum(self) -> Float[Tensor, " m"]:
        """The sum of |weights| and |biases| of each member, for the l1 penalty."""
        norms = [torch.linalg.vector_norm(p.flatten(1), 1, dim=1) for p in self.parameters()]
        return torch.stack(norms).sum(0)
