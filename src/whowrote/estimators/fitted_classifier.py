"""What the estimators return when one array is not enough."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import chdtrc, fdtrc, logsumexp

from whowrote import checks
from whowrote.arrays import FloatArray
from whowrote.errors import InputError
from whowrote.estimators.scaling import Scaling
from whowrote.files import ModelFile, below, read_model_file
from whowrote.model import Architecture, Batch, DiagonalNormal, Member, MixtureVAE, Rows, Streams


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


# DOC """What a fitted model answers: probabilities, latents, densities, p-values, new observations."""

CHUNK = 4096
SEED_RANGE = 2**31 - 1


class Answers:
    """The answering half of an estimator; the other half learns ``fleet_`` and ``scaling_``."""

    scaling_: Scaling
    fleet_: MixtureVAE
    n_features_in_: int
    leader_: int

    # -- reading ---------------------------------------------------------------------------------

    @property
    def _torch_dtype(self) -> torch.dtype:
        return self.fleet_.mixture.loc.dtype

    @property
    def _device(self) -> torch.device:
        return self.fleet_.mixture.loc.device

    @property
    def _has_tails(self) -> bool:
        return self.fleet_.members[0].component == "student-t"

    def _rows(self, X: Any, labels: NDArray[np.int64] | None) -> Rows:
        return self.scaling_.rows(X, labels, self._device, self._torch_dtype)

    def _read(self, X: Any, *, reset: bool) -> Any:
        """Rows as arrays; ``reset``: from now on they look like these."""
        raise NotImplementedError

    # -- answers ---------------------------------------------------------------------------------

    def _batches(self, X: Any) -> Iterator[Batch]:
        """X in chunks, the same rows for every member."""
        checks.fitted(self, "fleet_")
        X = self._read(X, reset=False)
        members = len(self.fleet_)
        for low in range(0, X.shape[0], CHUNK):
            rows = self._rows(X[low : low + CHUNK], None)
            yield rows.take(torch.arange(len(rows), device=self._device).expand(members, len(rows)))

    @torch.no_grad()
    def member_log_proba(self, X: Any) -> FloatArray:
        """Ln p(author | o) of every member on its own, (members, n, K), in float64."""
        parts = [
            torch.log_softmax(self.fleet_.scores(b.inputs).score.double(), dim=-1)
            for b in self._batches(X)
        ]
        return torch.cat(parts, dim=1).cpu().numpy()

    def _log_proba(self, X: Any) -> FloatArray:
        """ln of the members' mean probability, (n, K), in float64 so that rows sum to one."""
        each = self.member_log_proba(X)
        return np.asarray(logsumexp(each, axis=0) - math.log(len(each)))

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Ln p(author | o), or ln gamma without labels, (n, K)."""
        return self._log_proba(X)

    def predict_proba(self, X: Any) -> FloatArray:
        """p(author | o), or the responsibilities gamma without labels, (n, K)."""
        return np.exp(self._log_proba(X))

    @torch.no_grad()
    def transform(self, X: Any) -> FloatArray:
        """Latent means E[q(x | o)] of the leading member, (n, D)."""
        parts = [self.fleet_.encode(b.inputs).mean[self.leader_] for b in self._batches(X)]
        return torch.cat(parts).cpu().numpy()

    @torch.no_grad()
    def bound(self, X: Any, n_samples: int = 16) -> FloatArray:
        """The evidence lower bound of every row, in the units of X, with that many samples of x.

        For several members: the log-mean-exp of their bounds, which bounds their mixture.
        """
        checks.at_least("n_samples", n_samples, 1, integer=True)
        parts = [
            torch.stack([self.fleet_.bound(q, b.targets, z) for z in noise]).mean(0)
            for b, q, noise in self._draws(X, n_samples)
        ]
        return self._densities(torch.cat(parts, dim=1))

    @torch.no_grad()
    def score_samples(self, X: Any, n_samples: int = 64) -> FloatArray:
        """Importance-weighted estimate of ln p(o) of every row, in the units of X.

        ``n_samples`` draws of x; the estimate rises to ln p(o) with their number and is, on
        average, never below the bound.
        """
        checks.at_least("n_samples", n_samples, 1, integer=True)
        parts = []
        for b, q, noise in self._draws(X, n_samples):
            weights = [self.fleet_.importance_weights(q, b.targets, z) for z in noise]
            parts.append(torch.logsumexp(torch.stack(weights), 0) - math.log(n_samples))
        return self._densities(torch.cat(parts, dim=1))

    def _draws(
        self, X: Any, n_samples: int
    ) -> Iterator[tuple[Batch, DiagonalNormal, list[torch.Tensor]]]:
        """Every batch with its q(x | o) and noise.

        Seeds are fixed and rows share their noise: the same row gets the same answer, whenever it
        is asked and whatever stands beside it.
        """
        checks.fitted(self, "fleet_")
        streams = Streams(range(len(self.fleet_)), self._device, self._torch_dtype)
        shared = streams.normal(n_samples, self.fleet_.architecture.latent_dim)
        for batch in self._batches(X):
            shape = (-1, batch.targets.shape[1], -1)
            noise = [shared[:, s : s + 1].expand(shape) for s in range(n_samples)]
            yield batch, self.fleet_.encode(batch.inputs), noise

    def _densities(self, per_member: torch.Tensor) -> FloatArray:
        values = logsumexp(per_member.cpu().numpy(), axis=0) - math.log(len(per_member))
        return np.asarray(values - self.scaling_.log_volume)

    @torch.no_grad()
    def typicality(self, X: Any) -> FloatArray:
        """P-value of every row under every component, (n, K).

        For a document of author k, delta/D follows F(D, nu_k) (chi-squared for Gaussians) when
        q(x | o) is sharp: the p-value says how often that author would write something as unusual
        as this. Small under every author means "none of these". Mean over members.
        """
        checks.fitted(self, "fleet_")
        mixture, parts = self.fleet_.mixture, []
        for batch in self._batches(X):
            delta = mixture.at_points(self.fleet_.encode(batch.inputs).mean).delta
            parts.append(self._tail(delta.cpu().numpy()).mean(0))
        return np.concatenate(parts)

    def _tail(self, delta: FloatArray) -> FloatArray:
        d = self.fleet_.architecture.latent_dim
        if not self._has_tails:
            return np.asarray(chdtrc(d, delta.astype(np.float64)))
        df = self.fleet_.mixture.df.detach().cpu().numpy()[:, None, :]
        return np.asarray(fdtrc(d, df.astype(np.float64), (delta / d).astype(np.float64)))

    @torch.no_grad()
    def log_densities(self, X: Any) -> FloatArray:
        """Log density of every row's q(x | o) under every component, (n, K), without weights.

        The density of the latent, expected under q; log-mean-exp over members.
        """
        parts = []
        for batch in self._batches(X):
            score = self.fleet_.scores(batch.inputs).score
            parts.append((score - self.fleet_.mixture.log_weights.unsqueeze(1)).double())
        per_member = torch.cat(parts, dim=1).cpu().numpy()
        return np.asarray(logsumexp(per_member, axis=0) - math.log(len(per_member)))

    @torch.no_grad()
    def expected_scales(self, X: Any) -> FloatArray:
        """E[u] of every row under every component: below one, the model sees an outlier."""
        checks.fitted(self, "fleet_")
        mixture, parts = self.fleet_.mixture, []
        for batch in self._batches(X):
            scores = self.fleet_.scores(batch.inputs)
            scale = mixture.component.expected_scale(
                scores.delta, mixture.df, mixture.loc.shape[-1]
            )
            parts.append(scale.mean(0))
        return torch.cat(parts).cpu().numpy()

    # -- generation ------------------------------------------------------------------------------

    def _draw(self, codes: NDArray[np.int64] | None, n: int, random_state: Any) -> Sample:
        from sklearn.utils import check_random_state  # late: answers need none

        checks.fitted(self, "fleet_")
        seed = int(check_random_state(random_state).randint(SEED_RANGE))
        leader = self.fleet_.select([self.leader_]).cpu()
        generator = torch.Generator().manual_seed(seed)
        weights = leader.mixture.log_weights[0].exp()
        if codes is None:
            classes = torch.multinomial(weights, n, replacement=True, generator=generator)
        else:
            classes = torch.as_tensor(codes)
        drawn = leader.generate(classes, generator)
        observations = self.scaling_.undo(drawn.observations.numpy())
        return Sample(observations, drawn.latents.numpy(), drawn.scales.numpy(), classes.numpy())

    @torch.no_grad()
    def decode(self, Z: Any) -> Decoded:
        """Mean and standard deviation of the observation given latents of the leading member."""
        checks.fitted(self, "fleet_")
        Z = np.atleast_2d(np.asarray(Z))
        d = self.fleet_.architecture.latent_dim
        if Z.ndim != 2 or Z.shape[1] != d:
            raise InputError(
                f"Z has the shape {Z.shape}, but the latent space has {d} dimensions; give (n, {d})"
            )
        leader = self.fleet_.select([self.leader_])
        p = leader.decode(torch.as_tensor(Z, dtype=self._torch_dtype, device=self._device)[None])
        scale = p.log_scale.exp()[0].cpu().numpy() * self.scaling_.scale
        return Decoded(self.scaling_.undo(p.mean[0].cpu().numpy()), scale)

    def inverse_transform(self, Z: Any) -> FloatArray:
        """Decoded means; for wide sparse X, mapped back from the projection to its columns."""
        mean = self.decode(Z).mean
        return mean if self.scaling_.projection is None else mean @ self.scaling_.projection.T

    # -- learnt attributes -----------------------------------------------------------------------

    def _leader(self, value: torch.Tensor) -> FloatArray:
        return value[self.leader_].detach().cpu().numpy()

    @property
    def weights_(self) -> FloatArray:
        """Mixture weights pi of the leading member, (K,)."""
        return np.exp(self._leader(self.fleet_.mixture.log_weights))

    @property
    def means_(self) -> FloatArray:
        """Locations mu of the leading member, (K, D)."""
        return self._leader(self.fleet_.mixture.loc)

    @property
    def scales_(self) -> FloatArray:
        """Scale matrices Sigma of the leading member, (K, D, D); not covariances."""
        return self._leader(self.fleet_.mixture.scale_matrix)

    @property
    def degrees_of_freedom_(self) -> FloatArray:
        """Learnt nu of the leading member, (K,); infinite for Gaussian components."""
        df = self._leader(self.fleet_.mixture.df)
        return df if self._has_tails else np.full_like(df, np.inf)


# DOC """A trained model read from its file to answer, and nothing else: without scikit-learn.
# DOC
# DOC Loading scikit-learn takes longer than an answer. An estimator's own ``load`` reads the same file
# DOC and can learn again.
# DOC """

FLEET, SCALING = "fleet.", "scaling."
"""What the names of their arrays begin with."""


class FittedClassifier(Answers):
    """What ``MixtureVAEClassifier`` answers, without its settings; classes go by their numbers."""

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what the estimator's ``save`` wrote; answers are bit-equal."""
        record = read_model_file(path, "MixtureVAEClassifier")
        fitted = cls()
        fitted.scaling_ = scaling_from(record)
        device = checks.choose_device(record.values["parameters"]["device"])
        fitted.fleet_ = fleet_from(record).to(device)
        fitted.leader_ = record.values["state"]["leader_"]
        fitted.n_features_in_ = record.values["state"]["n_features_in_"]
        return fitted

    def _read(self, X: Any, *, reset: bool) -> Any:
        """Rows that our own features made: numbers in the right columns."""
        rows = np.asarray(X, dtype=np.float64)
        checks.all_finite(rows)
        return rows


def scaling_from(record: ModelFile) -> Scaling:
    """The scaling in a model file."""
    return Scaling.restore(below(SCALING, record.arrays))


def fleet_from(record: ModelFile) -> MixtureVAE:
    """The networks and the mixture in a model file."""
    shape, members = dict(record.values["architecture"]), record.values["members"]
    shape["hidden"] = tuple(shape["hidden"])
    arrays = below(FLEET, record.arrays)
    state = {name: torch.as_tensor(array) for name, array in arrays.items()}
    fleet = MixtureVAE(Architecture(**shape), [Member(**one) for one in members])
    fleet.to(dtype=state["mixture.loc"].dtype)
    fleet.load_state_dict(state)
    return fleet
