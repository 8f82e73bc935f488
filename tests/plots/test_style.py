"""Files, names and colours that all pictures share."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whowrote.errors import InputError
from whowrote.plots import (
    Bar,
    confusion_matrix,
    degrees_of_freedom,
    probability_bars,
    save,
    save_all,
)
from whowrote.plots.style import group_colour

BARS = [
    Bar("ann, 1", "ann", 0.999, True),
    Bar("bob, 2", "ann", 0.6, False),
    Bar("cyd, 3", "none of these", 0.3, None),
]


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.SVG", b"<?xml")])
def test_saved_files_are_what_they_say_and_always_the_same(
    tmp_path: Path, name: str, start: bytes
) -> None:
    path = save(probability_bars(BARS), tmp_path / "new" / name)
    first = path.read_bytes()
    assert first.startswith(start)
    assert save(probability_bars(BARS), path).read_bytes() == first
    assert [file.name for file in path.parent.iterdir()] == [name]


def test_all_figures_are_saved_as_png_and_svg(tmp_path: Path) -> None:
    paths = save_all({"bars": probability_bars(BARS)}, tmp_path)
    assert paths == [tmp_path / "bars.png", tmp_path / "bars.svg"]
    assert all(path.stat().st_size > 1000 for path in paths)


def test_another_format_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"path is 'a\.jpeg'.*\.png or \.svg"):
        save(probability_bars(BARS), tmp_path / "a.jpeg")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_plot_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise OSError("disk full")

    figure = probability_bars(BARS)
    monkeypatch.setattr(figure, "savefig", fail)
    with pytest.raises(OSError, match="disk full"):
        save(figure, tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []


def test_no_global_state() -> None:
    before = "matplotlib.pyplot" in sys.modules
    probability_bars(BARS)
    assert ("matplotlib.pyplot" in sys.modules) == before


def test_dollars_in_a_name_are_no_mathematics(tmp_path: Path) -> None:
    names = ["$\\nonsense$", "a$b"]
    save(confusion_matrix(np.eye(2, dtype=int), names), tmp_path / "a.png")
    save(probability_bars([Bar(names[0], names[0], 0.5, False)]), tmp_path / "b.png")
    save(degrees_of_freedom([3.0, 4.0], names), tmp_path / "c.png")


def test_twenty_four_groups_have_colours_of_their_own() -> None:
    assert len({group_colour(group) for group in range(24)}) == 24
    assert group_colour(24) == group_colour(0)
