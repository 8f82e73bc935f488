"""A fitted attributor in a folder: a manifest in JSON, safetensors beside it. No pickle, no texts.

===================== ==========================================================================
manifest.json         settings, authors, calibration, and the hash of every other file
features.safetensors  what the features learnt: hashes of n-grams and how rare they are
extractor.safetensors the weights of the neural extractor
contrasts.safetensors the linear maps of sparse features
profiles.safetensors  the mean row of every author
model.safetensors     the autoencoder
training.safetensors  SHA-256 of the training texts, to recognise one, and where they lie
===================== ==========================================================================
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from whowrote import __version__
from whowrote.arrays import Arrays
from whowrote.attribution.answers import Enrolled
from whowrote.attribution.calibration import Calibration
from whowrote.attribution.contrasts import Contrasts
from whowrote.attribution.fitted_attributor import FittedAttributor, TrainingTexts
from whowrote.attribution.profiles import Profiles
from whowrote.attribution.rows import Reader
from whowrote.attribution.verification import restore_verifier
from whowrote.errors import InputError
from whowrote.estimators.fitted_classifier import FittedClassifier
from whowrote.features.fitted_features import restore_features
from whowrote.features.interface import FittedFeatures
from whowrote.files import ModelFile, read_model_file, sha256_of, write_model_file

FORMAT = 1
KIND = "Attributor"
MANIFEST = "manifest.json"
ENTRIES = (
    *("id", "version", "settings", "authors", "log_share", "calibration", "verifier"),
    *("features", "files"),
)
PARTS = ("features", "training", "contrasts", "profiles")
MODEL = "model.safetensors"


# -- writing -------------------------------------------------------------------------------------


def fingerprint(fitted: FittedAttributor) -> str:
    """SHA-256 over everything learnt: equal models have equal fingerprints, wherever they lie.

    Limit and prior are no part of it: they may change, and every answer names them.
    """
    values = {name: value for name, value in _values(fitted).items() if name != "settings"}
    digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode())
    state = fitted.model.fleet.state_dict()
    arrays = {name: tensor.cpu().numpy() for name, tensor in state.items()}
    for part in (*_parts(fitted).values(), arrays, fitted.model.scaling.state()):
        for name in sorted(part):
            digest.update(name.encode() + np.ascontiguousarray(part[name]).tobytes())
    for path in fitted.reader.features.stored().files.values():
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _parts(fitted: FittedAttributor) -> dict[str, Arrays]:
    """Arrays by the name of their file."""
    training = fitted.training
    hashes = [np.frombuffer(bytes.fromhex(one), np.uint8) for one in training.sha256]
    parts: dict[str, Arrays] = {
        "features": fitted.reader.features.stored().arrays,
        "training": {
            "sha256": np.stack(hashes),
            "latents": training.latents,
            "codes": training.codes,
        },
        "profiles": fitted.profiles.state(),
    }
    if fitted.reader.contrasts is not None:
        parts["contrasts"] = fitted.reader.contrasts.state()
    return {name: arrays for name, arrays in parts.items() if arrays}


def _values(fitted: FittedAttributor) -> dict[str, Any]:
    """Plain values of what was learnt."""
    return {
        "settings": {
            "passage_words": fitted.reader.words,
            "none_below": fitted.none_below,
            "false_attributions": fitted.false_attributions,
            "prior": fitted.prior,
            "random_state": int(fitted.random_state),
        },
        "authors": [asdict(author) for author in fitted.authors],
        "log_share": fitted.log_share.tolist(),
        "calibration": fitted.calibration.to_dict(),
        "verifier": None if fitted.verifier is None else fitted.verifier.to_dict(),
        "features": dict(fitted.reader.features.stored().values),
    }


def save(fitted: FittedAttributor, path: Path, *, overwrite: bool = False) -> Path:
    """Write the folder beside its place, then put it there in one step."""
    check_place(path, overwrite)
    with _folder_in_one_step(path) as draft:
        for name, arrays in _parts(fitted).items():
            write_model_file(draft / f"{name}.safetensors", ModelFile(f"{KIND} {name}", {}, arrays))
        fitted.model.save(draft / MODEL)
        for name, source in fitted.reader.features.stored().files.items():
            shutil.copyfile(source, draft / name)
        files = {
            file.name: {"bytes": file.stat().st_size, "sha256": sha256_of(file)}
            for file in sorted(draft.iterdir())
        }
        manifest = {
            "format": FORMAT,
            "kind": KIND,
            "version": __version__,
            "id": fitted.id,
            **_values(fitted),
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


# -- reading -------------------------------------------------------------------------------------


def load(path: Path) -> FittedAttributor:
    """Read what :func:`save` wrote, with every file checked; the answers are equal."""
    manifest = read_manifest(path)
    check_files(path, manifest)
    parts = {
        name: read_model_file(path / f"{name}.safetensors", f"{KIND} {name}").arrays
        for name in PARTS
        if f"{name}.safetensors" in manifest["files"]
    }
    features = restore_features(manifest["features"], parts.get("features", {}), path)
    settings = manifest["settings"]
    return FittedAttributor(
        authors=tuple(Enrolled(**author) for author in manifest["authors"]),
        reader=_reader(features, parts, settings["passage_words"]),
        model=FittedClassifier.load(path / MODEL),
        log_share=np.array(manifest["log_share"]),
        profiles=Profiles.restore(list(features.blocks().values()), parts["profiles"]),
        calibration=Calibration.from_dict(manifest["calibration"]),
        verifier=restore_verifier(manifest["verifier"], len(manifest["authors"])),
        training=_training(parts["training"]),
        none_below=settings["none_below"],
        prior=settings["prior"],
        false_attributions=settings.get("false_attributions", 0.05),
        random_state=settings["random_state"],
        id=manifest["id"],
    )


def _reader(features: FittedFeatures, parts: Mapping[str, Arrays], words: int) -> Reader:
    contrasts = None
    if "contrasts" in parts:
        stored = parts["contrasts"]
        views = features.views() if "weights.1" in stored else [slice(0, None)]
        contrasts = Contrasts(views).restore(stored)
    return Reader(features, contrasts, words)


def _training(arrays: Arrays) -> TrainingTexts:
    hashes = tuple(row.tobytes().hex() for row in arrays["sha256"])
    return TrainingTexts(hashes, arrays["latents"], arrays["codes"])


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
