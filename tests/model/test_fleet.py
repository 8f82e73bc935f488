"""Members are indices: choosing, copying and restoring them touches no other."""

import pytest
import torch

from whowrote.model import Architecture, Batch, Member, MixtureVAE, Streams
from whowrote.model.fleet import snapshot

MEMBERS = [
    Member(seed=1, component="student-t", l1=0.1, label_weight=1.0),
    Member(seed=2, component="gaussian", scale_floor=0.5, joint_weight=0.3),
    Member(seed=3, component="student-t", label_weight=10.0, scale_floor=0.9),
]


def test_the_encoder_reads_what_it_is_given() -> None:
    assert Architecture(4, 3, 2, (5,)).encoder_width == 4
    assert Architecture(4, 3, 2, (5,), n_inputs=100).encoder_width == 100


def test_members_keep_their_own_settings(build) -> None:
    fleet = build.fleet(MEMBERS)
    assert len(fleet) == 3
    for name in ("l1", "label_weight", "joint_weight"):
        assert getattr(fleet, name).tolist() == pytest.approx([getattr(m, name) for m in MEMBERS])
    assert fleet.mixture.scale_floor.tolist() == pytest.approx([m.scale_floor for m in MEMBERS])


def test_initial_df_is_each_members_own() -> None:
    members = [Member(initial_df=5.0), Member(initial_df=30.0)]
    df = MixtureVAE(Architecture(4, 3, 2, (5,)), members).mixture.df
    assert torch.allclose(df, torch.tensor([[5.0] * 3, [30.0] * 3]))


@pytest.mark.parametrize("keep", [[0], [1], [2, 0], [0, 1, 2]])
@pytest.mark.parametrize("objective", ["bound", "algorithm-1"])
def test_a_selected_member_answers_as_before(build, apart, keep: list[int], objective: str) -> None:
    """Also a mixed fleet of families, which becomes one family when only it is left."""
    fleet, batch = build.fleet(MEMBERS, objective=objective), build.batch(3)
    seeds = [m.seed for m in fleet.members]
    part = Batch(*(v[keep] for v in (batch.inputs, batch.targets, batch.labels)))
    whole = fleet(batch, Streams(seeds, dtype=torch.float64))
    chosen = fleet.select(keep)
    own = chosen(part, Streams([seeds[i] for i in keep], dtype=torch.float64))
    assert [m.seed for m in chosen.members] == [seeds[i] for i in keep]
    for name in ("reconstruction", "entropy", "prior", "labels", "l1"):
        assert apart(getattr(own, name), getattr(whole, name)[keep]) < 1e-12
    # Negative control: the rows and streams of another.
    if keep == [0]:
        assert apart(own.reconstruction, whole.reconstruction[[1]]) > 1e-2


def test_a_selection_shares_no_memory(build) -> None:
    fleet = build.fleet(MEMBERS)
    before = snapshot(fleet)
    chosen = fleet.select([1])
    for p in chosen.requires_grad_(False).parameters():
        p.add_(1.0)
    for name, value in fleet.named_parameters():
        assert torch.equal(value, before[name])


def test_a_snapshot_is_a_copy(build) -> None:
    fleet = build.fleet(MEMBERS)
    state = snapshot(fleet)
    kept = {name: value.clone() for name, value in state.items()}
    for p in fleet.parameters():
        p.add_(1.0)
    assert all(torch.equal(state[name], kept[name]) for name in state)
