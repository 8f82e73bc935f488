r"""Fully connected networks whose output is a distribution.

.. math:: h = f(W_1 a + b_1), \qquad (m, \ell) = W_2 h + b_2, \qquad
    \ln s = c \tanh(\ell / c), \qquad o \sim N(m, \mathrm{diag}\, s^2)

Every weight has a leading member dimension, so that a layer of a whole fleet is one batched
matrix product. The log scale is bounded smoothly at :math:`c = 6`: on standardised data a standard
deviation of 1/400 is exact reconstruction, and without a floor a constant column would drive the
density to infinity. Learning starts from :math:`W \sim N(0, 2/(n_{in} + n_{out}))` and b = 0, each
member from its own seed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from whowrote.model.distributions import DiagonalNormal
from whowrote.model.fleet import SparseRows, Streams
from whowrote.model.gradients import bounded_log_density

LOG_SCALE_LIMIT = 6.0
FIRST_LOG_SCALE = -1.0
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

    def forward(self, a: Float[Tensor, "m n l"] | SparseRows) -> Float[Tensor, "m n h"]:
        """Apply the layer."""
        if isinstance(a, SparseRows):
            return self._sparse_product(a) + self.bias.unsqueeze(1)
        return torch.baddbmm(self.bias.unsqueeze(1), a, self.weight)

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
    def first(self) -> Layer:
        """The layer that reads the input."""
        layer = self.layers[0]
        assert isinstance(layer, Layer)  # for the type checker: ModuleList forgets
        return layer

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
        mean, raw = self._raw(a, dropout, streams).chunk(2, dim=-1)
        return DiagonalNormal(mean, LOG_SCALE_LIMIT * torch.tanh(raw / LOG_SCALE_LIMIT))

    def log_prob(
        self,
        value: Float[Tensor, "m n o"],
        a: Float[Tensor, "m n l"],
        dropout: Float[Tensor, " m"] | None = None,
        streams: Streams | None = None,
    ) -> Float[Tensor, "m n"]:
        """The log density of ``value`` under the distribution of the output given the input."""
        return bounded_log_density(self._raw(a, dropout, streams), value, LOG_SCALE_LIMIT)

    def _raw(
        self,
        a: Float[Tensor, "m n l"] | SparseRows,
        dropout: Float[Tensor, " m"] | None,
        streams: Streams | None,
    ) -> Float[Tensor, "m n o2"]:
        """What the last layer says: means, and log scales before they are bounded."""
        out: Tensor = self.last(self.hidden(a, dropout, streams))
        return out

    def hidden(
        self,
        a: Float[Tensor, "m n l"] | SparseRows,
        dropout: Float[Tensor, " m"] | None = None,
        streams: Streams | None = None,
    ) -> Float[Tensor, "m n h"]:
        """What the hidden layers say."""
        for layer in self.layers[:-1]:
            a = dropped(self.activate(layer(a)), dropout, streams)
        assert isinstance(a, Tensor)  # for the type checker: there is a hidden layer
        return a

    def activate(self, a: Tensor) -> Tensor:
        """The activation of hidden units."""
        return ACTIVATIONS[self.activation](a)

    def absolute_sum(self) -> Float[Tensor, " m"]:
        """The sum of |weights| and |biases| of each member, for the l1 penalty."""
        norms = [torch.linalg.vector_norm(p.flatten(1), 1, dim=1) for p in self.parameters()]
        return torch.stack(norms).sum(0)


@torch.no_grad()
def initialize_networks(encoder: Network, decoder: Network, seeds: Sequence[int]) -> None:
    """Draw every member's weights from its own seed, the same alone and on every device."""
    layers = [layer for layer in [*encoder.layers, *decoder.layers] if isinstance(layer, Layer)]
    sizes = [layer.weight[0].numel() for layer in layers]
    different = list(dict.fromkeys(seeds))  # a grid has many members and few seeds
    drawn = torch.empty(len(different), sum(sizes))
    for row, seed in zip(drawn, different, strict=True):
        row.normal_(generator=torch.Generator().manual_seed(seed))
    number = {seed: place for place, seed in enumerate(different)}
    device = encoder.last.weight.device
    drawn = drawn.to(device)[torch.tensor([number[seed] for seed in seeds], device=device)]
    for layer, part in zip(layers, torch.split(drawn, sizes, dim=1), strict=True):
        _, n_in, n_out = layer.weight.shape
        layer.weight.copy_(part.reshape(layer.weight.shape) * math.sqrt(2 / (n_in + n_out)))
        layer.bias.zero_()
    # A sharp q(x | o) from the start keeps the components from merging before they differ.
    encoder.last.bias[:, encoder.last.bias.shape[-1] // 2 :] = FIRST_LOG_SCALE
