"""Members divided among threads: the same members, and an exception in one thread halts all."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch

from fleets import ARCHITECTURE, PLAN, ROUNDING, assigned, gap, mixed_members, trained
from whowrote.model import Member, MixtureVAE, Rows, Streams
from whowrote.training import DivergenceWarning, Epoch, train


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
