"""The densities as mathematics: normalisation, scipy, the scale mixture, limits, u; the normal."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from torch import Tensor

from whowrote.model import Component, DiagonalNormal, Gaussian, StudentT, component_for
from whowrote.model.distributions import gamma_entropy, log_gamma_ratio

EXACT, ROUNDING = 1e-10, 1e-12
FAMILIES = [StudentT(), Gaussian()]
Density = Callable[[Tensor], Tensor]


def real_line(n: int = 401, reach: float = 14.0) -> tuple[Tensor, Tensor]:
    """Nodes x = sinh t and weights cosh t dt: the trapezoid rule that also sees heavy tails."""
    t = torch.linspace(-reach, reach, n, dtype=torch.float64)
    return torch.sinh(t), torch.cosh(t) * (t[1] - t[0])


def mass(log_density: Density, d: int) -> float:
    """The integral of a density over R or R^2."""
    x, w = real_line()
    if d == 1:
        return float((log_density(x[None, :, None])[0].exp() * w).sum())
    points = torch.cartesian_prod(x, x)[None]
    return float((log_density(points)[0].exp() * torch.outer(w, w).reshape(-1)).sum())


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("d", [1, 2])
def test_density_integrates_to_one(build, family: Component, d: int) -> None:
    mixture = build.mixture(family, d=d, df=(2.5, 5.0, 30.0))
    assert mass(lambda x: mixture.at_points(x).log_evidence, d) == pytest.approx(1, abs=1e-8)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("d", [1, 2])
def test_density_without_half_of_log_det_does_not_integrate_to_one(
    build, family: Component, d: int
) -> None:
    mixture = build.mixture(family, d=d)
    half = mixture.precision.log_det / 2

    def wrong(x: Tensor) -> Tensor:
        return torch.logsumexp(mixture.at_points(x).score - half, -1)

    assert abs(mass(wrong, d) - 1) > 1e-2


@pytest.mark.parametrize("d", [1, 2, 7])
def test_student_t_equals_scipy(build, apart, d: int) -> None:
    mixture = build.mixture(d=d)
    x = 3 * build.normal(1, 20, d, seed=5)
    ours = (mixture.at_points(x).score - mixture.log_weights)[0]

    def scipy_density(factor: Tensor, df: Tensor) -> Tensor:
        columns = [
            stats.multivariate_t.logpdf(
                x[0].numpy(),
                mixture.loc[0, k].numpy(),
                (factor[0, k] * mixture.scale_matrix[0, k]).numpy(),
                float(df[0, k]),
            )
            for k in range(3)
        ]
        return torch.from_numpy(np.stack(columns, 1).reshape(20, 3))

    df, one = mixture.df, torch.ones(1, 3, dtype=torch.float64)
    assert apart(ours, scipy_density(one, df)) < EXACT
    # Negative controls: the covariance is not the scale matrix, and df is not df + 1.
    assert apart(ours, scipy_density(df / (df - 2), df)) > 1e-2
    assert apart(ours, scipy_density(one, df + 1)) > 1e-3


def test_gaussian_equals_scipy(build, apart) -> None:
    mixture = build.mixture(Gaussian())
    x = build.normal(1, 20, 2, seed=5)
    ours = (mixture.at_points(x).score - mixture.log_weights)[0]

    def scipy_density(matrix: Tensor) -> Tensor:
        columns = [
            stats.multivariate_normal.logpdf(
                x[0].numpy(), mixture.loc[0, k].numpy(), matrix[0, k].numpy()
            )
            for k in range(3)
        ]
        return torch.from_numpy(np.stack(columns, 1))

    assert apart(ours, scipy_density(mixture.scale_matrix)) < EXACT
    # Negative control: standard deviations taken for variances.
    factor = mixture.scale_tril
    assert apart(ours, scipy_density((factor + factor.mT) / 2)) > 1e-2


@pytest.mark.parametrize("df", [2.5, 5.0, 30.0])
def test_student_t_is_a_gamma_scale_mixture(build, df: float) -> None:
    """int Gamma(u | nu/2, rate nu/2) N(x | mu, Sigma/u) du = Student-t(x | mu, Sigma, nu)."""
    mixture = build.mixture(k=1, df=(df,))
    x = build.normal(1, 1, 2, seed=4)
    closed = float((mixture.at_points(x).score - mixture.log_weights).exp())
    loc, matrix = mixture.loc[0, 0].numpy(), mixture.scale_matrix[0, 0].numpy()

    def mixed(rate: float) -> float:
        def integrand(log_u: float) -> float:
            u = np.exp(log_u)
            normal = stats.multivariate_normal.pdf(x[0, 0].numpy(), loc, matrix / u)
            return float(u * stats.gamma.pdf(u, df / 2, scale=1 / rate) * normal)

        return integrate.quad(integrand, -30, 8, epsabs=0, epsrel=1e-11, limit=300)[0]

    assert mixed(df / 2) == pytest.approx(closed, rel=1e-9)
    # Negative control: the rate taken for the scale.
    assert mixed(2 / df) != pytest.approx(closed, rel=1e-2)


def score_by_integration(mixture, q, n: int, k: int) -> float:
    """ln int pi_k p(u) exp(E_q ln N(x | mu_k, Sigma_k / u)) du, with no use of delta.

    The inner expectation is of a quadratic, on which three Gauss-Hermite nodes a side are exact.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(3)
    weights = weights / weights.sum()
    df = float(mixture.df[0, k])
    mean, scale = q.mean[0, n].numpy(), np.exp(q.log_scale[0, n].numpy())
    points = mean + scale * np.stack(np.meshgrid(nodes, nodes), -1).reshape(-1, 2)
    weights = np.outer(weights, weights).reshape(-1)
    loc, matrix = mixture.loc[0, k].numpy(), mixture.scale_matrix[0, k].numpy()

    def integrand(log_u: float) -> float:
        u = np.exp(log_u)
        expected = weights @ stats.multivariate_normal.logpdf(points, loc, matrix / u)
        return float(np.exp(expected + log_u + stats.gamma.logpdf(u, df / 2, scale=2 / df)))

    value = integrate.quad(integrand, -25, 6, epsabs=0, epsrel=1e-11, limit=300)[0]
    return float(mixture.log_weights[0, k]) + float(np.log(value))


def test_score_equals_integration_over_u(build) -> None:
    mixture, q = build.mixture(), build.q(n=2)
    score = mixture(q).score[0]
    without_trace = mixture.at_points(q.mean).score[0]
    for n, k in [(0, 0), (1, 1), (0, 2)]:
        numeric = score_by_integration(mixture, q, n, k)
        assert float(score[n, k]) == pytest.approx(numeric, abs=1e-8)
        # Negative control: the uncertainty of x forgotten.
        assert float(without_trace[n, k]) != pytest.approx(numeric, abs=1e-2)


def test_score_with_standard_deviation_for_variance_fails_integration(build) -> None:
    mixture, q = build.mixture(), build.q(n=1)
    numeric = score_by_integration(mixture, q, 0, 1)
    wrong = mixture.score(q.mean, q.log_scale.exp()).score
    assert float(wrong[0, 0, 1]) != pytest.approx(numeric, abs=1e-2)


def test_expected_scale_is_the_posterior_mean_of_u() -> None:
    """E[u] = int u p(u) p(x | u) du / int p(u) p(x | u) du = (nu + D)/(nu + delta)."""
    d, df = 3, 4.0
    for delta in (0.1, 3.0, 50.0):

        def weighted(log_u: float, power: int, delta: float = delta) -> float:
            u = np.exp(log_u)
            joint = stats.gamma.logpdf(u, df / 2, scale=2 / df) + d / 2 * log_u - u * delta / 2
            return float(np.exp(joint + log_u * (1 + power)))

        above, below = (integrate.quad(weighted, -30, 6, args=(p,), limit=300)[0] for p in (1, 0))
        ours = StudentT().expected_scale(
            torch.tensor([[[delta]]], dtype=torch.float64),
            torch.tensor([[df]], dtype=torch.float64),
            d,
        )
        assert float(ours) == pytest.approx(above / below, rel=1e-7)
        # Negative control: beta without nu.
        assert (df + d) / delta != pytest.approx(above / below, rel=1e-2)


def test_expected_scale_tells_outliers_apart() -> None:
    """One at delta = D whatever nu is, above one nearer the centre, towards zero far away."""
    delta = torch.tensor([0.0, 1.0, 2.0, 10.0, 1e6], dtype=torch.float64).reshape(1, 5, 1)
    for df in (2.5, 30.0):
        u = StudentT().expected_scale(delta, torch.full((1, 1), df, dtype=torch.float64), 2)[
            0, :, 0
        ]
        assert (u.diff() < 0).all()
        assert float(u[0]) > 1
        assert float(u[2]) == pytest.approx(1)
        assert float(u[-1]) < 1e-4
    ones = Gaussian().expected_scale(delta, torch.full((1, 1), 5.0, dtype=torch.float64), 2)
    assert (ones == 1).all()  # the Gaussian has no opinion


def test_heavier_tails_discount_outliers_more() -> None:
    delta = torch.full((1, 1, 3), 100.0, dtype=torch.float64)
    df = torch.tensor([[2.5, 5.0, 30.0]], dtype=torch.float64)
    assert (StudentT().expected_scale(delta, df, 2)[0, 0].diff() > 0).all()


def test_scale_entropy_is_that_of_the_gamma(build, apart) -> None:
    delta = build.normal(2, 5, 3).square()
    df = torch.tensor([[2.5, 5.0, 30.0], [3.0, 4.0, 100.0]], dtype=torch.float64)
    ours = StudentT().scale_entropy(delta, df, 4)
    shape = ((df + 4) / 2).unsqueeze(1).expand_as(delta)
    rate = (df.unsqueeze(1) + delta) / 2
    assert apart(ours, torch.distributions.Gamma(shape, rate).entropy()) < EXACT
    # Negative control: the missing 1/2 of the rate.
    assert apart(ours, torch.distributions.Gamma(shape, 2 * rate).entropy()) > 1e-2
    assert (Gaussian().scale_entropy(delta, df, 4) == 0).all()


def test_student_t_tends_to_the_gaussian(build) -> None:
    """The difference falls as 1/nu; at nu = 5 it is far from gone."""
    delta, log_det = 4 * build.normal(1, 8, 2).square(), build.normal(1, 2)
    limit = Gaussian().log_density(delta, log_det, torch.ones_like(log_det), 2)

    def gap(df: float) -> float:
        nu = torch.full_like(log_det, df)
        return float((StudentT().log_density(delta, log_det, nu, 2) - limit).abs().max())

    gaps = [gap(10.0**e) for e in range(2, 7)]
    for wide, narrow in pairwise(gaps):
        assert wide / narrow == pytest.approx(10, rel=0.25)
    assert gaps[-1] < 1e-3
    assert gap(5.0) > 0.1


def test_expected_scale_tends_to_one(build) -> None:
    delta = build.normal(1, 8, 2).square()
    far = StudentT().expected_scale(delta, torch.full((1, 2), 1e6, dtype=torch.float64), 2)
    near = StudentT().expected_scale(delta, torch.full((1, 2), 5.0, dtype=torch.float64), 2)
    assert float((far - 1).abs().max()) < 1e-4
    assert float((near - 1).abs().max()) > 1e-2


@pytest.mark.parametrize("method", ["log_density", "expected_scale", "scale_entropy"])
def test_assorted_is_each_members_own_family(build, apart, method: str) -> None:
    names = ["student-t", "gaussian", "gaussian", "student-t"]
    delta, log_det = build.normal(4, 5, 3).square(), build.normal(4, 3, seed=1)
    df = 3 + build.normal(4, 3, seed=2).square()
    rest = (log_det, df, 2) if method == "log_density" else (df, 2)
    together = getattr(component_for(names), method)(delta, *rest)
    for i, name in enumerate(names):
        mine = tuple(v[i : i + 1] if isinstance(v, Tensor) else v for v in rest)
        own, other = (
            getattr(component_for([which]), method)(delta[i : i + 1], *mine)
            for which in (name, "gaussian" if name == "student-t" else "student-t")
        )
        assert torch.equal(together[i : i + 1], own)
        assert apart(together[i : i + 1], other) > 1e-3


def test_component_for_names() -> None:
    assert isinstance(component_for(["student-t", "student-t"]), StudentT)
    assert isinstance(component_for(["gaussian"]), Gaussian)
    with pytest.raises(KeyError, match="cauchy"):
        component_for(["cauchy"])


def test_scales_follow_their_gamma() -> None:
    df = torch.full((4000,), 5.0, dtype=torch.float64)
    u = StudentT().sample_scale(df, 3, torch.Generator().manual_seed(0)).numpy()
    assert stats.kstest(u, stats.gamma(2.5, scale=1 / 2.5).cdf).pvalue > 0.01
    # Negative control: the rate forgotten.
    assert stats.kstest(u, stats.gamma(2.5).cdf).pvalue < 1e-6


def test_a_gaussian_has_scale_one_and_an_assorted_fleet_none() -> None:
    df = torch.full((3,), 5.0)
    generator = torch.Generator().manual_seed(0)
    assert Gaussian().sample_scale(df, 3, generator).tolist() == [1, 1, 1]
    with pytest.raises(TypeError, match="select one member first"):
        component_for(["student-t", "gaussian"]).sample_scale(df, 3, generator)


# ------------------------------------------------- N(m, diag s^2) against torch.distributions


def reference(q: DiagonalNormal, scale: torch.Tensor) -> torch.distributions.Independent:
    return torch.distributions.Independent(torch.distributions.Normal(q.mean, scale), 1)


def test_log_prob_and_entropy_equal_torch(build, apart) -> None:
    q, value = build.q(2, 5, 3), build.normal(2, 5, 3, seed=20)
    right, wrong = reference(q, q.log_scale.exp()), reference(q, q.variance)
    assert apart(q.log_prob(value), right.log_prob(value)) < ROUNDING
    assert apart(q.entropy(), right.entropy()) < ROUNDING
    # Negative control: the variance used as a standard deviation.
    assert apart(q.log_prob(value), wrong.log_prob(value)) > 1e-2
    assert apart(q.entropy(), wrong.entropy()) > 1e-2


def test_variance_is_the_square_of_the_scale(build, apart) -> None:
    q = build.q()
    assert apart(q.variance, reference(q, q.log_scale.exp()).variance) < ROUNDING


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


# Digits


@pytest.mark.parametrize("d", [2, 50, 200])
def test_a_large_df_loses_no_digits_in_float32(d: int) -> None:
    df = torch.tensor([[2.5, 30.0, 70.0, 1e3, 1e6, 1e9, 1e12]])
    delta, log_det = d * torch.tensor([0.3, 1.0, 4.0]).reshape(1, 3, 1).expand(1, 3, 7), 0 * df
    single = StudentT().log_density(delta, log_det, df, d)
    double = StudentT().log_density(delta.double(), log_det.double(), df.double(), d)
    torch.testing.assert_close(single.double(), double, rtol=3e-6, atol=3e-6)
    # Negative control: the difference of two logarithms of Gamma.
    x = df[0, -2:] / 2
    literal = torch.lgamma(x + d / 2) - torch.lgamma(x) - d / 2 * torch.log(x)
    exact = log_gamma_ratio(x[None].double(), d / 2)[0]
    assert (literal.double() - exact).abs().min() > 0.1


@pytest.mark.parametrize("a", [0.5, 1.0, 7.5, 100.0])
def test_the_series_of_log_gamma_is_exact(a: float) -> None:
    x = torch.tensor([[1.005, 3.0, 31.9, 32.1, 50.0, 300.0]]).double()
    wanted = torch.lgamma(x + a) - torch.lgamma(x) - a * torch.log(x)
    torch.testing.assert_close(log_gamma_ratio(x, a), wanted, rtol=0, atol=1e-11)
    x.requires_grad_()
    assert torch.autograd.gradcheck(lambda x: log_gamma_ratio(x, a), x)


def test_the_series_of_the_entropy_is_exact() -> None:
    a = torch.tensor([[[1.0, 5.0, 31.9, 32.1, 40.0, 200.0]]]).double()
    wanted = a + torch.lgamma(a) + (1 - a) * torch.digamma(a)
    torch.testing.assert_close(gamma_entropy(a), wanted, rtol=0, atol=1e-11)
    large = torch.full((1, 1, 1), 5e6)
    torch.testing.assert_close(gamma_entropy(large).double(), gamma_entropy(large.double()))
