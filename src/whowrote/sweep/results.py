"""One small record per fit, under a name that is the hash of what was fitted.

    name = SHA-256(format, configuration, protocol, split, data, seed)

A record that exists need not be computed again: that is all there is to resuming. Records are
written atomically as ``out/ab/<name>.json`` and never changed; thousands of them pack into one
compressed file of JSON lines that can be committed.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Self

import pyarrow as pa

from whowrote.corpus.decoding import open_bytes
from whowrote.errors import InputError
from whowrote.files import atomic_path, write_text
from whowrote.sweep.grid import (
    PARAMETERS,
    Configuration,
    canonical,
    configuration_hash,
    did_you_mean,
)

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


# DOC r"""What came out, and what to choose: by development error only.
# DOC
# DOC .. math:: \hat c = \arg\min_c \frac{1}{|F|} \sum_{f \in F} e_{\mathrm{dev}}(c, f)
# DOC
# DOC The mean runs over the folds and seeds of a group of records; ties go to the lower log-loss on the
# DOC development rows, then to the hash of the configuration. The test columns play no part. They are
# DOC read in one place, :meth:`Results.table`, for what has been chosen.
# DOC
# DOC Each fold choosing for itself is the strict protocol: a test row of one fold is a training row of
# DOC the others, so that a choice by the mean over folds has, faintly, seen it.
# DOC """

LABELS = ("fold", "share", "seed", "split", "data")
Key = dict[str, Any]


@dataclass(frozen=True)
class Choice:
    """The configuration with the lowest development error of a group of records."""

    key: Key
    configuration: Configuration
    development_error: float
    development_log_loss: float | None
    """None where it is infinite."""
    n_candidates: int
    records: tuple[Record, ...]


@dataclass(frozen=True)
class Row:
    """A line of the final table; errors are shares, means and spread over folds."""

    key: Key
    test_error: float
    test_sd: float | None
    development_error: float
    n_folds: int
    n_fits: int
    """All fits that stand behind the line, chosen or not."""


@dataclass(frozen=True)
class Results:
    """The records of a sweep."""

    records: tuple[Record, ...]

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    @property
    def n_diverged(self) -> int:
        """How many fits left the finite range, with or without a usable state before that."""
        return sum(record.diverged is not None for record in self.records)

    def best(self, by: Sequence[str] = ("component", "share")) -> list[Choice]:
        """The chosen configuration of every group of records that agree in ``by``.

        ``by`` names parameters, ``"fold"``, ``"share"`` or ``"seed"``. Only configurations fitted
        on as many splits and seeds as any other are compared: half a sweep gives no half answers.
        A group in which every configuration diverged on some split has no choice and is left out.
        """
        chosen = (_choose(key, records) for key, records in self._groups(by))
        return [choice for choice in chosen if choice is not None]

    def table(
        self, by: Sequence[str] = ("component", "share"), *, per_fold: bool = True
    ) -> list[Row]:
        """Test errors of what was chosen: the one place that reads the test columns.

        With ``per_fold`` every fold's configuration is chosen on its own development rows;
        otherwise one configuration is chosen for all folds of a line.
        """
        choices = defaultdict(list)
        for choice in self.best((*by, "fold") if per_fold else by):
            choices[canonical({name: choice.key[name] for name in by})].append(choice)
        sizes = {canonical(key): len(records) for key, records in self._groups(by)}
        return [_row(by, chosen, sizes[key]) for key, chosen in choices.items()]

    def _groups(self, by: Sequence[str]) -> list[tuple[Key, list[Record]]]:
        _check_by(by)
        groups = _grouped(self.records, lambda record: canonical(_key(record, by)))
        found = [(_key(records[0], by), records) for records in groups.values()]
        return sorted(found, key=lambda group: [_sortable(value) for value in group[0].values()])


def read(source: str | os.PathLike[str]) -> Results:
    """The results in a sweep's folder, or in a file that ``pack`` wrote."""
    return Results(tuple(read_all(source)))


@dataclass(frozen=True, order=True)
class Standing:
    """How a configuration did, in the order of preference."""

    error: float
    log_loss: float
    candidate: str
    """Not the name of a record, which would let the data decide a tie."""

    @property
    def sound(self) -> bool:
        """Whether there is a development error on every split."""
        return math.isfinite(self.error)


def standing(records: Sequence[Record]) -> Standing:
    """Mean development figures of one configuration's records; infinite if any has none."""
    return Standing(
        _mean([record.development_error for record in records]),
        _mean([record.development_log_loss for record in records]),
        candidate(records[0]),
    )


def candidate(record: Record) -> str:
    """What can be chosen: a configuration with the protocol it was trained by."""
    return configuration_hash(record.configuration) + canonical(record.protocol)


def _choose(key: Key, records: Sequence[Record]) -> Choice | None:
    if len(sets := {record.data for record in records}) > 1:
        raise InputError(
            f"the records are of {len(sets)} different X and y, whose errors do not compare; "
            "choose by 'data' as well, or keep the records in folders of their own"
        )
    groups = list(_grouped(records, candidate).values())
    most = max(map(len, groups))
    groups = [group for group in groups if len(group) == most]
    best = min(groups, key=standing)
    found = standing(best)
    if not found.sound:
        return None
    return Choice(
        key=key,
        configuration=best[0].configuration,
        development_error=found.error,
        development_log_loss=found.log_loss if math.isfinite(found.log_loss) else None,
        n_candidates=len(groups),
        records=tuple(best),
    )


def _row(by: Sequence[str], choices: Sequence[Choice], n_fits: int) -> Row:
    folds = _grouped((r for choice in choices for r in choice.records), lambda r: str(r.fold))
    errors = [_mean([record.test_error for record in records]) for records in folds.values()]
    if not all(map(math.isfinite, errors)):
        raise InputError("there is no test error to show; the splits of the sweep need test rows")
    return Row(
        key={name: choices[0].key[name] for name in by},
        test_error=fmean(errors),
        test_sd=stdev(errors) if len(errors) > 1 else None,
        development_error=fmean(choice.development_error for choice in choices),
        n_folds=len(folds),
        n_fits=n_fits,
    )


def _mean(values: Sequence[float | None]) -> float:
    return fmean(math.inf if value is None else value for value in values)


def _grouped(records: Iterable[Record], key: Callable[[Record], str]) -> dict[str, list[Record]]:
    groups: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        groups[key(record)].append(record)
    return dict(groups)


def _key(record: Record, by: Sequence[str]) -> Key:
    return {
        name: getattr(record, name) if name in LABELS else record.configuration[name] for name in by
    }


def _sortable(value: Any) -> tuple[bool, float, str]:
    """Numbers by size, everything else by its name."""
    number = isinstance(value, int | float)
    return not number, float(value) if number else 0.0, "" if number else str(value)


def _check_by(by: Sequence[str]) -> None:
    names = (*LABELS, *PARAMETERS)
    for name in [by] if isinstance(by, str) else by:
        if name not in names or isinstance(by, str):
            raise InputError(
                f"by has {name!r}; it must be a list of names among {', '.join(names)}"
                f"{did_you_mean(str(name), names)}"
            )
