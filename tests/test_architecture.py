"""The picture of the rooms: it shows every room, agrees with the imports, and is up to date."""

import doctest
import json
import re
from itertools import pairwise
from pathlib import Path

import pytest

from architecture_script import architecture


def planted(source: Path, **texts: str) -> Path:
    for name, text in texts.items():
        folder = source / "whowrote" / name
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(text)
    return source


def test_every_room_of_the_source_is_in_the_picture() -> None:
    graph = architecture.read_graph()
    folders = architecture.SOURCE / "whowrote"
    rooms = {path.parent.name for path in folders.glob("*/__init__.py")}
    rooms |= {path.stem for path in folders.glob("*.py") if path.stem[0] != "_"}
    shown = {room for floor in graph.floors for room in floor} | {*architecture.GROUND_MODULES}
    assert rooms <= shown
    assert architecture.EXPERIMENTS in shown


def test_the_edges_are_imports_and_go_down() -> None:
    graph, imports = architecture.read_graph(), architecture.room_edges()
    assert graph.edges <= imports
    assert [edge for edge in graph.edges if graph.height[edge[0]] < graph.height[edge[1]]] == []


def test_an_upward_edge_would_be_seen(tmp_path: Path) -> None:
    graph = architecture.read_graph(
        planted(tmp_path, corpus="import whowrote.cli", cli="", attribution="")
    )
    assert graph.edges == {("corpus", "cli")}
    assert graph.height["corpus"] < graph.height["attribution"] < graph.height["cli"]


def test_what_reduction_leaves_out_follows_from_the_rest(tmp_path: Path) -> None:
    graph = architecture.read_graph(
        planted(
            tmp_path,
            model="",
            training="from whowrote.model import vae",
            estimators="from whowrote import model, training",
            sweep="import whowrote.model\nimport whowrote.estimators",
        )
    )
    chain = {("sweep", "estimators"), ("estimators", "training"), ("training", "model")}
    assert graph.edges == chain


def test_rooms_stand_apart_and_inside_the_picture() -> None:
    layout = architecture.lay_out(architecture.read_graph(), centre=4.15, reach=3.95)
    for floor in layout.graph.floors:
        places = sorted(layout.x[room] for room in floor)
        assert all(right - left > architecture.BOX for left, right in pairwise(places))
        assert all(0 < place < architecture.SIZE[0] for place in places)


def missing_files(page: str) -> list[str]:
    """Files that a page names in backticks, whole or by their last part, and that are not there."""
    root = architecture.HERE.parent
    there = [f"/{path.relative_to(root).as_posix()}" for path in root.glob("[!.]*/**/*.py")]
    named = re.findall(r"`(?:python )?([\w/]+\.py)`", page)
    return [name for name in named if not any(path.endswith(f"/{name}") for path in there)]


@pytest.mark.parametrize("name", ["architecture.md", "extending.md"])
def test_every_file_that_a_page_names_exists(name: str) -> None:
    assert missing_files((architecture.HERE / name).read_text(encoding="utf-8")) == []


def test_a_planted_name_of_no_file_is_found() -> None:
    page = "see `model/vae.py`, `vae.py`, `python docs/architecture.py` and `model/attic.py`"
    assert missing_files(page) == ["model/attic.py"]


@pytest.mark.parametrize("name", ["architecture.svg", "architecture.png"])
def test_the_picture_is_committed(name: str) -> None:
    assert (architecture.HERE / name).is_file()


def test_the_committed_picture_is_up_to_date() -> None:
    now = json.loads(json.dumps(architecture.read_graph().to_dict()))
    assert architecture.shown(architecture.HERE / "architecture.svg") == now, (
        "the imports have changed: run `python docs/architecture.py`"
    )


def test_a_picture_that_says_nothing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "old.svg").write_text("<svg></svg>")
    with pytest.raises(AssertionError, match="run python docs/architecture"):
        architecture.shown(tmp_path / "old.svg")


def test_writing_draws_both_files(tmp_path: Path) -> None:
    architecture.write(tmp_path)
    assert (tmp_path / "architecture.png").read_bytes()[:4] == b"\x89PNG"
    assert architecture.shown(tmp_path / "architecture.svg")["edges"]


def test_the_examples_of_the_script_are_true() -> None:
    result = doctest.testmod(architecture)
    assert result.attempted > 0
    assert result.failed == 0
