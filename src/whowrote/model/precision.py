r"""The scale matrices of a mixture, factored and inverted: all that distances need of them.

.. math:: \Sigma_k = C_k C_k^\top + \sigma^2 I = L_k L_k^\top, \qquad W_k = L_k^{-1}, \qquad
    (\Sigma_k^{-1})_{ii} = \sum_j W_{kji}^2, \qquad \ln|\Sigma_k| = -2 \sum_i \ln W_{kii}

:math:`C_k` is lower triangular with an exponentiated diagonal. Everything here is done in full
precision. What is fastest differs by device: a GPU wants few and large calls, a CPU contiguous and
small ones; what is asked of the device (:func:`products`, :func:`one_thread`) comes first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

SMALLEST_BLOCK = 32
ALIGNMENT = {"cuda": 4}
TILES = {"cuda": 64}


@contextmanager
def products(precision: str, device: torch.device) -> Iterator[None]:
    """Products inside run at this precision of ``torch.set_float32_matmul_precision``.

    On a GPU only: elsewhere there is nothing to gain, and threads share the setting.
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


def one_thread(device: torch.device) -> bool:
    """Whether one thread of a CPU works alone, for which other library calls are the fastest.

    Members divided among threads (:mod:`whowrote.training.loop`) work so.
    """
    return device.type == "cpu" and torch.get_num_threads() == 1


@dataclass(frozen=True)
class Precision:
    """The scale matrices, ready for use: C, W = L^-1, diag(Sigma^-1) and ln det Sigma.

    On a GPU rows are padded with zeros to a multiple of four numbers. The rows of W
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
            centre = times(self.rows[..., :d], loc).neg_()
        high = centre.to(torch.bfloat16).to(centre.dtype)
        self.rows[..., d], self.rows[..., d + 1] = high, centre - high


def times(a: Float[Tensor, "m k d e"], v: Float[Tensor, "m k e"]) -> Float[Tensor, "m k d"]:
    """A v; a CPU is faster without the batched product."""
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

    Batched products are faster than batched factorisations, most of all on GPUs.
    """
    d = matrix.shape[-1]
    if d <= SMALLEST_BLOCK:
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
    """-A B into part of a larger array, which a CPU would otherwise fill one by one."""
    if out.device.type == "cpu":
        torch.neg(torch.bmm(a, b), out=out)
    else:
        torch.baddbmm(out, a, b, beta=0, alpha=-1, out=out)


def _half(d: int, device: torch.device) -> int:
    """Where to cut: in the middle, or a little below it so that both halves begin on 16 bytes.

    On a GPU the second part is a multiple of 64, the tile of its products.
    """
    if device.type in TILES and d > TILES[device.type]:
        second = TILES[device.type] * max(1, d // (2 * TILES[device.type]))
        return d - second + padding(d - second, device)
    return d // 2 + padding(d // 2, device)


def lower_product(c: Float[Tensor, "n d d"], out: Float[Tensor, "n d d"]) -> None:
    r"""C C' of lower triangular C, by halves; above the diagonal blocks ``out`` is left as it is.

    .. math:: C = \begin{pmatrix} C_1 & 0 \\ B & C_2 \end{pmatrix}, \quad
        C C^\top = \begin{pmatrix} C_1 C_1^\top & \cdot \\
            B C_1^\top & B B^\top + C_2 C_2^\top \end{pmatrix}

    A product in full precision is slow on GPUs, and most of this one is zeros.
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
    width, longer = (n + padding(n, raw.device) for n in (d, d + 2))
    c, w = (raw.new_zeros(m, k, width, n) for n in (width, longer))
    precision = Precision(c, w, raw.new_zeros(m, k, width), raw.new_zeros(m, k))
    precision.renew(raw, floor)
    return precision


def padding(d: int, device: torch.device) -> int:
    """Zeros that make a row of numbers end on 16 bytes, where tensor cores are at their best."""
    return -d % ALIGNMENT.get(device.type, 1)


@torch.no_grad()
def _fill_precision(precision: Precision, raw: Tensor, floor: Tensor) -> None:
    d = raw.shape[-1]
    c, w = (array[..., :d, :d] for array in (precision.factor, precision.rows))
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
