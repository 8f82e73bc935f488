"""One record per fit of any method, under a name that is the hash of what was fitted.

    name = SHA-256(format, configuration, protocol, split, data, seed)

A record that exists need not be computed again: that is all there is to resuming. While fits run,
records are written atomically as ``out/ab/<name>.json`` and never changed; thousands of them pack
into one Parquet file that can be committed. A choice is made among :class:`Candidate`, which has no
test figure to look at.
"""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from whowrote.drafts import regular
from whowrote.errors import InputError, first_line
from whowrote.files import atomic_path, bytes_of, canonical_hash, canonical_json, write_text
from whowrote.sweep.grid import Configuration, configuration_hash

FORMAT = 1
PACKED_FORMATS = ("1", "2")
"""Of a packed file: the second has everything that a record has."""
SUFFIX = ".parquet"
DIGEST = "digest"
"""Of a record on disk: the hash of everything else in it."""
DIGITS = 6  # of a degree of freedom: enough for any figure, and small records
_NAME = re.compile(r"[0-9a-f]{64}\.json")


class RecordWarning(UserWarning):
    """A record could not be used; the message has its path."""


@dataclass(frozen=True)
class Fit:
    """One model to be trained: what its record is named after."""

    configuration: Configuration
    protocol: dict[str, Any]
    """What else decides the result: what stops it early, the precision, the rest of the plan."""
    split: str
    """The hash of the split."""
    data: str
    """The hash of X and y."""
    seed: int

    @property
    def name(self) -> str:
        """The hash that the record is filed under."""
        values = {"format": FORMAT} | {one.name: getattr(self, one.name) for one in fields(Fit)}
        return canonical_hash(values)


@dataclass(frozen=True)
class Divergence:
    """The epoch in which a fit left the finite range, and the term that did."""

    epoch: int
    term: str


@dataclass(frozen=True)
class Candidate:
    """A fit as a choice may see it: no figure of the test rows."""

    method: str
    corpus: str
    settings_text: str
    """Canonical JSON of configuration and protocol; fits are alike where it is."""
    fold: int
    share: float
    seed: int
    split: str
    data: str
    n_train: int
    n_development: int
    development_error: float | None
    development_log_loss: float | None

    @property
    def settings(self) -> Mapping[str, Any]:
        """Configuration and protocol as values."""
        return _parsed(self.settings_text)


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
    method: str = ""
    """Its line in a table of several methods; a plain sweep has no need of one."""
    corpus: str = ""
    n_train: int = 0
    n_development: int = 0
    n_test: int = 0

    @cached_property
    def settings_text(self) -> str:
        """Canonical JSON of configuration and protocol."""
        protocol = {"protocol": self.protocol} if self.protocol else {}
        return canonical_json(self.configuration | protocol)

    @property
    def settings(self) -> Mapping[str, Any]:
        """Configuration and protocol as values."""
        return _parsed(self.settings_text)

    def candidate(self) -> Candidate:
        """The same fit without its test figures."""
        return Candidate(**{name: getattr(self, name) for name in _CANDIDATE})

    def to_dict(self) -> dict[str, Any]:
        """Plain values, with the format."""
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Self:
        """What :meth:`to_dict` wrote; ValueError says what is wrong with anything else."""
        values = dict(plain)
        if (found := values.pop("format", None)) != FORMAT:
            raise ValueError(f"it has record format {found!r}, this version reads {FORMAT}")
        needed = {one.name for one in fields(cls) if one.default is MISSING}
        if not needed <= set(values) <= {one.name for one in fields(cls)}:
            raise ValueError("it lacks fields of a record or has others")
        diverged = values["diverged"]
        return cls(**{**values, "diverged": None if diverged is None else Divergence(**diverged)})


_CANDIDATE = tuple(one.name for one in fields(Candidate))


@cache
def _parsed(text: str) -> dict[str, Any]:
    """Settings repeat from fit to fit: each text is read once."""
    values: dict[str, Any] = json.loads(text)
    return values


def rounded(df: Iterable[float]) -> list[float]:
    """Degrees of freedom as records keep them.

    >>> rounded([2.123456789, 1234567.8])
    [2.12346, 1234570.0]
    """
    return [float(f"{value:.{DIGITS}g}") for value in df]


def in_order(records: Iterable[Record]) -> list[Record]:
    """One order whatever the source; neighbours that look alike also make a packed file small."""
    return sorted(
        records,
        key=lambda r: (r.corpus, r.method, configuration_hash(r.configuration), r.share, r.name),
    )


# -- a folder of records -------------------------------------------------------------------------


def record_path(folder: Path, name: str) -> Path:
    """Where the record of that name is: two letters of folder keep listings short."""
    return folder / name[:2] / f"{name}.json"


def write(folder: Path, record: Record) -> None:
    """File a record with the hash of what it says; it is whole or absent."""
    plain = record.to_dict()
    plain[DIGEST] = canonical_hash(plain)
    write_text(record_path(folder, record.name), canonical_json(plain) + "\n")


def find(folder: Path, name: str) -> Record | None:
    """The record of that name; None, with a warning, where the file is damaged or was edited."""
    path = record_path(folder, name)
    try:
        plain = json.loads(bytes_of(path))
        digest = plain.pop(DIGEST, None)  # records of earlier versions have none
        if digest is not None and digest != canonical_hash(plain):
            raise ValueError("it was edited: it does not have the hash of what it says")
        record = Record.from_dict(plain)
        if record.name != name:
            raise ValueError("its content does not belong to its name")
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, AttributeError, RecursionError) as problem:
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
        return in_order(_in_folder(path))
    if path.is_file():
        return in_order(read_packed(path).records)
    raise InputError(
        f"there are no records at '{path}'; give the folder of a sweep or a file that pack() wrote"
    )


def _in_folder(folder: Path) -> Iterator[Record]:
    for path in folder.glob("??/*.json"):
        # Drafts of a killed sweep begin with a dot and are no records.
        if _NAME.fullmatch(path.name) and (record := find(folder, path.stem)) is not None:
            yield record


def pack(out: str | os.PathLike[str], file: str | os.PathLike[str]) -> int:
    """Pack all records of a folder into one file, and return how many there were.

    The same records make the same bytes, whatever the order in which they were fitted.
    """
    check_suffix(file)
    packed = Packed(tuple(read_all(out)))
    write_packed(packed, file)
    return len(packed.records)


# -- a packed file -------------------------------------------------------------------------------

_WORDS = pa.dictionary(pa.int32(), pa.string())
_JSON = ("configuration", "protocol", "versions")
_TYPES: dict[str, Any] = {
    **dict.fromkeys((*_JSON, "split", "data", "method", "corpus"), _WORDS),
    **dict.fromkeys(("seed", "epochs", "best_epoch"), pa.int64()),
    **dict.fromkeys(("fold", "n_train", "n_development", "n_test"), pa.int32()),
    **dict.fromkeys(("share", "seconds", "development_error", "test_error"), pa.float64()),
    **dict.fromkeys(("development_log_loss", "test_log_loss"), pa.float64()),
    "df": pa.list_(pa.float32()),  # enough for their digits
    "diverged": pa.struct([("epoch", pa.int64()), ("term", pa.string())]),
}
SCHEMA = pa.schema([(one.name, _TYPES[one.name]) for one in fields(Record)])
FIRST_NAMES = (
    *("method", "corpus", "configuration", "fold", "share", "seed", "split", "data", "n_train"),
    *("n_development", "development_error", "development_log_loss", "n_test", "test_error", "df"),
    *("epochs", "seconds", "diverged", "versions"),
)
"""The columns of the first format."""


@dataclass(frozen=True)
class Packed:
    """Records of one file, and how many there will be when all are done, where that is known."""

    records: tuple[Record, ...]
    expected: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By corpus and method."""


def check_suffix(file: str | os.PathLike[str]) -> None:
    """Require the name of a packed file."""
    if Path(file).suffix != SUFFIX:
        raise InputError(f"'{file}' does not end in {SUFFIX}; name the packed file so")


def write_packed(packed: Packed, path: str | os.PathLike[str]) -> None:
    """Write records as one file, in one order whatever order they were fitted in."""
    rows = [vars(record) for record in in_order(packed.records)]
    columns = {
        name: pa.array([_stored(name, row[name]) for row in rows], kind)
        for name, kind in _TYPES.items()
    }
    notes = {"whowrote": PACKED_FORMATS[-1], "expected": json.dumps(packed.expected)}
    table = pa.table(columns, schema=SCHEMA.with_metadata(notes))
    with atomic_path(path) as draft:
        pq.write_table(table, draft, compression="zstd", compression_level=19)


def _stored(name: str, value: Any) -> Any:
    if name in _JSON:
        return canonical_json(value)
    return asdict(value) if isinstance(value, Divergence) else value


def read_packed(path: Path) -> Packed:
    """What :func:`write_packed` wrote, or the first version of it."""
    try:
        with open(path, "rb", opener=regular) as raw:
            table = pq.read_table(raw)
    except (pa.ArrowException, OSError, ValueError) as problem:
        raise InputError(
            f"'{path}' cannot be read ({first_line(problem)}); fit or pack it again"
        ) from None
    notes = table.schema.metadata or {}
    version, names = notes.get(b"whowrote", b"").decode(), tuple(table.column_names)
    if (version, names) not in zip(PACKED_FORMATS, (FIRST_NAMES, tuple(SCHEMA.names)), strict=True):
        raise InputError(
            f"'{path}' holds no records that this version reads; fit or pack them again"
        )
    columns = (column.to_pylist() for column in table.columns)
    rows = (dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))
    read = _from_first if version == "1" else _from_second
    try:
        return Packed(tuple(map(read, rows)), json.loads(notes[b"expected"]))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as problem:
        raise InputError(
            f"'{path}' is damaged ({first_line(problem)}); fit or pack its records again"
        ) from problem


def _from_second(row: dict[str, Any]) -> Record:
    read = {
        "versions": _parsed(row["versions"]),
        "df": None if row["df"] is None else rounded(row["df"]),
        "diverged": row["diverged"] and Divergence(**row["diverged"]),
    }
    return _record({**row, **read}, row["configuration"], row["protocol"])


def _from_first(row: dict[str, Any]) -> Record:
    """The protocol was part of the configuration, and of a divergence only its epoch is known."""
    read = {
        "versions": _parsed(row["versions"]),
        "df": None if row["df"] is None else [float(value) for value in row["df"]],
        "diverged": Divergence(row["epochs"], "unknown") if row["diverged"] else None,
    }
    values = {**row, **read, "test_log_loss": None, "best_epoch": None}
    return _record(values, row["configuration"], "{}")


def _record(values: dict[str, Any], configuration: str, protocol: str) -> Record:
    settings = _settings(configuration, protocol)
    record = Record(**{**values, "configuration": settings[0], "protocol": settings[1]})
    vars(record)["settings_text"] = settings[2]  # which thousands of records share
    return record


@cache
def _settings(configuration: str, protocol: str) -> tuple[Configuration, dict[str, Any], str]:
    """Configuration, protocol, and the canonical JSON of both."""
    both = {"protocol": json.loads(protocol)} | json.loads(configuration)
    own = both.pop("protocol")
    return both, own, canonical_json(both | ({"protocol": own} if own else {}))
