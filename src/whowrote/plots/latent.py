r"""The map of authors: texts as points, components as ellipses.

.. math:: (x - \mu_k)^\top \Sigma_k^{-1} (x - \mu_k) = s^2, \qquad s \in \{1, 2\}

The names stand at the means; where two would collide, one steps aside and keeps a thin line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse
from numpy.typing import ArrayLike, NDArray

from whowrote.errors import InputError
from whowrote.plots.names import write_names
from whowrote.plots.style import (
    FAINT,
    INK,
    LONGEST_NAME,
    OUTSIDE,
    blend,
    finish,
    group_colour,
    labels,
    sheet,
)

ALL_NAMED = 12
"""Up to so many authors every name is written, come what may."""
MANY_POINTS = 3000
"""More points than these go into an SVG as one picture, not as a shape each."""
SHORT_NAME = 16
"""Of many authors, names keep no more characters than these."""

Points = NDArray[np.float64]


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
    _check(texts, codes, means, scales, len(names))
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


def _check(
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
