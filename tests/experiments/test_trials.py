"""Trials in a file: whole, joined; what is missing is said; a choice sees no test figure."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from experiments.made_up import trial, trials
from whowrote.errors import InputError
from whowrote.sweep.records import Divergence
from whowrote.sweep.results import Results
from whowrote_experiments.choice import best_fits, by_dimension, by_size, cells
from whowrote_experiments.trials import Trials, pack, read, write


def chosen(found: Trials) -> dict[object, list[object]]:
    """The configurations that every cell of the table and of the figures has chosen."""
    both = cells(found, by_size) | cells(found, by_dimension)
    return {key: [one.configuration for one in cell.chosen] for key, cell in both.items()}


def corrupted(found: Trials, column: str) -> Trials:
    """Every figure of a column replaced by chance, however bad."""
    random = np.random.default_rng(1)
    rows = (replace(row, **{column: float(random.uniform(0, 1))}) for row in found.rows)
    return Trials(tuple(rows), found.expected)


def test_a_file_gives_back_what_it_was_given(tmp_path: Path) -> None:
    rows = (
        trial(df=[2.5, 7.25]),
        trial(fold=1, development_error=None, test_error=None, diverged=Divergence(3, "prior")),
    )
    write(Trials(rows, {"blog30": {"SMM-VAE": 2}}), tmp_path / "some.parquet")
    found = read(tmp_path / "some.parquet")
    assert sorted(found.rows, key=lambda row: row.fold) == list(rows)
    assert found.expected == {"blog30": {"SMM-VAE": 2}}


def test_a_large_nu_stays_what_it_is(tmp_path: Path) -> None:
    write(Trials((trial(df=[3.0, 1e9]),)), tmp_path / "some.parquet")
    (row,) = read(tmp_path / "some.parquet").rows
    assert row.df == [3.0, 1e9]


def test_the_same_trials_make_the_same_bytes(tmp_path: Path) -> None:
    made = trials()
    write(made, tmp_path / "a.parquet")
    write(Trials(made.rows[::-1], made.expected), tmp_path / "b.parquet")
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_parts_are_joined_and_what_is_there_twice_counts_once(tmp_path: Path) -> None:
    made = trials()
    half = len(made) // 2
    write(Trials(made.rows[: half + 3], made.expected), tmp_path / "parts" / "a.parquet")
    write(Trials(made.rows[half:], made.expected), tmp_path / "parts" / "b.parquet")
    packed = pack([tmp_path / "parts"], tmp_path / "all.parquet")
    assert len(packed) == len(made)
    assert chosen(read(tmp_path / "all.parquet")) == chosen(made)


def test_fewer_digits_make_a_smaller_file_with_the_same_errors_and_choices(tmp_path: Path) -> None:
    made = trials()
    write(made, tmp_path / "made.parquet")
    sizes = {}
    for digits in (None, 3):
        pack([tmp_path / "made.parquet"], tmp_path / f"{digits}.parquet", digits)
        sizes[digits] = (tmp_path / f"{digits}.parquet").stat().st_size
    short, whole = (read(tmp_path / f"{digits}.parquet") for digits in (3, None))
    assert sizes[3] < sizes[None]
    assert chosen(short) == chosen(whole)
    for ours, theirs in zip(short.rows, whole.rows, strict=True):
        assert (ours.test_error, ours.split) == (theirs.test_error, theirs.split)
        assert theirs.df is None or ours.df == pytest.approx(theirs.df, rel=6e-3)
    assert any(a.df != b.df for a, b in zip(short.rows, whole.rows, strict=True))
    with pytest.raises(InputError, match="digits is 0; it must be"):
        pack([tmp_path / "made.parquet"], tmp_path / "none.parquet", 0)


def test_a_part_of_the_trials_expects_what_can_be_known() -> None:
    made = trials()
    some = made.only(("SMM-VAE", "GMM-VAE"))
    assert some.methods == ["SMM-VAE", "GMM-VAE"]
    assert some.coverage() == f"{len(some)} of {len(some)} fits"
    ends = made.only(("SMM-VAE",), (0.2,))
    assert {(row.method, row.share) for row in ends.rows} == {("SMM-VAE", 0.2)}
    assert ends.expected == {"blog30": {}}


def test_a_sweep_that_was_killed_says_how_far_it_came() -> None:
    made = trials()
    assert made.coverage() == f"{len(made):,} of {len(made):,} fits"
    some = Trials(made.rows[:-7], made.expected)
    assert f"{len(made) - 7:,} of {len(made):,} fits" in some.coverage()
    assert "SVM (RBF kernel) 23 of 30" in some.coverage()


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda folder: read(folder / "none"), "there are no records at"),
        (lambda folder: read(folder / "bad.parquet"), "cannot be read"),
        (lambda folder: pack([folder], folder / "x.npz"), "does not end in .parquet"),
        (lambda folder: trials().of("mail"), "the records have blog30"),
    ],
)
def test_what_is_wrong_is_one_sentence(act: object, message: str, tmp_path: Path) -> None:
    (tmp_path / "bad.parquet").write_text("no table")
    with pytest.raises(InputError, match=re.escape(message)):
        act(tmp_path)  # type: ignore[operator]


def test_corrupting_every_test_error_changes_no_choice() -> None:
    made = trials()
    assert chosen(corrupted(made, "test_error")) == chosen(made)


def test_corrupting_development_errors_does() -> None:
    """Negative control: a choice that looked at nothing would pass the test above."""
    made = trials()
    before, after = chosen(made), chosen(corrupted(made, "development_error"))
    assert sum(before[key] != after[key] for key in before) > len(before) / 2


def test_the_lowest_development_error_is_chosen_then_the_log_loss() -> None:
    rows = [
        trial(settings={"step": 1}, development_error=0.3),
        trial(settings={"step": 2}, development_error=0.2, development_log_loss=0.9),
        trial(settings={"step": 3}, development_error=0.2, development_log_loss=0.7),
        trial(settings={"step": 4}, development_error=None),
    ]
    assert best_fits(rows, lambda row: row.fold) == {0: 2}
    assert best_fits(rows[3:], lambda row: row.fold) == {}


def test_the_largest_ensemble_is_reported_even_where_a_lone_fit_was_luckier() -> None:
    rows = [
        trial(settings={"step": 1}, development_error=0.1),
        trial(settings={"step": 1, "n_members": 4}, development_error=0.2),
        trial(settings={"step": 1, "n_members": 16}, development_error=0.3),
    ]
    assert best_fits(rows, lambda row: row.fold) == {0: 2}
    assert best_fits(rows[:1], lambda row: row.fold) == {0: 0}


def test_every_fold_chooses_for_itself() -> None:
    rows = [
        trial(fold=fold, settings={"step": step}, development_error=0.1 + 0.1 * (fold != step))
        for fold in (0, 1)
        for step in (0, 1)
    ]
    (cell,) = cells(Trials(tuple(rows)), by_size).values()
    assert [one.settings["step"] for one in cell.chosen] == [0, 1]


def test_the_table_of_a_sweep_says_the_same() -> None:
    """One chooser: the records of the experiments, asked as those of any sweep."""
    made = trials()
    found = cells(made, by_size)
    for row in Results(made.rows).table(("method", "share")):
        cell = found[row.key["method"], row.key["share"]]
        assert (row.test_error, row.test_sd) == (cell.mean, cell.spread)
        assert row.development_error == cell.development_error
