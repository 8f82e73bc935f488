"""A member of a fleet is the lone model, whoever learns beside it; who learns from which rows."""

from dataclasses import replace

import pytest
import torch

from fleets import (
    LONG,
    N_TRAIN,
    PLAN,
    ROUNDING,
    N,
    assigned,
    drawn,
    gap,
    mixed_members,
    records,
    trained,
)
from whowrote.errors import InputError
from whowrote.model import Member, Rows, SparseRows
from whowrote.training import Assignment, Outcome
from whowrote.training.loop import cosine


@pytest.fixture(scope="module")
def fleet_of_64(rows: Rows) -> Outcome:
    return trained(mixed_members(64), rows, LONG)


def test_the_fleet_of_64_stops_early_and_shrinks(fleet_of_64: Outcome) -> None:
    """What the comparison below has to go through."""
    lengths = {len(records(fleet_of_64, i)) for i in range(64)}
    assert len(lengths) > 4
    assert min(lengths) < 6
    assert max(lengths) == LONG.max_epochs


@pytest.mark.parametrize("i", [0, 1, 2, 3, 10, 21, 23, 34, 45, 56, 63])
def test_a_member_of_a_fleet_is_the_lone_model(rows: Rows, fleet_of_64: Outcome, i: int) -> None:
    member = mixed_members(64)[i]
    alone = trained([member], rows, LONG)
    assert gap(fleet_of_64.fleet, i, alone.fleet) < ROUNDING
    assert fleet_of_64.best[i] == pytest.approx(alone.best[0], abs=ROUNDING)
    ours, theirs = records(fleet_of_64, i), alone.history
    assert [r.epoch for r in ours] == [r.epoch for r in theirs]
    for a, b in zip(ours, theirs, strict=True):
        assert a.terms == pytest.approx(b.terms, abs=1e-8)
        assert a.learning_rate == b.learning_rate


@pytest.mark.parametrize("i", [0, 34])
def test_another_seed_is_another_model(rows: Rows, fleet_of_64: Outcome, i: int) -> None:
    """The negative control of the test above."""
    other = replace(mixed_members(64)[i], seed=7)
    assert gap(fleet_of_64.fleet, i, trained([other], rows, LONG).fleet) > 1e-3


def test_a_member_without_dropout_is_the_lone_model_among_those_with(rows: Rows) -> None:
    members = [
        Member(seed=1),
        Member(seed=2, input_dropout=0.3),
        Member(seed=3, hidden_dropout=0.3),
        Member(seed=4, component="gaussian", input_dropout=0.2, hidden_dropout=0.2),
    ]
    together = trained(members, rows)
    for i, member in enumerate(members):
        assert gap(together.fleet, i, trained([member], rows).fleet) < ROUNDING


@pytest.mark.parametrize("watch", ["log-loss", "error", "bound"])
def test_validation_rows_of_mates_do_not_count(rows: Rows, watch: str) -> None:
    """Eleven and thirty rows to be watched on: each member sees its own."""
    members = [Member(seed=1), Member(seed=2)]
    parts = [assigned([1], 11), assigned([2], 30)]
    both = Assignment(parts[0].train + parts[1].train, parts[0].validation + parts[1].validation)
    plan = replace(PLAN, watch=watch, max_epochs=3)
    together = trained(members, rows, plan, assignment=both)
    for i, member in enumerate(members):
        alone = trained([member], rows, plan, assignment=parts[i])
        for a, b in zip(records(together, i), alone.history, strict=True):
            assert a.watched == pytest.approx(b.watched, abs=ROUNDING)
        assert gap(together.fleet, i, alone.fleet) < ROUNDING


def test_a_member_without_validation_does_not_stop_the_watch_of_others(rows: Rows) -> None:
    members = [Member(seed=1), Member(seed=2)]
    parts = [assigned([1]), assigned([2], 0)]
    both = Assignment(parts[0].train + parts[1].train, parts[0].validation + parts[1].validation)
    together = trained(members, rows, assignment=both)
    alone = trained(members[:1], rows, assignment=parts[0])
    assert gap(together.fleet, 0, alone.fleet) < ROUNDING


def thinned(rows: Rows) -> Rows:
    """Half of the values zero; the encoder reads the rest in compressed form."""
    dense = rows.targets * (drawn(N, 5, seed=8) > 0)
    row, column = dense.nonzero(as_tuple=True)
    start = torch.cat(
        [torch.zeros(1, dtype=torch.long), torch.bincount(row, minlength=N).cumsum(0)]
    )
    return Rows(dense, rows.labels, SparseRows(start, column, dense[row, column]))


def test_sparse_rows_train_as_their_dense_equivalent(rows: Rows) -> None:
    """Without dropout, whose masks differ."""
    sparse = thinned(rows)
    member = [Member(seed=3, label_weight=1.0)]
    ours, theirs = trained(member, sparse), trained(member, Rows(sparse.targets, rows.labels))
    assert gap(ours.fleet, 0, theirs.fleet) < ROUNDING
    # Negative control: the encoder did read the rows.
    assert gap(ours.fleet, 0, trained(member, rows).fleet) > 1e-3


def test_a_sparse_member_with_dropout_is_the_lone_model(rows: Rows) -> None:
    sparse = thinned(rows)
    members = mixed_members(5)
    together = trained(members, sparse)
    for i in (0, 4):
        assert gap(together.fleet, i, trained([members[i]], sparse).fleet) < ROUNDING


def test_records_keep_the_members_number_when_others_leave(fleet_of_64: Outcome) -> None:
    last = fleet_of_64.history[-1]
    survivors = [r.member for r in fleet_of_64.history if r.epoch == last.epoch]
    assert len(survivors) < 64
    members = mixed_members(64)
    for record in fleet_of_64.history:
        expected = members[record.member].learning_rate * cosine(LONG, record.epoch)
        assert record.learning_rate == pytest.approx(expected)


def test_steps_of_an_epoch() -> None:
    def steps(*sizes: int) -> tuple[int, int]:
        empty = tuple(torch.arange(0) for _ in sizes)
        return Assignment(tuple(torch.arange(n) for n in sizes), empty).steps(20)

    assert steps(60) == (3, 20)
    assert steps(69, 65) == (3, 20)
    assert steps(7) == (1, 7)
    with pytest.raises(
        InputError,
        match=r"training sets of \[60, 90\] rows, which make \[3, 4\] batches of 20; put them in",
    ):
        steps(60, 90)


def test_an_assignment_selects_and_grows() -> None:
    assignment = assigned([1, 2, 3])
    few = assignment.select([2, 0])
    assert torch.equal(few.train[0], assignment.train[2])
    assert torch.equal(few.validation[1], assignment.validation[0])
    more = assignment.with_rows(torch.tensor([118, 119]))
    assert [len(index) for index in more.train] == [N_TRAIN + 2] * 3
    assert more.validation is assignment.validation
