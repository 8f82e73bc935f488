"""How good the answers are, and who was taken for whom."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from whowrote.errors import InputError
from whowrote.evaluation import LengthBin
from whowrote.metrics import Interval, calibration_error, evaluate, wilson
from whowrote.plots import (
    Bar,
    confusion_matrix,
    length_errors,
    probability_bars,
    reliability_diagram,
    save,
)
from whowrote.plots.style import OUTSIDE, RIGHT, WRONG

BARS = [
    Bar("ann, 1", "ann", 0.999, True),
    Bar("bob, 2", "ann", 0.6, False),
    Bar("cyd, 3", "none of these", 0.3, None),
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
    assert [text.strip() for text in words(figure)] == [">99%", "60%  ann", "none of these"]
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


def test_reliability_shows_share_interval_count_and_ece() -> None:
    confidence, right = [0.62, 0.64, 0.95, 0.97, 0.99], [True, False, True, True, True]
    figure = reliability_diagram(confidence, right, n_bins=10)
    above, below = figure.axes
    dots = [np.asarray(dot.get_offsets())[0] for dot in above.collections[1::2]]
    np.testing.assert_allclose(dots, [[0.63, 0.5], [0.97, 1.0]])
    low, high = above.collections[0].get_segments()[0][:, 1]
    assert (low, high) == (wilson(1, 2).low, wilson(1, 2).high)
    assert [bar.get_height() for bar in below.patches] == [0] * 6 + [2, 0, 0, 3]
    assert f"ECE {calibration_error(confidence, right, n_bins=10):.1%}" in above.get_title("left")


def test_the_ece_of_the_title_is_that_of_evaluate() -> None:
    rng = np.random.default_rng(0)
    sure = rng.uniform(0.5, 1.0, size=200)
    codes = (rng.random(200) > sure**2).astype(int)
    found = evaluate(codes, np.column_stack([sure, 1.0 - sure]), [0, 1])
    title = reliability_diagram(sure, codes == 0).axes[0].get_title("left")
    assert title.endswith(f"ECE {found.ece:.1%}")


def test_reliability_refuses_what_is_no_probability() -> None:
    with pytest.raises(
        InputError, match=r"confidence has 1\.5; a probability lies between 0 and 1"
    ):
        reliability_diagram([0.5, 1.5], [True, True])
    with pytest.raises(InputError, match=r"confidence has nan"):
        reliability_diagram([np.nan], [True])
    with pytest.raises(InputError, match=r"confidence has shape \(1,\) and right \(2,\)"):
        reliability_diagram([0.5], [True, True])


def test_length_errors_draw_each_bin_with_its_count() -> None:
    bins = [
        LengthBin(10, 90, 5, 0.4, Interval(0.1, 0.8)),
        LengthBin(100, 900, 1200, 0.0, Interval(0.0, 0.1)),
    ]
    (axes,) = length_errors(bins).axes
    assert axes.get_xscale() == "log"
    assert [text.get_text() for text in axes.texts] == ["5", "1,200"]
    dots = [np.asarray(dot.get_offsets())[0] for dot in axes.collections[2::3]]
    np.testing.assert_allclose(dots, [[30.0, 0.4], [300.0, 0.0]])
    assert [text.get_text() for text in axes.get_xticklabels()] == ["10", "90", "900"]


def test_texts_of_one_length_are_drawn_as_well(tmp_path: Path) -> None:
    save(length_errors([LengthBin(300, 300, 5, 0.4, Interval(0.1, 0.8))]), tmp_path / "a.png")


def test_no_bins_no_plot() -> None:
    with pytest.raises(InputError, match=r"bins is empty.*error_by_length"):
        length_errors([])
