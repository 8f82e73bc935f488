"""Early stopping: the best state is kept, patience counts, validation losses are what they say."""

import dataclasses
from dataclasses import replace

import pytest
import torch

from fleets import ARCHITECTURE, PLAN, ROUNDING, assigned, gap, losses_now, records, trained
from whowrote.model import Member, MixtureVAE, Rows, Streams
from whowrote.training import Plan, train, validation_losses


@pytest.mark.parametrize("watch", ["log-loss", "error", "bound"])
def test_the_best_state_is_restored(rows: Rows, watch: str) -> None:
    plan = Plan(max_epochs=12, batch_size=20, patience=3, final_rate=1.0, watch=watch)
    members = [Member(seed=s, learning_rate=0.05, label_weight=5.0) for s in range(6)]
    outcome = trained(members, rows, plan)
    now = losses_now(outcome, rows, watch)
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


def test_validation_losses_are_means_over_own_rows(rows: Rows) -> None:
    fleet = trained([Member(seed=1), Member(seed=2)], rows).fleet.requires_grad_(False)
    index = [torch.arange(7), torch.arange(20, 50)]
    log_loss, error = (validation_losses(fleet, rows, index, w) for w in ("log-loss", "error"))
    for i, own in enumerate(index):
        log_gamma = fleet.select([i]).scores(rows.targets[own][None]).log_responsibilities[0]
        picked = log_gamma.gather(-1, rows.labels[own][:, None]).detach()
        assert log_loss[i] == pytest.approx(-float(picked.mean()))
        wrong = log_gamma.argmax(-1) != rows.labels[own]
        assert error[i] == pytest.approx(float(wrong.double().mean()))
    # Negative control: the padding of the shorter counted as rows.
    everyone = validation_losses(
        fleet, rows, [torch.cat([index[0], torch.zeros(23).long()])] * 2, "error"
    )
    assert error[0] != pytest.approx(everyone[0])


def test_the_watched_bound_ignores_labels_and_dropout(rows: Rows) -> None:
    members = [Member(seed=1, hidden_dropout=0.5, input_dropout=0.5, label_weight=10.0)]
    fleet, index = trained(members, rows).fleet, torch.arange(30)
    value = validation_losses(fleet, rows, [index], "bound")[0]
    with torch.no_grad():
        streams = Streams([0], dtype=torch.float64)
        terms = fleet(rows.take(index[None]).unlabelled(), streams, training=False)
        noisy = fleet(rows.take(index[None]), Streams([0], dtype=torch.float64))
    assert value == pytest.approx(-float(terms.bound.mean()))
    assert value != pytest.approx(-float(noisy.bound.mean()), abs=1e-3)


def test_long_validation_sets_are_read_in_parts(rows: Rows, monkeypatch) -> None:
    fleet = trained([Member(seed=1), Member(seed=2)], rows).fleet
    index = [torch.arange(50), torch.arange(33)]
    whole = validation_losses(fleet, rows, index, "log-loss")
    monkeypatch.setattr("whowrote.training.loop.EVALUATION_ROWS", 7)
    assert validation_losses(fleet, rows, index, "log-loss") == pytest.approx(whole)


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
