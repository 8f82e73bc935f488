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
:mod:`whowrote.model.distance` has the distances from all components.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from whowrote.model.distance import Precision, free_gradient, weighed


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
        (m, k, p), d = groups.slots.shape, mean.shape[-1]
        spare = precision.factor.shape[-1] - d
        x = groups.gathered(mean, spare)
        x[..., :d] -= loc.unsqueeze(2)
        spread = groups.gathered(variance, spare).flatten(0, 1)
        w = precision.inverse_factor.flatten(0, 1)
        white = x.flatten(0, 1) @ w.mT
        near = torch.linalg.vector_norm(white, dim=-1, keepdim=True).square_()
        delta = torch.baddbmm(near, spread, precision.diagonal.reshape(m * k, -1, 1))
        ctx.d, ctx.groups = d, groups
        ctx.save_for_backward(white, spread, precision.factor, w, precision.diagonal)
        return delta.reshape(m, k, p).mT, precision.log_det.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        white, spread, c, w, diagonal = ctx.saved_tensors
        groups, d = ctx.groups, ctx.d
        m, k, p = groups.slots.shape
        g = gradients[0].mT.reshape(m * k, p, 1)
        y = white @ w
        pull = y * (2 * g)
        apart = pull.reshape(m, k, p, -1)
        g_mean = groups.vectors(apart)[..., :d]
        g_variance = groups.vectors(g.reshape(m, k, p, 1) * diagonal.unsqueeze(2))[..., :d]
        g_raw = None
        if ctx.needs_input_grad[3]:
            c_ = c.flatten(0, 1)
            s = w.mT @ w  # once a step; rows are whitened by W, never by this
            inner = weighed(c_, s @ c_, 2 * gradients[1].flatten(), (2 * g).mT @ spread)
            whole = torch.baddbmm(s @ inner, pull.mT, y @ c_, alpha=-1)
            g_raw = free_gradient(whole, c_, d).reshape(m, k, d, d)
        return g_mean, g_variance, -apart.sum(2)[..., :d], g_raw, None, None


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
