"""A case from its texts to findings, and what becomes of one that was changed."""

import json
import shutil
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from attribution.people import corpus as people
from attribution.people import texts_by
from case.conftest import HOSTILE, add, command, findings
from whowrote.attribution.verification import (
    fit_verifier,
)
from whowrote.case import Case
from whowrote.case.exhibits import append, problems, read_log
from whowrote.case.findings import RATIO, TOO_LITTLE, compute, run, weigh
from whowrote.case.replay import compared, replay
from whowrote.cli import app
from whowrote.drafts import held
from whowrote.errors import InputError
from whowrote.features.ngrams import NGrams
from whowrote.ratios import Bounds


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "copy"))


# Findings


def test_candidates_are_weighed_and_short_texts_are_not(made: Path) -> None:
    found: Any = findings(made)
    first, second, short = found["findings"]
    floor = found["validation"]["floor"]
    assert (first["answer"], second["answer"], short["answer"]) == (RATIO, RATIO, TOO_LITTLE)
    assert f"from {floor} words on" in short["reason"]
    assert short["ratios"] == []
    assert short["attribution"] is None
    for one, right in ((first, 0), (second, 1)):
        ratios = [r["log10_lr"] for r in one["ratios"]]
        assert ratios[right] > 0 > ratios[1 - right]
        for r in one["ratios"]:
            assert r["low"] <= r["log10_lr"] <= r["high"]
            assert r["bounds"]["low"] <= r["log10_lr"] <= r["bounds"]["high"]


def test_no_ratio_is_printed_without_propositions_and_population(made: Path) -> None:
    for one in findings(made)["findings"]:  # type: ignore[attr-defined]
        for ratio in one["ratios"]:
            for part in (*ratio["propositions"], "made-up people", "95 % interval"):
                assert part in ratio["sentence"]


def test_steps_are_logged_in_order(made: Path) -> None:
    actions = [entry.action for entry in read_log(made / "log.jsonl").entries]
    assert actions[-5:] == ["audit", "validation", "calibration", "findings", "report"]


def test_too_few_people_give_no_ratio(tmp_path: Path) -> None:
    case = Case.new(tmp_path / "c", "Who?", population="nobody", features="ngrams")
    case = add(case, "known", texts_by(0, 3), "Ann")
    case = add(case, "questioned", texts_by(0, 1, seed=5))
    (found,) = compute(case)["findings"]
    assert found["answer"] == "not validated"
    assert "add reference texts by others" in found["reason"]
    assert found["ratios"] == []


@cache
def weighing() -> Any:
    texts, _ = people(6, 4)
    features = NGrams().fit(texts).fitted()
    return features, fit_verifier(features, texts, np.repeat(np.arange(6), 4))


@given(st.lists(st.text(max_size=80), min_size=1, max_size=3), st.text(max_size=200))
@settings(deadline=None, max_examples=80)
def test_a_ratio_is_finite_for_any_texts(known: list[str], asked: str) -> None:
    features, verifier = weighing()
    about = {"candidate": "A", "population": "p", "bounds": Bounds(-2.0, 1.5)}
    if not asked.strip() or not "".join(known).strip():
        with pytest.raises(InputError, match="a text must have words"):
            weigh(features, verifier, known, asked, **about)
        return
    found = weigh(features, verifier, known, asked, **about)
    assert -2.0 <= found.low <= found.log10_lr <= found.high <= 1.5
    assert all(0 < one.low <= one.high < 1 for one in found.posteriors)


# The register


def test_a_text_is_registered_once_and_needs_an_author(tmp_path: Path) -> None:
    case = Case.new(tmp_path / "c", "Who?", population="people", features="ngrams")
    case = add(case, "known", texts_by(0, 2), "Ann")
    with pytest.raises(InputError, match=r"in the case already, as K1 \(known\)"):
        add(case, "questioned", texts_by(0, 2))
    with pytest.raises(InputError, match="has no author"):
        add(case, "reference", texts_by(1, 1))
    with pytest.raises(InputError, match="role is 'witness'"):
        add(case, "witness", texts_by(1, 1))
    with pytest.raises(InputError, match="0 questioned texts and 1 candidates"):
        run(case)
    with pytest.raises(InputError, match="is there already"):
        Case.new(tmp_path / "c", "Who?", population="people")
    with pytest.raises(InputError, match="population is empty"):
        Case.new(tmp_path / "d", "Who?", population=" ")


def test_a_line_that_is_not_whole_and_a_missing_log_are_named(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    append(path, "new", {"a": 1})
    append(path, "add", {"b": "ü"})
    assert not read_log(path).broken
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    assert read_log(path).broken == "log.jsonl, line 2: the line is not whole"
    with pytest.raises(InputError, match="nothing can follow it"):
        append(path, "add", {})
    path.write_bytes(whole.split(b"\n")[1] + b"\n")  # the first entry is gone
    assert read_log(path).broken == "log.jsonl, line 1: the chain of hashes breaks"
    with pytest.raises(InputError, match=r"log\.jsonl is missing"):
        Case.open(tmp_path / "none")


def test_a_folder_that_a_dead_process_has_left_is_no_case(tmp_path: Path) -> None:
    """Whatever it had begun to write is gone, and the name is free."""
    (tmp_path / ".log.jsonl.0123456789ab.draft.jsonl").write_text("{")
    assert Case.new(tmp_path, "Who?", population="people").question.question == "Who?"
    assert [one.name for one in tmp_path.iterdir()] == ["log.jsonl"]


ASKED = {"question": "Who?", "population": "people", "features": "ngrams", "seed": 0}
BEGUN = ("new", {**ASKED, "version": "1", "closed": False})
TEXT = {
    **{"id": "Q1", "role": "questioned", "author": None, "sha256": "0" * 64, "words": 3},
    **{"group": "g", "source": "s", "source_sha256": None},
}


@pytest.mark.parametrize(
    "entries",
    [
        [("new", {})],
        [("new", [1])],
        [("add", {"texts": []})],
        [BEGUN, BEGUN],
        [BEGUN, ("add", {})],
        [BEGUN, ("add", {"texts": 3})],
        [BEGUN, ("add", {"texts": [{"id": "Q1"}]})],
        [BEGUN, ("add", {"texts": [{**TEXT, "sha256": "../../../etc/passwd"}]})],
        [BEGUN, ("add", {"texts": [{**TEXT, "words": "three"}]})],
        [BEGUN, ("add", {"texts": [{**TEXT, "role": "judge"}]})],
        [BEGUN, ("findings", {})],
        [BEGUN, ("report", {"sha256": ["report.html"]})],
    ],
)
def test_a_sound_chain_of_strange_entries_is_a_sentence(
    entries: list[tuple[str, Any]], tmp_path: Path
) -> None:
    """Whoever knows the format can make a chain; what it tells is looked at all the same."""
    for action, details in entries:
        append(tmp_path / "log.jsonl", action, details)
    why = f"line {len(entries)}: the entry is not one that whowrote writes"
    with pytest.raises(InputError, match=why):
        Case.open(tmp_path)
    assert why in problems(tmp_path)[0]


def test_a_log_nested_without_end_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_bytes(b"[" * 100_000 + b"\n")
    with pytest.raises(InputError, match="the chain of hashes breaks"):
        Case.open(tmp_path)


# Replay


def test_replay_in_another_process_is_equal(copy: Path) -> None:
    code, said = command("replay", copy, "-q")
    assert (code, said) == (0, "Replay: equal.\n")


def test_replay_with_two_threads_is_equal_within_the_tolerance(copy: Path) -> None:
    code, said = command("replay", copy, "-q", "--json", threads=2)
    found = json.loads(said)
    assert code == 0
    assert found["outcome"] in ("equal", "equal within tolerance")
    assert found["largest"] <= found["tolerance"] == 1e-4


def test_each_of_fifty_changed_bytes_is_named(copy: Path) -> None:
    random = np.random.default_rng(0)
    assert problems(copy) == []
    files = sorted(path for path in copy.rglob("*") if path.is_file())
    records = [path for path in files if path.parent == copy]
    for number in range(50):
        path = (records if number % 2 else files)[
            int(random.integers(len(records if number % 2 else files)))
        ]
        whole = path.read_bytes()
        at = int(random.integers(len(whole)))
        other = (whole[at] + int(random.integers(1, 256))) % 256
        path.write_bytes(whole[:at] + bytes([other]) + whole[at + 1 :])
        found = replay(copy)
        named = path.relative_to(copy).as_posix()
        assert found.outcome == "changed"
        assert any(one.startswith(named) for one in found.problems), (named, at, found.problems)
        path.write_bytes(whole)
    assert problems(copy) == []


def test_a_changed_text_ends_a_run_and_a_replay(copy: Path) -> None:
    exhibit = Case.open(copy).exhibits[0]
    (copy / exhibit.file).write_text("another text", encoding="utf-8")
    with pytest.raises(InputError, match=rf"{exhibit.sha256}.txt \({exhibit.id}\) is missing or"):
        run(Case.open(copy))
    code, said = command("replay", copy, "-q")
    assert code == 1
    assert f"{exhibit.file} ({exhibit.id}) is not as the log says" in said


def test_findings_that_the_log_does_not_tell_of_are_named(copy: Path) -> None:
    log = copy / "log.jsonl"
    lines = log.read_text(encoding="utf-8").splitlines(keepends=True)
    log.write_text("".join(lines[:-2]), encoding="utf-8")
    assert "findings.json is there, but the log does not tell of it" in problems(copy)


def test_differences_have_a_place_and_a_size() -> None:
    before = {"a": [1.0, {"b": 2.0}], "versions": {"torch": "1"}, "c": 1}
    assert compared(before, before).outcome == "equal"
    near = compared(before, {**before, "a": [1.0, {"b": 2.0 + 1e-7}]})
    assert (near.outcome, near.sound) == ("equal within tolerance", True)
    far = compared(before, {**before, "a": [1.0, {"b": 2.1}], "versions": {"torch": "2"}})
    assert (far.outcome, far.sound) == ("different", False)
    assert [one.place for one in far.differences] == ["a.1.b"]
    assert [one.place for one in far.versions] == ["versions.torch"]
    assert compared(before, {**before, "c": True}).outcome == "different"
    assert compared(before, {**before, "a": [1.0]}).differences[0].place == "a"


def test_a_killed_run_can_be_repeated(made: Path, copy: Path) -> None:
    (copy / "findings.json").unlink()
    started = subprocess.Popen([sys.executable, "-m", "whowrote", "case", "run", str(copy), "-q"])
    before = len(read_log(copy / "log.jsonl").entries)
    for _ in range(600):
        if len(read_log(copy / "log.jsonl").entries) > before:
            break
        time.sleep(0.05)
    started.send_signal(signal.SIGKILL)
    started.wait()
    assert not read_log(copy / "log.jsonl").broken
    run(Case.open(copy))
    assert findings(copy) == findings(made)


# The commands


def test_from_folders_to_a_report_by_commands(tmp_path: Path) -> None:
    for author in range(4):
        role = "known" if author < 1 else "reference"
        folder = tmp_path / role / f"P{author}"
        folder.mkdir(parents=True)
        for number, text in enumerate(texts_by(author, 4)):
            (folder / f"{number}.txt").write_text(text, encoding="utf-8")
    (tmp_path / "q.txt").write_text(texts_by(0, 1, seed=5)[0], encoding="utf-8")
    case, runner = tmp_path / "case", CliRunner()

    def command(*arguments: object) -> tuple[int, str]:
        said = runner.invoke(app, ["case", *map(str, arguments)])
        if isinstance(said.exception, InputError):  # main() prints it
            return 2, str(said.exception)
        return said.exit_code, said.output

    asked = ("--question", "Who?", "--population", "people", "--features", "ngrams")
    assert command("new", case, *asked)[0] == 0
    assert "1 text questioned" in command("add", case, tmp_path / "q.txt", "--as", "questioned")[1]
    assert "K1 to K4" in command("add", case, tmp_path / "known", "--as", "known")[1]
    assert command("add", case, tmp_path / "reference", "--as", "reference")[0] == 0
    code, said = command("report", case)
    assert (code, "has no findings yet" in said) == (2, True)
    code, said = command("run", case, "-q")
    assert code == 0
    assert "Q1:" in said
    assert command("report", case)[0] == 0
    assert HOSTILE not in (case / "report.html").read_text(encoding="utf-8")


# Two at once


def test_two_processes_do_not_write_into_one_log(tmp_path: Path) -> None:
    """What was prepared for another state of the log is refused, and so is a log that is held."""
    case = Case.new(tmp_path / "case", "Who?", population="people", features="ngrams")
    other = Case.open(case.folder)
    add(case, "known", texts_by(0, 2), "Ann")
    with pytest.raises(InputError, match="another process has written into"):
        add(other, "known", texts_by(1, 2), "Bob")
    add(Case.open(case.folder), "known", texts_by(1, 2), "Bob")  # negative control
    with held(case.folder, case.folder), pytest.raises(InputError, match="is being written by"):
        Case.open(case.folder).record("note", {})
    assert [one.id for one in Case.open(case.folder).exhibits] == ["K1", "K2", "K3", "K4"]
