"""The distance and its gradient by hand against automatic differentiation of the definition."""

import pytest
import torch
from torch import Tensor

from latents import FLOOR, apart, leaves
from whowrote.model import gradients, precision
from whowrote.model.gradients import expected_distance
from whowrote.model.precision import lower_factor, precision_of, scale_matrix

N, K = 7, 3
EXACT = 1e-10


def by_definition(
    mean: Tensor, variance: Tensor | None, loc: Tensor, raw: Tensor
) -> tuple[Tensor, Tensor]:
    sigma = scale_matrix(lower_factor(raw), FLOOR)
    inverse = torch.linalg.inv(sigma)
    x = mean.unsqueeze(2) - loc.unsqueeze(1)
    delta = torch.einsum("mnki,mkij,mnkj->mnk", x, inverse, x)
    if variance is not None:
        delta = delta + torch.einsum("mni,mkii->mnk", variance, inverse)
    return delta, torch.logdet(sigma)


def pulled(outputs: tuple[Tensor, Tensor], parts: list[Tensor]) -> list[Tensor]:
    """Gradients of an arbitrary weighting of both outputs."""
    weights = [torch.sin(torch.arange(o.numel()).double()).reshape(o.shape) for o in outputs]
    total = sum((o * w).sum() for o, w in zip(outputs, weights, strict=True))
    return list(torch.autograd.grad(total, parts))


@pytest.mark.parametrize("d", [1, 5, 40])
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("alignment", [1, 4])
@pytest.mark.parametrize("one_thread", [False, True])
def test_values_and_gradients_are_those_of_the_definition(
    d: int, known: bool, alignment: int, one_thread: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(precision.ALIGNMENT, "cpu", alignment)
    for module in (gradients, precision):
        monkeypatch.setattr(module, "one_thread", lambda device: one_thread)
    parts = leaves(d, N, K)
    mean, variance, loc, raw = parts
    spread = None if known else variance
    ours = expected_distance(mean, spread, loc, raw, precision_of(raw, FLOOR))
    theirs = by_definition(mean, spread, loc, raw)
    free = [mean, loc, raw] if known else parts
    pairs = [*zip(ours, theirs, strict=True)]
    pairs += zip(pulled(ours, free), pulled(theirs, free), strict=True)
    assert all(apart(a.detach(), b.detach()) < EXACT for a, b in pairs)


def test_a_gradient_without_the_trace_term_would_be_wrong() -> None:
    """Negative control: the uncertainty of x pulls at the scale matrices as well."""
    mean, variance, loc, raw = leaves(5, N, K)
    full = pulled(expected_distance(mean, variance, loc, raw, precision_of(raw, FLOOR)), [raw])
    bare = pulled(expected_distance(mean, None, loc, raw, precision_of(raw, FLOOR)), [raw])
    assert apart(bare[0], full[0]) > 1e-2


def test_frozen_scale_matrices_get_no_gradient() -> None:
    mean, variance, loc, raw = leaves(5, N, K)
    known = precision_of(raw, FLOOR)
    ours = expected_distance(mean, variance, loc, raw.detach(), known)
    theirs = by_definition(mean, variance, loc, raw.detach())
    free = [mean, variance, loc]
    for a, b in zip(pulled(ours, free), pulled(theirs, free), strict=True):
        assert apart(a, b) < EXACT
