r"""Clustering: the same model without labels, kept from merging by provisional ones.

For the first ``warm_up`` epochs the hard assignments of a Gaussian mixture fitted to the
observations stand in for labels. Then every component is placed by a Gaussian mixture of the
latents :math:`q(x \mid o_n) = N(m_n, \mathrm{diag}\, s_n^2)`, with responsibilities
:math:`r_{nk}` that start at the provisional labels,

.. math:: \pi_k = \tfrac1n \textstyle\sum_n r_{nk}, \qquad
    S_k = \frac{\sum_n r_{nk} (m_n - \mu_k)(m_n - \mu_k)^\top + (D + 1) W}
        {\sum_n r_{nk} + D + 1} + \frac{\sum_n r_{nk}\, \mathrm{diag}\, s_n^2}{\sum_n r_{nk}}

(:math:`W` pooled within the labels: a cluster of few rows has no matrix of its own), where that
raises the evidence of the rows; and from there on the bound alone decides.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from whowrote import checks
from whowrote.arrays import FloatArray, IntArray
from whowrote.errors import ClusterWarning, InputError
from whowrote.estimators.base import SEED_RANGE, MixtureVAEBase, all_or_nothing
from whowrote.estimators.fitted_classifier import Fit, HeldOutRanks, Sample
from whowrote.estimators.scaling import Scaling, blocks_of, stacked, warn_of_far_values
from whowrote.estimators.vector_table import VectorTable, numbers_of
from whowrote.model import MixtureVAE, Rows
from whowrote.model.fleet import UNLABELLED
from whowrote.model.mixture import set_components
from whowrote.progress import tell
from whowrote.training import Assignment, Validation, assign, initialize

INITIALIZATIONS = ("gaussian-mixture", "random")
MIXTURE_DIMENSIONS = 32
MIXTURE_ROWS = 20_000
MOST_VALIDATION_ROWS = 20_000
FAR_OUT = 0.1
"""The share of rows that may be outliers and get no provisional label."""
NEIGHBOURS = 10
SEED_STEP = 1_000_003
"""How far apart the seeds of two starts lie."""
MOST = 2 / 3
"""What share of the rows of a provisional cluster says where it went."""
SAME = 0.8
"""From which overlap on two components are said to lie on the same rows."""
NAMED = 3
"""How many pairs a warning names."""
CURE = (
    "n_init=5 keeps the start of the highest bound of five, a larger warm_up holds clusters apart "
    "for longer; if fewer clusters are right, lower n_components"
)

Callbacks = tuple[Callable[[dict[str, Any]], object], ...]


class MixtureVAEClusterer(ClusterMixin, MixtureVAEBase):
    """A variational autoencoder with a mixture of ``n_components``, learnt without labels.

    Clusters that lost all their rows, or merged, raise a :class:`~whowrote.errors.ClusterWarning`.
    Parameters are those of :class:`MixtureVAEClassifier`, and

    Parameters
    ----------
    n_components : the number K of clusters.
    component : also ``"standard-normal"``: one component, N(0, I), of which nothing is learnt. With
        ``n_components=1`` this is the plain VAE.
    hidden : 64 by default: without labels, a narrow network cannot keep the clusters apart.
    initialization : ``"gaussian-mixture"`` or ``"random"``: where the provisional labels come from.
    warm_up : epochs with provisional labels, which keep the clusters from merging.
    n_init : how many whole fits are made, each with its own seeds; the one with the highest mean
        bound of the rows is kept.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(200, centers=3, n_features=4, random_state=0)
    >>> model = MixtureVAEClusterer(3, max_epochs=5, warm_up=5, random_state=0).fit(X)
    >>> bool(np.bincount(model.labels_).min() > 60)
    True

    """

    labels_: IntArray

    def __init__(
        self,
        n_components: int = 5,
        *,
        component: str = "student-t",
        latent_dim: int | None = None,
        hidden: int | tuple[int, ...] | None = 64,
        activation: str = "tanh",
        n_samples: int = 1,
        scale_floor: float = 0.01,
        l1: float = 0.0,
        learning_rate: float = 0.002,
        max_epochs: int = 60,
        batch_size: int | None = None,
        clip_norm: float = 1.0,
        joint_weight: float = 1.0,
        label_weight: float = 0.0,
        dropout: float | tuple[float, float] = 0.0,
        objective: str = "bound",
        warm_up: int = 15,
        initialization: str = "gaussian-mixture",
        n_init: int = 1,
        initial_df: float = 5.0,
        df_rate: float = 10.0,
        n_members: int = 1,
        validation_fraction: float = 0.1,
        patience: int = 15,
        average: float = 0.99,
        projection_dim: int = 200,
        device: str = "auto",
        dtype: str = "float32",
        random_state: Any = None,
        verbose: int = 0,
        warm_start: bool = False,
    ) -> None:
        for name, value in list(locals().items()):  # every parameter is kept as it was given
            if name != "self":
                setattr(self, name, value)

    def fit(self, X: Any, y: Any = None, *, validation: Any = None, callbacks: Any = None) -> Self:
        """Learn the clusters; y is ignored.

        ``validation`` are rows to stop early by and not to learn from, in place of
        ``validation_fraction``; ``callbacks`` as in :meth:`MixtureVAEClassifier.fit`.
        """
        with all_or_nothing(self):
            self._check_parameters()
            checks.at_least("n_components", self.n_components, 1, integer=True)
            checks.at_least("n_init", self.n_init, 1, integer=True)
            checks.one_of("initialization", self.initialization, INITIALIZATIONS)
            X = self._read(X, reset=not self._goes_on)
            n = X.shape[0]
            if n < self.n_components:
                raise InputError(
                    f"n_components is {self.n_components} but X has {n} rows (n_samples={n}); "
                    "every cluster needs a row: lower n_components"
                )
            more = None if validation is None else self._read(validation, reset=False)
            called = checks.callbacks_of(callbacks)
            with X.held(self.n_members) if isinstance(X, VectorTable) else nullcontext():
                fit, provisional = self._best_of_starts(X, more, called)
            self._finish(fit, X)
            found = self._numbered_by_size(Shares.of(self._responsibilities(X)))
            self.labels_ = found.labels
        warn_of_clusters(found, provisional)
        return self

    def _best_of_starts(
        self, X: Any, held_out: Any, callbacks: Callbacks
    ) -> tuple[Fit, IntArray | None]:
        """The fit with the highest mean bound of the rows, and the provisional labels of its start.

        A fit that goes on from an earlier one has one start only, and no provisional labels.
        """
        best, highest = None, -np.inf
        for number in range(1 if self._goes_on else self.n_init):
            k = self.n_components
            goes_on = self._goes_on
            fit = (
                self._continued(X.shape[0], k) if goes_on else _reseeded(self._start(X, k), number)
            )
            if not number and not goes_on:
                warn_of_far_values(X, stacklevel=4)
            fit.callbacks = callbacks
            provisional = self._learn(fit, X, held_out)
            bound = float(fit.fitted.bound(X, 1).mean()) if self.n_init > 1 else 0.0
            if best is None or bound > highest:
                best, highest = (fit, provisional), bound
        assert best is not None  # for the type checker: n_init is at least one
        return best

    def _learn(self, fit: Fit, X: Any, held_out: Any) -> IntArray | None:
        """One phase with provisional labels, if nothing is learnt yet, and one by the bound."""
        n, given, everything, provisional = X.shape[0], None, X, None
        if held_out is not None:
            everything, given = stacked(X, held_out), n + np.arange(held_out.shape[0])
        fraction = min(self.validation_fraction, MOST_VALIDATION_ROWS / n)
        everyone = numbers_of(np.ones(n, dtype=bool), X)
        alike = np.broadcast_to(np.int64(0), n)  # one class, for which no memory is needed
        assignment = assign(fit.fitted.fleet, everyone, alike, Validation(fraction, given=given))
        if isinstance(X, VectorTable):
            assignment = replace(assignment, runs=X.runs(self.n_members))
        if not fit.continued:
            seed = fit.fitted.fleet.members[0].seed
            provisional = self._provisional(X, fit.fitted.scaling, seed)
            rows = fit.rows(X, provisional)
            initialize(fit.fitted.fleet, rows, assignment)
            if self.warm_up:
                warm = replace(assignment, validation=tuple(v[:0] for v in assignment.validation))
                plan = self._plan(n, self.warm_up, "bound")
                self._train(fit, rows, warm, plan, "provisional", stream=0)
            self._place(fit, rows, assignment)
        plan = self._plan(n, self._setting("max_epochs"), "bound")
        self._train(fit, fit.rows(everything), assignment, plan, "bound", stream=1)
        unknown = np.broadcast_to(np.int64(UNLABELLED), everything.shape[0])
        held_out = assignment.held_out(everyone)
        found = fit.fitted.held_out_figures(everything, unknown, held_out)
        ranks = HeldOutRanks.learn(found, len(fit.fitted.fleet), pooled=False)
        fit.fitted = replace(fit.fitted, ranks=ranks)
        # Random labels are no alternative that the clusters could be compared with.
        return provisional if self.initialization == "gaussian-mixture" else None

    def _place(self, fit: Fit, rows: Rows, assignment: Assignment) -> None:
        """Components of every member from a Gaussian mixture of its latents."""
        fixed = fit.fitted.fleet.mixture.component.fixed
        if self.initialization == "gaussian-mixture" and not fixed:
            for member, index in enumerate(assignment.train):
                place_by_latents(fit.fitted.fleet, member, rows, index[:MIXTURE_ROWS])

    def _responsibilities(self, X: Any) -> Iterator[FloatArray]:
        """Of some thousands of rows at a time."""
        for block in blocks_of(X):
            yield np.exp(self.fitted_.score(block).mean_log_proba())

    def _numbered_by_size(self, found: Shares) -> Shares:
        """The largest cluster is number 0; clusters that lost all their rows come last."""
        order = np.argsort(-np.bincount(found.labels, minlength=self.n_components), kind="stable")
        self.fleet_.mixture.reorder(torch.as_tensor(order, device=self.fitted_.device))
        return found.reordered(order)

    def _provisional(self, X: Any, scaling: Scaling, seed: int) -> IntArray:
        """Hard assignments to start from; -1 for outliers.

        Of more than ``MIXTURE_ROWS`` rows so many are looked at; what their mixture says of the
        others, block by block, is their label, unless it says that they are far out.
        """
        n, k = X.shape[0], self.n_components
        if self.initialization == "random":
            return np.asarray(np.random.RandomState(seed).randint(k, size=n))
        some: Any = slice(None)
        if n > MIXTURE_ROWS:
            some = np.sort(np.random.default_rng(seed).choice(n, MIXTURE_ROWS, replace=False))
        observations = scaling.observations(X[some], torch.float64).numpy()
        start, own = StartMixture.learn(observations, k, seed)
        if n <= MIXTURE_ROWS:
            return own
        found, low = np.empty(n, np.int32 if isinstance(X, VectorTable) else np.int64), 0
        for block in blocks_of(X):
            rows = scaling.observations(block, torch.float64).numpy()
            found[low : low + len(rows)] = start.labels(rows)
            low += len(rows)
            tell("looking for a start", low, n)
        return found

    def score(self, X: Any, y: Any = None) -> float:
        """Mean of :meth:`score_samples`, for choosing among models on held-out rows."""
        return float(self.score_samples(X).mean())

    def predict(self, X: Any) -> IntArray:
        """The most responsible component of every row."""
        winners: IntArray = self.predict_log_proba(X).argmax(axis=1).astype(np.int64)
        return winners

    def sample(
        self, n_samples: int = 1, cluster: int | None = None, random_state: Any = None
    ) -> Sample:
        """Draw new observations by the generative story, of one cluster if given."""
        check_is_fitted(self, "fitted_")
        checks.at_least("n_samples", n_samples, 1, integer=True)
        k = self.fleet_.architecture.n_components
        if cluster is not None and not (isinstance(cluster, Integral) and 0 <= cluster < k):
            raise InputError(f"cluster is {cluster!r}; it must be an integer from 0 to {k - 1}")
        codes = None if cluster is None else np.full(n_samples, cluster)
        return self._draw(codes, n_samples, random_state)

    def _values(self) -> dict[str, Any]:
        return {**super()._values(), "labels_": self.labels_.tolist()}

    def _restore(self, values: dict[str, Any]) -> None:
        self.labels_ = np.array(values["labels_"], dtype=np.int64)
        super()._restore(values)


@dataclass(frozen=True)
class StartMixture:
    """A Gaussian mixture of the leading directions of some rows, and the least it says of them."""

    reduction: Any
    mixture: Any
    least: float

    @classmethod
    def learn(cls, observations: FloatArray, k: int, seed: int) -> tuple[Self, IntArray]:
        """The mixture, and the labels of the rows that it was learnt from."""
        from sklearn.decomposition import PCA  # late, as below: a classifier needs none of them
        from sklearn.mixture import GaussianMixture

        reduction = None
        if observations.shape[1] > MIXTURE_DIMENSIONS:
            reduction = PCA(min(MIXTURE_DIMENSIONS, len(observations)), random_state=seed)
            observations = reduction.fit_transform(observations)
        inliers = inlier_mask(observations, k, seed)
        mixture = GaussianMixture(k, n_init=5, reg_covar=1e-4, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a start need not have converged
            mixture.fit(observations[inliers])
        least = float(np.quantile(mixture.score_samples(observations), FAR_OUT))
        labels = np.where(inliers, mixture.predict(observations), UNLABELLED)
        return cls(reduction, mixture, least), labels.astype(np.int64)

    def labels(self, observations: FloatArray) -> IntArray:
        """Of other rows: their cluster, or -1 for those of less density than nine in ten had."""
        if self.reduction is not None:
            observations = self.reduction.transform(observations)
        far = self.mixture.score_samples(observations) < self.least
        return np.where(far, UNLABELLED, self.mixture.predict(observations))


def inlier_mask(X: FloatArray, n_components: int, seed: int) -> NDArray[np.bool_]:
    """Which rows are among the 90 % with the nearest neighbours.

    A Gaussian mixture spends a component on a handful of gross outliers; without the rows
    farthest from their neighbours it cannot, and those get no provisional label: the bound
    decides where they belong. Neighbours are looked for among ``MIXTURE_ROWS`` rows. Too few rows
    to tell: all are kept.
    """
    from sklearn.neighbors import NearestNeighbors

    if len(X) <= NEIGHBOURS * n_components:
        return np.ones(len(X), dtype=bool)
    sample = X[np.random.RandomState(seed).permutation(len(X))[:MIXTURE_ROWS]]
    search = NearestNeighbors(n_neighbors=min(NEIGHBOURS + 1, len(sample))).fit(sample)
    distance = search.kneighbors(X)[0][:, -1]
    return np.asarray(distance <= np.quantile(distance, 1 - FAR_OUT))


def _reseeded(fit: Fit, number: int) -> Fit:
    """Other seeds for every start but the first."""
    fleet = fit.fitted.fleet
    fleet.members = tuple(
        replace(member, seed=(member.seed + number * SEED_STEP) % SEED_RANGE)
        for member in fleet.members
    )
    return fit


# -- components from latents ---------------------------------------------------------------------


class Placed(NamedTuple):
    """Weights (k,), means (k, d) and scale matrices (k, d, d) of components."""

    weights: FloatArray
    means: FloatArray
    spread: FloatArray


@torch.no_grad()
def place_by_latents(fleet: MixtureVAE, member: int, rows: Rows, index: torch.Tensor) -> bool:
    """Place one member's components by its latents, if that raises their evidence; whether it did.

    Rows without a provisional label are left out: a Gaussian is no match for gross outliers.
    """
    alone, k = fleet.select([member]), fleet.architecture.n_components
    index = index[rows.labels[index] != UNLABELLED]
    labels = rows.labels[index].cpu().numpy()
    if len(np.unique(labels)) < k:
        return False
    q = alone.encode(rows.take(index.unsqueeze(0)).inputs)
    before = alone.mixture(q).log_evidence.mean()
    x, variance = (part[0].double().cpu().numpy() for part in (q.mean, q.variance))
    placed = [torch.as_tensor(part).to(q.mean) for part in latent_mixture(x, variance, labels, k)]
    set_components(alone.mixture, 0, *placed)
    if not alone.mixture(q).log_evidence.mean() > before:
        return False
    set_components(fleet.mixture, member, *placed)
    return True


def latent_mixture(x: FloatArray, variance: FloatArray, labels: IntArray, k: int) -> Placed:
    """A Gaussian mixture of latents known up to their variance, started from labels (see above)."""
    from sklearn.mixture import GaussianMixture

    start = np.eye(k)[labels]
    weights = start.mean(axis=0)
    means = start.T @ x / start.sum(axis=0)[:, None]
    residual = x - means[labels]
    within = residual.T @ residual / len(x)
    within += 1e-6 * max(np.diag(within).mean(), 1e-6) * np.eye(x.shape[1])
    mixture = GaussianMixture(
        k,
        weights_init=weights,
        means_init=means,
        precisions_init=np.linalg.inv(_spread(x, start, means, within)),
        reg_covar=0.01 * float(np.diag(within).mean()),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a start need not have converged
        mixture.fit(x)
    shares = mixture.predict_proba(x)
    own = shares.T @ variance / np.maximum(shares.sum(axis=0), 1e-12)[:, None]
    spread = _spread(x, shares, mixture.means_, within) + own[:, :, None] * np.eye(x.shape[1])
    return Placed(mixture.weights_, mixture.means_, spread)


def _spread(x: FloatArray, shares: FloatArray, means: FloatArray, within: FloatArray) -> FloatArray:
    """Covariance of every component, as if D + 1 more rows had the pooled one."""
    more = x.shape[1] + 1
    found = []
    for share, mean in zip(shares.T, means, strict=True):
        residual = x - mean
        total = (share[:, None] * residual).T @ residual
        found.append((total + more * within) / (share.sum() + more))
    return np.stack(found)


# -- clusters that went wrong --------------------------------------------------------------------


@dataclass(frozen=True)
class Shares:
    """The likeliest cluster of each row, and sums over the rows of what clusters have of them."""

    labels: IntArray
    total: FloatArray
    """(k,): the sum of gamma."""
    both: FloatArray
    """(k, k): the sum of the smaller of two."""

    @classmethod
    def of(cls, parts: Iterable[FloatArray]) -> Self:
        """Of responsibilities (n, k), some rows at a time."""
        labels, total, both = list[IntArray](), np.zeros(1), np.zeros((1, 1))
        for gamma in parts:
            labels.append(gamma.argmax(axis=1))
            total = total + gamma.sum(axis=0)
            both = both + np.stack([np.minimum(gamma, own[:, None]).sum(axis=0) for own in gamma.T])
        return cls(np.concatenate(labels), total, both)

    def reordered(self, order: IntArray) -> Self:
        """Number ``order[i]`` becomes number i."""
        place = np.argsort(order)
        return type(self)(place[self.labels], self.total[order], self.both[np.ix_(order, order)])


def warn_of_clusters(found: Shares, provisional: IntArray | None = None) -> None:
    """Warn of clusters without rows, of two on the same rows, and of provisional ones made one."""
    labels, n, k = found.labels, len(found.labels), len(found.total)
    sizes = np.bincount(labels, minlength=k)
    problems = []
    if (sizes == 0).any():
        problems.append(f"{(sizes == 0).sum()} of {k} clusters have no rows")
    for one, two in overlapping(found)[:NAMED]:
        problems.append(f"clusters {one} and {two} lie on the same rows")
    for cluster, several in merged(labels, provisional, k).items():
        problems.append(
            f"cluster {cluster} ({sizes[cluster]} of {n} rows) holds most of {several} clusters of "
            "the mixture that the fit started from"
        )
    if problems:
        warnings.warn(f"{'; '.join(problems)}: {CURE}", ClusterWarning, stacklevel=3)


def overlapping(found: Shares) -> list[tuple[int, int]]:
    r"""Pairs of components on the same rows.

    .. math:: \frac{\sum_n \min(\gamma_{nj}, \gamma_{nk})}
        {\min(\sum_n \gamma_{nj}, \sum_n \gamma_{nk})} > 0.8,

    which is one where both say the same of every row, and zero where they share none. A component
    that is responsible for less than a row is empty, not on the rows of another.

    >>> overlapping(Shares.of([np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])]))
    [(0, 1)]
    """
    fewer = np.minimum(found.total[:, None], found.total)
    same = np.triu((fewer >= 1) & (found.both > SAME * fewer), 1)
    return [(one, two) for one, two in np.argwhere(same).tolist()]


def merged(labels: IntArray, provisional: IntArray | None, k: int) -> dict[int, int]:
    """Clusters that hold most of several provisional ones, and of how many; none without them.

    >>> merged(np.array([0, 0, 0, 0, 1]), np.array([0, 0, 1, 1, 2]), 3)
    {0: 2}
    """
    if provisional is None:
        return {}
    known = provisional != UNLABELLED
    table = np.zeros((k, k), dtype=np.int64)
    np.add.at(table, (provisional[known], labels[known]), 1)
    table = table[table.sum(axis=1) > 0]
    went = table.argmax(axis=1)[table.max(axis=1) >= MOST * table.sum(axis=1)]
    return {int(place): int(n) for place, n in enumerate(np.bincount(went)) if n > 1}
