r"""A trained fleet that answers: :math:`o \mapsto q(x \mid o) \mapsto \log p(k \mid o)`.

Rows go in as the estimators have checked them: a dense array (n, L), or a sparse one. What comes
out, in the units of X: probabilities, latents, densities, p-values, new observations. Nothing here
learns, and nothing here loads scikit-learn, which takes longer than an answer.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import chdtrc, fdtrc, logsumexp

from whowrote import checks
from whowrote.arrays import FloatArray, IntArray
from whowrote.errors import InputError
from whowrote.estimators.scaling import Scaling
from whowrote.estimators.stored_fleet import LOG_EXCESS, PUBLISHED_DF, check_stored
from whowrote.files import ModelFile, below, read_model_file, write_model_file
from whowrote.model import Architecture, Batch, DiagonalNormal, Member, MixtureVAE, Rows, Streams
from whowrote.model.distributions import FAMILIES
from whowrote.model.fleet import UNLABELLED, SharedStream
from whowrote.model.mixture import from_published_df

CHUNK = 4096
KINDS = ("FittedClassifier", "MixtureVAEClassifier", "MixtureVAEClusterer")
"""Files that hold a trained fleet: its own, and those of the estimators."""
TAILS: dict[str, Callable[[FloatArray, FloatArray, int], FloatArray]] = {
    "student-t": lambda delta, df, d: fdtrc(d, df, (delta / d).astype(np.float64)),
    "gaussian": lambda delta, df, d: chdtrc(d, delta.astype(np.float64)),
    "standard-normal": lambda delta, df, d: chdtrc(d, delta.astype(np.float64)),
}
"""How often a point of a component is at least as far out, by its family."""
FLEET, SCALING, RANKS = "fleet.", "scaling.", "ranks."
"""What the names of their arrays begin with."""
LEAST_RANKED_ROWS = 10
"""Fewer held-out rows say nothing of how typical another is."""
MOST_KNOTS = 999
"""Of so many held-out rows all are kept; of more, as many quantiles."""
BOUND_SAMPLES = 4
"""Samples of x for the bound by which a row is ranked."""


class Sample(NamedTuple):
    """Draws of the generative story, a row each; observations are in the units of X."""

    observations: FloatArray
    latents: FloatArray
    scales: FloatArray
    classes: NDArray[Any]


class Decoded(NamedTuple):
    """The distribution of the observation given a latent: mean and standard deviation."""

    mean: FloatArray
    scale: FloatArray


@dataclass(frozen=True)
class Scored:
    """What the mixture of every member says of rows, (members, n, K), in float64."""

    log_proba: FloatArray
    """ln p(author | o) of every member on its own."""
    log_density: FloatArray
    """Log density of q(x | o) under every component, without its weight."""

    def mean_log_proba(self) -> FloatArray:
        """Ln of the members' mean probability, (n, K): rows sum to one."""
        return log_mean_exp(self.log_proba)


def log_mean_exp(per_member: FloatArray) -> FloatArray:
    """The logarithm of the mean over the first axis."""
    return np.asarray(logsumexp(per_member, axis=0) - math.log(len(per_member)))


@dataclass(frozen=True)
class Figures:
    """What every member says of rows, (m, n, K): ln p(k | o), and the bound on ln p(o | k)."""

    log_proba: FloatArray
    bound: FloatArray


class OwnFigures(NamedTuple):
    """The same of rows under the component of their class alone, by one member, (n,)."""

    log_proba: FloatArray
    bound: FloatArray


@dataclass(frozen=True)
class HeldOutRanks:
    r"""Where a row stands among held-out rows: a conformal p-value under every component.

    .. math:: s_k = \ln r(\ln p(k \mid o)) + \ln r(\mathrm{bound}_k), \qquad p_k = r(s_k)

    r is the rank among the values that held-out rows have under their own component: i/(n + 1) at
    the i-th of n, linear in between, never below 1/(n + 1). A new row of class k takes each place
    among n others equally often, whatever the model is: p_k is uniform, and small under every class
    for what is unlike all of them. Each array has a row of ascending values for every member.
    """

    log_proba: FloatArray
    bound: FloatArray
    both: FloatArray

    @classmethod
    def learn(cls, found: Sequence[OwnFigures], n_members: int, *, pooled: bool) -> Self | None:
        """From held-out rows of every member, or ``pooled``: from those of all for everyone."""
        if pooled:
            everyone = OwnFigures(*(np.concatenate(one) for one in zip(*found, strict=True)))
            found = [everyone] * n_members
        n = min(MOST_KNOTS, *(len(own.bound) for own in found), MOST_KNOTS)
        if n < LEAST_RANKED_ROWS:
            return None
        columns = zip(*(_knots_of_member(own, n) for own in found), strict=True)
        return cls(*(np.stack(column) for column in columns))

    def member(self, index: int) -> Self:
        """Those of one member."""
        return type(self)(*(values[[index]] for values in vars(self).values()))

    def p_values(self, figures: Figures) -> FloatArray:
        """The p-value of rows under every component by every member, (m, n, K)."""
        members = zip(self.log_proba, self.bound, self.both, strict=True)
        asked = zip(figures.log_proba, figures.bound, strict=True)
        return np.stack(
            [
                _rank(np.log(_rank(proba, first)) + np.log(_rank(bound, second)), both)
                for (first, second, both), (proba, bound) in zip(members, asked, strict=True)
            ]
        )


def _knots_of_member(own: OwnFigures, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    first, second = _knots(own.log_proba, n), _knots(own.bound, n)
    both = np.log(_rank(own.log_proba, first)) + np.log(_rank(own.bound, second))
    return first, second, _knots(both, n)


def _knots(values: FloatArray, n: int) -> FloatArray:
    """n quantiles, at the levels i/(n + 1): of n values, these in order."""
    levels = np.arange(1, n + 1) / (n + 1)
    return np.asarray(np.quantile(values.astype(np.float64), levels, method="weibull"))


def _rank(values: FloatArray, knots: FloatArray) -> FloatArray:
    n = len(knots)
    return np.asarray(np.interp(values, knots, np.arange(1, n + 1) / (n + 1), right=1.0))


@dataclass(frozen=True)
class FittedClassifier:
    """A trained fleet and the scaling of its rows; classes go by their numbers.

    Probabilities are averaged over the members; what speaks of the latent space comes from member
    number ``leader``, the one with the lowest validation loss.
    """

    fleet: MixtureVAE
    scaling: Scaling
    leader: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The parameters of the estimator that it was learnt with: to learn so again."""
    ranks: HeldOutRanks | None = None
    """By which typicality is calibrated; None where no row was held out, and in files of before."""

    @property
    def device(self) -> torch.device:
        """Where the fleet is."""
        return self.fleet.mixture.loc.device

    @property
    def dtype(self) -> torch.dtype:
        """What the fleet computes in."""
        return self.fleet.mixture.loc.dtype

    @property
    def n_components(self) -> int:
        """K, the number of authors or clusters."""
        return self.fleet.architecture.n_components

    @property
    def component(self) -> str:
        """The family of the mixture."""
        return self.fleet.members[0].component

    def member(self, index: int) -> Self:
        """One member of the ensemble on its own."""
        ranks = None if self.ranks is None else self.ranks.member(index)
        return replace(self, fleet=self.fleet.select([index]), leader=0, ranks=ranks)

    def on(self, device: torch.device) -> Self:
        """The same on another device; this one is not touched."""
        if self.device == device:
            return self
        return replace(self, fleet=self.fleet.select(range(len(self.fleet))).to(device))

    # -- probabilities and latents ---------------------------------------------------------------

    def _batches(self, X: Any) -> Iterator[Batch]:
        """X in chunks, the same rows for every member."""
        for low in range(0, X.shape[0], CHUNK):
            rows = self.scaling.rows(X[low : low + CHUNK], None, self.device, self.dtype)
            everyone = torch.arange(len(rows), device=self.device)
            yield rows.take(everyone.expand(len(self.fleet), len(rows)))

    @torch.no_grad()
    def score(self, X: Any) -> Scored:
        """Probabilities and densities of rows, from one pass through the model."""
        proba, density = [], []
        log_weights = self.fleet.mixture.log_weights.unsqueeze(1)
        with self.fleet.mixture.factored():
            for batch in self._batches(X):
                score = self.fleet.scores(batch.inputs).score
                proba.append(torch.log_softmax(score.double(), dim=-1))
                density.append((score - log_weights).double())
        return Scored(*(torch.cat(parts, dim=1).cpu().numpy() for parts in (proba, density)))

    @torch.no_grad()
    def transform(self, X: Any) -> FloatArray:
        """Latent means E[q(x | o)] of the leading member, (n, D)."""
        return np.asarray(self.latents(X)[self.leader])

    @torch.no_grad()
    def latents(self, X: Any) -> FloatArray:
        """Latent means E[q(x | o)] of every member, (members, n, D)."""
        parts = [self.fleet.encode(batch.inputs).mean for batch in self._batches(X)]
        return torch.cat(parts, dim=1).cpu().numpy()

    # -- densities -------------------------------------------------------------------------------

    @torch.no_grad()
    def bound(self, X: Any, n_samples: int) -> FloatArray:
        """The bound on ln p(o) of every row; of several members, on that of their mixture."""
        parts = []
        with self.fleet.mixture.factored():
            for batch, q, noise in self._draws(X, n_samples):
                drawn = [self.fleet.bound(q, batch.targets, z) for z in noise]
                parts.append(self._in_units_of_x(torch.stack(drawn).mean(0)))
        return np.concatenate(parts)

    @torch.no_grad()
    def score_samples(self, X: Any, n_samples: int) -> FloatArray:
        """Importance-weighted estimate of ln p(o) of every row."""
        parts = []
        with self.fleet.mixture.factored():
            for batch, q, noise in self._draws(X, n_samples):
                weights = [self.fleet.importance_weights(q, batch.targets, z) for z in noise]
                parts.append(torch.logsumexp(torch.stack(weights), 0) - math.log(n_samples))
        return self._in_units_of_x(torch.cat(parts, dim=1))

    def _draws(
        self, X: Any, n_samples: int, streams: Streams | None = None
    ) -> Iterator[tuple[Batch, DiagonalNormal, list[torch.Tensor]]]:
        """Every batch with its q(x | o) and noise.

        Seeds are fixed and rows share their noise: the same row gets the same answer, whenever it
        is asked and whatever stands beside it.
        """
        streams = streams or Streams(range(len(self.fleet)), self.device, self.dtype)
        shared = streams.normal(n_samples, self.fleet.architecture.latent_dim)
        for batch in self._batches(X):
            shape = (-1, batch.targets.shape[1], -1)
            noise = [shared[:, s : s + 1].expand(shape) for s in range(n_samples)]
            yield batch, self.fleet.encode(batch.inputs), noise

    def _in_units_of_x(self, per_member: torch.Tensor) -> FloatArray:
        return log_mean_exp(per_member.cpu().numpy()) - self.scaling.log_volume

    def typicality(self, X: Any, calibrated: bool = True) -> FloatArray:
        """P-value of every row under every component, (n, K), mean over members.

        By :class:`HeldOutRanks`; without any, or not ``calibrated``, by ``TAILS``.
        """
        if self.ranks is None or not calibrated:
            return self._by_theory(X)
        return np.asarray(self.ranks.p_values(self.figures(X)).mean(axis=0))

    @torch.no_grad()
    def figures(self, X: Any) -> Figures:
        """What rows are ranked by."""
        scored, parts = self.score(X), []
        # One stream for all: a member says the same alone and in company.
        streams = SharedStream(0, len(self.fleet), self.device, self.dtype)
        for batch, q, noise in self._draws(X, BOUND_SAMPLES, streams):
            drawn = [self.fleet.reconstruction(q, batch.targets, z) for z in noise]
            parts.append((torch.stack(drawn).mean(0) + q.entropy()).double())
        explained = torch.cat(parts, dim=1).cpu().numpy()
        return Figures(scored.log_proba, explained[..., None] + scored.log_density)

    def held_out_figures(
        self, X: Any, codes: IntArray, held_out: Sequence[IntArray]
    ) -> list[OwnFigures]:
        """Figures of the rows that each member has not learnt from; some of them may have none.

        A row without a class counts as one of the component that the member puts it into.
        """
        found = []
        for number, rows in enumerate(held_out):
            if not len(rows):
                found.append(OwnFigures(np.zeros(0), np.zeros(0)))
                continue
            (log_proba,), (bound,) = vars(self.member(number).figures(X[rows])).values()
            likely, given = log_proba.argmax(axis=1), codes[rows]
            own = np.arange(len(rows)), np.where(given == UNLABELLED, likely, given)
            found.append(OwnFigures(log_proba[own], bound[own]))
        return found

    @torch.no_grad()
    def _by_theory(self, X: Any) -> FloatArray:
        """How often a point of a component is as far out, (n, K): see ``TAILS``."""
        mixture, parts = self.fleet.mixture, []
        for batch in self._batches(X):
            delta = mixture.at_points(self.fleet.encode(batch.inputs).mean).delta
            parts.append(self._tail(delta.cpu().numpy()).mean(0))
        return np.concatenate(parts)

    def _tail(self, delta: FloatArray) -> FloatArray:
        df = self.fleet.mixture.df.detach().cpu().numpy()[:, None, :].astype(np.float64)
        return np.asarray(TAILS[self.component](delta, df, self.fleet.architecture.latent_dim))

    @torch.no_grad()
    def expected_scales(self, X: Any) -> FloatArray:
        """E[u] of every row under every component, (n, K), mean over members."""
        mixture, parts = self.fleet.mixture, []
        for batch in self._batches(X):
            delta = self.fleet.scores(batch.inputs).delta
            scale = mixture.component.expected_scale(delta, mixture.df, mixture.loc.shape[-1])
            parts.append(scale.mean(0))
        return torch.cat(parts).cpu().numpy()

    # -- generation ------------------------------------------------------------------------------

    def sample(self, codes: IntArray | None, n: int, seed: int) -> Sample:
        """Draw by the generative story: of the given classes, or n of the mixture."""
        leader = self.fleet.select([self.leader]).cpu()
        generator = torch.Generator().manual_seed(seed)
        weights = leader.mixture.log_weights[0].exp()
        if codes is None:
            classes = torch.multinomial(weights, n, replacement=True, generator=generator)
        else:
            classes = torch.as_tensor(codes)
        drawn = leader.generate(classes, generator)
        observations = self.scaling.undo(drawn.observations.numpy())
        return Sample(observations, drawn.latents.numpy(), drawn.scales.numpy(), classes.numpy())

    @torch.no_grad()
    def decode(self, Z: Any) -> Decoded:
        """Mean and standard deviation of the observation given latents (n, D)."""
        Z = np.atleast_2d(np.asarray(Z))
        d = self.fleet.architecture.latent_dim
        if Z.ndim != 2 or Z.shape[1] != d:
            raise InputError(
                f"Z has the shape {Z.shape}, but the latent space has {d} dimensions; give (n, {d})"
            )
        leader = self.fleet.select([self.leader])
        p = leader.decode(torch.as_tensor(Z, dtype=self.dtype, device=self.device)[None])
        scale = p.log_scale.exp()[0].cpu().numpy() * self.scaling.scale
        return Decoded(self.scaling.undo(p.mean[0].cpu().numpy()), scale)

    # -- what was learnt -------------------------------------------------------------------------

    def _of_leader(self, value: torch.Tensor) -> FloatArray:
        return value[self.leader].detach().cpu().numpy()

    @property
    def weights(self) -> FloatArray:
        """Mixture weights pi, (K,)."""
        return np.exp(self._of_leader(self.fleet.mixture.log_weights))

    @property
    def means(self) -> FloatArray:
        """Locations mu, (K, D)."""
        return self._of_leader(self.fleet.mixture.loc)

    @property
    def scales(self) -> FloatArray:
        """Scale matrices Sigma, (K, D, D); not covariances."""
        return self._of_leader(self.fleet.mixture.scale_matrix)

    @property
    def covariances(self) -> FloatArray:
        """nu/(nu - 2) Sigma, (K, D, D); the scale matrix itself where nu is infinite."""
        df = self.degrees_of_freedom.astype(np.float64)
        factor = np.where(np.isinf(df), 1.0, df / np.where(np.isinf(df), 1.0, df - 2))
        return factor[:, None, None] * self.scales

    @property
    def degrees_of_freedom(self) -> FloatArray:
        """Learnt nu, (K,); infinite for Gaussian components."""
        df = self._of_leader(self.fleet.mixture.df)
        return df if FAMILIES[self.component].learns_df else np.full_like(df, np.inf)

    # -- files -----------------------------------------------------------------------------------

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything that decides an answer, by name."""
        state = self.fleet.state_dict()
        arrays = {f"{FLEET}{name}": value.cpu().numpy() for name, value in state.items()}
        arrays |= {f"{SCALING}{n}": array for n, array in self.scaling.state().items()}
        ranks = {} if self.ranks is None else vars(self.ranks)
        return arrays | {f"{RANKS}{name}": values for name, values in ranks.items()}

    def values(self) -> dict[str, Any]:
        """The shape of the fleet and of its members, as plain values."""
        return {
            "architecture": asdict(self.fleet.architecture),
            "members": [asdict(member) for member in self.fleet.members],
            "parameters": dict(self.settings),
            "state": {"leader_": self.leader},
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to one safetensors file, atomically."""
        write_model_file(path, ModelFile(KINDS[0], self.values(), self.arrays()))

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: str = "auto") -> Self:
        """Read what :meth:`save`, or the ``save`` of an estimator, wrote."""
        return cls.restore(read_model_file(path, *KINDS), device)

    @classmethod
    def restore(cls, stored: ModelFile, device: str) -> Self:
        """Put it together again; answers are bit-equal on the same kind of device."""
        check_stored(stored, FLEET, SCALING, RANKS)
        shape, members = dict(stored.values["architecture"]), stored.values["members"]
        settings = dict(stored.values["parameters"])
        if "n_components" not in settings:  # a classifier; files of before began at random
            settings.setdefault("start", "random")
        shape["hidden"] = tuple(shape["hidden"])
        arrays = below(FLEET, stored.arrays)
        state = {name: torch.as_tensor(array) for name, array in arrays.items()}
        if PUBLISHED_DF in state:
            state[LOG_EXCESS] = from_published_df(state.pop(PUBLISHED_DF))
        fleet = MixtureVAE(Architecture(**shape), [Member(**one) for one in members])
        fleet.to(dtype=state["mixture.loc"].dtype)
        fleet.load_state_dict(state)
        scaling = Scaling.restore(below(SCALING, stored.arrays))
        ranks = below(RANKS, stored.arrays)
        return cls(
            fleet.to(checks.choose_device(device)),
            scaling,
            int(stored.values["state"]["leader_"]),
            {n: tuple(v) if isinstance(v, list) else v for n, v in settings.items()},
            HeldOutRanks(**ranks) if ranks else None,
        )


@dataclass
class Fit:
    """What a fit builds up, phase by phase.

    ``continued``: it goes on from an earlier one (``warm_start``), which has ``earlier`` records.
    """

    fitted: FittedClassifier
    history: list[dict[str, Any]] = field(default_factory=list)
    earlier: int = 0
    continued: bool = False
    converged: bool = False
    sound: bool = False
    """Whether the present state is worth keeping: trained, or started by a regression."""
    stayed: bool = False
    """Whether training has found nothing better than that start."""
    callbacks: tuple[Callable[[dict[str, Any]], object], ...] = ()

    def rows(
        self, X: Any, labels: IntArray | None = None, weights: FloatArray | None = None
    ) -> Rows:
        """X as the rows of the model, with class numbers and weights where there are any."""
        rows = self.fitted.scaling.rows(X, labels, self.fitted.device, self.fitted.dtype)
        if weights is None:
            return rows
        return replace(rows, weights=torch.as_tensor(weights).to(rows.targets))
