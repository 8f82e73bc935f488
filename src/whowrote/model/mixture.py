r"""The mixture in latent space, one component per author.

.. math::

    \delta_{nk} &= (m_n - \mu_k)^\top \Sigma_k^{-1} (m_n - \mu_k)
                   + \mathrm{tr}(\mathrm{diag}(s_n^2)\, \Sigma_k^{-1}) \\
    \mathrm{score}_{nk} &= \ln \pi_k + \ln f(\delta_{nk}), \qquad
    \gamma_n = \mathrm{softmax}_k\, \mathrm{score}_{nk}

with :math:`\pi = \mathrm{softmax}`, :math:`\nu_k = 2 + \epsilon + e^{t_k}`,
:math:`\Sigma_k = C_k C_k^\top + \sigma^2 I`, :math:`C_k` lower triangular with an exponentiated
diagonal. All that is needed of :math:`\Sigma_k` comes from one batched Cholesky factor and its
inverse (:mod:`whowrote.model.precision`); no distance is measured by an inverted matrix.

Learning starts from the rows :math:`x_n = E[q(x \mid o_n)]` of the untrained encoder and their
(provisional) labels,

.. math:: \mu_k = \bar x_k, \qquad \Sigma_k = S_{\mathrm{within}}, \qquad \pi_k \propto n_k

where the pooled :math:`S_{\mathrm{within}}` is defined even for an author with two texts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from whowrote.model.distributions import Component, DiagonalNormal
from whowrote.model.fleet import UNLABELLED, Groups
from whowrote.model.gradients import expected_distance, own_distance
from whowrote.model.precision import (
    Precision,
    cholesky,
    lower_factor,
    precision_of,
    scale_matrix,
)

SMALLEST_DF = 2.01
LARGEST_LOG_EXCESS = math.log(1e8)
"""A Student-t of so many degrees of freedom is a Gaussian to the last digit."""

SMALLEST_EXCESS = 1e-6
"""Of a variance over the floor: C C' has to be positive definite."""

# By context, not on the mixture: threads may ask one mixture side by side.
_FACTORED: ContextVar[Mapping[Mixture, Precision]] = ContextVar(
    "factored", default=MappingProxyType({})
)


@dataclass(frozen=True)
class Scores:
    """What the mixture says of every row: expected squared distance and log joint score."""

    delta: Float[Tensor, "m n k"]
    score: Float[Tensor, "m n k"]

    @property
    def log_responsibilities(self) -> Float[Tensor, "m n k"]:
        """ln gamma = ln q(z)."""
        return torch.log_softmax(self.score, dim=-1)

    @property
    def log_evidence(self) -> Float[Tensor, "m n"]:
        """The log of the summed scores: all terms of the bound about z and u, collapsed."""
        return torch.logsumexp(self.score, dim=-1)


def log_excess(df: Tensor) -> Tensor:
    """The free parameter t = ln(df - 2 - eps): a step along it multiplies what df is above 2.

    The published parameter n, with df = ln(e^n + e^(2 + eps)), moves df by about the step size
    itself, so that where it ends depends on where it starts and on the step size.
    """
    return torch.log(df - SMALLEST_DF)


def from_published_df(n: Tensor) -> Tensor:
    """The free parameter t of the same df as the published one, n; files of before hold it."""
    exact = functional.softplus(n.double() - SMALLEST_DF)
    return torch.log(exact.clamp(min=1e-30)).to(n)


class Mixture(nn.Module):
    """K components for each of m members."""

    scale_floor: Tensor

    def __init__(
        self, component: Component, k: int, d: int, scale_floor: Float[Tensor, " m"]
    ) -> None:
        super().__init__()
        m = len(scale_floor)
        self.component = component
        self.register_buffer("scale_floor", scale_floor)
        self.logits = nn.Parameter(torch.zeros(m, k))
        self.loc = nn.Parameter(torch.zeros(m, k, d))
        self.factor = nn.Parameter(torch.zeros(m, k, d, d))
        self.log_excess = nn.Parameter(log_excess(torch.full((m, k), 5.0)))

    @property
    def log_weights(self) -> Float[Tensor, "m k"]:
        """ln pi."""
        return torch.log_softmax(self.logits, dim=-1)

    @property
    def df(self) -> Float[Tensor, "m k"]:
        """Degrees of freedom, always above 2, so that the covariance exists."""
        return SMALLEST_DF + torch.exp(self.log_excess.clamp(max=LARGEST_LOG_EXCESS))

    @property
    def scale_matrix(self) -> Float[Tensor, "m k d d"]:
        """Sigma = C C' + sigma^2 I. Not the covariance: that is df/(df - 2) Sigma."""
        return scale_matrix(lower_factor(self.factor), self.scale_floor)

    @property
    def scale_tril(self) -> Float[Tensor, "m k d d"]:
        """Cholesky factor of Sigma; NaN, not an exception, for a member that has diverged."""
        return cholesky(self.scale_matrix)

    @torch.no_grad()
    def hold_standard(self) -> None:
        """One component, N(0, I), of which nothing is learnt: C C' is I less the floor."""
        excess = (1 - self.scale_floor).log() / 2
        diagonal = excess[:, None, None].expand_as(self.loc)
        self.factor.copy_(torch.diag_embed(diagonal))
        for parameter in (self.logits, self.loc, self.factor):
            parameter.requires_grad_(False)

    @torch.no_grad()
    def reorder(self, order: Int[Tensor, " k"]) -> None:
        """Renumber the components of every member: ``order[i]`` becomes component i."""
        for parameter in self.parameters():
            parameter.copy_(parameter[:, order].clone())

    @property
    def precision(self) -> Precision:
        """The scale matrices factored: once for a :meth:`factored` block, outside of one anew."""
        return _FACTORED.get().get(self) or precision_of(self.factor, self.scale_floor)

    @contextmanager
    def factored(self, precision: Precision | None = None) -> Iterator[None]:
        """Factor the scale matrices once for all that is asked in the block.

        They must not move in it. ``precision`` is their factored form where it is known already: a
        training step keeps one from step to step, and renews it in place when they have moved.
        """
        token = _FACTORED.set({**_FACTORED.get(), self: precision or self.precision})
        try:
            yield
        finally:
            _FACTORED.reset(token)

    def forward(self, q: DiagonalNormal) -> Scores:
        """Scores of rows known up to q(x | o)."""
        return self.score(q.mean, q.variance)

    def at_points(self, x: Float[Tensor, "m n d"]) -> Scores:
        """Scores of exactly known latents: delta is the Mahalanobis distance itself."""
        return self.score(x, None)

    def own_score(self, q: DiagonalNormal, groups: Groups) -> Scores:
        """Scores of labelled rows by their own component alone, slot by slot: (m, p, k)."""
        return self._scores(
            *own_distance(q.mean, q.variance, self.loc, self.factor, self.precision, groups)
        )

    def score(
        self, mean: Float[Tensor, "m n d"], variance: Float[Tensor, "m n d"] | None
    ) -> Scores:
        """Scores of normal latents; without a variance, of known points."""
        return self._scores(
            *expected_distance(mean, variance, self.loc, self.factor, self.precision)
        )

    def _scores(self, delta: Float[Tensor, "m n k"], log_det: Float[Tensor, "m k"]) -> Scores:
        density = self.component.log_density(delta, log_det, self.df, self.loc.shape[-1])
        return Scores(delta, self.log_weights.unsqueeze(1) + density)


@dataclass(frozen=True)
class ClassStatistics:
    """Counts, means and the pooled within-class covariance of labelled latent rows.

    Of weighted rows, the weighted ones: the count is the sum of the weights.
    """

    count: Float[Tensor, "m k"]
    mean: Float[Tensor, "m k d"]
    within: Float[Tensor, "m d d"]


def class_statistics(
    x: Float[Tensor, "m n d"],
    labels: Int[Tensor, "m n"],
    k: int,
    weights: Float[Tensor, "m n"] | None = None,
) -> ClassStatistics:
    """Statistics of each class; an empty class gets the mean of all rows."""
    known = (labels != UNLABELLED).to(x)
    weight = known if weights is None else known * weights
    member_of = functional.one_hot(labels.clamp(min=0), k).to(x) * known.unsqueeze(-1)
    counted = member_of * weight.unsqueeze(-1)
    count = counted.sum(1)
    mean = counted.mT @ x / torch.where(count > 0, count, 1).unsqueeze(-1)
    mean = torch.where((count > 0).unsqueeze(-1), mean, x.mean(1, keepdim=True))
    residual = (x - member_of @ mean) * weight.sqrt().unsqueeze(-1)
    total = weight.sum(1)
    within = residual.mT @ residual / torch.where(total > 0, total, 1)[:, None, None]
    return ClassStatistics(count, mean, within)


@torch.no_grad()
def place_components(
    mixture: Mixture,
    x: Float[Tensor, "m n d"],
    labels: Int[Tensor, "m n"],
    weights: Float[Tensor, "m n"] | None = None,
) -> None:
    """Set weights, locations and scale matrices from latent rows and their labels."""
    if mixture.component.fixed:
        return
    m, k, d = mixture.loc.shape
    classes = class_statistics(x, labels, k, weights)
    count = classes.count + 1
    mixture.loc.copy_(classes.mean)
    mixture.logits.copy_(torch.log(count / count.sum(-1, keepdim=True)))
    mixture.factor.copy_(free_factor(classes.within).unsqueeze(1).expand(m, k, d, d))


@torch.no_grad()
def expectation_maximization(
    mixture: Mixture,
    q: DiagonalNormal,
    labels: Int[Tensor, "m n"],
    gamma: Float[Tensor, "m n k"],
    iterations: int,
    pseudo_rows: float = 0.0,
) -> None:
    r"""Maximise the bound over the mixture alone, q(x | o) as it is, from responsibilities.

    .. math:: w_{nk} = \gamma_{nk} E[u_{nk}], \quad \mu_k = \frac{\sum_n w_{nk} m_n}{\sum_n w_{nk}},
        \quad \Sigma_k = \frac{\sum_n w_{nk} [(m_n - \mu_k)(m_n - \mu_k)^\top
        + \mathrm{diag}\, s_n^2] + r S}{\sum_n \gamma_{nk} + r},
        \quad \pi_k \propto \sum_n \gamma_{nk}

    with :math:`\gamma` that of the label where there is one. Labelled rows together count as much
    as all others, however few they are. Each scale matrix is drawn to the pooled S as if by
    r = ``pseudo_rows`` more rows. nu stays.
    """
    known = (labels != UNLABELLED).unsqueeze(-1)
    others = (~known).sum(1, keepdim=True) / known.sum(1, keepdim=True).clamp(min=1)
    rows = torch.where(known, others.clamp(min=1).to(gamma), 1.0)
    given = functional.one_hot(labels.clamp(min=0), gamma.shape[-1]).to(gamma)
    scale, d = torch.ones_like(gamma), mixture.loc.shape[-1]
    for _ in range(iterations):
        gamma = torch.where(known, given, gamma)
        _maximize(mixture, q, rows * gamma, rows * gamma * scale, pseudo_rows)
        scores: Scores = mixture(q)
        gamma = scores.log_responsibilities.exp()
        scale = mixture.component.expected_scale(scores.delta, mixture.df, d)


def _maximize(
    mixture: Mixture,
    q: DiagonalNormal,
    gamma: Float[Tensor, "m n k"],
    weight: Float[Tensor, "m n k"],
    pseudo_rows: float,
) -> None:
    """Weights, locations and scale matrices for given responsibilities and scales of the rows."""
    count, total = gamma.sum(1), weight.sum(1)
    loc = weight.mT @ q.mean / total.unsqueeze(-1)
    sums = []
    for k in range(gamma.shape[-1]):  # one component at a time: n x k x d x d is too much at once
        own, residual = weight[:, :, k, None], q.mean - loc[:, k, None]
        sums.append((own * residual).mT @ residual + torch.diag_embed((own * q.variance).sum(1)))
    scatter = torch.stack(sums, dim=1)
    pooled = scatter.sum(1, keepdim=True) / count.sum(1)[:, None, None, None]
    rows = count[:, :, None, None] + pseudo_rows
    mixture.loc.copy_(loc)
    mixture.logits.copy_(torch.log(count / count.sum(-1, keepdim=True)))
    mixture.factor.copy_(factor_above(mixture.scale_floor, (scatter + pseudo_rows * pooled) / rows))


def factor_above(
    floor: Float[Tensor, " m"], matrix: Float[Tensor, "m k d d"]
) -> Float[Tensor, "m k d d"]:
    """C with C C' + floor I = matrix, and a log diagonal; variances at the floor stay there."""
    lower = floor[:, None, None, None] * torch.eye(matrix.shape[-1]).to(matrix)
    factor, failed = torch.linalg.cholesky_ex(matrix - lower)
    if failed.any():  # seldom: an eigenvalue at or below the floor
        values, vectors = torch.linalg.eigh(matrix)
        above = (values - floor[:, None, None]).clamp(min=SMALLEST_EXCESS)
        lifted = torch.linalg.cholesky_ex((vectors * above.unsqueeze(-2)) @ vectors.mT).L
        factor = torch.where((failed != 0)[..., None, None], lifted, factor)
    return _with_log_diagonal(factor)


@torch.no_grad()
def set_components(
    mixture: Mixture,
    member: int,
    weights: Float[Tensor, " k"],
    means: Float[Tensor, "k d"],
    spread: Float[Tensor, "k d d"],
) -> None:
    r"""Set a member's components, :math:`C_k C_k^\top = S_k - \sigma^2 I` where that is positive.

    The floor is a part of every scale matrix; a direction along which S is no wider than the floor
    keeps a hundredth of its own width, so that it can be learnt.
    """
    values, vectors = torch.linalg.eigh(spread)
    values = torch.maximum(values - mixture.scale_floor[member], values.clamp(min=1e-6) / 100)
    mixture.logits[member] = weights.log()
    mixture.loc[member] = means
    mixture.factor[member] = free_factor((vectors * values.unsqueeze(-2)) @ vectors.mT)


def free_factor(matrix: Float[Tensor, "m d d"]) -> Float[Tensor, "m d d"]:
    """Cholesky factor with a log diagonal; a small ridge makes rank-deficient data harmless."""
    mean = torch.diagonal(matrix, dim1=-2, dim2=-1).mean(-1).clamp(min=1e-6)
    ridge = 0.01 * mean[:, None, None] * torch.eye(matrix.shape[-1]).to(matrix)
    return _with_log_diagonal(torch.linalg.cholesky_ex(matrix + ridge).L)  # NaN stays with its own


def _with_log_diagonal(factor: Float[Tensor, "*m d d"]) -> Float[Tensor, "*m d d"]:
    """A lower triangle as it is learnt: without limits."""
    diagonal = torch.diagonal(factor, dim1=-2, dim2=-1)
    return torch.tril(factor, -1) + torch.diag_embed(diagonal.log())
