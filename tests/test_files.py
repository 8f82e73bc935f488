"""Files that are whole or absent, whatever happens while they are written."""

import os
from pathlib import Path

import numpy as np
import pytest

from whowrote.errors import InputError
from whowrote.files import ModelFile, atomic_path, read_model_file, write_model_file, write_text


def test_the_target_appears_when_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "new" / "folder" / "file.txt"
    with atomic_path(target) as draft:
        draft.write_text("half")
        assert not target.exists()
        assert draft.parent == target.parent  # a rename across file systems would not be atomic
        assert draft.suffix == ".txt"
    assert target.read_text() == "half"
    assert os.listdir(target.parent) == ["file.txt"]


def write_half(target: Path, problem: BaseException) -> None:
    with atomic_path(target) as draft:
        draft.write_text("new, but only ha")
        raise problem


@pytest.mark.parametrize("before", ["old", None])
def test_a_failure_leaves_what_was_there(before: str | None, tmp_path: Path) -> None:
    target = tmp_path / "file.txt"
    if before is not None:
        target.write_text(before)
    with pytest.raises(OSError, match="disk full"):
        write_half(target, OSError("disk full"))
    assert (target.read_text() if target.exists() else None) == before
    assert len(os.listdir(tmp_path)) == (before is not None)


def test_an_interruption_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        write_half(tmp_path / "file", KeyboardInterrupt())
    assert os.listdir(tmp_path) == []


def test_an_old_file_is_replaced(tmp_path: Path) -> None:
    target = tmp_path / "file.txt"
    write_text(target, "a long old text")
    write_text(str(target), "new: é")
    assert target.read_text(encoding="utf-8") == "new: é"


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX systems")
@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_permissions_are_those_of_an_ordinary_file(umask: int, mode: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        write_text(tmp_path / "file", "x")
        assert os.umask(umask) == umask  # left as it was found
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == mode


def test_a_sealed_file_is_what_was_written(tmp_path: Path) -> None:
    """A cache that no manifest names: a turned bit in a number is another training otherwise."""
    record = ModelFile("numbers", {"a": 1}, {"x": np.arange(6.0)})
    write_model_file(tmp_path / "a", record, sealed=True)
    assert read_model_file(tmp_path / "a", "numbers", sealed=True).values == {"a": 1}
    whole = (tmp_path / "a").read_bytes()
    for at in (whole.index(b'"a') + 1, len(whole) - 3, whole.index(b"numbers")):
        changed = bytearray(whole)
        changed[at] ^= 1
        (tmp_path / "a").write_bytes(changed)
        with pytest.raises(InputError, match="damaged"):
            read_model_file(tmp_path / "a", sealed=True)
    read_model_file(tmp_path / "a")  # negative control: unsealed, one name for another passes
    write_model_file(tmp_path / "b", record)
    with pytest.raises(InputError, match="remove it, and it is made anew"):
        read_model_file(tmp_path / "b", sealed=True)
