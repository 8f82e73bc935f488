"""Files that are either whole or absent, and the one format in which anything learnt is kept.

A file is written beside its target, flushed, and renamed over it. What was learnt goes into
safetensors for the numbers, with JSON in its header for the rest. No pickle: such a file cannot
execute code. Training texts and training rows are never in it.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from whowrote import __version__
from whowrote.arrays import Arrays
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
    target = Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(
        dir=target.parent, prefix=f".{target.name}.", suffix=target.suffix
    )
    os.close(handle)
    draft = Path(name)
    try:
        yield draft
        os.chmod(draft, 0o666 & ~_umask())
        with draft.open("rb") as written:
            os.fsync(written.fileno())
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def write_text(target: str | os.PathLike[str], text: str) -> None:
    """Write a whole UTF-8 text file atomically."""
    with atomic_path(target) as draft:
        draft.write_text(text, encoding="utf-8")


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's bytes, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
HEADER = "whowrote"


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


def write_model_file(path: str | os.PathLike[str], record: ModelFile) -> None:
    """Write a record to one file; the file is whole or absent."""
    if Path(path).is_dir():
        raise InputError(f"'{path}' is a folder; give save() the name of a file, such as 'a.model'")
    header = {
        "format": FORMAT,
        "version": __version__,
        "kind": record.kind,
        "values": dict(record.values),
    }
    arrays = {name: np.ascontiguousarray(value) for name, value in record.arrays.items()}
    with atomic_path(path) as draft:
        save_file(arrays, draft, metadata={HEADER: _to_json(header)})


def _to_json(header: Mapping[str, Any]) -> str:
    """JSON in which a numpy number, as a grid of parameters brings along, is a plain one."""

    def plain(value: Any) -> Any:
        if isinstance(value, np.generic):
            return value.item()
        raise TypeError(f"{value!r} is no plain value")

    return json.dumps(header, sort_keys=True, default=plain)


def read_model_file(path: str | os.PathLike[str], *kinds: str) -> ModelFile:
    """Read a record of one of ``kinds``; each way in which it may be wrong has a sentence."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"there is no model file at '{path}'; give the path that save() wrote")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as problem:
        raise InputError(
            f"'{path}' is truncated or is not a safetensors file ({problem}); save the model again"
        ) from None
    if HEADER not in metadata:
        raise InputError(f"'{path}' is a safetensors file but not a whowrote model (no header)")
    try:
        header = json.loads(metadata[HEADER])
        found = header["format"]
    except (ValueError, KeyError, TypeError):
        raise InputError(f"the header of '{path}' is damaged; save the model again") from None
    if found != FORMAT:
        raise InputError(
            f"'{path}' has model format {found} (written by whowrote "
            f"{header.get('version')}), this version reads {FORMAT}; train it again or change "
            "versions"
        )
    if kinds and header["kind"] not in kinds:
        raise InputError(f"'{path}' holds a {header['kind']}, not a {kinds[0]}; load it as such")
    return ModelFile(header["kind"], header["values"], arrays)
