"""``whowrote cluster``: tables on screen, JSON for programs, one sentence for bad input."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from features.made_up import texts_by, write_corpus
from whowrote.cli.corpora import cluster
from whowrote.errors import InputError

app = typer.Typer()
app.command()(cluster)


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, list(map(str, arguments)), env={"COLUMNS": "120"})


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus") / "texts.csv", range(2), 8, length=150)


def test_the_tables(corpus: Path) -> None:
    answer = run(corpus, "--authors", 2, "--features", "ngrams")
    assert answer.exit_code == 0, answer.output
    assert answer.stderr == ""
    assert "16 texts in 2 groups" in answer.stdout
    assert "most typical" in answer.stdout
    assert "author 0" in answer.stdout
    assert "adjusted Rand index 1.00, 100% of them" in answer.stdout
    assert "held-out" not in answer.stdout  # the number was given


def test_the_curve_is_shown_where_the_number_was_chosen(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"MOST_AUTHORS": 2, "WARM_UP": 2, "EPOCHS": 1}.items():  # quick and rough
        monkeypatch.setattr(f"whowrote.clustering.{name}", value)
    answer = run(corpus, "--features", "ngrams", "--author-column", "")
    assert answer.exit_code == 0, answer.output
    assert "How well held-out texts are explained (5 folds)" in answer.stdout
    assert "chosen" in answer.stdout
    assert "adjusted Rand" not in answer.stdout  # nobody is named


def test_json_is_the_whole_record(corpus: Path) -> None:
    answer = run(corpus, "--authors", "2", "--features", "ngrams", "--seed", 3, "--json", "--quiet")
    found = json.loads(answer.stdout)
    assert (found["texts"], found["n_groups"], found["random_state"]) == (16, 2, 3)
    assert (found["features"], found["choice"]["method"]) == ("ngrams", "given")
    assert len(found["placed"]) == 16
    assert found["agreement"]["accuracy"] == 1.0


def test_short_texts_are_told_on_standard_error(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    texts = [*texts_by(0, 4), "too short"]
    path.write_text("\n".join(json.dumps({"text": text}) for text in texts))
    answer = run(path, "--authors", 2, "--json")
    assert answer.exit_code == 0, answer.output
    assert answer.stderr.startswith("whowrote: 1 of 5 texts have fewer than 20 tokens")
    assert json.loads(answer.stdout)["features"] == "adhominem"


def test_groups_left_empty_are_told(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text('{"text": "the very same words again"}\n' * 6)
    answer = run(path, "--authors", 3, "--features", "ngrams")
    assert "3 groups were asked for; 1 of them have texts." in answer.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--authors", "many"], r"number of authors is 'many'; it must be 'auto' or a whole"),
        (["--authors", "17"], r"number of authors is 17; .* from 1 to 16"),
        (["--authors", "-1"], r"number of authors is '-1'"),
        (["--features", "words"], r"features is 'words'; it must be one of"),
        (["--text-column", "absent"], r"absent"),
    ],
)
def test_bad_input_is_one_sentence(corpus: Path, options: list[str], message: str) -> None:
    answer = run(corpus, *options)
    assert isinstance(answer.exception, InputError)  # the command line makes status 2 of it
    assert answer.stdout == ""
    with pytest.raises(InputError, match=message):
        raise answer.exception


def test_the_module_loads_nothing_heavy() -> None:
    heavy = ("torch", "sklearn", "numpy", "scipy")
    code = f"import sys, whowrote.cli.corpora; print([n for n in {heavy!r} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_help_has_an_example() -> None:
    answer = run("--help")
    assert "Example: whowrote cluster letters/ --authors auto" in answer.stdout.replace("`", "")
