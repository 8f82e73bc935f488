"""The parametrisation, the distances, and what moves when the data or the components move."""

import copy
import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from jaxtyping import TypeCheckError
from scipy import stats
from torch import Tensor

from whowrote.model import Component, DiagonalNormal, Gaussian, Mixture, StudentT
from whowrote.model.mixture import SMALLEST_DF, from_published_df, log_excess
from whowrote.model.precision import Precision, precision_of

EXACT = 1e-10


def test_weights_are_a_distribution(build) -> None:
    weights = build.mixture(m=4).log_weights.exp()
    assert (weights > 0).all()
    assert torch.allclose(weights.sum(-1), torch.ones(4).double())


def test_df_stays_above_two(build) -> None:
    mixture = build.mixture(k=3)
    mixture.log_excess.copy_(torch.tensor([[-1e3, 0.0, 1e3]]))
    df = mixture.df[0].tolist()
    assert df[0] == SMALLEST_DF > 2
    assert df[1] == pytest.approx(SMALLEST_DF + 1)
    assert df[2] == pytest.approx(1e8)  # and no infinity: a Gaussian to the last digit


def test_a_step_multiplies_what_df_is_above_two(build) -> None:
    df = [2.5, 8.0, 1e3]
    mixture = build.mixture(k=3, df=df)
    mixture.log_excess.add_(math.log(1.5))
    wanted = [SMALLEST_DF + 1.5 * (one - SMALLEST_DF) for one in df]
    assert mixture.df[0].tolist() == pytest.approx(wanted)


def test_the_published_parameter_is_the_same_df(build) -> None:
    published = torch.tensor([[-50.0, 0.0, 2.01, 5.0, 1e4]], dtype=torch.float64)
    mixture = build.mixture(k=5, df=[5.0] * 5)
    mixture.log_excess.copy_(from_published_df(published))
    wanted = torch.logaddexp(published, torch.full_like(published, SMALLEST_DF))
    assert torch.allclose(mixture.df, wanted, rtol=1e-12)
    # Negative control: taken as it is, it would be another.
    mixture.log_excess.copy_(published)
    assert not torch.allclose(mixture.df, wanted, rtol=1e-3)


def test_log_excess_is_the_inverse_of_df(build) -> None:
    df = torch.tensor([[2.011, 2.5, 5.0, 30.0, 1e4]], dtype=torch.float64)
    mixture = build.mixture(k=5, df=df[0].tolist())
    assert torch.allclose(mixture.df, df, rtol=1e-12)
    # Negative control: without the inverse the floor of 2 shows.
    mixture.log_excess.copy_(df)
    assert not torch.allclose(mixture.df, df, rtol=1e-3)


def test_scale_matrix_is_c_c_plus_floor(build, apart) -> None:
    mixture = build.mixture(m=2, d=4, floor=0.3)
    diagonal = torch.diagonal(mixture.factor, dim1=-2, dim2=-1)
    c = torch.tril(mixture.factor, -1) + torch.diag_embed(diagonal.exp())
    identity = torch.eye(4, dtype=torch.float64)
    assert apart(mixture.scale_matrix, c @ c.mT + 0.3 * identity) < EXACT
    # Negative control: the floor is a variance, not a standard deviation.
    assert apart(mixture.scale_matrix, c @ c.mT + 0.3**2 * identity) > 1e-2


def test_scale_floor_bounds_the_eigenvalues(build) -> None:
    mixture = build.mixture(d=4, floor=0.3)
    mixture.factor.sub_(torch.diag_embed(torch.full((4,), 20.0)))  # C C' nearly singular
    assert float(torch.linalg.eigvalsh(mixture.scale_matrix).min()) >= 0.3 - EXACT


def test_above_the_diagonal_nothing_counts(build) -> None:
    mixture = build.mixture(d=3)
    before = mixture.scale_matrix
    mixture.factor.add_(torch.triu(torch.ones(3, 3), 1))
    assert torch.equal(mixture.scale_matrix, before)
    mixture.factor.add_(torch.tril(torch.ones(3, 3), -1))
    assert not torch.equal(mixture.scale_matrix, before)


def test_precision_needs_no_inverse_but_equals_it(build, apart) -> None:
    mixture = build.mixture(m=2, d=4)
    matrix, precision = mixture.scale_matrix, mixture.precision
    inverse = torch.linalg.inv(matrix)
    assert apart(mixture.scale_tril @ mixture.scale_tril.mT, matrix) < EXACT
    assert apart(precision.inverse_factor.mT @ precision.inverse_factor, inverse) < EXACT
    assert apart(precision.diagonal, torch.diagonal(inverse, dim1=-2, dim2=-1)) < EXACT
    assert apart(precision.log_det, torch.linalg.slogdet(matrix).logabsdet) < EXACT
    # Negative controls: 1/diag(Sigma), and the rows of L^-1 in place of its columns.
    assert apart(precision.diagonal, 1 / torch.diagonal(matrix, dim1=-2, dim2=-1)) > 1e-2
    assert apart(precision.diagonal, precision.inverse_factor.square().sum(-1)) > 1e-2


def test_delta_is_distance_plus_trace(build, apart) -> None:
    mixture, q = build.mixture(m=2, d=4), build.q(2, 7, 4)
    inverse = torch.linalg.inv(mixture.scale_matrix)
    off = q.mean.unsqueeze(2) - mixture.loc.unsqueeze(1)
    distance = torch.einsum("mnki,mkij,mnkj->mnk", off, inverse, off)
    trace = torch.einsum("mni,mkii->mnk", q.variance, inverse)
    assert apart(mixture.at_points(q.mean).delta, distance) < 1e-9
    assert apart(mixture(q).delta, distance + trace) < 1e-9
    # Negative controls: no trace, and standard deviations for variances.
    wrong = torch.einsum("mni,mkii->mnk", q.log_scale.exp(), inverse)
    assert apart(mixture(q).delta, distance) > 1e-2
    assert apart(mixture(q).delta, distance + wrong) > 1e-2


def test_a_sharp_q_is_a_point(build, apart) -> None:
    mixture, q = build.mixture(), build.q()
    sharp = DiagonalNormal(q.mean, torch.full_like(q.mean, -20.0))
    assert apart(mixture(sharp).score, mixture.at_points(q.mean).score) < EXACT
    assert apart(mixture(q).score, mixture.at_points(q.mean).score) > 1e-2


def test_responsibilities_and_evidence_split_the_score(build, apart) -> None:
    """ln gamma_nk + ln sum_k e^score = score_nk."""
    scores = build.mixture(m=2)(build.q(2))
    total = scores.log_responsibilities + scores.log_evidence.unsqueeze(-1)
    assert apart(total, scores.score) < EXACT
    assert apart(scores.log_responsibilities.exp().sum(-1), torch.ones(2, 6)) < EXACT


def permuted(mixture: Mixture, order: Tensor) -> Mixture:
    other = Mixture(mixture.component, *mixture.loc.shape[1:], mixture.scale_floor)
    other.double().requires_grad_(False)
    for mine, theirs in zip(other.parameters(), mixture.parameters(), strict=True):
        mine.copy_(theirs[:, order])
    return other


@pytest.mark.parametrize("family", [StudentT(), Gaussian()])
def test_permuting_components_permutes_outputs(build, apart, family: Component) -> None:
    mixture, q, order = build.mixture(family, m=2), build.q(2), torch.tensor([2, 0, 1])
    before, after = mixture(q), permuted(mixture, order)(q)
    assert apart(after.delta, before.delta[..., order]) < EXACT
    assert apart(after.score, before.score[..., order]) < EXACT
    log_gamma = before.log_responsibilities
    assert apart(after.log_responsibilities, log_gamma[..., order]) < EXACT
    assert apart(after.log_evidence, before.log_evidence) < EXACT
    # Negative control: the outputs in their old order.
    assert apart(after.score, before.score) > 1e-2


def test_reordering_is_that_permutation(build, apart) -> None:
    mixture, q, order = build.mixture(StudentT(), m=2), build.q(2), torch.tensor([2, 0, 1])
    before = mixture(q).score
    mixture.reorder(order)
    assert apart(mixture(q).score, before[..., order]) < EXACT
    assert apart(mixture(q).score, before) > 1e-2


@pytest.mark.parametrize("family", [StudentT(), Gaussian()])
def test_score_is_invariant_to_translation(build, apart, family: Component) -> None:
    mixture, q, shift = build.mixture(family), build.q(), torch.tensor([3.0, -7.0])
    moved = DiagonalNormal(q.mean + shift, q.log_scale)
    before = mixture(q).score
    assert apart(mixture(moved).score, before) > 1e-2  # the data alone: not invariant
    mixture.loc.add_(shift)
    assert apart(mixture(moved).score, before) < 1e-9


@pytest.mark.parametrize("family", [StudentT(), Gaussian()])
def test_score_follows_a_change_of_unit(build, apart, family: Component) -> None:
    """x -> c x, Sigma -> c^2 Sigma: the log density falls by D ln c, gamma stays."""
    mixture, q, ln_c = build.mixture(family), build.q(), 1.3
    c = math.exp(ln_c)
    scaled, before = DiagonalNormal(c * q.mean, q.log_scale + ln_c), mixture(q)
    mixture.loc.mul_(c)
    lower = torch.tril(mixture.factor, -1) * c
    mixture.factor.copy_(lower + torch.diag_embed(torch.diagonal(mixture.factor, 0, -2, -1) + ln_c))
    # Negative control: a floor left in the old unit.
    assert apart(mixture(scaled).score, before.score - 2 * ln_c) > 1e-3
    mixture.scale_floor.mul_(c**2)
    assert apart(mixture(scaled).score, before.score - 2 * ln_c) < EXACT
    assert apart(mixture(scaled).log_responsibilities, before.log_responsibilities) < EXACT


def test_a_broken_member_is_nan_and_leaves_the_others_alone(build) -> None:
    mixture, q = build.mixture(m=3), build.q(3)
    before = mixture(q).score
    mixture.factor[1] = 1e6  # exp of it is infinite
    after = mixture(q).score
    assert after[1].isnan().all()
    assert torch.equal(after[[0, 2]], before[[0, 2]])


def test_shapes_are_checked_under_test(build) -> None:
    with pytest.raises(TypeCheckError):
        build.mixture(d=2).at_points(build.normal(2, 2))


LOC = torch.tensor([[-6.0, 0.0], [0.0, 5.0], [6.0, -1.0]], dtype=torch.float64)
TRIL = torch.tensor(
    [[[1.0, 0.0], [0.5, 0.8]], [[0.7, 0.0], [-0.3, 1.2]], [[1.1, 0.0], [0.2, 0.6]]],
    dtype=torch.float64,
)
DF, COUNT = torch.tensor([2.5, 5.0, 30.0], dtype=torch.float64), (1500, 2500, 2000)


def scipy_samples(build) -> Tensor:
    """Draws of the Student-t mixture made by scipy."""
    rng, sigma = np.random.default_rng(0), TRIL @ TRIL.mT
    parts = [
        stats.multivariate_t.rvs(LOC[k].numpy(), sigma[k].numpy(), float(DF[k]), n, rng)
        for k, n in enumerate(COUNT)
    ]
    return torch.from_numpy(np.concatenate(parts))[None]


def generated_samples(build) -> Tensor:
    """Draws of the same mixture through the generative story of the model."""
    fleet = build.fleet()
    mixture = fleet.mixture
    mixture.scale_floor.fill_(1e-9)
    mixture.loc.copy_(LOC)
    mixture.log_excess.copy_(log_excess(DF))
    mixture.factor.copy_(torch.tril(TRIL, -1) + torch.diag_embed(TRIL.diagonal(0, -2, -1).log()))
    classes = torch.repeat_interleave(torch.arange(3), torch.tensor(COUNT))
    return fleet.generate(classes, torch.Generator().manual_seed(1)).latents[None]


def refitted(family: Component, x: Tensor, steps: int = 300) -> Mixture:
    """Maximum likelihood of the mixture from a start off the truth, labels unseen."""
    mixture = Mixture(family, 3, 2, torch.full((1,), 1e-3)).double()
    with torch.no_grad():
        mixture.loc.copy_(LOC + torch.tensor([1.0, -1.0]))
    search = torch.optim.Adam(mixture.parameters(), lr=0.1)
    decay = torch.optim.lr_scheduler.LinearLR(search, 1.0, 0.01, steps)
    for _ in range(steps):
        search.zero_grad()
        (-mixture.at_points(x).log_evidence.mean()).backward()
        search.step()
        decay.step()
    return mixture.requires_grad_(False)


@pytest.mark.parametrize("samples", [scipy_samples, generated_samples])
def test_refitting_samples_recovers_the_parameters(build, apart, samples) -> None:
    x, sigma = samples(build), TRIL @ TRIL.mT
    unit = sigma.amax((1, 2), keepdim=True)
    fitted, weights = refitted(StudentT(), x), torch.tensor(COUNT).double() / sum(COUNT)
    assert apart(fitted.loc[0], LOC) < 0.1
    assert apart(fitted.scale_matrix[0] / unit, sigma / unit) < 0.15
    assert apart(fitted.log_weights[0].exp(), weights) < 0.02
    assert (fitted.df[0].diff() > 0).all()
    assert apart(1 / fitted.df[0], 1 / DF) < 0.05
    # Negative control: the Gaussian takes the tails for width.
    wide = refitted(Gaussian(), x, 100)
    assert apart(wide.scale_matrix[0] / unit, sigma / unit) > 0.5


# ------------------------------------------------------------- scale matrices factored once


def counted(monkeypatch) -> list[Tensor]:
    """What is factored from now on."""
    made: list[Tensor] = []
    real = precision_of

    def counting(raw: Tensor, floor: Tensor) -> Precision:
        made.append(raw)
        return real(raw, floor)

    monkeypatch.setattr("whowrote.model.mixture.precision_of", counting)
    return made


def test_inside_a_block_the_scale_matrices_are_factored_once(build, monkeypatch) -> None:
    mixture, q, made = build.mixture(m=2), build.q(2), counted(monkeypatch)
    outside = [mixture(q).score, mixture.at_points(q.mean).score]
    assert len(made) == 2
    with mixture.factored():
        inside = [mixture(q).score, mixture.at_points(q.mean).score]
        with mixture.factored():  # what the outer block knows is still true
            inside += [mixture(q).score]
    assert len(made) == 3
    assert all(torch.equal(a, b) for a, b in zip(inside, [*outside, outside[0]], strict=True))
    mixture(q)
    assert len(made) == 4


def test_a_block_ends_with_what_was_before(build) -> None:
    """Also after an exception, and around a block that brings its own."""
    mixture, q = build.mixture(), build.q()
    before, narrow = mixture(q).score, build.mixture(floor=0.5).precision

    def fails() -> None:
        with mixture.factored(narrow):
            raise KeyError

    with mixture.factored():
        with mixture.factored(narrow):
            assert not torch.equal(mixture(q).score, before)
        with pytest.raises(KeyError):
            fails()
        assert torch.equal(mixture(q).score, before)
    # Negative control: what was known is not looked at afterwards.
    mixture.factor.add_(1.0)
    assert not torch.equal(mixture(q).score, before)


def test_inside_a_block_a_move_would_go_unseen(build) -> None:
    """Why the scale matrices must not move in it: what is known of them is stale."""
    mixture, q = build.mixture(), build.q()
    with mixture.factored():
        before = mixture(q).delta
        mixture.factor.add_(1.0)
        assert torch.equal(mixture(q).delta, before)
    assert not torch.equal(mixture(q).delta, before)


def test_blocks_of_other_mixtures_and_other_threads_are_their_own(build, monkeypatch) -> None:
    one, other, q = build.mixture(), build.mixture(seed=7), build.q()
    wanted, made = [one(q).score, other(q).score], counted(monkeypatch)
    with one.factored(), ThreadPoolExecutor(1) as pool:
        with other.factored():
            assert torch.equal(one(q).score, wanted[0])
            assert torch.equal(other(q).score, wanted[1])
        assert len(made) == 2
        assert torch.equal(pool.submit(lambda: one(q).score).result(), wanted[0])
        assert len(made) == 3


def test_a_block_leaves_no_trace_in_a_copy(build) -> None:
    mixture, q = build.mixture(), build.q()
    with mixture.factored():
        twin = copy.deepcopy(mixture)
        twin.factor.add_(1.0)
        assert not torch.equal(twin(q).score, mixture(q).score)
