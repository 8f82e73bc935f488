"""Numbers and tables as people read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import JustifyMethod
    from rich.table import Table


def percent(probability: float) -> str:
    """Whole per cent, but never a rounded certainty.

    >>> percent(0.5), percent(0.999), percent(0.001)
    ('50%', '>99%', '<1%')
    """
    if 0.995 <= probability < 1.0:
        return ">99%"
    return "<1%" if 0.0 < probability < 0.005 else f"{probability:.0%}"


def fine_percent(share: float) -> str:
    """With a decimal where shares are small, so that a limit of 2 % can be told from what meets it.

    >>> fine_percent(0.5), fine_percent(0.0194), fine_percent(0.0004)
    ('50%', '1.9%', '<0.1%')
    """
    if not 0.0 < share < 0.0995:
        return percent(share)
    return "<0.1%" if share < 0.0005 else f"{share:.1%}"


def beside_limit(share: float, limit: float) -> str:
    """A share with as many decimals as tell on which side of a limit it lies.

    >>> beside_limit(0.0504, 0.05), beside_limit(0.04996, 0.05), beside_limit(0.31, 0.05)
    ('5.04%', '4.996%', '31%')
    """
    shown, decimals = fine_percent(share), 1
    while share != limit and shown[:-1] in (f"{100 * limit:.{decimals}f}", f"{100 * limit:g}"):
        decimals += 1
        shown = f"{share:.{decimals}%}"
    return shown


def as_limit(limit: float) -> str:
    """A limit as it was given, without rounding.

    >>> as_limit(0.05), as_limit(0.025), as_limit(0.29)
    ('5%', '2.5%', '29%')
    """
    return f"{100 * limit:.10g}%"


def as_prior(probability: float) -> str:
    """A probability beforehand as one in so many, or as per cent.

    >>> as_prior(0.000001), as_prior(0.5)
    ('1 in 1,000,000', '50%')
    """
    return f"1 in {round(1 / probability):,}" if probability < 0.1 else percent(probability)


def count(number: int, noun: str) -> str:
    """How many, in words.

    >>> count(1, "text"), count(2, "text")
    ('1 text', '2 texts')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def table(title: str, *columns: str, **look: Any) -> Table:
    """An empty table without lines; a column whose name opens with ``>`` is set to the right.

    >>> [column.justify for column in table("Texts", "author", ">words").columns]
    ['left', 'right']
    """
    from rich.table import Table  # late: what prints JSON needs none

    made = Table(title=title or None, **{"title_justify": "left", "box": None, **look})
    for name in columns:
        right = name[:1] == ">"  # a number is never cut, and a long name goes on in the next line
        justify: JustifyMethod = "right" if right else "left"
        made.add_column(name.removeprefix(">"), justify=justify, no_wrap=right, overflow="fold")
    return made
