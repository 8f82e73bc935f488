"""The loop: what it records, how it steps, where it starts, and that it learns."""

import math
import warnings
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from fleets import ARCHITECTURE, PLAN, N, assigned, gap, losses_now, mixed_members, trained
from whowrote.errors import InputError
from whowrote.model import Batch, Member, MixtureVAE, Rows, Streams
from whowrote.model.fleet import snapshot
from whowrote.training import Epoch, Plan, initialize, train
from whowrote.training.loop import cosine


def test_training_learns(rows: Rows) -> None:
    outcome = trained([Member(seed=1, label_weight=5.0, learning_rate=0.02)], rows)
    losses = [
        r.terms["l1"] - sum(v for name, v in r.terms.items() if name != "l1")
        for r in outcome.history
    ]
    assert losses[-1] < losses[0] - 0.5
    errors = losses_now(outcome, rows, "error")
    assert errors[0] < 0.5  # two thirds by chance


def test_results_depend_on_seeds_alone(rows: Rows) -> None:
    outcomes = []
    for seed in (0, 1):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            before = torch.get_rng_state()
            outcomes.append(trained(mixed_members(2), rows))
            assert torch.equal(torch.get_rng_state(), before)
    for a, b in zip(*(o.fleet.parameters() for o in outcomes), strict=True):
        assert torch.equal(a, b)
    assert [r.terms for r in outcomes[0].history] == [r.terms for r in outcomes[1].history]
    other = [replace(m, seed=m.seed + 1) for m in mixed_members(2)]
    assert gap(outcomes[0].fleet, 0, trained(other, rows).fleet) > 1e-3


def test_history_has_a_record_per_member_and_epoch(rows: Rows) -> None:
    seen: list[Epoch] = []
    members = [Member(seed=1, learning_rate=0.01), Member(seed=2, learning_rate=0.002)]
    outcome = trained(
        members, rows, replace(PLAN, patience=99), phase="warm-up", on_epoch=seen.append
    )
    assert seen == outcome.history
    assert [(r.epoch, r.member) for r in seen] == [(e, m) for e in range(1, 7) for m in (0, 1)]
    for record in seen:
        assert record.phase == "warm-up"
        assert list(record.terms) == ["reconstruction", "entropy", "prior", "labels", "l1"]
        assert all(math.isfinite(value) for value in record.terms.values())
        rate = members[record.member].learning_rate * cosine(PLAN, record.epoch)
        assert record.learning_rate == pytest.approx(rate)
        assert record.seconds > 0
        assert record.to_dict()["watched"] == record.watched


def test_the_precision_of_a_plan_is_one_of_two() -> None:
    assert Plan().precision == "high"
    assert Plan(precision="highest").precision == "highest"
    with pytest.raises(InputError, match="precision is 'medium'; it must be one of highest, high"):
        Plan(precision="medium")


def test_cosine_falls_from_one_to_the_final_rate() -> None:
    plan = Plan(max_epochs=11, final_rate=0.1)
    values = [cosine(plan, epoch) for epoch in range(1, 12)]
    assert values[0] == 1
    assert values[5] == pytest.approx(0.55)
    assert values[-1] == pytest.approx(0.1)
    assert values == sorted(values, reverse=True)
    assert values[2] != pytest.approx(0.82)  # not a straight line
    assert cosine(Plan(max_epochs=1), 1) == 1


def test_an_epoch_reads_every_row_once(rows: Rows) -> None:
    """Sixty rows in three batches of twenty, of each member's own."""
    taken: list[Tensor] = []

    class Spy(Rows):
        def take(self, index: Tensor) -> Batch:
            if torch.is_grad_enabled():  # a step, not a look at the state
                taken.append(index)
            return Rows.take(self, index)

    spy = Spy(rows.targets, rows.labels)
    fleet = MixtureVAE(ARCHITECTURE, [Member(seed=1), Member(seed=2)]).double()
    assignment = assigned([1, 2], 0)
    train(fleet, spy, assignment, replace(PLAN, max_epochs=2), Streams([1, 2], dtype=torch.float64))
    assert len(taken) == 6
    for m in (0, 1):
        first, second = (torch.cat([b[m] for b in taken[e : e + 3]]) for e in (0, 3))
        assert torch.equal(first.sort().values, assignment.train[m].sort().values)
        assert not torch.equal(first, second)  # another order in every epoch


def test_training_changes_the_given_fleet_and_no_other(rows: Rows) -> None:
    fleet = MixtureVAE(ARCHITECTURE, [Member(seed=1)]).double()
    initialize(fleet, rows, assigned([1]))
    twin = fleet.select([0])
    before = snapshot(twin)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        outcome = train(fleet, rows, assigned([1]), PLAN, Streams([1], dtype=torch.float64))
    assert outcome.fleet is fleet
    assert all(torch.equal(value, before[name]) for name, value in twin.named_parameters())
    assert gap(fleet, 0, twin) > 1e-4


def test_initialization_places_components_on_the_encoded_rows(rows: Rows) -> None:
    """mu_k is the mean latent of the author's rows, of each member's own."""
    fleet = MixtureVAE(ARCHITECTURE, [Member(seed=1), Member(seed=2)]).double()
    assignment = assigned([1, 2])
    initialize(fleet, rows, assignment)
    batch = rows.take(torch.stack(assignment.train))
    x = fleet.encode(batch.inputs).mean.detach()
    for m in (0, 1):
        means = torch.stack([x[m][batch.labels[m] == k].mean(0) for k in range(3)])
        assert torch.allclose(fleet.mixture.loc[m].detach(), means, atol=1e-10)
    # Negative control: not of a mate's rows.
    assert not torch.allclose(fleet.mixture.loc[0], fleet.mixture.loc[1], atol=1e-3)


def test_components_are_placed_from_all_parts(rows: Rows, monkeypatch) -> None:
    def placed(n_rows: int) -> MixtureVAE:
        monkeypatch.setattr("whowrote.training.loop.CACHED_ROWS", n_rows)
        fleet = MixtureVAE(ARCHITECTURE, [Member(seed=1), Member(seed=2)]).double()
        initialize(fleet, rows, assigned([1, 2]))
        return fleet

    whole, parts = placed(N).mixture, placed(7).mixture
    for one, other in zip(whole.parameters(), parts.parameters(), strict=True):
        assert torch.allclose(one, other, rtol=1e-9)
    # Negative control: the first part alone would place them elsewhere.
    monkeypatch.setattr("whowrote.training.loop.PLACEMENT_ROWS", 7)
    assert not torch.allclose(placed(7).mixture.loc, whole.loc, rtol=1e-3)
