"""The fits of all methods together, and how many there will be when all are done.

    trials = records of files and folders, each fit once

Records are those of :mod:`whowrote.sweep.records`, with the names of method and corpus filled in.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from whowrote.checks import at_least
from whowrote.errors import InputError
from whowrote.sweep.records import Packed, Record, check_suffix, read_packed, write_packed


@dataclass(frozen=True)
class Trials:
    """Records, and how many there will be of each method when all are done."""

    rows: tuple[Record, ...]
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

    def only(self, methods: Collection[str], sizes: Collection[float] | None = None) -> Trials:
        """The trials of some methods, at some sizes.

        What a whole method will have is known, what it will have at some sizes is not: with
        ``sizes`` nothing is expected.
        """
        kept = tuple(
            row
            for row in self.rows
            if row.method in methods and (sizes is None or row.share in sizes)
        )
        expected = {
            corpus: {name: n for name, n in own.items() if name in methods and sizes is None}
            for corpus, own in self.expected.items()
        }
        return Trials(kept, expected)

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

    def coverage(self) -> str:
        """One line on how many of the expected fits there are.

        >>> Trials(()).coverage()
        '0 of 0 fits'
        """
        counts = self.counts()
        done, wanted = (sum(pair[i] for pair in counts.values()) for i in (0, 1))
        parts = [f"{name} {n:,} of {m:,}" for name, (n, m) in counts.items() if n != m]
        missing = f" (unfinished: {'; '.join(parts)})" if parts else ""
        return f"{done:,} of {wanted:,} fits{missing}"


def write(trials: Trials, path: str | os.PathLike[str]) -> None:
    """Write trials as one file, in one order whatever order they were fitted in."""
    write_packed(Packed(trials.rows, trials.expected), path)


def read(source: str | os.PathLike[str]) -> Trials:
    """All trials of a file, or of every file in a folder; what is there twice counts once."""
    path = Path(source)
    files = sorted(path.rglob("[!.]*.parquet")) if path.is_dir() else [path]
    if not files or not files[0].is_file():
        raise InputError(
            f"there are no records at '{path}'; give the folder or file that `whowrote experiment "
            "fit` wrote, with --records"
        )
    packed = map(read_packed, files)
    return joined(Trials(one.records, one.expected) for one in packed)


def fit_key(row: Record) -> tuple[object, ...]:
    """What no two fits share."""
    return row.method, row.corpus, row.settings_text, row.split, row.data, row.seed


def joined(parts: Iterable[Trials]) -> Trials:
    """Several sets of trials as one."""
    rows: dict[tuple[object, ...], Record] = {}
    expected: dict[str, dict[str, int]] = {}
    for part in parts:
        rows |= {fit_key(row): row for row in part.rows}
        for corpus, own in part.expected.items():
            expected.setdefault(corpus, {}).update(own)
    return Trials(tuple(rows.values()), expected)


def pack(
    sources: Iterable[str | os.PathLike[str]],
    target: str | os.PathLike[str],
    digits: int | None = None,
) -> Trials:
    """Join files and folders into one file; with ``digits``, a smaller one.

    Then nu, test log-losses and seconds are kept to so many significant digits, and development
    log-losses to one more, because they decide between fits of equal error. Errors, which are
    counts of texts, stay as they are.
    """
    check_suffix(target)
    trials = joined(map(read, sources))
    if digits is not None:
        at_least("digits", digits, 1, integer=True)
        trials = Trials(tuple(_shortened(row, digits) for row in trials.rows), trials.expected)
    write(trials, target)
    return trials


def _shortened(row: Record, digits: int) -> Record:
    def short(value: float | None, digits: int = digits) -> float | None:
        return None if value is None else float(f"{value:.{digits}g}")

    return replace(
        row,
        df=None if row.df is None else [float(f"{nu:.{digits}g}") for nu in row.df],
        development_log_loss=short(row.development_log_loss, digits + 1),
        test_log_loss=short(row.test_log_loss),
        seconds=short(row.seconds) or 0.0,
    )
