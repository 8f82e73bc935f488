"""What the classifier and the clusterer share: parameters, training by phases, and answers."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from whowrote import checks
from whowrote.arrays import FloatArray, IntArray
from whowrote.errors import InputError
from whowrote.estimators.fitted_classifier import (
    Decoded,
    Fit,
    FittedClassifier,
    Sample,
    log_mean_exp,
)
from whowrote.estimators.scaling import Scaling, learn_scaling
from whowrote.estimators.vector_table import VectorTable, opened, table_columns
from whowrote.files import ModelFile, read_model_file, write_model_file
from whowrote.model import Architecture, Member, MixtureVAE, Rows, Streams
from whowrote.model.distributions import FAMILIES
from whowrote.model.networks import ACTIVATIONS
from whowrote.model.vae import OBJECTIVES
from whowrote.progress import Told, current_listener, epoch_bar
from whowrote.training import Assignment, Plan, train

SEED_RANGE = 2**31 - 1
SHAPE = ("latent_dim", "hidden", "activation", "n_features", "n_inputs", "n_components")
"""What of an architecture a model that goes on learning cannot change."""


class MixtureVAEBase(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Common ground; see the two public classes for what the parameters mean."""

    fitted_: FittedClassifier
    history_: list[dict[str, Any]]
    n_iter_: int
    converged_: bool
    """Whether early stopping ended the last phase for every member before ``max_epochs``."""
    lower_bound_: float
    """The mean bound of the training rows, weighted as they are, at the state that was kept."""

    def __init__(
        self,
        component: str = "student-t",
        *,
        latent_dim: int | None = None,
        hidden: int | tuple[int, ...] | None = None,
        activation: str = "tanh",
        n_samples: int = 1,
        scale_floor: float = 0.1,
        l1: float = 0.0,
        learning_rate: float | None = None,
        max_epochs: int | None = None,
        batch_size: int | None = None,
        clip_norm: float = 1.0,
        joint_weight: float = 1.0,
        label_weight: float | None = None,
        dropout: float | tuple[float, float] | None = None,
        objective: str = "bound",
        warm_up: int = 0,
        start: str = "logistic",
        initial_df: float = 5.0,
        df_rate: float = 10.0,
        n_members: int = 1,
        validation_fraction: float = 0.1,
        patience: int | None = None,
        average: float = 0.99,
        projection_dim: int = 200,
        device: str = "auto",
        dtype: str = "float32",
        random_state: Any = None,
        verbose: int = 0,
        class_weight: Any = None,
        warm_start: bool = False,
    ) -> None:
        self.component = component
        self.latent_dim, self.hidden, self.activation = latent_dim, hidden, activation
        self.n_samples, self.scale_floor, self.l1 = n_samples, scale_floor, l1
        self.learning_rate, self.max_epochs = learning_rate, max_epochs
        self.batch_size = batch_size
        self.clip_norm = clip_norm
        self.joint_weight, self.label_weight = joint_weight, label_weight
        self.dropout = dropout
        self.objective, self.warm_up = objective, warm_up
        self.start = start
        self.initial_df, self.df_rate = initial_df, df_rate
        self.n_members = n_members
        self.validation_fraction, self.patience = validation_fraction, patience
        self.average, self.projection_dim = average, projection_dim
        self.device, self.dtype = device, dtype
        self.random_state, self.verbose = random_state, verbose
        self.class_weight, self.warm_start = class_weight, warm_start

    # -- parameters ------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        checks.one_of("component", self.component, tuple(FAMILIES))
        checks.one_of("activation", self.activation, tuple(ACTIVATIONS))
        checks.one_of("objective", self.objective, OBJECTIVES)
        checks.one_of("dtype", self.dtype, ("float32", "float64"))
        for name in ("n_samples", "max_epochs", "n_members", "patience", "projection_dim"):
            checks.at_least(name, self._setting(name), 1, integer=True)
        for name in ("latent_dim", "batch_size"):
            if getattr(self, name) is not None:
                checks.at_least(name, getattr(self, name), 1, integer=True)
        checks.at_least("warm_up", self.warm_up, 0, integer=True)
        for name in ("l1", "joint_weight", "label_weight"):
            checks.at_least(name, self._setting(name), 0)
        for name in ("scale_floor", "learning_rate", "clip_norm", "df_rate"):
            checks.above_zero(name, self._setting(name))
        checks.at_least("initial_df", self.initial_df, 2.1)
        checks.fraction("validation_fraction", self.validation_fraction)
        checks.fraction("average", self.average)
        for rate in self._dropout_rates():
            checks.fraction("dropout", rate)
        for width in self._hidden_sizes(2, 2, 2):
            checks.at_least("hidden", width, 1, integer=True)

    def _setting(self, name: str) -> Any:
        """A parameter as it was given, or by rule where it is None."""
        value = getattr(self, name)
        return self._by_rule[name] if value is None else value

    @property
    def _by_rule(self) -> Mapping[str, Any]:
        return {}

    def _dropout_rates(self) -> tuple[float, float]:
        """Rates for inputs and hidden units; one number means both."""
        dropout = self._setting("dropout")
        if isinstance(dropout, (tuple, list)):
            if len(dropout) != 2:
                raise InputError(f"dropout is {dropout!r}; it must be one rate or (input, hidden)")
            return dropout[0], dropout[1]
        return dropout, dropout

    def _latent_dim(self, n: int, k: int, n_features: int) -> int:
        return min(50, n_features) if self.latent_dim is None else int(self.latent_dim)

    def _hidden_sizes(self, n: int, d: int, n_features: int) -> tuple[int, ...]:
        if self.hidden is None:
            return (max(1, (d + n_features) // 2),)
        return tuple(self.hidden) if isinstance(self.hidden, (tuple, list)) else (self.hidden,)

    # Numbers become plain ones on the way in: a grid of parameters brings numpy's along.

    def _architecture(self, n: int, k: int, scaling: Scaling) -> Architecture:
        """The shape of networks and mixture for n rows of k classes."""
        n_features = scaling.n_features
        if FAMILIES[self.component].fixed and (k != 1 or self.scale_floor >= 1):
            raise InputError(
                f"component is {self.component!r} with {k} components and a scale_floor of "
                f"{self.scale_floor:g}; the plain VAE has one component, N(0, I), and a floor "
                "below 1: use MixtureVAEClusterer(n_components=1, component='standard-normal')"
            )
        d = self._latent_dim(n, k, n_features)
        return Architecture(
            n_features=n_features,
            n_components=k,
            latent_dim=d,
            hidden=tuple(int(width) for width in self._hidden_sizes(n, d, n_features)),
            activation=self.activation,
            n_inputs=scaling.n_inputs,
            n_samples=int(self.n_samples),
            objective=self.objective,
        )

    def _members(self, seeds: list[int]) -> list[Member]:
        dropout = self._dropout_rates()
        return [
            Member(
                seed=seed,
                component=self.component,
                learning_rate=float(self._setting("learning_rate")),
                scale_floor=float(self.scale_floor),
                l1=float(self.l1),
                joint_weight=float(self.joint_weight),
                label_weight=float(self._setting("label_weight")),
                input_dropout=float(dropout[0]),
                hidden_dropout=float(dropout[1]),
                initial_df=float(self.initial_df),
                df_rate=float(self.df_rate),
            )
            for seed in seeds
        ]

    def _read(self, X: Any, *, reset: bool) -> Any:
        if isinstance(X := opened(X), VectorTable):
            return table_columns(self, X, reset=reset)
        X = validate_data(
            self,
            X,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_all_finite=False,
            ensure_min_samples=2 if reset else 1,
            reset=reset,
        )
        checks.all_finite(X)
        return X

    # -- training --------------------------------------------------------------------------------

    def _start(self, X: Any, k: int, weights: FloatArray | None = None) -> Fit:
        """Scaling and an untrained fleet, a seed for each member."""
        random = checks.random_numbers(self.random_state)
        seeds = [int(seed) for seed in random.randint(SEED_RANGE, size=self.n_members + 1)]
        scaling = learn_scaling(X, self.projection_dim, seeds.pop(), weights)
        dtype: torch.dtype = getattr(torch, self.dtype)
        fleet = MixtureVAE(self._architecture(X.shape[0], k, scaling), self._members(seeds), dtype)
        fleet.to(checks.choose_device(self.device))
        return Fit(FittedClassifier(fleet, scaling, settings=self._settings()))

    def _continued(self, n: int, k: int) -> Fit:
        """What was learnt before, in a fleet of its own that may be moved without harm to it."""
        fitted = self.fitted_
        members = self._members([member.seed for member in fitted.fleet.members])
        before, shape = fitted.fleet.architecture, self._architecture(n, k, fitted.scaling)
        by_rule = [name for name in ("hidden", "latent_dim") if getattr(self, name) is None]
        shape = replace(shape, **{name: getattr(before, name) for name in by_rule})
        for name, now, then in [
            ("n_members", self.n_members, len(members)),
            ("component", self.component, fitted.component),
            *((name, getattr(shape, name), getattr(before, name)) for name in SHAPE),
        ]:
            if now != then:
                raise InputError(
                    f"{name} is {now!r} but warm_start goes on from a model with {then!r}; set it "
                    "back, or warm_start=False to start anew"
                )
        fleet = MixtureVAE(shape, members, getattr(torch, self.dtype))
        fleet.load_state_dict(dict(fitted.fleet.named_parameters()), strict=False)
        fleet.to(checks.choose_device(self.device))
        history = list(self.history_)
        goes_on = replace(fitted, fleet=fleet, settings=self._settings())
        return Fit(goes_on, history, earlier=len(history), continued=True, sound=True)

    @property
    def _goes_on(self) -> bool:
        return bool(self.warm_start) and hasattr(self, "fitted_")

    def _settings(self) -> dict[str, Any]:
        """The parameters as plain values; a generator object has no place in a file."""
        settings: dict[str, Any] = self.get_params()
        if not isinstance(self.random_state, (int, type(None))):
            settings["random_state"] = None
        if isinstance(settings.get("class_weight"), Mapping):  # JSON knows names of text only
            settings["class_weight"] = [list(pair) for pair in settings["class_weight"].items()]
        return settings

    def _batch_size(self, n: int) -> int:
        return self.batch_size or max(4, min(256, n // 32))

    def _plan(self, n: int, max_epochs: int, watch: str) -> Plan:
        return Plan(
            max_epochs=max_epochs,
            batch_size=self._batch_size(n),
            clip_norm=self.clip_norm,
            patience=self._setting("patience"),
            average=self.average,
            watch=watch,
        )

    def _train(
        self, fit: Fit, rows: Rows, assignment: Assignment, plan: Plan, phase: str, stream: int
    ) -> None:
        """Run one phase and append its records to the history."""
        fleet = fit.fitted.fleet
        seeds = [member.seed + stream + fit.earlier for member in fleet.members]
        with epoch_bar(plan.max_epochs, self.verbose > 0) as show:
            outcome = train(
                fleet,
                rows,
                assignment,
                plan,
                Streams(seeds, fit.fitted.device, fit.fitted.dtype),
                phase=phase,
                trained=fit.sound,
                on_epoch=Told(plan.max_epochs, show, current_listener(), fit.callbacks),
            )
        fit.history += [record.to_dict() for record in outcome.history]
        fit.sound = True
        fit.converged = not outcome.diverged and all(
            max(r.epoch for r in outcome.history if r.member == number) < plan.max_epochs
            for number in range(len(fleet))
        )
        if np.isfinite(outcome.best).any():
            fit.fitted = replace(fit.fitted, leader=int(np.argmin(outcome.best)))

    def _finish(self, fit: Fit, X: Any, weights: FloatArray | None = None) -> None:
        """Take over what was learnt; only now, so that a fit that failed leaves nothing behind."""
        self.fitted_, self.history_, self.converged_ = fit.fitted, fit.history, fit.converged
        own = fit.history[fit.earlier :]
        self.n_iter_ = max((record["epoch"] for record in own), default=0)
        self.lower_bound_ = float(np.average(fit.fitted.bound(X, 1), weights=weights))

    # -- answers ---------------------------------------------------------------------------------

    def _rows(self, X: Any) -> Any:
        """Rows to be answered for, checked against those of ``fit``."""
        check_is_fitted(self, "fitted_")
        return self._read(X, reset=False)

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Ln p(author | o), or ln gamma without labels, (n, K)."""
        X = self._rows(X)
        return self.fitted_.score(X).mean_log_proba()

    def predict_proba(self, X: Any) -> FloatArray:
        """p(author | o), or the responsibilities gamma without labels, (n, K)."""
        return np.exp(self.predict_log_proba(X))

    def transform(self, X: Any) -> FloatArray:
        """Latent means E[q(x | o)] of the leading member, (n, D)."""
        X = self._rows(X)
        return self.fitted_.transform(X)

    def bound(self, X: Any, n_samples: int = 16) -> FloatArray:
        """The evidence lower bound of every row, in the units of X, with that many samples of x.

        For several members: the log-mean-exp of their bounds, which bounds their mixture.
        """
        checks.at_least("n_samples", n_samples, 1, integer=True)
        X = self._rows(X)
        return self.fitted_.bound(X, n_samples)

    def score_samples(self, X: Any, n_samples: int = 64) -> FloatArray:
        """Importance-weighted estimate of ln p(o) of every row, in the units of X.

        ``n_samples`` draws of x; the estimate rises to ln p(o) with their number and is, on
        average, never below the bound.
        """
        checks.at_least("n_samples", n_samples, 1, integer=True)
        X = self._rows(X)
        return self.fitted_.score_samples(X, n_samples)

    def typicality(self, X: Any, calibrated: bool = True) -> FloatArray:
        """P-value of every row under every component, (n, K), mean over members.

        How often that author would write something as unusual as this, by the ranks of rows that
        were held out of the fit (:class:`~whowrote.estimators.fitted_classifier.HeldOutRanks`).
        Small under every author: "none of these". ``calibrated=False`` is theory: for a document
        of author k, delta/D follows F(D, nu_k) (chi-squared for Gaussians) where the model is
        true and q(x | o) sharp, which of a learnt model is seldom so.
        """
        X = self._rows(X)
        return self.fitted_.typicality(X, calibrated)

    def log_densities(self, X: Any) -> FloatArray:
        """Log density of every row's q(x | o) under every component, (n, K), without weights.

        The density of the latent, expected under q; log-mean-exp over members.
        """
        X = self._rows(X)
        return log_mean_exp(self.fitted_.score(X).log_density)

    def expected_scales(self, X: Any) -> FloatArray:
        """E[u] of every row under every component: below one, the model sees an outlier."""
        X = self._rows(X)
        return self.fitted_.expected_scales(X)

    def decode(self, Z: Any) -> Decoded:
        """Mean and standard deviation of the observation given latents of the leading member."""
        check_is_fitted(self, "fitted_")
        return self.fitted_.decode(Z)

    def inverse_transform(self, Z: Any) -> FloatArray:
        """Decoded means; for wide sparse X, mapped back from the projection to its columns."""
        mean = self.decode(Z).mean
        projection = self.fitted_.scaling.projection
        return mean if projection is None else mean @ projection.T

    def _draw(self, codes: IntArray | None, n: int, random_state: Any) -> Sample:
        seed = int(checks.random_numbers(random_state).randint(SEED_RANGE))
        return self.fitted_.sample(codes, n, seed)

    def member(self, index: int) -> Self:
        """One member of the ensemble as a fitted model of its own."""
        check_is_fitted(self, "fitted_")
        alone = copy.copy(self)
        alone.n_members, alone.fitted_ = 1, self.fitted_.member(index)
        return alone

    # -- learnt attributes -----------------------------------------------------------------------

    @property
    def fleet_(self) -> MixtureVAE:
        """The networks and mixtures of all members."""
        return self.fitted_.fleet

    @property
    def leader_(self) -> int:
        """The number of the member with the lowest validation loss."""
        return self.fitted_.leader

    @property
    def weights_(self) -> FloatArray:
        """Mixture weights pi of the leading member, (K,)."""
        return self.fitted_.weights

    @property
    def means_(self) -> FloatArray:
        """Locations mu of the leading member, (K, D)."""
        return self.fitted_.means

    @property
    def scales_(self) -> FloatArray:
        """Scale matrices Sigma of the leading member, (K, D, D); not covariances."""
        return self.fitted_.scales

    @property
    def covariances_(self) -> FloatArray:
        """nu/(nu - 2) Sigma of the leading member, (K, D, D); Sigma of Gaussian components."""
        return self.fitted_.covariances

    @property
    def degrees_of_freedom_(self) -> FloatArray:
        """Learnt nu of the leading member, (K,); infinite for Gaussian components."""
        return self.fitted_.degrees_of_freedom

    @property
    def _n_features_out(self) -> int:
        return self.fleet_.architecture.latent_dim

    # -- files -----------------------------------------------------------------------------------

    def _values(self) -> dict[str, Any]:
        """Plain values of the fitted state beyond the parameters."""
        names = ("n_features_in_", "leader_", "n_iter_", "history_", "converged_", "lower_bound_")
        values = {name: getattr(self, name) for name in names if hasattr(self, name)}
        if hasattr(self, "feature_names_in_"):
            values["feature_names_in_"] = self.feature_names_in_.tolist()
        return values

    def _restore(self, values: dict[str, Any]) -> None:
        """What :meth:`_values` told, as attributes."""
        for name in ("n_features_in_", "n_iter_", "history_", "converged_", "lower_bound_"):
            if name in values:  # files of before have no word on the last two
                setattr(self, name, values[name])
        if "feature_names_in_" in values:
            self.feature_names_in_ = np.array(values["feature_names_in_"], dtype=object)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one safetensors file, atomically."""
        check_is_fitted(self, "fitted_")
        values = {
            **self.fitted_.values(),
            "parameters": self._settings(),  # as they are now: set_params may have changed them
            "state": self._values(),
        }
        write_model_file(path, ModelFile(type(self).__name__, values, self.fitted_.arrays()))

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: str | None = None) -> Self:
        """Read what :meth:`save` wrote; answers are bit-equal on the same kind of device."""
        stored = read_model_file(path, cls.__name__)
        fitted = FittedClassifier.restore(stored, device or stored.values["parameters"]["device"])
        estimator = cls(**fitted.settings)
        if isinstance(fitted.settings.get("class_weight"), tuple):
            estimator.set_params(class_weight=dict(fitted.settings["class_weight"]))
        if device is not None:
            estimator.set_params(device=device)
        estimator.fitted_ = fitted
        estimator._restore(stored.values["state"])
        return estimator

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        if "fitted_" in state:
            state = {**state, "fitted_": state["fitted_"].on(torch.device("cpu"))}
        return state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = []  # latents have the dtype of the model
        return tags


@contextmanager
def all_or_nothing(estimator: object) -> Iterator[None]:
    """A fit that fails, or is stopped by a callback, leaves the estimator as it was."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise
