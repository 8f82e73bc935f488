"""Small fleets for tests of training: three overlapping authors in five dimensions."""

from collections.abc import Sequence

import torch
from torch import Tensor

from whowrote.model import Architecture, Member, MixtureVAE, Rows, Streams
from whowrote.training import (
    Assignment,
    Epoch,
    Outcome,
    Plan,
    initialize,
    train,
    validation_losses,
)

ROUNDING = 1e-9
ARCHITECTURE = Architecture(n_features=5, n_components=3, latent_dim=2, hidden=(4,))
PLAN = Plan(max_epochs=6, batch_size=20, patience=3)
N, N_TRAIN, N_VALIDATION = 120, 60, 20
LONG = Plan(max_epochs=12, batch_size=20, patience=2)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def overlapping_authors() -> Rows:
    """Three overlapping authors in five dimensions."""
    labels = torch.arange(N) % 3
    return Rows(1.2 * drawn(3, 5, seed=1)[labels] + drawn(N, 5, seed=2), labels)


def assigned(seeds: Sequence[int], n_validation: int = N_VALIDATION) -> Assignment:
    """Every member its own rows, drawn from its own seed; equal numbers, no row in both."""
    orders = [torch.randperm(N, generator=torch.Generator().manual_seed(s)) for s in seeds]
    return Assignment(
        tuple(order[:N_TRAIN] for order in orders),
        tuple(order[N_TRAIN : N_TRAIN + n_validation] for order in orders),
    )


def trained(
    members: Sequence[Member],
    rows: Rows,
    plan: Plan = PLAN,
    *,
    n_validation: int = N_VALIDATION,
    architecture: Architecture = ARCHITECTURE,
    assignment: Assignment | None = None,
    **options: object,
) -> Outcome:
    """Initialise and train; everything random comes from the seeds of the members."""
    seeds = [member.seed for member in members]
    fleet = MixtureVAE(architecture, members).double()
    assignment = assignment or assigned(seeds, n_validation)
    initialize(fleet, rows, assignment)
    return train(fleet, rows, assignment, plan, Streams(seeds, dtype=torch.float64), **options)


def gap(ours: MixtureVAE, i: int, theirs: MixtureVAE, j: int = 0) -> float:
    """The largest difference of any parameter of two members."""
    pairs = zip(ours.parameters(), theirs.parameters(), strict=True)
    return max(float((a[i] - b[j]).detach().abs().max()) for a, b in pairs)


def records(outcome: Outcome, member: int) -> list[Epoch]:
    return [record for record in outcome.history if record.member == member]


def mixed_members(m: int) -> list[Member]:
    """Both families, every hyper-parameter different; all drop something."""
    return [
        Member(
            seed=1000 + i,
            component=("student-t", "gaussian", "student-t")[i % 3],
            learning_rate=(0.002, 0.01, 0.05, 0.1)[i % 4],
            scale_floor=(0.01, 0.1, 0.5)[i % 3],
            l1=(0.0, 0.001, 0.01)[i % 3],
            joint_weight=(1.0, 0.5)[i % 2],
            label_weight=(0.0, 1.0, 10.0)[i % 3],
            input_dropout=(0.1, 0.3)[i % 2],
            hidden_dropout=(0.2, 0.5, 0.1)[i % 3],
            initial_df=(5.0, 10.0)[i % 2],
        )
        for i in range(m)
    ]


def losses_now(outcome: Outcome, rows: Rows, watch: str = "log-loss") -> list[float]:
    """Every member's validation loss in the state it was left in."""
    seeds = [member.seed for member in outcome.fleet.members]
    return validation_losses(outcome.fleet, rows, assigned(seeds).validation, watch)
