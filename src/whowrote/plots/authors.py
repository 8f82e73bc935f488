"""The authors among themselves: how heavy their tails are, and who writes like whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from numpy.typing import ArrayLike, NDArray
from scipy.cluster import hierarchy
from scipy.spatial.distance import squareform

from whowrote.errors import InputError
from whowrote.plots.style import FAINT, INK, OUTSIDE, RIGHT, RULE, finish, labels, sheet

NEAR_GAUSSIAN = 30.0
"""From so many degrees of freedom on, a Student-t is hardly told from a Gaussian."""


def degrees_of_freedom(
    df: ArrayLike, names: Sequence[Any], *, title: str = "How heavy are the tails?"
) -> Figure:
    """A dot per author on a log axis, heavy tails first and at the left."""
    values = np.asarray(df, dtype=np.float64)
    _check_df(values, len(names))
    order = np.argsort(values, kind="stable")
    figure = sheet(6.8, _height(len(names)))
    axes = figure.add_subplot()
    rows = np.arange(len(names))
    axes.hlines(rows, *_limits(values), color=RULE, lw=0.7)
    axes.axvline(NEAR_GAUSSIAN, color=FAINT, lw=1.0, alpha=0.7)
    colours = np.where(values[order] < NEAR_GAUSSIAN, RIGHT, OUTSIDE).tolist()
    axes.scatter(values[order], rows, s=30, c=colours, zorder=3, linewidths=0)
    _df_axis(axes, values)
    axes.set_yticks(rows, labels(names[row] for row in order))
    axes.set_ylim(len(names) - 0.4, -1.3)
    finish(axes, title)
    _small_names(axes, len(names))
    return figure


def _limits(values: NDArray[np.float64]) -> tuple[float, float]:
    return min(values.min() / 1.25, 1.8), max(values.max() * 1.25, 60.0)


def _df_axis(axes: Axes, values: NDArray[np.float64]) -> None:
    low, high = _limits(values)
    steps = [m * 10.0**power for power in range(-3, 9) for m in (1, 2, 3, 5)]
    if high / low > 1000.0:
        steps = [step for step in steps if f"{step:e}"[0] == "1"] + [NEAR_GAUSSIAN]
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.xaxis.set_major_locator(FixedLocator([step for step in steps if low <= step <= high]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")
    )
    axes.set_xlabel("degrees of freedom ν", color=FAINT, fontsize=9)
    for x, side, text in (
        (NEAR_GAUSSIAN, "left", " near Gaussian →"),
        (low, "left", "← heavy tails"),
    ):
        axes.text(x, -0.85, text, ha=side, va="center", color=FAINT, fontsize=8)


def dendrogram(
    distances: ArrayLike, names: Sequence[Any], *, title: str = "Who writes like whom"
) -> Figure:
    """Average linkage of a (K, K) distance matrix: the sooner two branches meet, the more alike."""
    table = np.asarray(distances, dtype=np.float64)
    _check_distances(table, len(names))
    links = hierarchy.linkage(squareform(table, checks=False), "average", optimal_ordering=True)
    tree = hierarchy.dendrogram(links, no_plot=True)
    figure = sheet(6.8, _height(len(names)))
    axes = figure.add_subplot()
    for heights, places in zip(tree["dcoord"], tree["icoord"], strict=True):
        axes.plot(heights, places, color=RIGHT, lw=1.4, solid_joinstyle="round")
    leaves = hierarchy.leaves_list(links).tolist()
    axes.set_yticks(10.0 * np.arange(len(names)) + 5.0, labels(names[leaf] for leaf in leaves))
    axes.yaxis.tick_right()
    axes.set_ylim(10.0 * len(names), 0.0)
    axes.set_xlim(1.03 * float(links[-1, 2]) or 1.0, 0.0)
    axes.set_xlabel("distance at which branches meet", color=FAINT, fontsize=9)
    axes.grid(axis="x", color=RULE, lw=0.8)
    axes.set_axisbelow(True)
    finish(axes, title)
    _small_names(axes, len(names))
    return figure


def _height(n_rows: int) -> float:
    return 1.3 + (0.26 if n_rows <= 40 else 0.17) * max(n_rows, 3)


def _small_names(axes: Axes, n_rows: int) -> None:
    axes.tick_params(axis="y", labelsize=8 if n_rows <= 40 else 7, labelcolor=INK)


def _check_df(values: NDArray[np.float64], n_names: int) -> None:
    if values.shape != (n_names,) or n_names < 1:
        raise InputError(
            f"df has shape {values.shape} for {n_names} names; there must be one per author: give "
            "degrees_of_freedom_ and classes_ of one model"
        )
    if not (np.isfinite(values) & (values > 0.0)).all():
        raise InputError(
            f"df has {values[~(np.isfinite(values) & (values > 0.0))][0]}; degrees of freedom must "
            "be positive and finite: Gaussian components have none to draw"
        )


def _check_distances(table: NDArray[np.float64], n_names: int) -> None:
    if table.shape != (n_names, n_names) or n_names < 2:
        raise InputError(
            f"distances has shape {table.shape} for {n_names} names; it must be square, a row and "
            "a column for each of two authors or more: give author_distances of one model"
        )
    if not np.isfinite(table).all() or (table < 0.0).any() or np.diagonal(table).any():
        raise InputError(
            "distances has a negative, missing or infinite entry, or one off zero on its diagonal; "
            "a distance is positive, and zero to oneself: give author_distances of one model"
        )
    if not np.allclose(table, table.T):
        raise InputError(
            "distances is not symmetric; both ways must be equally far: give author_distances of "
            "one model"
        )
