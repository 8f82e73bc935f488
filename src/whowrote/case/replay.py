r"""Is it found again? Everything is computed anew from the registered texts and compared.

.. math:: |a - b| \le \tau \max(1, |a|)

for every number of ``findings.json``, with :math:`\tau = 10^{-4}`: threads add in another order.
What is not a number must be equal. Changed inputs and a broken log are named before anything is
computed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from whowrote.case.exhibits import FINDINGS, Case, problems
from whowrote.case.findings import compute

TOLERANCE = 1e-4
EQUAL, WITHIN, DIFFERENT, CHANGED = "equal", "equal within tolerance", "different", "changed"
BY_MODEL = ("calibration.model", "calibration.verifiers")
"""Hashes of floating-point numbers: within tolerance they say nothing of their own."""


@dataclass(frozen=True)
class Difference:
    """A value that is not as it was."""

    place: str
    before: Any
    now: Any


@dataclass(frozen=True)
class Replay:
    """What came of computing a case again."""

    outcome: str
    problems: tuple[str, ...] = ()
    differences: tuple[Difference, ...] = ()
    largest: float = 0.0
    tolerance: float = TOLERANCE
    versions: tuple[Difference, ...] = ()

    @property
    def sound(self) -> bool:
        """Whether the findings stand."""
        return self.outcome in (EQUAL, WITHIN)

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def replay(folder: Path) -> Replay:
    """Check every byte against the log, compute again, compare."""
    found = problems(folder)
    if found:
        return Replay(CHANGED, tuple(found))
    case = Case.open(folder)
    before = json.loads(case.written("findings", FINDINGS))
    return compared(before, compute(case))


def compared(before: Any, now: Any, tolerance: float = TOLERANCE) -> Replay:
    """How two results differ.

    >>> compared({"a": 1.0}, {"a": 1.0 + 1e-9}).outcome
    'equal within tolerance'
    >>> compared({"a": [1, "x"]}, {"a": [1, "y"]}).differences
    (Difference(place='a.1', before='x', now='y'),)
    """
    every = list(_walk(before, now, ""))
    versions = tuple(one for one, _ in every if one.place.startswith("versions."))
    rest = [(one, size) for one, size in every if not one.place.startswith("versions.")]
    hashes = [one for one, _ in rest if one.place.startswith(BY_MODEL)]
    rest = [(one, size) for one, size in rest if not one.place.startswith(BY_MODEL)]
    large = tuple(one for one, size in rest if not size <= tolerance)
    largest = max((size for _, size in rest if size <= tolerance), default=0.0)
    outcome = DIFFERENT if large else WITHIN if rest or hashes else EQUAL
    return Replay(outcome, (), large, largest, tolerance, versions)


def _walk(before: Any, now: Any, place: str) -> Iterator[tuple[Difference, float]]:
    """Every value that differs, and by how much; not a number: by infinity."""
    here = f"{place}." if place else ""
    if isinstance(before, dict) and isinstance(now, dict):
        for name in sorted({*before, *now}):
            yield from _walk(before.get(name), now.get(name), f"{here}{name}")
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for number, pair in enumerate(zip(before, now, strict=True)):
            yield from _walk(*pair, f"{here}{number}")
    elif before != now or type(before) is not type(now):
        size = float("inf")
        if isinstance(before, float) and isinstance(now, float):
            size = abs(before - now) / max(1.0, abs(before))
        yield Difference(place, before, now), size
