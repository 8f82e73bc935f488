"""The plain VAE: one component, N(0, I), of which nothing is learnt."""

import numpy as np
import pytest
import torch

from whowrote import MixtureVAEClassifier, MixtureVAEClusterer
from whowrote.errors import InputError
from whowrote.model import Architecture, DiagonalNormal, Member, MixtureVAE


def fleet(component: str) -> MixtureVAE:
    shape = Architecture(n_features=4, n_components=1, latent_dim=3, hidden=(5,))
    return MixtureVAE(shape, [Member(component=component, scale_floor=0.1)], torch.float64)


@pytest.mark.parametrize("component", ["standard-normal", "gaussian"])
def test_prior_and_entropy_are_minus_the_divergence_from_a_standard_normal(component: str) -> None:
    random = torch.Generator().manual_seed(0)
    mean, log_scale = torch.randn(2, 1, 6, 3, generator=random, dtype=torch.float64)
    q = DiagonalNormal(mean, log_scale)
    found = fleet(component).mixture(q).log_evidence + q.entropy()
    divergence = torch.distributions.kl_divergence(
        torch.distributions.Normal(mean, log_scale.exp()),
        torch.distributions.Normal(torch.zeros_like(mean), torch.ones_like(mean)),
    ).sum(-1)
    exact = torch.allclose(found, -divergence, atol=1e-12)
    assert exact == (component == "standard-normal")  # negative control: Sigma = 1.1 I at the start


def test_nothing_of_the_prior_is_learnt_and_the_rest_is() -> None:
    X = np.random.default_rng(0).normal(size=(200, 4)) @ np.diag([3.0, 2.0, 1.0, 1.0]) + 5
    settings = {"max_epochs": 5, "warm_up": 2, "latent_dim": 2, "random_state": 0}
    plain = MixtureVAEClusterer(1, component="standard-normal", **settings).fit(X)
    np.testing.assert_array_equal(plain.means_, np.zeros((1, 2)))
    np.testing.assert_allclose(plain.scales_, np.eye(2)[None], atol=1e-6)
    free = MixtureVAEClusterer(1, component="gaussian", **settings).fit(X)
    assert np.abs(free.means_).max() > 1e-3  # negative control: a free component moves
    started = MixtureVAEClusterer(
        1, component="standard-normal", learning_rate=1e-9, **settings
    ).fit(X)
    assert plain.lower_bound_ > started.lower_bound_ + 0.1
    assert plain.sample(3, random_state=0).observations.shape == (3, 4)


def test_it_is_stored(tmp_path) -> None:  # type: ignore[no-untyped-def]
    X = np.random.default_rng(1).normal(size=(60, 3))
    model = MixtureVAEClusterer(1, component="standard-normal", max_epochs=2, random_state=0).fit(X)
    model.save(tmp_path / "model")
    twin = MixtureVAEClusterer.load(tmp_path / "model")
    np.testing.assert_array_equal(twin.bound(X), model.bound(X))


def test_more_components_and_high_floors_are_refused() -> None:
    X = np.random.default_rng(2).normal(size=(40, 3))
    with pytest.raises(InputError, match=r"with 2 components.*n_components=1"):
        MixtureVAEClassifier("standard-normal").fit(X, np.arange(40) % 2)
    with pytest.raises(InputError, match=r"scale_floor of 1.*floor below 1"):
        MixtureVAEClusterer(1, component="standard-normal", scale_floor=1.0).fit(X)
