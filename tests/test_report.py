import base64
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from whowrote import plots
from whowrote.errors import InputError
from whowrote.report import Facts, Figure, Paragraph, Section, Table, page, write_page

EMPTY = {"meta", "img", "br"}
EVIL = "<script>alert('x')</script> & \"quoted\" $title ${body}"


class Reader(HTMLParser):
    """Tags with their attributes, and the text; an unclosed or misnested tag fails."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def picture() -> Figure:
    bars = [plots.Bar("ann, 1", "ann", 0.9, True)]
    return Figure(plots.probability_bars(bars), "One text", alt="a bar of 90 %")


def sections() -> list[Section]:
    points = np.random.default_rng(0).normal(size=(30, 2))
    ellipses = plots.Ellipses([[0.0, 0.0]], [np.eye(2)])
    drawn = plots.latent_map(points, np.zeros(30, dtype=int), ["ann"], ellipses)
    return [
        Section("Answers", [Table(["text", "p"], [["a", 0.5], ["b", 1]], ["text", "number"])]),
        Section("Pictures", [picture(), Figure(drawn, "A map")]),
        Section("Model", [Facts([("seed", 0)]), Paragraph("Few words.", kind="note")]),
        Section("The end", []),
    ]


def test_a_page_is_well_formed_and_says_what_it_was_given() -> None:
    read = Reader(page("A case", sections(), lead="In short", footer="whowrote"))
    for said in (
        "A case",
        "In short",
        "Answers",
        "0.5",
        "One text",
        "seed",
        "Few words.",
        "whowrote",
    ):
        assert said in read.text
    assert [cell["class"] for cell in read.all("td")] == ["text", "number"] * 2
    assert [image["alt"] for image in read.all("img")] == ["a bar of 90 %", "A map"]
    places = {f"#{section['id']}" for section in read.all("section")}
    assert {link["href"] for link in read.all("a")} == places


def test_the_parser_would_find_a_tag_left_open() -> None:
    with pytest.raises(AssertionError):
        Reader(page("t", []).replace("</main>", ""))


def test_a_short_page_needs_no_contents() -> None:
    assert Reader(page("A case", sections()[:3])).all("nav") == []


def test_nothing_is_loaded_from_elsewhere() -> None:
    html = page("A case", sections())
    read = Reader(html)
    assert {tag for tag, _ in read.tags} & {"script", "link", "iframe", "object", "base"} == set()
    for _, attributes in read.tags:
        for name in ("src", "href"):
            assert (attributes.get(name) or "#").startswith(("#", "data:image/svg+xml;base64,"))
    assert not re.search(r"url\(|@import|https?:", html)
    policy = [meta["content"] for meta in read.all("meta") if "http-equiv" in meta]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'; img-src data:"]
    for image in read.all("img"):
        svg = base64.b64decode(str(image["src"]).split(",", 1)[1]).decode()
        assert svg.startswith("<?xml")
        references = re.findall(r'(?:xlink:href|[^:]href|src)="([^"]*)"', svg)
        assert references
        assert all(one.startswith(("#", "data:")) for one in references)


def test_whatever_is_written_stays_text() -> None:
    figure = Figure(picture().figure, EVIL)
    blocks = [Paragraph(EVIL), Facts([(EVIL, EVIL)]), Table([EVIL], [[EVIL]], caption=EVIL), figure]
    html = page(EVIL, [Section(EVIL, blocks)] * 4, lead=EVIL, footer=EVIL)
    read = Reader(html)
    assert read.all("script") == []
    # Title twice; lead, footer; four times in the contents, and four times all that a section has.
    assert read.text.count(EVIL) == 2 + 2 + 4 + 4 * (1 + 1 + 2 + 3 + 1)
    assert {image["alt"] for image in read.all("img")} == {EVIL}


def test_signs_that_no_page_may_hold_are_marked(tmp_path: Path) -> None:
    text = "half \ud800, null \x00, bell \x07, line\nnext\ttab é 字"
    path = write_page(tmp_path / "a.html", "t", [Section("s", [Paragraph(text)])])
    assert "half ?, null \ufffd, bell \ufffd, line\nnext\ttab é 字" in path.read_text("utf-8")


def test_a_carriage_return_is_no_control_sign_in_a_text_of_windows() -> None:
    assert "one\ntwo" in Paragraph("one\r\ntwo").html()


def test_the_same_content_gives_the_same_bytes_and_one_file(tmp_path: Path) -> None:
    path = write_page(tmp_path / "new" / "a.html", "t", sections())
    first = path.read_bytes()
    assert write_page(path, "t", sections()).read_bytes() == first
    assert [file.name for file in path.parent.iterdir()] == ["a.html"]
    assert write_page(path, "t", sections()[1:]).read_bytes() != first


def test_a_figure_drawn_twice_is_the_same() -> None:
    figure = sections()[1].blocks[1]
    assert figure.html() == figure.html()


def test_a_block_that_fails_leaves_the_old_page(tmp_path: Path) -> None:
    class Broken:
        def html(self) -> str:
            raise RuntimeError("no picture")

    path = write_page(tmp_path / "a.html", "t", [])
    before = path.read_bytes()
    with pytest.raises(RuntimeError, match="no picture"):
        write_page(path, "t", [Section("s", [Broken()])])
    assert path.read_bytes() == before


def test_rows_carry_their_marks() -> None:
    html = Table(["a"], [["x"], ["y"], ["z"]], marks=["right", "wrong", ""]).html()
    assert re.findall(r'<tr class="(\w*)">', html) == ["right", "wrong", ""]


def test_bad_blocks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"rows has a row of 1 cells for 2 columns.*empty one"):
        Table(["a", "b"], [["x", "y"], ["z"]])
    with pytest.raises(InputError, match=r"styles is \['bold'\]; it must have 1 entries.*'number'"):
        Table(["a"], [["x"]], ["bold"])
    with pytest.raises(InputError, match=r"marks is \['right'\]; it must have 2 entries"):
        Table(["a"], [["x"], ["y"]], marks=["right"])
    with pytest.raises(InputError, match=r"kind is \['loud'\].*'plain', 'note'"):
        Paragraph("x", kind="loud")
    with pytest.raises(InputError, match=r"path is 'a\.pdf'; a page ends in \.html"):
        write_page(tmp_path / "a.pdf", "t", [])
    assert list(tmp_path.iterdir()) == []
