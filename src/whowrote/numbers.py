"""Numbers as people read them."""

from __future__ import annotations


def percent(probability: float) -> str:
    """Whole per cent, but never a rounded certainty.

    >>> percent(0.5), percent(0.999), percent(0.001)
    ('50%', '>99%', '<1%')
    """
    if 0.995 <= probability < 1.0:
        return ">99%"
    return "<1%" if 0.0 < probability < 0.005 else f"{probability:.0%}"
