"""Distances from the own component alone, against those from all components."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from latents import FLOOR, apart, leaves
from whowrote.model import (
    Architecture,
    Member,
    MixtureVAE,
    Rows,
    Streams,
    initialize_networks,
    precision,
)
from whowrote.model.fleet import Groups, widest
from whowrote.model.gradients import expected_distance, own_distance
from whowrote.model.precision import precision_of

M, N, K = 2, 9, 4
LABELS = torch.tensor([[0, 1, 1, 3, 1, 0, 3, 3, 1], [2, 2, 2, 2, 2, 2, 0, 2, 2]])


def pulled(delta: Tensor, log_det: Tensor, parts: list[Tensor]) -> list[Tensor]:
    weights = torch.sin(torch.arange(delta.numel()).double()).reshape(delta.shape)
    total = (delta * weights).sum() + (log_det * torch.arange(K)).sum()
    return list(torch.autograd.grad(total, parts))


@pytest.mark.parametrize("d", [1, 5, 40])
@pytest.mark.parametrize("alignment", [1, 4])
@pytest.mark.parametrize("spare", [0, 3])
def test_values_and_gradients_are_those_of_all_distances(
    d: int, alignment: int, spare: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(precision.ALIGNMENT, "cpu", alignment)
    parts = leaves(d, N, K)
    groups = Groups.of(LABELS, K, widest(LABELS, K) + spare)
    slots, log_det = own_distance(*parts, precision_of(parts[3], FLOOR), groups)
    ours = groups.values(slots)
    every, their_log_det = expected_distance(*parts, precision_of(parts[3], FLOOR))
    theirs = every.gather(-1, LABELS.unsqueeze(-1)).squeeze(-1)
    pairs = [(ours, theirs), (log_det, their_log_det)]
    pairs += zip(pulled(ours, log_det, parts), pulled(theirs, their_log_det, parts), strict=True)
    assert all(apart(a, b) < 1e-10 for a, b in pairs)
    # Negative control: the distance from the next component is another one.
    other = every.gather(-1, (LABELS.unsqueeze(-1) + 1) % K).squeeze(-1)
    assert apart(ours, other) > 1e-2


def test_frozen_scale_matrices_get_no_gradient() -> None:
    mean, variance, loc, raw = leaves(5, N, K)
    groups = Groups.of(LABELS, K, 8)
    slots, log_det = own_distance(
        mean, variance, loc, raw.detach(), precision_of(raw, FLOOR), groups
    )
    every, their_log_det = expected_distance(
        mean, variance, loc, raw.detach(), precision_of(raw, FLOOR)
    )
    theirs = every.gather(-1, LABELS.unsqueeze(-1)).squeeze(-1)
    free = [mean, variance, loc]
    ours = pulled(groups.values(slots), log_det, free)
    for a, b in zip(ours, pulled(theirs, their_log_det, free), strict=True):
        assert apart(a, b) < 1e-10


@given(
    st.lists(st.lists(st.integers(0, 4), min_size=6, max_size=6), min_size=1, max_size=3),
    st.integers(0, 2),
)
def test_every_row_has_a_slot_of_its_author_and_no_other_row_is_there(
    labels: list[list[int]], spare: int
) -> None:
    known = torch.tensor(labels)
    m, n = known.shape
    groups = Groups.of(known, 5, widest(known, 5) + spare)
    assert groups.places.unique().numel() == m * n
    rows = torch.arange(m * n, dtype=torch.float64).reshape(m, n, 1) + 1
    lying = groups.gathered(rows)
    assert torch.equal(groups.vectors(lying), rows)
    assert int((lying > 0).sum()) == m * n
    for member, author, slot in (lying[..., 0] > 0).nonzero().tolist():
        number = int(lying[member, author, slot, 0]) - 1
        assert divmod(number, n)[0] == member
        assert known[member, number % n] == author


def test_groups_that_are_too_narrow_would_lose_rows() -> None:
    """Negative control: why the widest group is measured before an epoch."""
    labels = torch.tensor([[0, 0, 1]])
    assert widest(labels, 2) == 2
    assert Groups.of(labels, 2, 1).places.unique().numel() < 3


@pytest.mark.parametrize("component", ["student-t", "gaussian"])
@pytest.mark.parametrize("objective", ["bound", "algorithm-1"])
def test_the_terms_of_a_fleet_and_their_gradients_are_the_same(
    component: str, objective: str
) -> None:
    members = [Member(seed=i, component=component, joint_weight=1.0 + i) for i in range(M)]
    shape = Architecture(6, K, 3, (5,), objective=objective)
    fleet = MixtureVAE(shape, members).double()
    initialize_networks(fleet.encoder, fleet.decoder, range(M))
    with torch.no_grad():
        fleet.mixture.loc.normal_(generator=torch.Generator().manual_seed(1))
    targets = torch.randn(N, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    batch = Rows(targets, LABELS[0]).take(torch.arange(N).expand(M, N))
    gradients = []
    for rows in (batch, batch.grouped(K, widest(batch.labels, K))):
        terms = fleet(rows, Streams(range(M), dtype=torch.float64))
        fleet.zero_grad()
        terms.loss.sum().backward()
        gradients.append([p.grad for p in fleet.parameters() if p.grad is not None])
    for a, b in zip(*gradients, strict=True):
        assert torch.allclose(a, b, rtol=1e-9, atol=1e-12)
    # Negative control: with a label weight the other components pull as well.
    assert fleet.joint_only
    assert not MixtureVAE(shape, [Member(label_weight=1.0), Member()]).joint_only


@pytest.mark.gpu
@pytest.mark.parametrize("d", [5, 50, 200])
def test_on_a_gpu_it_is_the_same_to_single_precision(cuda: torch.device, d: int) -> None:
    found = []
    for device, dtype in ((torch.device("cpu"), torch.float64), (cuda, torch.float32)):
        parts = [part.detach().to(device, dtype).requires_grad_() for part in leaves(d, N, K)]
        labels, floor = LABELS.to(device), FLOOR.to(device, dtype)
        groups = Groups.of(labels, K, 16)
        slots, log_det = own_distance(*parts, precision_of(parts[3], floor), groups)
        total = groups.values(slots).sum() + log_det.sum()
        found.append([total, *torch.autograd.grad(total, parts)])
    for exact, ours in zip(*found, strict=True):
        assert apart(ours.double().cpu(), exact) < 1e-3
