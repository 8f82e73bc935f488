"""Files that are either whole or absent, and the one format in which anything learnt is kept.

A file is written beside its target, flushed, and renamed over it. What was learnt goes into
safetensors for the numbers, with JSON in its header for the rest. No pickle: such a file cannot
execute code. Training texts and training rows are never in it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from whowrote import __version__
from whowrote.arrays import Arrays
from whowrote.drafts import draft_file, regular, require_regular, resolved, sync, umask
from whowrote.errors import InputError


@contextmanager
def atomic_path(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path in the target's folder; rename it to the target if all went well.

    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "answer.txt"
    >>> with atomic_path(target) as draft:
    ...     _ = draft.write_text("42")
    ...     target.exists()
    False
    >>> target.read_text()
    '42'
    """
    place = resolved(target)
    require_regular(place)
    place.parent.mkdir(parents=True, exist_ok=True)
    with draft_file(place) as draft:
        yield draft
        os.chmod(draft, 0o666 & ~umask())
        sync(draft)
        os.replace(draft, place)
        sync(place.parent)


def write_text(target: str | os.PathLike[str], text: str) -> None:
    """Write a whole UTF-8 text file atomically."""
    with atomic_path(target) as draft:
        draft.write_text(text, encoding="utf-8")


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's bytes, as hexadecimal digits."""
    with open(path, "rb", opener=regular) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def stamp_of(path: Path) -> tuple[int, ...]:
    """What changes with a file; nothing where there is none."""
    if not path.is_file():
        return ()
    found = path.stat()
    return found.st_mtime_ns, found.st_size, found.st_dev, found.st_ino


def known_hash(path: Path) -> str | None:
    """The SHA-256 of a file, taken anew when it has changed; None where there is none."""
    stamp = stamp_of(path)
    return _hash(path, stamp) if stamp else None


@lru_cache(maxsize=8)
def _hash(path: Path, stamp: tuple[int, ...]) -> str:
    return sha256_of(path)


def bytes_of(path: Path, most: int | None = None) -> bytes:
    """The bytes of a regular file, at most so many; ValueError where there are more.

    Opened once: whoever takes a hash of them and reads them has the same bytes.
    """
    with open(path, "rb", opener=regular) as file:
        if most is not None and os.fstat(file.fileno()).st_size > most:
            raise ValueError(f"it has more than {most:,} bytes")
        return file.read()


MOST_JSON_BYTES = 64_000_000


def strict_json(data: bytes | str) -> Any:
    """JSON with one value of each name and finite numbers; ValueError on anything else.

    >>> strict_json('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    ValueError: it names 'a' twice
    """

    def table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in pairs:
            if name in found:
                raise ValueError(f"it names {name!r} twice")
            found[name] = value
        return found

    try:
        return json.loads(data, object_pairs_hook=table, parse_constant=_no_number)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _no_number(name: str) -> None:
    raise ValueError(f"it has {name}, which is no number")


def canonical_json(value: Any) -> str:
    """JSON in the one form that hashes are taken of: equal values are equal texts.

    >>> canonical_json({"b": [1, 2.5], "a": None})
    '{"a":null,"b":[1,2.5]}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical_hash(value: Any) -> str:
    """The SHA-256 of :func:`canonical_json`, as hexadecimal digits: equal values, equal hashes."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


# -- model files ---------------------------------------------------------------------------------

FORMAT = 1
HEADER, SEAL = "whowrote", "sha256"


@dataclass(frozen=True)
class ModelFile:
    """Everything a model file holds: its kind, plain values and arrays by name."""

    kind: str
    values: Mapping[str, Any]
    arrays: Arrays = field(default_factory=dict)


def below(prefix: str, arrays: Arrays) -> dict[str, Any]:
    """The arrays whose names begin with ``prefix``, by the rest of their names.

    >>> below("fleet.", {"fleet.loc": np.zeros(1), "scaling.mean": np.ones(1)})
    {'loc': array([0.])}
    """
    return {n.removeprefix(prefix): array for n, array in arrays.items() if n.startswith(prefix)}


def write_model_file(
    path: str | os.PathLike[str], record: ModelFile, *, sealed: bool = False
) -> None:
    """Write a record to one file; the file is whole or absent.

    ``sealed``: with the hash of all that it says, for a file that no manifest names.
    """
    if Path(path).is_dir():
        raise InputError(f"'{path}' is a folder; give save() the name of a file, such as 'a.model'")
    header = {
        "format": FORMAT,
        "version": __version__,
        "kind": record.kind,
        "values": dict(record.values),
    }
    arrays = {name: np.ascontiguousarray(value) for name, value in record.arrays.items()}
    metadata = {HEADER: _to_json(header)}
    if sealed:
        metadata[SEAL] = _seal(metadata[HEADER], arrays)
    with atomic_path(path) as draft:
        # Not save_file: it makes a file of its own beside the draft, which a kill leaves behind.
        draft.write_bytes(save(arrays, metadata=metadata))


def _seal(header: str, arrays: Arrays) -> str:
    digest = hashlib.sha256(header.encode())
    for name in sorted(arrays):
        value = arrays[name]
        digest.update(repr((name, value.dtype.str, value.shape)).encode())
        digest.update(np.ascontiguousarray(value).data)
    return digest.hexdigest()


def _to_json(header: Mapping[str, Any]) -> str:
    """JSON in which a numpy number, as a grid of parameters brings along, is a plain one."""

    def plain(value: Any) -> Any:
        if isinstance(value, np.generic):
            return value.item()
        raise TypeError(f"{value!r} is no plain value")

    return json.dumps(header, sort_keys=True, default=plain)


def read_model_file(
    path: str | os.PathLike[str], *kinds: str, sha256: str | None = None, sealed: bool = False
) -> ModelFile:
    """Read a record of one of ``kinds``; each way in which it may be wrong has a sentence.

    ``sha256`` is what the bytes must have, where that is known; ``sealed`` as it was written.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"there is no model file at '{path}'; give the path that save() wrote")
    try:
        data = bytes_of(path)  # not mapped: a file that is cut meanwhile would end the process
        if sha256 not in (None, hashlib.sha256(data).hexdigest()):
            raise other_bytes(path)
        arrays = load(data)
        size = int.from_bytes(data[:8], "little")
        metadata = json.loads(data[8 : 8 + size]).get("__metadata__") or {}
    except (SafetensorError, OSError) as problem:
        raise InputError(
            f"'{path}' is truncated or is not a safetensors file ({problem}); save the model again"
        ) from None
    if HEADER not in metadata:
        raise InputError(f"'{path}' is a safetensors file but not a whowrote model (no header)")
    if sealed and metadata.get(SEAL) != _seal(metadata[HEADER], arrays):
        raise InputError(f"'{path}' is damaged or was edited; remove it, and it is made anew")
    header = _header(path, metadata[HEADER])
    found = header["format"]
    if found != FORMAT:
        raise InputError(
            f"'{path}' has model format {found} (written by whowrote "
            f"{header.get('version')}), this version reads {FORMAT}; train it again or change "
            "versions"
        )
    if kinds and header["kind"] not in kinds:
        raise InputError(f"'{path}' holds a {header['kind']}, not a {kinds[0]}; load it as such")
    return ModelFile(header["kind"], header["values"], arrays)


def other_bytes(path: Path) -> InputError:
    """The error for a file of a model that is not there as it was saved."""
    return InputError(
        f"'{path}' is missing or is not what was saved; copy the whole folder again, or "
        "train the model again"
    )


def _header(path: Path, text: str) -> dict[str, Any]:
    try:
        header: dict[str, Any] = json.loads(text)
        sound = isinstance(header["kind"], str) and isinstance(header["values"], dict)
        known = "format" in header
    except (ValueError, KeyError, TypeError, RecursionError):
        sound = known = False
    if not (sound and known):
        raise InputError(f"the header of '{path}' is damaged; save the model again")
    return header
