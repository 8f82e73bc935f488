"""The readings of the published text: which are one loss, and what their committed records say."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from whowrote.model import Architecture, Batch, Member, MixtureVAE, Streams, initialize_networks
from whowrote_experiments.commands import RECORDS
from whowrote_experiments.protocol import read_protocol
from whowrote_experiments.table1 import READINGS
from whowrote_experiments.trials import Trials, read

ROOT = Path(__file__).parents[2]
PROTOCOLS = ROOT / "experiments" / "published"
LABELS = torch.tensor([[0, 1, 2, 1, 0, 2, 2]])


def loss_and_gradient(component: str, objective: str, joint: float, label: float) -> Tensor:
    """The loss of seven labelled rows and its gradient in every parameter, in one vector."""
    shape = Architecture(5, 3, 2, (4,), objective=objective)
    member = Member(component=component, joint_weight=joint, label_weight=label, l1=0.01)
    fleet = MixtureVAE(shape, [member], torch.float64)
    initialize_networks(fleet.encoder, fleet.decoder, [0])
    random = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in fleet.mixture.parameters():
            parameter += torch.randn(parameter.shape, generator=random, dtype=torch.float64) / 2
    rows = torch.randn(1, 7, 5, generator=random, dtype=torch.float64)
    streams = Streams([0], torch.device("cpu"), torch.float64)
    loss = fleet(Batch(rows, rows, LABELS), streams).loss.sum()
    loss.backward()
    moved = [p.grad.flatten() for p in fleet.parameters() if p.grad is not None]
    return torch.cat([loss.detach().reshape(1), *moved])


@pytest.mark.parametrize("component", ["student-t", "gaussian"])
def test_cross_entropy_is_one_loss_for_the_bound_and_for_algorithm_1(component: str) -> None:
    both = [loss_and_gradient(component, one, 0.0, 1.0) for one in ("bound", "algorithm-1")]
    assert torch.equal(*both)


def test_the_joint_score_is_one_loss_for_gaussians_alone() -> None:
    both = [loss_and_gradient("gaussian", one, 1.0, 0.0) for one in ("bound", "algorithm-1")]
    assert torch.equal(*both)
    apart = [loss_and_gradient("student-t", one, 1.0, 0.0) for one in ("bound", "algorithm-1")]
    assert (apart[0] - apart[1]).abs().max() > 1e-2  # negative control


def test_readings_differ_in_their_objective_alone() -> None:
    first, readings, both = (
        read_protocol(PROTOCOLS / f"{name}.toml") for name in ("blog30", "readings", "both_terms")
    )
    methods = [*readings.methods, *both.methods]
    assert {*READINGS, *READINGS.values()} == {one.name for one in methods} | {"GMM-VAE"}
    grid = first.methods[0].grid
    words = ("component", "objective", "joint_weight", "label_weight")
    assert len({str([method.fixed[word] for word in words]) for method in methods}) == 6
    for method in methods:
        assert method.grid == grid
        assert method.plan == {"final_rate": 0.05}
        assert {k: v for k, v in method.fixed.items() if k not in words} == {
            **{"dropout": 0.0, "df_rate": 1.0, "patience": 6},
            **{"activation": "tanh", "initial_df": 5.0, "average": 0.99},
        }
    for protocol in (readings, both):
        assert (protocol.seed, protocol.folds) == (first.seed, first.folds)
        assert set(protocol.sizes) < set(first.sizes)


def test_each_change_is_one_change() -> None:
    methods = {one.name: one for one in read_protocol(PROTOCOLS / "changes.toml").methods}
    plain, whole = ({**methods[n].fixed, **methods[n].grid} for n in ("D = 50", "D = 50, all five"))
    changed = {
        "label weight": {"label_weight"},
        "wide": {"hidden", "activation"},
        "dropout": {"dropout"},
        "floor": {"scale_floor"},
    }
    for name, settings in changed.items():
        alone, without = (methods[f"D = 50, {w}{name}"] for w in ("", "all but "))
        assert _differing({**alone.fixed, **alone.grid}, plain) == settings
        assert _differing({**without.fixed, **without.grid}, whole) == settings
        assert (alone.members, without.members) == ((), methods["D = 50, all five"].members)
    assert _differing(plain, whole) == {"l1"}.union(*changed.values())  # negative control
    members = methods["D = 50, eight members"]
    assert members.members == [8]
    assert not _differing({**members.fixed, **members.grid}, plain)


def _differing(first: dict[str, object], second: dict[str, object]) -> set[str]:
    return {name for name in {*first, *second} if first.get(name) != second.get(name)}


# -- the committed records -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def committed() -> Trials:
    return read(ROOT / RECORDS).of("blog30")


def test_the_records_of_the_readings_are_whole(committed: Trials) -> None:
    for name, n in ((name, 2_500 if "both" in name else 5_000) for name in READINGS):
        assert committed.counts()[name] == (n, n)
    changes = read(ROOT / "experiments" / "results" / "changes")
    assert all(done == wanted for done, wanted in changes.counts().values())


def test_readings_stand_on_the_splits_and_vectors_of_the_first_records(committed: Trials) -> None:
    changes = read(ROOT / "experiments" / "results" / "changes")
    first = {(row.fold, row.share): row.split for row in committed.rows if row.method == "SMM-VAE"}
    data = {row.data for row in committed.rows if row.method == "SMM-VAE"}
    assert len(set(first.values())) == 25
    new = [row for row in committed.rows if row.method in {*READINGS, *READINGS.values()}]
    for row in (*new, *changes.rows):
        assert row.split == first[row.fold, row.share]
        assert {row.data} == data
