"""Pages whose figures come from records: text between marks, and tables in Markdown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from whowrote.errors import InputError

MISSING = "*Not measured yet.*"


def fill(page: str, sections: Mapping[str, str]) -> str:
    r"""Replace what stands between the marks of each section.

    >>> fill("<!-- a -->old<!-- /a -->", {"a": "new"})
    '<!-- a -->\nnew\n<!-- /a -->'
    """
    for name, text in sections.items():
        marks = re.compile(rf"(<!-- {name} -->).*?(<!-- /{name} -->)", re.DOTALL)
        if not marks.search(page):
            raise InputError(f"the page has no section between <!-- {name} --> and its end")
        filled = text.replace("\\", r"\\")
        page = marks.sub(rf"\1\n{filled}\n\2", page)
    return page


def as_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
