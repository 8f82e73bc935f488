"""What the classifier and the clusterer share: parameters, training by phases, and answers."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from whowrote import checks
from whowrote.errors import InputError
from whowrote.estimators.fitted_classifier import (
    FLEET,
    SCALING,
    SEED_RANGE,
    Answers,
    fleet_from,
    scaling_from,
)
from whowrote.estimators.scaling import learn_scaling
from whowrote.files import ModelFile, read_model_file, write_model_file
from whowrote.model import Architecture, Member, MixtureVAE, Rows, Streams
from whowrote.model.networks import ACTIVATIONS
from whowrote.model.vae import OBJECTIVES
from whowrote.progress import EpochLike, Stage, current_listener, epoch_bar
from whowrote.training import Assignment, DivergenceError, Outcome, Plan, initialize, train

LEAST_VALIDATION_ROWS = 20


class MixtureVAEBase(Answers, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Common ground; see the two public classes for what the parameters mean."""

    history_: list[dict[str, Any]]

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
        learning_rate: float = 0.002,
        max_epochs: int = 60,
        batch_size: int | None = None,
        clip_norm: float = 1.0,
        joint_weight: float = 1.0,
        label_weight: float = 100.0,
        dropout: float | tuple[float, float] = (0.2, 0.5),
        objective: str = "bound",
        warm_up: int = 0,
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
    ) -> None:
        self.component = component
        self.latent_dim = latent_dim
        self.hidden = hidden
        self.activation = activation
        self.n_samples = n_samples
        self.scale_floor = scale_floor
        self.l1 = l1
        self.learning_rate = learning_rate
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.clip_norm = clip_norm
        self.joint_weight = joint_weight
        self.label_weight = label_weight
        self.dropout = dropout
        self.objective = objective
        self.warm_up = warm_up
        self.initial_df = initial_df
        self.df_rate = df_rate
        self.n_members = n_members
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.average = average
        self.projection_dim = projection_dim
        self.device = device
        self.dtype = dtype
        self.random_state = random_state
        self.verbose = verbose

    # -- parameters ------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        checks.one_of("component", self.component, ("student-t", "gaussian"))
        checks.one_of("activation", self.activation, tuple(ACTIVATIONS))
        checks.one_of("objective", self.objective, OBJECTIVES)
        checks.one_of("dtype", self.dtype, ("float32", "float64"))
        for name in ("n_samples", "max_epochs", "n_members", "patience", "projection_dim"):
            checks.at_least(name, getattr(self, name), 1, integer=True)
        for name in ("latent_dim", "batch_size"):
            if getattr(self, name) is not None:
                checks.at_least(name, getattr(self, name), 1, integer=True)
        checks.at_least("warm_up", self.warm_up, 0, integer=True)
        for name in ("l1", "joint_weight", "label_weight"):
            checks.at_least(name, getattr(self, name), 0)
        for name in ("scale_floor", "learning_rate", "clip_norm", "df_rate"):
            checks.above_zero(name, getattr(self, name))
        checks.at_least("initial_df", self.initial_df, 2.1)
        checks.fraction("validation_fraction", self.validation_fraction)
        checks.fraction("average", self.average)
        for rate in self._dropout_rates():
            checks.fraction("dropout", rate)
        for width in self._hidden_sizes(2, 2):
            checks.at_least("hidden", width, 1, integer=True)

    def _dropout_rates(self) -> tuple[float, float]:
        """Rates for inputs and hidden units; one number means both."""
        if isinstance(self.dropout, (tuple, list)):
            if len(self.dropout) != 2:
                raise InputError(
                    f"dropout is {self.dropout!r}; it must be one rate or (input, hidden)"
                )
            return self.dropout[0], self.dropout[1]
        return self.dropout, self.dropout

    def _hidden_sizes(self, d: int, n_features: int) -> tuple[int, ...]:
        if self.hidden is None:
            return (max(1, (d + n_features) // 2),)
        return tuple(self.hidden) if isinstance(self.hidden, (tuple, list)) else (self.hidden,)

    # Numbers become plain ones on the way in: a grid of parameters brings numpy's along.

    def _architecture(self, k: int) -> Architecture:
        n_features = self.scaling_.n_features
        d = min(50, n_features) if self.latent_dim is None else int(self.latent_dim)
        return Architecture(
            n_features=n_features,
            n_components=k,
            latent_dim=d,
            hidden=tuple(int(width) for width in self._hidden_sizes(d, n_features)),
            activation=self.activation,
            n_inputs=self.scaling_.n_inputs,
            n_samples=int(self.n_samples),
            objective=self.objective,
        )

    def _members(self, seeds: list[int]) -> list[Member]:
        input_dropout, hidden_dropout = self._dropout_rates()
        return [
            Member(
                seed=seed,
                component=self.component,
                learning_rate=float(self.learning_rate),
                scale_floor=float(self.scale_floor),
                l1=float(self.l1),
                joint_weight=float(self.joint_weight),
                label_weight=float(self.label_weight),
                input_dropout=float(input_dropout),
                hidden_dropout=float(hidden_dropout),
                initial_df=float(self.initial_df),
                df_rate=float(self.df_rate),
            )
            for seed in seeds
        ]

    def _read(self, X: Any, *, reset: bool) -> Any:
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

    def _start(self, X: Any, k: int) -> list[int]:
        """Scaling and an untrained fleet; returns one seed per member."""
        random = check_random_state(self.random_state)
        seeds = [int(seed) for seed in random.randint(SEED_RANGE, size=self.n_members + 1)]
        self.scaling_ = learn_scaling(X, self.projection_dim, seeds.pop())
        self.fleet_ = MixtureVAE(self._architecture(k), self._members(seeds))
        self.fleet_.to(checks.device_named(self.device), getattr(torch, self.dtype))
        self.history_ = []
        return seeds

    def _assign(
        self,
        candidates: NDArray[np.int64],
        labels: NDArray[np.int64],
        folds: NDArray[np.int64] | None = None,
    ) -> Assignment:
        """Each member's own validation part of the candidate rows: stratified, or its fold."""
        train_parts, validation_parts = [], []
        smallest = 0
        if folds is not None:
            smallest = np.bincount(folds[candidates], minlength=len(self.fleet_)).min()
        for number, member in enumerate(self.fleet_.members):
            if folds is None:
                chosen = validation_part(
                    candidates, labels[candidates], self.validation_fraction, member.seed
                )
            else:
                chosen = candidates[folds[candidates] == number]
            rest = candidates[~np.isin(candidates, chosen)]
            np.random.RandomState(member.seed).shuffle(rest)
            if folds is not None:  # members step together: shorter parts repeat some rows
                rest = np.resize(rest, len(candidates) - smallest)
            watched = chosen if len(chosen) >= LEAST_VALIDATION_ROWS else chosen[:0]
            train_parts.append(torch.as_tensor(rest, device=self._device))
            validation_parts.append(torch.as_tensor(watched, device=self._device))
        return Assignment(tuple(train_parts), tuple(validation_parts))

    def _plan(self, n: int, max_epochs: int, watch: str) -> Plan:
        return Plan(
            max_epochs=max_epochs,
            batch_size=self.batch_size or max(4, min(256, n // 32)),
            clip_norm=self.clip_norm,
            patience=self.patience,
            average=self.average,
            watch=watch,
        )

    def _initialize(self, rows: Rows, assignment: Assignment) -> None:
        initialize(self.fleet_, rows, assignment)

    def _train(
        self, rows: Rows, assignment: Assignment, plan: Plan, phase: str, stream: int
    ) -> Outcome:
        """Run one phase and append its records to the history."""
        seeds = [member.seed + stream for member in self.fleet_.members]
        streams = Streams(seeds, self._device, self._torch_dtype)
        trained = bool(self.history_)
        try:
            with epoch_bar(plan.max_epochs, self.verbose > 0) as show:
                outcome = train(
                    self.fleet_,
                    rows,
                    assignment,
                    plan,
                    streams,
                    phase=phase,
                    trained=trained,
                    on_epoch=partial(_told, plan.max_epochs, show, current_listener()),
                )
        except DivergenceError:
            del self.fleet_  # nothing was learnt: the estimator stays unfitted
            raise
        self.history_ += [record.to_dict() for record in outcome.history]
        if np.isfinite(outcome.best).any():
            self.leader_ = int(np.argmin(outcome.best))
        self.n_iter_ = max(record["epoch"] for record in self.history_)
        return outcome

    @property
    def _n_features_out(self) -> int:
        return self.fleet_.architecture.latent_dim

    def member(self, index: int) -> Self:
        """One member of the ensemble as a fitted model of its own."""
        check_is_fitted(self, "fleet_")
        alone = copy.copy(self)
        alone.n_members = 1
        alone.fleet_, alone.leader_ = self.fleet_.select([index]), 0
        return alone

    # -- persistence -----------------------------------------------------------------------------

    def _values(self) -> dict[str, Any]:
        """Plain values of the fitted state beyond the parameters."""
        names = ("n_features_in_", "leader_", "n_iter_", "history_")
        values = {name: getattr(self, name) for name in names}
        if hasattr(self, "feature_names_in_"):
            values["feature_names_in_"] = self.feature_names_in_.tolist()
        return values

    def _restore(self, values: dict[str, Any]) -> None:
        if "feature_names_in_" in values:
            values["feature_names_in_"] = np.array(values["feature_names_in_"], dtype=object)
        for name, value in values.items():
            setattr(self, name, value)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one safetensors file, atomically."""
        check_is_fitted(self, "fleet_")
        parameters = self.get_params()
        if not isinstance(parameters["random_state"], (int, type(None))):
            parameters["random_state"] = None  # a generator object has no place in a file
        # As fitted: set_params may have changed the parameters since.
        values = {
            "parameters": parameters,
            "state": self._values(),
            "architecture": asdict(self.fleet_.architecture),
            "members": [asdict(member) for member in self.fleet_.members],
        }
        arrays = {f"{FLEET}{k}": v.cpu().numpy() for k, v in self.fleet_.state_dict().items()}
        arrays |= {f"{SCALING}{name}": array for name, array in self.scaling_.state().items()}
        write_model_file(path, ModelFile(type(self).__name__, values, arrays))

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: str | None = None) -> Self:
        """Read what :meth:`save` wrote; answers are bit-equal on the same kind of device."""
        record = read_model_file(path, cls.__name__)
        parameters: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v
            for k, v in record.values["parameters"].items()
        }
        estimator = cls(**parameters)
        if device is not None:
            estimator.set_params(device=device)
        estimator.scaling_ = scaling_from(record)
        estimator.fleet_ = fleet_from(record).to(checks.device_named(estimator.device))
        estimator._restore(record.values["state"])
        return estimator

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        if "fleet_" in state and state["fleet_"].mixture.loc.device.type != "cpu":
            fleet = state["fleet_"]
            state = {**state, "fleet_": fleet.select(range(len(fleet))).cpu()}
        return state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = []  # latents have the dtype of the model
        return tags


def _told(
    total: int,
    show: Callable[[EpochLike], None] | None,
    listener: Callable[[Stage], None] | None,
    record: EpochLike,
) -> None:
    """Pass an epoch's record on to whoever wants it; members may train in threads of their own."""
    if listener is not None:
        listener(Stage("learning the authors", record.epoch, total))
    if show is not None:
        show(record)


def validation_part(
    candidates: NDArray[np.int64], labels: NDArray[np.int64], fraction: float, seed: int
) -> NDArray[np.int64]:
    """A stratified part of the candidates; empty when it would be too small to steer by."""
    random = np.random.RandomState(seed)
    chosen = []
    for label in np.unique(labels):
        own = candidates[labels == label]
        size = min(round(fraction * len(own)), len(own) - 1)  # someone has to be learnt from
        chosen.append(random.permutation(own)[:size])
    part = np.concatenate(chosen)
    return part if len(part) >= LEAST_VALIDATION_ROWS else part[:0]
