"""A model folder read back: its manifest, its files, and somebody who answers with them.

:mod:`whowrote.attribution.storage` writes such folders, and reads one into an attributor that can
learn again. To answer takes less: no scikit-learn, which would take longer than the answer.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from whowrote import __version__
from whowrote.arrays import Arrays
from whowrote.attribution.answers import Enrolled
from whowrote.attribution.calibration import Calibration
from whowrote.attribution.contrasts import Contrasts
from whowrote.attribution.fitted_attributor import Answering
from whowrote.attribution.profiles import Profiles, blocks
from whowrote.attribution.rows import Reader
from whowrote.attribution.verification import Verifier
from whowrote.errors import InputError
from whowrote.estimators import MixtureVAEClassifier
from whowrote.estimators.fitted_classifier import Answers, FittedClassifier
from whowrote.features import feature_storage as feature_storage
from whowrote.features.fitted_features import restore_fitted
from whowrote.features.interface import ReadsTexts, views
from whowrote.files import ModelFile, read_model_file, sha256_of, write_model_file

if TYPE_CHECKING:
    from whowrote.attribution.attributor import Attributor

FORMAT = 1
KIND = "Attributor"
MANIFEST = "manifest.json"
ENTRIES = (
    *("id", "version", "settings", "authors", "log_share", "calibration", "verifier"),
    *("features", "files"),
)
PARTS = ("features", "training", "contrasts", "profiles")
MODEL = "model.safetensors"


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
        name: read_model_file(path / f"{name}.safetensors", f"{KIND} {name}").arrays
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


# DOC """An attributor in a folder: a manifest in JSON, and safetensors beside it. No pickle, no texts.
# DOC
# DOC ===================== ==========================================================================
# DOC manifest.json         settings, authors, calibration, and the hash of every other file
# DOC features.safetensors  what the features learnt: hashes of n-grams and how rare they are
# DOC extractor.safetensors the weights of the neural extractor
# DOC contrasts.safetensors the linear maps of sparse features
# DOC profiles.safetensors  the mean row of every author
# DOC model.safetensors     the autoencoder
# DOC training.safetensors  SHA-256 of the training texts, to recognise one, and where they lie
# DOC ===================== ==========================================================================
# DOC """

Made = TypeVar("Made", bound="Attributor")


def fingerprint(attributor: Attributor) -> str:
    """SHA-256 over everything learnt: equal models have equal fingerprints, wherever they lie.

    Limit and prior are no part of it: they may change, and every answer names them.
    """
    values = {name: value for name, value in _values(attributor).items() if name != "settings"}
    digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode())
    state = attributor.model_.fleet_.state_dict()
    arrays = {name: tensor.cpu().numpy() for name, tensor in state.items()}
    for part in (*_parts(attributor).values(), arrays, attributor.model_.scaling_.state()):
        for name in sorted(part):
            digest.update(name.encode() + np.ascontiguousarray(part[name]).tobytes())
    for path in feature_storage.store(attributor.reader_.features).files.values():
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _parts(attributor: Attributor) -> dict[str, Arrays]:
    """Arrays by the name of their file."""
    hashes = [np.frombuffer(bytes.fromhex(one), np.uint8) for one in attributor.training_sha256_]
    parts: dict[str, Arrays] = {
        "features": feature_storage.store(attributor.reader_.features).arrays,
        "training": {
            "sha256": np.stack(hashes),
            "latents": attributor.training_latents_,
            "codes": attributor.training_codes_,
        },
        "profiles": attributor.profiles_.state(),
    }
    if attributor.reader_.contrasts is not None:
        parts["contrasts"] = attributor.reader_.contrasts.state()
    return {name: arrays for name, arrays in parts.items() if arrays}


def _values(attributor: Attributor) -> dict[str, Any]:
    """Plain values of the fitted state."""
    verifier = attributor.verifier_
    return {
        "settings": {
            "passage_words": attributor.reader_.words,
            "none_below": float(attributor.none_below),
            "prior": attributor.prior,
            "random_state": int(attributor.random_state),
        },
        "authors": [asdict(author) for author in attributor.authors_],
        "log_share": attributor.log_share_.tolist(),
        "calibration": attributor.calibration_.to_dict(),
        "verifier": None if verifier is None else verifier.to_dict(),
        "features": dict(feature_storage.store(attributor.reader_.features).values),
    }


def save(attributor: Attributor, path: Path, *, overwrite: bool = False) -> Path:
    """Write the folder beside its place, then put it there in one step."""
    check_place(path, overwrite)
    with _folder_in_one_step(path) as draft:
        for name, arrays in _parts(attributor).items():
            record = ModelFile(f"{KIND} {name}", {}, arrays)
            write_model_file(draft / f"{name}.safetensors", record)
        attributor.model_.save(draft / MODEL)
        for name, source in feature_storage.store(attributor.reader_.features).files.items():
            shutil.copyfile(source, draft / name)
        files = {
            file.name: {"bytes": file.stat().st_size, "sha256": sha256_of(file)}
            for file in sorted(draft.iterdir())
        }
        manifest = {
            "format": FORMAT,
            "kind": KIND,
            "version": __version__,
            "id": attributor.id_,
            **_values(attributor),
            "files": files,
        }
        text = json.dumps(manifest, indent=1, sort_keys=True, ensure_ascii=False)
        (draft / MANIFEST).write_text(text + "\n", encoding="utf-8")
    return path


def check_place(path: Path, overwrite: bool) -> None:
    """Whether a model may be written here; if not, a sentence on why."""
    if path.is_file():
        raise InputError(f"'{path}' is a file; a model is a folder: give another name")
    if path.is_dir() and any(path.iterdir()):
        if not (path / MANIFEST).is_file():
            raise InputError(
                f"'{path}' is a folder with other things in it; a model needs one of its own: "
                "give another name"
            )
        if not overwrite:
            raise InputError(
                f"'{path}' holds a model already, which is not written over unasked: give another "
                "name, or overwrite=True (--overwrite)"
            )


@contextmanager
def _folder_in_one_step(path: Path) -> Iterator[Path]:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        yield draft
        draft.chmod(0o755)
        if path.is_dir():
            old = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
            os.replace(path, old / "old")
            try:
                os.replace(draft, path)
            except OSError:
                os.replace(old / "old", path)
                raise
            finally:
                shutil.rmtree(old)
        else:
            os.replace(draft, path)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def load(kind: type[Made], path: Path) -> Made:
    """Put an attributor together again."""
    folder = read_folder(path)
    stored = folder.manifest["features"], folder.parts.get("features", {})
    features = feature_storage.restore(*stored, path)
    model = MixtureVAEClassifier.load(path / MODEL)
    attributor = kind(features, model, **folder.manifest["settings"])
    restore(attributor, folder, features, model)
    return attributor
