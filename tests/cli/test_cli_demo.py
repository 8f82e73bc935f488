import json
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

ROOSEVELT, EISENHOWER, LINCOLN = "Franklin D. Roosevelt", "Dwight D. Eisenhower", "Abraham Lincoln"
RESULT = DemoResult(
    answers=(
        Answer("1", 1934, ROOSEVELT, "Ann", "Ann", 0.999, 0.001, 0.5, True, True, "Ann", True),
        Answer("2", 1954, EISENHOWER, "Bob", "Bob", 0.61, 0.04, 0.08, False, True, "Cyd", False),
        Answer("3", 1861, LINCOLN, None, "Bob", 0.44, None, 0.002, True, False, "Bob", False),
    ),
    enrolled=(ROOSEVELT, EISENHOWER),
    outsider=LINCOLN,
    training_texts=20,
    training_passages=70,
    ours=Score(1, 2, wilson(1, 2)),
    svm=Score(1, 2, wilson(1, 2)),
    none=Score(1, 1, wilson(1, 1)),
    split_hash="0123456789abcdef" * 4,
    seed=7,
    page=Path("somewhere/demo.html"),
    plot=Path("somewhere/demo.png"),
    seconds={"all": 61.25},
    peak_memory_mb=321.0,
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Replace the work by a ready record and keep what the face asked for."""
    seen: dict[str, Any] = {}

    def run(out: Path, **options: Any) -> DemoResult:
        seen.update(options, out=out)
        return RESULT

    monkeypatch.setattr(work, "run", run)
    return seen


def test_flags_reach_the_work(asked: dict[str, Any]) -> None:
    runner.invoke(app, ["demo", "--presidents", "5", "--seed", "7", "--out", "x"])
    assert asked == {"presidents": 5, "seed": 7, "out": Path("x"), "outsider": LINCOLN}


def test_defaults(asked: dict[str, Any]) -> None:
    assert runner.invoke(app, ["demo"]).exit_code == 0
    out = Path("whowrote-demo")
    assert asked == {"presidents": 12, "seed": 0, "out": out, "outsider": LINCOLN}


@pytest.mark.usefixtures("asked")
def test_the_table_fits_eighty_columns_and_says_what_happened() -> None:
    answer = runner.invoke(app, ["demo"], env={"COLUMNS": "80"})
    lines = answer.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    shown = [" ".join(line.split()) for line in lines]
    assert "year true author whowrote prob. strangers SVM" in shown
    assert f"1934 {ROOSEVELT} Ann >99% 0.1% right right" in shown
    assert f"1954 {EISENHOWER} Bob 61% 4.0% WRONG WRONG" in shown
    assert f"1861 {LINCOLN} none of these 44% - right WRONG" in shown
    text = " ".join(answer.stdout.split())
    assert "whowrote: 1 of 2 right (95 % interval 9% to 91%)." in text
    assert "n-gram SVM: 1 of 2 right" in text
    assert "best candidate is right for 0 of these 2; 0 of them are refused" in text
    assert "Abraham Lincoln is not enrolled: 1 of their 1 addresses are said to be by none" in text
    assert "Time 61 s, peak memory 321 MB." in text
    assert "split 0123456789ab, seed 7" in text
    assert "Plot: somewhere/demo.png Page: somewhere/demo.html" in text


@pytest.mark.usefixtures("asked")
def test_no_progress_bar_where_there_is_no_terminal() -> None:
    assert runner.invoke(app, ["demo"]).stderr == ""


@pytest.mark.usefixtures("asked")
def test_json_is_one_object_and_nothing_else() -> None:
    answer = runner.invoke(app, ["demo", "--json"])
    plain = json.loads(answer.stdout)
    assert plain["ours"] == {"right": 1, "n": 2, "interval": {**plain["ours"]["interval"]}}
    assert [row["right"] for row in plain["answers"]] == [True, False, True]
    assert plain["answers"][2]["answer"] is None


def test_memory_is_left_out_where_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = replace(RESULT, peak_memory_mb=None)
    monkeypatch.setattr(work, "run", lambda *args, **options: silent)
    text = runner.invoke(app, ["demo"]).stdout
    assert "Time 61 s." in text
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
