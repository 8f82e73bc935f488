"""``whowrote sweep``: one file in, records and a table out; bad files are one sentence."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from threads import one_thread as one_thread
from whowrote.cli import main
from whowrote.sweep import Halving, RandomSearch, read, read_config

N = 90
DOCS = Path(__file__).parents[2] / "docs" / "sweep.md"
CONFIG = """
[data]
vectors = "vectors.npz"
[splits]
folds = 3
shares = [0.5, 1.0]
[grid]
component = ["student-t", "gaussian"]
learning_rate = [0.005, 0.05]
[fit]
latent_dim = 2
hidden = 6
max_epochs = 3
batch_size = 16
dropout = [0.1, 0.2]
"""

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command in this process: status, standard output, standard error."""
    monkeypatch.setenv("COLUMNS", "120")

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["whowrote", "sweep", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        shown = capsys.readouterr()
        return int(left.value.code or 0), shown.out, shown.err

    return call


def write_vectors(folder: Path) -> None:
    rng = np.random.default_rng(0)
    codes = np.arange(N) % 3
    vectors = 2 * rng.normal(size=(3, 4))[codes] + rng.normal(size=(N, 4))
    np.savez(folder / "vectors.npz", X=vectors, y=np.array(["ann", "bob", "cyd"])[codes])


@pytest.fixture
def config(tmp_path: Path) -> Path:
    write_vectors(tmp_path)
    (tmp_path / "grid.toml").write_text(CONFIG)
    return tmp_path / "grid.toml"


def test_the_table_shows_the_best_by_development_error(run: Run, config: Path) -> None:
    status, out, err = run(config)
    folder = config.with_suffix(".records")
    results = read(folder)
    assert (status, err) == (0, "")
    assert f"Records: {folder} (24 fits)" in out
    assert "test error" not in out.lower()
    rows = [line.split() for line in out.splitlines() if line.startswith(("gauss", "student"))]
    assert rows == [
        [
            choice.key["component"],
            f"{choice.key['share']:g}",
            f"{choice.configuration['learning_rate']:g}",
            f"{choice.development_error:.2%}",
            "2",
        ]
        for choice in results.best()
    ]
    assert "learning_rate" in out
    assert "latent_dim" not in out  # the same for all


def test_test_errors_are_shown_only_when_asked_for(run: Run, config: Path) -> None:
    plain = json.loads(run(config, "--json")[1])
    assert "test" not in plain
    out = run(config, "--test")[1]
    asked = json.loads(run(config, "--test", "--json")[1])
    rows = read(config.with_suffix(".records")).table()
    assert [row["test_error"] for row in asked["test"]] == [row.test_error for row in rows]
    assert "Test error, every fold with its own choice" in out
    for row in rows:
        assert f"{row.test_error:.2%}" in out
        assert f"{row.test_sd:.2%}" in out


def test_json_and_a_second_run(run: Run, config: Path, tmp_path: Path) -> None:
    arguments = config, "--out", tmp_path / "elsewhere", "--json", "--quiet", "--device", "cpu"
    first = run(*arguments)
    assert first[0] == 0
    made = {path: path.stat().st_mtime_ns for path in tmp_path.glob("elsewhere/??/*.json")}
    found = json.loads(first[1])
    assert (found["n_fits"], found["n_diverged"]) == (len(made), 0) == (24, 0)
    assert found["records"] == str(tmp_path / "elsewhere")
    best = found["best"][0]
    assert (best["component"], best["share"], best["n_candidates"]) == ("gaussian", 0.5, 2)
    assert best["configuration"]["dropout"] == [0.1, 0.2]
    assert run(*arguments) == first
    assert {path: path.stat().st_mtime_ns for path in made} == made


def test_divergence_and_damage_are_told(run: Run, config: Path) -> None:
    text = CONFIG.replace("[0.005, 0.05]", "[0.05, 1e6]").replace("batch_size = 16", "")
    config.write_text(text + "batch_size = 200\n")
    assert "(24 fits, 12 diverged)" in run(config)[1]
    path = next(config.with_suffix(".records").glob("??/*.json"))
    path.write_text("{")
    status, out, err = run(config)
    assert status == 0
    assert "(24 fits, 12 diverged)" in out
    assert err == (
        f"whowrote: the record '{path}' is damaged (it is not whole JSON) and does not count; a "
        "sweep fits it again\n"
    )


def test_every_part_of_a_file_is_understood(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text(
        """
        [data]
        vectors = "sub/v.parquet"
        author = "by"
        vector = "v"
        group = "letter"
        [splits]
        folds = 4
        seed = 3
        shares = [0.2]
        only = [1]
        [[grid]]
        latent_dim = [1, 2]
        [[grid]]
        l1 = {low = 0.1, high = 1.0}
        [fit]
        dropout = [0.1, 0.2]
        seeds = [1, 2]
        watch = "error"
        dtype = "float64"
        group_size = 5
        plan = {final_rate = 0.1}
        [search]
        kind = "halving"
        factor = 2
        rungs = 4
        n = 9
        seed = 1
        """
    )
    found = read_config(path)
    assert found.vectors == tmp_path / "sub" / "v.parquet"
    assert found.columns == {"author": "by", "vector": "v", "group": "letter"}
    assert (found.n_folds, found.seed, found.shares, found.only) == (4, 3, [0.2], [1])
    assert found.grids == [
        {"latent_dim": [1, 2], "dropout": [[0.1, 0.2]]},
        {"l1": {"low": 0.1, "high": 1.0}, "dropout": [[0.1, 0.2]]},
    ]
    assert found.options == {
        "seeds": [1, 2],
        "watch": "error",
        "dtype": "float64",
        "group_size": 5,
        "plan": {"final_rate": 0.1},
    }
    assert found.search == Halving(2, 4, RandomSearch(9, 1))
    path.write_text('[data]\nvectors = "v.npz"\n[search]\nkind = "random"\nn = 4\n')
    assert read_config(path).search == RandomSearch(4)
    assert read_config(path).grids == [{}]


def changed(old: str, new: str) -> str:
    assert old in CONFIG
    return CONFIG.replace(old, new)


BAD: dict[str, tuple[str, str]] = {
    "no TOML": ("[data", "grid.toml' is not valid TOML ("),
    "a misspelt section": (changed("[grid]", "[gird]"), "has 'gird'; it may have data, splits"),
    "no data": ("[grid]\nl1 = [0.1]", 'names no vectors; add [data] with vectors = "vectors.npz"'),
    "no file": (changed("vectors.npz", "gone.npz"), "there is no file of vectors at"),
    "a number for a path": (changed('"vectors.npz"', "7"), "vectors in [data] is 7; it must be"),
    "a misspelt key": (changed("folds", "fold"), "[splits] has 'fold'; it may have folds, seed"),
    "too many folds": (changed("folds = 3", "folds = 40"), "40 folds need at least 40"),
    "no number of folds": (
        changed("folds = 3", 'folds = "x"'),
        "folds in [splits] is 'x'; it must be",
    ),
    "a bad share": (changed("[0.5, 1.0]", "[0.5, 2.0]"), "share is 2.0; a fraction"),
    "shares in words": (changed("[0.5, 1.0]", '"all"'), "shares in [splits] is 'all'; it must be"),
    "a fold too far": (changed("folds = 3", "folds = 3\nonly = [3]"), "only has fold 3; there are"),
    "a bad seed": (changed("folds = 3", "folds = 3\nseed = -1"), "seed in [splits] is -1"),
    "an unknown parameter": (
        changed("learning_rate", "learning_rte"),
        "'learning_rte' is no parameter of a grid; there are",
    ),
    "an unknown setting": (changed("hidden", "hiden"), "did you mean 'hidden'?"),
    "members": (changed("hidden", "n_members"), "'n_members' cannot be in a grid; give several"),
    "a bad value": (changed("0.005", "-1"), "learning_rate is -1; it must be a number above 0"),
    "a list that must be one": (changed("latent_dim = 2", "latent_dim = [2]"), "latent_dim is [2]"),
    "both": (changed("[fit]", "[fit]\ncomponent = 1"), "component is in [grid] and in [fit]"),
    "a grid that is none": ("grid = 3\n" + changed("[grid]", "[x]"), "the file has 'x'"),
    "a number for a grid": (
        'grid = 3\n[data]\nvectors = "vectors.npz"',
        "grid is 3; it must be a section: write [grid]",
    ),
    "a number for a section": ("data = 3", "data is 3; it must be a section: write [data]"),
    "a range without a search": (
        changed("[0.005, 0.05]", "{low = 0.1, high = 0.2}"),
        "learning_rate is a range, and a full grid needs lists",
    ),
    "an unknown search": (CONFIG + '[search]\nkind = "bayes"', "[search] is {'kind': 'bayes'}; it"),
    "a search without n": (CONFIG + '[search]\nkind = "random"', "it must be kind ="),
    "a bad search": (CONFIG + '[search]\nkind = "halving"\nrungs = 0', "rungs is 0; it must be"),
    "bad seeds": (changed("[fit]", "[fit]\nseeds = 3"), "seeds in [fit] is 3; it must be a list"),
    "a bad watch": (changed("[fit]", '[fit]\nwatch = "loss"'), "watch is 'loss'; it must be one"),
    "a bad plan": (changed("[fit]", "[fit]\nplan = 3"), "plan in [fit] is 3; it must be a table"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files_are_one_sentence_and_status_2(run: Run, config: Path, case: str) -> None:
    text, message = BAD[case]
    config.write_text(text)
    status, out, err = run(config)
    assert (status, out) == (2, "")
    assert err.startswith("whowrote: ")
    assert message in err
    assert err.count("\n") == 1
    assert not config.with_suffix(".records").exists()


def test_missing_and_unreadable_files(run: Run, config: Path, tmp_path: Path) -> None:
    gone = run(tmp_path / "gone.toml")
    assert gone[::2] == (
        2,
        f"whowrote: '{tmp_path / 'gone.toml'}' cannot be read (No such file or directory); give "
        "the path of a TOML file\n",
    )
    (tmp_path / "v.npz").write_bytes(b"PK\x03\x04")
    assert 'vectors = "v.npz"' in run(tmp_path / "v.npz")[2]
    config.write_bytes(b"\xff\xfe\x00")
    assert run(config)[0] == 2
    config.write_text(CONFIG)
    assert "device is 'tpu'" in run(config, "--device", "tpu")[2]
    (tmp_path / "file").write_text("")
    assert "a part of it is a file" in run(config, "--out", tmp_path / "file")[2]


# ------------------------------------------------------------------------------ documentation


def blocks(language: str) -> list[str]:
    found = re.findall(rf"```{language}\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert found
    return found


def test_the_documented_program_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_vectors(tmp_path)
    monkeypatch.chdir(tmp_path)
    (program,) = blocks("python")
    names: dict[str, Any] = {}
    exec(program, names)
    assert len(names["results"]) == 8 * 6 * 2
    assert len(capsys.readouterr().out.splitlines()) == 4 + 4
    assert (tmp_path / "records.parquet").is_file()


def test_the_documented_file_runs(run: Run, tmp_path: Path) -> None:
    write_vectors(tmp_path)
    (text,) = blocks("toml")
    (tmp_path / "grid.toml").write_text(text)
    found = json.loads(run(tmp_path / "grid.toml", "--json")[1])
    assert found["n_fits"] == 6 * 2 * 2


def test_the_documentation_names_every_parameter_and_field() -> None:
    from dataclasses import fields

    from whowrote.sweep import Record
    from whowrote.sweep.grid import PARAMETERS

    text = DOCS.read_text(encoding="utf-8")
    assert all(f"`{name}`" in text for name in PARAMETERS)
    assert all(f"`{one.name}`" in text for one in fields(Record))
