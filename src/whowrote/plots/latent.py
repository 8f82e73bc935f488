r"""The latent space: a map of texts and components, a tree of authors, the weight of their tails.

.. math:: (x - \mu_k)^\top \Sigma_k^{-1} (x - \mu_k) = s^2, \qquad s \in \{1, 2\}

On the map texts are points and components ellipses. The names stand at the means; where two would
collide, one steps aside and keeps a thin line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from numpy.typing import ArrayLike, NDArray
from scipy.cluster import hierarchy
from scipy.spatial.distance import squareform

from whowrote.attribution.maps import author_distances, latent_map_of
from whowrote.errors import InputError
from whowrote.plots.style import (
    FAINT,
    INK,
    LONGEST_NAME,
    OUTSIDE,
    RIGHT,
    RULE,
    Points,
    blend,
    finish,
    group_colour,
    labels,
    sheet,
    write_names,
)

if TYPE_CHECKING:
    from whowrote.attribution.fitted_attributor import FittedAttributor

ALL_NAMED = 12
"""Up to so many authors every name is written, come what may."""
MANY_POINTS = 3000
"""More points than these go into an SVG as one picture, not as a shape each."""
SHORT_NAME = 16
"""Of many authors, names keep no more characters than these."""


@dataclass(frozen=True)
class Ellipses:
    """Components in the plane: means (K, 2) and scale matrices (K, 2, 2)."""

    means: ArrayLike
    scales: ArrayLike


def latent_map(
    points: ArrayLike,
    groups: ArrayLike,
    names: Sequence[Any],
    ellipses: Ellipses,
    *,
    title: str = "Map of the authors",
) -> Figure:
    """Texts (n, 2) in the colour of their author, ellipses of the components, names at the means.

    ``groups`` counts into ``names``; -1 is a text of unknown author, drawn as a grey cross.
    """
    texts, codes = np.asarray(points, dtype=np.float64), np.asarray(groups)
    means = np.asarray(ellipses.means, dtype=np.float64)
    scales = np.asarray(ellipses.scales, dtype=np.float64)
    _check_map(texts, codes, means, scales, len(names))
    few = len(names) <= ALL_NAMED
    figure = sheet(7.6, 6.4)
    axes = figure.add_subplot()
    _draw_points(axes, texts, codes, few=few)
    for group, (mean, scale) in enumerate(zip(means, scales, strict=True)):
        _draw_ellipses(axes, mean, scale, group_colour(group), few=few)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_xlabel(" ", fontsize=8)  # the room that the note will need
    finish(axes, title)
    _freeze(figure)
    _show_all_authors(axes, texts, means, scales)
    written = write_names(
        axes,
        labels(names, longest=LONGEST_NAME if few else SHORT_NAME),
        means,
        colours=[blend(group_colour(group), INK, 0.5) for group in range(len(names))],
        size=9.0 if few else 7.5,
        all_of_them=few,
    )
    note = _note(axes, texts, few=few, written=written, n_names=len(names))
    axes.set_xlabel(note, loc="left", color=FAINT, fontsize=8)
    return figure


def _draw_points(axes: Axes, points: Points, codes: NDArray[Any], *, few: bool) -> None:
    many = len(points) > MANY_POINTS
    size = 5.0 if many else 14.0 if few else 8.0
    colours = [OUTSIDE if code < 0 else group_colour(int(code)) for code in codes]
    known = codes >= 0
    for mark, rows in (("o", known), ("x", ~known)):
        axes.scatter(
            points[rows, 0],
            points[rows, 1],
            s=size if mark == "o" else 1.6 * size,
            marker=mark,
            c=[colour for colour, wanted in zip(colours, rows, strict=True) if wanted],
            alpha=0.35 if many else 0.55,
            linewidths=0.0 if mark == "o" else 1.0,
            rasterized=many,
        )


def _draw_ellipses(axes: Axes, mean: Points, scale: Points, colour: str, *, few: bool) -> None:
    """One and two scales; of many authors only one, or nothing could be made out."""
    lengths, directions = np.linalg.eigh(scale)
    angle = float(np.degrees(np.arctan2(directions[1, 1], directions[0, 1])))
    width, height = 2.0 * np.sqrt(lengths[1]), 2.0 * np.sqrt(lengths[0])
    for times in (1.0, 2.0) if few else (1.0,):
        axes.add_patch(
            Ellipse(
                (float(mean[0]), float(mean[1])),
                times * width,
                times * height,
                angle=angle,
                facecolor=(colour, 0.10 if times == 1.0 else 0.04),
                edgecolor=(colour, 0.9 if times == 1.0 else 0.5),
                linewidth=1.2 if times == 1.0 and few else 0.8,
            )
        )


def _show_all_authors(axes: Axes, points: Points, means: Points, scales: Points) -> None:
    """Limits that hold 98 % of the texts and every ellipse: a heavy tail must not shrink them."""
    reach = 2.0 * np.sqrt(np.diagonal(scales, axis1=1, axis2=2))
    corners = [means - reach, means + reach]
    if len(points):
        corners.append(np.quantile(points, [0.01, 0.99], axis=0))
    held = np.concatenate(corners)
    low, high = held.min(axis=0), held.max(axis=0)
    box = np.array(axes.get_window_extent().size)
    # One unit is equally long both ways, or the ellipses would lie.
    half = 1.08 * float(((high - low) / box).max()) * box / 2.0
    left, bottom = (low + high) / 2.0 - half
    right, top = (low + high) / 2.0 + half
    axes.set_xlim(left, right)
    axes.set_ylim(bottom, top)


def _freeze(figure: Figure) -> None:
    """Lay out once: names are placed in pixels, and nothing may move afterwards."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def _note(axes: Axes, points: Points, *, few: bool, written: int, n_names: int) -> str:
    """What the ellipses are, and what the picture does not show."""
    said = [
        "ellipses: 1 and 2 scales of each author" if few else "ellipses: 1 scale of each author"
    ]
    if written < n_names:
        said.append(f"{written} of {n_names} authors named")
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    inside = (points >= [left, bottom]).all(axis=1) & (points <= [right, top]).all(axis=1)
    if not inside.all():
        said.append(f"{(~inside).sum()} of {len(points)} texts lie outside")
    return "; ".join(said)


def _check_map(
    points: Points, codes: NDArray[Any], means: Points, scales: Points, n_names: int
) -> None:
    if points.ndim != 2 or points.shape[1] != 2 or codes.shape != (len(points),):
        raise InputError(
            f"points has shape {points.shape} and groups {codes.shape}; a map needs (n, 2) and "
            "(n,): project the latents with latent_map_of"
        )
    if n_names < 1 or means.shape != (n_names, 2) or scales.shape != (n_names, 2, 2):
        raise InputError(
            f"ellipses has means {means.shape} and scales {scales.shape} for {n_names} names; "
            "they must be (K, 2) and (K, 2, 2): project them with latent_map_of"
        )
    if len(codes) and not -1 <= codes.min() <= codes.max() < n_names:
        raise InputError(
            f"groups has {codes.min()} to {codes.max()}; a group must be -1 (unknown) or the "
            f"number of one of {n_names} names: give the codes of the authors"
        )


# -- the authors among themselves: how heavy their tails are, and who writes like whom -----------

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


# -- all three of a fitted attributor ------------------------------------------------------------


def author_pictures(fitted: FittedAttributor) -> dict[str, Figure]:
    """The latent map of the training texts, the tree of authors, and nu by author."""
    model, training, names = fitted.model, fitted.training, fitted.names.tolist()
    place = latent_map_of(training.latents, training.codes, names, model.means, model.scales)
    ellipses = Ellipses(place.means, place.scales)
    pictures = {"map": latent_map(place.points, place.groups, place.names, ellipses)}
    if len(names) > 2:
        pictures["tree"] = dendrogram(author_distances(model.means, model.scales), names)
    if np.isfinite(model.degrees_of_freedom).all():
        pictures["tails"] = degrees_of_freedom(model.degrees_of_freedom, names)
    return pictures
