"""Pictures of results: each a pure function from records to a matplotlib figure.

Made with the object-oriented interface alone: no window, no global state, no display needed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import ArrayLike, NDArray

from whowrote.atomic import atomic_path
from whowrote.errors import InputError

RIGHT, WRONG, OUTSIDE = "#2b6ca3", "#d1495b", "#9aa5b1"
INK, FAINT, PAPER = "#22303c", "#8a97a3", "#ffffff"
BLUES = LinearSegmentedColormap.from_list("whowrote", [PAPER, "#a9c9e6", RIGHT, "#12395b"])
GROUPS = ("#2b6ca3", "#d1495b", "#edae49", "#3a9679", "#7b5ea7", "#9aa5b1", "#22303c", "#b5651d")
FORMATS = (".png", ".svg")


@dataclass(frozen=True)
class Bar:
    """One text: its label, the answer, the answer's probability, and whether that is right.

    ``right`` is None where no answer can be right, since the author is not enrolled.
    """

    label: str
    answer: str
    probability: float
    right: bool | None


def confusion_matrix(
    counts: ArrayLike, classes: Sequence[Any], *, title: str = "Who is taken for whom"
) -> Figure:
    """True authors in rows, answers in columns; shade is the share of the row."""
    table = np.asarray(counts)
    if table.shape != (len(classes), len(classes)):
        raise InputError(
            f"counts has shape {table.shape} for {len(classes)} classes; it must be square, a row "
            "and a column per class: give confusion and classes of one Evaluation"
        )
    side = 2.6 + 0.36 * len(classes)
    figure = _figure(side + 1.0, side)
    axes = figure.add_subplot()
    totals = table.sum(axis=1, keepdims=True)
    shares = np.divide(table, totals, out=np.zeros(table.shape), where=totals > 0)
    axes.imshow(shares, cmap=BLUES, vmin=0.0, vmax=1.0)
    _write_counts(axes, table, shares)
    names = [str(name) for name in classes]
    axes.set_xticks(range(len(names)), names, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("answer", color=FAINT)
    axes.set_ylabel("true author", color=FAINT)
    _finish(axes, title)
    return figure


def probability_bars(bars: Sequence[Bar], *, title: str = "Who wrote it?") -> Figure:
    """A bar per text: length is the answer's probability, colour says right or wrong."""
    if not bars:
        raise InputError("bars is empty; a plot needs at least one text: give one Bar per text")
    figure = _figure(8.0, 1.4 + 0.26 * len(bars))
    axes = figure.add_subplot()
    rows = range(len(bars))
    axes.barh(rows, [bar.probability for bar in bars], height=0.72, color=[*map(_colour, bars)])
    for row, bar in enumerate(bars):
        note = "" if bar.right else f"  {bar.answer}"
        text = f" {percent(bar.probability)}{note}"
        axes.text(bar.probability, row, text, va="center", color=_colour(bar), fontsize=8)
    axes.set_yticks(rows, [bar.label for bar in bars], fontsize=8)
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.set_xlim(0.0, 1.0)
    axes.set_xticks([])
    _legend(axes, bars)
    _finish(axes, title)
    return figure


@dataclass(frozen=True)
class Panel:
    """Points in the plane with the number of their group, under a title."""

    title: str
    points: NDArray[Any]
    groups: NDArray[Any]


def scatter_panels(panels: Sequence[Panel]) -> Figure:
    """Panels side by side; the same group has the same colour in all of them."""
    figure = _figure(3.4 * len(panels), 3.6)
    for axes, panel in zip(np.atleast_1d(figure.subplots(1, len(panels))), panels, strict=True):
        for group in np.unique(panel.groups):
            own = panel.points[panel.groups == group]
            colour = GROUPS[int(group) % len(GROUPS)]
            axes.scatter(own[:, 0], own[:, 1], s=5, color=colour, alpha=0.7, linewidths=0)
        _show_bulk(axes, panel.points)
        axes.set_xticks([])
        axes.set_yticks([])
        _finish(axes, panel.title)
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
    """Lines with error bars, each named at its right end."""
    figure = _figure(6.4, 4.0)
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
    axes.grid(axis="y", color="#e6eaee", lw=0.8)
    axes.legend(frameon=False, fontsize=9, labelcolor=INK)
    _finish(axes, title)
    return figure


def percent(probability: float) -> str:
    """Whole per cent, but never a rounded certainty.

    >>> percent(0.5), percent(0.999), percent(0.001)
    ('50%', '>99%', '<1%')
    """
    if 0.995 <= probability < 1.0:
        return ">99%"
    return "<1%" if 0.0 < probability < 0.005 else f"{probability:.0%}"


def save(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Write a figure as PNG or SVG, whole or not at all; the same figure gives the same bytes."""
    target = Path(path)
    kind = target.suffix.lower()
    if kind not in FORMATS:
        raise InputError(
            f"path is {target.name!r}; a plot is written as .png or .svg: name it plot.png"
        )
    metadata = {"Date": None} if kind == ".svg" else {"Software": "whowrote"}
    with atomic_path(target) as draft, rc_context({"svg.hashsalt": "whowrote"}):
        figure.savefig(draft, format=kind[1:], dpi=160, facecolor=PAPER, metadata=metadata)
    return target


def _figure(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), layout="constrained", facecolor=PAPER)
    FigureCanvasAgg(figure)
    return figure


def _finish(axes: Axes, title: str) -> None:
    """No frame, no ticks, the title at the left: what is left is data."""
    axes.set_title(title, loc="left", color=INK, fontsize=11, fontweight="bold")
    axes.tick_params(length=0, labelcolor=INK, labelsize=8)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _write_counts(axes: Axes, table: Any, shares: Any) -> None:
    for row, column in np.argwhere(table > 0):
        colour = PAPER if shares[row, column] > 0.5 else INK
        count = str(table[row, column])
        axes.text(column, row, count, ha="center", va="center", color=colour, fontsize=8)


def _colour(bar: Bar) -> str:
    if bar.right is None:
        return OUTSIDE
    return RIGHT if bar.right else WRONG


def _legend(axes: Axes, bars: Sequence[Bar]) -> None:
    names = {RIGHT: "right", WRONG: "wrong", OUTSIDE: "author not enrolled"}
    used = {_colour(bar) for bar in bars}
    handles = [Patch(color=colour, label=name) for colour, name in names.items() if colour in used]
    axes.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(0.0, 0.0),
        ncols=len(handles),
        frameon=False,
        fontsize=8,
        labelcolor=INK,
    )
