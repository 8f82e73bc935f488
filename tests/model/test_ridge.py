"""The start in closed form: exact held-out answers, and a model that is calibrated untrained."""

import numpy as np
import pytest
import torch
from sklearn.covariance import oas
from torch import Tensor

from whowrote.model import Architecture, Member, MixtureVAE, Rows
from whowrote.model.networks import initialize_networks
from whowrote.model.ridge import PENALTIES, ridge, ridge_start, shrunken, shrunken_classes

N, H, K = 40, 12, 3


def made_up(seed: int = 0) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    labels = torch.arange(N) % K
    means = torch.randn(K, H, generator=random, dtype=torch.float64)
    noise = torch.randn(N, H, generator=random, dtype=torch.float64)
    return means[labels] + 2 * noise, labels


def one_hot(labels: Tensor) -> Tensor:
    return torch.nn.functional.one_hot(labels, K).double()


def answered(features: Tensor, targets: Tensor, new: Tensor, penalty: float) -> Tensor:
    """Ridge regression by its normal equations, the constant left free."""
    centre, middle = features.mean(0), targets.mean(0)
    own = features - centre
    gram = own.mT @ own + penalty * torch.eye(H, dtype=own.dtype)
    return middle + (new - centre) @ torch.linalg.solve(gram, own.mT @ (targets - middle))


def test_held_out_answers_are_those_of_leaving_each_row_out() -> None:
    features, labels = made_up()
    targets = one_hot(labels)
    found = ridge(features, targets)
    seen = {}
    for penalty in PENALTIES:
        left_out = torch.stack(
            [
                answered(features[rest], targets[rest], features[n], penalty * N)
                for n in range(N)
                if (rest := torch.arange(N) != n) is not None
            ]
        )
        seen[penalty] = float((left_out - targets).square().mean())
        if seen[penalty] == min(seen.values()):
            best = left_out
    # The leverage formula keeps the centre of all rows: equal but for one part in the rows.
    assert float((found.held_out - best).abs().max()) < 0.5 / N
    fitted = features @ found.weight + found.bias
    assert float((fitted - best).abs().max()) > 5 / N  # negative control: rows know themselves


def test_the_shrinkage_is_that_of_oas() -> None:
    features, _ = made_up()
    centred = features - features.mean(0)
    expected = oas(centred.numpy(), assume_centered=True)[0]
    mine = shrunken(centred.mT @ centred / N, N)
    np.testing.assert_allclose(mine.numpy(), expected, rtol=1e-9)


def test_few_rows_share_what_all_classes_have_in_common() -> None:
    random = torch.Generator().manual_seed(0)
    labels = torch.arange(2 * 30) % 30
    answers = torch.nn.functional.one_hot(labels).double()
    answers = answers + 0.7 * torch.randn(60, 30, generator=random, dtype=torch.float64)
    classes = shrunken_classes(answers, labels, 30, df=5.0)
    own = torch.diagonal(classes.means)
    assert float(own.std()) < 0.2  # the mean of two rows scatters by 0.5
    assert float((classes.means - torch.diag(own)).abs().max()) < 0.3


@pytest.mark.parametrize("latent_dim", [1, 2, 5])
@torch.no_grad()
def test_an_untrained_model_answers_and_is_as_sure_as_it_may_be(latent_dim: int) -> None:
    random = torch.Generator().manual_seed(1)
    labels = torch.arange(900) % K
    centres = torch.tensor([[0.0, 0.0], [2.0, 2.0], [-2.0, 2.0]])
    X = centres[labels] + torch.randn(900, 2, generator=random)
    rows = Rows((X - X.mean(0)) / X.std(0), labels)
    shape = Architecture(2, K, latent_dim, (32,))
    fleet = MixtureVAE(shape, [Member(seed=3), Member(seed=4, component="gaussian")])
    initialize_networks(fleet.encoder, fleet.decoder, [3, 4])
    index = torch.arange(600).expand(2, 600)
    before = fleet.scores(rows.take(index).inputs).log_responsibilities
    ridge_start(fleet, rows.take(index))
    new = rows.take(torch.arange(600, 900).expand(2, 300))
    proba = fleet.scores(new.inputs).log_responsibilities.exp()
    right = (proba.argmax(-1) == new.labels).float().mean(1)
    assert bool((right > (0.6 if latent_dim == 1 else 0.85)).all())
    assert float((proba.amax(-1).mean(1) - right).abs().max()) < 0.08
    chance = (before.argmax(-1) == rows.labels[index]).float().mean()
    assert float(chance) < 0.6  # negative control: before, nothing was known
    error = (fleet.decode(fleet.encode(new.inputs).mean).mean - new.targets).square().mean()
    assert float(error) < (0.9 if latent_dim == 1 else 0.3)


def test_every_member_starts_from_its_own_rows() -> None:
    features, labels = made_up()
    rows = Rows(features.float(), labels)
    index = torch.stack([torch.arange(0, 30), torch.arange(10, 40)])
    both = MixtureVAE(Architecture(H, K, 2, (16,)), [Member(seed=5), Member(seed=5)])
    initialize_networks(both.encoder, both.decoder, [5, 5])
    alone = both.select([1])
    ridge_start(both, rows.take(index))
    ridge_start(alone, rows.take(index[1:]))
    for name, value in alone.state_dict().items():
        assert torch.allclose(both.state_dict()[name][1:], value, atol=1e-4), name
    assert not torch.allclose(both.mixture.loc[0], both.mixture.loc[1])
