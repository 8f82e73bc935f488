"""A member that leaves the finite range is stopped alone, at its last good state, and reported."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from fleets import ARCHITECTURE, N_VALIDATION, PLAN, ROUNDING, N, assigned, gap, records, trained
from whowrote.errors import InputError
from whowrote.model import Member, MixtureVAE, Rows, Streams
from whowrote.training import (
    Assignment,
    DivergenceError,
    DivergenceWarning,
    Epoch,
    Plan,
    initialize,
    train,
)


def with_poison(rows: Rows, value: float) -> tuple[Rows, int]:
    """One more row, which only the member that is given it will see."""
    poison = torch.full((1, 5), value, dtype=torch.float64)
    targets = torch.cat([rows.targets, poison])
    return Rows(targets, torch.cat([rows.labels, torch.zeros(1, dtype=torch.long)])), N


def poisoned(assignment: Assignment, member: int, row: int) -> Assignment:
    train = list(assignment.train)
    train[member] = torch.cat([train[member][:-1], torch.tensor([row])])
    return Assignment(tuple(train), assignment.validation)


SOUND = [Member(seed=1), Member(seed=3, component="gaussian", hidden_dropout=0.3)]


def finite_answers(fleet: MixtureVAE, rows: Rows) -> Tensor:
    """Per member: does it give finite terms on sound rows?"""
    index = torch.arange(30).expand(len(fleet), 30)
    with torch.no_grad():
        streams = Streams([0] * len(fleet), dtype=torch.float64)
        terms = fleet(rows.take(index), streams, training=False)
    return torch.stack(list(terms.means().values())).isfinite().all(0)


@pytest.mark.parametrize("n_validation", [N_VALIDATION, 0])
def test_an_infinite_loss_freezes_its_member_alone(rows: Rows, n_validation: int) -> None:
    """A row whose squared error overflows: finite inputs, infinite reconstruction."""
    more, row = with_poison(rows, 1e200)
    members = [SOUND[0], Member(seed=2, hidden_dropout=0.3), SOUND[1]]
    members = [replace(member, hidden_dropout=0.3) for member in members]
    assignment = poisoned(assigned([1, 2, 3], n_validation), 1, row)
    fleet = MixtureVAE(ARCHITECTURE, members).double()
    initialize(fleet, more, assigned([1, 2, 3], n_validation))
    start = fleet.select([1])
    streams = Streams([1, 2, 3], dtype=torch.float64)
    with pytest.warns(DivergenceWarning, match=r"member 1 diverged in epoch 1.*'reconstruction'"):
        outcome = train(fleet, more, assignment, PLAN, streams)
    assert [(d.member, d.epoch, d.term) for d in outcome.diverged] == [(1, 1, "reconstruction")]
    assert len(records(outcome, 1)) == 1
    assert gap(outcome.fleet, 1, start) == 0
    assert finite_answers(outcome.fleet, rows).all()
    alone = trained([members[0], members[2]], rows, assignment=assigned([1, 3], n_validation))
    for i, j in ((0, 0), (2, 1)):
        assert gap(outcome.fleet, i, alone.fleet, j) < ROUNDING


def test_the_warning_names_the_cure(rows: Rows) -> None:
    more, row = with_poison(rows, 1e200)
    assignment = poisoned(assigned([1, 2]), 1, row)
    fleet = MixtureVAE(ARCHITECTURE, [Member(seed=1), Member(seed=2)]).double()
    initialize(fleet, rows, assigned([1, 2]))
    with pytest.warns(DivergenceWarning, match="Lower learning_rate, raise scale_floor"):
        train(fleet, more, assignment, PLAN, Streams([1, 2], dtype=torch.float64))


@pytest.mark.parametrize("n_validation", [N_VALIDATION, 0])
@pytest.mark.parametrize("watch", ["log-loss", "error"])
@pytest.mark.parametrize("batch_size", [20, 60])
def test_an_absurd_step_size_leaves_a_usable_state(
    rows: Rows, n_validation: int, watch: str, batch_size: int
) -> None:
    """Frozen at its last good state: one that answers; and the others never notice."""
    wild = Member(seed=2, learning_rate=1e6)
    plan = Plan(max_epochs=4, batch_size=batch_size, watch=watch)
    with pytest.warns(DivergenceWarning, match=r"member 1 diverged in epoch \d"):
        outcome = trained(
            [Member(seed=1), wild, Member(seed=3)], rows, plan, n_validation=n_validation
        )
    assert [d.member for d in outcome.diverged] == [1]
    assert finite_answers(outcome.fleet, rows).tolist() == [True, True, True]
    alone = trained([Member(seed=1), Member(seed=3)], rows, plan, n_validation=n_validation)
    assert gap(outcome.fleet, 0, alone.fleet, 0) < ROUNDING
    assert gap(outcome.fleet, 2, alone.fleet, 1) < ROUNDING


def test_a_later_divergence_keeps_what_was_learnt(rows: Rows) -> None:
    """Poison arrives in the third epoch: the state of the second is kept."""
    more, row = with_poison(rows, 1e200)
    plan = replace(PLAN, final_rate=1.0)
    assignment = assigned([1, 2], 0)

    def poison(record: Epoch) -> None:
        if record.epoch == 2 and record.member == 1:
            assignment.train[1][:] = row

    with pytest.warns(DivergenceWarning, match="member 1 diverged in epoch 3"):
        outcome = trained(
            [Member(seed=1), Member(seed=2)], more, plan, assignment=assignment, on_epoch=poison
        )
    for epochs, same in ((2, True), (1, False), (3, False)):
        shorter = trained([Member(seed=2)], rows, replace(plan, max_epochs=epochs), n_validation=0)
        assert (gap(outcome.fleet, 1, shorter.fleet) < ROUNDING) == same


@pytest.mark.parametrize("n_validation", [N_VALIDATION, 0])
def test_all_diverging_at_once_is_an_error(rows: Rows, n_validation: int) -> None:
    broken = Rows(rows.targets * 1e200, rows.labels)
    fleet = MixtureVAE(ARCHITECTURE, [Member(seed=1), Member(seed=2)]).double()
    assignment = assigned([1, 2], n_validation)
    initialize(fleet, rows, assignment)
    with pytest.raises(DivergenceError, match=r"diverged in epoch 1.*No state was ever usable"):
        train(fleet, broken, assignment, PLAN, Streams([1, 2], dtype=torch.float64))


@pytest.mark.parametrize("n_validation", [N_VALIDATION, 0])
def test_one_absurd_step_of_all_is_an_error(rows: Rows, n_validation: int) -> None:
    """One batch an epoch: the first step is absurd, so no trained state was ever usable."""
    members = [Member(seed=s, learning_rate=1e6) for s in (1, 2)]
    with pytest.raises(DivergenceError, match="No state was ever usable"):
        trained(members, rows, Plan(max_epochs=4, batch_size=60), n_validation=n_validation)


def test_a_divergence_error_is_bad_input_and_arithmetic() -> None:
    assert issubclass(DivergenceError, InputError)
    assert issubclass(DivergenceError, ArithmeticError)
    assert issubclass(DivergenceWarning, UserWarning)


def test_a_nan_row_of_one_member_does_not_stop_the_others(rows: Rows) -> None:
    """From the placement of the components on."""
    more, row = with_poison(rows, math.nan)
    members = [Member(seed=1), Member(seed=2), Member(seed=3)]
    with pytest.warns(DivergenceWarning, match="member 1 diverged in epoch 1"):
        outcome = trained(members, more, assignment=poisoned(assigned([1, 2, 3]), 1, row))
    alone = trained([members[0], members[2]], rows)
    assert gap(outcome.fleet, 0, alone.fleet, 0) < ROUNDING
    assert gap(outcome.fleet, 2, alone.fleet, 1) < ROUNDING
