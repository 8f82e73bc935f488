"""The folder of parts beside a table: for one process, for parts alone, gone at the end."""

import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from attribution.people import texts_by
from whowrote.drafts import held
from whowrote.errors import InputError
from whowrote.features.streaming import Choice, embed_corpus, is_part, part_path

CHOICE = Choice(device="cpu")


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    folder = tmp_path / "texts"
    folder.mkdir()
    for number, text in enumerate(texts_by(0, 3)):
        (folder / f"{number}.txt").write_text(text)
    return folder


def test_files_of_others_in_the_folder_of_parts_are_not_removed(
    texts: Path, tmp_path: Path
) -> None:
    out, parts = tmp_path / "v.parquet", tmp_path / "v.parquet.parts"
    parts.mkdir()
    (parts / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match=r"parts' holds 'thesis\.txt', which is no part"):
        embed_corpus(texts, out, CHOICE)
    assert os.listdir(parts) == ["thesis.txt"]
    (parts / "thesis.txt").unlink()
    embed_corpus(texts, out, CHOICE)  # negative control: an empty folder, or one of parts, will do
    assert sorted(os.listdir(tmp_path)) == ["texts", "v.parquet"]


def test_a_corpus_without_texts_removes_no_folder_of_others(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "empty.txt").write_text("")
    (tmp_path / "v.parquet.parts").mkdir()
    (tmp_path / "v.parquet.parts" / "thesis.txt").write_text("mine")
    with pytest.raises(InputError):
        embed_corpus(tmp_path / "texts", tmp_path / "v.parquet", CHOICE)
    assert (tmp_path / "v.parquet.parts" / "thesis.txt").read_text() == "mine"


def test_a_table_is_written_by_one_process_at_a_time(texts: Path, tmp_path: Path) -> None:
    out = tmp_path / "v.parquet"
    with (
        held(tmp_path / "v.parquet.parts", out),
        pytest.raises(InputError, match=r"v\.parquet' is being written by another process"),
    ):
        embed_corpus(texts, out, CHOICE)
    embed_corpus(texts, out, CHOICE)


def test_a_link_stays_one(texts: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "v.parquet").symlink_to(tmp_path / "real" / "v.parquet")
    embed_corpus(texts, tmp_path / "v.parquet", CHOICE)
    assert (tmp_path / "v.parquet").is_symlink()
    assert pq.read_table(tmp_path / "real" / "v.parquet").num_rows == 3
    assert os.listdir(tmp_path / "real") == ["v.parquet"]


def test_names_of_parts() -> None:
    assert is_part(part_path(Path(), 7).name)
    assert is_part(part_path(Path(), 10**7).name)
    for name in ("part-000001.parquet.txt", "my-part-000001.parquet", "thesis.parquet"):
        assert not is_part(name)
