"""SIGKILL at any operation on files loses nothing and leaves no draft: the short form."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from faults.kills import COMMANDS, EVERY, Command, attack, drafts_in, forked
from whowrote.case.exhibits import WRITTEN, Case, problems

pytestmark = pytest.mark.skipif(os.name != "posix", reason="forks and signals of POSIX systems")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """A process with several threads must not be forked."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("title", ["case add"])
def test_nothing_is_lost_and_no_draft_stays(title: str, tmp_path: Path) -> None:
    found = attack(COMMANDS[title], tmp_path, kills=EVERY, seed=1, seconds=60)
    assert found.wrong == []
    assert found.by_operation >= 3
    assert found.ends == 1


def test_the_search_finds_what_it_looks_for(tmp_path: Path) -> None:
    """Negative control: a command that removes before it writes loses its result."""

    def careless(folder: Path, number: int) -> None:
        (folder / "result").unlink(missing_ok=True)
        with (folder / "result").open("w") as file:
            file.write("whole")
        (folder / ".result.draft").touch()

    def holds(folder: Path) -> str:
        path = folder / "result"
        return "" if path.exists() and path.read_text() == "whole" else "lost"

    command = Command(careless, holds, lambda _: "", lambda folder: restore(folder))

    def restore(folder: Path) -> None:
        (folder / "result").write_text("whole")

    found = attack(command, tmp_path, kills=16, seed=0, seconds=20, every=4)
    assert any("lost" in one for one in found.wrong)
    assert any("drafts ['.result.draft']" in one for one in found.wrong)


def test_a_killed_case_is_not_taken_for_a_forged_one(tmp_path: Path) -> None:
    """Wherever it dies: the files are those of the log, the former ones or the new ones."""
    folder = tmp_path / "case"
    case = Case.new(folder, "Who?", population="people", features="ngrams")
    pages = dict.fromkeys(WRITTEN["report"], "first")
    case.write("report", pages)
    status, operations = forked(lambda: case.write("report", pages))
    assert status == 0
    seen = set()
    for at in range(1, operations + 1):
        new = dict.fromkeys(pages, f"written at {at}")
        assert forked(lambda: case.write("report", new), at=at)[0] == -9  # noqa: B023
        assert problems(folder) == []
        texts = {(folder / name).read_text() for name in pages}
        assert len(texts) == 1
        seen.add(texts == set(new.values()))
    assert seen == {True, False}
    case.write("report", pages)
    assert drafts_in(folder) == []
    assert not list(folder.glob(".*.next"))


def test_operations_are_counted_and_killed_at(tmp_path: Path) -> None:
    def work() -> None:
        for number in range(3):
            (tmp_path / str(number)).mkdir(exist_ok=True)

    assert forked(work) == (0, 3)
    assert forked(work, at=2)[0] == -9
