"""The compiler of our kernels, where there is one, and how a kernel goes over rows of numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

try:
    import triton
    from triton import language as tl
except ImportError:  # it comes with torch for graphics processors only
    triton = tl = None

__all__ = ["by_rows", "compiled", "tl", "triton"]

NUMBERS = 4096  # that a program works on at once


def compiled(function: Callable[..., Any], **options: Any) -> Any:
    """The function as a kernel; without a compiler, the function itself, which nobody calls."""
    return function if triton is None else triton.jit(function, **options)


def by_rows(kernel: Any, n: int, d: int, width: int, *arguments: Any, **known: Any) -> None:
    """Run a kernel over n blocks of d rows of ``width`` numbers, some rows at a time.

    What is ``known`` is built into the kernel.
    """
    size = triton.next_power_of_2(width)
    rows = max(1, min(NUMBERS // size, triton.next_power_of_2(d)))
    with torch.cuda.device(arguments[0].device):
        kernel[(n, triton.cdiv(d, rows))](*arguments, **known, ROWS=rows, SIZE=size)
