"""Error against the length of a text: bins with about equally many texts each, shortest first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whowrote.errors import InputError
from whowrote.metrics import Interval, wilson


@dataclass(frozen=True)
class LengthBin:
    """Texts of ``low`` to ``high`` words (both occur), and how often their answer was wrong."""

    low: int
    high: int
    n: int
    error: float
    interval: Interval


def error_by_length(words: ArrayLike, right: ArrayLike, n_bins: int = 6) -> tuple[LengthBin, ...]:
    """Error with Wilson's interval in up to ``n_bins`` bins of words.

    The borders are quantiles, so that no bin is much less certain than another; texts of one
    length stay together, and where many are equally long there are fewer bins.

    >>> short, long = error_by_length([90, 100, 800, 900], [False, True, True, True], n_bins=2)
    >>> (short.low, short.high, short.error), (long.low, long.high, long.error)
    ((90, 100, 0.5), (800, 900, 0.0))
    """
    lengths, hits = np.asarray(words), np.asarray(right, dtype=bool)
    _check(lengths, hits, n_bins)
    borders = np.unique(np.quantile(lengths, np.linspace(0.0, 1.0, n_bins + 1)[1:-1]))
    bins = np.searchsorted(borders, lengths, side="right")
    return tuple(_bin(lengths[bins == one], hits[bins == one]) for one in np.unique(bins))


def _bin(lengths: NDArray[np.int_], hits: NDArray[np.bool_]) -> LengthBin:
    wrong = int((~hits).sum())
    return LengthBin(
        low=int(lengths.min()),
        high=int(lengths.max()),
        n=len(hits),
        error=wrong / len(hits),
        interval=wilson(wrong, len(hits)),
    )


def _check(lengths: NDArray[np.int_], hits: NDArray[np.bool_], n_bins: int) -> None:
    if lengths.ndim != 1 or lengths.shape != hits.shape or len(lengths) == 0:
        raise InputError(
            f"words has shape {lengths.shape} and right {hits.shape}; both must have one entry per "
            "text: count the words of each text and compare its answer with the truth"
        )
    if lengths.min() < 1:
        raise InputError(
            f"words has {lengths.min()}; a text must have at least one word: leave empty texts out"
        )
    if n_bins < 1:
        raise InputError(f"n_bins is {n_bins}; it must be at least 1: give 6")
