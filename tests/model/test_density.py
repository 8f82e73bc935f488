"""The density of what is decoded and its gradient by hand against automatic differentiation."""

import pytest
import torch
from torch import Tensor

from latents import apart
from whowrote.model import DiagonalNormal
from whowrote.model.gradients import bounded_log_density

LIMIT = 6.0


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def by_definition(raw: Tensor, value: Tensor, limit: float = LIMIT) -> Tensor:
    mean, unbounded = raw.chunk(2, dim=-1)
    return DiagonalNormal(mean, limit * torch.tanh(unbounded / limit)).log_prob(value)


def pulled(density: Tensor, raw: Tensor) -> Tensor:
    weights = torch.sin(torch.arange(density.numel()).to(density)).reshape(density.shape)
    return torch.autograd.grad((density * weights).sum(), raw)[0]


@pytest.mark.parametrize("size", [1.0, 20.0])  # far beyond the limit as well
def test_values_and_gradients_are_those_of_the_definition(size: float) -> None:
    raw, value = (size * drawn(2, 7, 10)).requires_grad_(), drawn(2, 7, 5, seed=1)
    ours, theirs = bounded_log_density(raw, value, LIMIT), by_definition(raw, value)
    assert apart(ours, theirs) < 1e-12
    gradient = pulled(ours, raw)
    assert apart(gradient, pulled(theirs, raw)) < 1e-12
    # Negative control: scales that are bounded elsewhere.
    assert apart(gradient, pulled(by_definition(raw, value, LIMIT / 2), raw)) > 1e-3


@pytest.mark.gpu
def test_on_a_gpu_it_is_the_same_to_single_precision(cuda: torch.device) -> None:
    raw, value = drawn(2, 7, 10).requires_grad_(), drawn(2, 7, 5, seed=1)
    exact = by_definition(raw, value)
    there = raw.detach().to(cuda, torch.float32).requires_grad_()
    ours = bounded_log_density(there, value.to(cuda, torch.float32), LIMIT)
    assert apart(ours.double().cpu(), exact) < 1e-5
    assert apart(pulled(ours, there).double().cpu(), pulled(exact, raw)) < 1e-5
