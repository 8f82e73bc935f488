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

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from whowrote.model.devices import one_thread, own_kernels, products

SMALLEST_BLOCK = 32
ALIGNMENT = {"cuda": 4}
TILES = {"cuda": 64}


@dataclass(frozen=True)
class Precision:
    """The scale matrices, ready for use: C, W = L^-1, diag(Sigma^-1) and ln det Sigma.

    On a graphics processor rows are padded with zeros to a multiple of four numbers. The rows of W
    end in two more, in which -W mu is kept, so that [W, -W mu] [x, 1] is one product.
    """

    factor: Float[Tensor, "m k d d"]
    rows: Float[Tensor, "m k d e"]
    diagonal: Float[Tensor, "m k d"]
    log_det: Float[Tensor, "m k"]

    @property
    def inverse_factor(self) -> Float[Tensor, "m k d d"]:
        """W, up to what the padding holds."""
        return self.rows[..., : self.factor.shape[-1]]

    def renew(self, raw: Float[Tensor, "m k d d"], floor: Float[Tensor, " m"]) -> None:
        """Make it anew in place, where a captured graph looks for it."""
        _fill_precision(self, raw, floor)

    def centre(self, loc: Float[Tensor, "m k l"]) -> None:
        r"""Write -W mu behind W, as two numbers of few digits: shortened products lose none."""
        d = loc.shape[-1]
        with products("highest", loc.device):
            centre = _times(self.rows[..., :d], loc).neg_()
        high = centre.to(torch.bfloat16).to(centre.dtype)
        self.rows[..., d], self.rows[..., d + 1] = high, centre - high


def _times(a: Float[Tensor, "m k d e"], v: Float[Tensor, "m k e"]) -> Float[Tensor, "m k d"]:
    """A v; a processor is faster without the batched product."""
    if a.device.type == "cpu":
        return (a * v.unsqueeze(-2)).sum(-1)
    return (a @ v.unsqueeze(-1)).squeeze(-1)


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
        if (kernels := own_kernels(matrix.device, matrix.dtype)) is not None:
            kernels.inverse_factor(matrix, out)
            return
        _invert_triangle(cholesky(matrix), out)
        return
    half = _half(d, matrix.device)
    first, second, left = out[:, :half, :half], out[:, half:, half:], out[:, half:, :half]
    inverse_cholesky(matrix[:, :half, :half], first)
    below = matrix[:, half:, :half] @ first.mT
    inverse_cholesky(torch.baddbmm(matrix[:, half:, half:], below, below.mT, alpha=-1), second)
    _negative_product(second, below @ first, out=left)


def _invert_triangle(factor: Float[Tensor, "n d d"], out: Float[Tensor, "n d d"]) -> None:
    """W = L^-1; from W' L' = 1 where one thread works, which takes half the time of L W = 1.

    Given several threads, the library divides each of these small systems among them, at three
    times the price.
    """
    identity = torch.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device)
    identity, solve = identity.expand_as(factor), torch.linalg.solve_triangular
    if one_thread(factor.device):
        out.copy_(solve(factor.mT, identity, upper=True, left=False).mT)
    else:
        out.copy_(solve(factor, identity, upper=False))


def _negative_product(a: Tensor, b: Tensor, out: Tensor) -> None:
    """-A B into part of a larger array, which a processor would otherwise fill one by one."""
    if out.device.type == "cpu":
        torch.neg(torch.bmm(a, b), out=out)
    else:
        torch.baddbmm(out, a, b, beta=0, alpha=-1, out=out)


def _half(d: int, device: torch.device) -> int:
    """Where to cut: in the middle, or a little below it so that both halves begin on 16 bytes.

    On a graphics processor the second part is a multiple of 64, the tile of its products.
    """
    if device.type in TILES and d > TILES[device.type]:
        second = TILES[device.type] * max(1, d // (2 * TILES[device.type]))
        return d - second + _padding(d - second, device)
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
    width, longer = (n + _padding(n, raw.device) for n in (d, d + 2))
    c, w = (raw.new_zeros(m, k, width, n) for n in (width, longer))
    precision = Precision(c, w, raw.new_zeros(m, k, width), raw.new_zeros(m, k))
    precision.renew(raw, floor)
    return precision


def _padding(d: int, device: torch.device) -> int:
    """Zeros that make a row of numbers end on 16 bytes, where tensor cores are at their best."""
    return -d % ALIGNMENT.get(device.type, 1)


@torch.no_grad()
def _fill_precision(precision: Precision, raw: Tensor, floor: Tensor) -> None:
    d = raw.shape[-1]
    c, w = (array[..., :d, :d] for array in (precision.factor, precision.rows))
    if (kernels := own_kernels(raw.device, raw.dtype)) is not None:
        kernels.lower_factor(raw.flatten(0, 1), c.flatten(0, 1))
    else:
        torch.tril(raw, out=c)
        torch.diagonal(c, dim1=-2, dim2=-1).exp_()
    sigma = torch.empty_like(precision.factor)[..., :d, :d]
    with products("highest", c.device):
        lower_product(c.flatten(0, 1), sigma.flatten(0, 1))
        torch.diagonal(sigma, dim1=-2, dim2=-1).add_(floor[:, None, None])
        inverse_cholesky(sigma.flatten(0, 1), w.flatten(0, 1))
    if w.device.type == "cpu":  # where norms of columns are ten times slower
        precision.diagonal[..., :d] = w.square().sum(-2)
    else:
        precision.diagonal[..., :d] = torch.linalg.vector_norm(w, dim=-2).square_()
    precision.log_det.copy_(torch.diagonal(w, dim1=-2, dim2=-1).log().sum(-1).mul_(-2))


def _product(a: Tensor, b: Tensor, out: Tensor) -> None:
    """A B with fewer columns than rows: one thread computes (B' A')' faster, in longer vectors."""
    if one_thread(out.device):
        out.copy_(torch.bmm(b.mT, a.mT).mT)
    else:
        torch.bmm(a, b, out=out)


class _Distance(torch.autograd.Function):
    """Forward and backward as in the equations above; ``raw`` only receives its gradient."""

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
        moves = ctx.needs_input_grad[3]
        twice, lead = 2 * g, 2 * g_log_det
        g_points, pull = torch.empty_like(points), points.new_empty(m, k, d)
        g_raw = points.new_empty(m, k, ctx.d, ctx.d) if moves else None
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
        g_loc = _times(rows[..., : ctx.d].mT, pull).neg_()
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
    if (kernels := own_kernels(c.device, c.dtype)) is not None:
        kernels.free_gradient(whole, c, out)
        return
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
    padding = _padding(mean.shape[-1], mean.device)
    if padding and variance is not None:
        variance = functional.pad(variance, (0, padding))
    delta, log_det = _Distance.apply(  # type: ignore[no-untyped-call]
        mean, variance, loc, raw, precision
    )
    return delta, log_det
