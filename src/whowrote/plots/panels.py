"""Experiments: panels of points side by side, and lines with a spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from whowrote.plots.style import FAINT, GROUPS, INK, RULE, finish, sheet


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


@dataclass(frozen=True)
class Curve:
    """A named line with a spread (standard deviation) at every point."""

    name: str
    x: Sequence[float]
    mean: Sequence[float]
    spread: Sequence[float]


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
    axes.set_xlabel(x_label, color=FAINT)
    axes.set_ylabel(y_label, color=FAINT)
    axes.grid(axis="y", color=RULE, lw=0.8)
    axes.legend(frameon=False, fontsize=9, labelcolor=INK)
    finish(axes, title)
    return figure
