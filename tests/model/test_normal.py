"""N(m, diag s^2) against torch.distributions."""

import torch

from whowrote.model import DiagonalNormal

EXACT = 1e-12


def reference(q: DiagonalNormal, scale: torch.Tensor) -> torch.distributions.Independent:
    return torch.distributions.Independent(torch.distributions.Normal(q.mean, scale), 1)


def test_log_prob_and_entropy_equal_torch(build, apart) -> None:
    q, value = build.q(2, 5, 3), build.normal(2, 5, 3, seed=20)
    right, wrong = reference(q, q.log_scale.exp()), reference(q, q.variance)
    assert apart(q.log_prob(value), right.log_prob(value)) < EXACT
    assert apart(q.entropy(), right.entropy()) < EXACT
    # Negative control: the variance used as a standard deviation.
    assert apart(q.log_prob(value), wrong.log_prob(value)) > 1e-2
    assert apart(q.entropy(), wrong.entropy()) > 1e-2


def test_variance_is_the_square_of_the_scale(build, apart) -> None:
    q = build.q()
    assert apart(q.variance, reference(q, q.log_scale.exp()).variance) < EXACT


def test_samples_have_the_stated_moments(build) -> None:
    q = DiagonalNormal(torch.full((1, 1, 1), 2.0).double(), torch.full((1, 1, 1), -1.0).double())
    x = q.repeat(20000).at(build.normal(1, 20000, 1))
    scale = float(torch.tensor(-1.0).exp())
    assert abs(float(x.mean()) - 2) < 0.01
    assert abs(float(x.std()) - scale) < 0.01
    assert abs(float(x.std()) - scale**2) > 0.1  # not the variance


def test_repeat_keeps_the_rows_of_a_copy_together(build) -> None:
    q = build.q(2, 3, 2)
    twice = q.repeat(2)
    assert torch.equal(twice.mean, torch.cat([q.mean, q.mean], 1))
    assert torch.equal(twice.log_scale, torch.cat([q.log_scale, q.log_scale], 1))
    assert q.repeat(1) is q
