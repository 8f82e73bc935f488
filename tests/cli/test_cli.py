"""The command line as a whole: quick help, examples, and errors of one line."""

import atexit
import gc
import json
import os
import re
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import whowrote
from loading import loaded, loaded_after
from whowrote import cli
from whowrote.cli import app, main
from whowrote.errors import InputError

runner = CliRunner()
COMMANDS = typer.main.get_group(app).list_commands(None)  # type: ignore[arg-type]
MODULES = [f"whowrote.cli.{name}" for name in ("corpora", "measures", "models", "vectors")]
HEAVY = ("torch", "sklearn", "numpy", "scipy", "matplotlib", "pyarrow")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "whowrote", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.skipif(os.name != "posix", reason="needs the resource usage of child processes")
def test_help_takes_half_a_second_of_cpu_time_at_most() -> None:
    import resource

    def used() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    times = []
    for _ in range(4):
        before = used()
        assert run("--help").returncode == 0
        times.append(used() - before)
    assert min(times) < 0.5  # the best: the first may have compiled the modules


def test_help_loads_nothing_heavy() -> None:
    asked = [["--help"], *([command, "--help"] for command in COMMANDS)]
    seen = loaded_after(HEAVY, asked)
    assert {" ".join(one): found for one, found in zip(asked, seen, strict=True) if found} == {}


def test_a_heavy_import_would_be_seen() -> None:
    assert loaded(HEAVY, "--help", before="import numpy\n") == ["numpy"]


def test_every_command_is_listed_and_those_of_other_packages_too() -> None:
    assert set(COMMANDS) == {
        *(
            "train",
            "attribute",
            "explain",
            "roll",
            "evaluate",
            "cluster",
            "link",
            "verify",
            "enroll",
            "inspect",
            "audit",
        ),
        *("case", "demo", "embed", "vectors", "sweep", "extractor", "experiment"),
        *("zeta", "tree", "distances", "compare", "stress"),
        *("demo", "embed", "sweep", "extractor", "experiment"),
        *("demo", "embed", "sweep", "extractor", "experiment", "serve"),
    }


def test_a_command_loads_no_other_one() -> None:
    others = [*MODULES, "whowrote_experiments"]
    assert loaded(others, "verify", "--help") == ["whowrote.cli.models"]
    assert loaded(others, "extractor", "train", "--help") == ["whowrote.cli.vectors"]
    assert loaded(others, "experiment", "--help") == ["whowrote_experiments"]
    assert loaded(others, "--help") == others  # whose first lines it shows


def test_a_reader_is_loaded_with_its_format(tmp_path: Path) -> None:
    readers = [f"whowrote.corpus.{name}" for name in ("folders", "pan", "tables")]
    (tmp_path / "a.txt").write_text("A text of some words.")
    assert loaded(readers, "audit", tmp_path / "a.txt") == ["whowrote.corpus.folders"]
    (tmp_path / "a.csv").write_text("text,author\nA text.,Ann\n")
    assert "whowrote.corpus.pan" not in loaded(readers, "audit", tmp_path / "a.csv")
    assert loaded(readers, "audit", tmp_path) == readers  # a folder may hold PAN's problems


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command: str) -> None:
    for flag in ("--help", "-h"):
        answer = runner.invoke(app, [command, flag], env={"COLUMNS": "100"})
        assert answer.exit_code == 0
        assert f"whowrote {command}" in answer.stdout.split("Example")[1]


def pages(app: typer.Typer) -> dict[str, str]:
    """The help of every command and of every command of a group, in a window of 80 columns."""
    found: dict[str, str] = {}
    group: Any = typer.main.get_group(app)
    ahead: list[tuple[str, ...]] = [(name,) for name in group.list_commands(None)]
    while ahead:
        path = ahead.pop()
        inner = group
        for name in path:
            inner = inner.get_command(None, name)
        ahead += [(*path, name) for name in getattr(inner, "commands", ())]
        shown = CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": "80"})
        found[" ".join(path)] = shown.stdout
    return found


def badly_shown(page: str) -> list[str]:
    """Lines that are cut or too wide, and explanations in a column of under 24 characters."""
    lines = page.splitlines()
    found = [line for line in lines if "\u2026" in line or len(line) > 80]
    if "Options" in page:
        shown = next(line for line in reversed(lines) if "--help" in line)
        column = len(shown) - shown.rindex("  Show") if "  Show" in shown else 0
        found += [shown] if 0 < column < 24 else []
    return found


def test_no_help_is_cut_in_eighty_columns() -> None:
    shown = pages(app)
    assert len(shown) > len(COMMANDS) + 10
    assert {path: badly_shown(page) for path, page in shown.items() if badly_shown(page)} == {}


def not_understood(example: str) -> str:
    """What is wrong with a command line, known from its words alone; nothing runs."""
    words = shlex.split(example)
    command: Any = typer.main.get_group(app)
    try:
        while hasattr(command, "get_command"):
            command = command.get_command(None, words.pop(0))
        command.make_context("example", words)
    except Exception as problem:
        return f"{example}: {problem}"
    return ""


def examples() -> list[str]:
    """Every example in the help of a command or of a group."""
    group: Any = typer.main.get_group(app)
    commands = [group.get_command(None, name) for name in COMMANDS]
    commands += [one for each in commands for one in getattr(each, "commands", {}).values()]
    said = "\n".join(f"{one.help}\n{one.epilog}" for one in commands)
    return [one.split(" > ")[0] for one in re.findall(r"Example: `whowrote ([^`]+)`", said)]


def test_every_example_in_help_is_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # that a result can be written is probed
    found = examples()
    assert len(found) > len(COMMANDS)
    assert [not_understood(one) for one in found if not_understood(one)] == []
    assert "--nonsense" in not_understood("train letters/ --nonsense")
    assert "seed" in not_understood("train letters/ --seed -1")


def test_a_help_that_is_cut_is_seen() -> None:
    planted = typer.Typer()

    @planted.command()
    def one(a_rather_long_name_of_an_option_that_is_on_by_default: bool = True) -> None:
        """A command."""

    @planted.command()
    def two(number: int = typer.Option(3, min=0, max=4294967295)) -> None:
        """Another."""

    shown = pages(planted)
    assert badly_shown(shown["one"])
    assert not badly_shown(shown["two"])


def test_help_lists_every_command_and_an_example() -> None:
    answer = runner.invoke(app, ["--help"])
    assert answer.exit_code == 0
    assert all(command in answer.stdout for command in COMMANDS)
    assert "Example: whowrote" in answer.stdout


def test_without_a_command_there_is_help() -> None:
    answer = runner.invoke(app, [])
    assert answer.exit_code == 2
    assert "Usage" in answer.output


def test_version() -> None:
    answer = runner.invoke(app, ["--version"])
    assert (answer.exit_code, answer.stdout) == (0, f"whowrote {whowrote.__version__}\n")


def test_version_as_json_lists_what_it_runs_on() -> None:
    for arguments in (["--version", "--json"], ["--json", "--version"]):
        answer = runner.invoke(app, arguments)
        assert answer.exit_code == 0
        listed = json.loads(answer.stdout)
        assert listed["whowrote"] == whowrote.__version__
        assert listed["torch"] == version("torch")
        assert "sphinx" not in listed  # of an extra
    assert isinstance(runner.invoke(app, ["--json"]).exception, InputError)


def test_unknown_commands_and_options_leave_with_status_two() -> None:
    for arguments, said in ((["atribute"], "No such command"), (["--nope"], "No such option")):
        answer = runner.invoke(app, arguments)
        assert answer.exit_code == 2
        assert said in answer.stderr
    assert "Did you mean 'attribute'?" in " ".join(runner.invoke(app, ["atribute"]).stderr.split())


def test_bad_input_is_one_line_on_standard_error() -> None:
    done = run("audit", "no/such/corpus")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("whowrote: ")
    assert len(done.stderr.splitlines()) == 1


def test_no_garbage_is_looked_for_when_the_process_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    at_the_end: list[Any] = []
    monkeypatch.setattr(cli, "app", lambda: None)
    monkeypatch.setattr(atexit, "register", at_the_end.append)
    main()
    assert at_the_end == [gc.freeze]


def test_waiting_threads_sleep_unless_the_user_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str | None] = []
    monkeypatch.setattr(cli, "app", lambda: said.append(os.environ.get("OMP_WAIT_POLICY")))
    monkeypatch.setattr(os, "environ", {})
    main()
    os.environ["OMP_WAIT_POLICY"] = "active"
    main()
    assert said == ["passive", "active"]


def test_main_turns_bad_input_alone_into_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(problem: Exception) -> Any:
        def raising() -> None:
            raise problem

        return raising

    monkeypatch.setattr(cli, "app", fail(InputError("a is 1; it must be 2")))
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    assert capsys.readouterr() == ("", "whowrote: a is 1; it must be 2\n")
    # Negative control: a mistake of ours is not passed off as the user's.
    monkeypatch.setattr(cli, "app", fail(ValueError("a bug")))
    with pytest.raises(ValueError, match="a bug"):
        main()
