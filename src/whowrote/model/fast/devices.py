"""What the model asks of its device: shorter products, kernels of our own, how many threads."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import torch


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


@functools.cache
def own_kernels(device: torch.device, dtype: torch.dtype) -> ModuleType | None:
    """Our own kernels, on graphics processors in single precision."""
    if device.type != "cuda" or dtype != torch.float32:
        return None
    from whowrote import kernels  # a compiler comes with it

    return kernels if kernels.works(device) else None


def one_thread(device: torch.device) -> bool:
    """Whether a single thread of a processor works, for which other library calls are the fastest.

    Members who train side by side (:mod:`whowrote.training.loop`) have a thread for each watch.
    """
    return device.type == "cpu" and torch.get_num_threads() == 1
