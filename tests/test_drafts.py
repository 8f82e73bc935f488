"""Drafts: exchanged in one step, held by one process, cleared after those that died."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from whowrote import drafts
from whowrote.drafts import draft_file, draft_folder, draft_of, former_of, probe, put, resolved
from whowrote.errors import InputError
from whowrote.files import atomic_path, write_text

pytestmark = pytest.mark.skipif(os.name != "posix", reason="locks and renames of POSIX systems")
OURS = {"one.txt", "two.txt"}.__contains__


def without_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that cannot exchange two names."""
    monkeypatch.setattr(drafts, "_rename", lambda *_: False)


def replace(target: Path, text: str) -> None:
    with draft_folder(resolved(target), OURS) as draft:
        (draft / "one.txt").write_text(text)
        put(draft, resolved(target), OURS)


@contextmanager
def other_process(script: str, *arguments: object) -> Iterator["subprocess.Popen[str]"]:
    """A process that says "ready" and then waits for ever."""
    source = f"{script}\nprint('ready', flush=True)\nimport time\ntime.sleep(600)\n"
    command = [sys.executable, "-c", source, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


WRITING_FOLDER = """
import sys; from pathlib import Path; from whowrote.drafts import draft_folder
held = draft_folder(Path(sys.argv[1]), lambda name: name == 'one.txt')
draft = held.__enter__(); (draft / 'one.txt').write_text('half')
"""
WRITING_FILE = """
import sys; from pathlib import Path; from whowrote.drafts import draft_file
held = draft_file(Path(sys.argv[1])); held.__enter__().write_text('half')
"""


# Exchanged in one step


@pytest.mark.parametrize("exchange", [True, False])
def test_a_folder_is_new_or_replaced(
    exchange: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not exchange:
        without_exchange(monkeypatch)
    target = tmp_path / "deep" / "model"
    for text in ("first", "second"):
        replace(target, text)
        assert (target / "one.txt").read_text() == text
        assert os.listdir(target.parent) == ["model"]
    assert target.stat().st_mode & 0o777 == 0o777 & ~drafts.umask()


@pytest.mark.parametrize("way", ["{0}/../model", "{0}/.", "link", "deep/../model/"])
def test_a_name_means_what_it_meant_before(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    replace(Path("model"), "first")
    (tmp_path / "deep").mkdir()
    (tmp_path / "link").symlink_to("model")
    replace(Path(way.format("model")), "second")
    assert (tmp_path / "model" / "one.txt").read_text() == "second"
    assert (tmp_path / "link").is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["deep", "link", "model"]


@pytest.mark.parametrize("problem", [OSError("input/output error"), KeyboardInterrupt()])
def test_an_interruption_between_two_renames_leaves_the_former(
    problem: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_exchange(monkeypatch)
    target, real = tmp_path / "model", os.rename
    replace(target, "first")

    def rename(source: Any, goal: Any) -> None:
        if Path(goal) == target and Path(source) == draft_of(target):
            raise problem
        real(source, goal)

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(type(problem)):
        replace(target, "second")
    assert (target / "one.txt").read_text() == "first"
    assert os.listdir(tmp_path) == ["model"]


def test_where_it_cannot_be_undone_the_former_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_exchange(monkeypatch)
    target, real = tmp_path / "model", os.rename
    replace(target, "first")

    def rename(source: Any, goal: Any) -> None:
        if Path(goal) == target:
            raise OSError("input/output error")
        real(source, goal)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", rename)
        with pytest.raises(InputError, match=r"the former one is whole and lies in '.*former'"):
            replace(target, "second")
    assert (former_of(target) / "one.txt").read_text() == "first"
    with draft_folder(target, OURS):  # and who comes next puts it back
        assert (target / "one.txt").read_text() == "first"


def test_what_others_put_there_meanwhile_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "model"
    replace(target, "first")
    real = drafts.sync

    def late(path: Path) -> None:
        if path == draft_of(target):
            (target / "thesis.txt").write_text("mine")
        real(path)

    monkeypatch.setattr(drafts, "sync", late)
    with pytest.raises(InputError, match=r"the former folder with what was added lies in '(.*)'"):
        replace(target, "second")
    assert (target / "one.txt").read_text() == "second"
    (rescue,) = tmp_path.glob("model.former-*")
    assert (rescue / "thesis.txt").read_text() == "mine"


def test_errors_of_the_system_are_told(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file") as caught:
        drafts._rename(tmp_path / "none", tmp_path / "other", 1)
    assert caught.value.errno == errno.ENOENT


# One process at a time, and what those that died have left


def test_a_folder_is_written_by_one_process_at_a_time(tmp_path: Path) -> None:
    target = tmp_path / "model"
    with other_process(WRITING_FOLDER, target) as other:
        with pytest.raises(InputError, match=r"model' is being written by another process"):
            replace(target, "mine")
        replace(tmp_path / "another", "mine")  # negative control: another name is free
        other.send_signal(signal.SIGKILL)
        other.wait()
        assert os.listdir(draft_of(target)) == ["one.txt"]
        replace(target, "mine")
    assert (target / "one.txt").read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == ["another", "model"]


def test_a_dead_draft_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    target = tmp_path / "model"
    draft_of(target).mkdir()
    (draft_of(target) / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match=r"holds 'thesis.txt', which is not of whowrote's making"):
        replace(target, "new")
    assert (draft_of(target) / "thesis.txt").read_text() == "mine"


def test_drafts_of_files_are_cleared_when_their_process_is_dead(tmp_path: Path) -> None:
    target = tmp_path / "table.csv"
    (tmp_path / ".table.csv.backup.csv").write_text("mine")
    with other_process(WRITING_FILE, target) as other:
        (draft,) = (name for name in os.listdir(tmp_path) if drafts.is_draft(name))
        write_text(target, "mine")
        assert draft in os.listdir(tmp_path)  # negative control: a living one is left alone
        other.send_signal(signal.SIGKILL)
        other.wait()
    write_text(target, "mine again")
    assert sorted(os.listdir(tmp_path)) == [".table.csv.backup.csv", "table.csv"]


def test_two_drafts_of_one_target_do_not_meet(tmp_path: Path) -> None:
    with draft_file(tmp_path / "a") as one, draft_file(tmp_path / "a") as other:
        one.write_text("one")
        other.write_text("other")
        assert one.read_text() == "one"


# Names


@pytest.mark.parametrize(
    "name", ["n" * 250, "ü" * 120, b"caf\xe9".decode("utf-8", "surrogateescape")]
)
def test_long_and_odd_names_have_drafts_too(name: str, tmp_path: Path) -> None:
    write_text(tmp_path / name, "x")
    replace(tmp_path / f"{name[:-1]}m", "x")
    assert len(os.listdir(tmp_path)) == 2


def test_a_device_a_pipe_or_a_folder_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "null").symlink_to("/dev/null")
    for name, what in (("pipe", "no regular file"), ("null", "no regular"), ("folder", "a folder")):
        with pytest.raises(InputError, match=f"is {what}"), atomic_path(tmp_path / name):
            pass
    assert Path("/dev/null").is_char_device()


def test_a_probe_says_before_the_work_what_a_write_would_say_after_it(tmp_path: Path) -> None:
    probe(tmp_path / "new" / "table.csv")
    probe(tmp_path / "plots", folder=True)
    assert os.listdir(tmp_path) == []
    (tmp_path / "file").write_text("")
    for place in ("/proc/none/table.csv", tmp_path / "file" / "x.csv", tmp_path / ("n" * 300)):
        with pytest.raises(OSError, match=r"\[Errno"):
            probe(place)
