"""Folders of texts: who wrote what is told by names alone."""

import gzip
import re
from pathlib import Path

import pyarrow as pa
import pytest

from whowrote.corpus.documents import Options
from whowrote.corpus.formats import READERS, detect, reader
from whowrote.corpus.texts import Corpus, load
from whowrote.errors import CorpusWarning, InputError


def write(root: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def by_id(corpus: Corpus) -> dict[str, str | None]:
    return dict(zip(corpus.ids, corpus.authors, strict=True))


def test_a_sub_folder_per_author(tmp_path: Path) -> None:
    write(tmp_path, {"Ann/1.txt": "a", "Ann/book/2.txt": "b", "Bob/1.txt": "c", ".DS_Store": b"\0"})
    corpus = load(tmp_path)
    assert by_id(corpus) == {"Ann/1.txt": "Ann", "Ann/book/2.txt": "Ann", "Bob/1.txt": "Bob"}
    assert corpus.texts == ("a", "b", "c")
    assert corpus.groups == corpus.ids
    assert corpus.notes == ()


def test_the_unknown_folder_has_no_author(tmp_path: Path) -> None:
    write(tmp_path, {"Ann/1.txt": "a", "Unknown/x.txt": "?", "unknowable/x.txt": "!"})
    assert list(load(tmp_path).authors) == ["Ann", None, "unknowable"]


def test_a_file_beside_the_authors_is_noted(tmp_path: Path) -> None:
    write(tmp_path, {"Ann/1.txt": "a", "README": "about"})
    with pytest.warns(CorpusWarning, match="1 not-text"):
        corpus = load(tmp_path)
    assert len(corpus) == 1
    assert corpus.notes[0].message == "lies beside the authors' folders: skipped"


def test_a_flat_folder_is_of_unknown_authors(tmp_path: Path) -> None:
    write(tmp_path, {"emma.txt": "a", "chapter_2.txt": "b"})
    (tmp_path / "empty").mkdir()
    assert by_id(load(tmp_path)) == {"chapter_2.txt": None, "emma.txt": None}


def test_stylo_names(tmp_path: Path) -> None:
    write(tmp_path, {"Austen_Emma.txt": "a", "Austen_Love_Letters.txt": "b", "Poe_Raven.txt": "c"})
    corpus = load(tmp_path)
    assert corpus.authors == ("Austen", "Austen", "Poe")
    assert [entry["title"] for entry in corpus.metadata] == ["Emma", "Love_Letters", "Raven"]
    assert set(load(tmp_path, format="flat").authors) == {None}


def test_stylo_names_need_an_author_twice_or_the_format(tmp_path: Path) -> None:
    write(tmp_path, {"Austen_Emma.txt": "a", "Poe_Raven.txt": "c"})
    assert set(load(tmp_path).authors) == {None}
    assert load(tmp_path, format="stylo").authors == ("Austen", "Poe")


def test_stylo_asked_for_in_vain(tmp_path: Path) -> None:
    write(tmp_path, {"Austen_Emma.txt": "a", "raven.txt": "c"})
    message = r"raven\.txt: the name has no underscore; each must be Author_Title\.txt: rename it"
    with pytest.raises(InputError, match=message):
        load(tmp_path, format="stylo")


def test_compressed_texts(tmp_path: Path) -> None:
    packed = pa.compress(b"zstandard", codec="zstd", asbytes=True)
    write(tmp_path, {"Ann/1.txt.gz": gzip.compress(b"zipped"), "Ann/2.txt.zst": packed})
    assert load(tmp_path).texts == ("zipped", "zstandard")


def test_a_damaged_archive(tmp_path: Path) -> None:
    write(tmp_path, {"letter.txt.gz": b"not gzip"})
    with pytest.raises(InputError, match=r"letter\.txt\.gz cannot be read .*compress it again"):
        load(tmp_path / "letter.txt.gz")


def test_one_text(tmp_path: Path) -> None:
    write(tmp_path, {"letter.txt": "Dear sir"})
    assert by_id(load(tmp_path / "letter.txt")) == {"letter.txt": None}


def test_path_missing(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"nowhere does not exist; a corpus is a .* check the path"
    ):
        load(tmp_path / "nowhere")


@pytest.mark.parametrize("inside", [[], ["Ann"], [".hidden"]])
def test_an_empty_folder(tmp_path: Path, inside: list[str]) -> None:
    for name in inside:
        (tmp_path / name).mkdir()
    with pytest.raises(InputError, match="is an empty folder; a corpus needs at least one text"):
        load(tmp_path)


def test_a_binary_among_the_texts_is_skipped(tmp_path: Path) -> None:
    write(tmp_path, {"Ann/1.txt": "a", "Ann/photo.txt": b"\x89PNG\0\0", "Ann/page.csv": "a,b"})
    with pytest.warns(CorpusWarning, match="1 binary, 1 not-text"):
        corpus = load(tmp_path)
    assert corpus.ids == ("Ann/1.txt",)
    assert [(note.document, note.message) for note in corpus.notes] == [
        ("Ann/page.csv", "a .csv file is not plain text: skipped"),
        ("Ann/photo.txt", "a binary file, not text: skipped"),
    ]


def test_a_binary_named_directly(tmp_path: Path) -> None:
    write(tmp_path, {"scan.dat": b"%PDF-1.4 ...", "posts.csv": b"text\0\0,author\0"})
    for name in ("scan.dat", "posts.csv"):
        message = rf"{name} is a binary file .*not text: give plain text in UTF-8"
        with pytest.raises(InputError, match=message):
            load(tmp_path / name)
    write(tmp_path, {"rows.npz": b"PK\x03\x04\0\0"})
    with pytest.raises(InputError, match=r"rows.npz holds vectors, and texts are asked for"):
        load(tmp_path / "rows.npz")


def test_nothing_but_binaries(tmp_path: Path) -> None:
    write(tmp_path, {"Ann/photo.txt": b"\x89PNG\0\0"})
    with pytest.raises(InputError, match=r"holds no text \(.*photo.txt: a binary file.*at least"):
        load(tmp_path)


def test_an_empty_text_is_skipped(tmp_path: Path) -> None:
    write(tmp_path, {"Ann/1.txt": "a", "Ann/2.txt": " \n\t"})
    with pytest.warns(CorpusWarning, match="1 empty"):
        corpus = load(tmp_path)
    assert corpus.notes[0].document == "Ann/2.txt"
    assert corpus.notes[0].message == "the text is empty: skipped"


def test_undecodable_bytes_are_replaced(tmp_path: Path) -> None:
    write(tmp_path, {"Ann/1.txt": b"caf\xe9 \x81"})
    with pytest.warns(CorpusWarning, match="1 encoding, 1 undecodable"):
        corpus = load(tmp_path)
    assert corpus.texts == ("café \ufffd",)
    assert [note.kind for note in corpus.notes] == ["encoding", "undecodable"]


def test_a_text_over_the_limit(tmp_path: Path) -> None:
    write(tmp_path, {"Ann/1.txt": "x" * 3_000_000})
    message = r"1\.txt: the document has 3\.0 MB and the limit is 2\.0 MB: split it, or raise"
    with pytest.raises(InputError, match=message):
        load(tmp_path, max_document_bytes=2_000_000)
    assert len(load(tmp_path, max_document_bytes=3_000_000)) == 1


def test_the_limit_counts_the_normalised_text(tmp_path: Path) -> None:
    write(tmp_path, {"Ann/1.txt": "é".encode("cp1252") * 8})
    with pytest.raises(InputError, match="the document has 16 bytes and the limit is 10 bytes"):
        load(tmp_path, max_document_bytes=10)


def test_metadata_may_give_the_groups(tmp_path: Path) -> None:
    write(tmp_path, {"A_x.1.txt": "a", "A_x.2.txt": "b", "B_y.txt": "c"})
    assert load(tmp_path, group_column="title").groups == ("x", "x", "y")
    message = r"A_x.1.txt: group column 'book' is missing; found 'title': name one of these"
    with pytest.raises(InputError, match=message):
        load(tmp_path, group_column="book")


def test_a_folder_of_tables(tmp_path: Path) -> None:
    write(tmp_path, {"a.jsonl": "{}", "b.jsonl": "{}"})
    message = "holds tables and no text (a.jsonl, 2 in all); one table is one corpus: name the file"
    with pytest.raises(InputError, match=re.escape(message)):
        load(tmp_path)


def test_an_unknown_format(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"format 'docx' is unknown; it must be one of authors, .*"
    ):
        load(tmp_path, format="docx")


@pytest.mark.parametrize(("format", "needed"), [("authors", "folder"), ("csv", "file")])
def test_a_format_on_the_wrong_kind_of_path(tmp_path: Path, format: str, needed: str) -> None:
    path = tmp_path if needed == "file" else write(tmp_path, {"x.csv": "text"}) / "x.csv"
    with pytest.raises(
        InputError, match=f"and format '{format}' needs a {needed}: give a {needed}"
    ):
        load(path, format=format)


def test_every_detected_format_has_a_reader(tmp_path: Path) -> None:
    for suffix in ("csv", "tsv", "tab", "parquet", "txt", "weird"):
        assert detect(tmp_path / f"x.{suffix}.gz", Options()) in READERS
    assert all(callable(reader(format)) for format in READERS)


def test_unreadable_file(tmp_path: Path) -> None:
    write(tmp_path, {"Ann/1.txt": "a"})
    (tmp_path / "Ann" / "2.txt").symlink_to(tmp_path / "gone")
    with pytest.raises(InputError, match=r"2\.txt cannot be read .*: give a readable file"):
        load(tmp_path)


# The Blog Authorship Corpus, in the form it is published in

BLOG = b"""<Blog>

<date>31,May,2004</date>
<post>

  It\x92s raining & I
  like <b>it</b> &amp; you.

</post>

<date>01,June,2004</date>
<post>
  na\xc3\xafve
</post>

<date>02,June,2004</date>
<post>   </post>
<post>no date, no end
<date>03,June,2004</date>
<post>last</post>
</Blog>
"""
NAME = "1000331.female.37.indUnk.Leo.xml"


@pytest.fixture
def blogs(tmp_path: Path) -> Path:
    (tmp_path / NAME).write_bytes(BLOG)
    (tmp_path / "5114.male.25.Law.Aries.xml").write_bytes(b"<Blog><post>mine</post></Blog>")
    return tmp_path


def test_blogs(blogs: Path) -> None:
    with pytest.warns(CorpusWarning, match="1 empty, 1 encoding, 1 unclosed"):
        corpus = load(blogs)
    assert corpus.texts == (
        "It’s raining & I\n  like <b>it</b> & you.",
        "naïve",
        "no date, no end",
        "last",
        "mine",
    )
    assert corpus.ids == (*(f"1000331/000{i}" for i in (1, 2, 4, 5)), "5114/0001")
    assert corpus.authors == ("1000331",) * 4 + ("5114",)
    about = {"gender": "female", "age": "37", "industry": "indUnk", "sign": "Leo"}
    assert corpus.metadata[0] == {**about, "date": "31,May,2004"}
    assert corpus.metadata[2]["date"] is None
    assert [(note.kind, note.line, note.document) for note in corpus.notes] == [
        ("encoding", 4, "1000331/0001"),
        ("empty", 17, "1000331/0003"),
        ("unclosed", 18, "1000331/0004"),
    ]


def test_one_blogger(blogs: Path) -> None:
    assert load(blogs / "5114.male.25.Law.Aries.xml").texts == ("mine",)


def test_other_files_among_blogs_are_noted(blogs: Path) -> None:
    (blogs / NAME).unlink()
    (blogs / "readme.txt").write_text("about")
    (blogs / "7.male.25.Law.Aries.xml").write_text("<Blog></Blog>")
    with pytest.warns(CorpusWarning, match="1 empty, 1 not-text"):
        corpus = load(blogs)
    assert [note.message for note in corpus.notes] == [
        "a blogger's file without <post>: skipped",
        "a .txt file among the blogs: skipped",
    ]


def test_no_blogs(tmp_path: Path) -> None:
    (tmp_path / "letters.xml").write_text("<a/>")
    with pytest.raises(InputError, match="has no file of the Blog Authorship Corpus; each must be"):
        load(tmp_path, format="blogs")
