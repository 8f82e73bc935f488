"""A sweep that was stopped goes on: nothing is fitted twice, damage is repaired."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sweep.small_sweeps import (
    GRID,
    QUICK,
    SPLITS,
    X,
    Y,
    assert_same,
    by_name,
    files,
    run,
)
from threads import one_thread as one_thread
from whowrote.sweep import (
    RecordWarning,
    read,
)
from whowrote.sweep.records import record_path


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    first = run(GRID, tmp_path, SPLITS[:2])
    before = files(tmp_path)
    again = run(GRID, tmp_path, SPLITS[:2])
    assert list(again) == list(first)
    assert files(tmp_path) == before
    # Negative control: what is missing is done, and only that.
    gone = first.records[5].name
    record_path(tmp_path, gone).unlink()
    assert_same(by_name(run(GRID, tmp_path, SPLITS[:2]))[gone], first.records[5], 1e-5)
    after = files(tmp_path)
    assert {name for name in after if after[name] != before[name]} == {f"{gone}.json"}
    more = run(GRID, tmp_path, SPLITS)
    assert len(more) == 24
    assert set(by_name(first)) < set(by_name(more))


def test_a_split_may_be_called_otherwise_the_next_time(tmp_path: Path) -> None:
    run({}, tmp_path, {(2, 1.0): SPLITS[2]})
    before = files(tmp_path)
    (record,) = run({}, tmp_path, [SPLITS[2]])
    assert (record.fold, files(tmp_path)) == (0, before)


DAMAGE: dict[str, Callable[[bytes, bytes], bytes]] = {
    "half": lambda own, other: own[: len(own) // 2],
    "empty": lambda own, other: b"",
    "not UTF-8": lambda own, other: b"\xff\xfe" + own,
    "another record": lambda own, other: other,
    "another format": lambda own, other: own.replace(b'"format":1', b'"format":0'),
    "a field less": lambda own, other: own.replace(b'"epochs"', b'"epoch"'),
    "another figure": lambda own, other: re.sub(
        rb"\"test_error\":[^,]*", b'"test_error":0.0625', own
    ),
    "a list": lambda own, other: b"[]",
    "another setting": lambda own, other: own.replace(b'"seed":0', b'"seed":1'),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_record_is_named_and_done_again(tmp_path: Path, how: str) -> None:
    first = run({"learning_rate": [0.01, 0.02]}, tmp_path, SPLITS[:1])
    paths = [record_path(tmp_path, record.name) for record in first]
    own, other = (path.read_bytes() for path in paths)
    paths[0].write_bytes(DAMAGE[how](own, other))
    assert paths[0].read_bytes() != own
    with pytest.warns(RecordWarning, match=f"'{paths[0]}' is damaged .* fits it again"):
        again = run({"learning_rate": [0.01, 0.02]}, tmp_path, SPLITS[:1])
    assert_same(again.records[0], first.records[0], 1e-5)
    assert len(read(tmp_path)) == 2  # mended, and no warning


def test_drafts_of_a_killed_sweep_are_no_records(tmp_path: Path) -> None:
    (record,) = run({}, tmp_path, SPLITS[:1])
    path = record_path(tmp_path, record.name)
    path.with_name(f".{path.name}.x1y2.json").write_bytes(path.read_bytes()[:40])
    assert list(read(tmp_path)) == [record]


LONGER = {"latent_dim": [1, 2], "learning_rate": [0.005, 0.02], "batch_size": 10}
KILLED = """
import json
import sys
import numpy as np
from whowrote.corpus.splits import folds
from whowrote.sweep import sweep
with np.load(sys.argv[1]) as data:
    X, y = data["X"], data["y"]
splits = folds(y, n_folds=3)
sweep(json.loads(sys.argv[3]), X, y, splits, out=sys.argv[2], group_size=3, dtype="float64")
"""


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_a_killed_sweep_goes_on_to_the_same_records(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", X=X, y=Y)
    killed = tmp_path / "killed"
    arguments = [tmp_path / "data.npz", killed, json.dumps({**QUICK, **LONGER})]
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, *map(str, arguments)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        patience = time.monotonic() + 60
        while len(files(killed)) < 3 and process.poll() is None and time.monotonic() < patience:
            time.sleep(0.002)
    finally:
        process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    before = files(killed)
    assert 3 <= len(before) < 12
    ours, whole = (
        by_name(run(LONGER, out, group_size=3, dtype="float64"))
        for out in (killed, tmp_path / "whole")
    )
    assert len(whole) == 12
    assert set(ours) == set(whole)
    for name, record in whole.items():
        assert_same(ours[name], record)
    # What had been done before the kill was not done again.
    after = files(killed)
    assert all(after[name] == made for name, made in before.items())
