"""Likelihood ratios in pictures: how often they mislead, whether they are calibrated, how large.

log10 ratios of pairs of known authorship, or of candidates with their intervals, go in; figures
come out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from numpy.typing import ArrayLike

from whowrote.errors import InputError
from whowrote.plots.style import FAINT, INK, OUTSIDE, RIGHT, RULE, WRONG, finish, label, sheet
from whowrote.ratios import cllr_min, pav, ratio_quality, tippett


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
