"""What a sweep refuses in one sentence, and what it shows of its progress."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from sweep.small_sweeps import QUICK, SPLITS, N, X, Y, run
from threads import one_thread as one_thread
from whowrote.corpus.splits import Split
from whowrote.errors import InputError
from whowrote.sweep import (
    shares_of,
    sweep,
)


def with_label(row: int, label: Any) -> list[Any]:
    y: list[Any] = Y.tolist()
    y[row] = label
    return y


BARE = SPLITS[0]
BAD_INPUT: dict[str, tuple[dict[str, Any], str]] = {
    "sparse": ({"X": sparse.csr_array(X)}, "X is sparse and a sweep reads dense rows; project"),
    "no label": ({"y": with_label(4, None)}, "row 4 has no label; a sweep needs the author"),
    "NaN": ({"X": np.where(np.arange(N)[:, None] == 3, np.nan, X)}, "X contains NaN in row 3"),
    "lengths": ({"y": Y[:-1]}, "inconsistent numbers of samples"),
    "no splits": ({"splits": []}, "splits is empty; a sweep needs at least one"),
    "the same split": (
        {"splits": [BARE, BARE]},
        r"\(fold 0, share 1\) and \(fold 1, share 1\) hold the same rows; leave one out",
    ),
    "no development": (
        {"splits": [Split(BARE.train, (), BARE.test)]},
        "and 0 development rows; a fit learns from the first and stops by the second",
    ),
    "a row too far": (
        {"splits": [Split(BARE.train, BARE.development, (N,))]},
        f"has row {N} and X has {N} rows; make the splits from the labels of this X",
    ),
    "a class missing": (
        {"splits": [Split(tuple(np.flatnonzero(Y != "bob").tolist()), (1, 4), ())]},
        "class 'bob' has no training row in the split",
    ),
    "no seed": ({"seeds": []}, r"seeds is \[\]; it must be one or more different numbers"),
    "a seed twice": ({"seeds": [1, 1]}, r"seeds is \[1, 1\]; it must be"),
    "a negative seed": ({"seeds": [-1]}, "a seed is -1; it must be an integer of at least 0"),
    "watch": ({"watch": "errors"}, "watch is 'errors'; .*did you mean 'error'?"),
    "dtype": ({"dtype": "float16"}, "dtype is 'float16'"),
    "device": ({"device": "tpu"}, "device is 'tpu'"),
    "group size": ({"group_size": 0}, "group_size is 0; it must be an integer of at least 1"),
    "plan": ({"plan": {"final_rat": 0.1}}, "plan has 'final_rat'; .*did you mean 'final_rate'?"),
    "plan value": ({"plan": {"final_rate": "x"}}, "final_rate in plan is 'x'; it must be like"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input(tmp_path: Path, case: str) -> None:
    given, message = BAD_INPUT[case]
    arguments: dict[str, Any] = {"grid": QUICK, "X": X, "y": Y, "splits": SPLITS[:1], **given}
    with pytest.raises(InputError, match=message):
        sweep(**arguments, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    with pytest.raises(InputError, match="x', a file; give the name of a folder"):
        run({}, tmp_path / "x")


def test_only_must_name_folds() -> None:
    with pytest.raises(InputError, match="only has fold 3; there are 3 folds, counted from 0"):
        shares_of(SPLITS, only=[3])


def test_other_settings_of_the_plan_are_other_fits(tmp_path: Path) -> None:
    plain, slow = (run({}, tmp_path, SPLITS[:1], plan=p) for p in (None, {"final_rate": 1.0}))
    assert plain.records[0].name != slow.records[0].name
    assert plain.records[0].development_log_loss != slow.records[0].development_log_loss


def test_a_terminal_sees_fits_and_pace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("FORCE_COLOR", "1")  # what rich takes for a terminal
    run({"latent_dim": [1, 2]}, tmp_path, SPLITS[:1], progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "2/2" in shown.err
    assert "fits/s, 0:00:00 left, group 2/2, epoch 5" in shown.err
    # Nothing is fitted, so there is no pace.
    run({"latent_dim": [1, 2]}, tmp_path, SPLITS[:1], progress=True)
    shown = capsys.readouterr()
    assert "2/2" in shown.err
    assert "fits/s" not in shown.err


def test_a_pipe_sees_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    run({}, tmp_path, SPLITS[:1], progress=True)
    assert capsys.readouterr() == ("", "")
