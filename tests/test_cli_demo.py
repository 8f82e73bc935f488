import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from whowrote import demo as work
from whowrote.cli import app, main
from whowrote.demo import Answer, DemoResult, Score
from whowrote.metrics import wilson

runner = CliRunner()

RESULT = DemoResult(
    answers=(
        Answer("1934-Roosevelt-1", 1934, "Franklin D. Roosevelt", "Ann", 0.999, True, 9, 8),
        Answer("1954-Eisenhower-1", 1954, "Dwight D. Eisenhower", "Bob", 0.61, False, 9, 3),
        Answer("1861-Lincoln-1", 1861, "Abraham Lincoln", "Bob", 0.44, None, 9, 0),
    ),
    enrolled=("Franklin D. Roosevelt", "Dwight D. Eisenhower"),
    outsider="Abraham Lincoln",
    model="NGramSVM",
    training_passages=70,
    passages=Score(11, 18, wilson(11, 18)),
    addresses=Score(1, 2, wilson(1, 2)),
    split_hash="0123456789abcdef" * 4,
    seed=7,
    plot=Path("somewhere/demo.png"),
    seconds=1.25,
    peak_memory_mb=321.0,
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Replace the work by a ready record and keep what the face asked for."""
    seen: dict[str, Any] = {}

    def run(out: Path, *, report: Callable[[str], None], **options: Any) -> DemoResult:
        for stage in ("one", "two", "three", "four"):
            report(stage)
        seen.update(options, out=out)
        return RESULT

    monkeypatch.setattr(work, "run", run)
    return seen


def test_flags_reach_the_work(asked: dict[str, Any]) -> None:
    runner.invoke(app, ["demo", "--presidents", "5", "--seed", "7", "--out", "x"])
    assert asked == {"presidents": 5, "seed": 7, "out": Path("x")}


def test_defaults(asked: dict[str, Any]) -> None:
    assert runner.invoke(app, ["demo"]).exit_code == 0
    assert asked == {"presidents": 12, "seed": 0, "out": Path("whowrote-demo")}


@pytest.mark.usefixtures("asked")
def test_the_table_fits_eighty_columns_and_says_what_happened() -> None:
    answer = runner.invoke(app, ["demo"], env={"COLUMNS": "80"})
    lines = answer.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    shown = [" ".join(line.split()) for line in lines]
    assert "address year true author answer prob." in shown
    assert "1934-Roosevelt-1 1934 Franklin D. Roosevelt Ann >99% right" in shown
    assert "1954-Eisenhower-1 1954 Dwight D. Eisenhower Bob 61% WRONG" in shown
    assert "1861-Lincoln-1 1861 Abraham Lincoln Bob 44% -" in shown
    text = " ".join(answer.stdout.split())
    assert "Addresses right: 1 of 2 (50.0%, 95 % interval 9% to 91%)." in text
    assert "Passages right: 11 of 18 (61.1%," in text
    assert "Abraham Lincoln is not enrolled" in text
    assert "cannot say 'none of these' yet; it gave its answers 44% on average" in text
    assert "Time 1.2 s, peak memory 321 MB." in text
    assert "split 0123456789ab, seed 7" in text
    assert "Plot: somewhere/demo.png" in text


@pytest.mark.usefixtures("asked")
def test_no_progress_bar_where_there_is_no_terminal() -> None:
    answer = runner.invoke(app, ["demo"])
    assert answer.stderr == ""
    assert "three" not in answer.stdout


@pytest.mark.usefixtures("asked")
def test_json_is_one_object_and_nothing_else() -> None:
    answer = runner.invoke(app, ["demo", "--json"])
    plain = json.loads(answer.stdout)
    assert plain["addresses"] == {
        "right": 1,
        "n": 2,
        "interval": {**plain["addresses"]["interval"]},
    }
    assert [row["right"] for row in plain["answers"]] == [True, False, None]


def test_memory_is_left_out_where_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = replace(RESULT, peak_memory_mb=None)
    monkeypatch.setattr(work, "run", lambda *args, **options: silent)
    text = runner.invoke(app, ["demo"]).stdout
    assert "Time 1.2 s." in text
    assert "memory" not in text


def test_help_has_an_example() -> None:
    answer = runner.invoke(app, ["demo", "--help"])
    assert answer.exit_code == 0
    assert "Example" in answer.stdout
    assert "--presidents" in answer.stdout


def test_bad_input_is_one_sentence_and_status_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "demo"
    monkeypatch.setattr("sys.argv", ["whowrote", "demo", "--presidents", "1", "--out", str(folder)])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    said = capsys.readouterr()
    assert said.err.startswith("whowrote: presidents is 1; it must lie between 2 and")
    assert said.out == ""
    assert not folder.exists()


def test_the_real_thing_on_two_presidents(tmp_path: Path) -> None:
    answer = runner.invoke(app, ["demo", "--presidents", "2", "--json", "--out", str(tmp_path)])
    plain = json.loads(answer.stdout)
    assert plain["passages"]["right"] > 0.7 * plain["passages"]["n"]
    assert Path(plain["plot"]).is_file()
