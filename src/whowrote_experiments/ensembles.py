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
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from whowrote import checks
from whowrote.corpus.splits import Split
from whowrote.sweep.data import Dataset, Part, Stage, checked_data, checked_parts
from whowrote.sweep.groups import PROTOCOL, Task, Trained, grouped, train_group, versions
from whowrote.sweep.results import Fit
from whowrote_experiments.protocol import Unit
from whowrote_experiments.svms import Material
from whowrote_experiments.trials import Trial, canonical

CHUNK = 2048
NOT_PARAMETERS = ("kind", "protocol", "n_members")


@dataclass(frozen=True)
class Voice:
    """What one member says of the held-out rows of its split."""

    development: NDArray[np.float64]
    test: NDArray[np.float64]
    df: NDArray[np.float64]
    epochs: int


def ensemble_trials(
    unit: Unit,
    material: Material,
    splits: Mapping[int, Split],
    chosen: Mapping[int, Mapping[str, Any]],
    device: str = "auto",
) -> list[Trial]:
    """Train the members of every fold's chosen settings and score ensembles of every size."""
    data, where = checked_data(material.X, material.y), checks.device_named(device)
    parts = checked_parts({(fold, unit.share): splits[fold] for fold in chosen}, data)
    protocol = {**PROTOCOL, "watch": unit.method.watch, "dtype": "float32"}
    tasks = [
        Task(Fit(_parameters(chosen[part.fold]), protocol, part.hash, data.hash, seed), part)
        for part in parts
        for seed in range(max(unit.method.members))
    ]
    stage = Stage(data, where, torch.float32)
    voices: dict[int, list[Voice]] = defaultdict(list)
    for group in grouped(tasks, data, where, None):
        made = train_group(group, stage)
        for number, task in enumerate(group.tasks):
            if made.courses[number].usable:
                voices[task.part.fold].append(_voice(made, number))
    made_with = canonical(versions(where))
    return [
        _trial(unit, part, size, voices[part.fold], data, chosen[part.fold], material, made_with)
        for part in parts
        for size in unit.method.members
        if voices[part.fold]
    ]


def _parameters(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in NOT_PARAMETERS}


@torch.no_grad()
def _voice(made: Trained, number: int) -> Voice:
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
    return Voice(found[0], found[1], df, len(made.courses[number].epochs))


def _trial(
    unit: Unit,
    part: Part,
    size: int,
    voices: Sequence[Voice],
    data: Dataset,
    settings: Mapping[str, Any],
    material: Material,
    made_with: str,
) -> Trial:
    split, heard = part.split, voices[:size]
    development = np.mean([voice.development for voice in heard], axis=0)
    labels = data.labels[list(split.development)]
    likelihood = development[np.arange(len(labels)), labels]
    heavy = settings["component"] == "student-t"
    return Trial(
        method=unit.method.name,
        corpus=material.corpus,
        configuration=canonical({**settings, "n_members": size}),
        fold=part.fold,
        share=part.share,
        seed=0,
        split=part.hash,
        data=data.hash,
        n_train=len(split.train),
        n_development=len(split.development),
        development_error=_error(development, labels),
        development_log_loss=_log_loss(likelihood),
        n_test=len(split.test),
        test_error=_error(
            np.mean([voice.test for voice in heard], axis=0), data.labels[list(split.test)]
        ),
        df=tuple(np.mean([voice.df for voice in heard], axis=0).tolist()) if heavy else None,
        epochs=round(float(np.mean([voice.epochs for voice in heard]))),
        seconds=0.0,
        diverged=len(heard) < size,
        versions=made_with,
    )


def _error(probabilities: NDArray[np.float64], labels: NDArray[np.int64]) -> float:
    return float((probabilities.argmax(axis=1) != labels).mean())


def _log_loss(likelihood: NDArray[np.float64]) -> float | None:
    with np.errstate(divide="ignore"):
        loss = float(-np.log(likelihood).mean())
    return loss if math.isfinite(loss) else None
