"""A long text window by window: shares of the authors, their bands, change points, milestones."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from whowrote.arrays import FloatArray
from whowrote.attribution.rolling import Rolling
from whowrote.plots.style import (
    FAINT,
    INK,
    OUTSIDE,
    PAPER,
    RULE,
    finish,
    group_colour,
    label,
    sheet,
)

MOST_NAMED = 5
"""Authors with a colour of their own; the others are one band."""
LONGEST_LABEL = 18


def along_text(found: Rolling, title: str = "") -> Figure:
    """Above, shares that add up to one, with none of these on top; below, bands of each author."""
    figure = sheet(10.0, 6.0)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    middles = np.array([(one.start + one.end) / 2 for one in found.windows])
    named = _named(found)
    _stack(above, found, middles, named)
    _bands(below, found, middles, named)
    for axes in (above, below):
        axes.set_xlim(middles[0], middles[-1])
        for point in found.change_points:
            axes.axvline(point, color=INK, linewidth=1.6)
    _milestones(above, below, found)
    finish(above, title or f"Windows of {found.window:,} words, {found.step:,} apart")
    finish(below, "")
    above.set_ylabel("share", color=FAINT)
    below.set_ylabel("probability among\nthe enrolled, 95 % band", color=FAINT)
    below.set_xlabel(_caption(found), color=FAINT)
    below.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
    above.legend(
        *above.get_legend_handles_labels(),
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
        frameon=False,
        fontsize=9,
        labelcolor=INK,
        reverse=True,
    )
    return figure


def _caption(found: Rolling) -> str:
    points = ", ".join(f"{point:,}" for point in found.change_points)
    said = f"change points (black): {points}" if points else "no change point"
    return f"word of the middle of the window; {said}"


def _named(found: Rolling) -> list[int]:
    """The authors with the largest shares of the text, in the order in which they lead."""
    shares = found.shares()[:, :-1]
    largest = np.argsort(-shares.mean(axis=0), kind="stable")[:MOST_NAMED]
    kept = [int(one) for one in largest if shares[:, one].max() >= 0.1] or [int(largest[0])]
    return sorted(kept, key=lambda one: int(shares[:, one].argmax()))


def _stack(axes: Axes, found: Rolling, x: FloatArray, named: list[int]) -> None:
    shares = found.shares()
    rest = shares[:, :-1].sum(axis=1) - shares[:, named].sum(axis=1)
    names = [label(found.authors[one], 24) for one in named]
    areas = [shares[:, one] for one in named]
    colours = [group_colour(_hue(place)) for place in range(len(named))]
    if len(found.authors) > len(named):
        areas.append(rest)
        names.append("the other authors")
        colours.append(RULE)
    areas.append(shares[:, -1])
    drawn = axes.stackplot(x, *areas, labels=[*names, "none of these"], colors=[*colours, PAPER])
    drawn[-1].set(hatch="////", edgecolor=OUTSIDE, linewidth=0.0)
    axes.set_ylim(0.0, 1.0)
    axes.yaxis.set_major_formatter(lambda y, _: f"{y:.0%}")


def _hue(place: int) -> int:
    """The palette without its grey, which is for what has no name."""
    return place if place < 5 else place + 1


def _bands(axes: Axes, found: Rolling, x: FloatArray, named: list[int]) -> None:
    for place, one in enumerate(named):
        colour = group_colour(_hue(place))
        middle = [window.probabilities[one] for window in found.windows]
        low = [window.low[one] for window in found.windows]
        high = [window.high[one] for window in found.windows]
        axes.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)
        axes.plot(x, middle, color=colour, linewidth=1.6)
    axes.set_ylim(-0.02, 1.02)
    axes.yaxis.set_major_formatter(lambda y, _: f"{y:.0%}")
    axes.grid(axis="y", color=RULE, linewidth=0.8)


def _milestones(above: Axes, below: Axes, found: Rolling) -> None:
    for stone in found.milestones:
        for axes in (above, below):
            axes.axvline(stone.word, color=FAINT, linewidth=0.9, linestyle=(0, (2, 2)))
    low, high = above.get_xlim()
    for stone in found.milestones:
        if low <= stone.word <= high or stone.word < low <= stone.word + found.window:
            above.annotate(
                label(stone.name, LONGEST_LABEL),
                (max(stone.word, low), 0.0),
                xycoords=("data", "axes fraction"),
                xytext=(2, 3),
                textcoords="offset points",
                rotation=90,
                fontsize=7,
                color=INK,
                ha="left",
                va="bottom",
                bbox={"facecolor": PAPER, "alpha": 0.6, "edgecolor": "none", "pad": 0.8},
            )
