"""The state of a training run on disk: shards, and a manifest that is swapped in last.

A reader sees either the former state or the new one, never half of each: shards carry their step in
their names and count only once ``checkpoint.json`` names them. A :class:`Store` holds the same at a
URL, for a run that may go on on another machine.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whowrote.arrays import Arrays
from whowrote.errors import InputError, first_line
from whowrote.files import (
    ModelFile,
    atomic_path,
    bytes_of,
    read_model_file,
    sha256_of,
    write_model_file,
    write_text,
)

KIND = "extractor checkpoint"
MANIFEST = "checkpoint.json"
DIGEST = "digest"
SHARD_BYTES = 15_000_000


@dataclass(frozen=True)
class Checkpoint:
    """Plain values and arrays by name."""

    values: Mapping[str, Any]
    arrays: Arrays


def shards(arrays: Arrays, limit: int = SHARD_BYTES) -> Iterator[dict[str, NDArray[Any]]]:
    """Arrays in groups of at most ``limit`` bytes; a larger one is cut along its rows.

    >>> [sorted(shard) for shard in shards({"a": np.zeros(4), "b": np.zeros(9)}, limit=64)]
    [['a'], ['b#0'], ['b#1']]
    """
    group: dict[str, NDArray[Any]] = {}
    size = 0
    for name, array in _pieces(arrays, limit):
        if group and size + array.nbytes > limit:
            yield group
            group, size = {}, 0
        group[name] = array
        size += array.nbytes
    if group:
        yield group


def _pieces(arrays: Arrays, limit: int) -> Iterator[tuple[str, NDArray[Any]]]:
    for name, array in arrays.items():
        if array.nbytes <= limit or array.ndim == 0:
            yield name, array
            continue
        rows = max(1, limit * len(array) // array.nbytes)
        for number, low in enumerate(range(0, len(array), rows)):
            yield f"{name}#{number}", array[low : low + rows]


def write_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write a state; the former one goes only when the new one is whole."""
    step = checkpoint.values["step"]
    names = []
    for number, arrays in enumerate(shards(checkpoint.arrays)):
        names.append(f"checkpoint-{step}-{number}.safetensors")
        write_model_file(folder / names[-1], ModelFile(KIND, {"step": step}, arrays))
    hashes = {name: sha256_of(folder / name) for name in names}
    manifest = {**checkpoint.values, "shards": hashes}
    manifest[DIGEST] = _digest(manifest)
    write_text(folder / MANIFEST, json.dumps(manifest) + "\n")
    for file in folder.glob("checkpoint-*.safetensors"):
        if file.name not in names:
            file.unlink()


def read_checkpoint(folder: Path) -> Checkpoint | None:
    """The last whole state; None where there is none."""
    path = folder / MANIFEST
    if not path.is_file():
        return None
    try:
        values = json.loads(bytes_of(path))
        digest = values.pop(DIGEST, None)  # those of earlier versions have none
        if digest is not None and digest != _digest(values):
            raise ValueError("its hash is another")
        listed = values.pop("shards")
        hashes = dict(listed) if isinstance(listed, dict) else dict.fromkeys(listed)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError(
            f"'{path}' is damaged or was edited; take the folder '{folder}' away to start anew"
        ) from None
    arrays: dict[str, NDArray[Any]] = {}
    for name, digest in hashes.items():
        shard = folder / name
        if digest is not None and shard.is_file() and sha256_of(shard) != digest:
            raise InputError(
                f"'{shard}' is damaged or was edited; take the folder '{folder}' away to start anew"
            )
        arrays |= read_model_file(shard, KIND, sha256=digest).arrays
    return Checkpoint(values, _joined(arrays))


def _digest(values: Mapping[str, Any]) -> str:
    """The hash of everything that a manifest says; a best figure may still be minus infinity."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _joined(arrays: Arrays) -> dict[str, NDArray[Any]]:
    whole = {name: array for name, array in arrays.items() if "#" not in name}
    cut: dict[str, dict[int, NDArray[Any]]] = {}
    for name, array in arrays.items():
        if "#" in name:
            stem, number = name.rsplit("#", 1)
            cut.setdefault(stem, {})[int(number)] = array
    return whole | {n: np.concatenate([p[i] for i in sorted(p)]) for n, p in cut.items()}


# -- the same at a URL -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Store:
    """The files of a run at a URL of fsspec: ``s3://bucket/run``, ``file:///shared/run``."""

    url: str

    @contextmanager
    def _opened(self) -> Iterator[tuple[Any, str]]:
        """The file system and the folder in it; what goes wrong there is a sentence."""
        import fsspec  # late, and with torch: a run without a store has no use for it

        try:
            system, folder = fsspec.core.url_to_fs(self.url)
            system.makedirs(folder, exist_ok=True)
            yield system, folder.rstrip("/")
        except (ImportError, OSError, ValueError) as problem:
            raise InputError(
                f"checkpoints at '{self.url}' cannot be reached ({first_line(problem)}); give a "
                "URL that fsspec reads and that may be written to, such as s3://bucket/run"
            ) from None

    def keep(self, out: Path, others: Iterable[str] = ()) -> None:
        """Send the state in a folder, its manifest last; ``others`` are files that go with it."""
        shards = list(json.loads((out / MANIFEST).read_text(encoding="utf-8"))["shards"])
        with self._opened() as (system, folder):
            for name in [*shards, *others, MANIFEST]:  # renamed: never half of a file by its name
                system.put_file(str(out / name), f"{folder}/{name}.part")
                system.mv(f"{folder}/{name}.part", f"{folder}/{name}")
            for path in system.glob(f"{folder}/checkpoint-*.safetensors"):
                if path.rpartition("/")[2] not in shards:
                    system.rm_file(path)

    def fetch(self, out: Path) -> None:
        """Bring the state, unless the folder has one that is as far."""
        with self._opened() as (system, folder):
            if not system.exists(f"{folder}/{MANIFEST}"):
                return
            text = system.cat_file(f"{folder}/{MANIFEST}").decode()
            there, here = json.loads(text), read_checkpoint(out)
            if here is not None and here.values["step"] >= there["step"]:
                return
            out.mkdir(parents=True, exist_ok=True)
            for name in there["shards"]:
                with atomic_path(out / name) as draft:
                    system.get_file(f"{folder}/{name}", str(draft))
            write_text(out / MANIFEST, text)

    def forget(self) -> None:
        """Take the state away, so that a run starts anew."""
        with self._opened() as (system, folder):
            if system.exists(f"{folder}/{MANIFEST}"):
                system.rm_file(f"{folder}/{MANIFEST}")
