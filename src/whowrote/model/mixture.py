r"""The mixture in latent space, one component per author.

.. math::

    \delta_{nk} &= (m_n - \mu_k)^\top \Sigma_k^{-1} (m_n - \mu_k)
                   + \mathrm{tr}(\mathrm{diag}(s_n^2)\, \Sigma_k^{-1}) \\
    \mathrm{score}_{nk} &= \ln \pi_k + \ln f(\delta_{nk}), \qquad
    \gamma_n = \mathrm{softmax}_k\, \mathrm{score}_{nk}

with :math:`\pi = \mathrm{softmax}`, :math:`\nu_k = \ln(e^{n_k} + e^{2 + \epsilon})`,
:math:`\Sigma_k = C_k C_k^\top + \sigma^2 I`, :math:`C_k` lower triangular with an exponentiated
diagonal. All that is needed of :math:`\Sigma_k` comes from one batched Cholesky factor and its
inverse (:mod:`whowrote.model.fast.precision`); no distance is measured by an inverted matrix.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from whowrote.model.distributions import Component, DiagonalNormal
from whowrote.model.fast.distance import expected_distance
from whowrote.model.fast.own_distance import Groups, own_distance
from whowrote.model.fast.precision import (
    Precision,
    cholesky,
    lower_factor,
    precision_of,
    scale_matrix,
)

SMALLEST_DF = 2.01


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


def raw_df(df: Tensor) -> Tensor:
    """The free parameter n with logaddexp(n, 2 + eps) = df."""
    return df + torch.log(-torch.expm1(SMALLEST_DF - df))


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
        self.raw_df = nn.Parameter(raw_df(torch.full((m, k), 5.0)))

    @property
    def log_weights(self) -> Float[Tensor, "m k"]:
        """ln pi."""
        return torch.log_softmax(self.logits, dim=-1)

    @property
    def df(self) -> Float[Tensor, "m k"]:
        """Degrees of freedom, always above 2, so that the covariance exists."""
        return torch.logaddexp(self.raw_df, torch.full_like(self.raw_df, SMALLEST_DF))

    @property
    def scale_matrix(self) -> Float[Tensor, "m k d d"]:
        """Sigma = C C' + sigma^2 I. Not the covariance: that is df/(df - 2) Sigma."""
        return scale_matrix(lower_factor(self.factor), self.scale_floor)

    @property
    def scale_tril(self) -> Float[Tensor, "m k d d"]:
        """Cholesky factor of Sigma; NaN, not an exception, for a member that has diverged."""
        return cholesky(self.scale_matrix)

    @torch.no_grad()
    def reorder(self, order: Int[Tensor, " k"]) -> None:
        """Renumber the components of every member: ``order[i]`` becomes component i."""
        for parameter in self.parameters():
            parameter.copy_(parameter[:, order].clone())

    def precision(self) -> Precision:
        """Factor every scale matrix once."""
        return precision_of(self.factor, self.scale_floor)

    def score(
        self,
        mean: Float[Tensor, "m n d"],
        variance: Float[Tensor, "m n d"] | None,
        precision: Precision | None = None,
        frozen: bool = False,
    ) -> Scores:
        """Scores of normal latents; ``frozen`` keeps the scale matrices from learning."""
        delta, log_det = expected_distance(
            mean, variance, self.loc, self._raw(frozen), precision or self.precision()
        )
        return self._scores(delta, log_det)

    def own_score(
        self,
        q: DiagonalNormal,
        groups: Groups,
        precision: Precision | None = None,
        frozen: bool = False,
    ) -> Scores:
        """Scores of labelled rows by their own component alone, slot by slot: (m, p, k)."""
        delta, log_det = own_distance(
            q.mean, q.variance, self.loc, self._raw(frozen), precision or self.precision(), groups
        )
        return self._scores(delta, log_det)

    def _raw(self, frozen: bool) -> Tensor:
        return self.factor.detach() if frozen else self.factor

    def _scores(self, delta: Float[Tensor, "m n k"], log_det: Float[Tensor, "m k"]) -> Scores:
        density = self.component.log_density(delta, log_det, self.df, self.loc.shape[-1])
        return Scores(delta, self.log_weights.unsqueeze(1) + density)

    def forward(
        self, q: DiagonalNormal, precision: Precision | None = None, frozen: bool = False
    ) -> Scores:
        """Scores of rows known up to q(x | o); ``precision`` where it is already known."""
        return self.score(q.mean, q.variance, precision, frozen)

    def at_points(self, x: Float[Tensor, "m n d"]) -> Scores:
        """Scores of exactly known latents: delta is the Mahalanobis distance itself."""
        return self.score(x, None)
