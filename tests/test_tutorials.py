"""Every tutorial runs as it stands; every command and every public name is in one that runs."""

import re
from pathlib import Path

import pytest

import whowrote
from walkthrough import blocks_of, matches, walk
from whowrote.cli import COMMANDS

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = sorted((DOCS / "tutorials").glob("*.md"))
EXPERIMENT = "experiment"  # comes with the laboratory, by an entry point


def test_there_are_pages() -> None:
    assert len(PAGES) >= 8


NEEDS = re.compile(r"<!-- needs the command: (\w+) -->")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = set(NEEDS.findall(page.read_text(encoding="utf-8"))) - set(COMMANDS)
    if needed:
        pytest.skip(f"this version has no command {', '.join(needed)}")
    monkeypatch.setenv("COLUMNS", "100")
    assert walk(page, tmp_path) == []


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ("```python\n1 / 0\n```\n", "planted.md:3 failed: ZeroDivisionError"),
        ("```sh\nfalse\n```\n", "status 1"),
        ("```sh\nwhowrote audit nowhere\n```\n", "nowhere"),
        ("```python\nprint(2 + 2)\n```\n\n```text\n5\n```\n", "where the page has:\n5"),
        ("```sh\necho 4 | cat\n```\n\n```text\n5 ...\n```\n", "printed:\n4"),
    ],
)
def test_a_planted_failing_block_is_found(block: str, said: str, tmp_path: Path) -> None:
    page = tmp_path / "planted.md"
    page.write_text(f"# Planted\n\n{block}", encoding="utf-8")
    assert said in "".join(walk(page, tmp_path))


def test_a_page_that_is_right_has_nothing_to_say(tmp_path: Path) -> None:
    page = tmp_path / "right.md"
    page.write_text(
        "```python\nx = 2\n```\n\n```sh\nprintf 'a\\nb' > f; cat f\n```\n\n```text\na ...b\n```\n"
        "\n```toml\nnot = run\n```\n\n```python\nfrom pathlib import Path\n"
        "print(x, Path('f').read_text()[0])\n```\n"
        "```text\n2 a\n```\n",
        encoding="utf-8",
    )
    assert [block.kind for block in blocks_of(page.read_text())] == ["python", "sh", "python"]
    assert walk(page, tmp_path) == []
    assert not matches("a ... c", "a b d")


def run_code() -> str:
    """Everything that the pages run."""
    pages = [page.read_text(encoding="utf-8") for page in PAGES]
    return "\n".join(block.code for page in pages for block in blocks_of(page))


def missing(code: str) -> set[str]:
    """Commands and public names that no block uses."""
    commands = {name for name in (*COMMANDS, EXPERIMENT) if f"whowrote {name}" not in code}
    public = set(whowrote.__all__) - {"__version__"}
    return commands | {name for name in public if not re.search(rf"\b{name}\b", code)}


def test_every_command_and_public_name_has_an_example_that_runs() -> None:
    assert missing(run_code()) == set()


def test_every_command_is_on_the_page_of_all_commands() -> None:
    page = (DOCS / "overview.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"`(\w+)(?: \w+)?`", page))
    assert {*COMMANDS, EXPERIMENT} <= listed
    assert "attrib" not in listed  # no half of a name counts


def test_a_name_without_an_example_is_found() -> None:
    code = run_code()
    assert missing(code.replace("whowrote zeta", "").replace("NGrams", "")) == {"zeta", "NGrams"}
