"""Pictures for scholars: consensus trees, maps of distances, and the words of Zeta."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from whowrote.plots.style import (
    FAINT,
    INK,
    RULE,
    finish,
    group_colour,
    label,
    labels,
    sheet,
)
from whowrote.stylometry.comparison import Preferred, Zeta
from whowrote.stylometry.delta import Consensus, Distances, Group

LONGEST_LEAF = 40
NAMED_KNOWN = 40
"""A map of more texts of known authors names the questioned ones alone."""


def _colours(authors: tuple[str | None, ...]) -> dict[str | None, str]:
    """A colour an author; questioned texts are black."""
    known = sorted({name for name in authors if name is not None})
    hues = (place if place < 5 else place + 1 + (place >= 5) for place in range(len(known)))
    return {None: INK} | dict(zip(known, map(group_colour, hues), strict=True))


# -- the consensus tree ---------------------------------------------------------------------------


def consensus_tree(tree: Consensus, *, title: str = "Consensus tree") -> Figure:
    """Groups as brackets with the share of trees that have each; leaves in the authors' colours."""
    leaves, depth = _leaves(tree, tree.groups[0]), _depth(tree, tree.groups[0])
    place = {row: number for number, row in enumerate(leaves)}
    figure = sheet(8.0, 1.3 + (0.24 if len(leaves) <= 60 else 0.15) * max(3, len(leaves)))
    axes = figure.add_subplot()
    _draw(axes, tree, tree.groups[0], place, 0, depth)
    colours = _colours(tree.authors)
    size = 8 if len(leaves) <= 60 else 6
    for row, y in place.items():
        asked = tree.authors[row] is None
        axes.text(
            depth + 0.15,
            y,
            label(tree.names[row], LONGEST_LEAF),
            va="center",
            fontsize=size,
            color=colours[tree.authors[row]],
            fontweight="bold" if asked else "normal",
        )
    axes.set_xlim(-0.3, depth + 0.15 + 0.62 * depth)
    axes.set_ylim(len(leaves) - 0.3, -0.7)
    axes.set_xticks([])
    axes.set_yticks([])
    bands = f"{tree.bands[0]:,} to {tree.bands[-1]:,}"
    axes.set_xlabel(
        f"groups that more than {tree.strength:.0%} of {len(tree.bands)} trees have ({bands} "
        "frequent words); questioned texts in bold black",
        color=FAINT,
        fontsize=9,
        loc="left",
    )
    finish(axes, title)
    return figure


def _leaves(tree: Consensus, node: Group | int) -> list[int]:
    if isinstance(node, int):
        return [node]
    return [leaf for child in tree.children(node) for leaf in _leaves(tree, child)]


def _depth(tree: Consensus, node: Group | int) -> int:
    if isinstance(node, int):
        return 0
    return 1 + max(_depth(tree, child) for child in tree.children(node))


def _draw(
    axes: Axes, tree: Consensus, node: Group | int, place: dict[int, int], x: int, depth: int
) -> float:
    """A branch from here to the leaves; the height at which it begins."""
    if isinstance(node, int):
        return float(place[node])
    children = tree.children(node)
    ys = [_draw(axes, tree, child, place, x + 1, depth) for child in children]
    for child, y in zip(children, ys, strict=True):
        axes.plot([x, depth if isinstance(child, int) else x + 1], [y, y], color=FAINT, lw=1.0)
    axes.plot([x, x], [min(ys), max(ys)], color=FAINT, lw=1.0)
    middle = (min(ys) + max(ys)) / 2
    if x:
        said = f"{node.share:.0%}"
        axes.annotate(said, (x, middle), (-3, 2), textcoords="offset points", fontsize=7)
        axes.texts[-1].set(ha="right", color=FAINT)
    return middle


# -- the map of distances -------------------------------------------------------------------------


def distance_map(found: Distances, *, title: str = "") -> Figure:
    """Texts in the plane that keeps their distances best; questioned ones are named black rings."""
    points = np.asarray(found.plane(), dtype=np.float64)
    colours = _colours(found.authors)
    figure = sheet(7.2, 6.0)
    axes = figure.add_subplot()
    for name, colour in colours.items():
        own = np.array([author == name for author in found.authors])
        if own.any():
            said = "questioned" if name is None else label(name)
            fill = "none" if name is None else colour
            x, y = points[own].T
            axes.scatter(x, y, s=34, facecolors=fill, edgecolors=colour, label=said)
    axes.set_aspect("equal", adjustable="datalim")
    every = len(found.names) <= NAMED_KNOWN
    named = [row for row, one in enumerate(found.authors) if every or one is None]
    axes.margins(0.08)
    axes.grid(color=RULE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_xlabel(
        f"{found.method}, classical scaling: {found.kept():.0%} of the squared distances",
        color=FAINT,
        fontsize=9,
    )
    finish(axes, title or "Texts by their distances")
    for row in named:
        axes.annotate(
            label(found.names[row], 16),
            (float(points[row, 0]), float(points[row, 1])),
            (4, 3),
            textcoords="offset points",
            fontsize=7,
            color=colours[found.authors[row]],
        )
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=8)
    return figure


# -- Zeta -----------------------------------------------------------------------------------------


def zeta_words(found: Zeta, *, top: int = 20) -> Figure:
    """The words of either side as bars; the dotted line is what chance reaches."""
    sides = found.first[:top], found.second[:top]
    rows = max(1, *map(len, sides))
    figure = sheet(7.6, 1.4 + 0.24 * rows)
    for number, (axes, words) in enumerate(zip(figure.subplots(1, 2), sides, strict=True)):
        _bars(axes, words, group_colour(number), found.chance, rows)
        finish(axes, f"{label(found.sides[number])} ({found.segments[number]} segments)")
    figure.supxlabel(
        f"Zeta, segments of {found.segment_words:,} words; dotted: the largest of all words in 1 "
        "of 20 shufflings of texts",
        fontsize=8,
        color=FAINT,
    )
    return figure


def _bars(
    axes: Axes, words: tuple[Preferred, ...], colour: str, chance: float | None, rows: int
) -> None:
    axes.barh(range(len(words)), [abs(one.zeta) for one in words], color=colour, height=0.7)
    axes.set_yticks(range(len(words)), labels(one.word for one in words))
    axes.set_ylim(rows - 0.4, -0.6)
    axes.set_xlim(0.0, 1.0)
    axes.grid(axis="x", color=RULE, linewidth=0.8)
    axes.set_axisbelow(True)
    if chance is not None:
        axes.axvline(chance, color=INK, linestyle=":", linewidth=1.2)
