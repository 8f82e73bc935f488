"""A model folder read back: its manifest, its files, and somebody who answers with them.

:mod:`whowrote.attribution.storage` writes such folders, and reads one into an attributor that can
learn again. To answer takes less: no scikit-learn, which would take longer than the answer.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whowrote import persistence
from whowrote.attribution.answers import Answering
from whowrote.attribution.profiles import Profiles, blocks
from whowrote.attribution.reading import Reader
from whowrote.attribution.roll import Enrolled
from whowrote.attribution.verification import Verifier
from whowrote.calibration import Calibration
from whowrote.contrasts import Contrasts
from whowrote.errors import InputError
from whowrote.estimators.answers import Answers
from whowrote.estimators.fitted import FittedClassifier
from whowrote.features.fitted import restore_fitted
from whowrote.features.interface import ReadsTexts, views

FORMAT = 1
KIND = "Attributor"
MANIFEST = "manifest.json"
ENTRIES = (
    *("id", "version", "settings", "authors", "log_share", "calibration", "verifier"),
    *("features", "files"),
)
PARTS = ("features", "training", "contrasts", "profiles")
MODEL = "model.safetensors"

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Folder:
    """A model folder: where it is, its manifest, and the arrays of its files by their names."""

    path: Path
    manifest: dict[str, Any]
    parts: Mapping[str, Arrays]


def read_folder(path: Path) -> Folder:
    """Read everything but the model and the extractor, with every file checked."""
    manifest = read_manifest(path)
    check_files(path, manifest)
    parts = {
        name: persistence.read(path / f"{name}.safetensors", f"{KIND} {name}").arrays
        for name in PARTS
        if f"{name}.safetensors" in manifest["files"]
    }
    return Folder(path, manifest, parts)


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of a model folder; every way in which it may be wrong has its own sentence."""
    place = path / MANIFEST
    if not place.is_file():
        raise InputError(
            f"there is no model at '{path}' (no {MANIFEST} in it); give the folder that "
            "`whowrote train` or save() wrote"
        )
    try:
        manifest: dict[str, Any] = json.loads(place.read_text(encoding="utf-8"))
        found = manifest["format"], manifest["kind"]
    except (ValueError, KeyError, TypeError):
        raise InputError(f"'{place}' is damaged; train the model again") from None
    if found != (FORMAT, KIND):
        raise InputError(
            f"'{path}' has model format {found[0]} ({found[1]}, written by whowrote "
            f"{manifest.get('version')}), this version reads {FORMAT}; train it again or change "
            "versions"
        )
    missing = [entry for entry in ENTRIES if entry not in manifest]
    if missing:
        raise InputError(f"'{place}' is damaged (no {missing[0]}); train the model again")
    return manifest


def check_files(path: Path, manifest: dict[str, Any]) -> None:
    """Whether every file is there and is what was saved; if not, a sentence on which."""
    for name, about in manifest["files"].items():
        if not (path / name).is_file() or sha256_of(path / name) != about["sha256"]:
            raise InputError(
                f"'{path / name}' is missing or is not what was saved; copy the whole folder "
                "again, or train the model again"
            )


def sha256_of(path: Path) -> str:
    """The hash of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def restore(answering: Answering, folder: Folder, features: ReadsTexts, model: Answers) -> None:
    """Give somebody who answers everything that was learnt."""
    manifest, parts = folder.manifest, folder.parts
    contrasts = None
    if "contrasts" in parts:
        contrasts = Contrasts(views(features)).restore(parts["contrasts"])
    answering.model_ = model
    answering.reader_ = Reader(features, contrasts, manifest["settings"]["passage_words"])
    answering.profiles_ = Profiles.restore(list(blocks(features).values()), parts["profiles"])
    answering.authors_ = tuple(Enrolled(**author) for author in manifest["authors"])
    answering.log_share_ = np.array(manifest["log_share"])
    answering.calibration_ = Calibration.from_dict(manifest["calibration"])
    about = manifest["verifier"]
    answering.verifier_ = (
        None if about is None else Verifier(**{**about, "weights": tuple(about["weights"])})
    )
    training = parts["training"]
    answering.training_sha256_ = tuple(row.tobytes().hex() for row in training["sha256"])
    answering.training_latents_ = training["latents"]
    answering.training_codes_ = training["codes"]
    answering.id_ = manifest["id"]


class Opened(Answering):
    """A model opened to answer: what an ``Attributor`` says, without what it learns with."""

    def __init__(self, path: Path) -> None:
        folder = read_folder(path)
        settings, about = folder.manifest["settings"], folder.manifest["features"]
        self.none_below, self.prior = settings["none_below"], settings["prior"]
        self._kind = str(about["kind"])
        features = restore_fitted(about, folder.parts.get("features", {}), path)
        restore(self, folder, features, FittedClassifier.load(path / MODEL))

    def _features_name(self) -> str:
        return self._kind
