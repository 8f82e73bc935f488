"""A model is a fleet: members share an architecture and differ in everything else.

An ensemble, five folds and a grid are the same code: batched products instead of many small jobs.
Every parameter and buffer has the member dimension first, so that choosing, saving and restoring
members is indexing.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


@dataclass(frozen=True)
class Architecture:
    """What all members share.

    ``n_features`` is what the decoder explains (L); ``n_inputs`` is what the encoder reads, which
    differs from it only for sparse data.
    """

    n_features: int
    n_components: int
    latent_dim: int
    hidden: tuple[int, ...]
    activation: str = "tanh"
    n_inputs: int | None = None
    n_samples: int = 1
    objective: str = "bound"

    @property
    def encoder_width(self) -> int:
        """The number of columns the encoder reads."""
        return self.n_features if self.n_inputs is None else self.n_inputs


@dataclass(frozen=True)
class Member:
    """What a member may have for itself.

    ``df_rate`` multiplies the step size of the degrees of freedom: Adam moves a parameter by about
    one step size at a time, and nu has far to go.
    """

    seed: int = 0
    component: str = "student-t"
    learning_rate: float = 0.003
    scale_floor: float = 0.1
    l1: float = 0.0
    joint_weight: float = 1.0
    label_weight: float = 0.0
    input_dropout: float = 0.0
    hidden_dropout: float = 0.0
    initial_df: float = 5.0
    df_rate: float = 1.0


State = dict[str, Tensor]


def snapshot(fleet: nn.Module) -> State:
    """A copy of every parameter."""
    return {name: value.detach().clone() for name, value in fleet.named_parameters()}


# DOC """The rows a fleet learns from: what the encoder reads and what the decoder has to explain.
# DOC
# DOC Dense data are both at once. Sparse data (n-grams) are read by the encoder as they are, while the
# DOC decoder explains a dense low-dimensional projection of them: the bound is then a bound on the
# DOC log-likelihood of that projection, with the sparse row as side information of q(x | o).
# DOC """

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
