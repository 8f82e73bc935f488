"""The bound: six terms, collapsed; its gradient; what labels add; the plain VAE inside it."""

import math

import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical, Gamma, Independent, Normal, kl_divergence

from whowrote.model import BoundTerms, DiagonalNormal, Gaussian, Mixture, six_terms
from whowrote.model.fleet import UNLABELLED
from whowrote.model.mixture import log_excess
from whowrote.model.vae import HiddenPosterior, label_term, optimal_posterior, prior_term

EXACT = 1e-10


def unlabelled(q: DiagonalNormal) -> Tensor:
    return torch.full(q.mean.shape[:2], UNLABELLED)


def weight(value: float, m: int = 1) -> Tensor:
    return torch.full((m,), value, dtype=torch.float64)


def prior(mixture: Mixture, q: DiagonalNormal, objective: str = "bound") -> Tensor:
    return prior_term(mixture(q), unlabelled(q), mixture, weight(1.0, len(q.mean)), objective)


def collapsed(mixture: Mixture, q: DiagonalNormal, log_p_o: Tensor) -> Tensor:
    return log_p_o + q.entropy() + prior(mixture, q)


def other(hidden: HiddenPosterior, by: float, build) -> HiddenPosterior:
    """Another q(u, z), normalised, at a distance that grows with ``by``."""
    shape, rate = hidden.shape, hidden.rate
    return HiddenPosterior(
        torch.log_softmax(hidden.log_gamma + by * build.normal(*rate.shape, seed=31), -1),
        shape * torch.exp(by * build.normal(*shape.shape, seed=32)),
        rate * torch.exp(by * build.normal(*rate.shape, seed=33)),
    )


def test_six_terms_at_the_optimum_equal_the_collapsed_bound(build, apart) -> None:
    mixture, q, log_p_o = build.mixture(m=2, d=3), build.q(2, 6, 3), build.normal(2, 6)
    hidden = optimal_posterior(mixture, mixture(q))
    bound = collapsed(mixture, q, log_p_o)
    assert apart(six_terms(mixture, q, hidden, log_p_o).total, bound) < EXACT
    # Negative controls: beta without its 1/2, beta without the trace, a stray nu in alpha.
    no_trace = optimal_posterior(mixture, mixture.at_points(q.mean))
    for wrong in (
        HiddenPosterior(hidden.log_gamma, hidden.shape, 2 * hidden.rate),
        HiddenPosterior(hidden.log_gamma, hidden.shape, no_trace.rate),
        HiddenPosterior(hidden.log_gamma, 2 * hidden.shape, hidden.rate),
    ):
        assert apart(six_terms(mixture, q, wrong, log_p_o).total, bound) > 1e-3


@pytest.mark.parametrize("by", [0.01, 0.1, 1.0])
def test_any_other_posterior_is_lower(build, by: float) -> None:
    mixture, q, log_p_o = build.mixture(m=2), build.q(2), build.normal(2, 6)
    hidden = other(optimal_posterior(mixture, mixture(q)), by, build)
    six = six_terms(mixture, q, hidden, log_p_o)
    bound = collapsed(mixture, q, log_p_o)
    assert (six.total < bound).all()
    # Negative control: without the terms about u the sum is no lower bound.
    assert (six.total - six.log_p_u - six.log_p_x > bound).any()


def test_the_gap_is_the_divergence_of_the_posteriors(build, apart) -> None:
    """bound - six terms = KL(q(u, z) || optimal q(u, z)), exactly."""
    mixture, q, log_p_o = build.mixture(m=2), build.q(2), build.normal(2, 6)
    best = optimal_posterior(mixture, mixture(q))
    worse = other(best, 0.5, build)
    gap = collapsed(mixture, q, log_p_o) - six_terms(mixture, q, worse, log_p_o).total
    kl_z = kl_divergence(Categorical(logits=worse.log_gamma), Categorical(logits=best.log_gamma))
    kl_u = kl_divergence(Gamma(worse.shape, worse.rate), Gamma(best.shape, best.rate))
    assert apart(gap, kl_z + (worse.log_gamma.exp() * kl_u).sum(-1)) < 1e-9
    # Negative control: the divergence the wrong way round.
    back = kl_divergence(Gamma(best.shape, best.rate), Gamma(worse.shape, worse.rate))
    assert apart(gap, kl_z + (worse.log_gamma.exp() * back).sum(-1)) > 1e-2


def gradients(value: Tensor, leaves: list[Tensor]) -> Tensor:
    return torch.cat([g.reshape(-1) for g in torch.autograd.grad(value.sum(), leaves)])


def free(mixture: Mixture, q: DiagonalNormal) -> tuple[DiagonalNormal, list[Tensor]]:
    """q with gradients, and every leaf that the latent part depends on."""
    mixture.requires_grad_()
    q = DiagonalNormal(q.mean.clone().requires_grad_(), q.log_scale.clone().requires_grad_())
    return q, [*mixture.parameters(), q.mean, q.log_scale]


def test_gradient_of_the_bound_is_the_frozen_gradient(build, apart) -> None:
    """The envelope theorem: at the optimal q(u, z), its own dependence contributes nothing."""
    mixture = build.mixture(m=2, d=3)
    q, leaves = free(mixture, build.q(2, 6, 3))
    zero = torch.zeros(2, 6).double()
    with torch.no_grad():
        hidden = optimal_posterior(mixture, mixture(q))
    frozen = gradients(six_terms(mixture, q, hidden, zero).total, leaves)
    assert apart(gradients(collapsed(mixture, q, zero), leaves), frozen) < EXACT
    # Negative controls: the literal algorithm, and six terms frozen at another q.
    literal = gradients(q.entropy() + prior(mixture, q, "algorithm-1"), leaves)
    assert apart(literal, frozen) > 1e-2
    with torch.no_grad():
        worse = other(hidden, 0.1, build)
    assert apart(gradients(six_terms(mixture, q, worse, zero).total, leaves), frozen) > 1e-3


@pytest.mark.parametrize(("d", "factor"), [(2, 0.714), (50, 0.964)])
def test_algorithm_1_shrinks_the_pull(build, d: int, factor: float) -> None:
    """K = 1, nu = 5: the gradient on x and mu is (alpha - 1)/alpha of the bound's."""
    mixture = build.mixture(k=1, d=d, df=(5.0,))
    q, _ = free(mixture, build.q(1, 4, d))
    leaves = [q.mean, q.log_scale, mixture.loc]
    ratio = gradients(prior(mixture, q, "algorithm-1"), leaves) / gradients(
        prior(mixture, q), leaves
    )
    alpha = (5 + d) / 2
    assert torch.allclose(ratio, torch.full_like(ratio, (alpha - 1) / alpha), rtol=1e-9)
    assert float(ratio[0]) == pytest.approx(factor, abs=5e-4)
    assert float(ratio[0]) != pytest.approx(1, abs=1e-2)


def test_algorithm_1_is_the_first_three_terms(build, apart) -> None:
    """sum_k gamma ln rho = E ln p(z) + E ln p(u | z) + E ln p(x | z, u)."""
    mixture, q = build.mixture(m=2), build.q(2)
    hidden = optimal_posterior(mixture, mixture(q))
    six = six_terms(mixture, q, hidden, torch.zeros(2, 6).double())
    three = six.log_p_z + six.log_p_u + six.log_p_x
    assert apart(prior(mixture, q, "algorithm-1"), three) < EXACT
    # Negative control: the bound keeps the entropy of q(u, z) as well.
    assert apart(prior(mixture, q), three) > 1e-2
    assert apart(prior(mixture, q), three + six.entropy_uz) < EXACT


def test_gaussian_score_is_the_limit_of_the_objective(build) -> None:
    q, gaussian = build.q(), build.mixture(Gaussian())
    gaps = []
    for exponent in (2, 4, 6):
        student = build.mixture(df=(10.0**exponent,) * 3)
        gaps.append(float((prior(student, q) - prior(gaussian, q)).abs().max()))
    assert gaps[0] > 10 * gaps[1] > 100 * gaps[2]
    assert gaps[2] < 1e-3
    # Negative control: at nu = 5 the tails count.
    assert float((prior(build.mixture(df=(5.0,) * 3), q) - prior(gaussian, q)).abs().max()) > 0.1


def standard_normal(build, d: int, df: float | None = None) -> Mixture:
    """K = 1, mu = 0, Sigma = 0.9 I + 0.1 I; Student-t where ``df`` is given."""
    mixture = build.mixture(None if df else Gaussian(), k=1, d=d, floor=0.1)
    mixture.loc.zero_()
    mixture.factor.copy_(math.log(0.9) / 2 * torch.eye(d, dtype=torch.float64))
    if df is not None:
        mixture.log_excess.copy_(log_excess(torch.full((1, 1), df).double()))
    return mixture


def test_one_standard_normal_is_the_plain_vae(build, apart) -> None:
    """H(q) + E_q ln N(x | 0, I) = -KL(q || N(0, I)), in closed form."""
    q = build.q(d=3)
    posterior = Independent(Normal(q.mean, q.log_scale.exp()), 1)
    standard = Independent(Normal(torch.zeros_like(q.mean), torch.ones_like(q.mean)), 1)
    kl = kl_divergence(posterior, standard)
    assert apart(q.entropy() + prior(standard_normal(build, 3), q), -kl) < EXACT
    by_hand = (q.mean.square() + q.variance - 2 * q.log_scale - 1).sum(-1) / 2
    assert apart(kl, by_hand) < EXACT
    # Negative controls: a Student-t prior, and a prior that forgets the trace.
    assert apart(q.entropy() + prior(standard_normal(build, 3, df=5.0), q), -kl) > 1e-2
    point = standard_normal(build, 3).at_points(q.mean).log_evidence
    assert apart(q.entropy() + point, -kl) > 1e-2


def test_labelled_rows_use_score_and_log_gamma(build, apart) -> None:
    mixture, q = build.mixture(m=2), build.q(2, 4)
    scores, labels = mixture(q), torch.tensor([[0, 2, 1, 1], [2, 2, 0, 1]])
    joint, label = torch.tensor([0.3, 2.0]).double(), torch.tensor([10.0, 0.0]).double()
    own = scores.score.gather(-1, labels[..., None])[..., 0]
    ln_gamma = own - torch.logsumexp(scores.score, -1)
    assert apart(prior_term(scores, labels, mixture, joint, "bound"), joint[:, None] * own) < EXACT
    assert apart(label_term(scores, labels, label), label[:, None] * ln_gamma) < EXACT
    # Negative control: another author's score.
    wrong = prior_term(scores, (labels + 1) % 3, mixture, joint, "bound")
    assert apart(wrong, joint[:, None] * own) > 1e-2


def test_labelled_rows_of_algorithm_1_use_ln_rho(build, apart) -> None:
    mixture, q, labels = build.mixture(), build.q(n=3), torch.tensor([[0, 1, 2]])
    scores = mixture(q)
    entropy = mixture.component.scale_entropy(scores.delta, mixture.df, 2)
    rho = torch.diagonal((scores.score - entropy)[0])[None]
    ours = prior_term(scores, labels, mixture, weight(0.7), "algorithm-1")
    assert apart(ours, 0.7 * rho) < EXACT
    assert apart(prior_term(scores, labels, mixture, weight(0.7), "bound"), 0.7 * rho) > 1e-2


@pytest.mark.parametrize("objective", ["bound", "algorithm-1"])
def test_missing_labels_use_the_evidence(build, objective: str) -> None:
    """Row by row: -1 gives what no labels at all would, whatever the weights; the rest do not."""
    mixture, q = build.mixture(), build.q(n=4)
    scores, labels = mixture(q), torch.tensor([[UNLABELLED, 1, UNLABELLED, 0]])
    mixed = prior_term(scores, labels, mixture, weight(3.0), objective)
    none = prior(mixture, q, objective)
    missing = labels == UNLABELLED
    assert torch.equal(mixed[missing], none[missing])
    assert ((mixed - none)[~missing].abs() > 1e-2).all()
    assert (label_term(scores, labels, weight(5.0))[missing] == 0).all()
    assert (label_term(scores, labels, weight(5.0))[~missing] < 0).all()


def test_evidence_is_the_logsumexp_of_the_scores(build) -> None:
    mixture, q = build.mixture(), build.q()
    assert torch.equal(prior(mixture, q), torch.logsumexp(mixture(q).score, -1))
    assert not torch.equal(prior(mixture, q), mixture(q).score.amax(-1))


def test_bound_terms_add_up(build, apart) -> None:
    a, b, c, e = (build.normal(2, 5, seed=i) for i in range(4))
    l1 = torch.tensor([0.5, 2.0]).double()
    terms = BoundTerms(a, b, c, e, l1)
    assert apart(terms.bound, a + b + c) < EXACT
    assert apart(terms.loss, l1 - (a + b + c + e).mean(1)) < EXACT
    means = terms.means()
    assert list(means) == ["reconstruction", "entropy", "prior", "labels", "l1"]
    assert apart(means["l1"] - sum(list(means.values())[:4]), terms.loss) < EXACT
