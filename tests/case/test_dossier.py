"""The report in a browser: whole, silent, printable, and only text where texts are hostile."""

import json
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from case.conftest import HOSTILE

BROWSER = shutil.which("chromium")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--no-first-run", "--enable-logging=stderr", "--v=0"),
)


def browse(folder: Path, *arguments: str, page: Path) -> tuple[str, str]:
    """What the browser prints on standard output, and what it logs."""
    if BROWSER is None:
        pytest.skip("chromium is not installed")
    profile = f"--user-data-dir={folder / 'profile'}"
    done = subprocess.run(
        [BROWSER, *FLAGS, profile, *arguments, page.as_uri()],
        capture_output=True,
        text=True,
        timeout=90,
        check=True,
    )
    return done.stdout, done.stderr


def requests(log: Path) -> set[str]:
    """Addresses outside of files and data that pages asked for, from the browser's network log."""
    found = set()
    for line in log.read_text(encoding="utf-8").splitlines():
        if '"url":"http' in line:
            found.add(line.split('"url":"')[1].split('"')[0])
    return found


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


def test_a_browser_shows_it_silently(made: Path, tmp_path: Path) -> None:
    log = tmp_path / "net.json"
    dom, said = browse(tmp_path, "--dump-dom", f"--log-net-log={log}", page=made / "report.html")
    assert "CONSOLE" not in said
    assert "&lt;script&gt;console.error('run')&lt;/script&gt;" in dom
    assert not any("example.invalid" in one for one in requests(log))


def test_a_page_that_does_harm_is_heard(tmp_path: Path) -> None:
    page, log = tmp_path / "bad.html", tmp_path / "net.json"
    page.write_text(f"<!DOCTYPE html><title>x</title>{HOSTILE}")
    _, said = browse(tmp_path, "--dump-dom", f"--log-net-log={log}", page=page)
    assert "CONSOLE" in said
    assert any("example.invalid" in one for one in requests(log))


def test_it_prints_to_pages_of_a4(made: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.pdf"
    browse(
        tmp_path, f"--print-to-pdf={target}", "--no-pdf-header-footer", page=made / "report.html"
    )
    from pypdf import PdfReader

    pages = PdfReader(target).pages
    assert 4 <= len(pages) <= 12
    for page in pages:
        assert float(page.mediabox.width) == pytest.approx(595, abs=2)
        assert float(page.mediabox.height) == pytest.approx(842, abs=2)
    first = pages[0].extract_text()
    assert "What was not found" in first
    assert "Validation under" not in first
