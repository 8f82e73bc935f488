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
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from whowrote.model.distributions import LOG_2PI, DiagonalNormal
from whowrote.model.fast.devices import own_kernels
from whowrote.model.fleet import SparseRows
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


class _BoundedLogDensity(torch.autograd.Function):
    r"""ln N(o | m, s) from (m, l), with :math:`t = \tanh(l / c)` and :math:`r = (o - m) / s`.

    Its gradient is r / s in m and :math:`(r^2 - 1)(1 - t^2)` in l. By hand, this takes a third of
    the passes over the widest arrays of a step.
    """

    @staticmethod
    def forward(ctx: Any, raw: Tensor, value: Tensor) -> Tensor:
        constant = value.shape[-1] * LOG_2PI / 2
        if (kernels := own_kernels(raw.device, raw.dtype)) is not None:
            raw, value = raw.contiguous(), value.contiguous()
            ctx.save_for_backward(raw, value)
            known: Tensor = kernels.log_density(raw, value, LOG_SCALE_LIMIT)
            return known - constant
        mean, unbounded = raw.chunk(2, dim=-1)
        t = torch.tanh(unbounded / LOG_SCALE_LIMIT)
        inverse = torch.exp(-LOG_SCALE_LIMIT * t)
        scaled = (value - mean).mul_(inverse)
        ctx.save_for_backward(scaled, inverse, t)
        squares = torch.linalg.vector_norm(scaled, dim=-1).square()
        density: Tensor = -(squares / 2 + LOG_SCALE_LIMIT * t.sum(-1) + constant)
        return density

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        g = gradients[0]
        if len(ctx.saved_tensors) == 2:
            raw, value = ctx.saved_tensors
            kernels = own_kernels(raw.device, raw.dtype)
            assert kernels is not None  # for the type checker: the same as above
            return kernels.log_density_gradient(raw, value, g.contiguous(), LOG_SCALE_LIMIT), None
        scaled, inverse, t = ctx.saved_tensors
        weighed = scaled * g.unsqueeze(-1)
        g_log_scale = torch.addcmul(-g.unsqueeze(-1), weighed, scaled)
        g_raw = g_log_scale.mul_(1 - t.square())
        return torch.cat([weighed.mul_(inverse), g_raw], dim=-1), None


def bounded_log_density(
    raw: Float[Tensor, "m n o"], value: Float[Tensor, "m n l"]
) -> Float[Tensor, "m n"]:
    """Log density of ``value`` under the distribution that a network's raw output stands for."""
    density: Tensor = _BoundedLogDensity.apply(raw, value)  # type: ignore[no-untyped-call]
    return density


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
        mean, raw = self.raw(a, dropout, streams).chunk(2, dim=-1)
        return DiagonalNormal(mean, LOG_SCALE_LIMIT * torch.tanh(raw / LOG_SCALE_LIMIT))

    def raw(
        self,
        a: Float[Tensor, "m n l"] | SparseRows,
        dropout: Float[Tensor, " m"] | None = None,
        streams: Streams | None = None,
    ) -> Float[Tensor, "m n o"]:
        """What the last layer says: means, and log scales before they are bounded."""
        activation = ACTIVATIONS[self.activation]
        drops = streams is not None and dropout is not None
        for layer in self.layers[:-1]:
            assert isinstance(layer, Layer)  # for the type checker: ModuleList forgets
            # Every activation takes zero to zero, so that spare units stay idle.
            spare = 0 if drops else _spare_units(layer.bias)
            a = dropped(activation(layer(a, spare)), dropout, streams)
        out: Tensor = self.last(a)
        return out

    def absolute_sum(self) -> Float[Tensor, " m"]:
        """The sum of |weights| and |biases| of each member, for the l1 penalty."""
        norms = [torch.linalg.vector_norm(p.flatten(1), 1, dim=1) for p in self.parameters()]
        return torch.stack(norms).sum(0)
