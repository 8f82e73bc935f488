"""Rows, components and how far apart two tensors are, for tests of distances."""

import torch
from torch import Tensor

FLOOR = torch.tensor([0.1, 0.5], dtype=torch.float64)
"""The floor of the scale matrices of each of two members."""


def leaves(d: int, n: int, k: int) -> list[Tensor]:
    """Means, variances, locations and free factors of two members, to be differentiated in."""
    generator = torch.Generator().manual_seed(d)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    m = len(FLOOR)
    parts = [drawn(m, n, d), drawn(m, n, d).exp(), drawn(m, k, d), 0.3 * drawn(m, k, d, d)]
    return [part.requires_grad_() for part in parts]


def apart(a: Tensor, b: Tensor) -> float:
    """The largest difference, relative to the largest number."""
    return float((a - b).detach().abs().max() / b.detach().abs().max())
