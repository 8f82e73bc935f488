"""``whowrote audit``: a table on screen, JSON for programs, one line and status 2 for bad input."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from whowrote.cli import main
from whowrote.cli.options import FORMATS
from whowrote.corpus.formats import READERS


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Run the command in this process: status, standard output, standard error."""
    monkeypatch.setenv("COLUMNS", "120")

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["whowrote", "audit", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        shown = capsys.readouterr()
        return int(left.value.code or 0), shown.out, shown.err

    return call


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    texts = {
        "Ann/1.txt": "It rained all day in the town and nobody went out.\nYours ever, [Ann]",
        "Ann/2.txt": "The sun came out and we all went to the beach.\nYours ever, [Ann]",
        "Ann/3.txt": "A letter came for you this morning from abroad.\nYours ever, [Ann]",
        "Bob/1.txt": "It rained all day in the town and nobody went out.\nYours ever, [Ann]",
        "unknown/x.txt": "Who can say what this is about, or why it was written?",
        "Bob/photo.txt": "\0\0",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_the_table(run: Run, folder: Path) -> None:
    status, out, err = run(folder)
    assert (status, err) == (0, "")
    assert "5 texts, 66 words, 2 known authors" in out
    assert "between Ann, Bob: Ann/1.txt, Bob/1.txt (similarity 1.00)" in out
    assert "Ann: 'Yours ever, [Ann]' in 3 texts (100%)" in out
    assert "(unknown)" in out
    assert "en: 5 texts" in out
    assert "duplicates-across-groups: Ann/1.txt, Bob/1.txt" in out
    assert "photo.txt: a binary file, not text: skipped" in out


def test_json(run: Run, folder: Path) -> None:
    status, out, _ = run(folder, "--json", "--no-near-duplicates", "--min-texts", "2")
    found = json.loads(out)
    assert status == 0
    assert (found["documents"], found["near_duplicates"]) == (5, None)
    assert {count["author"]: count["texts"] for count in found["authors"]} == {
        "Ann": 3,
        "Bob": 1,
        None: 1,
    }
    assert found["settings"]["min_texts"] == 2
    assert [note["kind"] for note in found["notes"]] == ["binary"]


def test_what_was_not_looked_for_is_said(run: Run, folder: Path) -> None:
    said = "near duplicates (similarity 0.7 or more): not looked for"
    assert said in run(folder, "--no-near-duplicates")[1]
    assert said not in run(folder)[1]


def test_long_lists_are_cut_on_screen_only(run: Run, tmp_path: Path) -> None:
    rows = [{"text": f"short text number {i} [x]", "author": f"a{i:02d}"} for i in range(50)]
    path = tmp_path / "posts.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    out = run(path)[1]
    assert "... and 10 more (--json has all)" in out
    assert "a39" in out
    assert "a41" not in out
    assert "... and 47 more (--json has all)" in out
    assert len(json.loads(run(path, "--json")[1])["thin_authors"]) == 50


def test_many_copies_are_abridged(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "posts.jsonl"
    path.write_text('{"text": "the same words again"}\n' * 5)
    assert "within (unknown): 1, 2, 3 and 2 more (similarity 1.00)" in run(path)[1]


def test_columns_reach_the_reader(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "posts.csv"
    path.write_text("id,words,by,book\n1,x,Ann,B\n1,y,Bob,B\n")
    options = ["--text-column", "words", "--author-column", "by", "--group-column", "book"]
    found = json.loads(run(path, *options, "--id-column", "", "--format", "csv", "--json")[1])
    assert [leak["kind"] for leak in found["leaks"]] == ["group-of-several-authors"]


def broken(folder: Path, name: str, content: bytes) -> Path:
    (folder / name).write_bytes(content)
    return folder / name


BAD: dict[str, tuple[str, bytes, str]] = {
    "broken JSON": ("x.jsonl", b'{"text": "a"}\n{"text"', "line 2: '{\"text\"' is not valid JSON"),
    "missing columns": ("x.csv", b"a,b\n1,2\n", "no column looks like the text; found 'a', 'b'"),
    "duplicate ids": ("x.csv", b"id,text\n1,a\n1,b\n", "line 3: id '1' was already used at"),
    "a binary": ("x.txt", b"\x89PNG\0", "is a binary file"),
    "an empty text": ("x.txt", b" \n", "holds no text"),
    "a long line": (
        "x.jsonl",
        b'{"text": "' + b"y" * 1_200_000,
        "the line has 1.2 MB and the limit",
    ),
    "no Parquet": ("x.parquet", b"text", "is not a readable Parquet file"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_status_2(run: Run, tmp_path: Path, case: str) -> None:
    name, content, message = BAD[case]
    status, out, err = run(broken(tmp_path, name, content), "--max-document-mb", "1")
    assert (status, out) == (2, "")
    assert err.startswith(f"whowrote: {tmp_path / name}")
    assert message in err
    assert err.count("\n") == 1


def test_a_missing_path_and_an_empty_folder(run: Run, tmp_path: Path) -> None:
    assert "is an empty folder; a corpus needs at least one text" in run(tmp_path)[2]
    assert run(tmp_path)[0] == 2
    assert run(tmp_path / "gone")[::2] == (
        2,
        f"whowrote: {tmp_path / 'gone'} does not exist; a corpus is a file or a folder of texts: "
        "check the path\n",
    )


def test_one_author_and_one_text_are_findings_not_errors(run: Run, tmp_path: Path) -> None:
    path = broken(tmp_path, "posts.csv", b"author,text\nAnn,only this\n")
    status, out, _ = run(path)
    assert status == 0
    assert "Ann: 1 text, 2 words" in out


def test_undecodable_bytes_are_told(run: Run, tmp_path: Path) -> None:
    status, out, err = run(broken(tmp_path, "x.txt", b"caf\xe9 \x81"))
    assert (status, err) == (0, "")
    assert "1 byte (0x81) undefined in cp1252 became U+FFFD" in out


def test_no_traceback_from_the_installed_command(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "whowrote", "audit", str(tmp_path / "gone")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("whowrote: ")
    assert done.stderr.count("\n") == 1


def test_help_has_an_example_and_names_every_format(run: Run) -> None:
    status, out, _ = run("--help")
    assert status == 0
    assert "whowrote audit my_corpus/ --json" in out
    assert set(FORMATS.replace(" or ", ", ").split(", ")) == set(READERS)


@pytest.mark.data
def test_blog30_prints_the_direct_count(run: Run, data: Path) -> None:
    texts = pq.read_table(data / "blog30.parquet")["text"].to_pylist()
    words = sum(len(text.split()) for text in texts)
    out = run(data / "blog30.parquet", "--no-near-duplicates")[1]
    assert f"{len(texts)} texts, {words} words, 30 known authors" in out
