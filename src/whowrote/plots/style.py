"""The style that all pictures share: palette, empty sheet, title at the left, names, files."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap, to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.transforms import Bbox
from numpy.typing import NDArray

from whowrote.errors import InputError
from whowrote.files import atomic_path
from whowrote.formatting import printable

RIGHT, WRONG, OUTSIDE = "#2b6ca3", "#d1495b", "#9aa5b1"
INK, FAINT, PAPER, RULE = "#22303c", "#8a97a3", "#ffffff", "#e6eaee"
BLUES = LinearSegmentedColormap.from_list("whowrote", [PAPER, "#a9c9e6", RIGHT, "#12395b"])
GROUPS = ("#2b6ca3", "#d1495b", "#edae49", "#3a9679", "#7b5ea7", "#9aa5b1", "#22303c", "#b5651d")
FORMATS = (".png", ".svg")
LONGEST_NAME = 32
LOOSE = " .,-_/"  # no such sign stands beside an ellipsis


def label(name: Any, longest: int = LONGEST_NAME) -> str:
    r"""A name as matplotlib writes it: no mathematics between dollars, no more room than it needs.

    A long name loses its middle, since names of one collection often begin alike.

    >>> label("a$b$c"), label("blogs/the-same-beginning/mary", longest=16)
    ('a\\$b\\$c', 'blogs/th…ng/mary')
    """
    text = " ".join(str(name).split())
    if len(text) > longest:
        half = longest // 2
        text = f"{text[:half].rstrip(LOOSE)}…{text[1 - half :].lstrip(LOOSE)}"
    return text.replace("$", r"\$")


def labels(names: Iterable[Any], longest: int = LONGEST_NAME) -> list[str]:
    """The label of every name."""
    return [label(name, longest) for name in names]


def blend(colour: str, other: str, share: float) -> str:
    """A colour on the way to another one.

    >>> blend("#000000", "#ffffff", 0.2)
    '#333333'
    """
    mixed = [
        (1 - share) * a + share * b for a, b in zip(to_rgb(colour), to_rgb(other), strict=True)
    ]
    return to_hex((mixed[0], mixed[1], mixed[2]))


def group_colour(group: int) -> str:
    """The colour of a group: the palette, then its dark and its light shades, then all again."""
    turn, place = divmod(group, len(GROUPS))
    shade = (None, "#000000", PAPER)[turn % 3]
    return GROUPS[place] if shade is None else blend(GROUPS[place], shade, 0.4)


def sheet(width: float, height: float) -> Figure:
    """An empty figure of so many inches."""
    figure = Figure(figsize=(width, height), layout="constrained", facecolor=PAPER)
    FigureCanvasAgg(figure)
    return figure


def finish(axes: Axes, title: str) -> None:
    """No frame, no ticks, the title at the left: what is left is data."""
    axes.set_title(title, loc="left", color=INK, fontsize=11, fontweight="bold")
    axes.tick_params(length=0, labelcolor=INK, labelsize=8)
    for spine in axes.spines.values():
        spine.set_visible(False)


def save(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Write a figure as PNG or SVG, whole or not at all; the same figure gives the same bytes."""
    target = Path(path)
    kind = target.suffix.lower()
    if kind not in FORMATS:
        raise InputError(
            f"path is {target.name!r}; a plot is written as .png or .svg: name it plot.png"
        )
    with atomic_path(target) as draft:
        if kind == ".svg":
            draft.write_text(svg(figure), encoding="utf-8", newline="\n")
        else:
            _render(figure, draft, kind[1:])
    return target


def save_all(figures: Mapping[str, Figure], folder: str | os.PathLike[str]) -> list[Path]:
    """Write every figure under its name, as PNG and as SVG."""
    return [
        save(figure, Path(folder) / f"{name}{kind}")
        for name, figure in figures.items()
        for kind in FORMATS
    ]


def svg(figure: Figure) -> str:
    """The figure as one SVG text, well-formed whatever the names; always the same text."""
    page = io.BytesIO()
    _render(figure, page, "svg")
    return printable(page.getvalue().decode())


def _render(figure: Figure, target: Path | io.BytesIO, kind: str) -> None:
    metadata = {"Date": None} if kind == "svg" else {"Software": "whowrote"}
    with rc_context({"svg.hashsalt": "whowrote"}):
        figure.savefig(target, format=kind, dpi=160, facecolor=PAPER, metadata=metadata)


# -- names on a map: at their places where there is room, beside them where there is not ---------

STEPS = (6.0, 14.0, 24.0, 38.0, 56.0, 80.0, 110.0)
"""How far, in points, a name may step aside."""
NEAR = STEPS[:2]
"""How far where names may be left out: of many long lines none can be followed."""
MOST = 30
"""How many are written where names may be left out."""
TURNS = tuple(math.tau / 16 * turn for turn in (4, 12, 0, 8, 2, 6, 14, 10, *range(1, 16, 2)))
"""Above, below, right, left, the corners, and between them."""

Points = NDArray[np.float64]


def write_names(
    axes: Axes,
    names: Sequence[str],
    places: Points,
    *,
    colours: Sequence[str],
    size: float,
    all_of_them: bool,
) -> int:
    """Write names at places so that none covers another; return how many were written.

    The layout must be final. The name farthest from all others goes first and stands where it
    belongs; one without a free place is left out, or with ``all_of_them`` put where it hides least.
    """
    style = {"fontsize": size, "fontweight": "bold"}
    pixels = np.asarray(axes.transData.transform(places), dtype=np.float64)
    frame, taken = axes.get_window_extent(), list[Bbox]()
    for index in _farthest_first(pixels):
        if len(taken) == MOST and not all_of_them:
            break
        extent = _extent(axes, names[index], style, air=2.0 if all_of_them else 4.0)
        wanted = _boxes(pixels[index], extent, STEPS if all_of_them else NEAR, _scale(axes))
        box = _choose(wanted, taken, frame, must=all_of_them)
        if box is not None:
            _write(axes, names[index], pixels[index], box, {**style, "color": colours[index]})
            taken.append(box)
    return len(taken)


def _scale(axes: Axes) -> float:
    """Pixels per point."""
    return float(axes.get_figure(root=True).dpi) / 72.0  # type: ignore[union-attr]


def _farthest_first(pixels: Points) -> list[int]:
    """By the distance to the nearest neighbour, largest first."""
    gaps = np.linalg.norm(pixels[:, None] - pixels[None], axis=2)
    np.fill_diagonal(gaps, np.inf)
    return [int(index) for index in np.argsort(-gaps.min(axis=1), kind="stable")]


def _extent(axes: Axes, name: str, style: dict[str, Any], air: float) -> tuple[float, float]:
    """Width and height in pixels, with so many points of air around."""
    probe = axes.text(0.0, 0.0, name, **style)
    box = probe.get_window_extent()
    probe.remove()
    air *= _scale(axes)
    return float(box.width) + 2.0 * air, float(box.height) + air


def _boxes(
    place: Points, extent: tuple[float, float], steps: Sequence[float], scale: float
) -> Iterator[Bbox]:
    """Where a name may stand: on its place, then around it, ever further away."""
    width, height = extent
    left, bottom = place[0] - width / 2, place[1] - height / 2
    yield Bbox.from_bounds(left, bottom, width, height)
    for step in steps:
        # The border of the box keeps the distance, so a wide name steps further to the side.
        for turn in TURNS:
            x = math.cos(turn) * (step * scale + width / 2)
            y = math.sin(turn) * (step * scale + height / 2)
            yield Bbox.from_bounds(left + x, bottom + y, width, height)


def _choose(
    boxes: Iterator[Bbox], taken: Sequence[Bbox], frame: Bbox, *, must: bool
) -> Bbox | None:
    """The first free box; if there is none, the least bad or none at all."""
    best, least = None, math.inf
    for box in boxes:
        hidden = box.width * box.height - _overlap(box, frame)
        cost = sum((_overlap(box, other) for other in taken), start=hidden)
        if cost < 1.0:
            return box
        if cost < least:
            best, least = box, cost
    return best if must else None


def _overlap(one: Bbox, other: Bbox) -> float:
    """Area that two boxes share, in square pixels."""
    shared = Bbox.intersection(one, other)
    return 0.0 if shared is None else float(shared.width * shared.height)


def _write(axes: Axes, name: str, place: Points, box: Bbox, style: dict[str, Any]) -> None:
    """A name in its box, with a line to its place if it stands elsewhere."""
    x, y = axes.transData.inverted().transform(place)
    aside = ((box.x0 + box.x1) / 2 - place[0], (box.y0 + box.y1) / 2 - place[1])
    moved = max(map(abs, aside)) > 1.0
    line = {"arrowstyle": "-", "color": style["color"], "linewidth": 0.7, "shrinkB": 0}
    if moved:
        axes.plot([x], [y], "o", ms=2.5, color=style["color"], zorder=4)
    axes.annotate(
        name,
        (float(x), float(y)),
        xytext=(aside[0] / _scale(axes), aside[1] / _scale(axes)),
        textcoords="offset points",
        ha="center",
        va="center",
        path_effects=[withStroke(linewidth=2.4, foreground=(PAPER, 0.85))],
        arrowprops=line if moved else None,
        zorder=5,
        **style,
    )
