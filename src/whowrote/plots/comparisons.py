"""Methods against each other: lines with error bars and their names at the end, and small panels.

Colours differ in lightness, and every line has a marker of its own: nothing hangs on hue alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from whowrote.plots.panels import Curve
from whowrote.plots.style import FAINT, INK, RULE, finish, sheet

# Okabe and Ito's palette, which every kind of colour vision tells apart.
LINES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#22303c")
MARKERS = ("o", "s", "^", "D", "o", "s", "v")


@dataclass(frozen=True)
class CurvePanel:
    """Lines under a title."""

    title: str
    lines: Sequence[Curve]


@dataclass(frozen=True)
class AuthorPanel:
    """A value of every author at each x, under a title."""

    title: str
    values: Mapping[int, NDArray[np.float64]]


def labelled_curves(lines: Sequence[Curve], *, title: str, x_label: str, y_label: str) -> Figure:
    """Lines with error bars, side by side where they would hide each other, named at their end."""
    figure = sheet(7.6, 4.4)
    axes = figure.add_subplot()
    ticks = sorted({x for line in lines for x in line.x})
    step = min(np.diff(ticks), default=1.0)
    for place, line in enumerate(lines):
        moved = (place - (len(lines) - 1) / 2) * 0.06 * step
        _draw(axes, line, place, moved)
    axes.set_xticks(ticks, [f"{x:g}" for x in ticks])
    axes.set_xlim(ticks[0] - 0.3 * step, ticks[-1] + 0.3 * step)
    _names_at_end(axes, lines)
    _furnish(axes, title, x_label, y_label)
    return figure


def curve_panels(
    panels: Sequence[CurvePanel], *, x_label: str, y_label: str, mark_lowest: bool = True
) -> Figure:
    """Panels in a row with one scale; the lowest point of every line is filled, the others not."""
    figure = sheet(2.5 * len(panels) + 0.8, 3.3)
    every = np.atleast_1d(figure.subplots(1, len(panels), sharey=True))
    ticks = sorted({x for panel in panels for line in panel.lines for x in line.x})
    for axes, panel in zip(every, panels, strict=True):
        for place, line in enumerate(panel.lines):
            # Dimensions are few and uneven: one step each.
            at = [ticks.index(x) for x in line.x]
            own = Curve(line.name, at, line.mean, line.spread)
            _draw(axes, own, place, (place - 0.5) * 0.1, hollow=mark_lowest)
        axes.set_xticks(range(len(ticks)), [f"{x:g}" for x in ticks])
        _furnish(axes, panel.title, x_label, "")
    every[0].set_ylabel(y_label, color=FAINT)
    figure.legend(
        *every[0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=len(panels[0].lines),
        frameon=False,
        fontsize=9,
        labelcolor=INK,
    )
    return figure


def author_panels(panels: Sequence[AuthorPanel], *, x_label: str, y_label: str) -> Figure:
    """A dot for every author at each x, the quartiles as a bar, and a line through the medians."""
    figure = sheet(2.5 * len(panels) + 0.8, 3.3)
    every = np.atleast_1d(figure.subplots(1, len(panels), sharey=True))
    for axes, panel in zip(every, panels, strict=True):
        for place, values in enumerate(panel.values.values()):
            aside = place + np.linspace(-0.22, 0.22, len(values))
            axes.scatter(aside, np.sort(values), s=9, color="#56b4e9", alpha=0.9, linewidths=0)
        middle = np.array([np.quantile(v, [0.25, 0.5, 0.75]) for v in panel.values.values()])
        low, median, high = middle.T
        axes.errorbar(
            range(len(middle)),
            median,
            yerr=[median - low, high - median],
            color=INK,
            marker="o",
            ms=4,
            lw=1.6,
            capsize=3,
        )
        axes.set_yscale("log")
        axes.set_xticks(range(len(middle)), [f"{x:g}" for x in panel.values])
        _furnish(axes, panel.title, x_label, "")
    every[0].set_ylabel(y_label, color=FAINT)
    _plain_ticks(every, [v for panel in panels for v in panel.values.values()])
    return figure


def _plain_ticks(every: NDArray[np.object_], values: Sequence[NDArray[np.float64]]) -> None:
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
        axes.plot(x[lowest], line.mean[lowest], marker, color=colour, ms=7)


def _names_at_end(axes: Axes, lines: Sequence[Curve]) -> None:
    """Every line's name beside its last point, moved apart where two would touch."""
    low, high = axes.get_ylim()
    gap = 0.055 * (high - low)
    order = sorted(range(len(lines)), key=lambda place: lines[place].mean[-1])
    at: list[float] = []
    for place in order:
        at.append(max(lines[place].mean[-1], at[-1] + gap if at else low))
    shift = (at[-1] - lines[order[-1]].mean[-1]) / 2
    for place, y in zip(order, at, strict=True):
        axes.annotate(
            lines[place].name,
            (1.01, y - shift),
            xycoords=("axes fraction", "data"),
            color=LINES[place % len(LINES)],
            fontsize=9,
            va="center",
            annotation_clip=False,
        )


def _furnish(axes: Axes, title: str, x_label: str, y_label: str) -> None:
    axes.set_xlabel(x_label, color=FAINT)
    axes.set_ylabel(y_label, color=FAINT)
    axes.grid(axis="y", color=RULE, lw=0.8)
    finish(axes, title)
