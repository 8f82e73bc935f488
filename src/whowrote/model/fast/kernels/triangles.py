r"""Lower triangles: inverted, made and differentiated in one pass each.

Small Cholesky factors are inverted where they lie. With :math:`A^{(0)} = \Sigma`,
:math:`W^{(0)} = I` and :math:`p_j = A^{(j)}_{jj}`, column by column

.. math:: l = A^{(j)}_{\cdot j} / \sqrt{p_j} \ (\text{below } j), \quad
    A^{(j+1)} = A^{(j)} - l l^\top, \quad
    W^{(j+1)}_{j \cdot} = W^{(j)}_{j \cdot} / \sqrt{p_j}, \quad
    W^{(j+1)} = W^{(j)} - l\, W^{(j+1)}_{j \cdot} \ (\text{below } j)

ends in :math:`W = L^{-1}`. Library routines for batches do the factor and the inverse apart, each
on copies in another order of storage.
"""

from __future__ import annotations

import torch
from torch import Tensor

from whowrote.model.fast.kernels.compiler import by_rows, compiled, tl


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


# Sizes are known to the compiler, and masks change only every WIDE numbers: loads are WIDE at once.


def _lower_factor(  # type: ignore[no-untyped-def]
    raw,
    out,
    out_batch,
    OUT_ROW: tl.constexpr,
    D: tl.constexpr,
    ROWS: tl.constexpr,
    SIZE: tl.constexpr,
):
    number = tl.program_id(0).to(tl.int64)
    i = (tl.program_id(1) * ROWS + tl.arange(0, ROWS))[:, None]
    j = tl.arange(0, SIZE)[None, :]
    inside = (i < D) & (j // 4 * 4 <= i) & (j < D)
    value = tl.load(raw + number * D * D + i * D + j, mask=inside, other=0.0)
    value = tl.where(i == j, tl.exp(value), tl.where(j < i, value, 0.0))
    tl.store(out + number * out_batch + i * OUT_ROW + j, value, mask=inside)


def _shortened(  # type: ignore[no-untyped-def]
    whole,
    out,
    batch,
    ROW: tl.constexpr,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    SIZE: tl.constexpr,
):
    number = tl.program_id(0).to(tl.int64)
    i = (tl.program_id(1) * ROWS + tl.arange(0, ROWS))[:, None]
    j = tl.arange(0, SIZE)[None, :]
    lower = (i < D) & (j // 4 * 4 <= i)
    value = tl.load(whole + number * batch + i * ROW + j, mask=lower, other=0.0)
    value = tl.where(j <= i, value, 0.0).to(tl.bfloat16)
    tl.store(out + number * WIDTH * WIDTH + i * WIDTH + j, value, mask=(i < WIDTH) & (j < WIDTH))


def _free_gradient(  # type: ignore[no-untyped-def]
    whole,
    c,
    out,
    batch,
    c_batch,
    ROW: tl.constexpr,
    C_ROW: tl.constexpr,
    WIDE: tl.constexpr,
    D: tl.constexpr,
    ROWS: tl.constexpr,
    SIZE: tl.constexpr,
):
    number = tl.program_id(0).to(tl.int64)
    line = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    i, j = line[:, None], tl.arange(0, SIZE)[None, :]
    lower = (i < D) & (j // WIDE * WIDE <= i)
    value = tl.load(whole + number * batch + i * ROW + j, mask=lower, other=0.0).to(tl.float32)
    scale = tl.load(c + number * c_batch + line * C_ROW + line, mask=line < D, other=0.0)
    value = tl.where(i == j, value * scale[:, None], tl.where(j < i, value, 0.0))
    tl.store(out + number * D * D + i * D + j, value, mask=(i < D) & (j < D))


def _weigh(  # type: ignore[no-untyped-def]
    c,
    a,
    lead,
    h,
    c_batch,
    a_batch,
    ROW: tl.constexpr,
    WIDE: tl.constexpr,
    D: tl.constexpr,
    ROWS: tl.constexpr,
    SIZE: tl.constexpr,
):
    number = tl.program_id(0).to(tl.int64)
    line = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    i, j = line[:, None], tl.arange(0, SIZE)[None, :]
    at, inside = i * ROW + j, (i < D) & (j < D)
    lower = (i < D) & (j // WIDE * WIDE <= i)  # and what of C is above the diagonal is zero
    value = tl.load(c + number * c_batch + at, mask=lower, other=0.0).to(tl.float32)
    down = tl.load(h + number * D + line, mask=line < D, other=0.0)
    before = tl.load(a + number * a_batch + at, mask=inside, other=0.0).to(tl.float32)
    value = value * tl.load(lead + number) - down[:, None] * before
    tl.store(a + number * a_batch + at, value.to(a.dtype.element_ty), mask=inside)


_SIZES = ["matrix_batch", "matrix_row", "out_batch", "out_row", "d"]
_launch = compiled(_inverse_factor, do_not_specialize=_SIZES)
_launch_lower_factor, _launch_shortened = compiled(_lower_factor), compiled(_shortened)
_launch_free_gradient, _launch_weigh = compiled(_free_gradient), compiled(_weigh)


def inverse_factor(matrix: Tensor, out: Tensor) -> None:
    """W = L^-1 of every Sigma = L L' of (n, d, d), d at most 32, in single precision."""
    n, d, _ = matrix.shape
    strides = (matrix.stride(0), matrix.stride(1), out.stride(0), out.stride(1))
    with torch.cuda.device(matrix.device):
        _launch[(n,)](matrix, out, *strides, d, SIZE=16 if d <= 16 else 32, num_warps=1)


def _wide(matrix: Tensor) -> int:
    """Numbers of 16 bytes."""
    return 16 // matrix.element_size()


def lower_factor(raw: Tensor, out: Tensor) -> None:
    """C of the free parameter (n, d, d): its lower triangle with an exponentiated diagonal.

    What is above the diagonal of ``out`` must be zero, and stays it.
    """
    d = raw.shape[-1]
    sizes = {"OUT_ROW": out.stride(1), "D": d}
    by_rows(_launch_lower_factor, len(raw), d, d, raw.contiguous(), out, out.stride(0), **sizes)


def shortened(lower: Tensor, d: int, width: int) -> Tensor:
    """Lower triangles of d rows as (n, width, width) of 16 bits, zeros elsewhere."""
    out = lower.new_empty(len(lower), width, width, dtype=torch.bfloat16)
    sizes = {"ROW": lower.stride(1), "D": d, "WIDTH": width}
    by_rows(_launch_shortened, len(lower), width, width, lower, out, lower.stride(0), **sizes)
    return out


def free_gradient(whole: Tensor, c: Tensor, out: Tensor) -> None:
    """The gradient of C (n, e, e) as that of its free parameter (n, d, d), d at most e."""
    d = out.shape[-1]
    sizes = {"ROW": whole.stride(1), "C_ROW": c.stride(1), "WIDE": _wide(whole), "D": d}
    strides = (whole.stride(0), c.stride(0))
    by_rows(_launch_free_gradient, len(out), d, d, whole, c, out, *strides, **sizes)


def weigh(c: Tensor, a: Tensor, lead: Tensor, h: Tensor) -> None:
    """A <- lead C - diag(h) A of (n, e, e), with C lower triangular; rows lie equally far apart."""
    d = a.shape[-1]
    sizes = {"ROW": a.stride(1), "WIDE": _wide(a), "D": d}
    strides = (c.stride(0), a.stride(0))
    by_rows(_launch_weigh, len(a), d, d, c, a, lead, h.contiguous(), *strides, **sizes)
