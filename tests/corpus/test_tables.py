"""CSV, TSV, JSON lines and Parquet: columns given or guessed, plain or compressed."""

import codecs
import csv
import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whowrote.corpus.documents import Options, clean
from whowrote.corpus.tables import Columns, settle
from whowrote.corpus.texts import Corpus, load, stream
from whowrote.errors import CorpusWarning, InputError

ROWS = [
    {"text": 'She said, "no;\n never".', "author": "Ann", "year": "1901"},
    {"text": "naïve — façade", "author": "Bob", "year": "1902"},
]
PACKED: dict[str, Callable[[bytes], bytes]] = {
    "": lambda data: data,
    ".gz": gzip.compress,
    ".zst": lambda data: bytes(pa.compress(data, codec="zstd", asbytes=True)),
}


def table_bytes(suffix: str, folder: Path) -> bytes:
    path = folder / "plain"
    if suffix == "parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), path)
    elif suffix == "jsonl":
        path.write_text("\n\n".join(map(json.dumps, ROWS)), encoding="utf-8")
    else:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(ROWS[0]), delimiter="\t" if suffix == "tsv" else ",")
            writer.writeheader()
            writer.writerows(ROWS)
    return path.read_bytes()


def put(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("packed", PACKED)
@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet"])
def test_every_table_plain_and_packed(tmp_path: Path, suffix: str, packed: str) -> None:
    data = PACKED[packed](table_bytes(suffix, tmp_path))
    corpus = load(put(tmp_path / f"posts.{suffix}{packed}", data))
    assert corpus.texts == tuple(row["text"] for row in ROWS)
    assert corpus.authors == ("Ann", "Bob")
    assert corpus.ids == corpus.groups == ("1", "2")
    assert corpus.metadata == ({"year": "1901"}, {"year": "1902"})
    assert corpus.notes == ()


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_marked_encodings(tmp_path: Path, suffix: str, encoding: str) -> None:
    text = table_bytes(suffix, tmp_path).decode("utf-8")
    corpus = load(put(tmp_path / f"posts.{suffix}", text.encode(encoding)))
    assert corpus.texts == tuple(row["text"] for row in ROWS)


def test_broken_utf16(tmp_path: Path) -> None:
    data = codecs.BOM_UTF16_LE + "text\nabc".encode("utf-16-le") + b"\x00"
    with pytest.raises(InputError, match=r"posts\.csv opens as UTF-16 but is not valid .*as UTF-8"):
        load(put(tmp_path / "posts.csv", data))


@pytest.mark.parametrize(
    ("suffix", "data"),
    [
        ("jsonl", b'{"text": "plain"}\n{"text": "caf\xe9"}\n'),
        ("csv", b"text,author\nplain,x\ncaf\xe9,y\n"),
    ],
)
def test_a_line_in_cp1252_is_noted(tmp_path: Path, suffix: str, data: bytes) -> None:
    with pytest.warns(CorpusWarning, match="1 encoding"):
        corpus = load(put(tmp_path / f"posts.{suffix}", data))
    assert corpus.texts == ("plain", "café")
    assert [note.document for note in corpus.notes] == ["2"]
    assert corpus.notes[0].line == (2 if suffix == "jsonl" else 3)


@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1), min_size=1, max_size=5))
def test_json_lines_round_trip(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    path = tmp_path_factory.mktemp("round") / "posts.jsonl"
    put(path, "\n".join(json.dumps({"text": text, "author": "a"}) for text in texts))
    notes: list[object] = []
    found = [document.text for document in stream(path, on_note=notes.append)]
    assert found == [text for text in map(cleaned, texts) if text.strip()]


def cleaned(text: str) -> str:
    return clean(text).text


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (["Body", "User"], Columns("Body", "User", None, None)),
        (["reviewerID", "asin", "reviewText"], Columns("reviewText", "reviewerID", None, None)),
        (["user_id", "title", "text", "asin"], Columns("text", "user_id", None, None)),
        (["id", "text", "author", "group"], Columns("text", "author", "id", "group")),
        (
            ["id", "gender", "age", "topic", "sign", "date", "text"],
            Columns("text", "id", None, None),
        ),
        (["content"], Columns("content", None, None, None)),
    ],
)
def test_columns_are_guessed(found: list[str], expected: Columns) -> None:
    assert settle(found, Options(), "posts.csv") == expected


def test_columns_are_given_or_denied(tmp_path: Path) -> None:
    path = put(
        tmp_path / "posts.csv", "id,text,quote,by,author,book\n7,x,q,Ann,n,B\n8,y,r,Bob,n,B\n"
    )
    corpus = load(path, text_column="quote", author_column="by", group_column="book", id_column="")
    assert (corpus.texts, corpus.authors) == (("q", "r"), ("Ann", "Bob"))
    assert (corpus.ids, corpus.groups) == (("1", "2"), ("B", "B"))
    assert corpus.metadata[0] == {"id": "7", "text": "x", "author": "n"}
    assert load(path).ids == ("7", "8")
    assert load(path, author_column="").authors == (None, None)


def test_missing_columns(tmp_path: Path) -> None:
    path = put(tmp_path / "posts.csv", "name,words\na,b\n")
    message = "posts.csv: no column looks like the text; found 'name', 'words': name it with"
    with pytest.raises(InputError, match=re.escape(message)):
        load(path)
    message = "author column 'by' is missing; found 'name', 'words': name one of these with"
    with pytest.raises(InputError, match=message):
        load(path, text_column="words", author_column="by")
    assert load(path, text_column="words", author_column="name").authors == ("a",)
    with pytest.raises(InputError, match="found no columns"):
        load(put(tmp_path / "empty.csv", ""))


def test_json_columns_may_begin_late(tmp_path: Path) -> None:
    path = put(tmp_path / "posts.jsonl", '{"text": "x"}\n{"text": "y", "author": "Ann"}\n')
    assert load(path).authors == (None, "Ann")


def test_duplicate_ids(tmp_path: Path) -> None:
    path = put(tmp_path / "posts.csv", "id,text\na,x\nb,y\na,z\n")
    message = (
        f"{path}, line 4: id 'a' was already used at {path}, line 2; ids must be unique: correct "
        "them, name another column with id_column"
    )
    with pytest.raises(InputError, match=re.escape(message)):
        load(path)
    assert load(path, id_column="").ids == ("1", "2", "3")
    assert [document.id for document in stream(path)] == ["a", "b", "a"]


def test_an_id_that_is_missing(tmp_path: Path) -> None:
    path = put(tmp_path / "posts.csv", "id,text\na,x\n,y\n")
    with pytest.raises(InputError, match="line 3: the id column 'id' is empty; every document"):
        load(path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "x"', "line 2: '{\"text\": \"x\"' is not valid JSON (Expecting ',' delimiter"),
        ("{'text': x}", "is not valid JSON (malformed node"),
        ("[1, 2]", "line 2: '[1, 2]' is not a JSON object; each line must hold one: write one"),
        ("[" * 100_000, "is not valid JSON ("),
    ],
)
def test_broken_json(tmp_path: Path, line: str, message: str) -> None:
    path = put(tmp_path / "posts.jsonl", f'{{"text": "fine"}}\n{line}\n')
    with pytest.raises(InputError, match=re.escape(message)):
        load(path)


def test_a_text_that_is_no_string(tmp_path: Path) -> None:
    path = put(tmp_path / "posts.jsonl", '{"text": "x"}\n{"text": 12}\n')
    message = "line 2: 'text' is '12' (int) and must be a string: correct it, or name another"
    with pytest.raises(InputError, match=re.escape(message)):
        load(path)
    path = put(tmp_path / "posts.jsonl", '{"text": "x", "author": ["a"]}\n')
    message = "'author' is \"['a']\" (list) and must be a string or a number"
    with pytest.raises(InputError, match=re.escape(message)):
        load(path)


def test_a_row_without_text_is_noted(tmp_path: Path) -> None:
    path = put(tmp_path / "posts.jsonl", '{"text": "x"}\n{"author": "a"}\n')
    with pytest.warns(CorpusWarning, match="1 empty"):
        corpus = load(path)
    assert str(corpus.notes[0]) == f"{path}, line 2: no 'text': skipped"


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_a_single_line_of_50_mb(tmp_path: Path, suffix: str) -> None:
    start = '{"text": "' if suffix == "jsonl" else "text\n"
    path = put(tmp_path / f"posts.{suffix}", '{"text": "x"}\n' * (suffix == "jsonl") + start)
    with path.open("ab") as file:
        for _ in range(50):
            file.write(b"y" * 1_000_000)
    message = r"line 2: the line has 50\.0 MB and the limit is 20\.0 MB: split it, or raise max_doc"
    with pytest.raises(InputError, match=message):
        load(path)


def test_a_long_field_under_the_limit(tmp_path: Path) -> None:
    path = put(tmp_path / "posts.csv", "text\n" + "y" * 300_000 + "\n")
    assert len(load(path).texts[0]) == 300_000  # the csv module alone stops at 131,072


@pytest.mark.parametrize("header", ["a;text\n1;x,y\n", "a\ttext\n1\tx,y\n", "a|text\n1|x,y\n"])
def test_the_delimiter_is_told_from_the_header(tmp_path: Path, header: str) -> None:
    assert load(put(tmp_path / "posts.csv", header)).texts == ("x,y",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("id,text\n1,x\n\n2,no, quotes\n", "line 4: the row has 3 fields and the header 2: put"),
        ('id,text\n1,"x"y\n', "line 2: the row that starts here is not valid CSV ("),
        ('id,text\n1,"never\nclosed\n', "line 2: the row that starts here is not valid CSV ("),
        ("text,text\nx,y\n", "line 1: column 'text' occurs twice in the header; names must be"),
    ],
)
def test_broken_csv(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        load(put(tmp_path / "posts.csv", content))


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_a_table_without_rows(tmp_path: Path, suffix: str) -> None:
    path = put(tmp_path / f"posts.{suffix}", "text\n" if suffix == "csv" else "")
    if suffix == "parquet":
        pq.write_table(pa.table({"text": pa.array([], pa.string())}), path)
    with pytest.raises(InputError, match="holds no text; a corpus needs at least one"):
        load(path)


def test_parquet_types(tmp_path: Path) -> None:
    table = pa.table(
        {
            "text": pa.array([b"caf\xc3\xa9", b"x", b"y", b"z"]),
            "user": pa.array([1.0, 2.5, float("nan"), None]),
            "id": [10, 11, 12, 13],
        }
    )
    pq.write_table(table, tmp_path / "posts.parquet")
    corpus = load(tmp_path / "posts.parquet")
    assert corpus.texts[0] == "café"
    assert corpus.authors == ("1", "2.5", None, None)
    assert corpus.ids == ("10", "11", "12", "13")


def test_no_parquet(tmp_path: Path) -> None:
    path = put(tmp_path / "posts.parquet", "hello")
    with pytest.raises(
        InputError, match=r"posts\.parquet is not a readable Parquet file .*--format"
    ):
        load(path)


def test_a_parquet_text_over_the_limit(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["x", "y" * 2000]}), tmp_path / "posts.parquet")
    with pytest.raises(InputError, match="line 2: the document has 2000 bytes and the limit is"):
        load(tmp_path / "posts.parquet", max_document_bytes=1000)


def test_amazon_of_2014_and_2023(tmp_path: Path) -> None:
    old = {"reviewerID": "A1", "asin": "B", "reviewText": "Fine.", "overall": 5.0}
    new = {"user_id": "AE", "title": "Good", "text": "Fine.", "rating": 5.0, "images": []}
    path = put(tmp_path / "reviews.json.gz", gzip.compress(json.dumps(old).encode() + b"\n"))
    assert load(path)[0].author == "A1"
    assert load(path, format="amazon").metadata == ({"asin": "B", "overall": 5.0},)
    corpus: Corpus = load(put(tmp_path / "reviews.jsonl", json.dumps(new)))
    assert (corpus.authors, corpus.texts) == (("AE",), ("Fine.",))


def test_the_oldest_amazon_files_are_python_literals(tmp_path: Path) -> None:
    line = """{'reviewerID': 'A1', 'reviewText': "It's fine."}\n"""
    assert load(put(tmp_path / "reviews.json", line)).texts == ("It's fine.",)
