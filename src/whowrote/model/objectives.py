r"""What is maximised: a bound on the log-likelihood, plus what the labels say.

.. math::

    \mathrm{bound}_n = \frac1T \sum_t \ln N(o_n \mid \mathrm{decoder}(x_{nt}))
        + H(q(x_n \mid o_n)) + \ln \sum_k e^{\mathrm{score}_{nk}}

The last term is all six published terms about z and u at their optimal q, collapsed: exact, with
no digamma, and its gradient is that of the six terms with q(u, z) frozen. A labelled row
contributes ``joint_weight * score_ny + label_weight * ln gamma_ny`` in its place.
``objective="algorithm-1"`` is the literal published loss, whose gradient runs through gamma, alpha
and beta of :math:`\sum_k \gamma_{nk} \ln \rho_{nk}`; it shrinks the pull on x, mu and Sigma by
(alpha - 1)/alpha and is kept for replication.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from whowrote.model.components import LOG_2PI
from whowrote.model.mixture import Mixture, Scores
from whowrote.model.normal import DiagonalNormal
from whowrote.model.own_distance import Groups
from whowrote.model.rows import UNLABELLED

OBJECTIVES = ("bound", "algorithm-1")


@dataclass(frozen=True)
class BoundTerms:
    """The named parts of the objective, a row each; ``l1`` has one value per member."""

    reconstruction: Float[Tensor, "m n"]
    entropy: Float[Tensor, "m n"]
    prior: Float[Tensor, "m n"]
    labels: Float[Tensor, "m n"]
    l1: Float[Tensor, " m"]

    @property
    def bound(self) -> Float[Tensor, "m n"]:
        """The bound on ln p(o), for rows without labels."""
        return self.reconstruction + self.entropy + self.prior

    @property
    def loss(self) -> Float[Tensor, " m"]:
        """Minus the mean of the objective over the rows, plus the penalty."""
        return self.l1 - (self.bound + self.labels).mean(1)

    def means(self) -> dict[str, Float[Tensor, " m"]]:
        """The mean of every part over the rows, by name."""
        rows = {name: getattr(self, name).mean(1) for name in NAMES[:-1]}
        return {**rows, "l1": self.l1}


NAMES = ("reconstruction", "entropy", "prior", "labels", "l1")


@dataclass(frozen=True)
class Weights:
    """How much each member listens to its labels."""

    joint: Float[Tensor, " m"]
    label: Float[Tensor, " m"]


def joint_score(scores: Scores, mixture: Mixture, objective: str) -> Float[Tensor, "m n k"]:
    """score_nk, or ln rho_nk = score_nk - H(q(u | z=k)) in the literal algorithm."""
    if objective == "bound":
        return scores.score
    d = mixture.loc.shape[-1]
    return scores.score - mixture.component.scale_entropy(scores.delta, mixture.df, d)


def prior_term(
    scores: Scores,
    labels: Int[Tensor, "m n"],
    mixture: Mixture,
    weights: Weights,
    objective: str,
) -> Float[Tensor, "m n"]:
    """The latent part: the evidence of an unlabelled row, the joint score of a labelled one."""
    joint = joint_score(scores, mixture, objective)
    if objective == "bound":
        evidence = scores.log_evidence
    else:
        evidence = (scores.log_responsibilities.exp() * joint).sum(-1)
    known = labels != UNLABELLED
    own = joint.gather(-1, labels.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    return torch.where(known, weights.joint.unsqueeze(1) * own, evidence)


def own_prior_term(
    scores: Scores, groups: Groups, mixture: Mixture, weights: Weights, objective: str
) -> Float[Tensor, "m n"]:
    """The latent part of labelled rows, from the scores of their own components."""
    own = groups.values(joint_score(scores, mixture, objective))
    return weights.joint.unsqueeze(1) * own


def label_term(
    scores: Scores, labels: Int[Tensor, "m n"], weights: Weights
) -> Float[Tensor, "m n"]:
    """label_weight * ln gamma at the true author; zero where it is unknown."""
    own = scores.log_responsibilities.gather(-1, labels.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    return torch.where(labels != UNLABELLED, weights.label.unsqueeze(1) * own, 0.0)


@dataclass(frozen=True)
class HiddenPosterior:
    """q(u, z): q(z) = gamma and q(u | z=k) = Gamma(shape, rate)."""

    log_gamma: Float[Tensor, "m n k"]
    shape: Float[Tensor, "m 1 k"]
    rate: Float[Tensor, "m n k"]


def optimal_posterior(mixture: Mixture, scores: Scores) -> HiddenPosterior:
    """The q(u, z) at which the six terms meet the collapsed bound: alpha_k, beta_nk, gamma_n."""
    df = mixture.df.unsqueeze(1)
    shape, rate = (df + mixture.loc.shape[-1]) / 2, (df + scores.delta) / 2
    return HiddenPosterior(scores.log_responsibilities, shape, rate)


@dataclass(frozen=True)
class SixTerms:
    """The published decomposition of the bound at a given q(u, z); their sum is the bound."""

    log_p_z: Float[Tensor, "m n"]
    log_p_u: Float[Tensor, "m n"]
    log_p_x: Float[Tensor, "m n"]
    log_p_o: Float[Tensor, "m n"]
    entropy_x: Float[Tensor, "m n"]
    entropy_uz: Float[Tensor, "m n"]

    @property
    def total(self) -> Float[Tensor, "m n"]:
        """The bound."""
        parts = self.log_p_z + self.log_p_u + self.log_p_x
        return parts + self.log_p_o + self.entropy_x + self.entropy_uz


def six_terms(
    mixture: Mixture, q: DiagonalNormal, hidden: HiddenPosterior, log_p_o: Float[Tensor, "m n"]
) -> SixTerms:
    """The six terms for Student-t components and any q(u, z).

    Written out as published (with the errata mended); training never needs it, proofs do.
    """
    shape, rate = hidden.shape, hidden.rate
    gamma, half = hidden.log_gamma.exp(), mixture.df.unsqueeze(1) / 2
    delta, log_det, d = mixture(q).delta, mixture.scale_matrix.logdet(), mixture.loc.shape[-1]
    mean_u, mean_log_u = shape / rate, torch.digamma(shape) - torch.log(rate)
    p_u = half * half.log() - torch.lgamma(half) + (half - 1) * mean_log_u - half * mean_u
    p_x = (d * (mean_log_u - LOG_2PI) - log_det.unsqueeze(1) - mean_u * delta) / 2
    q_u = shape - rate.log() + torch.lgamma(shape) + (1 - shape) * torch.digamma(shape)
    return SixTerms(
        log_p_z=(gamma * mixture.log_weights.unsqueeze(1)).sum(-1),
        log_p_u=(gamma * p_u).sum(-1),
        log_p_x=(gamma * p_x).sum(-1),
        log_p_o=log_p_o,
        entropy_x=q.entropy(),
        entropy_uz=(gamma * (q_u - hidden.log_gamma)).sum(-1),
    )
