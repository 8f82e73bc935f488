"""The rows a fleet learns from: what the encoder reads and what the decoder has to explain.

Dense data are both at once. Sparse data (n-grams) are read by the encoder as they are, while the
decoder explains a dense low-dimensional projection of them: the bound is then a bound on the
log-likelihood of that projection, with the sparse row as side information of q(x | o).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

UNLABELLED = -1


@dataclass(frozen=True)
class SparseRows:
    """Rows in compressed form: row i owns ``columns[start[i]:start[i + 1]]`` and their values.

    With ``per_member`` rows, the first block of rows belongs to the first member, and so on.
    """

    start: Int[Tensor, " r1"]
    columns: Int[Tensor, " z"]
    values: Float[Tensor, " z"]

    def take(self, index: Int[Tensor, "m n"]) -> SparseRows:
        """The rows ``index``, member after member."""
        flat = index.reshape(-1)
        length = self.start[flat + 1] - self.start[flat]
        start = torch.zeros(len(flat) + 1, dtype=self.start.dtype, device=flat.device)
        torch.cumsum(length, 0, out=start[1:])
        total = int(start[-1])
        within = torch.arange(total, device=flat.device) - torch.repeat_interleave(
            start[:-1], length, output_size=total
        )
        source = torch.repeat_interleave(self.start[flat], length, output_size=total) + within
        return SparseRows(start, self.columns[source], self.values[source])


@dataclass(frozen=True)
class Batch:
    """One minibatch for every member; ``labels`` is -1 where the author is unknown."""

    inputs: Float[Tensor, "m n l"] | SparseRows
    targets: Float[Tensor, "m n l"]
    labels: Int[Tensor, "m n"]

    def unlabelled(self) -> Batch:
        """The same rows with every label forgotten."""
        return Batch(self.inputs, self.targets, torch.full_like(self.labels, UNLABELLED))


@dataclass(frozen=True)
class Rows:
    """All rows, shared by every member; a member asks for its own by index."""

    targets: Float[Tensor, "r l"]
    labels: Int[Tensor, " r"]
    sparse: SparseRows | None = None

    def take(self, index: Int[Tensor, "m n"]) -> Batch:
        """Gather the rows that each member asks for."""
        targets = self.targets[index]
        inputs = targets if self.sparse is None else self.sparse.take(index)
        return Batch(inputs, targets, self.labels[index])

    def all_labelled(self) -> bool:
        """Whether the author of every row is known."""
        return bool((self.labels != UNLABELLED).all())

    def __len__(self) -> int:
        return len(self.targets)
