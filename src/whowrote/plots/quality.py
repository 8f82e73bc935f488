"""Quality of answers: confidence against truth, error against length, who was taken for whom.

And of likelihood ratios: how often they mislead, whether they are calibrated, how large they are.
Counts, probabilities, bins of lengths, log10 ratios and their intervals go in; figures come out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, NullLocator, PercentFormatter
from numpy.typing import ArrayLike, NDArray

from whowrote.arrays import BoolArray
from whowrote.errors import InputError
from whowrote.formatting import percent
from whowrote.metrics import calibration_error, wilson
from whowrote.plots.style import (
    BLUES,
    FAINT,
    INK,
    OUTSIDE,
    PAPER,
    RIGHT,
    RULE,
    WRONG,
    finish,
    label,
    labels,
    sheet,
)
from whowrote.ratios import cllr_min, pav, ratio_quality, tippett

if TYPE_CHECKING:
    from whowrote.evaluation import LengthBin


def reliability_diagram(
    confidence: ArrayLike,
    right: ArrayLike,
    *,
    n_bins: int = 15,
    title: str = "Is it as often right as it is sure?",
) -> Figure:
    """Share right against confidence in bins of equal width, and how many answers each bin has.

    On the diagonal the probabilities can be taken at their word; below it they are too sure. The
    bins, and so the ECE in the title, are those of :func:`whowrote.metrics.evaluate`.
    """
    sure, hits = np.asarray(confidence, dtype=np.float64), np.asarray(right, dtype=bool)
    _check_confidence(sure, hits)
    ece = calibration_error(sure, hits, n_bins=n_bins)
    bins = np.minimum((sure * n_bins).astype(np.intp), n_bins - 1)
    figure = sheet(5.2, 5.6)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
    above.plot([0.0, 1.0], [0.0, 1.0], color=FAINT, lw=1.0, ls=(0, (4, 3)))
    for number in np.unique(bins):
        _draw_bin(above, sure[bins == number], hits[bins == number])
    edges = np.linspace(0.0, 1.0, n_bins + 1)
    counts = np.bincount(bins, minlength=n_bins)
    below.bar(edges[:-1], counts, width=0.92 / n_bins, align="edge", color=RIGHT, alpha=0.55)
    _reliability_axes(above, below, f"{title}  ECE {ece:.1%}", len(sure))
    return figure


def _draw_bin(axes: Axes, sure: NDArray[np.float64], hits: BoolArray) -> None:
    count, x = int(hits.sum()), float(sure.mean())
    interval = wilson(count, len(hits))
    axes.vlines(x, interval.low, interval.high, color=RIGHT, lw=1.4, alpha=0.45)
    axes.scatter([x], [count / len(hits)], s=34, color=RIGHT, zorder=3, linewidths=0, clip_on=False)


def _reliability_axes(above: Axes, below: Axes, title: str, n: int) -> None:
    above.set_xlim(0.0, 1.02)
    above.set_ylim(0.0, 1.02)
    above.set_ylabel("share right, 95 % interval", color=FAINT, fontsize=9)
    above.grid(color=RULE, lw=0.8)
    above.set_axisbelow(True)
    for axis in (above.xaxis, above.yaxis):
        axis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    below.set_ylabel(f"{n:,} answers", color=FAINT, fontsize=8)
    below.set_xlabel("probability of the answer", color=FAINT, fontsize=9)
    below.locator_params(axis="y", nbins=3, integer=True)
    finish(above, title)
    finish(below, "")


def length_errors(bins: Sequence[LengthBin], *, title: str = "How long must a text be?") -> Figure:
    """Error of each bin of lengths with its 95 % interval, on a log axis of words."""
    if not bins:
        raise InputError("bins is empty; a plot needs texts: give the bins of error_by_length")
    figure = sheet(6.8, 4.0)
    axes = figure.add_subplot()
    for one in bins:
        middle = float(np.sqrt(one.low * one.high))
        axes.hlines(one.error, one.low, one.high, color=RIGHT, lw=1.6, alpha=0.5)
        axes.vlines(middle, one.interval.low, one.interval.high, color=RIGHT, lw=1.4, alpha=0.45)
        axes.scatter(
            [middle], [one.error], s=34, color=RIGHT, zorder=3, linewidths=0, clip_on=False
        )
        axes.annotate(
            f"{one.n:,}",
            (middle, one.interval.high),
            xytext=(0, 3),
            textcoords="offset points",
            ha="center",
            color=FAINT,
            fontsize=8,
        )
    _length_axes(axes, bins, title)
    return figure


def _length_axes(axes: Axes, bins: Sequence[LengthBin], title: str) -> None:
    low, high = min(one.low for one in bins), max(one.high for one in bins)
    axes.set_xscale("log")
    margin = (high / low) ** 0.03 if high > low else 1.1
    axes.set_xlim(low / margin, high * margin)
    ticks = _spaced([edge for one in bins for edge in (one.low, one.high)])
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.set_xticklabels([f"{tick:,.0f}" for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_ylim(0.0, min(1.0, 1.12 * max(one.interval.high for one in bins)))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.grid(axis="y", color=RULE, lw=0.8)
    axes.set_axisbelow(True)
    axes.set_xlabel("words of the text (number of texts above each bin)", color=FAINT, fontsize=9)
    axes.set_ylabel("error, 95 % interval", color=FAINT, fontsize=9)
    finish(axes, title)


def _spaced(values: Sequence[float]) -> list[float]:
    """Those values, ascending, that are far enough apart on a log axis to be written."""
    ordered = sorted(set(values))
    gap = 0.09 * float(np.log(ordered[-1] / ordered[0]))
    kept = [ordered[0]]
    for value in ordered[1:-1]:
        if np.log(value / kept[-1]) >= gap and np.log(ordered[-1] / value) >= gap:
            kept.append(value)
    return kept if ordered[-1] == kept[-1] else [*kept, ordered[-1]]


def _check_confidence(sure: NDArray[np.float64], hits: BoolArray) -> None:
    if sure.ndim != 1 or sure.shape != hits.shape or len(sure) == 0:
        raise InputError(
            f"confidence has shape {sure.shape} and right {hits.shape}; both must have one entry "
            "per text: give the probability of each answer and whether it is right"
        )
    if not ((sure >= 0.0) & (sure <= 1.0)).all():
        raise InputError(
            f"confidence has {sure[~((sure >= 0.0) & (sure <= 1.0))][0]}; a probability lies "
            "between 0 and 1: give the largest entry of each row of predict_proba"
        )


# -- who was named: the table of answers, and a bar per text -------------------------------------


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


def tippett_plot(
    log10_lr: ArrayLike, same: ArrayLike, *, title: str = "How often does a ratio mislead?"
) -> Figure:
    """For each ratio, the share of pairs of either kind with one at least as large."""
    ratio, one = np.asarray(log10_lr, dtype=np.float64), np.asarray(same, dtype=bool)
    curves, quality = tippett(ratio, one), ratio_quality(ratio, one)
    figure = sheet(6.4, 3.9)
    axes = figure.add_subplot()
    reach = 1.05 * max(0.1, float(np.abs(ratio).max()))
    at = np.concatenate([[-reach], curves.log10_lr, [reach]])
    for share, colour, name in (
        (curves.same, RIGHT, f"the true author ({quality.same:,} comparisons)"),
        (curves.different, WRONG, f"somebody else ({quality.different:,} comparisons)"),
    ):
        axes.step(at, [1.0, *share, 0.0], where="pre", color=colour, lw=1.8, label=name)
    axes.axvline(0.0, color=FAINT, lw=1.0, ls=(0, (4, 3)))
    axes.set_xlim(-reach, reach)
    axes.set_ylim(0.0, 1.02)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_xlabel("log10 of the likelihood ratio", color=FAINT, fontsize=9)
    axes.set_ylabel("share at least as large", color=FAINT, fontsize=9)
    axes.grid(color=RULE, lw=0.8)
    axes.set_axisbelow(True)
    axes.legend(frameon=False, fontsize=8, labelcolor=INK, loc="lower left")
    finish(axes, f"{title}  Cllr {quality.cllr:.2f}, at best {cllr_min(ratio, one):.2f}")
    return figure


def calibration_plot(
    log10_lr: ArrayLike, same: ArrayLike, *, title: str = "Is a ratio as large as it says?"
) -> Figure:
    """The best monotone ratios (PAV) against those given: on the diagonal they are calibrated."""
    ratio, one = np.asarray(log10_lr, dtype=np.float64), np.asarray(same, dtype=bool)
    best = pav(ratio, one, misleading=1)
    order = np.argsort(ratio, kind="stable")
    figure = sheet(4.6, 4.4)
    axes = figure.add_subplot()
    reach = 1.05 * max(0.1, float(np.abs(ratio).max()), float(np.abs(best).max()))
    axes.plot([-reach, reach], [-reach, reach], color=FAINT, lw=1.0, ls=(0, (4, 3)))
    axes.plot(ratio[order], best[order], color=RIGHT, lw=1.8)
    for kind, colour, height in ((one, RIGHT, 0.98), (~one, WRONG, 0.02)):
        axes.scatter(
            ratio[kind],
            np.full(int(kind.sum()), reach * (2 * height - 1)),
            marker="|",
            s=30,
            color=colour,
            alpha=0.5,
            linewidths=0.8,
        )
    axes.set_xlim(-reach, reach)
    axes.set_ylim(-reach, reach)
    axes.set_xlabel("log10 ratio as given", color=FAINT, fontsize=9)
    axes.set_ylabel("log10 ratio that fits best (PAV)", color=FAINT, fontsize=9)
    axes.grid(color=RULE, lw=0.8)
    axes.set_axisbelow(True)
    finish(axes, title)
    return figure


@dataclass(frozen=True)
class RatioRow:
    """A ratio (log10) with its interval, of one candidate for one text."""

    text: str
    candidate: str
    log10_lr: float
    low: float
    high: float


def ratio_rows(
    rows: Sequence[RatioRow], *, title: str = "Likelihood ratio of each candidate"
) -> Figure:
    """A row per candidate and text: right of the line for the candidate, left for another."""
    if not rows:
        raise InputError("rows is empty; a plot needs a ratio: give one RatioRow per candidate")
    figure = sheet(7.0, 1.5 + 0.24 * len(rows))
    axes = figure.add_subplot()
    reach = 1.15 * max(0.5, *(abs(x) for one in rows for x in (one.low, one.high)))
    for place, one in enumerate(rows):
        colour = RIGHT if one.low > 0 else WRONG if one.high < 0 else OUTSIDE
        axes.hlines(place, one.low, one.high, color=colour, lw=2.2, alpha=0.5)
        axes.scatter([one.log10_lr], [place], s=30, color=colour, zorder=3, linewidths=0)
    texts = [one.text for one in rows]
    for place in (n for n in range(1, len(rows)) if texts[n] != texts[n - 1]):
        axes.axhline(place - 0.5, color=RULE, lw=0.8)
    names = [f"{label(one.text, 16)}  {label(one.candidate, 24)}" for one in rows]
    axes.set_yticks(range(len(rows)), names)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.axvline(0.0, color=FAINT, lw=1.0, ls=(0, (4, 3)))
    axes.set_xlim(-reach, reach)
    axes.grid(axis="x", color=RULE, lw=0.8)
    axes.set_axisbelow(True)
    axes.set_xlabel(
        "log10 of the ratio, 95 % interval; right: the candidate, left: somebody else",
        color=FAINT,
        fontsize=9,
    )
    finish(axes, title)
    return figure
