r"""The expected squared distance of a row from every component, with its gradient by hand.

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

Automatic differentiation would run back through the Cholesky factor and its inverse instead, at
several times the price. The factorisation itself is always done in full precision.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

SMALLEST_BLOCK = 32


@dataclass(frozen=True)
class Precision:
    """The scale matrices, ready for use: W = L^-1, diag(Sigma^-1) and ln det Sigma."""

    inverse_factor: Float[Tensor, "m k d d"]
    diagonal: Float[Tensor, "m k d"]
    log_det: Float[Tensor, "m k"]


def cholesky(matrix: Float[Tensor, "*batch d d"]) -> Float[Tensor, "*batch d d"]:
    """Lower factor; NaN, not an exception, where the matrix has left the finite range."""
    factor, info = torch.linalg.cholesky_ex(matrix)
    return torch.where((info == 0)[..., None, None], factor, torch.nan)


def inverse_cholesky(matrix: Float[Tensor, "*batch d d"]) -> Float[Tensor, "*batch d d"]:
    r"""W = L^-1 of Sigma = L L', by halves.

    .. math:: L = \begin{pmatrix} L_1 & 0 \\ B & L_2 \end{pmatrix}, \quad
        W = \begin{pmatrix} W_1 & 0 \\ -W_2 B W_1 & W_2 \end{pmatrix}, \quad
        B = \Sigma_{21} W_1^\top, \quad L_2 L_2^\top = \Sigma_{22} - B B^\top

    Batched products are faster than batched factorisations, most of all on graphics processors.
    """
    d = matrix.shape[-1]
    if d <= SMALLEST_BLOCK:
        factor = cholesky(matrix)
        identity = torch.eye(d, dtype=factor.dtype, device=factor.device)
        inverse: Tensor = torch.linalg.solve_triangular(
            factor, identity.expand_as(factor), upper=False
        )
        return inverse
    half = d // 2
    first = inverse_cholesky(matrix[..., :half, :half])
    below = matrix[..., half:, :half] @ first.mT
    second = inverse_cholesky(matrix[..., half:, half:] - below @ below.mT)
    inverse = torch.zeros_like(matrix)
    inverse[..., :half, :half] = first
    inverse[..., half:, half:] = second
    inverse[..., half:, :half] = -(second @ (below @ first))
    return inverse


@contextmanager
def products(precision: str) -> Iterator[None]:
    """Matrix products inside run at this precision of ``torch.set_float32_matmul_precision``."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def lower_factor(raw: Float[Tensor, "m k d d"]) -> Float[Tensor, "m k d d"]:
    """C: the lower triangle of the free parameter, with an exponentiated diagonal."""
    c = torch.tril(raw)
    diagonal = torch.diagonal(c, dim1=-2, dim2=-1)
    diagonal.copy_(diagonal.exp())
    return c


def scale_matrix(
    raw: Float[Tensor, "m k d d"], floor: Float[Tensor, " m"]
) -> Float[Tensor, "m k d d"]:
    """Sigma = C C' + sigma^2 I."""
    c = lower_factor(raw)
    with products("highest"):
        sigma = c @ c.mT
    torch.diagonal(sigma, dim1=-2, dim2=-1).add_(floor[:, None, None])
    return sigma


@torch.no_grad()
def precision_of(raw: Float[Tensor, "m k d d"], floor: Float[Tensor, " m"]) -> Precision:
    """Factor every scale matrix once."""
    sigma = scale_matrix(raw, floor)
    with products("highest"):
        inverse = inverse_cholesky(sigma)
    log_det = -2 * torch.diagonal(inverse, dim1=-2, dim2=-1).log().sum(-1)
    return Precision(inverse, inverse.square().sum(-2), log_det)


class _Distance(torch.autograd.Function):
    """Forward and backward as in the equations above; ``raw`` only receives its gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        mean: Tensor,
        variance: Tensor | None,
        loc: Tensor,
        raw: Tensor,
        inverse: Tensor,
        diagonal: Tensor,
        log_det: Tensor,
    ) -> tuple[Tensor, Tensor]:
        m, k, d = loc.shape
        centre = (inverse @ loc.unsqueeze(-1)).reshape(m, 1, k * d)
        whitened = torch.baddbmm(centre, mean, inverse.reshape(m, k * d, d).mT, beta=-1)
        whitened = whitened.reshape(m, -1, k, d)
        delta = torch.linalg.vecdot(whitened, whitened)
        if variance is not None:
            delta = torch.baddbmm(delta, variance, diagonal.mT)
        ctx.save_for_backward(mean, variance, loc, raw, inverse, diagonal, whitened)
        return delta, log_det.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        g, g_log_det = gradients
        mean, variance, loc, raw, inverse, diagonal, whitened = ctx.saved_tensors
        m, n, k, d = whitened.shape
        pulled = (whitened * (2 * g).unsqueeze(-1)).reshape(m, n, k * d)  # 2 g w
        g_mean = pulled @ inverse.reshape(m, k * d, d)
        pull = pulled.sum(1).reshape(m, k, d, 1)
        g_loc = -(inverse.mT @ pull).squeeze(-1)
        g_variance = None if variance is None else g @ diagonal
        g_raw = None
        if ctx.needs_input_grad[3]:
            second = (pulled.mT @ mean).reshape(m, k, d, d) - pull * loc.unsqueeze(2)
            if variance is not None:
                second.addcmul_(inverse, (g.mT @ variance).unsqueeze(2), value=2)
            g_raw = _scale_gradient(second, g_log_det, raw, inverse)
        return g_mean, g_variance, g_loc, g_raw, None, None, None


def _scale_gradient(second: Tensor, g_log_det: Tensor, raw: Tensor, inverse: Tensor) -> Tensor:
    """The gradient of the free parameter behind Sigma.

    ``second`` is 2 (sum_n g w (m - mu)' + W diag(h)), so that ``second @ W'`` is twice the sum in
    the brackets above.
    """
    c = lower_factor(raw)
    whitened = inverse @ c
    inner = (2 * g_log_det[..., None, None]) * whitened - second @ (inverse.mT @ whitened)
    gradient = (inverse.mT @ inner).tril_()
    torch.diagonal(gradient, dim1=-2, dim2=-1).mul_(torch.diagonal(c, dim1=-2, dim2=-1))
    return gradient


def expected_distance(
    mean: Float[Tensor, "m n d"],
    variance: Float[Tensor, "m n d"] | None,
    loc: Float[Tensor, "m k d"],
    raw: Float[Tensor, "m k d d"],
    precision: Precision,
) -> tuple[Float[Tensor, "m n k"], Float[Tensor, "m k"]]:
    """delta and ln|Sigma|, differentiable in everything; no ``variance`` means known points."""
    p = precision
    delta, log_det = _Distance.apply(  # type: ignore[no-untyped-call]
        mean, variance, loc, raw, p.inverse_factor, p.diagonal, p.log_det
    )
    return delta, log_det
