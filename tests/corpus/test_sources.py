"""What never ends, or unfolds to far more than it is, is a sentence: in two seconds and 500 MB."""

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from whowrote.corpus.sources import most_unfolded
from whowrote.corpus.texts import load
from whowrote.errors import CorpusWarning, InputError

SECONDS, MEGABYTES = 2.0, 500
READ_EACH = """
import json, re, resource, signal, sys, time, warnings
import pyarrow.parquet
from whowrote.corpus.texts import load
warnings.simplefilter("ignore")
resource.setrlimit(resource.RLIMIT_AS, (3_000_000_000,) * 2)
for path in sys.argv[1:]:
    signal.alarm(20)
    before = time.process_time()
    try:
        said = f"{len(load(path))} texts"
    except Exception as problem:
        said = f"{type(problem).__name__}: {problem}"
    peak = int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1000
    print(json.dumps([said, time.process_time() - before, peak]), flush=True)
"""


def pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe.txt")
    return folder / "pipe.txt"


def zeros(folder: Path) -> Path:
    (folder / "zeros.txt").symlink_to("/dev/zero")
    return folder / "zeros.txt"


def table_of_zeros(folder: Path) -> Path:
    (folder / "zeros.jsonl").symlink_to("/dev/zero")
    return folder / "zeros.jsonl"


def circle(folder: Path) -> Path:
    """Folders that link to each other: without a memory, two to the power of forty paths."""
    for author in ("Ann", "Bob"):
        (folder / "circle" / author).mkdir(parents=True)
        (folder / "circle" / author / "text.txt").write_text("It was late.")
        (folder / "circle" / author / "up").symlink_to("..")
        (folder / "circle" / author / "out").symlink_to(folder / "circle")
    return folder / "circle"


def wide(folder: Path) -> Path:
    names = ",".join(f"c{number}" for number in range(100_000))
    (folder / "wide.csv").write_text(f"text,{names}\n")
    return folder / "wide.csv"


def newlines(folder: Path) -> Path:
    whole = gzip.compress(b"\n" * 2_000_000)
    (folder / "lines.jsonl.gz").write_bytes(whole * 500)  # members follow each other: a gigabyte
    return folder / "lines.jsonl.gz"


def empty_rows(folder: Path) -> Path:
    rows = gzip.compress(b'{"text": "I am."}\n' + b"{}\n" * 1_000_000)
    (folder / "rows.jsonl.gz").write_bytes(rows)
    return folder / "rows.jsonl.gz"


def long_line(folder: Path) -> Path:
    whole = gzip.compress(b" " * 2_000_000)
    (folder / "line.csv.gz").write_bytes(whole * 500)
    return folder / "line.csv.gz"


def wide_parquet(folder: Path) -> Path:
    """A value of a megabyte that many rows share: some kilobytes that hold half a gigabyte."""
    shared = pa.DictionaryArray.from_arrays(pa.array([0] * 500, pa.int32()), ["x" * 1_000_000])
    pq.write_table(pa.table({"text": shared}), folder / "shared.parquet", compression="zstd")
    assert (folder / "shared.parquet").stat().st_size < 5000
    return folder / "shared.parquet"


def long_parquet(folder: Path) -> Path:
    """Five million rows in a file of some kilobytes."""
    rows = pa.table({"text": pa.DictionaryArray.from_arrays([0] * 1_000_000, ["It was late."])})
    with pq.ParquetWriter(folder / "rows.parquet", rows.schema, compression="zstd") as writer:
        for _ in range(5):
            writer.write_table(rows)
    return folder / "rows.parquet"


def page_parquet(folder: Path) -> Path:
    """One text of 150 megabytes, packed."""
    table = pa.table({"text": ["x" * 150_000_000]})
    pq.write_table(table, folder / "page.parquet", compression="zstd", use_dictionary=False)
    return folder / "page.parquet"


def piled(folder: Path) -> Path:
    """Marks on a letter, each to be put in order: time grows with their square."""
    (folder / "piled.txt").write_text("e" + "\u0301\u0327" * 200_000, encoding="utf-8")
    return folder / "piled.txt"


def blanks(folder: Path) -> Path:
    """A page with a long run of blanks that are no white space to HTML."""
    (folder / "blanks.html").write_text(f"<p>a{'<b> </b>' * 20_000}b</p>", encoding="utf-8")
    return folder / "blanks.html"


MADE: dict[Callable[[Path], Path], str] = {
    pipe: "pipe.txt is a pipe or a device, no regular file: save",
    zeros: "zeros.txt is a pipe or a device",
    table_of_zeros: "zeros.jsonl is a pipe or a device",
    circle: "2 texts",
    wide: "wide.csv, line 1: 100,001 columns and the limit is 5,000",
    newlines: "200,000 empty lines in a row",
    empty_rows: "100,000 rows in a row without a text in 'text'",
    long_line: "the line has at least",
    wide_parquet: "unfolds to more than",
    long_parquet: "has 5,000,000 rows",
    page_parquet: "unfolds to more than",
    piled: "1 texts",
    blanks: "1 texts",
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, float, float]]:
    """What a process of its own said of each, its seconds and its megabytes at most."""
    folder = tmp_path_factory.mktemp("nasty")
    paths = [make(folder) for make in MADE]
    done = subprocess.run(
        [sys.executable, "-c", READ_EACH, *map(str, paths)],
        capture_output=True,
        text=True,
        check=False,
    )
    said = [tuple(json.loads(line)) for line in done.stdout.splitlines()]
    return {make.__name__: one for make, one in zip(MADE, said, strict=False)}


@pytest.mark.skipif(os.name != "posix", reason="needs pipes, links and limits of memory")
@pytest.mark.parametrize("make", MADE)
def test_a_sentence_soon(
    make: Callable[[Path], Path], answers: dict[str, tuple[str, float, float]]
) -> None:
    said, seconds, megabytes = answers[make.__name__]
    assert MADE[make] in said
    assert said.startswith("InputError: ") or said.endswith("texts")
    assert seconds < SECONDS
    assert megabytes < MEGABYTES


def test_among_other_files_they_are_notes(tmp_path: Path) -> None:
    circle(tmp_path)
    pipe(tmp_path / "circle" / "Ann")
    with pytest.warns(CorpusWarning, match="5 not-text"):
        corpus = load(tmp_path / "circle")
    assert corpus.ids == ("Ann/text.txt", "Bob/text.txt")
    said = [str(note) for note in corpus.notes]
    assert sum("a link to a folder that is read elsewhere: skipped" in one for one in said) == 4
    assert sum("a pipe or a device, no regular file: skipped" in one for one in said) == 1


def test_two_names_of_one_folder_are_told(tmp_path: Path) -> None:
    """A folder that is read under another name is not read twice, and not passed over silently."""
    (tmp_path / "Ann").mkdir()
    (tmp_path / "Ann" / "text.txt").write_text("It was late.")
    (tmp_path / "Bob").symlink_to(tmp_path / "Ann")
    with pytest.warns(CorpusWarning, match="1 not-text"):
        assert load(tmp_path).authors == ("Ann",)


def test_a_folder_a_thousand_deep(tmp_path: Path) -> None:
    deep = tmp_path
    for _ in range(900):
        deep /= "d"
    os.makedirs(deep)
    (deep / "text.txt").write_text("It was late.")
    assert len(load(tmp_path, format="flat")) == 1


def test_what_packs_well_is_read(tmp_path: Path) -> None:
    """A table of one text a thousand times packs to a hundredth and is no bomb."""
    row = json.dumps({"text": "It was late, and they went home. " * 20, "author": "Ann"})
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(f"{row}\n".encode() * 1000))
    assert len(load(tmp_path / "a.jsonl.gz")) == 1000
    table = pa.table({"text": ["It was late, and they went home. " * 20] * 20_000})
    pq.write_table(table, tmp_path / "a.parquet", compression="zstd")
    assert len(load(tmp_path / "a.parquet")) == 20_000
    assert most_unfolded(1000) < most_unfolded(1000, 10**9)


def test_a_limit_may_be_raised(tmp_path: Path) -> None:
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"word " * 12_000_000))
    with pytest.raises(InputError, match=r"the limit is 20\.0 MB|unfolds to more than"):
        load(tmp_path / "a.txt.gz")
    assert len(load(tmp_path / "a.txt.gz", max_document_bytes=70_000_000)) == 1


def test_a_parquet_file_whose_names_are_no_utf8(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["I am."]}), tmp_path / "a.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(whole.replace(b"text", b"t\xc1xt"))
    with pytest.raises(InputError, match="is not a readable Parquet file"):
        load(tmp_path / "a.parquet")
