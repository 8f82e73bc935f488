r"""The inverse Cholesky factor of many small matrices, as one Triton kernel for GPUs.

.. math:: l = A^{(j)}_{\cdot j} / \sqrt{p_j} \ (\text{below } j), \quad
    A^{(j+1)} = A^{(j)} - l l^\top, \quad
    W^{(j+1)}_{j \cdot} = W^{(j)}_{j \cdot} / \sqrt{p_j}, \quad
    W^{(j+1)} = W^{(j)} - l\, W^{(j+1)}_{j \cdot} \ (\text{below } j)

From :math:`A^{(0)} = \Sigma`, :math:`W^{(0)} = I`, with :math:`p_j = A^{(j)}_{jj}`, column by
column to :math:`W = L^{-1}`. Library routines for batches do the factor and the inverse apart, each
on copies in another order of storage. Only imported where a GPU is asked for.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

try:
    import triton
    from triton import language as tl
except ImportError:  # it comes with torch for GPUs only
    triton = tl = None


def _inverse_factor(  # type: ignore[no-untyped-def]
    matrix,
    out,
    matrix_batch,
    matrix_row,
    out_batch,
    out_row,
    d,
    SIZE: tl.constexpr,
):
    number = tl.program_id(0).to(tl.int64)
    line = tl.arange(0, SIZE)
    i, j = line[:, None], line[None, :]
    inside = (i < d) & (j < d)
    place = i * matrix_row + j
    a = tl.load(matrix + number * matrix_batch + place, mask=inside, other=0.0)
    w = tl.where(i == j, 1.0, 0.0)
    for step in range(d):
        # A thread holds columns: sums along them cost no exchange, sums along rows would.
        column = tl.sum(tl.where(i == step, a, 0.0), axis=0)
        pivot = tl.sum(tl.where(line == step, column, 0.0), axis=0)
        scale = 1.0 / tl.sqrt(pivot)  # NaN, no exception, where the matrix is not positive
        column = tl.where(line > step, column * scale, 0.0)
        row = tl.sum(tl.where(i == step, w, 0.0), axis=0) * scale
        a -= column[:, None] * column[None, :]
        w = tl.where(i == step, row[None, :], w - column[:, None] * row[None, :])
    place = i * out_row + j
    tl.store(out + number * out_batch + place, tl.where(j <= i, w, 0.0), mask=inside)


_SIZES = ["matrix_batch", "matrix_row", "out_batch", "out_row", "d"]
# Without a compiler, the function itself, which nobody calls.
_launch: Any = triton.jit(_inverse_factor, do_not_specialize=_SIZES) if triton else _inverse_factor


def inverse_factor(matrix: Tensor, out: Tensor) -> None:
    """W = L^-1 of every Sigma = L L' of (n, d, d), d at most 32, in single precision."""
    n, d, _ = matrix.shape
    strides = (matrix.stride(0), matrix.stride(1), out.stride(0), out.stride(1))
    with torch.cuda.device(matrix.device):
        _launch[(n,)](matrix, out, *strides, d, SIZE=16 if d <= 16 else 32, num_warps=1)


@functools.cache
def works(device: torch.device) -> bool:
    """Whether the kernel can be built here: Triton may be missing, or a compiler."""
    if triton is None:
        return False
    matrix = torch.tensor([[[4.0, 2.0], [2.0, 10.0]]], device=device)
    out = torch.zeros_like(matrix)
    try:
        inverse_factor(matrix, out)
    except Exception:  # whatever the compiler says: the routines of torch do the same
        return False
    wanted = torch.tensor([[[0.5, 0.0], [-1 / 6, 1 / 3]]], device=device)
    return torch.allclose(out, wanted, rtol=1e-5)
