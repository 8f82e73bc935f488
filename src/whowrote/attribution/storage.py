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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from whowrote import __version__, persistence
from whowrote.attribution.profiles import Profiles, blocks
from whowrote.attribution.reading import Reader
from whowrote.attribution.roll import Enrolled
from whowrote.attribution.verification import Verifier
from whowrote.calibration import Calibration
from whowrote.contrasts import Contrasts
from whowrote.errors import InputError
from whowrote.estimators import MixtureVAEClassifier
from whowrote.features import storage as feature_storage
from whowrote.features.interface import views

if TYPE_CHECKING:
    from whowrote.attribution.attributor import Attributor

FORMAT = 1
KIND = "Attributor"
MANIFEST = "manifest.json"
ENTRIES = (
    *("id", "version", "settings", "authors", "log_share", "calibration", "verifier"),
    *("features", "files"),
)
Arrays = Mapping[str, NDArray[Any]]
Made = TypeVar("Made", bound="Attributor")


def fingerprint(attributor: Attributor) -> str:
    """SHA-256 over everything learnt: equal models have equal fingerprints, wherever they lie.

    Limit and prior are no part of it: they may change, and every answer names them.
    """
    values = {name: value for name, value in _values(attributor).items() if name != "settings"}
    digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode())
    state = attributor.model_.fleet_.state_dict()
    arrays = {name: tensor.cpu().numpy() for name, tensor in state.items()}
    for part in (*_parts(attributor).values(), arrays):
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
        attributor.model_.save(draft / "model.safetensors")
        for name, source in feature_storage.store(attributor.reader_.features).files.items():
            shutil.copyfile(source, draft / name)
        files = {
            file.name: {"bytes": file.stat().st_size, "sha256": _sha256(file)}
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


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
        if not (path / name).is_file() or _sha256(path / name) != about["sha256"]:
            raise InputError(
                f"'{path / name}' is missing or is not what was saved; copy the whole folder "
                "again, or train the model again"
            )


def load(kind: type[Made], path: Path) -> Made:
    """Put an attributor together again."""
    manifest = read_manifest(path)
    check_files(path, manifest)
    parts = {
        name: persistence.read(path / f"{name}.safetensors", f"{KIND} {name}").arrays
        for name in ("features", "training", "contrasts", "profiles")
        if f"{name}.safetensors" in manifest["files"]
    }
    features = feature_storage.restore(manifest["features"], parts.get("features", {}), path)
    contrasts = None
    if "contrasts" in parts:
        contrasts = Contrasts(views(features)).restore(parts["contrasts"])
    model = MixtureVAEClassifier.load(path / "model.safetensors")
    attributor = kind(features, model, **manifest["settings"])
    attributor.model_ = model
    attributor.reader_ = Reader(features, contrasts, attributor.passage_words)
    columns = list(blocks(features).values())
    attributor.profiles_ = Profiles.restore(columns, parts["profiles"])
    attributor.authors_ = tuple(Enrolled(**author) for author in manifest["authors"])
    attributor.log_share_ = np.array(manifest["log_share"])
    attributor.calibration_ = Calibration.from_dict(manifest["calibration"])
    about = manifest["verifier"]
    attributor.verifier_ = (
        None if about is None else Verifier(**{**about, "weights": tuple(about["weights"])})
    )
    attributor.training_sha256_ = tuple(row.tobytes().hex() for row in parts["training"]["sha256"])
    attributor.training_latents_ = parts["training"]["latents"]
    attributor.training_codes_ = parts["training"]["codes"]
    attributor.id_ = manifest["id"]
    return attributor
