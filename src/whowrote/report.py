"""One HTML page that stands alone: no network, no scripts, no other file, the same bytes each time.

Pictures are inside as SVG. Whatever is written is escaped, and the page forbids itself to load
anything, so a text that was written to do harm is only a text.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, Protocol

from whowrote.errors import InputError
from whowrote.files import write_text
from whowrote.formatting import escaped as _text

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from whowrote.attribution.explanation import Explanation

KINDS = ("plain", "note")
STYLES = ("text", "number", "code")
MARKS = ("", "right", "wrong", "outside")
CONTENTS_FROM = 4
"""A page of so many sections begins with a list of them."""


class Block(Protocol):
    """Anything that can write itself as HTML, escaped."""

    def html(self) -> str:
        """The block as HTML."""


@dataclass(frozen=True)
class Paragraph:
    """Running text; the ``kind`` "note" sets it off, for what must not be overlooked."""

    text: str
    kind: str = "plain"

    def __post_init__(self) -> None:
        _require("kind", [self.kind], 1, KINDS)

    def html(self) -> str:
        """One paragraph."""
        return f'<p class="{self.kind}">{_text(self.text)}</p>'


@dataclass(frozen=True)
class Facts:
    """Names with their values, such as a model's identity."""

    entries: Sequence[tuple[str, Any]]

    def html(self) -> str:
        """A definition list."""
        pairs = (f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>" for name, value in self.entries)
        return f"<dl>{''.join(pairs)}</dl>"


@dataclass(frozen=True)
class Table:
    """Rows of cells; ``styles`` one per column of STYLES, ``marks`` one per row of MARKS.

    A mark colours the edge of a row only: what it means must also stand in a cell.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    styles: Sequence[str] = ()
    marks: Sequence[str] = ()
    caption: str = ""

    def __post_init__(self) -> None:
        uneven = [row for row in self.rows if len(row) != len(self.columns)]
        if uneven:
            raise InputError(
                f"rows has a row of {len(uneven[0])} cells for {len(self.columns)} columns; every "
                "row must have a cell per column: write an empty one as ''"
            )
        _require("styles", self.styles, len(self.columns), STYLES)
        _require("marks", self.marks, len(self.rows), MARKS)

    def html(self) -> str:
        """A table that scrolls sideways where the screen is narrow."""
        styles = self.styles or ["text"] * len(self.columns)
        head = _cells("th", self.columns, styles)
        marked = zip(self.rows, self.marks or [""] * len(self.rows), strict=True)
        body = "\n".join(f'<tr class="{m}">{_cells("td", row, styles)}</tr>' for row, m in marked)
        caption = f"<caption>{_text(self.caption)}</caption>\n" if self.caption else ""
        return (
            f'<div class="wide"><table>\n{caption}<thead><tr>{head}</tr></thead>\n'
            f"<tbody>\n{body}\n</tbody></table></div>"
        )


@dataclass(frozen=True)
class Figure:
    """A picture with what it shows; ``alt`` says it to those who cannot see it."""

    figure: Drawing
    caption: str
    alt: str = ""

    def html(self) -> str:
        """An image whose data is in the page: two pictures cannot mix up their inner names."""
        from whowrote.plots import svg

        data = base64.b64encode(svg(self.figure).encode()).decode()
        width, alt = round(96 * self.figure.get_figwidth()), _text(self.alt or self.caption)
        return (
            f'<figure><div class="wide"><img width="{width}" alt="{alt}"'
            f' src="data:image/svg+xml;base64,{data}"></div>\n'
            f"<figcaption>{_text(self.caption)}</figcaption></figure>"
        )


@dataclass(frozen=True)
class Fragment:
    """HTML that was made elsewhere, and escaped there (:mod:`whowrote.formatting`)."""

    markup: str

    def html(self) -> str:
        """As it is."""
        return self.markup


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it."""

    heading: str
    blocks: Sequence[Block]


def page(title: str, sections: Sequence[Section], *, lead: str = "", footer: str = "") -> str:
    """The whole page; the same content gives the same text.

    >>> "<h2>&lt;b&gt;</h2>" in page("A case", [Section("<b>", [Paragraph("text")])])
    True
    """
    parts = [
        f"<h1>{_text(title)}</h1>",
        f'<p class="lead">{_text(lead)}</p>' if lead else "",
        _contents(sections),
        *(_section(number, section) for number, section in enumerate(sections, 1)),
        f"<footer>{_text(footer)}</footer>" if footer else "",
    ]
    body = "\n".join(part for part in parts if part)
    return _frame().substitute(title=_text(title), body=body)


def write_page(
    path: str | os.PathLike[str],
    title: str,
    sections: Sequence[Section],
    *,
    lead: str = "",
    footer: str = "",
) -> Path:
    """Write the page, whole or not at all."""
    target = Path(path)
    if target.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"path is {target.name!r}; a page ends in .html: name it report.html")
    write_text(target, page(title, sections, lead=lead, footer=footer))
    return target


def write_explanation(path: str | os.PathLike[str], found: Explanation) -> Path:
    """The page of an explanation."""
    from whowrote.attribution.marked_text import explanation_sections

    model = found.attribution.model
    return write_page(
        path,
        f"Why {found.best}?",
        [Section(name, [Fragment(html)]) for name, html in explanation_sections(found)],
        lead=f"{found.attribution.document}, {found.attribution.tokens} tokens",
        footer=f"whowrote {model.version}, model {model.id[:16]}, {model.authors} authors, "
        f"text {found.attribution.sha256[:16]}",
    )


def _frame() -> Template:
    """The empty page with its style sheet."""
    return Template(resources.files("whowrote").joinpath("report.html").read_text("utf-8"))


def _section(number: int, section: Section) -> str:
    blocks = "\n".join(block.html() for block in section.blocks)
    return f'<section id="s{number}">\n<h2>{_text(section.heading)}</h2>\n{blocks}\n</section>'


def _contents(sections: Sequence[Section]) -> str:
    if len(sections) < CONTENTS_FROM:
        return ""
    entries = enumerate(sections, 1)
    links = (f'<a href="#s{number}">{_text(one.heading)}</a>' for number, one in entries)
    return f"<nav>{' '.join(links)}</nav>"


def _cells(tag: str, cells: Sequence[Any], styles: Sequence[str]) -> str:
    pairs = zip(cells, styles, strict=True)
    return "".join(f'<{tag} class="{style}">{_text(cell)}</{tag}>' for cell, style in pairs)


def _require(name: str, given: Sequence[str], n: int, allowed: Sequence[str]) -> None:
    if given and (len(given) != n or not set(given) <= set(allowed)):
        raise InputError(
            f"{name} is {list(given)}; it must have {n} entries, each one of "
            f"{', '.join(map(repr, allowed))}: leave it out for none"
        )
