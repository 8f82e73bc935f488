"""The report in a browser: whole, silent, printable, and only text where texts are hostile."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from case.conftest import HOSTILE

BROWSER = shutil.which("chromium")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
PRINTED = {"width": 680, "height": 990}
"""Pixels between the margins of the printed page."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if BROWSER is None:
        pytest.skip("chromium is not installed")
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield opened
        opened.close()


@dataclass
class Visit:
    """What a page said and asked for while it was open."""

    page: Any
    console: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


def visit(browser: Any, path: Path) -> Visit:
    found = Visit(browser.new_page(viewport=PRINTED))
    found.page.on("console", lambda message: found.console.append(message.text))
    found.page.on("pageerror", lambda error: found.console.append(str(error)))
    found.page.on("request", lambda request: found.requests.append(request.url))
    found.page.goto(path.as_uri())
    found.page.wait_for_load_state("networkidle")
    return found


def outside(found: Visit) -> list[str]:
    return [one for one in found.requests if not one.startswith(("file:", "data:"))]


def too_large(page: Any) -> list[int]:
    """Numbers of figures that no printed page could hold whole."""
    page.emulate_media(media="print")
    sizes = page.eval_on_selector_all(
        "figure",
        "all => all.map(f => [f.scrollWidth, f.getBoundingClientRect().height,"
        " getComputedStyle(f).breakInside])",
    )
    return [
        number
        for number, (width, height, breaks) in enumerate(sizes)
        if width > PRINTED["width"] or height > PRINTED["height"] or breaks != "avoid"
    ]


class Tags(HTMLParser):
    """The tags of a page and the sources of its images."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.sources: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(tag)
        self.sources += [value or "" for key, value in attrs if key in ("src", "href", "onerror")]


def test_the_page_has_no_script_and_no_address(made: Path) -> None:
    page = Tags((made / "report.html").read_text(encoding="utf-8"))
    assert "script" not in page.found
    assert page.sources
    assert all(one.startswith("data:image/svg+xml") for one in page.sources)
    assert {"script", "img"} <= set(Tags(HOSTILE).found)  # they would be seen


def test_page_one_asks_answers_and_disclaims(made: Path) -> None:
    page = (made / "report.html").read_text(encoding="utf-8")
    first = page[: page.index("</section>")]
    for part in ("What was asked", "What was found", "What was not found", "made-up people"):
        assert part in first
    for sign in ("is the author", "guilty", "proves that"):
        assert sign not in page
    data = json.loads((made / "report.json").read_text(encoding="utf-8"))
    for one in data["texts"]:
        assert one["sha256"] in page
    assert data["findings_sha256"] in page


def test_the_report_is_the_same_each_time(made: Path, tmp_path: Path) -> None:
    from whowrote.case import Case
    from whowrote.case.dossier import write_report

    copy = Path(shutil.copytree(made, tmp_path / "copy"))
    write_report(Case.open(copy))
    assert (copy / "report.html").read_bytes() == (made / "report.html").read_bytes()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_shows_it_silently(made: Path, browser: Any, scheme: str) -> None:
    found = visit(browser, made / "report.html")
    found.page.emulate_media(color_scheme=scheme)
    assert found.console == []
    assert outside(found) == []
    shown = found.page.inner_text("main")
    assert HOSTILE in shown  # as text
    assert found.page.eval_on_selector_all("script", "all => all.length") == 0
    ink, paper = (
        found.page.eval_on_selector("body", f"b => getComputedStyle(b).{name}")
        for name in ("color", "backgroundColor")
    )
    assert ink != paper
    assert (paper == "rgb(255, 255, 255)") is (scheme == "light")
    found.page.close()


def test_a_page_that_does_harm_is_heard(browser: Any, tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    tall = "<figure style='height:2000px'></figure>"
    page.write_text(f"<!DOCTYPE html><title>x</title>{HOSTILE}{tall}")
    found = visit(browser, page)
    assert "run" in found.console
    assert any("example.invalid" in one for one in outside(found))
    assert too_large(found.page) == [0]
    found.page.close()


def test_it_prints_to_pages_of_a4_without_cut_figures(
    made: Path, browser: Any, tmp_path: Path
) -> None:
    found, target = visit(browser, made / "report.html"), tmp_path / "report.pdf"
    assert found.page.eval_on_selector_all("figure", "all => all.length") >= 3
    assert too_large(found.page) == []
    found.page.pdf(path=str(target), prefer_css_page_size=True, print_background=True)
    found.page.close()
    from pypdf import PdfReader

    pages = PdfReader(target).pages
    assert 4 <= len(pages) <= 14
    for page in pages:
        assert float(page.mediabox.width) == pytest.approx(595, abs=2)
        assert float(page.mediabox.height) == pytest.approx(842, abs=2)
    first = pages[0].extract_text()
    assert "What was not found" in first
    assert pages[1].extract_text().lstrip().startswith("Findings")  # page one is one page
