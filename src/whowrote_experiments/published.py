"""The published evaluation, unit by unit: what is missing is fitted, what is there is not.

    part of a protocol -> units (method, size, D) -> one file of records each

A run that is killed goes on in the unit in flight where the sweep keeps its records, and loses that
unit otherwise. Files of several runs, from several computers, lie in one folder and are read
together, or packed into one file.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from whowrote.corpus.splits import Split, folds
from whowrote.corpus.texts import load
from whowrote.errors import InputError
from whowrote.files import canonical_hash
from whowrote.sweep import Record, read_vectors, sweep
from whowrote.sweep.data import checked_data
from whowrote_experiments import trials as files
from whowrote_experiments.choice import best_fits
from whowrote_experiments.ensembles import ensemble_records
from whowrote_experiments.protocol import Method, Part, Protocol, Unit, units
from whowrote_experiments.svms import Material, svm_records
from whowrote_experiments.trials import Trials


@dataclass(frozen=True)
class Step:
    """A unit that is about to be fitted or was found."""

    number: int
    of: int
    label: str
    found: bool


Report = Callable[[Step], None]


def load_material(
    corpus: str, vectors: str | os.PathLike[str], texts: str | os.PathLike[str] | None = None
) -> Material:
    """Read vectors and, for n-grams, the texts that they are of."""
    data = read_vectors(vectors)
    found = None
    if texts is not None:
        corpus_texts, known = load(texts), set(map(str, data.y))
        rows = [row for row, name in enumerate(corpus_texts.authors) if str(name) in known]
        kept = corpus_texts.subset(rows)
        if list(map(str, kept.authors)) != list(map(str, data.y)):
            raise InputError(
                f"the authors of '{texts}' are not those of '{vectors}', text by text; embed that "
                "very corpus"
            )
        found = kept.texts
    return Material(corpus, data.X, data.y, checked_data(data.X, data.y).hash, found)


def run(
    protocol: Protocol,
    material: Material,
    out: str | os.PathLike[str],
    part: Part | None = None,
    *,
    device: str = "auto",
    workers: int = 1,
    report: Report = lambda step: None,
) -> Trials:
    """Fit what is missing of a part of the protocol, and return all trials in the folder."""
    asked = units(protocol, part or Part())
    whole = folds(material.y.tolist(), n_folds=protocol.folds, random_state=protocol.seed)
    expected = protocol.expected()
    for number, unit in enumerate(asked, 1):
        path = (
            Path(out) / f"{protocol.corpus}-{unit.label}-{_mark(unit, material, protocol)}.parquet"
        )
        report(Step(number, len(asked), unit.label, path.is_file()))
        if path.is_file():
            continue
        splits = {fold: whole[fold].fraction(unit.share) for fold in unit.folds}
        folder = path.with_suffix(".records")
        if unit.ensembles:
            made = _ensembles(unit, material, splits, out, device)
        elif unit.method.kind == "vae":
            made = _sweep(unit, material, splits, protocol, device, folder)
        else:
            made = svm_records(unit, material, splits, workers)
        files.write(Trials(tuple(made), expected), path)
        shutil.rmtree(folder, ignore_errors=True)
    return files.read(out)


def _mark(unit: Unit, material: Material, protocol: Protocol) -> str:
    """A short hash of everything that decides a unit's trials."""
    method = {name: _listed(value) for name, value in vars(unit.method).items()}
    if not method["plan"]:  # as before there was one: what is there is not fitted again
        del method["plan"]
    values = [method, unit.share, list(unit.folds), unit.dimension, unit.ensembles]
    rest = [protocol.folds, protocol.seed, list(protocol.sizes), material.hash]
    return canonical_hash([*values, *rest])[:10]


def _listed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _listed(own) for name, own in value.items()}
    return list(value) if isinstance(value, tuple) else value


# -- autoencoders --------------------------------------------------------------------------------


def _sweep(
    unit: Unit,
    material: Material,
    splits: Mapping[int, Split],
    protocol: Protocol,
    device: str,
    folder: Path,
) -> list[Record]:
    """All points of a D on all folds, as fleets, through the public sweep."""
    method = unit.method
    results = sweep(
        grid_of(method, unit, protocol),
        material.X,
        material.y,
        {(fold, unit.share): split for fold, split in splits.items()},
        out=folder,
        seeds=tuple(method.seeds),
        watch=method.watch,
        plan=method.plan,
        device=device,
    )
    return [
        replace(
            record,
            configuration={"kind": "vae", **record.configuration},
            method=method.name,
            corpus=material.corpus,
        )
        for record in results
    ]


def grid_of(method: Method, unit: Unit, protocol: Protocol) -> dict[str, Any]:
    """The grid of a unit as the sweep reads it: a tuple is one value, a list several."""
    grid = {name: [_value(one) for one in values] for name, values in method.grid.items()}
    fixed = {name: [_value(value)] for name, value in method.fixed.items()}
    epochs = method.epochs[list(protocol.sizes).index(unit.share)]
    dimension = {} if unit.dimension is None else {"latent_dim": [unit.dimension]}
    return {**fixed, **grid, **dimension, "max_epochs": [epochs]}


def _value(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _ensembles(
    unit: Unit,
    material: Material,
    splits: Mapping[int, Split],
    out: str | os.PathLike[str],
    device: str,
) -> list[Record]:
    """Ensembles of what every fold has chosen among its single fits, by development error."""
    single = [
        row.candidate()
        for row in files.read(out).rows
        if (row.method, row.share) == (unit.method.name, unit.share)
        and row.fold in splits
        and row.data == material.hash
        and "n_members" not in row.configuration
    ]
    best = best_fits(single, lambda candidate: candidate.fold)
    missing = sorted(set(splits) - {int(str(fold)) for fold in best})
    if missing:
        raise InputError(
            f"fold {missing[0]} has no single fit of {unit.method.name!r} at size {unit.share:g} "
            f"in '{out}'; put the files of all parts there first"
        )
    chosen = {int(str(fold)): single[number].settings for fold, number in best.items()}
    return ensemble_records(unit, material, splits, chosen, device)
