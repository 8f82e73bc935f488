"""The shapes of a fleet by arithmetic are those of the fleet."""

import pytest

from whowrote.estimators.stored_fleet import shapes_of
from whowrote.model import Architecture, Member, MixtureVAE


@pytest.mark.parametrize(
    "shape",
    [
        Architecture(n_features=4, n_components=3, latent_dim=2, hidden=(5,)),
        Architecture(n_features=4, n_components=3, latent_dim=2, hidden=()),
        Architecture(n_features=4, n_components=2, latent_dim=1, hidden=(6, 5), n_inputs=9),
    ],
)
@pytest.mark.parametrize("component", ["student-t", "gaussian", "standard-normal"])
def test_arithmetic_and_fleet_agree(shape: Architecture, component: str) -> None:
    fleet = MixtureVAE(shape, [Member(component=component)] * 2)
    made = {name: tuple(value.shape) for name, value in fleet.state_dict().items()}
    assert shapes_of(shape, 2) == made
