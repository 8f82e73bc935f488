"""The comparison with peers: what is counted, what is judged, and the page that shows it."""

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

PEERS = Path(__file__).resolve().parents[1] / "benchmarks" / "peers"
PAGE = PEERS.parents[1] / "docs" / "comparison.md"
NAMES = ("answering", "jobs", "compare")


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ModuleType]]:
    """The scripts, which import each other as scripts do."""
    monkeypatch.syspath_prepend(str(PEERS))
    yield {name: importlib.import_module(name) for name in NAMES}
    for name in NAMES:
        del sys.modules[name]


def test_the_page_has_the_table_of_the_record(peers: dict[str, ModuleType]) -> None:
    record = json.loads((PEERS / "record.json").read_text(encoding="utf-8"))
    page = PAGE.read_text(encoding="utf-8")
    assert peers["compare"].table(record) in page
    record["pan15"]["whowrote"]["auc"] += 0.01  # a figure that nobody measured
    assert peers["compare"].table(record) not in page


def test_lines_are_those_of_the_body_without_its_docstring(peers: dict[str, ModuleType]) -> None:
    def job(known: list[str]) -> list[str]:
        """Not typed."""
        first = known[0]

        # not typed
        return [
            first,
        ]

    assert peers["answering"].lines_typed(job) == 4


def test_figures_know_right_from_wrong(peers: dict[str, ModuleType]) -> None:
    job = peers["jobs"].Job("blogs5", "attribution", [], [], ["a", "b", None])
    right = peers["compare"].figures(job, [["a", 2.0, "a"], ["b", 1.0, None], ["a", 0.0, None]])
    assert right == {"error": 0, "auc": 1, "strangers_named": 0, "enrolled_refused": 0.5}
    wrong = peers["compare"].figures(job, [["b", 0.0, "b"], ["a", 1.0, "a"], ["a", 2.0, "a"]])
    assert wrong == {"error": 1, "auc": 0, "strangers_named": 1, "enrolled_refused": 0}
    pairs = peers["jobs"].Job("pan15", "verification", [], [], [True, False])
    ratios = peers["compare"].figures(pairs, [2.0, float("-inf")])
    assert ratios["auc"] == 1
    assert ratios["cllr"] < 0.01
    assert peers["compare"].figures(pairs, [-2.0, 2.0])["cllr"] > 6


def test_nobody_is_asked_about_a_text_they_learnt_from(peers: dict[str, ModuleType]) -> None:
    authors = [f"a{n % 30}" for n in range(30 * 60)]
    texts = [f"text {n}" for n in range(len(authors))]
    for name, per_author, people in (("blogs5", 5, 30), ("strangers", 20, 15)):
        job = peers["jobs"].blogs(name, authors, texts, 0)
        assert len(job.known) == per_author * people
        assert len(job.questions) == len(job.truth) == 100
        assert not {one["text"] for one in job.known} & {one["text"] for one in job.questions}
        assert (job.truth.count(None) == 50) == (name == "strangers")
        assert "truth" not in job.shown()


def test_the_front_page_has_figures_of_the_record() -> None:
    record = json.loads((PEERS / "record.json").read_text(encoding="utf-8"))
    front = (PEERS.parents[1] / "README.md").read_text(encoding="utf-8")
    rows = [line for line in front.splitlines() if line.startswith("|")]
    assert shown(record, rows) == []
    record["essays"]["bitig-delta"]["cllr"] -= 0.01
    assert shown(record, rows) == ["essays"]


OPENINGS = {
    "blogs5": "| 100 posts",
    "strangers": "| 15 bloggers",
    "pan15": "| PAN 2015",
    "essays": "| PAN 2014",
}


def shown(record: dict[str, dict[str, dict[str, float]]], rows: list[str]) -> list[str]:
    """Jobs whose row lacks a figure of this package, of scikit-learn, or of the best other tool."""
    faults = []
    for job, opening in OPENINGS.items():
        cells = record[job]
        keys = ("error",) if job == "blogs5" else ("auc", "cllr")
        best = max(cells.keys() - {"whowrote", "scikit-learn"}, key=lambda t: good(cells[t]))
        (row,) = [row for row in rows if row.startswith(opening)]
        wanted = [
            f"{cells[tool][key] * 100:.1f} %" if key == "error" else f"{cells[tool][key]:.3f}"
            for tool in ("whowrote", "scikit-learn", best)
            for key in keys
            if key in cells[tool]
        ]
        faults += [job] if any(figure not in row for figure in wanted) else []
    return faults


def good(cell: dict[str, float]) -> float:
    return cell.get("auc", -cell.get("error", 1.0))
