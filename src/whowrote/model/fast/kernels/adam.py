"""Adam in one pass over a parameter of a fleet (:mod:`whowrote.training.optimizer` has the equations)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from whowrote.model.fast.kernels.compiler import compiled, tl, triton


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
    if LOWER > 0:  # rows of LOWER numbers are read four by four up to the diagonal
        start = place // 4 * 4
        column = start % LOWER
        inside = inside & ((column <= start // LOWER % LOWER) | (column + 3 >= LOWER))
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


_launch_adam = compiled(_adam)


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

    ``state`` is the parameter, its gradient and both moments. With ``lower`` the last two
    dimensions are lower triangles of that size; what is above has no gradient and is left out.
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
