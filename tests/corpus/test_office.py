"""Word processors, books, pages and TEI: their prose comes in, the rest is on record."""

import io
import sys
import zipfile
from pathlib import Path

import pytest

from whowrote import load
from whowrote.corpus.documents import Options
from whowrote.corpus.office import UnreadableError, extract
from whowrote.errors import CorpusWarning, InputError

OPTIONS = Options()
PAGE = (
    "<html><head><title>T</title><style>p{}</style></head><body><nav>Home</nav>"
    "<p>Caf&eacute; <b>no</b>ir.</p><script>alert('x')</script><p>Two.</p></body></html>"
)
TEI = (
    '<TEI xmlns="http://www.tei-c.org/ns/1.0"><teiHeader><title>Head</title></teiHeader><text>'
    "<front><p>Preface.</p></front><body><p>I <choice><sic>teh</sic><corr>the</corr></choice> "
    'sea<note>An editor.</note>, and ho<lb break="no"/>me.</p><l>Verse</l></body></text></TEI>'
)
ODT = (
    '<o:document-content xmlns:o="office" xmlns:t="text"><o:body><o:text><t:p>One'
    "<t:note><t:note-body><t:p>Foot.</t:p></t:note-body></t:note><t:s/>two."
    "<o:annotation><t:p>Comment</t:p></o:annotation></t:p></o:text></o:body></o:document-content>"
)


def zipped(parts: dict[str, str | bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return file.getvalue()


def docx_bytes() -> bytes:
    import docx

    document, file = docx.Document(), io.BytesIO()
    document.add_paragraph("First paragraph.")
    document.add_table(1, 1).cell(0, 0).text = "In a table."
    document.add_paragraph("Last paragraph.")
    document.sections[0].header.paragraphs[0].text = "Running head"
    document.save(file)
    return file.getvalue()


def pdf_bytes(text: str) -> bytes:
    """A page that shows a text in Helvetica, or nothing."""
    drawn = f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET".encode() if text else b""
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R"
        b"/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%b\nendstream" % (len(drawn), drawn),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    out, places = b"%PDF-1.4\n", []
    for number, one in enumerate(objects, start=1):
        places.append(len(out))
        out += b"%d 0 obj%b endobj\n" % (number, one)
    start = len(out)
    out += b"xref\n0 6\n0000000000 65535 f \n" + b"".join(b"%010d 00000 n \n" % p for p in places)
    return out + b"trailer<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % start


def epub_bytes() -> bytes:
    return zipped(
        {
            "META-INF/container.xml": '<c><rootfile full-path="b/book.opf"/></c>',
            "b/book.opf": '<p><item id="n" href="n.html" properties="nav"/><item id="x" '
            'href="x%201.html"/><itemref idref="n"/><itemref idref="x"/></p>',
            "b/n.html": "<p>Contents</p>",
            "b/x 1.html": '<?xml version="1.0" encoding="utf-8"?><p>It was night.</p>',
        }
    )


def text_of(data: bytes, suffix: str, options: Options = OPTIONS) -> str:
    return extract(data, suffix, "file", options).text


def test_every_format_gives_its_prose() -> None:
    assert text_of(docx_bytes(), ".docx") == "First paragraph.\n\nIn a table.\n\nLast paragraph."
    assert text_of(zipped({"content.xml": ODT}), ".odt") == "One two.\n\nFoot."
    assert text_of(epub_bytes(), ".epub") == "It was night."
    assert text_of(pdf_bytes("Hello there"), ".pdf") == "Hello there"
    assert text_of(PAGE.encode(), ".html") == "Café noir.\n\nTwo."
    assert text_of(TEI.encode(), ".xml") == "I teh sea, and home.\n\nVerse"


def test_a_page_is_read_in_the_encoding_it_names() -> None:
    page = '<meta charset="iso-8859-2"><p>łód</p>'
    assert text_of(page.encode("iso-8859-2"), ".html") == "łód"


def test_elements_of_xml_are_chosen() -> None:
    chosen = Options(elements=("front", "note"))
    assert text_of(TEI.encode(), ".tei", chosen) == "Preface.\n\nAn editor."
    with pytest.raises(UnreadableError, match=r"no text in <verse>; its elements are TEI, body"):
        text_of(TEI.encode(), ".tei", Options(elements=("verse",)))
    with pytest.raises(UnreadableError, match="XML of another kind"):
        text_of(b"<letters><p>One.</p></letters>", ".xml")


def test_they_lie_in_folders_beside_plain_texts(tmp_path: Path) -> None:
    for author in ("Ann", "Bob"):
        (tmp_path / author).mkdir()
        (tmp_path / author / "1.txt").write_text("Plain.")
        (tmp_path / author / "2.docx").write_bytes(docx_bytes())
    (tmp_path / "Bob" / "3.html").write_text(PAGE)
    (tmp_path / "Bob" / "4.pdf").write_bytes(pdf_bytes(""))
    with pytest.warns(CorpusWarning, match="3 left-out, 1 not-text"):
        corpus = load(tmp_path)
    assert corpus.ids == ("Ann/1.txt", "Ann/2.docx", "Bob/1.txt", "Bob/2.docx", "Bob/3.html")
    said = [note.message for note in corpus.notes]
    assert said[0].endswith("1 header or footer")
    assert "left out: 1 head, 1 nav, 1 script" in said
    assert "no text layer" in said[-1]
    with pytest.raises(InputError, match="text recognition"):
        load(tmp_path / "Bob" / "4.pdf")


def test_an_archive_that_unfolds_too_far_is_refused() -> None:
    bomb = zipped({"content.xml": ODT, "zeros": bytes(2_000_000)})
    assert len(bomb) < 10_000
    with pytest.raises(UnreadableError, match=r"unfolds to 2\.0 MB in 2 parts"):
        text_of(bomb, ".odt", Options(max_document_bytes=300_000))
    assert text_of(bomb, ".odt", Options(max_document_bytes=500_000))  # the limit, not the format


def test_nothing_outside_the_file_is_read_and_no_entity_expanded(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("SECRET")
    entities = f'<!ENTITY f SYSTEM "{secret.as_uri()}"><!ENTITY a "aaaa">'
    start = f'<!DOCTYPE TEI SYSTEM "tei.dtd" [{entities}]>'
    page = f"{start}<TEI><text><body><p>x&f;&a;&mdash;y</p></body></text></TEI>"
    found = extract(page.encode(), ".xml", "file", OPTIONS)
    assert found.text == "x—y"
    assert found.left_out["entity"] == 2


@pytest.mark.parametrize("suffix", [".docx", ".odt", ".epub", ".pdf", ".xml"])
def test_a_damaged_file_is_a_sentence(suffix: str) -> None:
    with pytest.raises(UnreadableError, match=f"cannot be read as {suffix}"):
        text_of(b"PK\x03\x04 nothing more", suffix)


def test_without_the_extra_the_cure_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pypdf", None)
    with pytest.raises(UnreadableError, match=r"pip install 'whowrote\[formats\]'"):
        text_of(pdf_bytes("Hello"), ".pdf")
