r"""The processes that train together: :math:`g = \frac1P \sum_p g_p`.

Each draws a batch of its own; after the mean all hold one model. Without torchrun there is one.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Processes:
    """One process among those that train together."""

    rank: int = 0
    size: int = 1

    def mean_(self, tensor: Tensor) -> None:
        """Average over all processes, in place."""
        if self.size > 1:
            torch.distributed.all_reduce(tensor)
            tensor /= self.size

    def first(self, *values: float) -> list[float]:
        """What the first process says."""
        if self.size == 1:
            return list(values)
        device = "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
        told = torch.tensor(values, dtype=torch.float64, device=device)
        torch.distributed.broadcast(told, 0)
        return told.tolist()


def join_processes() -> Processes:
    """Join the processes that torchrun started; alone without it."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        return Processes()
    if not torch.distributed.is_initialized():
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        backend = "nccl" if torch.cuda.is_available() else "gloo"
        torch.distributed.init_process_group(backend)
    return Processes(torch.distributed.get_rank(), size)
