r"""Clustering: the same model without labels, kept from merging by provisional ones.

For the first ``warm_up`` epochs the hard assignments of a Gaussian mixture fitted to the
observations stand in for labels; then the bound alone decides.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from numbers import Integral
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from whowrote import checks
from whowrote.arrays import FloatArray, IntArray
from whowrote.errors import InputError
from whowrote.estimators.base import MixtureVAEBase, all_or_nothing
from whowrote.estimators.fitted_classifier import Fit, HeldOutRanks, Sample
from whowrote.estimators.scaling import Scaling, stacked
from whowrote.model.fleet import UNLABELLED
from whowrote.training import Assignment, Validation, assign, initialize

INITIALIZATIONS = ("gaussian-mixture", "random")
MIXTURE_DIMENSIONS = 32
MIXTURE_ROWS = 20_000
NEIGHBOURS = 10


class MixtureVAEClusterer(ClusterMixin, MixtureVAEBase):
    """A variational autoencoder with a mixture of ``n_components``, learnt without labels.

    Parameters are those of :class:`MixtureVAEClassifier`, and

    Parameters
    ----------
    n_components : the number K of clusters.
    component : also ``"standard-normal"``: one component, N(0, I), of which nothing is learnt. With
        ``n_components=1`` this is the plain VAE.
    hidden : 64 by default: without labels, a narrow network cannot keep the clusters apart.
    initialization : ``"gaussian-mixture"`` or ``"random"``: where the provisional labels come from.
    warm_up : epochs with provisional labels; 10 to 15 keep the clusters from merging.

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
            checks.one_of("initialization", self.initialization, INITIALIZATIONS)
            X = self._read(X, reset=not self._goes_on)
            n = X.shape[0]
            if n < self.n_components:
                raise InputError(
                    f"n_components is {self.n_components} but X has {n} rows (n_samples={n}); "
                    "every cluster needs a row: lower n_components"
                )
            k = self.n_components
            fit = self._continued(n, k) if self._goes_on else self._start(X, k)
            fit.callbacks = checks.callbacks_of(callbacks)
            more = None if validation is None else self._read(validation, reset=False)
            self._learn(fit, X, more)
            self._finish(fit, X)
            winners = self.fitted_.score(X).mean_log_proba().argmax(axis=1)
            self.labels_ = self._numbered_by_size(winners.astype(np.int64))
        return self

    def _learn(self, fit: Fit, X: Any, held_out: Any) -> None:
        """One phase with provisional labels, if nothing is learnt yet, and one by the bound."""
        n, given, everything = X.shape[0], None, X
        if held_out is not None:
            everything, given = stacked(X, held_out), n + np.arange(held_out.shape[0])
        validation = Validation(self.validation_fraction, given=given)
        assignment = assign(fit.fitted.fleet, np.arange(n), np.zeros(n, dtype=np.int64), validation)
        if not fit.earlier:
            seed = fit.fitted.fleet.members[0].seed
            rows = fit.rows(X, self._provisional(X, fit.fitted.scaling, seed))
            initialize(fit.fitted.fleet, rows, assignment)
            if self.warm_up:
                warm = Assignment(assignment.train, tuple(v[:0] for v in assignment.validation))
                plan = self._plan(n, self.warm_up, "bound")
                self._train(fit, rows, warm, plan, "provisional", stream=0)
        plan = self._plan(n, self._setting("max_epochs"), "bound")
        self._train(fit, fit.rows(everything), assignment, plan, "bound", stream=1)
        unknown = np.full(everything.shape[0], UNLABELLED)
        held_out = assignment.held_out(np.arange(n))
        found = fit.fitted.held_out_figures(everything, unknown, held_out)
        ranks = HeldOutRanks.learn(found, len(fit.fitted.fleet), pooled=False)
        fit.fitted = replace(fit.fitted, ranks=ranks)

    def _numbered_by_size(self, labels: IntArray) -> IntArray:
        """The largest cluster is number 0; clusters that lost all their rows come last."""
        sizes = np.bincount(labels, minlength=self.n_components)
        order = np.argsort(-sizes, kind="stable")
        self.fleet_.mixture.reorder(torch.as_tensor(order, device=self.fitted_.device))
        return np.argsort(order)[labels]

    def _provisional(self, X: Any, scaling: Scaling, seed: int) -> IntArray:
        """Hard assignments to start from; -1 for outliers."""
        if self.initialization == "random":
            random = np.random.RandomState(seed)
            drawn: IntArray = random.randint(self.n_components, size=X.shape[0])
            return drawn
        from sklearn.decomposition import PCA  # late, as below: a classifier needs none of them
        from sklearn.mixture import GaussianMixture

        observations = scaling.observations(X, torch.float64).numpy()
        if observations.shape[1] > MIXTURE_DIMENSIONS:
            width = min(MIXTURE_DIMENSIONS, len(observations))
            observations = PCA(width, random_state=seed).fit_transform(observations)
        inliers = inlier_mask(observations, self.n_components, seed)
        mixture = GaussianMixture(self.n_components, n_init=5, reg_covar=1e-4, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a start need not have converged
            mixture.fit(observations[inliers][:MIXTURE_ROWS])
        return np.where(inliers, mixture.predict(observations), UNLABELLED).astype(np.int64)

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
    return np.asarray(distance <= np.quantile(distance, 0.9))
