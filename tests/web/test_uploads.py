"""Files that came over the network, as texts: names are names, archives have an end."""

import io
import zipfile

import pytest

from whowrote.errors import InputError
from whowrote.web.limits import Limits, RefusalError
from whowrote.web.pages import Upload, labelled_texts, questioned_texts, unpacked

LIMITS = Limits()


def packed(files: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return made.getvalue()


def test_pasted_and_dropped_texts_in_their_order() -> None:
    inside = packed({"a/one.txt": b"One it is.", "../../two.md": "Zwei Bäume.".encode()})
    found = questioned_texts([Upload("x.zip", inside)], "Pasted it was.", LIMITS)
    assert found.ids == ("pasted text", "a/one.txt", "../../two.md")
    assert found.texts[2] == "Zwei Bäume."


def test_word_files_are_read_and_what_is_no_text_is_noted() -> None:
    docx = pytest.importorskip("docx")
    page = io.BytesIO()
    made = docx.Document()
    made.add_paragraph("It was a dark night.")
    made.save(page)
    picture = b"\x89PNG\r\n\x1a\n" + bytes(200)
    files = [Upload("a.docx", page.getvalue()), Upload("b.png", picture), Upload("c.csv", b"a,b")]
    found = questioned_texts(files, "", LIMITS)
    assert found.texts == ("It was a dark night.",)
    assert [note.document for note in found.notes if note.skipped] == ["b.png", "c.csv"]
    with pytest.raises(InputError, match="binary file"):
        questioned_texts([Upload("b.png", picture)], "", LIMITS)


def test_nothing_at_all_is_said_so() -> None:
    with pytest.raises(InputError, match="no text was found"):
        questioned_texts([], "  ", LIMITS)
    with pytest.raises(InputError, match="no file was sent"):
        labelled_texts([], LIMITS)


@pytest.mark.parametrize("root", ["", "letters/", "deep/er/"])
def test_folders_are_authors_wherever_they_lie(root: str) -> None:
    names = [f"{root}Ann/1.txt", f"{root}Ann/old/2.txt", f"{root}Bob/1.txt", f"{root}unknown/x.txt"]
    files = [Upload(name, b"So it is.") for name in names]
    found = labelled_texts([Upload("a.zip", packed({one.name: one.data for one in files}))], LIMITS)
    assert found.authors == ("Ann", "Ann", "Bob", None)
    assert labelled_texts(files, LIMITS).authors == found.authors


def test_names_of_files_may_have_the_authors() -> None:
    names = ["x/Austen_Emma.txt", "x/Austen_Persuasion.txt", "x/Bronte_Villette.txt"]
    found = labelled_texts([Upload(name, b"So it is.") for name in names], LIMITS)
    assert found.authors == ("Austen", "Austen", "Bronte")
    assert labelled_texts([Upload("a.txt", b"So."), Upload("b.txt", b"No.")], LIMITS).authors == (
        None,
        None,
    )


def test_hidden_files_are_no_texts() -> None:
    data = packed({"__MACOSX/a.txt": b"x", "a/.DS_Store": b"x", "a/b.txt": b"x"})
    assert [one.name for one in unpacked([Upload("x.zip", data)], LIMITS)] == ["a/b.txt"]


def test_an_archive_that_unfolds_without_end_is_refused() -> None:
    bomb = packed({"a.txt": bytes(5_000_000)})
    assert len(bomb) < 10_000
    with pytest.raises(RefusalError, match=r"unpacked has 5\.0 MB") as refused:
        unpacked([Upload("x.zip", bomb)], Limits(upload_bytes=1_000_000))
    assert refused.value.status == 413
    with pytest.raises(InputError, match=r"cannot be read as \.zip"):
        unpacked([Upload("x.zip", b"PK nothing")], LIMITS)
