"""Who was named: the table of answers, and a bar per text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import ArrayLike

from whowrote.errors import InputError
from whowrote.plots.style import (
    BLUES,
    FAINT,
    INK,
    OUTSIDE,
    PAPER,
    RIGHT,
    WRONG,
    finish,
    label,
    labels,
    percent,
    sheet,
)


@dataclass(frozen=True)
class Bar:
    """One text: its label, the answer, the answer's probability, and whether that is right.

    ``right`` is None where the author is not enrolled and the text was refused, as it should be:
    then the probability is that of the best candidate, who is not the answer.
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
    figure = sheet(side + 1.0, side)
    axes = figure.add_subplot()
    totals = table.sum(axis=1, keepdims=True)
    shares = np.divide(table, totals, out=np.zeros(table.shape), where=totals > 0)
    axes.imshow(shares, cmap=BLUES, vmin=0.0, vmax=1.0)
    _write_counts(axes, table, shares)
    names = labels(classes)
    axes.set_xticks(range(len(names)), names, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("answer", color=FAINT)
    axes.set_ylabel("true author", color=FAINT)
    finish(axes, title)
    return figure


def probability_bars(bars: Sequence[Bar], *, title: str = "Who wrote it?") -> Figure:
    """A bar per text: length is the answer's probability, colour says right or wrong."""
    if not bars:
        raise InputError("bars is empty; a plot needs at least one text: give one Bar per text")
    figure = sheet(8.0, 1.4 + 0.26 * len(bars))
    axes = figure.add_subplot()
    rows = range(len(bars))
    axes.barh(rows, [bar.probability for bar in bars], height=0.72, color=[*map(_colour, bars)])
    for row, bar in enumerate(bars):
        text = f" {percent(bar.probability)}  {label(bar.answer)}"
        if bar.right is not False:
            text = f" {label(bar.answer)}" if bar.right is None else f" {percent(bar.probability)}"
        axes.text(bar.probability, row, text, va="center", color=_colour(bar), fontsize=8)
    axes.set_yticks(rows, labels(bar.label for bar in bars), fontsize=8)
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.set_xlim(0.0, 1.0)
    axes.set_xticks([])
    _legend(axes, bars)
    finish(axes, title)
    return figure


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
    names = {RIGHT: "right", WRONG: "wrong", OUTSIDE: "author not enrolled, and refused"}
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
