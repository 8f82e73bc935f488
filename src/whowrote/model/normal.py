r"""A normal distribution with a diagonal covariance, written with its log standard deviation.

.. math:: \ln N(o \mid m, \mathrm{diag}\, s^2)
    = -\tfrac12 \sum_i \left[ \ln 2\pi + 2\ln s_i + (o_i - m_i)^2 / s_i^2 \right]

Not ``torch.distributions.Normal``: that one samples from the global generator, and randomness is
an argument here.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from whowrote.model.components import LOG_2PI


@dataclass(frozen=True)
class DiagonalNormal:
    """N(mean, diag exp(2 log_scale)) for every member and row."""

    mean: Float[Tensor, "m n d"]
    log_scale: Float[Tensor, "m n d"]

    @property
    def variance(self) -> Float[Tensor, "m n d"]:
        """Squared standard deviations."""
        return torch.exp(2 * self.log_scale)

    def log_prob(self, value: Float[Tensor, "m n d"]) -> Float[Tensor, "m n"]:
        """Log density of ``value``."""
        scaled = (value - self.mean) * torch.exp(-self.log_scale)
        return -(scaled.square() / 2 + self.log_scale + LOG_2PI / 2).sum(-1)

    def entropy(self) -> Float[Tensor, "m n"]:
        """The sum of ln s plus d/2 (1 + ln 2 pi)."""
        return self.log_scale.sum(-1) + self.log_scale.shape[-1] * (1 + LOG_2PI) / 2

    def at(self, noise: Float[Tensor, "m n d"]) -> Float[Tensor, "m n d"]:
        """The reparametrised sample: mean + scale * noise."""
        return torch.addcmul(self.mean, torch.exp(self.log_scale), noise)

    def repeat(self, t: int) -> DiagonalNormal:
        """Every row ``t`` times, all rows of the first copy first."""
        if t == 1:
            return self
        return DiagonalNormal(self.mean.repeat(1, t, 1), self.log_scale.repeat(1, t, 1))
