"""The loop: a member of a fleet is the lone model; early stops, averages, divergence, records."""

import dataclasses
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from threads import one_thread as one_thread
from whowrote.errors import InputError
from whowrote.model import Architecture, Batch, Member, MixtureVAE, Rows, SparseRows, Streams
from whowrote.model.fleet import snapshot
from whowrote.training.loop import (
    Assignment,
    DivergenceError,
    DivergenceWarning,
    Epoch,
    Outcome,
    Plan,
    cosine,
    initialize,
    train,
    watched_values,
)

ROUNDING = 1e-9
ARCHITECTURE = Architecture(n_features=5, n_components=3, latent_dim=2, hidden=(4,))
PLAN = Plan(max_epochs=6, batch_size=20, patience=3)
N, N_TRAIN, N_VALIDATION = 120, 60, 20


def drawn(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


@pytest.fixture(scope="module")
def rows() -> Rows:
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


# ------------------------------------------------------------------- a member is a lone model


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


LONG = Plan(max_epochs=12, batch_size=20, patience=2)


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


@pytest.mark.parametrize("i", [0, 1, 2, 3])
def test_a_member_without_dropout_is_the_lone_model_among_those_with(rows: Rows, i: int) -> None:
    members = [
        Member(seed=1),
        Member(seed=2, input_dropout=0.3),
        Member(seed=3, hidden_dropout=0.3),
        Member(seed=4, component="gaussian", input_dropout=0.2, hidden_dropout=0.2),
    ]
    together = trained(members, rows)
    assert gap(together.fleet, i, trained([members[i]], rows).fleet) < ROUNDING


@pytest.mark.parametrize("watch", ["log-loss", "error", "bound"])
@pytest.mark.parametrize("i", [0, 1])
def test_validation_rows_of_mates_do_not_count(rows: Rows, watch: str, i: int) -> None:
    """Eleven and thirty rows to be watched on: each member sees its own."""
    members = [Member(seed=1), Member(seed=2)]
    parts = [assigned([1], 11), assigned([2], 30)]
    both = Assignment(parts[0].train + parts[1].train, parts[0].validation + parts[1].validation)
    plan = replace(PLAN, watch=watch, max_epochs=3)
    together = trained(members, rows, plan, assignment=both)
    alone = trained([members[i]], rows, plan, assignment=parts[i])
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


# ------------------------------------------------------------------------------ determinism


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


# --------------------------------------------------------------------------- early stopping


def watched_now(outcome: Outcome, rows: Rows, watch: str = "log-loss") -> list[float]:
    seeds = [member.seed for member in outcome.fleet.members]
    return watched_values(outcome.fleet, rows, assigned(seeds).validation, watch)


@pytest.mark.parametrize("watch", ["log-loss", "error", "bound"])
def test_the_best_state_is_restored(rows: Rows, watch: str) -> None:
    plan = Plan(max_epochs=12, batch_size=20, patience=3, final_rate=1.0, watch=watch)
    members = [Member(seed=s, learning_rate=0.05, label_weight=5.0) for s in range(6)]
    outcome = trained(members, rows, plan)
    now = watched_now(outcome, rows, watch)
    for i in range(6):
        seen = [r.watched for r in records(outcome, i)]
        assert outcome.best[i] == min(seen)
        assert now[i] == pytest.approx(min(seen), abs=ROUNDING)
    # Negative control: the last state is not the best for all.
    lasts = [records(outcome, i)[-1].watched for i in range(6)]
    assert max(a - b for a, b in zip(lasts, outcome.best, strict=True)) > 1e-6


def test_patience_counts_epochs_without_gain(rows: Rows) -> None:
    members = [Member(seed=s, learning_rate=0.1, label_weight=5.0) for s in range(4)]
    outcome = trained(members, rows, Plan(max_epochs=30, batch_size=20, patience=2))
    for i in range(4):
        seen = [r.watched for r in records(outcome, i)]
        best = seen.index(min(seen)) + 1
        assert len(seen) == min(30, best + 2)
    assert min(len(records(outcome, i)) for i in range(4)) < 30


def test_without_validation_rows_the_last_state_counts(rows: Rows) -> None:
    outcome = trained([Member(seed=1)], rows, n_validation=0)
    assert [r.epoch for r in outcome.history] == list(range(1, 7))
    assert all(r.watched is None for r in outcome.history)
    shorter = trained([Member(seed=1)], rows, replace(PLAN, max_epochs=5), n_validation=0)
    assert gap(outcome.fleet, 0, shorter.fleet) > 1e-6


def test_the_average_is_what_is_watched_and_kept(rows: Rows) -> None:
    """With an average the kept state differs from the plain last iterate, of the same path."""
    with_average, without = (
        trained([Member(seed=1)], rows, replace(PLAN, average=a), n_validation=0)
        for a in (0.99, 0.0)
    )
    same_path = zip(with_average.history, without.history, strict=True)
    assert all(a.terms == b.terms for a, b in same_path)
    assert gap(with_average.fleet, 0, without.fleet) > 1e-4


def test_training_learns(rows: Rows) -> None:
    outcome = trained([Member(seed=1, label_weight=5.0, learning_rate=0.02)], rows)
    losses = [
        r.terms["l1"] - sum(v for name, v in r.terms.items() if name != "l1")
        for r in outcome.history
    ]
    assert losses[-1] < losses[0] - 0.5
    errors = watched_now(outcome, rows, "error")
    assert errors[0] < 0.5  # two thirds by chance


# ---------------------------------------------------------------------- what is being watched


def test_watched_values_are_means_over_own_rows(rows: Rows) -> None:
    fleet = trained([Member(seed=1), Member(seed=2)], rows).fleet.requires_grad_(False)
    index = [torch.arange(7), torch.arange(20, 50)]
    log_loss, error = (watched_values(fleet, rows, index, w) for w in ("log-loss", "error"))
    for i, own in enumerate(index):
        log_gamma = fleet.select([i]).scores(rows.targets[own][None]).log_responsibilities[0]
        picked = log_gamma.gather(-1, rows.labels[own][:, None]).detach()
        assert log_loss[i] == pytest.approx(-float(picked.mean()))
        wrong = log_gamma.argmax(-1) != rows.labels[own]
        assert error[i] == pytest.approx(float(wrong.double().mean()))
    # Negative control: the padding of the shorter counted as rows.
    everyone = watched_values(
        fleet, rows, [torch.cat([index[0], torch.zeros(23).long()])] * 2, "error"
    )
    assert error[0] != pytest.approx(everyone[0])


def test_the_watched_bound_ignores_labels_and_dropout(rows: Rows) -> None:
    members = [Member(seed=1, hidden_dropout=0.5, input_dropout=0.5, label_weight=10.0)]
    fleet, index = trained(members, rows).fleet, torch.arange(30)
    value = watched_values(fleet, rows, [index], "bound")[0]
    with torch.no_grad():
        streams = Streams([0], dtype=torch.float64)
        terms = fleet(rows.take(index[None]).unlabelled(), streams, training=False)
        noisy = fleet(rows.take(index[None]), Streams([0], dtype=torch.float64))
    assert value == pytest.approx(-float(terms.bound.mean()))
    assert value != pytest.approx(-float(noisy.bound.mean()), abs=1e-3)


def test_long_validation_sets_are_read_in_parts(rows: Rows, monkeypatch) -> None:
    fleet = trained([Member(seed=1), Member(seed=2)], rows).fleet
    index = [torch.arange(50), torch.arange(33)]
    whole = watched_values(fleet, rows, index, "log-loss")
    monkeypatch.setattr("whowrote.training.loop.EVALUATION_ROWS", 7)
    assert watched_values(fleet, rows, index, "log-loss") == pytest.approx(whole)


# -------------------------------------------------------------------------------- divergence


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
    """Frozen at its last good state: one that answers; and its mates never notice."""
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


# ------------------------------------------------------------------------ records and plans


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


def test_records_keep_the_members_number_when_others_leave(fleet_of_64: Outcome) -> None:
    last = fleet_of_64.history[-1]
    survivors = [r.member for r in fleet_of_64.history if r.epoch == last.epoch]
    assert len(survivors) < 64
    members = mixed_members(64)
    for record in fleet_of_64.history:
        expected = members[record.member].learning_rate * cosine(LONG, record.epoch)
        assert record.learning_rate == pytest.approx(expected)


def test_cosine_falls_from_one_to_the_final_rate() -> None:
    plan = Plan(max_epochs=11, final_rate=0.1)
    values = [cosine(plan, epoch) for epoch in range(1, 12)]
    assert values[0] == 1
    assert values[5] == pytest.approx(0.55)
    assert values[-1] == pytest.approx(0.1)
    assert values == sorted(values, reverse=True)
    assert values[2] != pytest.approx(0.82)  # not a straight line
    assert cosine(Plan(max_epochs=1), 1) == 1


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


def test_a_second_phase_that_only_worsens_keeps_the_first(rows: Rows) -> None:
    member = Member(seed=5, learning_rate=0.02, label_weight=10.0)
    first = trained([member], rows)
    good = first.fleet.select([0])
    wild = MixtureVAE(ARCHITECTURE, [dataclasses.replace(member, learning_rate=3.0)]).double()
    wild.load_state_dict(first.fleet.state_dict())
    streams = Streams([5], dtype=torch.float64)
    second = train(wild, rows, assigned([5]), PLAN, streams, trained=True)
    assert gap(second.fleet, 0, good) == 0.0
    assert second.best == pytest.approx(first.best)
    # Negative control: as a first phase the same steps leave that state.
    wild.load_state_dict(good.state_dict())
    fresh = train(wild, rows, assigned([5]), PLAN, Streams([5], dtype=torch.float64))
    assert gap(fresh.fleet, 0, good) > 1e-3


# --------------------------------------------------------------------------- side by side


@contextmanager
def threads(n: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def test_members_in_two_threads_are_the_members_in_one(rows: Rows) -> None:
    members = mixed_members(5)
    with threads(1):
        one = trained(members, rows)
    with threads(2):
        two = trained(members, rows)
        assert torch.get_num_threads() == 2
    for i in range(5):
        assert gap(one.fleet, i, two.fleet.select([i])) < ROUNDING
    assert two.best == pytest.approx(one.best)
    told = [[(r.epoch, r.member) for r in outcome.history] for outcome in (one, two)]
    assert told[0] == told[1]
    # Negative control: other seeds lead elsewhere.
    with threads(2):
        other = trained([replace(m, seed=m.seed + 1) for m in members], rows)
    assert gap(one.fleet, 0, other.fleet.select([0])) > 1e-3


def test_a_second_phase_in_two_threads_keeps_what_was_good(rows: Rows) -> None:
    members = [Member(seed=s, learning_rate=0.02, label_weight=10.0) for s in (5, 6)]
    with threads(2):
        first = trained(members, rows)
        wild = [replace(member, learning_rate=3.0) for member in members]
        fleet = MixtureVAE(ARCHITECTURE, wild).double()
        fleet.load_state_dict(first.fleet.state_dict())
        streams = Streams([5, 6], dtype=torch.float64)
        second = train(fleet, rows, assigned([5, 6]), PLAN, streams, trained=True)
    assert second.best == pytest.approx(first.best)
    for i in range(2):
        assert gap(second.fleet, i, first.fleet.select([i])) == 0.0


def test_an_exception_in_one_thread_halts_the_others(rows: Rows) -> None:
    seen = []

    def interrupt(record: Epoch) -> None:
        seen.append(record)
        raise KeyboardInterrupt

    plan = replace(PLAN, max_epochs=1000, patience=1000)
    members = mixed_members(4)
    with threads(2), pytest.raises(KeyboardInterrupt):
        trained(members, rows, plan, on_epoch=interrupt)
    assert len(seen) < 10


def test_divergence_in_two_threads_names_the_right_member(rows: Rows) -> None:
    members = [Member(seed=s, learning_rate=0.01) for s in range(4)]
    members[3] = replace(members[3], learning_rate=1e30)
    with threads(2), pytest.warns(DivergenceWarning, match="member 3 diverged"):
        outcome = trained(members, rows)
    assert [d.member for d in outcome.diverged] == [3]
    assert all(map(math.isfinite, outcome.best[:3]))
