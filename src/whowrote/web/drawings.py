r"""What a page draws: shapes in numbers, to be written as SVG, coloured by the style sheet.

.. math:: x \mapsto \text{width} \, \frac{x - x_{\min}}{x_{\max} - x_{\min}}

A map of the authors with the questioned text among them, shares along a long text, and a text cut
into marked runs. Nothing here is HTML: templates write it, escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from whowrote.arrays import FloatArray
from whowrote.attribution.explanation import Explanation, hits
from whowrote.attribution.fitted_attributor import FittedAttributor
from whowrote.attribution.maps import latent_map_of
from whowrote.attribution.occlusion import Mark
from whowrote.attribution.rolling import Rolling
from whowrote.attribution.rows import mean_per_text

WIDTH, HEIGHT, EDGE = 600.0, 400.0, 26.0
MOST_DOTS, COLOURS, LEVELS = 600, 8, 4
SEEN = 0.02
"""An author whose share is nowhere larger has no band of their own."""
NAMED = 12
"""Authors whose names are written on the map; the others are named when pointed at."""


@dataclass(frozen=True)
class Dot:
    """A training text on the map."""

    x: float
    y: float
    author: int


@dataclass(frozen=True)
class Place:
    """An author on the map: the middle, and the ellipse that holds half of their density."""

    name: str
    x: float
    y: float
    rx: float
    ry: float
    turn: float
    colour: int
    written: bool
    label_x: float
    label_y: float
    anchor: str


@dataclass(frozen=True)
class Chart:
    """The map: authors, their texts, and where the questioned texts are."""

    places: tuple[Place, ...]
    dots: tuple[Dot, ...]
    asked: tuple[tuple[float, float], ...]
    width: float = WIDTH
    height: float = HEIGHT


def chart_of(model: FittedAttributor, texts: Sequence[str]) -> Chart | None:
    """The texts among the authors, in the plane in which the authors differ most."""
    if model.model.means.shape[1] < 2:
        return None
    training = model.training
    asked: FloatArray = np.zeros((0, model.model.means.shape[1]))
    if texts:
        read = model.reader.read(list(texts))
        asked = mean_per_text(model.model.transform(read.V), read.passages)
    chosen = np.unique(np.linspace(0, len(training.codes) - 1, MOST_DOTS).astype(int))
    latents = np.concatenate([training.latents[chosen].astype(np.float64), asked])
    codes = np.concatenate([training.codes[chosen], np.full(len(asked), -1)])
    names = model.names.tolist()
    found = latent_map_of(latents, codes, names, model.model.means, model.model.scales)
    scale, low = _scaling(np.concatenate([found.points, found.means]))
    points, means = _placed(found.points, scale, low), _placed(found.means, scale, low)
    own = len(found.points) - len(asked)
    return Chart(
        _places(names, means, found.scales, scale),
        tuple(
            Dot(float(x), float(y), int(code))
            for (x, y), code in zip(points[:own], codes[:own], strict=True)
        ),
        tuple((float(x), float(y)) for x, y in points[own:]),
    )


def _scaling(points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Factors and lower left corner; the bulk of the points fills the sheet."""
    low, high = np.quantile(points, 0.0, axis=0), np.quantile(points, 1.0, axis=0)
    room = np.array([WIDTH - 2 * EDGE, HEIGHT - 2 * EDGE])
    return np.full(2, (room / np.maximum(high - low, 1e-9)).min()), (low + high) / 2


def _placed(points: FloatArray, scale: FloatArray, middle: FloatArray) -> FloatArray:
    moved = (points - middle) * scale
    moved[:, 1] *= -1.0  # on a screen y grows downwards
    moved += np.array([WIDTH, HEIGHT]) / 2
    return np.clip(moved, EDGE / 2, np.array([WIDTH, HEIGHT]) - EDGE / 2).round(1)


def _places(
    names: Sequence[str], means: FloatArray, scales: FloatArray, scale: FloatArray
) -> tuple[Place, ...]:
    # A name must cover neither another name nor the middle of another author.
    taken = [(float(x) - 7.0, float(y) + 4.0, 14.0) for x, y in means]
    found, written = [], 0
    for number, (name, mean) in enumerate(zip(names, means, strict=True)):
        values, axes = np.linalg.eigh(scales[number])
        rx, ry = (np.sqrt(2 * np.log(2) * np.maximum(values[::-1], 0.0)) * scale).tolist()
        turn = -float(np.degrees(np.arctan2(axes[1, 1], axes[0, 1])))
        x, y = mean.tolist()
        anchor = "end" if x > WIDTH * 0.7 else "start"
        label_x = x + (-8.0 if anchor == "end" else 8.0)
        width = 7.0 * min(len(name), 24)
        left = label_x - width if anchor == "end" else label_x
        own = [one for place, one in enumerate(taken) if place != number]
        label_y = _free(left, width, y + 4.0, own) if written < NAMED else None
        if label_y is not None:
            written += 1
            taken.append((left, label_y, width))
        found.append(
            Place(
                *(name, x, y, min(rx, WIDTH), min(ry, HEIGHT), turn, number % COLOURS),
                *(label_y is not None, label_x, y if label_y is None else label_y, anchor),
            )
        )
    return tuple(found)


def _free(
    left: float, width: float, y: float, taken: Sequence[tuple[float, float, float]]
) -> float | None:
    """The height nearest to y at which a name covers nothing else, within a few lines."""
    for step in (0, -1, 1, -2, 2, -3, 3):
        line = y + 14.0 * step
        if 12.0 < line < HEIGHT - 4 and all(
            abs(line - height) >= 13.0 or left + width < low or low + wide < left
            for low, height, wide in taken
        ):
            return line
    return None


# -- along a long text ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Band:
    """The share of one author along the text, as the corners of a shape; colour -1: nobody."""

    name: str
    colour: int
    corners: str
    mean: float


@dataclass(frozen=True)
class Along:
    """Shares along a text, one above another, and where they change."""

    bands: tuple[Band, ...]
    changes: tuple[tuple[float, int], ...]
    width: float = WIDTH
    height: float = 180.0


def along_of(found: Rolling, most: int = 6) -> Along:
    """The authors with the largest shares, then all others, then none of these on top."""
    shares = found.shares()
    middles = np.array([(one.start + one.end) / 2 for one in found.windows])
    span = max(float(middles[-1] - middles[0]), 1.0)
    x, sheet = (middles - middles[0]) / span * WIDTH, Along((), ())
    order = np.argsort(-shares[:, :-1].mean(axis=0), kind="stable")
    most = min(most, max(1, int((shares[:, :-1].max(axis=0) >= SEEN).sum())))
    rows = [(found.authors[k], place, shares[:, k]) for place, k in enumerate(order[:most])]
    if len(order) > most:
        rows.append(("all others", COLOURS - 1, shares[:, order[most:]].sum(axis=1)))
    rows.append(("none of these", -1, shares[:, -1]))
    below, bands = np.zeros(len(x)), []
    for name, colour, share in rows:
        above = below + share
        edge = [(a, (1 - b) * sheet.height) for a, b in zip(x, above, strict=True)]
        edge += [(a, (1 - b) * sheet.height) for a, b in zip(x[::-1], below[::-1], strict=True)]
        corners = " ".join(f"{a:.1f},{max(b, 0.0):.1f}" for a, b in edge)
        bands.append(Band(name, colour, corners, float(share.mean())))
        below = above
    points = [(float((p - middles[0]) / span * WIDTH), p) for p in found.change_points]
    return Along(tuple(bands), tuple(points))


# -- a marked text -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """A stretch of a text; ``level`` from -LEVELS (against) over 0 (nothing) to LEVELS (for)."""

    text: str
    level: int
    drop: float


def runs_of(text: str, marks: Sequence[Mark]) -> list[Run]:
    """The whole text cut into marked and plain stretches.

    >>> marks = [Mark(0, 2, 1.0, 1.0), Mark(3, 5, -1.0, -1.0)]
    >>> [(run.text, run.level) for run in runs_of("so it is", marks)]
    [('so', 4), (' ', 0), ('it', -4), (' is', 0)]
    """
    if not marks:
        return [Run(text, 0, 0.0)]
    most = sorted(abs(mark.drop) for mark in marks)[-max(1, len(marks) // 20)] or 1.0
    found, done = [], 0
    for mark in marks:
        inside = text[mark.start : mark.end].rstrip()
        level = int(np.clip(round(LEVELS * mark.drop / most), -LEVELS, LEVELS))
        found += [Run(text[done : mark.start], 0, 0.0), Run(inside, level, mark.drop)]
        done = mark.start + len(inside)
    found.append(Run(text[done:], 0, 0.0))
    return _joined([run for run in found if run.text])


def _joined(runs: Sequence[Run]) -> list[Run]:
    """Plain neighbours become one: a page of a thousand words stays small."""
    found: list[Run] = []
    for run in runs:
        if found and not found[-1].level and not run.level:
            found[-1] = Run(found[-1].text + run.text, 0, 0.0)
        else:
            found.append(run)
    return found


def ngram_marks(found: Explanation) -> list[Mark]:
    """Where the strongest n-grams stand; characters of several count what these add together."""
    adds = np.zeros(len(found.text) + 1)
    for ngram in (*found.ngrams_for, *found.ngrams_against):
        for low, high in hits(ngram, found.text):
            adds[low:high] += ngram.lead / max(1, ngram.times)
    edges = np.flatnonzero(np.diff(adds, prepend=0.0, append=0.0))
    pairs = zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    marked = ((low, high, float(adds[low])) for low, high in pairs if adds[low])
    return [Mark(low, high, add, add) for low, high, add in marked]
