"""Curves and panels: methods against each other, lines with error bars, points side by side.

Colours differ in lightness, and every line has a marker of its own: nothing hangs on hue alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from whowrote.arrays import FloatArray
from whowrote.plots.style import FAINT, GROUPS, INK, RULE, finish, sheet

# Okabe and Ito's palette, which every kind of colour vision tells apart.
LINES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#22303c")
MARKERS = ("o", "s", "^", "D", "o", "s", "v")


@dataclass(frozen=True)
class Curve:
    """A named line with a spread (standard deviation) at every point."""

    name: str
    x: Sequence[float]
    mean: Sequence[float]
    spread: Sequence[float]


@dataclass(frozen=True)
class CurvePanel:
    """Lines under a title."""

    title: str
    lines: Sequence[Curve]


@dataclass(frozen=True)
class AuthorPanel:
    """A value of every author at each x, under a title."""

    title: str
    values: Mapping[int, FloatArray]


def labelled_curves(panels: Sequence[CurvePanel], *, x_label: str, y_label: str) -> Figure:
    """Panels with one scale; lines with error bars, a little aside of each other, named at the end.

    A name has the same colour and marker in every panel.
    """
    figure = sheet(5.6 * len(panels), 4.2)
    every = np.atleast_1d(figure.subplots(1, len(panels), sharey=True))
    names = list(dict.fromkeys(line.name for panel in panels for line in panel.lines))
    ticks = sorted({x for panel in panels for line in panel.lines for x in line.x})
    step = float(min(np.diff(ticks), default=1.0))
    for axes, panel in zip(every, panels, strict=True):
        for place, line in enumerate(panel.lines):
            moved = (place - (len(panel.lines) - 1) / 2) * 0.05 * step
            _draw(axes, line, names.index(line.name), moved)
        axes.set_xticks(ticks, [f"{x:g}" for x in ticks])
        axes.set_xlim(ticks[0] - 0.3 * step, ticks[-1] + 0.3 * step)
        _label_axes(axes, panel.title, x_label, "")
    for axes, panel in zip(every, panels, strict=True):  # when the scale is final
        _names_at_end(axes, panel.lines, names)
    every[0].set_ylabel(y_label, color=FAINT)
    return figure


def curve_panels(panels: Sequence[CurvePanel], *, x_label: str, y_label: str) -> Figure:
    """Panels with one scale; the lowest point of every line is filled, the others are not."""
    figure, every = _grid(len(panels))
    ticks = sorted({x for panel in panels for line in panel.lines for x in line.x})
    for axes, panel in zip(every, panels, strict=True):
        for place, line in enumerate(panel.lines):
            # Values of x are few and uneven: one step each.
            own = Curve(line.name, [ticks.index(x) for x in line.x], line.mean, line.spread)
            _draw(axes, own, place, (place - 0.5) * 0.1, hollow=True)
        axes.set_xticks(range(len(ticks)), [f"{x:g}" for x in ticks])
        _label_axes(axes, panel.title, x_label, y_label)
    figure.legend(
        *every[0].get_legend_handles_labels(),
        title="filled: the lowest",
        loc="lower right" if len(panels) % 3 else "outside lower center",
        frameon=False,
        fontsize=11,
        labelcolor=INK,
    )
    return figure


def author_panels(panels: Sequence[AuthorPanel], *, x_label: str, y_label: str) -> Figure:
    """A dot for every author at each x, the quartiles as a bar, and a line through the medians."""
    figure, every = _grid(len(panels))
    for axes, panel in zip(every, panels, strict=True):
        for place, values in enumerate(panel.values.values()):
            aside = place + np.linspace(-0.22, 0.22, len(values))
            axes.scatter(aside, np.sort(values), s=9, color=LINES[4], linewidths=0)
        quartiles = [np.quantile(values, [0.25, 0.5, 0.75]) for values in panel.values.values()]
        low, median, high = np.array(quartiles).T
        spread = [median - low, high - median]
        axes.errorbar(
            range(len(median)), median, yerr=spread, color=INK, marker="o", ms=4, lw=1.6, capsize=3
        )
        axes.set_yscale("log")
        axes.set_xticks(range(len(median)), [f"{x:g}" for x in panel.values])
        _label_axes(axes, panel.title, x_label, y_label)
    _plain_ticks(every, [v for panel in panels for v in panel.values.values()])
    return figure


def _grid(n: int) -> tuple[Figure, list[Axes]]:
    """So many axes with one scale, three in a row."""
    rows, columns = -(-n // 3), min(n, 3)
    figure = sheet(3.2 * columns + 0.4, 2.9 * rows + 0.3)
    first = figure.add_subplot(rows, columns, 1)
    more = (figure.add_subplot(rows, columns, place, sharey=first) for place in range(2, n + 1))
    return figure, [first, *more]


def _plain_ticks(every: Sequence[Axes], values: Sequence[FloatArray]) -> None:
    """Numbers that can be read on a logarithmic scale, a handful of them."""
    low, high = (float(f(np.concatenate(values))) for f in (np.min, np.max))
    nice = [m * 10.0**e for e in range(-1, 5) for m in (1, 2, 3, 4, 5, 6, 8)]
    inside = [tick for tick in nice if low * 0.95 <= tick <= high * 1.05]
    chosen = inside[:: max(1, len(inside) // 5)] or [low]
    every[0].set_yticks(chosen, [f"{tick:g}" for tick in chosen])
    for axes in every:
        axes.minorticks_off()


def _draw(axes: Axes, line: Curve, place: int, moved: float, hollow: bool = False) -> None:
    colour, marker = LINES[place % len(LINES)], MARKERS[place % len(MARKERS)]
    x = np.asarray(line.x, dtype=float) + moved
    axes.errorbar(
        x,
        line.mean,
        yerr=line.spread,
        color=colour,
        marker=marker,
        mfc="white" if hollow else colour,
        ms=5,
        lw=1.7,
        capsize=2.5,
        elinewidth=1.0,
        label=line.name,
    )
    if hollow:
        lowest = int(np.argmin(line.mean))
        axes.plot(x[lowest], line.mean[lowest], marker, color=colour, ms=7, zorder=4)


def _names_at_end(axes: Axes, lines: Sequence[Curve], names: Sequence[str]) -> None:
    """Every line's name beside its last point, moved apart where two would touch."""
    low, high = axes.get_ylim()
    ends = apart([line.mean[-1] for line in lines], 0.06 * (high - low))
    for line, y in zip(lines, ends, strict=True):
        axes.annotate(
            line.name,
            (1.01, y),
            xycoords=("axes fraction", "data"),
            color=LINES[names.index(line.name) % len(LINES)],
            fontsize=9,
            va="center",
            annotation_clip=False,
        )


def apart(values: Sequence[float], gap: float) -> list[float]:
    """Values moved as little as needed for neighbours to keep a distance, in the same order.

    >>> apart([1.0, 5.0, 1.0], 0.5)
    [0.75, 5.0, 1.25]
    """
    order = sorted(range(len(values)), key=lambda place: values[place])
    blocks: list[list[float]] = []  # each keeps its values; together they stand around their mean
    for place in order:
        blocks.append([values[place]])
        while len(blocks) > 1 and _low(blocks[-1], gap) < _high(blocks[-2], gap) + gap:
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    moved = [_low(block, gap) + gap * i for block in blocks for i in range(len(block))]
    found = dict(zip(order, moved, strict=True))
    return [found[place] for place in range(len(values))]


def _low(block: Sequence[float], gap: float) -> float:
    return sum(block) / len(block) - gap * (len(block) - 1) / 2


def _high(block: Sequence[float], gap: float) -> float:
    return sum(block) / len(block) + gap * (len(block) - 1) / 2


def _label_axes(axes: Axes, title: str, x_label: str, y_label: str) -> None:
    axes.set_xlabel(x_label, color=FAINT)
    axes.set_ylabel(y_label, color=FAINT)
    axes.grid(axis="y", color=RULE, lw=0.8)
    finish(axes, title)


def curves(
    lines: Sequence[Curve], *, title: str, x_label: str, y_label: str, log_x: bool = False
) -> Figure:
    """Lines with error bars, each named in the legend."""
    figure = sheet(6.4, 4.0)
    axes = figure.add_subplot()
    for line, colour in zip(lines, GROUPS, strict=False):
        axes.errorbar(
            line.x,
            line.mean,
            yerr=line.spread,
            color=colour,
            marker="o",
            ms=4,
            lw=1.8,
            capsize=3,
            label=line.name,
        )
    if log_x:
        axes.set_xscale("log")
        axes.set_xticks(lines[0].x, [f"{value:g}" for value in lines[0].x])
        axes.minorticks_off()
    _label_axes(axes, title, x_label, y_label)
    axes.legend(frameon=False, fontsize=9, labelcolor=INK)
    return figure


@dataclass(frozen=True)
class Panel:
    """Points in the plane with the number of their group, under a title."""

    title: str
    points: NDArray[Any]
    groups: NDArray[Any]


def scatter_panels(panels: Sequence[Panel]) -> Figure:
    """Panels side by side; the same group has the same colour in all of them."""
    figure = sheet(3.4 * len(panels), 3.6)
    for axes, panel in zip(np.atleast_1d(figure.subplots(1, len(panels))), panels, strict=True):
        for group in np.unique(panel.groups):
            own = panel.points[panel.groups == group]
            colour = GROUPS[int(group) % len(GROUPS)]
            axes.scatter(own[:, 0], own[:, 1], s=5, color=colour, alpha=0.7, linewidths=0)
        _show_bulk(axes, panel.points)
        axes.set_xticks([])
        axes.set_yticks([])
        finish(axes, panel.title)
        axes.title.set_fontsize(9)
    return figure


def _show_bulk(axes: Axes, points: NDArray[Any]) -> None:
    """Limits that hold 99 % of the points: a heavy tail must not shrink the picture."""
    low, high = np.quantile(points, [0.005, 0.995], axis=0)
    margin = 0.08 * (high - low)
    axes.set_xlim(low[0] - margin[0], high[0] + margin[0])
    axes.set_ylim(low[1] - margin[1], high[1] + margin[1])
