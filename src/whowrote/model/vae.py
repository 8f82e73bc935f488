r"""The autoencoder with its mixture: encode, decode, score, bound, generate.

.. math::

    z \sim \pi, \quad u \mid z \sim \Gamma(\nu_z/2, \nu_z/2), \quad
    x \mid u, z \sim N(\mu_z, \Sigma_z / u), \quad o \mid x \sim N(\mathrm{decoder}(x))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from whowrote.model.components import component_for
from whowrote.model.fleet import Architecture, Member
from whowrote.model.mixture import Mixture, Scores, raw_df
from whowrote.model.networks import Network, bounded_log_density, dropped, dropped_sparse
from whowrote.model.normal import DiagonalNormal
from whowrote.model.objectives import (
    BoundTerms,
    Weights,
    label_term,
    own_prior_term,
    prior_term,
)
from whowrote.model.own_distance import Groups
from whowrote.model.precision import Precision
from whowrote.model.rows import Batch, SparseRows
from whowrote.model.streams import Streams


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

    def __init__(self, architecture: Architecture, members: Sequence[Member]) -> None:
        super().__init__()
        a, m = architecture, len(members)
        self.architecture = a
        self.members = tuple(members)
        for name in ("l1", "joint_weight", "label_weight", "input_dropout", "hidden_dropout"):
            self.register_buffer(name, torch.tensor([getattr(x, name) for x in members]))
        # Known without asking the device: whether anything has to be dropped at all.
        self.drops_inputs = tuple(member.input_dropout > 0 for member in members)
        self.drops_hidden = tuple(member.hidden_dropout > 0 for member in members)
        self.encoder = Network(m, a.encoder_width, a.hidden, a.latent_dim, a.activation)
        self.decoder = Network(m, a.latent_dim, a.hidden[::-1], a.n_features, a.activation)
        floors = torch.tensor([member.scale_floor for member in members])
        family = component_for([member.component for member in members])
        self.mixture = Mixture(family, a.n_components, a.latent_dim, floors)
        initial_df = torch.tensor([member.initial_df for member in members])
        with torch.no_grad():
            self.mixture.raw_df.copy_(raw_df(initial_df).unsqueeze(1).expand(m, a.n_components))

    def __len__(self) -> int:
        return len(self.l1)

    def select(self, keep: Sequence[int]) -> MixtureVAE:
        """A new fleet of some members, sharing no memory with this one."""
        like = self.mixture.loc
        index = torch.as_tensor(list(keep), dtype=torch.long, device=like.device)
        with like.device:  # made where it will live: nothing travels
            fleet = MixtureVAE(self.architecture, [self.members[i] for i in keep]).to(like.dtype)
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
        x = q.repeat(t).at(noise)
        raw = self.decoder.raw(x, self.hidden_dropout, _only(streams, self.drops_hidden))
        if t == 1:
            return bounded_log_density(raw, targets)
        density = bounded_log_density(raw, targets.repeat(1, t, 1))
        return density.reshape(len(targets), t, -1).mean(1)

    def noise(self, n: int, streams: Streams) -> Float[Tensor, "m tn d"]:
        """Standard normal numbers for T samples of n rows."""
        return streams.normal(self.architecture.n_samples * n, self.architecture.latent_dim)

    def forward(
        self,
        batch: Batch,
        streams: Streams,
        training: bool = True,
        precision: Precision | None = None,
        frozen: bool = False,
        groups: Groups | None = None,
    ) -> BoundTerms:
        """All terms of the objective; dropout acts only in training.

        ``precision`` is that of the present scale matrices where it is already known, and
        ``frozen`` leaves them out of the gradient. With ``groups``, the rows by author, only the
        distance of each row from its own component is computed: all that is needed where
        :attr:`joint_only` is true and every row is labelled.
        """
        dropout = streams if training else None
        q = self.encode(batch.inputs, dropout)
        noise = self.noise(batch.targets.shape[1], streams)
        prior, labels = self._latent_terms(q, batch, precision, frozen, groups)
        return BoundTerms(
            reconstruction=self.reconstruction(q, batch.targets, noise, dropout),
            entropy=q.entropy(),
            prior=prior,
            labels=labels,
            l1=self._penalty(),
        )

    @property
    def joint_only(self) -> bool:
        """Whether no member asks for more of a labelled row than its joint score."""
        return all(member.label_weight == 0 for member in self.members)

    def _latent_terms(
        self,
        q: DiagonalNormal,
        batch: Batch,
        precision: Precision | None,
        frozen: bool,
        groups: Groups | None,
    ) -> tuple[Float[Tensor, "m n"], Float[Tensor, "m n"]]:
        """What is said of z and u, and of the labels."""
        weights = Weights(self.joint_weight, self.label_weight)
        objective = self.architecture.objective
        if groups is not None:
            own = self.mixture.own_score(q, groups, precision, frozen)
            prior = own_prior_term(own, groups, self.mixture, weights, objective)
            return prior, torch.zeros_like(prior)
        scores = self.mixture(q, precision, frozen)
        return (
            prior_term(scores, batch.labels, self.mixture, weights, objective),
            label_term(scores, batch.labels, weights),
        )

    def _penalty(self) -> Float[Tensor, " m"]:
        """The l1 penalty; not even computed where no member asks for it."""
        if not any(member.l1 > 0 for member in self.members):
            return torch.zeros_like(self.l1)
        return self.l1 * (self.encoder.absolute_sum() + self.decoder.absolute_sum())

    def bound(
        self,
        q: DiagonalNormal,
        targets: Float[Tensor, "m n l"],
        noise: Float[Tensor, "m tn d"],
        precision: Precision | None = None,
    ) -> Float[Tensor, "m n"]:
        """The bound on ln p(o) of every row, whatever its label, without dropout."""
        scores: Scores = self.mixture(q, precision)
        return self.reconstruction(q, targets, noise) + q.entropy() + scores.log_evidence

    def scores(
        self, inputs: Float[Tensor, "m n l"] | SparseRows, precision: Precision | None = None
    ) -> Scores:
        """What the mixture says of encoded rows."""
        scores: Scores = self.mixture(self.encode(inputs), precision)
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
        scales = mixture.component.sample_scale(mixture.df[0, classes], generator)

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
