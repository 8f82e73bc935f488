r"""The expected squared distance of labelled rows from their own component alone.

.. math:: \delta_n = \lVert W_y (m_n - \mu_y) \rVert^2 + \sum_i s_{ni}^2\, (\Sigma_y^{-1})_{ii},
    \qquad y = \mathrm{author}(n)

Where nothing but the joint score of the true author is maximised (``label_weight`` zero, every row
labelled), the other K - 1 distances have no gradient, and computing them is most of a step. Rows
are gathered by author into groups of equal length, whose empty slots are never read back. With
:math:`y_n = \Sigma^{-1} (m_n - \mu)`, :math:`g_n = \partial \ell / \partial \delta_n`,
:math:`h = \sum_n g_n s_n^2` and :math:`l = \partial \ell / \partial \ln|\Sigma|`,

.. math:: \partial \ell / \partial m_n = 2 g_n y_n, \qquad
    \partial \ell / \partial C = 2 \Bigl[ \Sigma^{-1} \bigl( l C - \mathrm{diag}(h)\, \Sigma^{-1} C
        \bigr) - \sum_n g_n y_n (C^\top y_n)^\top \Bigr]

The few rows of an author enter the gradient of his scale matrix as a product of low rank.
:mod:`whowrote.model.fast.distance` has the distances from all components.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from whowrote.model.fast.devices import own_kernels
from whowrote.model.fast.distance import free_gradient
from whowrote.model.fast.precision import Precision


@dataclass(frozen=True)
class Groups:
    """The rows of a batch by author, p slots for each; numbers count through all members."""

    slots: Int[Tensor, "m k p"]
    """Which row lies in a slot, among the n + 1 rows of every member; the last one is empty."""
    places: Int[Tensor, "m n"]
    """In which slot a row lies."""

    @classmethod
    def of(cls, labels: Int[Tensor, "m n"], k: int, width: int) -> Groups:
        """Group rows; ``width`` must be at least :func:`widest` of their labels.

        >>> Groups.of(torch.tensor([[1, 0, 1]]), 2, 2).slots.tolist()
        [[[1, 3], [0, 2]]]
        """
        m, n = labels.shape
        members, own = torch.arange(m, device=labels.device)[:, None], labels.unsqueeze(-1)
        hits = own == torch.arange(k, device=labels.device)
        rank = hits.cumsum(1, dtype=torch.int32).gather(-1, own).squeeze(-1).long() - 1
        places = (members * k + labels) * width + rank
        slots = (members * (n + 1) + n).repeat_interleave(k * width, dim=1).flatten()
        rows = members * (n + 1) + torch.arange(n, device=labels.device)
        slots.scatter_(0, places.flatten(), rows.flatten())
        return cls(slots.reshape(m, k, width), places)

    def centred(
        self,
        mean: Float[Tensor, "m n d"],
        variance: Float[Tensor, "m n d"],
        loc: Float[Tensor, "m k d"],
        width: int,
    ) -> tuple[Float[Tensor, "m k p e"], Float[Tensor, "m k p e"]]:
        """m - mu and s^2 of the rows in their slots, with zeros behind them up to ``width``."""
        if (kernels := own_kernels(mean.device, mean.dtype)) is not None:
            x, spread = kernels.to_slots(mean, variance, loc, self.slots, width)
            return x, spread
        spare, d = width - mean.shape[-1], mean.shape[-1]
        x, spread = self.gathered(mean, spare), self.gathered(variance, spare)
        x[..., :d] -= loc.unsqueeze(2)
        return x, spread

    def returned(
        self,
        pull: Float[Tensor, "b p e"],
        g: Float[Tensor, "b p 1"],
        diagonal: Float[Tensor, "m k e"],
        d: int,
    ) -> tuple[Float[Tensor, "m n d"], Float[Tensor, "m n d"]]:
        """The gradients in m and s^2 of every row: 2 g y, and g diag(Sigma^-1)."""
        m, k, p = self.slots.shape
        if (kernels := own_kernels(pull.device, pull.dtype)) is not None:
            g_mean, g_variance = kernels.from_slots(pull, g, diagonal, self.places, p, d)
            return g_mean, g_variance
        apart = pull.reshape(m, k, p, -1)
        spread = g.reshape(m, k, p, 1) * diagonal.unsqueeze(2)
        return self.vectors(apart)[..., :d], self.vectors(spread)[..., :d]

    def gathered(self, rows: Float[Tensor, "m n d"], spare: int = 0) -> Float[Tensor, "m k p e"]:
        """Rows in their slots, with ``spare`` zeros behind each; zeros where a slot is empty."""
        padded = functional.pad(rows, (0, spare, 0, 1)).flatten(0, 1)
        taken = padded.index_select(0, self.slots.flatten())
        return taken.reshape(*self.slots.shape, -1)

    def vectors(self, slots: Float[Tensor, "m k p d"]) -> Float[Tensor, "m n d"]:
        """What lies in the slot of every row."""
        taken = slots.flatten(0, 2).index_select(0, self.places.flatten())
        return taken.reshape(*self.places.shape, -1)

    def values(self, slots: Float[Tensor, "m p k"]) -> Float[Tensor, "m n"]:
        """One number for every row, differentiable: no two rows share a slot."""
        return slots.mT.flatten().gather(0, self.places.flatten()).reshape(self.places.shape)


def widest(labels: Int[Tensor, "*batch n"], k: int) -> int:
    """The largest number of rows that one author has in one batch.

    >>> widest(torch.tensor([[0, 0, 1], [2, 2, 2]]), 3)
    3
    """
    counts = torch.zeros(*labels.shape[:-1], k, dtype=torch.int32, device=labels.device)
    counts.scatter_add_(-1, labels, torch.ones_like(labels, dtype=torch.int32))
    return int(counts.max())


class _OwnDistance(torch.autograd.Function):
    """Forward and backward as in the equations above; ``raw`` only receives its gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        mean: Tensor,
        variance: Tensor,
        loc: Tensor,
        raw: Tensor,
        precision: Precision,
        groups: Groups,
    ) -> tuple[Tensor, Tensor]:
        m, k, p = groups.slots.shape
        x, spread = groups.centred(mean, variance, loc, precision.factor.shape[-1])
        w = precision.inverse_factor.flatten(0, 1)
        white = x.flatten(0, 1) @ w.mT
        near = torch.linalg.vector_norm(white, dim=-1, keepdim=True).square_()
        near.baddbmm_(spread.flatten(0, 1), precision.diagonal.reshape(m * k, -1, 1))
        ctx.d, ctx.groups = mean.shape[-1], groups
        ctx.save_for_backward(white, spread, precision.factor, w, precision.diagonal)
        return near.reshape(m, k, p).mT, precision.log_det.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        white, spread, c, w, diagonal = ctx.saved_tensors
        groups, d = ctx.groups, ctx.d
        m, k, p = groups.slots.shape
        g = gradients[0].mT.reshape(m * k, p, 1)
        y = white @ w
        pull = y * (2 * g)
        g_mean, g_variance = groups.returned(pull, g, diagonal, d)
        g_loc = -pull.sum(1)[:, :d].reshape(m, k, d)
        g_raw = None
        if ctx.needs_input_grad[3]:
            h = (2 * g).mT @ spread.flatten(0, 1)
            few = Few(pull, y, 2 * gradients[1].flatten(), h)
            g_raw = few.scale_gradient(c.flatten(0, 1), w, d).reshape(m, k, d, d)
        return g_mean, g_variance, g_loc, g_raw, None, None


@dataclass(frozen=True)
class Few:
    """What a few rows know of the gradient of a scale matrix, for b matrices."""

    pull: Float[Tensor, "b p e"]
    """2 g y of every row."""
    y: Float[Tensor, "b p e"]
    lead: Float[Tensor, " b"]
    """2 l."""
    h: Float[Tensor, "b 1 e"]
    """2 h."""

    def scale_gradient(
        self, c: Float[Tensor, "b e e"], w: Float[Tensor, "b e e"], d: int
    ) -> Float[Tensor, "b d d"]:
        """The gradient of the free parameter behind C."""
        gradient = c.new_empty(len(c), d, d)
        free_gradient(self._whole(c, w, d), c, out=gradient)
        return gradient

    def _whole(self, c: Tensor, w: Tensor, d: int) -> Tensor:
        """The gradient of C."""
        kernels = own_kernels(c.device, c.dtype)
        if kernels is not None and torch.get_float32_matmul_precision() == "medium":
            return self._shortened(c, w, d, kernels)
        s = w.mT @ w  # once a step; rows are whitened by W, never by this
        inner = s @ c
        if kernels is not None:
            kernels.weigh(c, inner, self.lead, self.h)
        else:
            inner.mul_(-self.h.mT).addcmul_(c, self.lead[:, None, None])
        return (s @ inner).baddbmm_(self.pull.mT, self.y @ c, alpha=-1)

    def _shortened(self, c: Tensor, w: Tensor, d: int, kernels: ModuleType) -> Tensor:
        """The same in numbers of 16 bits, summed in 32: [S, -2 g y'] [l C - h S C; y C]."""
        b, p, e = self.y.shape
        width = d + -d % 8  # where products in 16 bits are at their best
        c, w = kernels.shortened(c, d, width), kernels.shortened(w, d, width)
        left, right = c.new_empty(b, width, width + p), c.new_empty(b, width + p, width)
        s, inner = left[:, :, :width], right[:, :width]
        torch.bmm(w.mT, w, out=s)
        torch.bmm(s, c, out=inner)
        h = functional.pad(self.h, (0, width - e))
        kernels.weigh(c, inner, self.lead, h)
        y, pull = (functional.pad(part, (0, width - e)) for part in (self.y, self.pull))
        torch.bmm(y.to(c.dtype), c, out=right[:, width:])
        torch.neg(pull.to(c.dtype).mT, out=left[:, :, width:])
        return left @ right


def own_distance(
    mean: Float[Tensor, "m n d"],
    variance: Float[Tensor, "m n d"],
    loc: Float[Tensor, "m k d"],
    raw: Float[Tensor, "m k d d"],
    precision: Precision,
    groups: Groups,
) -> tuple[Float[Tensor, "m p k"], Float[Tensor, "m k"]]:
    """delta of every slot from its component, and ln|Sigma|, differentiable in everything."""
    delta, log_det = _OwnDistance.apply(  # type: ignore[no-untyped-call]
        mean, variance, loc, raw, precision, groups
    )
    return delta, log_det
