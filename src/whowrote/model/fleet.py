"""A model is a fleet: members share an architecture and differ in everything else.

An ensemble, five folds and a grid are the same code: batched products instead of many small jobs.
Every parameter and buffer has the member dimension first, so that choosing, saving and restoring
members is indexing.
"""

from __future__ import annotations

from dataclasses import dataclass

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
