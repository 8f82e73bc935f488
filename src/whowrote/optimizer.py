r"""Adam for a fleet: one state, one step size and one gradient norm per member.

.. math::

    g &\leftarrow g \min(1, c / \lVert g \rVert), \quad
    a \leftarrow \beta_1 a + (1 - \beta_1) g, \quad
    b \leftarrow \beta_2 b + (1 - \beta_2) g^2, \\
    \theta &\leftarrow \theta - \eta\, \frac{\hat a}{\sqrt{\hat b} + \epsilon}, \qquad
    \hat a = a / (1 - \beta_1^t), \quad \hat b = b / (1 - \beta_2^t)

``torch.optim.Adam`` knows one step size per parameter group and one norm per call; here the first
dimension of every parameter is the member, and nothing is shared along it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

BETAS = (0.9, 0.999)
EPSILON = 1e-8


class FleetAdam:
    """Adam over parameters whose first dimension is the member."""

    def __init__(
        self,
        fleet: nn.Module,
        learning_rates: Sequence[float],
        factors: Mapping[str, Sequence[float]] | None = None,
    ) -> None:
        """``factors`` multiply the step size of a named parameter, member by member."""
        self.parameters = list(fleet.parameters())
        self.learning_rates = list(learning_rates)
        self.factors = dict(factors or {})
        self.first = [torch.zeros_like(p) for p in self.parameters]
        self.second = [torch.zeros_like(p) for p in self.parameters]
        self._below = [torch.empty_like(p, requires_grad=False) for p in self.parameters]
        self.count = 0
        sample = self.parameters[0]
        self._rates = [
            torch.tensor(self._scaled(name), device=sample.device, dtype=sample.dtype)
            for name, _ in fleet.named_parameters()
        ]

    def _scaled(self, name: str) -> list[float]:
        factors = self.factors.get(name, [1.0] * len(self.learning_rates))
        return [rate * factor for rate, factor in zip(self.learning_rates, factors, strict=True)]

    def rates(self, decay: float) -> list[float]:
        """The step sizes in force."""
        return [rate * decay for rate in self.learning_rates]

    def select(self, fleet: nn.Module, keep: Sequence[int]) -> FleetAdam:
        """The optimizer of some members, whose parameters now live in ``fleet``."""
        factors = {name: [all_[i] for i in keep] for name, all_ in self.factors.items()}
        chosen = FleetAdam(fleet, [self.learning_rates[i] for i in keep], factors)
        chosen.first = [state[list(keep)] for state in self.first]
        chosen.second = [state[list(keep)] for state in self.second]
        chosen.count = self.count
        return chosen

    @torch.no_grad()
    def step(self, decay: float, clip_norm: float) -> None:
        """Clip each member's gradient, move each member, forget the gradient."""
        gradients = [self._gradient(p) for p in self.parameters]
        clip = _clip_factor(gradients, clip_norm)
        for g in gradients:
            g.mul_(_along(clip, g))
        self.count += 1
        bias_1, bias_2 = 1 - BETAS[0] ** self.count, math.sqrt(1 - BETAS[1] ** self.count)
        torch._foreach_lerp_(self.first, gradients, 1 - BETAS[0])
        torch._foreach_mul_(self.second, BETAS[1])
        torch._foreach_addcmul_(self.second, gradients, gradients, 1 - BETAS[1])
        for p, first, second, below, rates in zip(
            self.parameters, self.first, self.second, self._below, self._rates, strict=True
        ):
            # Both bias corrections are folded into one factor, and nothing is allocated.
            torch.sqrt(second, out=below).add_(EPSILON * bias_2)
            below.div_(_along(rates * (decay * bias_2 / bias_1), p))
            p.addcdiv_(first, below, value=-1)
            p.grad = None

    @staticmethod
    def _gradient(parameter: Tensor) -> Tensor:
        """The gradient, or zeros: a Gaussian fleet has none for its degrees of freedom."""
        return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


def _along(per_member: Tensor, like: Tensor) -> Tensor:
    return per_member.reshape(-1, *(1,) * (like.dim() - 1))


def _clip_factor(gradients: list[Tensor], clip_norm: float) -> Tensor:
    squares = torch.stack([g.flatten(1).square().sum(1) for g in gradients]).sum(0)
    return torch.clamp(clip_norm / squares.sqrt(), max=1.0)


class MovingAverage:
    r"""The averaged iterate: a <- d a + (1 - d) theta, with d = min(decay, t/(t + 9)).

    A model at the average of its last steps predicts much as an ensemble of them would, at the
    price of one model. The early d forgets the random start.
    """

    def __init__(self, fleet: nn.Module, decay: float) -> None:
        self.parameters = list(fleet.parameters())
        self.average = [p.detach().clone() for p in self.parameters]
        self.decay, self.count = decay, 0

    @torch.no_grad()
    def update(self) -> None:
        """Take in the present state."""
        self.count += 1
        decay = min(self.decay, self.count / (self.count + 9))
        torch._foreach_lerp_(self.average, [p.detach() for p in self.parameters], 1 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The fleet at its average, for as long as the block lasts."""
        if self.decay == 0:
            yield
            return
        present = [p.data for p in self.parameters]
        for p, average in zip(self.parameters, self.average, strict=True):
            p.data = average
        try:
            yield
        finally:
            for p, value in zip(self.parameters, present, strict=True):
                p.data = value

    def select(self, fleet: nn.Module, keep: Sequence[int]) -> MovingAverage:
        """The average of some members, whose parameters now live in ``fleet``."""
        chosen = MovingAverage(fleet, self.decay)
        chosen.average = [value[list(keep)] for value in self.average]
        chosen.count = self.count
        return chosen
