"""Kernels of our own for graphics processors; only imported where one is asked for."""

from __future__ import annotations

import functools

import torch

from whowrote.model.fast.kernels.adam import adam as adam
from whowrote.model.fast.kernels.compiler import triton
from whowrote.model.fast.kernels.slots import from_slots as from_slots
from whowrote.model.fast.kernels.slots import log_density as log_density
from whowrote.model.fast.kernels.slots import log_density_gradient as log_density_gradient
from whowrote.model.fast.kernels.slots import to_slots as to_slots
from whowrote.model.fast.kernels.triangles import free_gradient as free_gradient
from whowrote.model.fast.kernels.triangles import inverse_factor as inverse_factor
from whowrote.model.fast.kernels.triangles import lower_factor as lower_factor
from whowrote.model.fast.kernels.triangles import shortened as shortened
from whowrote.model.fast.kernels.triangles import weigh as weigh


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
