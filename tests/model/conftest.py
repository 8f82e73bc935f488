"""Small random models in float64, each from its own seed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from threads import one_thread as one_thread
from whowrote.model import (
    Architecture,
    Batch,
    Component,
    DiagonalNormal,
    Member,
    Mixture,
    MixtureVAE,
    StudentT,
)
from whowrote.model.mixture import log_excess


@dataclass(frozen=True)
class Builders:
    """Every builder takes a seed and gives float64; ask for gradients with ``requires_grad_``."""

    def normal(self, *shape: int, seed: int = 0) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    def mixture(
        self,
        component: Component | None = None,
        *,
        m: int = 1,
        k: int = 3,
        d: int = 2,
        df: Sequence[float] = (2.5, 5.0, 30.0),
        floor: float = 0.1,
        seed: int = 0,
    ) -> Mixture:
        mixture = Mixture(component or StudentT(), k, d, torch.full((m,), floor)).double()
        mixture.scale_floor.fill_(floor)
        values = torch.tensor(df, dtype=torch.float64)[:k].expand(m, k)
        with torch.no_grad():
            mixture.logits.copy_(self.normal(m, k, seed=seed))
            mixture.loc.copy_(2 * self.normal(m, k, d, seed=seed + 1))
            mixture.factor.copy_(0.5 * self.normal(m, k, d, d, seed=seed + 2))
            mixture.log_excess.copy_(log_excess(values))
        return mixture.requires_grad_(False)

    def q(self, m: int = 1, n: int = 6, d: int = 2, *, seed: int = 9) -> DiagonalNormal:
        mean = 2 * self.normal(m, n, d, seed=seed)
        return DiagonalNormal(mean, 0.5 * self.normal(m, n, d, seed=seed + 1) - 0.5)

    def fleet(
        self,
        members: Sequence[Member] = (Member(),),
        *,
        seed: int = 0,
        scale: float = 0.5,
        **architecture: object,
    ) -> MixtureVAE:
        shape = {"n_features": 4, "n_components": 3, "latent_dim": 2, "hidden": (5,)}
        fleet = MixtureVAE(Architecture(**(shape | architecture)), members).double()
        with torch.no_grad():
            for i, p in enumerate(fleet.parameters()):
                p.copy_(scale * self.normal(*p.shape, seed=seed + i))
            fleet.mixture.log_excess.add_(1.0)
        return fleet.requires_grad_(False)

    def batch(self, m: int = 1, n: int = 6, width: int = 4, k: int = 3, seed: int = 3) -> Batch:
        targets = self.normal(m, n, width, seed=seed)
        return Batch(targets, targets, torch.arange(m * n).reshape(m, n) % k)


@pytest.fixture(scope="session")
def build() -> Builders:
    return Builders()


@pytest.fixture(scope="session")
def apart() -> Callable[[Tensor, Tensor], float]:
    """The largest absolute difference: below the tolerance or, in a negative control, above it."""
    return lambda a, b: float((a - b).detach().abs().max())
