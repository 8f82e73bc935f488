"""Choices by development error alone, and the one table that reads test errors."""

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import pytest

from sweep.small_sweeps import (
    GRID,
    NAMES,
    SPLITS,
    Y,
    made,
    run,
)
from threads import one_thread as one_thread
from whowrote.corpus.splits import Split
from whowrote.errors import InputError
from whowrote.sweep import (
    Record,
    Results,
)


def corrupted(rows: Sequence[int]) -> np.ndarray:
    """Every one of these labels wrong."""
    y = Y.copy()
    y[list(rows)] = NAMES[(np.searchsorted(NAMES, y[list(rows)]) + 1) % 3]
    return y


def chosen(grid: Any, out: Path, label: tuple[int, float], y: np.ndarray) -> Any:
    results = run(grid, out, {label: SPLITS[label[0]]}, y=y)
    return [(choice.key, choice.configuration) for choice in results.best()], results


CHOICES = {**GRID, "learning_rate": [1e-4, 0.002, 0.01, 0.03], "label_weight": [0.0, 10.0]}


@pytest.mark.parametrize("fold", [0, 1, 2])
def test_no_test_label_has_a_part_in_a_choice(tmp_path: Path, fold: int) -> None:
    label, split = (fold, 1.0), SPLITS[fold]
    honest, results = chosen(CHOICES, tmp_path / "honest", label, Y)
    wrong, other = chosen(CHOICES, tmp_path / "test", label, corrupted(split.test))
    assert wrong == honest
    for a, b in zip(results, other, strict=True):
        assert a.development_error == b.development_error
    # The labels did arrive: the test errors are others.
    assert [r.test_error for r in other] != [r.test_error for r in results]
    assert results.table() != other.table()
    # Negative control: development labels do decide.
    assert chosen(CHOICES, tmp_path / "dev", label, corrupted(split.development))[0] != honest


def test_test_columns_can_be_anything(results: Results) -> None:
    source = random.Random(0)
    shuffled = Results(tuple(replace(r, test_error=source.random()) for r in results))
    for by in (("component", "share"), ("component", "share", "fold"), ()):
        ours, theirs = results.best(by), shuffled.best(by)
        assert [choice.configuration for choice in ours] == [c.configuration for c in theirs]
    developed = Results(tuple(replace(r, development_error=source.random()) for r in results))
    assert [c.configuration for c in results.best()] != [c.configuration for c in developed.best()]


def test_the_best_has_the_lowest_mean_development_error(results: Results) -> None:
    choices = results.best(["component", "share"])
    assert [tuple(choice.key.values()) for choice in choices] == [
        ("gaussian", 0.5),
        ("gaussian", 1.0),
        ("student-t", 0.5),
        ("student-t", 1.0),
    ]
    for choice in choices:
        assert choice.n_candidates == 4
        assert len(choice.records) == 3 * 2
        means = {}
        for record in results:
            settings = record.configuration
            if (settings["component"], record.share) == tuple(choice.key.values()):
                means.setdefault(json.dumps(settings), []).append(record.development_error)
        assert choice.development_error == pytest.approx(min(map(fmean, means.values())))
        assert fmean(means[json.dumps(choice.configuration)]) == choice.development_error


def best_rate(*records: Record) -> float:
    (choice,) = Results(records).best()
    return choice.configuration["learning_rate"]


def test_ties_go_to_the_log_loss_and_then_to_the_configuration() -> None:
    assert best_rate(made(0.1, 0.2), made(0.2, 0.1)) == 0.2
    assert best_rate(made(0.1, 0.1, 0.9), made(0.2, 0.1, 0.8)) == 0.2
    tied = made(0.1, 0.1), made(0.2, 0.1)
    first = best_rate(*tied)
    assert best_rate(*tied[::-1]) == first
    # Neither the data nor the split turn a tie.
    for data in map(str, range(20)):
        assert best_rate(*(replace(record, data=data, split=data) for record in tied)) == first


def test_who_diverged_anywhere_is_never_chosen() -> None:
    first = made(0.1, 0.0), made(0.1, None, None, split="t", fold=1)
    second = made(0.2, 0.9), made(0.2, 0.9, split="t", fold=1)
    assert best_rate(*first, *second) == 0.2
    assert Results(first).best() == []
    infinite = Results((made(0.1, 0.3, None),)).best()[0]
    assert (infinite.development_error, infinite.development_log_loss) == (0.3, None)


def test_half_a_sweep_gives_no_half_answers() -> None:
    whole = made(0.1, 0.3), made(0.1, 0.3, split="t", fold=1)
    assert best_rate(*whole, made(0.2, 0.1)) == 0.1
    assert best_rate(*whole, made(0.2, 0.1), made(0.2, 0.1, split="t", fold=1)) == 0.2


def test_records_of_other_data_do_not_mix() -> None:
    results = Results((made(0.1, 0.3), made(0.2, 0.1, data="e")))
    with pytest.raises(InputError, match="2 different X and y, whose errors do not compare"):
        results.best()
    assert [c.configuration["learning_rate"] for c in results.best(["data"])] == [0.1, 0.2]


@pytest.mark.parametrize(("by", "name"), [(["sharing"], "'sharing'"), ("share", "'share'")])
def test_what_to_choose_by_must_be_names(results: Results, by: Any, name: str) -> None:
    with pytest.raises(InputError, match=f"by has {name}; it must be a list of names .*did you"):
        results.best(by)


def test_the_table_reads_the_test_column_of_the_chosen(results: Results) -> None:
    for row in results.table():
        errors = [
            fmean(record.test_error for record in choice.records)
            for choice in results.best(("component", "share", "fold"))
            if {**choice.key, **row.key} == choice.key
        ]
        assert (row.n_folds, row.n_fits) == (3, 24)
        assert row.test_error == pytest.approx(fmean(errors))
        assert row.test_sd == pytest.approx(stdev(errors))
    one_for_all = results.table(per_fold=False)
    for row, choice in zip(one_for_all, results.best(), strict=True):
        assert row.test_error == pytest.approx(fmean(r.test_error for r in choice.records))
        assert row.development_error == pytest.approx(choice.development_error)


def test_one_fold_has_no_spread_and_no_test_rows_have_no_table(tmp_path: Path) -> None:
    split = SPLITS[0]
    (row,) = run({}, tmp_path, [split]).table()
    assert (row.test_sd, row.n_folds) == (None, 1)
    bare = Split(split.train, split.development, ())
    results = run({}, tmp_path, [bare])
    assert results.records[0].test_error is None
    assert len(results.best()) == 1
    with pytest.raises(InputError, match="there is no test error to show"):
        results.table()
