r"""The autoencoder with its mixture, and the whole bound that it maximises.

.. math::

    z \sim \pi, \quad u \mid z \sim \Gamma(\nu_z/2, \nu_z/2), \quad
    x \mid u, z \sim N(\mu_z, \Sigma_z / u), \quad o \mid x \sim N(\mathrm{decoder}(x))

    \mathrm{bound}_n = \frac1T \sum_t \ln N(o_n \mid \mathrm{decoder}(x_{nt}))
        + H(q(x_n \mid o_n)) + \ln \sum_k e^{\mathrm{score}_{nk}}

The last term is all six published terms about z and u at their optimal q, collapsed: exact, with
no digamma, and its gradient is that of the six terms with q(u, z) frozen. A labelled row
contributes ``joint_weight * score_ny + label_weight * ln gamma_ny`` in its place.
``objective="algorithm-1"`` is the literal published loss, whose gradient runs through gamma, alpha
and beta of :math:`\sum_k \gamma_{nk} \ln \rho_{nk}`; it shrinks the pull on x, mu and Sigma by
(alpha - 1)/alpha and is kept for replication.

From top to bottom: the model and its terms (:class:`MixtureVAE`), what is said of z and u, and the
six terms written out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from whowrote.model.distributions import LOG_2PI, DiagonalNormal, component_for
from whowrote.model.fleet import UNLABELLED, Architecture, Batch, Member, SparseRows, Streams
from whowrote.model.mixture import Mixture, Scores, log_excess
from whowrote.model.networks import Network, dropped, dropped_sparse

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
class Generated:
    """One draw of the generative story per row: class, scale, latent and observation."""

    classes: Int[Tensor, " n"]
    scales: Float[Tensor, " n"]
    latents: Float[Tensor, "n d"]
    observations: Float[Tensor, "n l"]


def _only(streams: Streams | None, which: Sequence[bool]) -> Streams | None:
    """The streams of those who drop anything: who drops nothing draws nothing, alone or not."""
    return streams.only(which) if streams is not None and any(which) else None


class MixtureVAE(nn.Module):
    """Networks and mixture of every member of a fleet."""

    l1: Tensor
    joint_weight: Tensor
    label_weight: Tensor
    input_dropout: Tensor
    hidden_dropout: Tensor

    def __init__(
        self,
        architecture: Architecture,
        members: Sequence[Member],
        dtype: torch.dtype = torch.float32,
    ) -> None:
        """With ``dtype``, settings of members are kept to its last digit; ``to`` has lost some."""
        super().__init__()
        a, m = architecture, len(members)
        self.architecture = a
        self.members = tuple(members)
        for name in ("l1", "joint_weight", "label_weight", "input_dropout", "hidden_dropout"):
            values = [float(getattr(member, name)) for member in members]
            self.register_buffer(name, torch.tensor(values, dtype=dtype))
        # Known without asking the device: whether anything has to be dropped at all.
        self.drops_inputs = tuple(member.input_dropout > 0 for member in members)
        self.drops_hidden = tuple(member.hidden_dropout > 0 for member in members)
        self.encoder = Network(m, a.encoder_width, a.hidden, a.latent_dim, a.activation)
        self.decoder = Network(m, a.latent_dim, a.hidden[::-1], a.n_features, a.activation)
        floors = torch.tensor([member.scale_floor for member in members], dtype=dtype)
        family = component_for([member.component for member in members])
        self.mixture = Mixture(family, a.n_components, a.latent_dim, floors)
        self.to(dtype)
        if family.fixed:
            self.mixture.hold_standard()
        initial_df = torch.tensor([member.initial_df for member in members], dtype=dtype)
        with torch.no_grad():
            start = log_excess(initial_df).unsqueeze(1)
            self.mixture.log_excess.copy_(start.expand(m, a.n_components))

    def __len__(self) -> int:
        return len(self.l1)

    def select(self, keep: Sequence[int]) -> MixtureVAE:
        """A new fleet of some members, sharing no memory with this one."""
        like = self.mixture.loc
        index = torch.as_tensor(list(keep), dtype=torch.long, device=like.device)
        with like.device:  # made where it will live: nothing travels
            fleet = MixtureVAE(self.architecture, [self.members[i] for i in keep], like.dtype)
        fleet.load_state_dict({name: value[index] for name, value in self.state_dict().items()})
        return fleet

    def encode(
        self, inputs: Float[Tensor, "m n l"] | SparseRows, streams: Streams | None = None
    ) -> DiagonalNormal:
        """q(x | o); with streams, under dropout of inputs and hidden units."""
        dropping = _only(streams, self.drops_inputs)
        if isinstance(inputs, SparseRows):
            inputs = dropped_sparse(inputs, self.input_dropout, dropping)
        else:
            inputs = dropped(inputs, self.input_dropout, dropping)
        q: DiagonalNormal = self.encoder(
            inputs, self.hidden_dropout, _only(streams, self.drops_hidden)
        )
        return q

    def decode(self, x: Float[Tensor, "m n d"], streams: Streams | None = None) -> DiagonalNormal:
        """p(o | x)."""
        p: DiagonalNormal = self.decoder(x, self.hidden_dropout, _only(streams, self.drops_hidden))
        return p

    def reconstruction(
        self,
        q: DiagonalNormal,
        targets: Float[Tensor, "m n l"],
        noise: Float[Tensor, "m tn d"],
        streams: Streams | None = None,
    ) -> Float[Tensor, "m n"]:
        """The mean over T samples of ln p(o | x_t), x_t ~ q."""
        t = noise.shape[1] // targets.shape[1]
        x, dropping = q.repeat(t).at(noise), _only(streams, self.drops_hidden)
        if t == 1:
            return self.decoder.log_prob(targets, x, self.hidden_dropout, dropping)
        density = self.decoder.log_prob(targets.repeat(1, t, 1), x, self.hidden_dropout, dropping)
        return density.reshape(len(targets), t, -1).mean(1)

    def noise(self, n: int, streams: Streams) -> Float[Tensor, "m tn d"]:
        """Standard normal numbers for T samples of n rows."""
        return streams.normal(self.architecture.n_samples * n, self.architecture.latent_dim)

    def forward(self, batch: Batch, streams: Streams, training: bool = True) -> BoundTerms:
        """All terms of the objective; dropout acts only in training."""
        dropout = streams if training else None
        q = self.encode(batch.inputs, dropout)
        noise = self.noise(batch.targets.shape[1], streams)
        prior, labels = self._prior_and_labels(q, batch)
        return BoundTerms(
            reconstruction=self.reconstruction(q, batch.targets, noise, dropout),
            entropy=q.entropy(),
            prior=prior,
            labels=labels,
            l1=self._penalty(),
        )

    def _prior_and_labels(
        self, q: DiagonalNormal, batch: Batch
    ) -> tuple[Float[Tensor, "m n"], Float[Tensor, "m n"]]:
        """What is said of z and u, and of the labels; of grouped rows, by their own component."""
        mixture, objective = self.mixture, self.architecture.objective
        if batch.groups is None:
            scores: Scores = mixture(q)
            prior = prior_term(scores, batch.labels, mixture, self.joint_weight, objective)
            return prior, label_term(scores, batch.labels, self.label_weight)
        own = joint_score(mixture.own_score(q, batch.groups), mixture, objective)
        prior = self.joint_weight.unsqueeze(1) * batch.groups.values(own)
        return prior, torch.zeros_like(prior)

    @property
    def joint_only(self) -> bool:
        """Whether no member asks for more of a labelled row than its joint score."""
        return all(member.label_weight == 0 for member in self.members)

    def _penalty(self) -> Float[Tensor, " m"]:
        """The l1 penalty; not even computed where no member asks for it."""
        if not any(member.l1 > 0 for member in self.members):
            return torch.zeros_like(self.l1)
        return self.l1 * (self.encoder.absolute_sum() + self.decoder.absolute_sum())

    def bound(
        self, q: DiagonalNormal, targets: Float[Tensor, "m n l"], noise: Float[Tensor, "m tn d"]
    ) -> Float[Tensor, "m n"]:
        """The bound on ln p(o) of every row, whatever its label, without dropout."""
        scores: Scores = self.mixture(q)
        return self.reconstruction(q, targets, noise) + q.entropy() + scores.log_evidence

    def scores(self, inputs: Float[Tensor, "m n l"] | SparseRows) -> Scores:
        """What the mixture says of encoded rows."""
        scores: Scores = self.mixture(self.encode(inputs))
        return scores

    def importance_weights(
        self,
        q: DiagonalNormal,
        targets: Float[Tensor, "m n l"],
        noise: Float[Tensor, "m n d"],
    ) -> Float[Tensor, "m n"]:
        """ln p(o | x) + ln p(x) - ln q(x | o) at one sample x ~ q for every row.

        The log-mean-exp over many samples is the importance-weighted estimate of ln p(o), which is
        never below the bound in expectation and rises to ln p(o) with their number.
        """
        x = q.at(noise)
        prior = self.mixture.at_points(x).log_evidence
        return self.decode(x).log_prob(targets) + prior - q.log_prob(x)

    @torch.no_grad()
    def generate(self, classes: Int[Tensor, " n"], generator: torch.Generator) -> Generated:
        """Steps 2 to 5 of the generative story for the given classes; a fleet of one only."""
        mixture, n = self.mixture, len(classes)
        scales = mixture.component.sample_scale(
            mixture.df[0, classes], mixture.loc.shape[-1], generator
        )

        def normal(width: int) -> Tensor:
            return torch.randn(
                n, width, generator=generator, dtype=scales.dtype, device=scales.device
            )

        spread = (
            mixture.scale_tril[0, classes] @ normal(mixture.loc.shape[-1]).unsqueeze(-1)
        ).squeeze(-1)
        latents = mixture.loc[0, classes] + spread / scales.sqrt().unsqueeze(-1)
        p = self.decode(latents.unsqueeze(0))
        observations = p.at(normal(p.mean.shape[-1]).unsqueeze(0))[0]
        return Generated(classes, scales, latents, observations)


# -- what is said of z and u ---------------------------------------------------------------------


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
    joint_weight: Float[Tensor, " m"],
    objective: str,
) -> Float[Tensor, "m n"]:
    """The evidence of an unlabelled row, joint_weight * the joint score of a labelled one."""
    joint = joint_score(scores, mixture, objective)
    if objective == "bound":
        evidence = scores.log_evidence
    else:
        evidence = (scores.log_responsibilities.exp() * joint).sum(-1)
    own = joint_weight.unsqueeze(1) * _at(labels, joint)
    return torch.where(labels != UNLABELLED, own, evidence)


def label_term(
    scores: Scores, labels: Int[Tensor, "m n"], label_weight: Float[Tensor, " m"]
) -> Float[Tensor, "m n"]:
    """label_weight * ln gamma at the true author; zero where it is unknown."""
    own = label_weight.unsqueeze(1) * _at(labels, scores.log_responsibilities)
    return torch.where(labels != UNLABELLED, own, 0.0)


def _at(labels: Int[Tensor, "m n"], values: Float[Tensor, "m n k"]) -> Float[Tensor, "m n"]:
    """What every row has at its own author; anything where the author is unknown."""
    return values.gather(-1, labels.clamp(min=0).unsqueeze(-1)).squeeze(-1)


# -- the six terms written out -------------------------------------------------------------------


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
