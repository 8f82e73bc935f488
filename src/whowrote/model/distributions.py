r"""The distributions: one component of the mixture, and a normal with its own scale per column.

.. math::

    \mathcal{S}(x \mid \mu, \Sigma, \nu) = \frac{\Gamma(\frac{\nu + D}{2})}{\Gamma(\frac{\nu}{2})}
        \frac{|\Sigma|^{-1/2}}{(\pi\nu)^{D/2}} \left(1 + \frac{\delta}{\nu}\right)^{-(\nu + D)/2},
    \qquad \delta = (x - \mu)^\top \Sigma^{-1} (x - \mu)

A component sees the data only through :math:`\delta` and :math:`\ln|\Sigma|`. The Student-t is a
scale mixture, :math:`u \sim \Gamma(\nu/2, \nu/2)` and :math:`x \mid u \sim N(\mu, \Sigma/u)`, and
:math:`q(u) = \Gamma(\alpha, \beta)` with :math:`\alpha = (\nu + D)/2`,
:math:`\beta = (\nu + \delta)/2` is the optimal posterior of that scale. The Gaussian is the limit
:math:`\nu \to \infty`, in which :math:`u = 1`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from whowrote import private

LOG_2PI = math.log(2 * math.pi)

LARGE = 32.0
"""From here on Stirling's series is exact to the last digit, and ln Gamma itself loses some."""

PerRow = Float[Tensor, "m n k"]
PerComponent = Float[Tensor, "m k"]


def log_gamma_ratio(x: PerComponent, a: float) -> PerComponent:
    r"""ln Gamma(x + a) - ln Gamma(x) - a ln x, which falls to 0 as x grows.

    Two large numbers whose difference is small lose their digits, all of them in float32 from
    x = 1e6 on; of Stirling's series, the large parts can be subtracted on paper:

    .. math:: (x + a - \tfrac12) \ln(1 + a/x) - a + S(x + a) - S(x), \qquad
        S(z) = \frac{1}{12 z} - \frac{1}{360 z^3} + \frac{1}{1260 z^5}
    """
    small, large = x.clamp(max=LARGE), x.clamp(min=LARGE)
    plain = torch.lgamma(small + a) - torch.lgamma(small) - a * torch.log(small)
    leading = (large + (a - 0.5)) * torch.log1p(a / large) - a
    return torch.where(x < LARGE, plain, leading + _stirling(large + a) - _stirling(large))


def _stirling(z: Tensor) -> Tensor:
    inverse = 1 / z
    square = inverse.square()
    return inverse * (1 / 12 - square * (1 / 360 - square / 1260))


def gamma_entropy(shape: Float[Tensor, "m 1 k"]) -> Float[Tensor, "m 1 k"]:
    r"""The entropy of Gamma(a, 1), a + ln Gamma(a) + (1 - a) digamma(a).

    For large a by its series,

    .. math:: \tfrac12 \ln(2 \pi e a) - \frac{1}{3a} - \frac{1}{12a^2} - \frac{1}{90a^3}
        + \frac{1}{120a^4} + \frac{1}{210a^5} - \frac{1}{252a^6}
    """
    small, large = shape.clamp(max=LARGE), shape.clamp(min=LARGE)
    plain = small + torch.lgamma(small) + (1 - small) * torch.digamma(small)
    series = torch.zeros_like(large)
    for coefficient in (-1 / 252, 1 / 210, 1 / 120, -1 / 90, -1 / 12, -1 / 3):
        series = (series + coefficient) / large
    return torch.where(shape < LARGE, plain, (LOG_2PI + 1 + torch.log(large)) / 2 + series)


class Component(ABC):
    """What the mixture needs to know of a family of densities."""

    learns_df: ClassVar[bool] = False
    """Whether the degrees of freedom mean anything to it."""
    fixed: ClassVar[bool] = False
    """Whether it is N(0, I) for good: one component, of which nothing is learnt."""

    @abstractmethod
    def log_density(self, delta: PerRow, log_det: PerComponent, df: PerComponent, d: int) -> PerRow:
        """Log density of a point at squared distance ``delta`` (its expectation, for a q(x))."""

    @abstractmethod
    def expected_scale(self, delta: PerRow, df: PerComponent, d: int) -> PerRow:
        """E[u]: the weight a document gets under each component; small means outlier."""

    @abstractmethod
    def scale_entropy(self, delta: PerRow, df: PerComponent, d: int) -> PerRow:
        """Entropy of the optimal q(u | z=k)."""

    @abstractmethod
    def sample_scale(
        self, df: Float[Tensor, " n"], d: int, generator: torch.Generator
    ) -> Float[Tensor, " n"]:
        """Draw u ~ p(u | z=k), the second step of the generative story in ``d`` dimensions."""


class StudentT(Component):
    """Heavy tails, one ``df`` per component."""

    learns_df = True

    def log_density(self, delta: PerRow, log_det: PerComponent, df: PerComponent, d: int) -> PerRow:
        """The density above, written so that a large ``df`` loses no digits."""
        constant = log_gamma_ratio(df / 2, d / 2) - (d * LOG_2PI + log_det) / 2
        df = df.unsqueeze(1)
        return constant.unsqueeze(1) - (df + d) / 2 * torch.log1p(delta / df)

    def expected_scale(self, delta: PerRow, df: PerComponent, d: int) -> PerRow:
        """alpha / beta = (df + d) / (df + delta)."""
        df = df.unsqueeze(1)
        return (df + d) / (df + delta)

    def scale_entropy(self, delta: PerRow, df: PerComponent, d: int) -> PerRow:
        """H(Gamma(a, b)) = H(Gamma(a, 1)) - ln b."""
        df = df.unsqueeze(1)
        shape, rate = (df + d) / 2, (df + delta) / 2
        return gamma_entropy(shape) - torch.log(rate)

    def sample_scale(
        self, df: Float[Tensor, " n"], d: int, generator: torch.Generator
    ) -> Float[Tensor, " n"]:
        """Gamma(df/2, rate df/2)."""
        return private.standard_gamma(df / 2, generator) / (df / 2)


class Gaussian(Component):
    """The ablation: no tails, no scale; ``df`` is ignored."""

    def log_density(self, delta: PerRow, log_det: PerComponent, df: PerComponent, d: int) -> PerRow:
        """ln N(x | mu, Sigma)."""
        return -(delta + (log_det + d * LOG_2PI).unsqueeze(1)) / 2

    def expected_scale(self, delta: PerRow, df: PerComponent, d: int) -> PerRow:
        """u is one."""
        return torch.ones_like(delta)

    def scale_entropy(self, delta: PerRow, df: PerComponent, d: int) -> PerRow:
        """There is no scale to be uncertain about."""
        return torch.zeros_like(delta)

    def sample_scale(
        self, df: Float[Tensor, " n"], d: int, generator: torch.Generator
    ) -> Float[Tensor, " n"]:
        """u is one."""
        return torch.ones_like(df)


class StandardNormal(Gaussian):
    r"""The prior of the plain VAE, N(0, I): one component, and the bound is the usual one.

    .. math:: \mathrm{score} + H(q) = -\mathrm{KL}(N(m, \mathrm{diag}\, s^2) \,\|\, N(0, I))
        = -\tfrac12 \sum_i (m_i^2 + s_i^2 - 1 - \ln s_i^2)
    """

    fixed = True


@dataclass(frozen=True)
class Assorted(Component):
    """A fleet whose members differ in family: each member gets its own."""

    names: tuple[str, ...]
    _there: dict[tuple[str, torch.device], Tensor] = field(
        default_factory=dict, compare=False, repr=False
    )

    def _own(self, asked: Callable[[Component], PerRow]) -> PerRow:
        """What every member's own family answers."""
        first, *others = dict.fromkeys(self.names)
        found = asked(FAMILIES[first])
        for name in others:
            found = torch.where(self._has(name, found.device), asked(FAMILIES[name]), found)
        return found

    def _has(self, name: str, device: torch.device) -> Bool[Tensor, "m 1 1"]:
        key = name, device
        if key not in self._there:  # carried there once: a captured step may not reach for the host
            mask = torch.tensor([own == name for own in self.names], device=device)
            self._there[key] = mask[:, None, None]
        return self._there[key]

    def log_density(self, delta: PerRow, log_det: PerComponent, df: PerComponent, d: int) -> PerRow:
        """Each member's own density."""
        return self._own(lambda family: family.log_density(delta, log_det, df, d))

    def expected_scale(self, delta: PerRow, df: PerComponent, d: int) -> PerRow:
        """Each member's own scale."""
        return self._own(lambda family: family.expected_scale(delta, df, d))

    def scale_entropy(self, delta: PerRow, df: PerComponent, d: int) -> PerRow:
        """Each member's own entropy."""
        return self._own(lambda family: family.scale_entropy(delta, df, d))

    def sample_scale(
        self, df: Float[Tensor, " n"], d: int, generator: torch.Generator
    ) -> Float[Tensor, " n"]:
        """Sampling is one member's business."""
        raise TypeError("an assorted fleet cannot sample: select one member first")


FAMILIES: dict[str, Component] = {
    "student-t": StudentT(),
    "gaussian": Gaussian(),
    "standard-normal": StandardNormal(),
}
"""By the name that a user gives them."""


def component_for(names: Sequence[str]) -> Component:
    """The family of a fleet whose members are called ``names``.

    >>> component_for(["gaussian", "gaussian"])  # doctest: +ELLIPSIS
    <whowrote.model.distributions.Gaussian object at ...>
    """
    return FAMILIES[names[0]] if len(set(names)) == 1 else Assorted(tuple(names))


@dataclass(frozen=True)
class DiagonalNormal:
    r"""N(mean, diag exp(2 log_scale)) for every member and row.

    .. math:: \ln N(o \mid m, \mathrm{diag}\, s^2)
        = -\tfrac12 \sum_i \left[ \ln 2\pi + 2\ln s_i + (o_i - m_i)^2 / s_i^2 \right]

    Not ``torch.distributions.Normal``: that one samples from the global generator, and randomness
    is an argument here.
    """

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
