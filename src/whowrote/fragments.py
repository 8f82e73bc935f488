"""Pieces of HTML for pages and notebooks: escaped, without scripts, legible on light and on dark.

Colours are shades over whatever lies below, and text has the colour of its surroundings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

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
