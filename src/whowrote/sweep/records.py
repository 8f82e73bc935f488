"""One small record per fit, under a name that is the hash of what was fitted.

    name = SHA-256(format, configuration, protocol, split, data, seed)

A record that exists need not be computed again: that is all there is to resuming. Records are
written atomically as ``out/ab/<name>.json`` and never changed; thousands of them pack into one
compressed file of JSON lines that can be committed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from whowrote.atomic import atomic_path, write_text
from whowrote.errors import InputError
from whowrote.readers.files import open_bytes
from whowrote.sweep.grid import Configuration, canonical, configuration_hash

FORMAT = 1
SUFFIX = ".jsonl.zst"
_NAME = re.compile(r"[0-9a-f]{64}\.json")


class RecordWarning(UserWarning):
    """A record could not be used; the message has its path."""


@dataclass(frozen=True)
class Fit:
    """One model to be trained: what its record is named after."""

    configuration: Configuration
    protocol: dict[str, Any]
    """What else decides the result: what is watched, the precision, the rest of the plan."""
    split: str
    """The hash of the split."""
    data: str
    """The hash of X and y."""
    seed: int

    @property
    def name(self) -> str:
        """The hash that the record is filed under."""
        values = {"format": FORMAT} | {one.name: getattr(self, one.name) for one in fields(Fit)}
        return hashlib.sha256(canonical(values).encode()).hexdigest()


@dataclass(frozen=True)
class Divergence:
    """The epoch in which a fit left the finite range, and the term that did."""

    epoch: int
    term: str


@dataclass(frozen=True)
class Record(Fit):
    """What came of a fit. Errors are shares; None where no usable state was ever reached.

    Development figures are those of the epoch that early stopping chose on the development rows.
    Test figures were computed once, at that epoch, and are for reporting only.
    """

    fold: int
    share: float
    development_error: float | None
    development_log_loss: float | None
    test_error: float | None
    test_log_loss: float | None
    df: list[float] | None
    """Degrees of freedom by class, in the sorted order of the classes; None for a Gaussian."""
    epochs: int
    best_epoch: int | None
    seconds: float
    """This fit's part of the time of its group."""
    diverged: Divergence | None
    versions: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, with the format."""
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Self:
        """What :meth:`to_dict` wrote; ValueError says what is wrong with anything else."""
        values = dict(plain)
        if (found := values.pop("format", None)) != FORMAT:
            raise ValueError(f"it has record format {found!r}, this version reads {FORMAT}")
        if set(values) != {one.name for one in fields(cls)}:
            raise ValueError("it lacks fields of a record or has others")
        fell = values["diverged"]
        return cls(**{**values, "diverged": None if fell is None else Divergence(**fell)})


# -- a folder of records -------------------------------------------------------------------------


def record_path(folder: Path, name: str) -> Path:
    """Where the record of that name is: two letters of folder keep listings short."""
    return folder / name[:2] / f"{name}.json"


def write(folder: Path, record: Record) -> None:
    """File a record; it is whole or absent."""
    write_text(record_path(folder, record.name), canonical(record.to_dict()) + "\n")


def find(folder: Path, name: str) -> Record | None:
    """The record of that name; None, with a warning, where the file is damaged."""
    path = record_path(folder, name)
    try:
        record = Record.from_dict(json.loads(path.read_bytes()))
        if record.name != name:
            raise ValueError("its content does not belong to its name")
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, AttributeError) as problem:
        _complain(path, problem)
        return None
    return record


def _complain(path: Path, problem: Exception) -> None:
    why = "it is not whole JSON" if isinstance(problem, json.JSONDecodeError) else problem
    warnings.warn(
        f"the record '{path}' is damaged ({why}) and does not count; a sweep fits it again",
        RecordWarning,
        stacklevel=4,
    )


def read_all(source: str | os.PathLike[str]) -> list[Record]:
    """All records of a sweep's folder or of a packed file, in one order whatever the source."""
    path = Path(source)
    if path.is_dir():
        found: Iterable[Record] = _in_folder(path)
    elif path.is_file():
        found = _in_file(path)
    else:
        raise InputError(
            f"there are no records at '{path}'; give the folder of a sweep or a file that pack() "
            "wrote"
        )
    # Neighbours that look alike also make the packed file small.
    return sorted(found, key=lambda r: (configuration_hash(r.configuration), r.share, r.name))


def _in_folder(folder: Path) -> Iterator[Record]:
    for path in folder.glob("??/*.json"):
        # Drafts of a killed sweep begin with a dot and are no records.
        if _NAME.fullmatch(path.name) and (record := find(folder, path.stem)) is not None:
            yield record


def _in_file(path: Path) -> Iterator[Record]:
    with open_bytes(path) as lines:
        for number, line in enumerate(lines, 1):
            try:
                yield Record.from_dict(json.loads(line))
            except (ValueError, TypeError, AttributeError) as problem:
                raise InputError(
                    f"line {number} of '{path}' is no record of a sweep ({problem}); pack the "
                    "folder of the sweep again"
                ) from None


def pack(out: str | os.PathLike[str], file: str | os.PathLike[str]) -> int:
    """Pack all records of a folder into one file, and return how many there were.

    The same records make the same bytes, whatever the order in which they were fitted.
    """
    if not Path(file).name.endswith(SUFFIX):
        raise InputError(f"'{file}' does not end in {SUFFIX}; name the packed file so")
    records = read_all(out)
    text = "".join(canonical(record.to_dict()) + "\n" for record in records)
    with atomic_path(file) as draft, pa.OSFile(str(draft), "wb") as raw:
        codec = pa.Codec("zstd", compression_level=19)
        raw.write(codec.compress(text.encode(), asbytes=True))
    return len(records)
