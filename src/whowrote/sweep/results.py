r"""What came out, and what to choose: by development error only.

.. math:: \hat c = \arg\min_c \frac{1}{|F|} \sum_{f \in F} e_{\mathrm{dev}}(c, f)

The mean runs over the folds and seeds of a group of records; ties go to the lower log-loss on the
development rows, then to the hash of the configuration. The test columns play no part. They are
read in one place, :meth:`Results.table`, for what has been chosen.

Each fold choosing for itself is the strict protocol: a test row of one fold is a training row of
the others, so that a choice by the mean over folds has, faintly, seen it.
"""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from whowrote.errors import InputError
from whowrote.sweep.grid import (
    PARAMETERS,
    Configuration,
    canonical,
    configuration_hash,
    did_you_mean,
)
from whowrote.sweep.records import Record, read_all

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
