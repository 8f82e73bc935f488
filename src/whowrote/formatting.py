"""Numbers, names and tables as people read them, in a terminal and in HTML.

Pieces of HTML are for pages and notebooks: escaped, without scripts, legible on light and on dark.
Colours are shades over whatever lies below, and text has the colour of its surroundings.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, JustifyMethod
    from rich.table import Table


_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
"""Control characters, those that turn the direction of a line, half characters, no characters."""


def printable(text: str) -> str:
    r"""Signs that would steer a terminal, or that no page may hold, as their numbers.

    Line ends and tabs stay. A JSON text stays the same value.

    >>> printable("Ann\x1b[2J"), printable("Ann")
    ('Ann\\u001b[2J', 'Ann')
    """
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def one_line(name: str) -> str:
    r"""A name as it can stand anywhere: printable, and without line ends and tabs.

    >>> one_line("Ann\nBob")
    'Ann\\u000aBob'
    """
    return re.sub(r"[\n\t]", lambda found: f"\\u{ord(found[0]):04x}", printable(name))


def screen(**look: Any) -> Console:
    """Where tables are shown: no text in them can steer the terminal.

    Some terminals have no width (COLUMNS=0), at which nothing would be shown.
    """
    if os.environ.get("COLUMNS", "").isdigit() and not int(os.environ["COLUMNS"]):
        look.setdefault("width", 80)
    return _screen_class()(**look)


@cache
def _screen_class() -> type[Console]:
    from rich.console import Console  # late: what prints JSON needs none
    from rich.segment import Segment

    class Screen(Console):
        """Every text that is rendered is made printable; what rich itself steers with is not."""

        def render(self, renderable: Any, options: Any = None) -> Any:
            for one in super().render(renderable, options):
                yield one if one.control else Segment(printable(one.text), one.style)

    return Screen


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


def quoted(names: Iterable[object], most: int = 20) -> str:
    """Names in quotes for a sentence, the first of them where there are many, none too long.

    >>> quoted(["text", "user"]), quoted("abc", most=2)
    ("'text', 'user'", "'a', 'b' and 1 more")
    """
    every = list(names)
    shown = ", ".join(clipped(repr(name)) for name in every[:most])
    return shown if len(every) <= most else f"{shown} and {len(every) - most:,} more"


def clipped(text: str, most: int = 60) -> str:
    """The beginning of a long text.

    >>> clipped("no"), clipped("far too long", 7)
    ('no', 'far too...')
    """
    return text if len(text) <= most else f"{text[:most]}..."


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


BLUE, RED = "43,108,163", "209,73,91"
_LINE = "border-bottom:1px solid rgba(128,128,128,.3)"
_CELL = f"padding:.25em .9em .25em .4em;vertical-align:top;{_LINE}"


_NO_SIGN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffe\uffff]")


def escaped(value: Any) -> str:
    """As text; half characters and control signs, which no page may hold, become a mark.

    >>> escaped("<b> & 'c'")
    '&lt;b&gt; &amp; &#x27;c&#x27;'
    """
    whole = str(value).replace("\r\n", "\n").encode("utf-8", "replace").decode()
    return escape(_NO_SIGN.sub("\ufffd", whole))


def paragraph(text: Any, *, strong: bool = False, warning: bool = False) -> str:
    """Running text; a warning has an edge."""
    style = "margin:.5em 0;max-width:46em"
    if warning:
        style += f";border-left:.25em solid rgb({RED});padding-left:.7em"
    words = f"<strong>{escaped(text)}</strong>" if strong else escaped(text)
    return f'<p style="{style}">{words}</p>'


def grid(columns: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "") -> str:
    """A table; a column whose name opens with ``>`` is set to the right.

    >>> "<td" in grid(["author", ">probability"], [("Ann", "56%")])
    True
    """
    sides = ["right" if name[:1] == ">" else "left" for name in columns]
    head = _row("th", [name.removeprefix(">") for name in columns], sides)
    body = "".join(f"<tr>{_row('td', row, sides)}</tr>" for row in rows)
    top = f'<caption style="text-align:left">{escaped(caption)}</caption>' if caption else ""
    return (
        '<div style="overflow-x:auto;margin:0 0 1em"><table style="border-collapse:collapse">'
        f"{top}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def shade(text: str, strength: float) -> str:
    """Text on a shade: blue for what speaks for, red and underlined for what speaks against.

    >>> shade("word", 0.0)
    'word'
    """
    depth = 0.75 * min(1.0, abs(strength))
    if depth < 0.05:
        return escaped(text)
    colour, line = (BLUE, "none") if strength > 0 else (RED, "underline dotted")
    style = f"background:rgba({colour},{depth:.2f});color:inherit;text-decoration:{line}"
    return f'<mark style="{style}">{escaped(text)}</mark>'


def _row(tag: str, cells: Sequence[Any], sides: Sequence[str]) -> str:
    pairs = zip(cells, sides, strict=True)
    return "".join(
        f'<{tag} style="{_CELL};text-align:{side}">{escaped(cell)}</{tag}>' for cell, side in pairs
    )
