import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from whowrote.errors import InputError
from whowrote.plots import (
    OUTSIDE,
    RIGHT,
    WRONG,
    Bar,
    Curve,
    Panel,
    confusion_matrix,
    curves,
    probability_bars,
    save,
    scatter_panels,
)

BARS = [
    Bar("ann, 1", "ann", 0.999, True),
    Bar("bob, 2", "ann", 0.6, False),
    Bar("cyd, 3", "bob", 0.3, None),
]


def words(figure: Figure) -> list[str]:
    (axes,) = figure.axes
    return [text.get_text() for text in axes.texts]


def test_confusion_matrix_shows_counts_and_shades_shares() -> None:
    figure = confusion_matrix([[8, 2, 0], [0, 1, 0], [0, 0, 0]], ["ann", "bob", "cyd"])
    (axes,) = figure.axes
    assert words(figure) == ["8", "2", "1"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["ann", "bob", "cyd"]
    shades = np.asarray(axes.images[0].get_array())
    np.testing.assert_allclose(shades, [[0.8, 0.2, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])


def test_a_matrix_of_another_size_is_refused() -> None:
    with pytest.raises(InputError, match=r"counts has shape \(2, 2\) for 3 classes.*square"):
        confusion_matrix(np.eye(2), ["a", "b", "c"])


def test_bars_say_probability_and_name_the_answer_when_it_is_not_right() -> None:
    figure = probability_bars(BARS)
    (axes,) = figure.axes
    assert [patch.get_width() for patch in axes.patches] == [0.999, 0.6, 0.3]
    assert [text.strip() for text in words(figure)] == [">99%", "60%  ann", "30%  bob"]
    from matplotlib.colors import to_rgba

    colours = [patch.get_facecolor() for patch in axes.patches]
    assert colours == [to_rgba(colour) for colour in (RIGHT, WRONG, OUTSIDE)]
    legend = axes.get_legend()
    assert legend is not None
    assert len(legend.get_texts()) == 3


def test_the_legend_has_only_what_is_drawn() -> None:
    legend = probability_bars(BARS[:1]).axes[0].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["right"]


def test_no_bars_no_plot() -> None:
    with pytest.raises(InputError, match=r"bars is empty.*one Bar per text"):
        probability_bars([])


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.SVG", b"<?xml")])
def test_saved_files_are_what_they_say_and_always_the_same(
    tmp_path: Path, name: str, start: bytes
) -> None:
    path = save(probability_bars(BARS), tmp_path / "new" / name)
    first = path.read_bytes()
    assert first.startswith(start)
    assert save(probability_bars(BARS), path).read_bytes() == first
    assert [file.name for file in path.parent.iterdir()] == [name]


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


def test_panels_give_a_group_one_colour_and_a_tail_no_say() -> None:
    points = np.random.default_rng(0).normal(size=(400, 2))
    points[0] = 1e6
    groups = np.arange(400) % 2
    figure = scatter_panels([Panel("left", points, groups), Panel("right", points, groups)])
    left, right = figure.axes
    colours = [
        [tuple(c.get_facecolor()[0][:3]) for c in axes.collections] for axes in (left, right)
    ]
    assert colours[0] == colours[1]
    assert len(set(colours[0])) == 2
    assert left.get_xlim()[1] < 10


def test_curves_carry_their_spread_and_their_name() -> None:
    line = Curve("with the rest", [1, 2, 5], [50.0, 45.0, 40.0], [1.0, 0.5, 0.2])
    figure = curves([line], title="t", x_label="labels", y_label="error", log_x=True)
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["with the rest"]
    assert axes.get_xscale() == "log"
    assert len(axes.containers[0][2]) == 1  # the error bars
    plain = curves([line], title="t", x_label="labels", y_label="error")
    assert plain.axes[0].get_xscale() == "linear"
