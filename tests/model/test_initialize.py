"""Where learning starts, and that it moves with the data."""

import math

import pytest
import torch
from torch import Tensor

from whowrote.model import Member, Mixture, MixtureVAE, StudentT, place_components
from whowrote.model.networks import FIRST_LOG_SCALE, initialize_networks

EXACT = 1e-10
FLOOR = 0.25


def placed(x: Tensor, labels: Tensor, k: int = 3) -> Mixture:
    mixture = Mixture(StudentT(), k, x.shape[-1], torch.full((len(x),), FLOOR)).double()
    place_components(mixture, x, labels)
    return mixture.requires_grad_(False)


def clusters(build, m: int = 2, n: int = 90, d: int = 3) -> tuple[Tensor, Tensor]:
    labels = torch.arange(n).expand(m, n) % 3
    centres = 4 * build.normal(3, d, seed=5)
    return centres[labels] + build.normal(m, n, d, seed=6), labels


def test_components_sit_on_their_rows(build, apart) -> None:
    x, labels = clusters(build)
    mixture = placed(x, labels)
    for k in range(3):
        assert apart(mixture.loc[:, k], x[:, k::3].mean(1)) < EXACT
    # Negative control: not on the mean of all.
    assert apart(mixture.loc[:, 0], x.mean(1)) > 0.1


def test_scale_is_the_pooled_within_scatter(build, apart) -> None:
    """Sigma = S_within + 1 % ridge + floor, the same for all."""
    x, labels = clusters(build)
    identity = torch.eye(3, dtype=torch.float64)

    def expected(residual: Tensor) -> Tensor:
        scatter = residual.mT @ residual / residual.shape[1]
        size = torch.diagonal(scatter, 0, -2, -1).mean(-1)[:, None, None]
        return (scatter + (0.01 * size + FLOOR) * identity).unsqueeze(1).expand(2, 3, 3, 3)

    matrix = placed(x, labels).scale_matrix
    within = x - torch.stack([x[:, k::3].mean(1) for k in range(3)], 1)[:, torch.arange(90) % 3]
    assert apart(matrix, expected(within)) < EXACT
    # Negative control: the total scatter, with the distances between authors in it.
    assert apart(matrix, expected(x - x.mean(1, keepdim=True))) > 0.1


def test_weights_follow_the_counts(build, apart) -> None:
    labels = torch.tensor([[0] * 5 + [1] * 2 + [-1] * 3])
    mixture = placed(build.normal(1, 10, 2), labels)
    counts = torch.tensor([[5.0, 2.0, 0.0]]).double()
    assert apart(mixture.log_weights.exp(), (counts + 1) / 10) < EXACT


def test_translation_moves_loc_alone(build, apart) -> None:
    x, labels = clusters(build)
    shift = torch.tensor([10.0, -3.0, 0.5]).double()
    before, after = placed(x, labels), placed(x + shift, labels)
    assert apart(after.loc, before.loc + shift) < EXACT
    assert apart(after.scale_matrix, before.scale_matrix) < EXACT
    assert apart(after.log_weights, before.log_weights) < EXACT
    assert apart(after.loc, before.loc) > 0.1


def test_a_change_of_unit_scales_loc_and_scale(build, apart) -> None:
    """x -> c x: mu -> c mu, Sigma - floor -> c^2 (Sigma - floor)."""
    x, labels = clusters(build)
    before, after = placed(x, labels), placed(3 * x, labels)
    floor = FLOOR * torch.eye(3, dtype=torch.float64)
    matrix, scaled = before.scale_matrix - floor, after.scale_matrix - floor
    assert apart(after.loc, 3 * before.loc) < EXACT
    assert apart(scaled, 9 * matrix) < EXACT
    # Negative control: a standard deviation would scale by c.
    assert apart(scaled, 3 * matrix) > 0.1


def test_rows_without_labels_do_not_count(build, apart) -> None:
    x, labels = clusters(build)
    more = torch.cat([x, 100 + build.normal(2, 30, 3)], 1)
    unknown = torch.cat([labels, torch.full((2, 30), -1)], 1)
    ours, theirs = placed(more, unknown), placed(x, labels)
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert apart(a, b) < EXACT
    # Negative control: with labels they count.
    known = torch.cat([labels, torch.zeros(2, 30, dtype=torch.long)], 1)
    assert apart(placed(more, known).loc, theirs.loc) > 1


def test_an_author_without_rows_starts_at_the_mean(build, apart) -> None:
    x, labels = clusters(build)
    mixture = placed(x, labels, k=4)
    assert apart(mixture.loc[:, 3], x.mean(1)) < EXACT


@pytest.mark.parametrize("n", [1, 3, 6])
def test_fewer_rows_than_dimensions_is_harmless(build, n: int) -> None:
    mixture = placed(build.normal(1, n, 8), torch.arange(n).reshape(1, n) % 3)
    assert mixture.scale_tril.isfinite().all()


def test_no_labels_at_all_is_harmless(build) -> None:
    x = build.normal(1, 12, 2)
    mixture = placed(x, torch.full((1, 12), -1))
    assert mixture.at_points(x).score.isfinite().all()


def test_a_member_with_infinite_rows_leaves_the_others_alone(build, apart) -> None:
    x, labels = clusters(build)
    broken = x.clone()
    broken[1, 4] = torch.nan
    ours, theirs = placed(broken, labels), placed(x, labels)
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert apart(a[0], b[0]) < EXACT


def initialized(build, seeds: list[int]) -> MixtureVAE:
    fleet = build.fleet([Member(seed=s) for s in seeds], n_features=60, hidden=(80,), scale=0.0)
    initialize_networks(fleet.encoder, fleet.decoder, seeds)
    return fleet


def test_networks_are_drawn_from_each_members_own_seed(build) -> None:
    together, alone, other = (initialized(build, s) for s in ([3, 7], [7], [8]))
    for a, b, c in zip(*(f.parameters() for f in (together, alone, other)), strict=True):
        assert torch.equal(a[1:], b)
        if a.dim() == 3 and a.shape[1] > 3:  # weights of a layer
            assert not torch.equal(b, c)


def test_networks_do_not_depend_on_the_global_generator(build) -> None:
    fleets = []
    for seed in (0, 1):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            fleets.append(initialized(build, [5]))
    for a, b in zip(*(f.parameters() for f in fleets), strict=True):
        assert torch.equal(a, b)


def test_weights_have_the_stated_spread(build) -> None:
    weight = initialized(build, [0]).encoder.layers[0].weight
    assert float(weight.std()) == pytest.approx(math.sqrt(2 / (60 + 80)), rel=0.03)
    assert float(weight.std()) != pytest.approx(2 / (60 + 80), rel=0.03)  # not the variance


def test_biases_start_at_zero_but_for_a_sharp_encoder(build) -> None:
    fleet = build.fleet(scale=0.5)  # what was there before does not matter
    initialize_networks(fleet.encoder, fleet.decoder, [0])
    *hidden, last = [layer.bias for layer in fleet.encoder.layers]
    assert (last[:, 2:] == FIRST_LOG_SCALE).all()
    assert (last[:, :2] == 0).all()
    assert all((bias == 0).all() for bias in hidden)
    assert all((layer.bias == 0).all() for layer in fleet.decoder.layers)
