r"""Kernels of our own for graphics processors; only imported where one is asked for.

Adam moves a parameter of a fleet in one pass (:mod:`whowrote.optimizer` has the equations).
Triangles of scale matrices are made and differentiated in one pass each
(:mod:`whowrote.model.distance`).
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

import functools
import math
from typing import Any

import torch
from torch import Tensor

try:
    import triton
    from triton import language as tl
except ImportError:  # it comes with torch for graphics processors only
    triton = None


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


def _lower_factor(  # type: ignore[no-untyped-def]
    raw, out, out_batch, out_row, d, ROWS: tl.constexpr, SIZE: tl.constexpr
):
    number = tl.program_id(0).to(tl.int64)
    i = (tl.program_id(1) * ROWS + tl.arange(0, ROWS))[:, None]
    j = tl.arange(0, SIZE)[None, :]
    value = tl.load(raw + number * d * d + i * d + j, mask=(i < d) & (j <= i), other=0.0)
    value = tl.where(i == j, tl.exp(value), value)
    tl.store(out + number * out_batch + i * out_row + j, value, mask=(i < d) & (j < d))


def _free_gradient(  # type: ignore[no-untyped-def]
    whole, c, out, batch, row, d, ROWS: tl.constexpr, SIZE: tl.constexpr
):
    number = tl.program_id(0).to(tl.int64)
    line = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    i, j = line[:, None], tl.arange(0, SIZE)[None, :]
    at = number * batch + i * row + j
    value = tl.load(whole + at, mask=(i < d) & (j <= i), other=0.0)
    scale = tl.load(c + number * batch + line * row + line, mask=line < d, other=0.0)
    value = tl.where(i == j, value * scale[:, None], value)
    tl.store(out + number * d * d + i * d + j, value, mask=(i < d) & (j < d))


def _weigh(  # type: ignore[no-untyped-def]
    c, a, lead, h, batch, row, d, ROWS: tl.constexpr, SIZE: tl.constexpr
):
    number = tl.program_id(0).to(tl.int64)
    line = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    i, j = line[:, None], tl.arange(0, SIZE)[None, :]
    at, inside = number * batch + i * row + j, (i < d) & (j < d)
    value = tl.load(c + at, mask=inside & (j <= i), other=0.0) * tl.load(lead + number)
    down = tl.load(h + number * d + line, mask=line < d, other=0.0)
    value -= down[:, None] * tl.load(a + at, mask=inside, other=0.0)
    tl.store(a + at, value, mask=inside)


def _adam(  # type: ignore[no-untyped-def]
    parameter,
    gradient,
    first,
    second,
    clip,
    rate,
    count,
    n,
    BETA1: tl.constexpr,
    BETA2: tl.constexpr,
    LOG1: tl.constexpr,
    LOG2: tl.constexpr,
    EPSILON: tl.constexpr,
    LOWER: tl.constexpr,
    SIZE: tl.constexpr,
):
    member = tl.program_id(1).to(tl.int64)
    place = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    inside = place < n
    if LOWER > 0:  # a row of LOWER numbers is read four by four up to the diagonal
        start = place // 4 * 4
        inside = inside & (start % LOWER <= start // LOWER % LOWER)
    at = member * n + place
    g = tl.load(gradient + at, mask=inside, other=0.0) * tl.load(clip + member)
    a = tl.load(first + at, mask=inside, other=0.0)
    b = tl.load(second + at, mask=inside, other=0.0)
    value = tl.load(parameter + at, mask=inside, other=0.0)
    t = tl.load(count).to(tl.float64)
    grown1 = (1.0 - tl.exp2(t * LOG1)).to(tl.float32)
    grown2 = (1.0 - tl.exp2(t * LOG2)).to(tl.float32)
    a += (g - a) * (1.0 - BETA1)
    b = b * BETA2 + g * g * (1.0 - BETA2)
    step = tl.load(rate + member) / grown1
    value -= step * a / (tl.sqrt(b) / tl.sqrt(grown2) + EPSILON)
    tl.store(first + at, a, mask=inside)
    tl.store(second + at, b, mask=inside)
    tl.store(parameter + at, value, mask=inside)


if triton is not None:
    _launch_adam = triton.jit(_adam)
    _sizes = ["matrix_batch", "matrix_row", "out_batch", "out_row", "d"]
    _launch = triton.jit(do_not_specialize=_sizes)(_inverse_factor)
    _launch_lower_factor = triton.jit(_lower_factor)
    _launch_free_gradient = triton.jit(_free_gradient)
    _launch_weigh = triton.jit(_weigh)


def inverse_factor(matrix: Tensor, out: Tensor) -> None:
    """W = L^-1 of every Sigma = L L' of (n, d, d), d at most 32, in single precision."""
    n, d, _ = matrix.shape
    strides = (matrix.stride(0), matrix.stride(1), out.stride(0), out.stride(1))
    with torch.cuda.device(matrix.device):
        _launch[(n,)](matrix, out, *strides, d, SIZE=16 if d <= 16 else 32, num_warps=1)


def _by_rows(kernel: Any, n: int, d: int, *arguments: Any) -> None:
    """Run a kernel over n matrices of d rows, some rows at a time."""
    size = triton.next_power_of_2(d)
    rows = max(1, 4096 // size)
    with torch.cuda.device(arguments[0].device):
        kernel[(n, triton.cdiv(d, rows))](*arguments, d, ROWS=rows, SIZE=size)


def lower_factor(raw: Tensor, out: Tensor) -> None:
    """C of the free parameter (n, d, d): its lower triangle with an exponentiated diagonal."""
    strides = (out.stride(0), out.stride(1))
    _by_rows(_launch_lower_factor, len(raw), raw.shape[-1], raw.contiguous(), out, *strides)


def free_gradient(whole: Tensor, c: Tensor, out: Tensor) -> None:
    """The gradient of C (n, e, e) as that of its free parameter (n, d, d), d at most e."""
    strides = (whole.stride(0), whole.stride(1))
    _by_rows(_launch_free_gradient, len(out), out.shape[-1], whole, c, out, *strides)


def weigh(c: Tensor, a: Tensor, lead: Tensor, h: Tensor) -> None:
    """A <- lead C - diag(h) A of (n, e, e), with C lower triangular."""
    strides = (a.stride(0), a.stride(1))
    _by_rows(_launch_weigh, len(a), a.shape[-1], c, a, lead, h.contiguous(), *strides)


def adam(
    state: tuple[Tensor, Tensor, Tensor, Tensor],
    clip: Tensor,
    rate: Tensor,
    count: Tensor,
    betas: tuple[float, float],
    epsilon: float,
    lower: int = 0,
) -> None:
    """Move a parameter (m, ...) whose members have their own factor of the gradient and step size.

    ``state`` is the parameter, its gradient and both moments. With ``lower``, a multiple of four,
    the last two dimensions are lower triangles of that size, and what is above stays as it is.
    """
    parameter, gradient, first, second = state
    n, size = parameter[0].numel(), 1024
    logs = [math.log2(beta) for beta in betas]
    grid = (triton.cdiv(n, size), len(parameter))
    with torch.cuda.device(parameter.device):
        _launch_adam[grid](
            parameter,
            gradient,
            first,
            second,
            clip,
            rate,
            count,
            n,
            BETA1=betas[0],
            BETA2=betas[1],
            LOG1=logs[0],
            LOG2=logs[1],
            EPSILON=epsilon,
            LOWER=lower,
            SIZE=size,
        )


@functools.cache
def works(device: torch.device) -> bool:
    """Whether kernels can be built here: a machine may lack Triton, or a compiler."""
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
