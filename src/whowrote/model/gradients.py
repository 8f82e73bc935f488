r"""Gradients by hand of what costs most in a step: two distances and one density.

Automatic differentiation of the definitions gives the same at several times the price.

**The expected squared distance of a row from every component.**

.. math::

    \delta_{nk} = \mathrm{E}\, (x_n - \mu_k)^\top \Sigma_k^{-1} (x_n - \mu_k)
        = \lVert w_{nk} \rVert^2 + \sum_i s_{ni}^2\, (\Sigma_k^{-1})_{ii},
    \qquad w_{nk} = W_k (m_n - \mu_k)

with :math:`\Sigma_k = C_k C_k^\top + \sigma^2 I = L_k L_k^\top` and :math:`W_k = L_k^{-1}`. With
:math:`g_{nk} = \partial \ell / \partial \delta_{nk}`, :math:`h_{ki} = \sum_n g_{nk} s_{ni}^2` and
:math:`l_k = \partial \ell / \partial \ln|\Sigma_k|`,

.. math::

    \partial \ell / \partial m_n &= 2 \sum_k g_{nk} W_k^\top w_{nk}, \qquad
    \partial \ell / \partial \mu_k = -2\, W_k^\top \sum_n g_{nk} w_{nk}, \\
    \partial \ell / \partial \Sigma_k &= W_k^\top \Bigl[ l_k I - \sum_n g_{nk} w_{nk} w_{nk}^\top
        - W_k\, \mathrm{diag}(h_k)\, W_k^\top \Bigr] W_k, \qquad
    \partial \ell / \partial C_k = 2\, (\partial \ell / \partial \Sigma_k)\, C_k

Automatic differentiation would run back through the Cholesky factor and its inverse instead.

**The distance of labelled rows from their own component alone**, :math:`k = \mathrm{author}(n)`.
Where nothing but the joint score of the true author is maximised, the other K - 1 distances have no
gradient, and computing them is most of a step. With :math:`y_n = \Sigma^{-1} (m_n - \mu)`,

.. math:: \partial \ell / \partial m_n = 2 g_n y_n, \qquad
    \partial \ell / \partial C = 2 \Bigl[ \Sigma^{-1} \bigl( l C - \mathrm{diag}(h)\, \Sigma^{-1} C
        \bigr) - \sum_n g_n y_n (C^\top y_n)^\top \Bigr]

where the few rows of an author enter the gradient of their scale matrix as a product of low rank.

**The log density of an observation** under what a network says of it, with
:math:`t = \tanh(\ell / c)`, :math:`\ln s = c\, t` and :math:`r = (o - m) / s`: its gradient is
:math:`r / s` in m and :math:`(r^2 - 1)(1 - t^2)` in :math:`\ell`.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from whowrote.model.distributions import LOG_2PI
from whowrote.model.fleet import Groups
from whowrote.model.precision import Precision, one_thread, padding, times


def _product(a: Tensor, b: Tensor, out: Tensor) -> None:
    """A B with fewer columns than rows: one thread computes (B' A')' faster, in longer vectors."""
    if one_thread(out.device):
        out.copy_(torch.bmm(b.mT, a.mT).mT)
    else:
        torch.bmm(a, b, out=out)


class _Distance(torch.autograd.Function):
    """The distance from every component; ``raw`` only receives its gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        mean: Tensor,
        variance: Tensor | None,
        loc: Tensor,
        raw: Tensor,
        precision: Precision,
    ) -> tuple[Tensor, Tensor]:
        precision.centre(loc)
        m, k, d, longer = precision.rows.shape
        n, spare = mean.shape[1], longer - mean.shape[-1] - 2
        ones = functional.pad(mean.new_ones(m, n, 2), (0, spare))
        points = torch.cat([mean, ones], dim=-1)  # [x, 1], and two of the ones: see ``centre``
        rows = precision.rows.reshape(m, k * d, longer).mT
        whitened = mean.new_empty(m, n, k * d)
        delta = mean.new_empty(m, n, k)
        for part in _parts(mean):
            torch.bmm(points[part], rows[part], out=whitened[part])
            white = whitened[part].reshape(-1, n, k, d)
            torch.square(torch.linalg.vector_norm(white, dim=-1), out=delta[part])
        if variance is not None:
            delta = torch.baddbmm(delta, variance, precision.diagonal.mT)
        ctx.d = mean.shape[-1]
        ctx.save_for_backward(
            points, variance, precision.factor, precision.rows, precision.diagonal, whitened
        )
        return delta, precision.log_det.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        g, g_log_det = gradients
        points, variance, c, rows, diagonal, whitened = ctx.saved_tensors
        m, k, d, longer = rows.shape
        twice, lead = 2 * g, 2 * g_log_det
        g_points, pull = torch.empty_like(points), points.new_empty(m, k, d)
        g_raw = points.new_empty(m, k, ctx.d, ctx.d) if ctx.needs_input_grad[3] else None
        if g_raw is not None and variance is not None:
            h = functional.pad(twice.mT @ variance, (0, longer - d)).unsqueeze(2)  # 2 h
        for part in _parts(points):
            own, white = rows[part], whitened[part].reshape(-1, points.shape[1], k, d)
            pulled = (white * twice[part].unsqueeze(-1)).flatten(-2)  # 2 g w
            _product(pulled, own.flatten(1, 2), out=g_points[part])
            if g_raw is None:
                torch.sum(pulled, 1, out=pull[part].flatten(1))
                continue
            second = torch.bmm(pulled.mT, points[part]).reshape(-1, k, d, longer)
            pull[part] = second[..., ctx.d]
            if variance is not None:
                second.addcmul_(own, h[part])
            _scale_gradient(second, lead[part], c[part], own, out=g_raw[part])
        g_loc = times(rows[..., : ctx.d].mT, pull).neg_()
        g_variance = None if variance is None else g @ diagonal
        return g_points[..., : ctx.d], g_variance, g_loc, g_raw, None


def _parts(rows: Float[Tensor, "m n d"]) -> list[slice]:
    """Members to go through at once: one by one where the caches are small."""
    if rows.device.type != "cpu":
        return [slice(None)]
    return [slice(member, member + 1) for member in range(len(rows))]


def _scale_gradient(second: Tensor, lead: Tensor, c: Tensor, rows: Tensor, out: Tensor) -> None:
    """The gradient of the free parameter behind Sigma, without the padding.

    ``second`` is 2 (sum_n g w [m, 1]' + [W, -W mu] diag(h, 0)), so that its product with
    [W, -W mu]' is twice the sum in the brackets above; ``lead`` is 2 l.
    """
    second, c, rows, out = (matrix.flatten(0, 1) for matrix in (second, c, rows, out))
    w = rows[..., : c.shape[-1]]
    inner = torch.baddbmm(c, second, rows.mT, beta=0, alpha=-1)
    torch.diagonal(inner, dim1=-2, dim2=-1).add_(lead.reshape(-1, 1))
    free_gradient(w.mT @ (inner @ (w @ c)), c, out)


def free_gradient(
    whole: Float[Tensor, "b e e"], c: Float[Tensor, "b e e"], out: Float[Tensor, "b d d"]
) -> None:
    """From the gradient of C to that of its free parameter, without the padding.

    Only the lower triangle is free, and its diagonal is a logarithm.
    """
    d = out.shape[-1]
    torch.tril(whole[:, :d, :d], out=out)
    torch.diagonal(out, dim1=-2, dim2=-1).mul_(torch.diagonal(c, dim1=-2, dim2=-1)[:, :d])


def expected_distance(
    mean: Float[Tensor, "m n d"],
    variance: Float[Tensor, "m n d"] | None,
    loc: Float[Tensor, "m k d"],
    raw: Float[Tensor, "m k d d"],
    precision: Precision,
) -> tuple[Float[Tensor, "m n k"], Float[Tensor, "m k"]]:
    """delta and ln|Sigma|, differentiable in everything; no ``variance`` means known points."""
    unused = padding(mean.shape[-1], mean.device)
    if unused and variance is not None:
        variance = functional.pad(variance, (0, unused))
    delta, log_det = _Distance.apply(  # type: ignore[no-untyped-call]
        mean, variance, loc, raw, precision
    )
    return delta, log_det


class _OwnDistance(torch.autograd.Function):
    """The distance from the own component; ``raw`` only receives its gradient."""

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
        x, spread = groups.gathered(mean, spare), groups.gathered(variance, spare)
        x[..., :d] -= loc.unsqueeze(2)
        w = precision.inverse_factor.flatten(0, 1)
        white = x.flatten(0, 1) @ w.mT
        near = torch.linalg.vector_norm(white, dim=-1, keepdim=True).square_()
        near.baddbmm_(spread.flatten(0, 1), precision.diagonal.reshape(m * k, -1, 1))
        ctx.d, ctx.groups = d, groups
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
        g_mean = groups.vectors(pull.reshape(m, k, p, -1))[..., :d]
        g_variance = groups.vectors(g.reshape(m, k, p, 1) * diagonal.unsqueeze(2))[..., :d]
        g_loc = -pull.sum(1)[:, :d].reshape(m, k, d)
        if not ctx.needs_input_grad[3]:
            return g_mean, g_variance, g_loc, None, None, None
        h, c = (2 * g).mT @ spread.flatten(0, 1), c.flatten(0, 1)  # 2 h
        s = w.mT @ w  # once a step; rows are whitened by W, never by this
        inner = (s @ c).mul_(-h.mT).addcmul_(c, 2 * gradients[1].reshape(-1, 1, 1))
        whole = (s @ inner).baddbmm_(pull.mT, y @ c, alpha=-1)
        g_raw = c.new_empty(m * k, d, d)
        free_gradient(whole, c, out=g_raw)
        return g_mean, g_variance, g_loc, g_raw.reshape(m, k, d, d), None, None


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


class _BoundedLogDensity(torch.autograd.Function):
    """The log density; by hand, it takes a third of the passes over the widest arrays of a step."""

    @staticmethod
    def forward(ctx: Any, raw: Tensor, value: Tensor, limit: float) -> Tensor:
        mean, unbounded = raw.chunk(2, dim=-1)
        t = torch.tanh(unbounded / limit)
        inverse = torch.exp(-limit * t)
        scaled = (value - mean).mul_(inverse)
        ctx.save_for_backward(scaled, inverse, t)
        squares = torch.linalg.vector_norm(scaled, dim=-1).square()
        constant = value.shape[-1] * LOG_2PI / 2
        density: Tensor = -(squares / 2 + limit * t.sum(-1) + constant)
        return density

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        scaled, inverse, t = ctx.saved_tensors
        g = gradients[0].unsqueeze(-1)
        weighed = scaled * g
        g_log_scale = torch.addcmul(-g, weighed, scaled)
        g_raw = g_log_scale.mul_(1 - t.square())
        return torch.cat([weighed.mul_(inverse), g_raw], dim=-1), None, None


def bounded_log_density(
    raw: Float[Tensor, "m n o"], value: Float[Tensor, "m n l"], limit: float
) -> Float[Tensor, "m n"]:
    """ln N(value | m, s) from means and raw log scales, with ln s bounded at ``limit``."""
    density: Tensor = _BoundedLogDensity.apply(raw, value, limit)  # type: ignore[no-untyped-call]
    return density
