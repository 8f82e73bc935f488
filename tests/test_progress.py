"""Progress is drawn on a terminal, on standard error, and nowhere else."""

from dataclasses import dataclass

import pytest

from whowrote import progress
from whowrote.progress import Tally, epoch_bar, fit_bar, stage_bars, tell


@dataclass(frozen=True)
class Record:
    phase: str = "labelled"
    epoch: int = 2
    watched: float | None = 0.25


def show(record: Record, wanted: bool = True) -> bool:
    with epoch_bar(3, wanted) as draw:
        if draw is not None:
            draw(record)
    return draw is not None


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("FORCE_COLOR", "1")  # what rich takes for a terminal


@pytest.mark.usefixtures("terminal")
def test_a_terminal_sees_phase_epoch_and_what_is_watched(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert show(Record())
    out, err = capsys.readouterr()
    assert out == ""
    assert "labelled" in err
    assert "2/3" in err
    assert "watched 0.2500" in err


@pytest.mark.usefixtures("terminal")
def test_nothing_is_watched_without_validation_rows(capsys: pytest.CaptureFixture[str]) -> None:
    show(Record(watched=None))
    err = capsys.readouterr().err
    assert "labelled" in err
    assert "watched" not in err


@pytest.mark.usefixtures("terminal")
def test_nobody_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert not show(Record(), wanted=False)
    assert capsys.readouterr() == ("", "")


def test_a_file_or_a_pipe_sees_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    assert show(Record())
    assert capsys.readouterr() == ("", "")


def test_a_log_hears_of_long_work_and_nothing_of_short(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    with stage_bars():
        tell("reading", 1, 2)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(progress, "EVERY", 0.0)
    with stage_bars():
        tell("reading", 1, 2)
    assert capsys.readouterr() == ("", "whowrote: reading: 1 of 2 (0 s)\n")
    with stage_bars(False):
        tell("reading", 1, 2)
    assert capsys.readouterr() == ("", "")


def test_a_log_hears_of_fits(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(progress, "EVERY", 0.0)
    with fit_bar(5, True) as draw:
        assert draw is not None
        draw(Tally(total=5, done=3))
    assert "fits: 3 of 5" in capsys.readouterr().err
