"""Every link between files of the repository leads somewhere, to the heading that it names."""

import re
from pathlib import Path

HOME = Path(__file__).resolve().parents[1]
PAGES = [
    *HOME.glob("*.md"),
    *HOME.glob("docs/**/*.md"),
    *HOME.glob("benchmarks/**/*.md"),
    *HOME.glob("experiments/**/*.md"),
]
_CODE = re.compile(r"^(```|~~~).*?^\1", re.M | re.S)
_INLINE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")


def prose(page: Path) -> str:
    """The text of a page without code."""
    return _INLINE.sub("", _CODE.sub("", page.read_text(encoding="utf-8")))


def anchors(page: Path) -> set[str]:
    """The names of a page's headings, as links write them; and those set by hand."""
    text = _CODE.sub("", page.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+\s+(.*?)\s*$", text, re.M)
    slugs = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
    return slugs | set(re.findall(r"^\(([\w-]+)\)=$", text, re.M))


def dead_links(pages: list[Path]) -> list[str]:
    """Links to files that are not there, and to headings that their page has not."""
    found = []
    for page in pages:
        for link in _LINK.findall(prose(page)):
            if re.match(r"[a-z]+:", link):
                continue  # the web is not asked
            name, _, heading = link.partition("#")
            target = (page.parent / name).resolve() if name else page
            if not target.exists():
                found.append(f"{page.name}: {link}: no such file")
            elif heading and target.suffix == ".md" and heading not in anchors(target):
                found.append(f"{page.name}: {link}: no such heading")
    return found


def test_every_link_leads_somewhere() -> None:
    assert len(PAGES) > 20
    assert dead_links(PAGES) == []


def test_a_link_to_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# What it *is*\n\n(by-hand)=\n")
    page = tmp_path / "page.md"
    page.write_text(
        "# Top\n[a](gone.md) [b](other.md#what-it-is) [c](other.md#what-it-was) [d](#top)\n"
        "[e](https://nowhere.invalid) [f](#bottom) [g](other.md#by-hand) `[h](code.md)`\n"
        "```\n[i](block.md)\n```\n"
    )
    assert dead_links([page]) == [
        "page.md: gone.md: no such file",
        "page.md: other.md#what-it-was: no such heading",
        "page.md: #bottom: no such heading",
    ]
