r"""One row per fit of any method: thousands of trials in one small Parquet file.

.. math:: \mathrm{trial} = (\mathrm{method}, \mathrm{configuration}, \mathrm{split}, \mathrm{data},
    \mathrm{seed}) \mapsto (e_{\mathrm{dev}}, e_{\mathrm{test}}, \nu_1, \dots, \nu_K)

Configurations, versions and hashes repeat and are stored once each; degrees of freedom are half
floats. A choice is made among :class:`Candidate`, which has no test column to look at.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from whowrote.errors import InputError
from whowrote.files import atomic_path

FORMAT = "1"
RECORDS = Path("experiments/results/published")


@dataclass(frozen=True)
class Candidate:
    """A fit as a choice may see it: no figure of the test rows."""

    method: str
    corpus: str
    configuration: str
    """Canonical JSON of every setting; fits are alike where it is."""
    fold: int
    share: float
    seed: int
    split: str
    """The hash of the split."""
    data: str
    """The hash of the vectors (or texts) and their authors."""
    n_train: int
    n_development: int
    development_error: float | None
    development_log_loss: float | None

    @property
    def settings(self) -> Mapping[str, Any]:
        """The configuration as values."""
        return _settings(self.configuration)


@dataclass(frozen=True)
class Trial(Candidate):
    """A fit with everything that was measured. Errors are shares; None where it diverged."""

    n_test: int
    test_error: float | None
    df: tuple[float, ...] | None
    """Degrees of freedom by author, in sorted order; None where there are none."""
    epochs: int
    seconds: float
    diverged: bool
    versions: str

    def blind(self) -> Candidate:
        """The same fit without its test figures."""
        return Candidate(**{one.name: getattr(self, one.name) for one in fields(Candidate)})

    @property
    def name(self) -> tuple[object, ...]:
        """What no two fits share."""
        own = self.method, self.corpus, self.configuration, self.split, self.data
        return *own, self.seed


@dataclass(frozen=True)
class Trials:
    """Trials, and how many there will be of each method when all are done."""

    rows: tuple[Trial, ...]
    expected: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By corpus and method."""

    def __len__(self) -> int:
        return len(self.rows)

    def of(self, corpus: str) -> Trials:
        """The trials on one corpus."""
        kept = tuple(row for row in self.rows if row.corpus == corpus)
        if not kept:
            there = ", ".join(sorted({row.corpus for row in self.rows})) or "none"
            raise InputError(f"corpus is {corpus!r}; the records have {there}: name one of these")
        return Trials(kept, {corpus: self.expected.get(corpus, {})})

    @property
    def methods(self) -> list[str]:
        """Methods in the order of the protocol, then others."""
        known = (name for own in self.expected.values() for name in own)
        found = {row.method for row in self.rows}
        return [one for one in dict.fromkeys([*known, *sorted(found)]) if one in found]

    def counts(self) -> dict[str, tuple[int, int]]:
        """How many fits there are, and shall be, of every method."""
        done = Counter(row.method for row in self.rows)
        wanted: Counter[str] = Counter()
        for own in self.expected.values():
            wanted.update(own)
        return {name: (done[name], wanted.get(name, done[name])) for name in done | wanted}

    def standing(self) -> str:
        """One line on how much stands behind a table.

        >>> Trials(()).standing()
        '0 of 0 fits'
        """
        counts = self.counts()
        done, wanted = (sum(pair[i] for pair in counts.values()) for i in (0, 1))
        parts = [f"{name} {n:,} of {m:,}" for name, (n, m) in counts.items() if n != m]
        missing = f" (unfinished: {'; '.join(parts)})" if parts else ""
        return f"{done:,} of {wanted:,} fits{missing}"


def canonical(values: Any) -> str:
    """Settings as JSON in one form, so that equal settings are equal texts."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)


@cache
def _settings(configuration: str) -> Mapping[str, Any]:
    values: dict[str, Any] = json.loads(configuration)
    return values


# -- files ---------------------------------------------------------------------------------------

_WORDS = pa.dictionary(pa.int32(), pa.string())
_TYPES: dict[str, Any] = {
    **dict.fromkeys(("method", "corpus", "configuration", "split", "data", "versions"), _WORDS),
    **dict.fromkeys(("seed", "n_train", "n_development", "n_test", "epochs"), pa.int32()),
    **dict.fromkeys(("share", "development_error", "test_error"), pa.float64()),
    **dict.fromkeys(("development_log_loss", "seconds"), pa.float32()),
    **{"fold": pa.int16(), "df": pa.list_(pa.float16()), "diverged": pa.bool_()},
}
SCHEMA = pa.schema([(one.name, _TYPES[one.name]) for one in fields(Trial)])


def write(trials: Trials, path: str | os.PathLike[str]) -> None:
    """Write trials as one file, in one order whatever order they were fitted in."""
    rows = sorted(trials.rows, key=lambda row: (row.corpus, row.method, row.share, str(row.name)))
    columns = {
        name: pa.array([_stored(name, getattr(row, name)) for row in rows], kind)
        for name, kind in zip(SCHEMA.names, SCHEMA.types, strict=True)
    }
    notes = {"whowrote": FORMAT, "expected": json.dumps(trials.expected)}
    table = pa.table(columns, schema=SCHEMA.with_metadata(notes))
    with atomic_path(path) as draft:
        pq.write_table(table, draft, compression="zstd", compression_level=19)


def _stored(name: str, value: Any) -> Any:
    if name != "df" or value is None:
        return value
    return np.minimum(value, np.finfo(np.float16).max).astype(np.float16)


def read(source: str | os.PathLike[str]) -> Trials:
    """All trials of a file, or of every file in a folder; what is there twice counts once."""
    path = Path(source)
    files = sorted(path.rglob("[!.]*.parquet")) if path.is_dir() else [path]
    if not files or not files[0].is_file():
        raise InputError(
            f"there are no records at '{path}'; give the folder or file that `whowrote experiment "
            "fit` wrote, with --records"
        )
    return joined(map(_read_file, files))


def _read_file(path: Path) -> Trials:
    try:
        table = pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as problem:
        why = str(problem).splitlines()[0]
        raise InputError(f"'{path}' cannot be read ({why}); fit that part again") from None
    notes = table.schema.metadata or {}
    if notes.get(b"whowrote") != FORMAT.encode() or table.schema.names != SCHEMA.names:
        raise InputError(f"'{path}' holds no trials that this version reads; fit them again")
    plain = (column.to_pylist() for column in table.columns)
    rows = (dict(zip(SCHEMA.names, values, strict=True)) for values in zip(*plain, strict=True))
    trials = tuple(Trial(**{**row, "df": _loaded(row["df"])}) for row in rows)
    return Trials(trials, json.loads(notes[b"expected"]))


def _loaded(df: Sequence[float] | None) -> tuple[float, ...] | None:
    return None if df is None else tuple(map(float, df))


def joined(parts: Iterable[Trials]) -> Trials:
    """Several sets of trials as one."""
    rows: dict[tuple[object, ...], Trial] = {}
    expected: dict[str, dict[str, int]] = {}
    for part in parts:
        rows |= {row.name: row for row in part.rows}
        for corpus, own in part.expected.items():
            expected.setdefault(corpus, {}).update(own)
    return Trials(tuple(rows.values()), expected)


def pack(sources: Iterable[str | os.PathLike[str]], target: str | os.PathLike[str]) -> Trials:
    """Join files and folders into one file."""
    if Path(target).suffix != ".parquet":
        raise InputError(f"'{target}' does not end in .parquet; name the packed file so")
    trials = joined(map(read, sources))
    write(trials, target)
    return trials
