"""One step of a fleet: what moves, what stays exact, and what a replayed graph computes."""

import pytest
import torch
from torch import Tensor

from whowrote.model import Architecture, Member, MixtureVAE, Rows, Streams, initialize_networks
from whowrote.training import Assignment, Plan, initialize, train
from whowrote.training.step import FleetAdam, GraphedStep, MovingAverage, Step

N, L, K, D = 64, 6, 3, 4


def made(
    kind: type[Step], device: str = "cpu", m: int = 3, label_weight: float = 1.0
) -> tuple[MixtureVAE, Step]:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(N) % K
    targets = torch.randn(N, L, generator=generator) + labels.unsqueeze(1)
    drops = [0.1 * i for i in range(m)]
    members = [Member(i, label_weight=label_weight, hidden_dropout=drops[i]) for i in range(m)]
    fleet = MixtureVAE(Architecture(L, K, D, (5,)), members).double().to(device)
    initialize_networks(fleet.encoder, fleet.decoder, range(m))
    with torch.no_grad():
        fleet.mixture.loc.normal_(generator=torch.Generator(device).manual_seed(1))
    optimizer = FleetAdam(fleet, [0.01] * m)
    step = kind(
        fleet,
        Rows(targets.double().to(device), labels.to(device)),
        Streams(range(m), device, torch.float64),
        optimizer,
        MovingAverage(fleet, 0.9),
        1.0,
        block=4,
    )
    step.begin_epoch(torch.arange(16, device=device).expand(m, 1, 16))
    return fleet, step


def batch(number: int, m: int = 3, device: str = "cpu") -> Tensor:
    generator = torch.Generator().manual_seed(number)
    return torch.randint(N, (m, 16), generator=generator).to(device)


def test_a_step_moves_everything() -> None:
    fleet, step = made(Step)
    before = {name: p.detach().clone() for name, p in fleet.named_parameters()}
    step(batch(0))
    stays = {name for name, p in fleet.named_parameters() if torch.equal(p, before[name])}
    assert stays == set()


def test_what_is_known_of_the_scale_matrices_is_always_exact() -> None:
    fleet, step = made(Step)
    for number in range(6):
        exact = fleet.mixture.precision
        assert torch.equal(step.precision.inverse_factor, exact.inverse_factor)
        assert torch.equal(step.precision.log_det, exact.log_det)
        step(batch(number))
        # Negative control: after a move, what was known before is stale.
        assert not torch.equal(exact.log_det, fleet.mixture.precision.log_det)


def test_terms_are_summed_over_the_epoch() -> None:
    _, step = made(Step)
    step(batch(0))
    first = step.total.clone()
    step(batch(1))
    assert not torch.equal(step.total, first)
    step.begin_epoch(batch(2)[:, None])
    assert not step.total.any()


def test_a_step_that_asks_for_the_joint_score_alone_computes_no_other_distance() -> None:
    assert made(Step)[1].width == 0
    _, step = made(Step, label_weight=0.0)
    step.begin_epoch(batch(0)[:, None])
    counts = [int((step.rows.labels[row] == k).sum()) for row in batch(0) for k in range(K)]
    assert step.width == max(counts)


@pytest.mark.gpu
def test_a_replayed_step_with_ever_wider_groups_is_the_plain_step(cuda: torch.device) -> None:
    (plain, one), (replayed, other) = (
        made(kind, "cuda", label_weight=0.0) for kind in (Step, GraphedStep)
    )
    mixed, same = (torch.arange(n, device=cuda).repeat(3, 16 // n) for n in (16, 1))
    widths = []
    for index in [mixed] * 4 + [same] * 4:
        for step in (one, other):
            step.begin_epoch(index[:, None])
            step(index)
        widths.append(other.width)
    for a, b in zip(plain.parameters(), replayed.parameters(), strict=True):
        assert float((a - b).detach().abs().max()) < 1e-9
    assert widths == [8] * 4 + [16] * 4


@pytest.mark.gpu
def test_a_replayed_step_is_the_plain_step(cuda: torch.device) -> None:
    (plain, one), (replayed, other) = made(Step, "cuda"), made(GraphedStep, "cuda")
    for number in range(12):
        for step in (one, other):
            step(batch(number, device="cuda"))
    for a, b in zip(plain.parameters(), replayed.parameters(), strict=True):
        assert float((a - b).detach().abs().max()) < 1e-9
    assert torch.allclose(one.total, other.total)
    # Negative control: another batch leads elsewhere.
    one(batch(99, device="cuda"))
    other(batch(98, device="cuda"))
    assert float((plain.mixture.loc - replayed.mixture.loc).detach().abs().max()) > 1e-6


@pytest.mark.gpu
def test_a_step_in_the_memory_of_a_former_one_is_the_plain_step(cuda: torch.device) -> None:
    """Members leave twice: every capture inherits, and the former step is gone."""
    former = made(GraphedStep, "cuda", m=5)[1]
    for number in range(3):
        former(batch(number, 5, "cuda"))
    for m in (4, 3):
        (plain, one), (replayed, other) = made(Step, "cuda", m), made(GraphedStep, "cuda", m)
        other.continue_from(former)
        former = other
        for number in range(8):
            for step in (one, other):
                step(batch(number, m, "cuda"))
        for a, b in zip(plain.parameters(), replayed.parameters(), strict=True):
            assert float((a - b).detach().abs().max()) < 1e-9


@pytest.mark.gpu
@pytest.mark.parametrize("label_weight", [10.0, 0.0])
def test_shortened_products_stay_within_the_spread_of_seeds(
    cuda: torch.device, label_weight: float
) -> None:
    """Shorter numbers move the validation loss by less than another seed does."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(3000) % 10
    centres = torch.randn(10, 40, generator=generator)
    targets = centres[labels] * 0.5 + torch.randn(3000, 40, generator=generator)
    rows = Rows(targets.to(cuda), labels.to(cuda))
    index = torch.arange(3000, device=cuda)
    best = {}
    for precision in ("high", "highest"):
        fleet = MixtureVAE(
            Architecture(40, 10, 16, (64,)),
            [Member(seed=s, label_weight=label_weight) for s in range(8)],
        ).to(cuda)
        assignment = Assignment((index[:2000],) * 8, (index[2000:],) * 8)
        initialize(fleet, rows, assignment)
        plan = Plan(max_epochs=8, precision=precision)
        outcome = train(fleet, rows, assignment, plan, Streams(range(8), cuda))
        best[precision] = torch.tensor(outcome.best)
    moved = (best["high"].mean() - best["highest"].mean()).abs()
    assert moved < best["highest"].std()
    assert best["highest"].std() > 0
