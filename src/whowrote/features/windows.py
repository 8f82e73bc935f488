r"""Where the windows of documents lie: :math:`w_{ij} = [\,s_i + hj,\; s_i + hj + n_{ij})`.

Document i starts at :math:`s_i`; window j of it holds at most ``size`` tokens, the next one starts
``hop`` tokens later, and the last one ends where the document ends: nothing is cut. All of it is
arithmetic on the host, so that the device is never asked for a length.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Layout:
    """Every window's first token, length, document and place in it; every document's windows."""

    starts: Tensor
    lengths: Tensor
    document: Tensor
    slot: Tensor
    counts: Tensor
    most: int
    """Windows of the longest document."""

    def ids(self, tokens: Tensor, size: int) -> Tensor:
        """The types in every window, (windows, size), padded with 0; ``tokens`` is the corpus."""
        place = torch.arange(size, device=tokens.device)
        inside = place < self.lengths[:, None]
        index = torch.where(inside, self.starts[:, None] + place, 0)
        return torch.where(inside, tokens[index], 0)


def lay_out(
    starts: IntArray, lengths: IntArray, size: int, hop: int, device: torch.device | str = "cpu"
) -> Layout:
    """Cut documents into windows.

    >>> layout = lay_out(np.array([0, 100]), np.array([31, 4]), size=30, hop=26)
    >>> layout.starts.tolist(), layout.lengths.tolist(), layout.document.tolist()
    ([0, 26, 100], [30, 5, 4], [0, 0, 1])
    """
    counts = np.maximum(1, -(-(lengths - size) // hop) + 1)
    document = np.repeat(np.arange(len(starts)), counts)
    slot = np.arange(len(document)) - np.repeat(np.cumsum(counts) - counts, counts)
    inner = slot * hop
    table = np.stack(
        [starts[document] + inner, np.minimum(size, lengths[document] - inner), document, slot]
    )
    first, length, owner, place = _send(table, device)
    return Layout(first, length, owner, place, _send(counts, device), most=int(counts.max()))


def _send(array: IntArray, device: torch.device | str) -> Tensor:
    tensor = torch.from_numpy(np.ascontiguousarray(array, dtype=np.int64))
    if torch.device(device).type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor
