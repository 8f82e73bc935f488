"""What all pictures share: the palette, the empty sheet, the title at the left, the file."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap, to_hex, to_rgb
from matplotlib.figure import Figure

from whowrote.atomic import atomic_path
from whowrote.errors import InputError
from whowrote.numbers import percent as percent

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
        _render(figure, draft, kind[1:])
    return target


def svg(figure: Figure) -> str:
    """The figure as one SVG text; the same figure gives the same text."""
    page = io.BytesIO()
    _render(figure, page, "svg")
    return page.getvalue().decode()


def _render(figure: Figure, target: Path | io.BytesIO, kind: str) -> None:
    metadata = {"Date": None} if kind == "svg" else {"Software": "whowrote"}
    with rc_context({"svg.hashsalt": "whowrote"}):
        figure.savefig(target, format=kind, dpi=160, facecolor=PAPER, metadata=metadata)
