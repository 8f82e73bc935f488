"""A fitted attributor in a folder: a manifest in JSON, safetensors beside it. No pickle, no texts.

===================== ==========================================================================
manifest.json         settings, authors, calibration, the hash of every other file and its own
features.safetensors  what the features learnt: hashes of n-grams and how rare they are
extractor.safetensors the weights of the neural extractor
contrasts.safetensors the linear maps of sparse features
profiles.safetensors  the mean row of every author
model.safetensors     the autoencoder
training.safetensors  SHA-256 of the training texts, to recognise one, and where they lie
directory.safetensors of very many authors: a row of numbers for each, in place of the last four
===================== ==========================================================================
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whowrote import __version__
from whowrote.arrays import Arrays
from whowrote.attribution.answers import Enrolled
from whowrote.attribution.calibration import Calibration, HeldOut
from whowrote.attribution.contrasts import Contrasts
from whowrote.attribution.directory import Cells, Concentrations, Directory, Grams
from whowrote.attribution.fitted_attributor import FittedAttributor, TrainingTexts
from whowrote.attribution.manifest import (
    DIRECTORY,
    FILES,
    KIND,
    MANY,
    MODEL,
    OWN_HASH,
    PARTS,
    Manifest,
    StoredFile,
    as_text,
    check_files,
    check_many,
    holds_model,
    learnt_hash,
    learnt_of,
)
from whowrote.attribution.manifest import MANIFEST as MANIFEST
from whowrote.attribution.manifest import holds_many as holds_many
from whowrote.attribution.manifest import read_manifest as read_manifest
from whowrote.attribution.manifest import read_many as read_many
from whowrote.attribution.many_authors import ManyAuthors
from whowrote.attribution.profiles import Profiles
from whowrote.attribution.rows import Reader
from whowrote.attribution.verification import (
    restore_verifier,
)
from whowrote.drafts import PROBE_BYTES, draft_folder, former_of, put, resolved, strangers, sync
from whowrote.errors import InputError, first_line
from whowrote.estimators.fitted_classifier import FLEET, SCALING, FittedClassifier
from whowrote.estimators.fitted_classifier import KINDS as CLASSIFIERS
from whowrote.estimators.stored_fleet import require_finite
from whowrote.features.fitted_features import WEIGHTS, FittedHybrid, restore_features
from whowrote.features.interface import FittedFeatures, Stored
from whowrote.files import (
    ModelFile,
    below,
    bytes_of,
    canonical_hash,
    read_model_file,
    sha256_of,
    write_model_file,
)

# -- writing -------------------------------------------------------------------------------------


def fingerprint(fitted: FittedAttributor, copied: Path | None = None) -> str:
    """SHA-256 over everything learnt: equal models have equal fingerprints, wherever they lie.

    Limit and prior are no part of it: they may change, and every answer names them. ``copied`` is
    the folder that its files have been copied into.
    """
    state = fitted.model.fleet.state_dict()
    fleet = {name: tensor.cpu().numpy() for name, tensor in state.items()}
    arrays = (*_parts(fitted).values(), fleet, fitted.model.scaling.state())
    files = fitted.reader.features.stored().files
    paths = files.values() if copied is None else [copied / name for name in files]
    return learnt_hash(learnt_of(fitted), arrays, paths)


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


def save(fitted: FittedAttributor, path: Path, *, overwrite: bool = False) -> Path:
    """Write the folder beside its place, then put it there in one step."""
    with new_folder(path, overwrite=overwrite) as draft:
        write(fitted, draft)
    return path


def write(fitted: FittedAttributor, folder: Path) -> None:
    """Write every file of a model into an empty folder, the manifest last."""
    for name, arrays in _parts(fitted).items():
        write_model_file(folder / f"{name}.safetensors", ModelFile(f"{KIND} {name}", {}, arrays))
    fitted.model.save(folder / MODEL)
    _copy_files(fitted.reader.features.stored(), folder)
    files = {
        file.name: StoredFile(file.stat().st_size, sha256_of(file))
        for file in sorted(folder.iterdir())
    }
    # Anew: the id of a model from a folder of before is of what its values were called then.
    text = Manifest.of(replace(fitted, id=fingerprint(fitted, folder)), files).text()
    (folder / MANIFEST).write_text(text, encoding="utf-8", newline="\n")
    sync(folder / MANIFEST)


def _copy_files(stored: Stored, folder: Path) -> None:
    """Copy what features keep in files, which must be what they have read with."""
    for name, source in stored.files.items():
        data = bytes_of(source)
        if hashlib.sha256(data).hexdigest() != stored.hashes[name]:
            raise InputError(
                f"'{source}' was changed while the model was made; run the command again"
            )
        (folder / name).write_bytes(data)
        sync(folder / name)


@contextmanager
def new_folder(path: Path, *, overwrite: bool) -> Iterator[Path]:
    """An empty folder to write a model into; it is put in its place when all went well.

    Begin before the work: whether it can be written there is known then, and nobody else can write
    there meanwhile.
    """
    target = resolved(path)
    check_place(target, overwrite)
    with draft_folder(target, is_ours) as draft:
        check_place(target, overwrite)  # once more, for another process may just have written it
        probe = draft / MANIFEST
        probe.write_bytes(bytes(PROBE_BYTES))
        sync(probe)
        probe.unlink()
        yield draft
        check_place(target, overwrite)
        put(draft, target, is_ours)


def is_ours(name: str) -> bool:
    """Whether a file of that name belongs into a model folder."""
    return name == MANIFEST or name in FILES


def check_place(path: Path, overwrite: bool) -> None:
    """Whether a model may be written here; if not, a sentence on why."""
    if path.is_dir():
        if any(path.iterdir()):
            _check_folder(path, overwrite)
    elif path.exists():
        raise InputError(f"'{path}' is a file; a model is a folder: give another name")


def _check_folder(path: Path, overwrite: bool) -> None:
    if not holds_model(path):
        raise InputError(
            f"'{path}' is a folder with other things in it; a model needs one of its own: "
            "give another name"
        )
    if not overwrite:
        raise InputError(
            f"'{path}' holds a model already, which is not written over unasked: give another "
            "name, or overwrite=True (--overwrite)"
        )
    others = strangers(path, is_ours)
    if others:
        raise InputError(
            f"'{path}' holds '{others[0]}' beside a model; what is not of whowrote's making is not "
            "removed: take it away, or give another name"
        )


# -- reading -------------------------------------------------------------------------------------


def load(path: Path, encoder: str | None = None) -> FittedAttributor:
    """Read what :func:`save` wrote, with every file checked; the answers are equal.

    A sentence encoder that the folder names is loaded only if ``encoder`` names it too.
    """
    if not path.exists() and former_of(resolved(path)).is_dir():
        raise InputError(
            f"there is no model at '{path}'; a process died while it was replaced, and the former "
            f"one lies in '{former_of(resolved(path))}': rename it"
        )
    manifest = read_manifest(path)
    check_files(path, manifest.files)
    with _going_together(path):
        return _restored(path, manifest, encoder)


@contextmanager
def _going_together(path: Path) -> Iterator[None]:
    """What parts that do not fit each other raise, as a sentence."""
    try:
        yield
    except InputError:
        raise
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as problem:
        raise InputError(
            f"the parts of '{path}' do not go together ({first_line(problem)}); train the model "
            "again"
        ) from None


def _restored(path: Path, manifest: Manifest, encoder: str | None) -> FittedAttributor:
    parts = {
        name: _part(path, f"{name}.safetensors", manifest.files, f"{KIND} {name}").arrays
        for name in PARTS
        if f"{name}.safetensors" in manifest.files
    }
    model = _part(path, MODEL, manifest.files, *CLASSIFIERS)
    _check_id(path, manifest, parts, model)
    learnt, settings, authors = manifest.learnt, manifest.settings, len(manifest.authors)
    features = restore_features(
        learnt["features"], parts.get("features", {}), path, encoder, _weights(manifest.files)
    )
    _check_arrays(features, parts, authors)
    classifier = FittedClassifier.restore(model, "auto")
    if classifier.n_components != authors:
        raise InputError(
            f"'{path}' names {authors} authors and its mixture has {classifier.n_components} "
            "components; train the model again"
        )
    return FittedAttributor(
        authors=manifest.authors,
        reader=replace(
            _reader(features, parts, settings.passage_words), normalise=settings.normalise
        ),
        model=classifier,
        log_share=np.array(learnt["log_share"]),
        profiles=Profiles.restore(list(features.blocks().values()), parts["profiles"]),
        calibration=Calibration.from_dict(learnt["calibration"]),
        verifier=restore_verifier(learnt["verifier"], authors),
        training=_training(parts["training"]),
        none_below=settings.none_below,
        prior=settings.prior,
        false_attributions=settings.false_attributions,
        random_state=settings.random_state,
        id=manifest.id,
    )


def _part(path: Path, name: str, files: Mapping[str, StoredFile], *kinds: str) -> ModelFile:
    """A file of the folder, whose bytes are those that the manifest names."""
    return read_model_file(path / name, *kinds, sha256=files[name].sha256)


def _weights(files: Mapping[str, StoredFile]) -> str | None:
    """What the weights of an extractor must have, whenever they are read."""
    return files[WEIGHTS].sha256 if WEIGHTS in files else None


def _check_id(
    path: Path, manifest: Manifest, parts: Mapping[str, Arrays], model: ModelFile
) -> None:
    """The id is that of what lies there: no name or number was exchanged under it."""
    weights = [path / WEIGHTS] if WEIGHTS in manifest.files else []
    dense = manifest.learnt["features"].get("dense", manifest.learnt["features"])
    if bool(weights) != (dense["kind"] in ("adhominem", "style")):
        raise InputError(
            f"'{path}' has weights of an extractor and features that use none, or the other way "
            "round; train the model again"
        )
    order = ("features", "training", "profiles", "contrasts")
    own = [parts[name] for name in order if name in parts]
    arrays = (*own, below(FLEET, model.arrays), below(SCALING, model.arrays))
    if learnt_hash(manifest.learnt, arrays, weights) != manifest.id:
        raise InputError(
            f"'{path}' is not the model whose id it bears ({manifest.id[:16]}): something that was "
            "learnt has been changed; copy the whole folder again, or train the model again"
        )


def _check_arrays(features: FittedFeatures, parts: Mapping[str, Arrays], authors: int) -> None:
    """Shapes and values on which an answer would stumble otherwise."""
    training, profiles = parts["training"], parts["profiles"]
    texts = len(training["sha256"])
    shapes = {"sha256": (texts, 32), "codes": (texts,), "latents": (texts, -1)}
    for number in range(len(features.blocks())):
        shapes |= {f"means.{number}": (authors, -1), f"lengths.{number}": (authors,)}
        if f"shifts.{number}" in profiles:
            shapes[f"shifts.{number}"] = profiles[f"means.{number}"].shape[1:]
    for name, shape in shapes.items():
        _check_shape(name, (training if name in training else profiles)[name], shape)
    codes = training["codes"]
    if training["sha256"].dtype != np.uint8 or codes.dtype.kind != "i":
        raise InputError("the hashes of the training texts are no hashes; train the model again")
    if texts and not (codes.min() >= 0 and codes.max() < authors):
        raise InputError("a training text is by nobody of the model; train the model again")
    contrasts = parts.get("contrasts", {})
    for name, array in contrasts.items():
        known = contrasts.get(name.replace("weights", "bias"), array).shape[-1]
        _check_shape(name, array, (-1, known) if name.startswith("weights") else (known,))
        if known > authors:
            raise InputError(f"{name!r} is of {known} authors and the model has {authors}")


def _check_shape(name: str, array: NDArray[np.generic], shape: tuple[int, ...]) -> None:
    """Require finite numbers in a shape; -1 is any length."""
    pairs = zip(array.shape, shape, strict=False)
    if len(array.shape) != len(shape) or any(m not in (n, -1) for n, m in pairs):
        raise InputError(f"the shape of {name!r} is {array.shape}; it must be {shape} (-1: any)")
    require_finite(name, array)


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


# -- very many authors ---------------------------------------------------------------------------


def write_many(fitted: ManyAuthors, folder: Path) -> None:
    """Write every file of a model of very many authors into an empty folder, the manifest last."""
    stored, directory = fitted.features.stored(), fitted.directory
    parts = {
        "features": ("features.safetensors", stored.arrays),
        "directory": (DIRECTORY, {**directory.arrays(), "sha256": fitted.training}),
    }
    for name, (file, arrays) in parts.items():
        write_model_file(folder / file, ModelFile(f"{MANY} {name}", {}, arrays))
    _copy_files(stored, folder)
    text = as_text(_many_manifest(fitted, folder, stored.values))
    (folder / MANIFEST).write_text(text, encoding="utf-8", newline="\n")
    sync(folder / MANIFEST)


def _many_manifest(
    fitted: ManyAuthors, folder: Path, features: Mapping[str, Any]
) -> dict[str, Any]:
    files = {
        file.name: {"bytes": file.stat().st_size, "sha256": sha256_of(file)}
        for file in sorted(folder.iterdir())
    }
    cells, verifier = fitted.directory.cells, fitted.verifier
    learnt = {
        "authors": [[one.name, one.texts, one.words] for one in fitted.authors],
        "features": dict(features),
        "shared": asdict(fitted.directory.shared),
        "own": fitted.own.tolist(),
        "strangers": fitted.strangers.tolist(),
        "held_out": asdict(fitted.held_out),
        "verifier": None if verifier is None else verifier.to_dict(),
        "width": fitted.directory.grams.width,
        "cells": None if cells is None else {"probes": cells.probes, "recall": cells.recall},
    }
    plain: dict[str, Any] = {
        "format": 1,
        "kind": MANY,
        "version": __version__,
        "id": canonical_hash({"learnt": learnt, "files": files}),
        "settings": {
            "false_attributions": fitted.false_attributions,
            "none_below": fitted.none_below,
            "random_state": fitted.random_state,
        },
        "learnt": learnt,
        "files": files,
    }
    plain[OWN_HASH] = canonical_hash(plain)
    try:
        check_many(plain)
    except (InputError, ValueError) as problem:
        raise InputError(f"the model cannot be saved: {first_line(problem)}") from None
    return plain


def load_many(path: Path) -> ManyAuthors:
    """Read what :func:`write_many` wrote, with every file checked; the answers are equal."""
    plain = read_many(path)
    files = {name: StoredFile(**one) for name, one in plain["files"].items()}
    check_files(path, files)
    learnt = plain["learnt"]
    if canonical_hash({"learnt": learnt, "files": plain["files"]}) != plain["id"]:
        raise InputError(
            f"'{path}' is not the model whose id it bears ({plain['id'][:16]}): something that was "
            "learnt has been changed; copy the whole folder again, or train the model again"
        )
    with _going_together(path):
        return _many(path, plain, files)


def _many(path: Path, plain: Mapping[str, Any], files: Mapping[str, StoredFile]) -> ManyAuthors:
    learnt = plain["learnt"]
    arrays, grams = (
        _part(path, file, files, f"{MANY} {name}").arrays
        for file, name in ((DIRECTORY, "directory"), ("features.safetensors", "features"))
    )
    features = restore_features(learnt["features"], grams, path, None, _weights(files))
    if not isinstance(features, FittedHybrid):
        raise InputError(f"'{path}' has features without n-grams; train the model again")
    authors = tuple(Enrolled(name, texts, texts, words) for name, texts, words in learnt["authors"])
    _check_directory(arrays, len(authors), features, learnt)
    cells = learnt["cells"] and Cells(arrays["centers"], arrays["cell"], **learnt["cells"])
    return ManyAuthors(
        authors=authors,
        features=features,
        directory=Directory(
            arrays["rows"],
            Grams(arrays["columns"], arrays["weights"], learnt["width"]),
            arrays["near"],
            cells,
            Concentrations(**learnt["shared"]),
        ),
        own=np.array(learnt["own"]),
        strangers=np.array(learnt["strangers"]),
        held_out=HeldOut(**learnt["held_out"]),
        verifier=restore_verifier(learnt["verifier"], len(authors)),
        training=arrays["sha256"],
        id=plain["id"],
        **plain["settings"],
    )


def _check_directory(
    arrays: Arrays, authors: int, features: FittedHybrid, learnt: Mapping[str, Any]
) -> None:
    """Shapes and values on which an answer would stumble otherwise."""
    dimensions, width = len(features.mean), learnt["width"]
    shapes: dict[str, tuple[int, ...]] = {
        "rows": (authors, dimensions),
        "near": (authors,),
        "columns": (authors, -1),
        "weights": (authors, arrays["columns"].shape[-1]),
        "sha256": (-1, 32),
    }
    if learnt["cells"] is not None:
        shapes |= {"centers": (-1, dimensions), "cell": (authors,)}
    for name, shape in shapes.items():
        _check_shape(name, arrays[name], shape)
    known = sum(len(block.keys) for block in features.ngrams.grams)
    limits = {"columns": width} | ({"cell": len(arrays["centers"])} if learnt["cells"] else {})
    for name, limit in limits.items():
        values = arrays[name]
        if values.dtype != np.int32 or values.min() < 0 or values.max() >= limit:
            raise InputError(f"{name!r} has numbers of none of {limit}; train the model again")
    if known != width:
        raise InputError(f"{known} n-grams are known and the authors have {width}")
