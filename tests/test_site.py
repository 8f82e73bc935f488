"""The documentation builds strictly, and a page that names nothing is found."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"

pytest.importorskip("sphinx", reason="the extra docs is not installed")
pytest.importorskip("furo", reason="the extra docs is not installed")
pytest.importorskip("myst_parser", reason="the extra docs is not installed")


def build(docs: Path, out: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    return subprocess.run([*command, docs, out], capture_output=True, text=True, check=False)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """The settings of the site with two of its pages, beside the file that has the version."""
    shutil.copy(DOCS.parent / "pyproject.toml", tmp_path)
    pages = tmp_path / "docs"
    shutil.copytree(DOCS / "_static", pages / "_static")
    for name in ("conf.py", "glossary.md"):
        shutil.copy(DOCS / name, pages)
    listed = "# Site\n\n```{toctree}\n\nglossary\nattic\n```\n"
    (pages / "index.md").write_text(listed)  # the attic is named before it is written
    return pages


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    done = build(DOCS, tmp_path / "html")
    assert (done.returncode, done.stderr) == (0, "")
    start = (tmp_path / "html" / "index.html").read_text(encoding="utf-8")
    assert "architecture.svg" in start
    assert "MixtureVAEClassifier" in (tmp_path / "html" / "api.html").read_text(encoding="utf-8")


def test_a_page_by_a_name_that_is_expected_slots_in(small: Path) -> None:
    done = build(small, small / "_build")
    assert (done.returncode, done.stderr) == (0, "")
    (small / "attic.md").write_text("# A page of its own\n")
    done = build(small, small / "_after")
    assert (done.returncode, done.stderr) == (0, "")
    assert "A page of its own" in (small / "_after" / "index.html").read_text(encoding="utf-8")


def test_a_planted_broken_link_and_a_page_in_no_list_are_found(small: Path) -> None:
    page = small / "glossary.md"
    page.write_text(page.read_text(encoding="utf-8") + "\n[nowhere](no_such_page.md)\n")
    (small / "cellar.md").write_text("# Cellar\n")
    done = build(small, small / "_build")
    assert done.returncode != 0
    assert "no_such_page.md" in done.stderr
    assert "cellar.md" in done.stderr
