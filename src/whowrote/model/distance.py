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

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

SMALLEST_BLOCK = 32
ALIGNMENT = {"cuda": 4}


@dataclass(frozen=True)
class Precision:
    """The scale matrices, ready for use: C, W = L^-1, diag(Sigma^-1) and ln det Sigma.

    On a graphics processor rows are padded with zeros to a multiple of four numbers.
    """

    factor: Float[Tensor, "m k d d"]
    inverse_factor: Float[Tensor, "m k d d"]
    diagonal: Float[Tensor, "m k d"]
    log_det: Float[Tensor, "m k"]

    def renew(self, raw: Float[Tensor, "m k d d"], floor: Float[Tensor, " m"]) -> None:
        """Make it anew in place, where a captured graph looks for it."""
        _fill_precision(self, raw, floor)


def cholesky(matrix: Float[Tensor, "*batch d d"]) -> Float[Tensor, "*batch d d"]:
    """Lower factor; NaN, not an exception, where the matrix has left the finite range."""
    factor, info = torch.linalg.cholesky_ex(matrix)
    return torch.where((info == 0)[..., None, None], factor, torch.nan)


def inverse_cholesky(matrix: Float[Tensor, "n d d"], out: Float[Tensor, "n d d"]) -> None:
    r"""W = L^-1 of Sigma = L L', by halves, written into the lower triangle of ``out``.

    .. math:: L = \begin{pmatrix} L_1 & 0 \\ B & L_2 \end{pmatrix}, \quad
        W = \begin{pmatrix} W_1 & 0 \\ -W_2 B W_1 & W_2 \end{pmatrix}, \quad
        B = \Sigma_{21} W_1^\top, \quad L_2 L_2^\top = \Sigma_{22} - B B^\top

    Batched products are faster than batched factorisations, most of all on graphics processors.
    """
    d = matrix.shape[-1]
    if d <= SMALLEST_BLOCK:
        if (kernel := _own_kernel(matrix.device, matrix.dtype)) is not None:
            kernel(matrix, out)
            return
        factor = cholesky(matrix)
        identity = torch.eye(d, dtype=factor.dtype, device=factor.device)
        out.copy_(torch.linalg.solve_triangular(factor, identity.expand_as(factor), upper=False))
        return
    half = _half(d, matrix.device)
    first, second, left = out[:, :half, :half], out[:, half:, half:], out[:, half:, :half]
    inverse_cholesky(matrix[:, :half, :half], first)
    below = matrix[:, half:, :half] @ first.mT
    inverse_cholesky(torch.baddbmm(matrix[:, half:, half:], below, below.mT, alpha=-1), second)
    torch.baddbmm(left, second, below @ first, beta=0, alpha=-1, out=left)


@functools.cache
def _own_kernel(
    device: torch.device, dtype: torch.dtype
) -> Callable[[Tensor, Tensor], None] | None:
    """Our own way to invert small factors, on graphics processors in single precision."""
    if device.type != "cuda" or dtype != torch.float32:
        return None
    from whowrote import kernels  # a compiler comes with it

    return kernels.inverse_factor if kernels.works(device) else None


def _half(d: int, device: torch.device) -> int:
    """Where to cut: in the middle, or a little below it so that both halves begin on 16 bytes."""
    return d // 2 + _padding(d // 2, device)


def lower_product(c: Float[Tensor, "n d d"], out: Float[Tensor, "n d d"]) -> None:
    r"""C C' of lower triangular C, by halves; above the diagonal blocks ``out`` is left as it is.

    .. math:: C = \begin{pmatrix} C_1 & 0 \\ B & C_2 \end{pmatrix}, \quad
        C C^\top = \begin{pmatrix} C_1 C_1^\top & \cdot \\
            B C_1^\top & B B^\top + C_2 C_2^\top \end{pmatrix}

    A product in full precision is slow on graphics processors, and most of this one is zeros.
    """
    d = c.shape[-1]
    if d <= 2 * SMALLEST_BLOCK:
        torch.bmm(c, c.mT, out=out)
        return
    half = _half(d, c.device)
    first, second, below = c[:, :half, :half], c[:, half:, half:], c[:, half:, :half]
    lower_product(first, out[:, :half, :half])
    torch.bmm(below, first.mT, out=out[:, half:, :half])
    lower_product(second, out[:, half:, half:])
    torch.baddbmm(out[:, half:, half:], below, below.mT, out=out[:, half:, half:])


@contextmanager
def products(precision: str, device: torch.device) -> Iterator[None]:
    """Products inside run at this precision of ``torch.set_float32_matmul_precision``.

    On a graphics processor only: elsewhere there is nothing to gain, and threads share the setting.
    """
    if device.type != "cuda":
        yield
        return
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
    c: Float[Tensor, "m k d d"], floor: Float[Tensor, " m"]
) -> Float[Tensor, "m k d d"]:
    """Sigma = C C' + sigma^2 I."""
    with products("highest", c.device):
        sigma = c @ c.mT
    torch.diagonal(sigma, dim1=-2, dim2=-1).add_(floor[:, None, None])
    return sigma


def precision_of(raw: Float[Tensor, "m k d d"], floor: Float[Tensor, " m"]) -> Precision:
    """Factor every scale matrix once."""
    m, k, d, _ = raw.shape
    width = d + _padding(d, raw.device)
    c, w = (raw.new_zeros(m, k, width, width) for _ in range(2))
    precision = Precision(c, w, raw.new_zeros(m, k, width), raw.new_zeros(m, k))
    precision.renew(raw, floor)
    return precision


def _padding(d: int, device: torch.device) -> int:
    """Zeros that make a row of numbers end on 16 bytes, where tensor cores are at their best."""
    return -d % ALIGNMENT.get(device.type, 1)


@torch.no_grad()
def _fill_precision(precision: Precision, raw: Tensor, floor: Tensor) -> None:
    d = raw.shape[-1]
    c, w = (array[..., :d, :d] for array in (precision.factor, precision.inverse_factor))
    torch.tril(raw, out=c)
    torch.diagonal(c, dim1=-2, dim2=-1).exp_()
    sigma = torch.empty_like(precision.factor)[..., :d, :d]
    with products("highest", c.device):
        lower_product(c.flatten(0, 1), sigma.flatten(0, 1))
        torch.diagonal(sigma, dim1=-2, dim2=-1).add_(floor[:, None, None])
        inverse_cholesky(sigma.flatten(0, 1), w.flatten(0, 1))
    precision.diagonal[..., :d] = torch.linalg.vector_norm(w, dim=-2).square_()
    precision.log_det.copy_(torch.diagonal(w, dim1=-2, dim2=-1).log().sum(-1).mul_(-2))


class _Distance(torch.autograd.Function):
    """Forward and backward as in the equations above; ``raw`` only receives its gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        mean: Tensor,
        variance: Tensor | None,
        loc: Tensor,
        raw: Tensor,
        c: Tensor,
        inverse: Tensor,
        diagonal: Tensor,
        log_det: Tensor,
    ) -> tuple[Tensor, Tensor]:
        m, k, d = loc.shape
        centre = (inverse @ loc.unsqueeze(-1)).reshape(m, 1, k * d)
        rows = inverse.reshape(m, k * d, d).mT
        whitened = mean.new_empty(m, mean.shape[1], k * d)
        delta = mean.new_empty(m, mean.shape[1], k)
        for part in _parts(mean):
            torch.baddbmm(centre[part], mean[part], rows[part], beta=-1, out=whitened[part])
            white = whitened[part].reshape(-1, mean.shape[1], k, d)
            torch.square(torch.linalg.vector_norm(white, dim=-1), out=delta[part])
        if variance is not None:
            delta = torch.baddbmm(delta, variance, diagonal.mT)
        ctx.d = raw.shape[-1]
        ctx.save_for_backward(mean, variance, loc, c, inverse, diagonal, whitened)
        return delta, log_det.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        g, g_log_det = gradients
        mean, variance, loc, c, inverse, diagonal, whitened = ctx.saved_tensors
        m, k, d = loc.shape
        rows = inverse.reshape(m, k * d, d)
        g_mean, pull = torch.empty_like(mean), mean.new_empty(m, k * d)
        second = mean.new_empty(m, k * d, d) if ctx.needs_input_grad[3] else None
        for part in _parts(mean):
            twice = (2 * g[part]).unsqueeze(-1)
            white = whitened[part].reshape(-1, mean.shape[1], k, d)
            pulled = (white * twice).flatten(-2)  # 2 g w
            torch.bmm(pulled, rows[part], out=g_mean[part])
            torch.sum(pulled, 1, out=pull[part])
            if second is not None:
                torch.bmm(pulled.mT, mean[part], out=second[part])
        pull = pull.reshape(m, k, d, 1)
        g_loc = -(inverse.mT @ pull).squeeze(-1)
        g_variance = None if variance is None else g @ diagonal
        g_raw = None
        if second is not None:
            second = second.reshape(m, k, d, d).addcmul_(pull, loc.unsqueeze(2), value=-1)
            if variance is not None:
                second.addcmul_(inverse, (g.mT @ variance).unsqueeze(2), value=2)
            g_raw = _scale_gradient(second, g_log_det, c, inverse, ctx.d)
        return g_mean, g_variance, g_loc, g_raw, None, None, None, None


def _parts(rows: Float[Tensor, "m n d"]) -> list[slice]:
    """Members to go through at once: one by one where the caches are small."""
    if rows.device.type != "cpu":
        return [slice(None)]
    return [slice(member, member + 1) for member in range(len(rows))]


def _scale_gradient(
    second: Tensor, g_log_det: Tensor, c: Tensor, inverse: Tensor, d: int
) -> Tensor:
    """The gradient of the free parameter behind Sigma, without the padding.

    ``second`` is 2 (sum_n g w (m - mu)' + W diag(h)), so that ``second @ W'`` is twice the sum in
    the brackets above.
    """
    second, c_, w = (matrix.flatten(0, 1) for matrix in (second, c, inverse))
    inner = torch.baddbmm(second, second, w.mT, beta=0, alpha=-1)
    torch.diagonal(inner, dim1=-2, dim2=-1).add_(2 * g_log_det.reshape(-1, 1))
    gradient = torch.tril((w.mT @ (inner @ (w @ c_)))[:, :d, :d])
    torch.diagonal(gradient, dim1=-2, dim2=-1).mul_(torch.diagonal(c_, dim1=-2, dim2=-1)[:, :d])
    return gradient.reshape(*c.shape[:2], d, d)


def expected_distance(
    mean: Float[Tensor, "m n d"],
    variance: Float[Tensor, "m n d"] | None,
    loc: Float[Tensor, "m k d"],
    raw: Float[Tensor, "m k d d"],
    precision: Precision,
) -> tuple[Float[Tensor, "m n k"], Float[Tensor, "m k"]]:
    """delta and ln|Sigma|, differentiable in everything; no ``variance`` means known points."""
    p, padding = precision, _padding(mean.shape[-1], mean.device)
    if padding:
        mean, loc = (functional.pad(array, (0, padding)) for array in (mean, loc))
        variance = None if variance is None else functional.pad(variance, (0, padding))
    delta, log_det = _Distance.apply(  # type: ignore[no-untyped-call]
        mean, variance, loc, raw, p.factor, p.inverse_factor, p.diagonal, p.log_det
    )
    return delta, log_det
