"""Lines with their spread, and points side by side."""

import numpy as np

from whowrote.plots import (
    Curve,
    Panel,
    curves,
    scatter_panels,
)


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
