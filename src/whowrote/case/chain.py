r"""A log in which every entry has the hash of the one before it.

.. math:: h_i = \mathrm{SHA256}(\text{number}_i, \text{time}_i, \text{action}_i,
    \text{details}_i, h_{i-1})

One canonical JSON object a line. An entry is never changed or removed: whoever changes a byte of
the log changes a hash, and :func:`read_log` says in which line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from whowrote.drafts import held
from whowrote.errors import InputError
from whowrote.files import bytes_of, canonical_hash, canonical_json, write_text

START = "0" * 64
"""What the first entry follows."""


@dataclass(frozen=True)
class Entry:
    """What was done, when, and the hash of all that was done before."""

    number: int
    time: str
    action: str
    details: Mapping[str, Any]
    previous: str
    hash: str

    def line(self) -> str:
        """One line of the log."""
        return canonical_json(asdict(self))


@dataclass(frozen=True)
class Log:
    """The entries up to the first that is broken, and what is wrong there."""

    entries: tuple[Entry, ...]
    broken: str = ""

    @property
    def head(self) -> str:
        """The hash of the last entry: it stands for the whole log."""
        return self.entries[-1].hash if self.entries else START

    def last(self, action: str) -> Entry | None:
        """The latest entry of an action."""
        return next((one for one in reversed(self.entries) if one.action == action), None)


def read_log(path: Path) -> Log:
    """Read and check a log; what is broken is said, not raised."""
    if not path.is_file():
        return Log((), f"{path.name} is missing")
    entries: list[Entry] = []
    head = START
    *lines, rest = bytes_of(path).split(b"\n")
    for number, line in enumerate(lines, 1):
        entry = _entry(line)
        if entry is None or entry.number != number or entry.previous != head:
            return Log(tuple(entries), f"{path.name}, line {number}: the chain of hashes breaks")
        entries.append(entry)
        head = entry.hash
    if rest:
        return Log(tuple(entries), f"{path.name}, line {len(lines) + 1}: the line is not whole")
    return Log(tuple(entries))


def _entry(line: bytes) -> Entry | None:
    """The entry of a line; None where any byte of it is not as it was written."""
    try:
        plain = json.loads(line)
        entry = Entry(**plain)
        unsigned = {name: value for name, value in plain.items() if name != "hash"}
        sound = canonical_hash(unsigned) == entry.hash and entry.line().encode() == line
    except (ValueError, TypeError, RecursionError):
        return None
    return entry if sound else None


def append(path: Path, action: str, details: Mapping[str, Any], after: str | None = None) -> Entry:
    """Write a further entry; the file is the old one or the new one, never a part.

    One process at a time. ``after``: the head that the details were made for; another one says that
    somebody else has written meanwhile.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with held(path.parent, path):
        return append_held(path, action, details, after)


def append_held(
    path: Path, action: str, details: Mapping[str, Any], after: str | None = None
) -> Entry:
    """The same, by whoever holds the folder."""
    log = read_log(path) if path.exists() else Log(())
    if after is not None and log.head != after:
        raise InputError(
            f"another process has written into '{path}' meanwhile; run the command again"
        )
    if log.broken:
        raise InputError(
            f"{log.broken}; nothing can follow it: restore the log from a copy, or begin a new case"
        )
    unsigned = {
        "number": len(log.entries) + 1,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "action": action,
        "details": json.loads(canonical_json(details)),
        "previous": log.head,
    }
    entry = Entry(**unsigned, hash=canonical_hash(unsigned))
    write_text(path, "".join(f"{one.line()}\n" for one in (*log.entries, entry)))
    return entry
