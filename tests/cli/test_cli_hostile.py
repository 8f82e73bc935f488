"""Names, options and bytes that were made to do harm: nothing steers the terminal, one sentence."""

import codecs
import io
import json
import math
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from attribution.people import name, texts_by
from whowrote.attribution import Attributor
from whowrote.cli import app, main
from whowrote.errors import InputError
from whowrote.formatting import printable, quoted

runner = CliRunner()
STEERING = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"
ESCAPED = "\\u001b]0;owned\\u0007\\u001b[2J\\u009b31m\\u202e"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts by three people, one of whom has a name that steers, and a model of them."""
    place = tmp_path_factory.mktemp("hostile")
    for author in range(3):
        folder = place / "known" / (name(author) + (STEERING if author == 1 else ""))
        folder.mkdir(parents=True)
        for number, text in enumerate(texts_by(author, 5)):
            (folder / f"{number}{STEERING}.txt").write_text(text)
    (place / f"new{STEERING}.txt").write_text(texts_by(1, 1, seed=1)[0])
    done = runner.invoke(
        app, ["train", f"{place}/known", "--out", f"{place}/m", "--features", "ngrams"]
    )
    assert done.exit_code == 0, done.output
    return place


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Everything a command writes, as the whole program runs it, whatever became of it."""

    def run(*arguments: object, given: bytes = b"") -> str:
        monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
        monkeypatch.setattr(sys, "argv", ["whowrote", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        with pytest.raises(SystemExit) as left:
            main()
        assert left.value.code in (0, 2)
        return "".join(capsys.readouterr())

    return run


def test_names_cannot_steer_the_terminal(place: Path, said: Callable[..., str]) -> None:
    new = place / f"new{STEERING}.txt"
    for command in (
        ["attribute", place / "m", new],
        ["inspect", place / "m"],
        ["audit", place / "known"],
        ["distances", place / "known"],
        ["attribute", place / "m", place / f"nothing{STEERING}"],
        ["train", place / f"nothing{STEERING}"],
    ):
        shown = said(*command)
        assert printable(shown) == shown
        assert "\\u001b" in shown


def test_json_keeps_its_values(place: Path, said: Callable[..., str]) -> None:
    line = said("attribute", place / "m", place / f"new{STEERING}.txt", "--json")
    assert printable(line) == line
    answer = json.loads(line)
    assert answer["author"] == name(1) + ESCAPED
    assert answer["document"].endswith(f"new{ESCAPED}.txt")


SENTENCE = "“Good day”, said Zoë; it was late – she had come home. "
ENCODED = {
    "utf-8": (SENTENCE * 30).encode(),
    "mark": codecs.BOM_UTF8 + (SENTENCE * 30).encode(),
    "cp1252": (SENTENCE * 30).encode("cp1252"),
    "utf-16": codecs.BOM_UTF16_LE + (SENTENCE * 30).encode("utf-16-le"),
    "utf-16 of the other kind": codecs.BOM_UTF16_BE + (SENTENCE * 30).encode("utf-16-be"),
    "line ends": (SENTENCE * 30).replace("; ", ";\r\n").encode(),
    "no bytes of text": (SENTENCE + "\x01\x85").encode("latin-1", "ignore"),
}


@pytest.mark.parametrize("kind", ENCODED)
def test_one_text_has_one_answer(kind: str, place: Path, tmp_path: Path) -> None:
    (tmp_path / "-").write_bytes(ENCODED[kind])
    answers = [
        runner.invoke(app, ["attribute", str(place / "m"), path, "--json"], input=given)
        for path, given in ((str(tmp_path / "-"), None), ("-", ENCODED[kind]))
    ]
    assert [answer.exit_code for answer in answers] == [0, 0]
    assert answers[0].stdout == answers[1].stdout
    # However it was written, it is one text.
    found = json.loads(answers[0].stdout)
    plain = json.loads(
        runner.invoke(
            app, ["attribute", str(place / "m"), "-", "--json"], input=ENCODED["utf-8"]
        ).stdout
    )
    same = kind not in ("line ends", "no bytes of text")
    assert (found["sha256"] == plain["sha256"]) is same
    assert (found["ranking"] == plain["ranking"]) is same


def test_standard_input_ends(place: Path, said: Callable[..., str]) -> None:
    shown = said("attribute", place / "m", "-", given=b"word " * 5_000_000)
    assert "standard input: the document has 25.0 MB and the limit is 20.0" in shown
    assert "is a binary file" in said("attribute", place / "m", "-", given=b"a\x00b")
    assert "standard input is empty" in said("attribute", place / "m", "-", given=b" \n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["audit", "known", "--max-document-mb", "inf"],
        ["audit", "known", "--max-document-mb", "1e308"],
        ["audit", "known", "--similarity", "nan"],
        ["cluster", "known", "--authors", "9" * 5000, "--features", "ngrams"],
        ["train", "known", "--seed", "4294967296", "--features", "ngrams"],
        ["train", "known", "--seed", "-1", "--features", "ngrams"],
        ["evaluate", "known", "--seed", "99999999999999999999", "--features", "ngrams"],
        ["attribute", "m", "known", "--none-below", "nan"],
        ["attribute", "m", "known", "--top", "9" * 5000],
    ],
    ids=lambda arguments: " ".join(arguments)[:40],
)
def test_an_odd_option_is_a_sentence(arguments: list[str], place: Path) -> None:
    there = [str(place / one) if one in ("known", "m") else one for one in arguments]
    done = runner.invoke(app, there)
    assert isinstance(done.exception, SystemExit | InputError), done.exception
    assert done.exit_code in (1, 2)
    assert len(str(done.exception)) < 500


@pytest.mark.filterwarnings("ignore::whowrote.errors.CorpusWarning")
def test_texts_without_a_word_in_common() -> None:
    """Writing without blanks, single letters, signs: no n-gram of words survives."""
    signs = "的一是不了人我在有他这为之大来以个中上们到说国和地也子时道出而要于就下得可"
    chinese = [signs[number:] + signs[: 2 * number] for number in range(12)]
    authors = ["A", "B"] * 6
    for texts in (chinese, list("abcdefghijkl"), [str(n) for n in range(12)], ["\u200b"] * 12):
        answers = Attributor("ngrams").fit(texts, authors).attribute([*texts, "hello", "!"])
        shares = [one.probability for answer in answers for one in answer.ranking]
        assert all(map(math.isfinite, shares))


def test_many_names_are_some_in_a_sentence() -> None:
    assert len(quoted(["x" * 1000] * 10_000)) < 2000
    assert quoted(range(3), most=2) == "0, 1 and 1 more"
