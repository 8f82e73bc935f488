"""The whole model: its terms, its bound against the likelihood, and what it generates."""

import math

import pytest
import torch
from scipy import stats
from torch import Tensor

from whowrote.model import Batch, DiagonalNormal, Member, MixtureVAE, SparseRows, Streams
from whowrote.model.mixture import log_excess

EXACT = 1e-10


def streams(*seeds: int) -> Streams:
    return Streams(seeds or (0,), dtype=torch.float64)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


# ------------------------------------------------------------------ the terms of the objective


def test_terms_are_those_of_the_parts(build, apart) -> None:
    member = Member(l1=0.25, joint_weight=0.5, label_weight=4.0)
    fleet, batch = build.fleet([member]), build.batch()
    terms, q = fleet(batch, streams()), fleet.encode(batch.inputs)
    x = q.at(streams().normal(6, 2))
    score = fleet.mixture(q).score
    own = score.gather(-1, batch.labels[..., None])[..., 0]
    assert apart(terms.reconstruction, fleet.decode(x).log_prob(batch.targets)) < EXACT
    assert apart(terms.entropy, q.entropy()) < EXACT
    assert apart(terms.prior, 0.5 * own) < EXACT
    assert apart(terms.labels, 4 * (own - torch.logsumexp(score, -1))) < EXACT
    # Negative control: other noise, other reconstruction.
    assert apart(terms.reconstruction, fleet(batch, streams(1)).reconstruction) > 1e-3


def test_l1_counts_both_networks_and_nothing_else(build, apart) -> None:
    fleet, batch = build.fleet([Member(l1=0.25), Member(l1=0.0)]), build.batch(2)
    networks = [*fleet.encoder.parameters(), *fleet.decoder.parameters()]
    expected = 0.25 * sum(p[0].abs().sum() for p in networks)
    l1 = fleet(batch, streams(0, 1)).l1
    assert apart(l1[0], expected) < EXACT
    assert float(l1[1]) == 0
    fleet.mixture.loc.add_(1.0)
    assert torch.equal(fleet(batch, streams(0, 1)).l1, l1)


def test_missing_labels_give_the_bound(build, apart) -> None:
    """A row labelled -1 gives logsumexp of its scores, beside labelled rows or not."""
    fleet, batch = build.fleet([Member(joint_weight=3.0, label_weight=2.0)]), build.batch()
    some = Batch(batch.inputs, batch.targets, torch.tensor([[-1, 0, 1, -1, 2, 0]]))
    missing = some.labels == -1
    mixed, none = fleet(some, streams()), fleet(batch.unlabelled(), streams())
    assert apart(none.prior, fleet.scores(batch.inputs).log_evidence) < EXACT
    assert (none.labels == 0).all()
    assert torch.equal(mixed.bound[missing], none.bound[missing])
    assert ((mixed.bound - none.bound)[~missing].abs() > 1e-3).all()


def test_several_samples_are_averaged(build, apart) -> None:
    """T = 3: the mean of ln p(o | x_t), not ln p at the mean x nor the log of the mean."""
    fleet, batch = build.fleet(n_samples=3), build.batch(n=5)
    q, noise = fleet.encode(batch.inputs), streams().normal(15, 2)
    each = torch.stack([fleet.decode(q.at(e)).log_prob(batch.targets) for e in noise.split(5, 1)])
    ours = fleet(batch, streams()).reconstruction
    assert apart(ours, each.mean(0)) < EXACT
    assert apart(ours, each[0]) > 1e-3
    assert apart(ours, torch.logsumexp(each, 0) - math.log(3)) > 1e-3


def test_more_samples_scatter_less(build) -> None:
    batch = build.batch(n=4)
    spread = []
    for t in (1, 16):
        fleet = build.fleet(n_samples=t)
        draws = torch.stack([fleet(batch, streams(s)).reconstruction for s in range(40)])
        spread.append(float(draws.std(0).mean()))
    assert spread[0] / spread[1] == pytest.approx(4, rel=0.35)


def test_dropout_acts_only_in_training(build, apart) -> None:
    batch = build.batch()
    noisy, plain = (build.fleet([Member(input_dropout=p, hidden_dropout=p)]) for p in (0.4, 0.0))
    still = noisy(batch, streams(), training=False)
    assert apart(still.bound, plain(batch, streams(), training=False).bound) < EXACT
    assert apart(noisy(batch, streams()).bound, still.bound) > 1e-3


@pytest.mark.parametrize("which", ["input_dropout", "hidden_dropout"])
def test_a_mates_dropout_does_not_touch_a_member_without(build, apart, which: str) -> None:
    """Nor the random numbers it draws."""
    members, batch = [Member(), Member(**{which: 0.5})], build.batch(2)
    fleet = build.fleet(members)
    together = fleet(batch, streams(3, 4))
    lone = fleet.select([0])(
        Batch(batch.inputs[:1], batch.targets[:1], batch.labels[:1]), streams(3)
    )
    assert apart(together.reconstruction[:1], lone.reconstruction) < EXACT


def test_sparse_inputs_give_what_dense_ones_do(build, apart) -> None:
    """The encoder reads the sparse row, the decoder explains the dense target."""
    fleet = build.fleet([Member(), Member(component="gaussian")], n_inputs=7)
    dense = build.normal(2, 5, 7) * (build.normal(2, 5, 7, seed=1) > 0)
    flat = dense.reshape(10, 7)
    row, column = flat.nonzero(as_tuple=True)
    start = torch.cat(
        [torch.zeros(1, dtype=torch.long), torch.bincount(row, minlength=10).cumsum(0)]
    )
    sparse = SparseRows(start, column, flat[row, column])
    batch = build.batch(2, 5)
    q, p = fleet.encode(sparse), fleet.encode(dense)
    assert apart(q.mean, p.mean) < EXACT
    assert apart(q.log_scale, p.log_scale) < EXACT
    terms = fleet(Batch(sparse, batch.targets, batch.labels), streams(0, 1))
    assert terms.bound.shape == (2, 5)
    assert terms.loss.isfinite().all()


# --------------------------------------------------------------- the bound and the likelihood


def one_dimensional(build, component: str) -> MixtureVAE:
    """One component and a gentle decoder: the posterior is near normal, the bound near tight."""
    members = [Member(component=component)]
    return build.fleet(members, latent_dim=1, n_components=1, scale=0.4, seed=40)


def log_likelihood(fleet: MixtureVAE, targets: Tensor) -> Tensor:
    """ln p(o) = ln int p(x) p(o | x) dx on the line x = sinh t."""
    t = torch.linspace(-12, 12, 6001, dtype=torch.float64)
    x = torch.sinh(t).reshape(1, -1, 1)
    log_weight = torch.log(torch.cosh(t) * (t[1] - t[0]))
    prior = fleet.mixture.at_points(x).log_evidence + log_weight
    n = targets.shape[1]
    p = fleet.decode(x)
    rows = [p.log_prob(targets[:, i : i + 1].expand(1, x.shape[1], -1)) for i in range(n)]
    return torch.stack([torch.logsumexp(row + prior, 1) for row in rows], 1)


def grid_noise(n: int, t: int = 300) -> Tensor:
    """Quantiles of the standard normal for every row: Monte Carlo without its noise."""
    levels = (torch.arange(t, dtype=torch.float64) + 0.5) / t
    z = math.sqrt(2) * torch.erfinv(2 * levels - 1)
    return z.repeat_interleave(n).reshape(1, t * n, 1)


def fitted_q(fleet: MixtureVAE, targets: Tensor) -> DiagonalNormal:
    """The best q(x) for each row: the bound is then nearly tight, and errors show."""
    n = targets.shape[1]
    mean = torch.zeros(1, n, 1, dtype=torch.float64, requires_grad=True)
    log_scale = torch.zeros(1, n, 1, dtype=torch.float64, requires_grad=True)
    search = torch.optim.Adam([mean, log_scale], lr=0.1)
    for _ in range(150):
        search.zero_grad()
        (-bound(fleet, DiagonalNormal(mean, log_scale), targets).sum()).backward()
        search.step()
    return DiagonalNormal(mean.detach(), log_scale.detach())


def bound(fleet: MixtureVAE, q: DiagonalNormal, targets: Tensor) -> Tensor:
    reconstruction = fleet.reconstruction(q, targets, grid_noise(targets.shape[1]))
    return reconstruction + q.entropy() + fleet.mixture(q).log_evidence


@pytest.mark.parametrize("component", ["student-t", "gaussian"])
def test_the_bound_is_below_the_likelihood(build, component: str) -> None:
    fleet, targets = one_dimensional(build, component), build.normal(1, 8, 4)
    truth = log_likelihood(fleet, targets)
    q = fitted_q(fleet, targets)
    assert (bound(fleet, fleet.encode(targets), targets) <= truth).all()
    assert (bound(fleet, q, targets) <= truth + 1e-3).all()
    # Negative control: a bound whose prior forgets the trace is none.
    trace = fleet.mixture(q).log_evidence - fleet.mixture.at_points(q.mean).log_evidence
    assert (bound(fleet, q, targets) - trace > truth + 0.05).any()


def importance(fleet: MixtureVAE, q: DiagonalNormal, targets: Tensor, t: int, seed: int) -> Tensor:
    """t log weights for every row."""
    n = targets.shape[1]
    noise = streams(seed).normal(t * n, fleet.architecture.latent_dim)
    logs = fleet.importance_weights(q.repeat(t), targets.repeat(1, t, 1), noise)
    return logs.reshape(t, n)


@pytest.mark.parametrize("component", ["student-t", "gaussian"])
def test_importance_weights_estimate_the_likelihood(build, apart, component: str) -> None:
    fleet, targets = one_dimensional(build, component), build.normal(1, 8, 4)
    q = fleet.encode(targets)
    wide = DiagonalNormal(q.mean, q.log_scale.clamp(min=0.5))
    logs = importance(fleet, wide, targets, 40000, 1)
    estimate = torch.logsumexp(logs, 0) - math.log(len(logs))
    truth = log_likelihood(fleet, targets)[0]
    assert apart(estimate, truth) < 0.05
    # Negative control: without q(x | o) in the weight it is something else.
    x = wide.repeat(40000).at(streams(1).normal(320000, 1))
    missing = wide.repeat(40000).log_prob(x).reshape(40000, 8)
    assert apart(torch.logsumexp(logs + missing, 0) - math.log(len(logs)), truth) > 0.5


@pytest.mark.parametrize("component", ["student-t", "gaussian"])
def test_the_bound_is_below_the_importance_weighted_likelihood(build, component: str) -> None:
    fleet, batch = build.fleet([Member(component=component)], n_samples=2000), build.batch()
    lower = fleet(batch.unlabelled(), streams(5), training=False).bound[0]
    logs = importance(fleet, fleet.encode(batch.inputs), batch.targets, 20000, 6)
    assert (lower < torch.logsumexp(logs, 0) - math.log(len(logs))).all()


@pytest.mark.parametrize("component", ["student-t", "gaussian"])
def test_a_bound_without_trace_exceeds_the_importance_weighted_likelihood(
    build, component: str
) -> None:
    """The negative control of the test above, at the q where the bound is nearly tight."""
    fleet, targets = one_dimensional(build, component), build.normal(1, 8, 4)
    q = fitted_q(fleet, targets)
    logs = importance(fleet, q, targets, 20000, 6)
    upper = torch.logsumexp(logs, 0) - math.log(len(logs))
    forgetful = fleet.mixture.at_points(q.mean).log_evidence - fleet.mixture(q).log_evidence
    assert (bound(fleet, q, targets)[0] < upper + 1e-3).all()
    assert ((bound(fleet, q, targets) + forgetful)[0] > upper + 0.05).any()


def test_more_importance_samples_raise_the_estimate(build) -> None:
    """E ln mean_t w_t grows with t, from E ln w to ln p(o)."""
    fleet, targets = one_dimensional(build, "student-t"), build.normal(1, 8, 4)
    q = fleet.encode(targets)
    logs = importance(fleet, DiagonalNormal(q.mean, q.log_scale + 1), targets, 8192, 2)
    means = []
    for t in (1, 4, 16, 64):
        groups = logs.reshape(-1, t, 8)
        means.append(float((torch.logsumexp(groups, 1) - math.log(t)).mean()))
    assert means == sorted(means)
    assert means[-1] - means[0] > 0.01
    assert means[-1] <= float(log_likelihood(fleet, targets).mean()) + 0.05
    # Negative control: the sum in place of the mean does not stop at ln p(o).
    sums = float(torch.logsumexp(logs.reshape(-1, 64, 8), 1).mean())
    assert sums > float(log_likelihood(fleet, targets).mean()) + 0.05


# ------------------------------------------------------------------------------ generation


def generating(build, component: str = "student-t", d: int = 3) -> MixtureVAE:
    fleet = build.fleet([Member(component=component)], latent_dim=d)
    fleet.mixture.log_excess.copy_(log_excess(torch.tensor([[2.5, 5.0, 12.0]]).double()))
    return fleet


def distances(fleet: MixtureVAE, k: int, n: int = 20000) -> Tensor:
    """delta / D of generated latents under their own component."""
    drawn = fleet.generate(torch.full((n,), k), generator(k))
    return fleet.mixture.at_points(drawn.latents[None]).delta[0, :, k] / fleet.mixture.loc.shape[-1]


@pytest.mark.parametrize("k", [0, 1, 2])
def test_distances_follow_the_f_distribution(build, k: int) -> None:
    """delta / D ~ F(D, nu_k): the ground of the typicality p-value."""
    fleet = generating(build)
    df = float(fleet.mixture.df[0, k])
    assert stats.kstest(distances(fleet, k), stats.f(3, df).cdf).pvalue > 0.01
    # Negative controls: the wrong degrees of freedom, and latents without tails.
    assert stats.kstest(distances(fleet, k), stats.f(3, 4 * df).cdf).pvalue < 1e-3
    assert (
        stats.kstest(distances(generating(build, "gaussian"), k), stats.f(3, df).cdf).pvalue < 0.01
    )


def test_gaussian_distances_follow_chi_square(build) -> None:
    chi2 = stats.chi2(3, scale=1 / 3).cdf
    assert stats.kstest(distances(generating(build, "gaussian"), 0), chi2).pvalue > 0.01
    assert stats.kstest(distances(generating(build), 0), chi2).pvalue < 1e-6


def test_scales_are_those_of_the_classes(build) -> None:
    fleet, classes = generating(build), torch.arange(3).repeat(3000)
    drawn = fleet.generate(classes, generator())
    assert torch.equal(drawn.classes, classes)
    for k in range(3):
        half = float(fleet.mixture.df[0, k]) / 2
        own = drawn.scales[classes == k]
        assert stats.kstest(own, stats.gamma(half, scale=1 / half).cdf).pvalue > 0.01
    assert (generating(build, "gaussian").generate(classes, generator()).scales == 1).all()


def test_observations_are_normal_about_the_decoded_latents(build) -> None:
    fleet = generating(build)
    drawn = fleet.generate(torch.arange(3).repeat(700), generator())
    p = fleet.decode(drawn.latents[None])
    off = drawn.observations - p.mean[0]
    assert stats.kstest((off / p.log_scale[0].exp()).reshape(-1), stats.norm.cdf).pvalue > 0.01
    # Negative control: the variance taken for the standard deviation.
    assert stats.kstest((off / p.variance[0]).reshape(-1), stats.norm.cdf).pvalue < 1e-6


def test_latents_are_centred_and_spread_as_stated(build, apart) -> None:
    """Cov = nu/(nu - 2) Sigma for the Student-t, Sigma for the Gaussian."""
    fleet, n = generating(build), 40000
    x = fleet.generate(torch.full((n,), 2), generator()).latents
    matrix, df = fleet.mixture.scale_matrix[0, 2], float(fleet.mixture.df[0, 2])
    size = float(matrix.abs().max())
    assert apart(x.mean(0), fleet.mixture.loc[0, 2]) < 0.05 * math.sqrt(size)
    assert apart(torch.cov(x.T), df / (df - 2) * matrix) < 0.04 * size
    assert apart(torch.cov(x.T), matrix) > 0.04 * size  # the scale matrix is not the covariance


def test_generation_depends_on_its_generator_alone(build) -> None:
    fleet, classes = generating(build), torch.arange(30) % 3
    with torch.random.fork_rng():
        torch.manual_seed(0)
        first = fleet.generate(classes, generator(1))
        torch.manual_seed(1)
        second, third = (fleet.generate(classes, generator(s)) for s in (1, 2))
    assert torch.equal(first.observations, second.observations)
    assert not torch.equal(first.observations, third.observations)
