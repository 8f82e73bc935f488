r"""Rows of a batch: to the slots of their authors and back, and how well they are explained.

The log density of :mod:`whowrote.model.networks`, with :math:`t = \tanh(r / c)`,
:math:`\ell = c\, t` and :math:`z = (o - m) e^{-\ell}`, has the gradients

.. math:: \partial / \partial m = z e^{-\ell}, \qquad
    \partial / \partial r = (z^2 - 1)(1 - t^2)
"""

from __future__ import annotations

from torch import Tensor

from whowrote.model.fast.kernels.compiler import by_rows, compiled, tl


def _to_slots(  # type: ignore[no-untyped-def]
    mean,
    variance,
    loc,
    slots,
    x,
    spread,
    n,
    p,
    d,
    width,
    row,
    ROWS: tl.constexpr,
    SIZE: tl.constexpr,
):
    group = tl.program_id(0).to(tl.int64)
    slot = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    j = tl.arange(0, SIZE)[None, :]
    number = tl.load(slots + group * p + slot, mask=slot < p, other=n)
    filled = ((number % (n + 1) < n) & (slot < p))[:, None] & (j < d)
    line = (number - number // (n + 1))[:, None]  # without the empty row of every member
    centre = tl.load(loc + group * d + j, mask=j < d, other=0.0)
    value = tl.load(mean + line * row + j, mask=filled, other=0.0)
    value = tl.where(filled, value - centre, 0.0)
    at, inside = (group * p + slot[:, None]) * width + j, (slot < p)[:, None] & (j < width)
    tl.store(x + at, value, mask=inside)
    tl.store(spread + at, tl.load(variance + line * d + j, mask=filled, other=0.0), mask=inside)


def _from_slots(  # type: ignore[no-untyped-def]
    pull,
    g,
    diagonal,
    places,
    g_mean,
    g_variance,
    n,
    p,
    d,
    width,
    ROWS: tl.constexpr,
    SIZE: tl.constexpr,
):
    member = tl.program_id(0).to(tl.int64)
    line = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    j, there = tl.arange(0, SIZE)[None, :], line < n
    place = tl.load(places + member * n + line, mask=there, other=0)
    inside = there[:, None] & (j < d)
    at = (member * n + line[:, None]) * d + j
    value = tl.load(pull + place[:, None] * width + j, mask=inside, other=0.0)
    tl.store(g_mean + at, value, mask=inside)
    value = tl.load(diagonal + (place // p)[:, None] * width + j, mask=inside, other=0.0)
    weight = tl.load(g + place, mask=there, other=0.0)
    tl.store(g_variance + at, value * weight[:, None], mask=inside)


def _squeezed(raw, LIMIT: tl.constexpr):  # type: ignore[no-untyped-def]
    """tanh(raw / c)."""
    return 2.0 / (1.0 + tl.exp(-2.0 / LIMIT * raw)) - 1.0


_squeeze = compiled(_squeezed)


def _log_density(  # type: ignore[no-untyped-def]
    raw, value, out, n, d, LIMIT: tl.constexpr, ROWS: tl.constexpr, SIZE: tl.constexpr
):
    member = tl.program_id(0).to(tl.int64)
    line = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    j = tl.arange(0, SIZE)[None, :]
    inside = (line < n)[:, None] & (j < d)
    at = member * n + line[:, None]
    mean = tl.load(raw + at * 2 * d + j, mask=inside, other=0.0)
    log_scale = LIMIT * _squeeze(tl.load(raw + at * 2 * d + d + j, mask=inside, other=0.0), LIMIT)
    z = (tl.load(value + at * d + j, mask=inside, other=0.0) - mean) * tl.exp(-log_scale)
    total = tl.sum(tl.where(inside, z * z / 2 + log_scale, 0.0), axis=1)
    tl.store(out + member * n + line, -total, mask=line < n)


def _log_density_gradient(  # type: ignore[no-untyped-def]
    raw, value, g, out, n, d, LIMIT: tl.constexpr, ROWS: tl.constexpr, SIZE: tl.constexpr
):
    member = tl.program_id(0).to(tl.int64)
    line = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    j = tl.arange(0, SIZE)[None, :]
    inside = (line < n)[:, None] & (j < d)
    at = member * n + line[:, None]
    mean = tl.load(raw + at * 2 * d + j, mask=inside, other=0.0)
    t = _squeeze(tl.load(raw + at * 2 * d + d + j, mask=inside, other=0.0), LIMIT)
    inverse = tl.exp(-LIMIT * t)
    z = (tl.load(value + at * d + j, mask=inside, other=0.0) - mean) * inverse
    weight = tl.load(g + member * n + line, mask=line < n, other=0.0)[:, None]
    tl.store(out + at * 2 * d + j, weight * z * inverse, mask=inside)
    tl.store(out + at * 2 * d + d + j, weight * (z * z - 1.0) * (1.0 - t * t), mask=inside)


_launch_to_slots, _launch_from_slots = compiled(_to_slots), compiled(_from_slots)
_launch_density, _launch_gradient = compiled(_log_density), compiled(_log_density_gradient)


def to_slots(
    mean: Tensor, variance: Tensor, loc: Tensor, slots: Tensor, width: int
) -> tuple[Tensor, Tensor]:
    """m - mu and s^2 of (m, n, d) in the slots (m, k, p) of the authors, ``width`` numbers each."""
    n, d, p = mean.shape[1], mean.shape[2], slots.shape[-1]
    if mean.stride(0) != n * mean.stride(1) or mean.stride(2) != 1:
        mean = mean.contiguous()
    x, spread = (mean.new_empty(*slots.shape, width) for _ in range(2))
    parts = (mean, variance.contiguous(), loc.contiguous(), slots, x, spread)
    sizes = (n, p, d, width, mean.stride(1))
    by_rows(_launch_to_slots, slots.shape[0] * slots.shape[1], p, width, *parts, *sizes)
    return x, spread


def from_slots(
    pull: Tensor, g: Tensor, diagonal: Tensor, places: Tensor, p: int, d: int
) -> tuple[Tensor, Tensor]:
    """What lies in the slot of every row, and g times the diagonal of its author: (m, n, d)."""
    m, n = places.shape
    found = tuple(pull.new_empty(m, n, d) for _ in range(2))
    sizes = (n, p, d, pull.shape[-1])
    by_rows(_launch_from_slots, m, n, d, pull, g, diagonal, places, *found, *sizes)
    return found[0], found[1]


def log_density(raw: Tensor, value: Tensor, limit: float) -> Tensor:
    """Log density of (m, n, d), up to its constant, from means and raw log scales (m, n, 2 d)."""
    m, n, d = value.shape
    out = value.new_empty(m, n)
    by_rows(_launch_density, m, n, d, raw, value, out, n, d, limit)
    return out


def log_density_gradient(raw: Tensor, value: Tensor, g: Tensor, limit: float) -> Tensor:
    """The gradient in ``raw`` of the sum of densities weighed by g (m, n)."""
    m, n, d = value.shape
    out = raw.new_empty(m, n, 2 * d)
    by_rows(_launch_gradient, m, n, d, raw, value, g, out, n, d, limit)
    return out
