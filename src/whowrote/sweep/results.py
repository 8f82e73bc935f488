r"""What to choose among fits, by development error only, and what was found at the end.

.. math:: \hat c = \arg\min_c \frac{1}{|F|} \sum_{f \in F} e_{\mathrm{dev}}(c, f)

The mean runs over the folds and seeds of a group of fits; ties go to the lower log-loss on the
development rows, then to the settings in alphabetical order. Choices are made among
:class:`~whowrote.sweep.records.Candidate`, which carry no test figures. Those are read in one
place, :meth:`Results.table`, for what has been chosen.
"""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from whowrote.errors import InputError, did_you_mean
from whowrote.files import canonical_json
from whowrote.sweep.grid import PARAMETERS, Configuration
from whowrote.sweep.records import Candidate, Record, read_all

LABELS = ("fold", "share", "seed", "split", "data", "method", "corpus")
Key = dict[str, Any]
By = Callable[[Candidate], Hashable]


# -- the choice ----------------------------------------------------------------------------------


@dataclass(frozen=True, order=True)
class Rank:
    """How settings did on the development rows, in the order of preference.

    Of ensembles the largest comes first: the best of many single fits owes part of its development
    error to chance, an ensemble of what was chosen does not.
    """

    diverged: bool
    """Whether there is no development error on some split."""
    minus_members: int
    error: float
    log_loss: float
    settings_text: str
    """Not the name of a record, which would let the data decide a tie."""
    seed: int


def rank(candidates: Sequence[Candidate]) -> Rank:
    """Mean development figures of fits with the same settings; infinite if any has none."""
    first = candidates[0]
    error = _mean([one.development_error for one in candidates])
    return Rank(
        diverged=not math.isfinite(error),
        minus_members=-int(first.settings.get("n_members", 1)),
        error=error,
        log_loss=_mean([one.development_log_loss for one in candidates]),
        settings_text=first.settings_text,
        seed=first.seed,
    )


@dataclass(frozen=True)
class Chosen:
    """The candidates with the chosen settings, by their numbers."""

    numbers: tuple[int, ...]
    rank: Rank
    n_candidates: int
    """How many settings were compared."""


def same_settings(candidate: Candidate) -> Hashable:
    """Fits that differ in fold and seed alone count as one, by their mean."""
    return candidate.settings_text


def every_fit(candidate: Candidate) -> Hashable:
    """Every fit counts for itself."""
    return candidate.settings_text, candidate.seed, candidate.split, candidate.data


def choose(
    candidates: Sequence[Candidate], by: By, alike: By = same_settings
) -> dict[Hashable, Chosen]:
    """The best settings of every group of candidates that agree in ``by``.

    Only settings with as many fits as any other of the group are compared: half a sweep gives no
    half answers. A group in which all settings diverged on some split has no choice.
    """
    groups: dict[Hashable, dict[Hashable, list[int]]] = defaultdict(lambda: defaultdict(list))
    for number, candidate in enumerate(candidates):
        groups[by(candidate)][alike(candidate)].append(number)
    best = {key: _best(candidates, list(own.values())) for key, own in groups.items()}
    return {key: one for key, one in best.items() if not one.rank.diverged}


def _best(candidates: Sequence[Candidate], groups: Sequence[Sequence[int]]) -> Chosen:
    most = max(map(len, groups))
    complete = [numbers for numbers in groups if len(numbers) == most]
    ranks = [rank([candidates[number] for number in numbers]) for numbers in complete]
    place = min(range(len(ranks)), key=ranks.__getitem__)
    return Chosen(tuple(complete[place]), ranks[place], len(ranks))


def _mean(values: Sequence[float | None]) -> float:
    return fmean(math.inf if value is None else value for value in values)


# -- results -------------------------------------------------------------------------------------


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

        ``by`` names parameters, ``"fold"``, ``"share"``, ``"seed"``, ``"method"`` or ``"corpus"``.
        Only configurations fitted on as many splits and seeds as any other are compared. A group in
        which every configuration diverged on some split has no choice and is left out.
        """
        groups = self._groups(by)
        for _, records in groups.values():
            _check_one_data_set(records)
        candidates = [record.candidate() for record in self.records]
        chosen = choose(candidates, lambda one: canonical_json(_key(one, by)))
        return [
            self._choice(key, chosen[text]) for text, (key, _) in groups.items() if text in chosen
        ]

    def _choice(self, key: Key, chosen: Chosen) -> Choice:
        records = tuple(self.records[number] for number in chosen.numbers)
        log_loss = chosen.rank.log_loss
        return Choice(
            key=key,
            configuration=records[0].configuration,
            development_error=chosen.rank.error,
            development_log_loss=log_loss if math.isfinite(log_loss) else None,
            n_candidates=chosen.n_candidates,
            records=records,
        )

    def table(
        self, by: Sequence[str] = ("component", "share"), *, per_fold: bool = True
    ) -> list[Row]:
        """Test errors of what was chosen: the one place that reads the test columns.

        With ``per_fold`` every fold's configuration is chosen on its own development rows;
        otherwise one configuration is chosen for all folds of a line. The first is the strict
        protocol: a test row of one fold is a training row of the others, so that a choice by the
        mean over folds has, faintly, seen it.
        """
        choices = defaultdict(list)
        for choice in self.best((*by, "fold") if per_fold else by):
            choices[canonical_json({name: choice.key[name] for name in by})].append(choice)
        sizes = {text: len(records) for text, (_, records) in self._groups(by).items()}
        return [_row(by, chosen, sizes[text]) for text, chosen in choices.items()]

    def _groups(self, by: Sequence[str]) -> dict[str, tuple[Key, list[Record]]]:
        """Records that agree in ``by``, under the canonical JSON of what they agree in."""
        _check_by(by)
        groups: dict[str, tuple[Key, list[Record]]] = {}
        for record in self.records:
            key = _key(record, by)
            groups.setdefault(canonical_json(key), (key, []))[1].append(record)
        return dict(
            sorted(groups.items(), key=lambda item: [_sortable(v) for v in item[1][0].values()])
        )


def read(source: str | os.PathLike[str]) -> Results:
    """The results in a sweep's folder, or in a file that ``pack`` wrote."""
    return Results(tuple(read_all(source)))


def _check_one_data_set(records: Sequence[Record]) -> None:
    if len(sets := {record.data for record in records}) > 1:
        raise InputError(
            f"the records are of {len(sets)} different X and y, whose errors do not compare; "
            "choose by 'data' as well, or keep the records in folders of their own"
        )


def _row(by: Sequence[str], choices: Sequence[Choice], n_fits: int) -> Row:
    folds: dict[int, list[float | None]] = defaultdict(list)
    for choice in choices:
        for record in choice.records:
            folds[record.fold].append(record.test_error)
    errors = [_mean(own) for own in folds.values()]
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


def _key(fit: Record | Candidate, by: Sequence[str]) -> Key:
    return {name: getattr(fit, name) if name in LABELS else fit.settings.get(name) for name in by}


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
