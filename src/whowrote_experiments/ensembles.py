r"""Ensembles of the chosen configuration: several seeds on one split, probabilities averaged.

.. math:: p(k \mid o) = \frac1M \sum_{m=1}^{M} \gamma^{(m)}_k(o)

Every fold and training size has chosen a configuration on its own development rows; its members
differ in their seed alone, stop early by the same development rows, and train as one fleet with
those of all other folds. A small ensemble is the beginning of a large one.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from whowrote import checks
from whowrote.arrays import IntArray
from whowrote.corpus.splits import Split
from whowrote.sweep.data import Dataset, Part, Stage, checked_data, checked_parts
from whowrote.sweep.groups import PROTOCOL, Task, Trained, grouped, train_group, versions
from whowrote.sweep.records import Divergence, Fit, Record, rounded
from whowrote_experiments.protocol import Unit
from whowrote_experiments.svms import Material

CHUNK = 2048
NOT_PARAMETERS = ("kind", "protocol", "n_members")


@dataclass(frozen=True)
class HeldOutProbabilities:
    """Those of one member for the held-out rows of its split, and how it was trained."""

    development: NDArray[np.float64]
    test: NDArray[np.float64]
    df: NDArray[np.float64]
    epochs: int


def ensemble_records(
    unit: Unit,
    material: Material,
    splits: Mapping[int, Split],
    chosen: Mapping[int, Mapping[str, Any]],
    device: str = "auto",
) -> list[Record]:
    """Train the members of every fold's chosen settings and score ensembles of every size."""
    data, where = checked_data(material.X, material.y), checks.choose_device(device)
    parts = checked_parts({(fold, unit.share): splits[fold] for fold in chosen}, data)
    watched = {"watch": unit.method.watch, "dtype": "float32"}
    protocol = {**PROTOCOL, **unit.method.plan, **watched}
    tasks = [
        Task(Fit(_parameters(chosen[part.fold]), protocol, part.hash, data.hash, seed), part)
        for part in parts
        for seed in range(max(unit.method.members))
    ]
    stage = Stage(data, where, torch.float32)
    members: dict[int, list[HeldOutProbabilities]] = defaultdict(list)
    for group in grouped(tasks, data, where, None):
        made = train_group(group, stage)
        for number, task in enumerate(group.tasks):
            if made.histories[number].usable:
                members[task.part.fold].append(_probabilities(made, number))
    records = (
        _record(part, size, members[part.fold], data, chosen[part.fold])
        for part in parts
        for size in unit.method.members
        if members[part.fold]
    )
    labels: dict[str, Any] = {"method": unit.method.name, "corpus": material.corpus}
    return [replace(one, **labels, versions=versions(where)) for one in records]


def _parameters(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in NOT_PARAMETERS}


@torch.no_grad()
def _probabilities(made: Trained, number: int) -> HeldOutProbabilities:
    place, alone = made.places[number], made.fleet.select([number])
    found = []
    with alone.mixture.factored():
        for index in (place.development, place.test):
            parts = [
                alone.scores(made.rows.take(rows[None]).inputs).log_responsibilities[0]
                for rows in torch.split(index, CHUNK)
            ]
            found.append(torch.cat([part.double().exp() for part in parts]).cpu().numpy())
    df = alone.mixture.df[0].double().cpu().numpy()
    return HeldOutProbabilities(found[0], found[1], df, len(made.histories[number].epochs))


def _record(
    part: Part,
    size: int,
    trained: Sequence[HeldOutProbabilities],
    data: Dataset,
    settings: Mapping[str, Any],
) -> Record:
    """The record of the first ``size`` members; fewer, where some have no usable state."""
    split, members = part.split, trained[:size]
    development, test, df = (
        np.mean([getattr(one, name) for one in members], axis=0)
        for name in ("development", "test", "df")
    )
    labels = data.labels[list(split.development)]
    epochs = round(float(np.mean([one.epochs for one in members])))
    return Record(
        configuration={"kind": "vae", **_parameters(settings), "n_members": size},
        protocol=dict(settings["protocol"]),
        split=part.hash,
        data=data.hash,
        seed=0,
        **part.labels,
        development_error=_error(development, labels),
        development_log_loss=_log_loss(development[np.arange(len(labels)), labels]),
        test_error=_error(test, data.labels[list(split.test)]),
        test_log_loss=None,
        df=rounded(df) if settings["component"] == "student-t" else None,
        epochs=epochs,
        best_epoch=None,
        seconds=0.0,
        diverged=Divergence(epochs, "member") if len(members) < size else None,
        versions={},
    )


def _error(probabilities: NDArray[np.float64], labels: IntArray) -> float:
    return float((probabilities.argmax(axis=1) != labels).mean())


def _log_loss(likelihood: NDArray[np.float64]) -> float | None:
    with np.errstate(divide="ignore"):
        loss = float(-np.log(likelihood).mean())
    return loss if math.isfinite(loss) else None
