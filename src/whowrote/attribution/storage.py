"""An attributor in a folder: a manifest in JSON, and safetensors beside it. No pickle, no texts.

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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from whowrote import __version__, persistence
from whowrote.attribution.opening import (
    FORMAT,
    KIND,
    MANIFEST,
    MODEL,
    Arrays,
    read_folder,
    restore,
    sha256_of,
)
from whowrote.errors import InputError
from whowrote.estimators import MixtureVAEClassifier
from whowrote.features import storage as feature_storage

if TYPE_CHECKING:
    from whowrote.attribution.attributor import Attributor

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
            record = persistence.Record(f"{KIND} {name}", {}, arrays)
            persistence.write(draft / f"{name}.safetensors", record)
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
