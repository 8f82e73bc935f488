"""Documents of word processors and publishers: ``bytes -> (text, what was left out)``.

.docx, .odt, .epub, .pdf with a text layer, .html and TEI XML, wherever a plain text may lie; they
need the extra ``whowrote[formats]``. The prose of the body comes out, a blank line between
paragraphs; notes at the foot of a page follow at the end. What is no prose of the author (comments,
deleted passages, scripts, headers of TEI) is left out, and counted. Nothing outside the file is
read, no entity is expanded, and an archive may unfold to five times the limit of a document.
"""

from __future__ import annotations

import html
import io
import posixpath
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from whowrote.corpus.documents import Options, to_text
from whowrote.corpus.sources import too_large
from whowrote.errors import InputError, first_line
from whowrote.formatting import count

UNFOLDED = 5
"""An archive may be so many times the limit of a document when unpacked."""
MOST_ENTRIES, MOST_PAGES = 20_000, 5_000
EXTRA = "pip install 'whowrote[formats]'"


class UnreadableError(InputError):
    """A document that is damaged, locked, scanned or of another kind: the sentence says which."""


@dataclass(frozen=True, slots=True)
class Extracted:
    """The prose of a document, and how often what was left out."""

    text: str
    left_out: Mapping[str, int]

    def remark(self) -> str:
        """What was left out, in words; nothing if all is there.

        >>> Extracted("", {"script": 2, "note": 1}).remark()
        'left out: 2 script, 1 note'
        """
        named = ", ".join(f"{times} {name}" for name, times in self.left_out.items() if times)
        return f"left out: {named}" if named else ""


def extract(data: bytes, suffix: str, file: str, options: Options) -> Extracted:
    """The prose of a document of one of the ``SUFFIXES``."""
    try:
        found = SUFFIXES[suffix](data, file, options)
    except ImportError as problem:
        raise UnreadableError(
            f"{file}: a {suffix} file needs the package {problem.name!r}, which is not installed: "
            f"{EXTRA}"
        ) from problem
    except InputError:
        raise
    except Exception as problem:  # a hostile file makes these libraries raise anything
        raise _damaged(file, suffix, problem) from problem
    return Extracted(tidy(found.text), found.left_out)


def _damaged(file: str, suffix: str, problem: Exception) -> UnreadableError:
    return UnreadableError(
        f"{file} cannot be read as {suffix} ({first_line(problem)[:120]}): save it again, or as "
        "plain text"
    )


def tidy(text: str) -> str:
    r"""No blanks around line ends, and at most one empty line.

    >>> tidy("  One. \n \n\n Two.\n")
    'One.\n\nTwo.'
    """
    # Line by line: a pattern for blanks around line ends is quadratic in a long run of blanks.
    lines = "\n".join(line.strip(" \t") for line in text.split("\n"))
    return re.sub(r"\n{3,}", "\n\n", lines).strip()


# -- prose of a tree of elements -----------------------------------------------------------------


@dataclass(frozen=True)
class Rules:
    """Which elements of a kind of XML are prose; names are without their namespace."""

    leave_out: frozenset[str] = frozenset()
    blocks: frozenset[str] = frozenset()
    later: frozenset[str] = frozenset()
    """Elements whose text follows at the end: notes stand in the middle of a sentence."""
    marks: Mapping[str, str] = field(default_factory=dict)
    """What an empty element stands for."""
    holders: frozenset[str] | None = None
    """The only elements whose own text counts; None: all, with runs of white space as one blank."""


def _names(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


WORD = Rules(
    leave_out=_names("Fallback del moveFrom instrText"),
    blocks=_names("p tr"),
    marks={"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"},
    holders=_names("t"),
)
OPEN_DOCUMENT = Rules(
    leave_out=_names("annotation tracked-changes sequence-decls forms table-of-content"),
    blocks=_names("p h table-row list-item"),
    later=_names("note-body"),
    marks={"s": " ", "tab": "\t", "line-break": "\n"},
)
HTML = Rules(
    leave_out=_names("script style head nav template noscript svg math button select textarea"),
    blocks=_names(
        "p div h1 h2 h3 h4 h5 h6 li tr blockquote pre section article header footer aside dt dd "
        "figcaption hr"
    ),
    marks={"br": "\n"},
)
TEI = Rules(
    leave_out=_names("teiHeader note fw del figDesc"),
    blocks=_names("p head l lg ab sp speaker stage item row div opener closer salute signed quote"),
    marks={"lb": " ", "pb": " ", "cb": " ", "space": " "},
)
EDITED = _names("corr reg expan")
"""What an editor put beside the reading of the source, within <choice>."""


class _Prose:
    """A walk over elements in the order of the document."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.out: list[str] = []
        self.later: list[str] = []
        self.left_out: Counter[str] = Counter()

    def walk(self, node: Any) -> None:
        """The text of an element; libxml2 allows no more than 256 of them in each other."""
        rules, name = self.rules, local(node)
        if not isinstance(node.tag, str):
            self._other(node)
        elif name in rules.leave_out or (name in EDITED and local(node.getparent()) == "choice"):
            self.left_out[name] += 1
        elif name in rules.later:
            self.out, kept = [], self.out
            self._inside(node, name)
            self.later.append("".join(self.out))
            self.out = kept
        else:
            self._inside(node, name)

    def _inside(self, node: Any, name: str) -> None:
        block = "\n\n" if name in self.rules.blocks else ""
        own = self.rules.marks.get(name, "")
        self.out.append(block if self.rules.holders is None else "")
        self.out.append("" if node.get("break") == "no" else own)
        self._say(node.text, name)
        for child in node:
            self.walk(child)
            self._say(child.tail, name)
        self.out.append(block)

    def _say(self, text: str | None, name: str) -> None:
        if not text:
            return
        if self.rules.holders is None:
            self.out.append(re.sub(r"\s+", " ", text))
        elif name in self.rules.holders:
            self.out.append(text)

    def _other(self, node: Any) -> None:
        """An entity of HTML is its character; one that a file defines itself is not expanded."""
        if type(node).__name__ != "_Entity":
            return
        plain = html.unescape(node.text)
        if plain == node.text:
            self.left_out["entity"] += 1
        else:
            self.out.append(plain)

    def done(self) -> Extracted:
        """Everything walked over, notes at the end."""
        text = "".join(self.out) + "".join(f"\n\n{note}" for note in self.later)
        return Extracted(text, dict(self.left_out))


def local(node: Any) -> str:
    """The name of an element without its namespace; nothing for a comment."""
    if node is None or not isinstance(node.tag, str):
        return ""
    return str(node.tag).rpartition("}")[2]


def _prose(nodes: Iterable[Any], rules: Rules) -> Extracted:
    walk = _Prose(rules)
    for node in nodes:
        walk.walk(node)
        walk.out.append("\n\n")
    return walk.done()


def _parsed(data: bytes) -> Any:
    from lxml import etree

    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, huge_tree=False, load_dtd=False
    )
    return etree.fromstring(data, parser)


# -- formats -------------------------------------------------------------------------------------


def read_docx(data: bytes, file: str, options: Options) -> Extracted:
    """Paragraphs and tables in their order, text boxes, then foot- and endnotes."""
    import docx

    names = _archive(data, file, options).namelist()
    parts = docx.Document(io.BytesIO(data)).part
    notes = [
        note
        for kind in ("footnotes", "endnotes")
        for rel in parts.rels.values()
        if rel.reltype.endswith(f"/{kind}") and not rel.is_external
        for note in _parsed(rel.target_part.blob)
    ]
    found = _prose([parts.element, *notes], WORD)
    outside = Counter(found.left_out)
    outside.pop("Fallback", None)
    outside["header or footer"] = sum(
        bool(re.search(r"/(header|footer)\d*\.xml", n)) for n in names
    )
    outside["part with comments"] = sum(name.endswith("/comments.xml") for name in names)
    return Extracted(found.text, dict(outside))


def read_odt(data: bytes, file: str, options: Options) -> Extracted:
    """The body of an OpenDocument text."""
    root = _parsed(_entry(_archive(data, file, options), "content.xml", file))
    bodies = [
        node for node in root.iter() if local(node) == "text" and local(node.getparent()) == "body"
    ]
    return _prose(bodies, OPEN_DOCUMENT)


def read_epub(data: bytes, file: str, options: Options) -> Extracted:
    """The pages of a book in the order of its spine; those of navigation are left out."""
    archive = _archive(data, file, options)
    container = _parsed(_entry(archive, "META-INF/container.xml", file))
    package = next(node.get("full-path") for node in container.iter() if local(node) == "rootfile")
    root, folder = _parsed(_entry(archive, package, file)), posixpath.dirname(package)
    items = {node.get("id"): node for node in root.iter() if local(node) == "item"}
    texts: list[str] = []
    left_out: Counter[str] = Counter()
    for node in root.iter():
        item = items.get(node.get("idref")) if local(node) == "itemref" else None
        if item is None:
            continue
        if "nav" in (item.get("properties") or "").split():
            left_out["page of navigation"] += 1
            continue
        path = posixpath.normpath(posixpath.join(folder, unquote(item.get("href"))))
        page = read_html(_entry(archive, path, file), file, options)
        texts.append(page.text)
        left_out.update(page.left_out)
    left_out.pop("head", None)
    return Extracted("\n\n".join(texts), dict(left_out))


def read_html(data: bytes, file: str, options: Options) -> Extracted:
    """A page without scripts, styles and navigation."""
    import lxml.html

    parser = lxml.html.HTMLParser(no_network=True, huge_tree=False, remove_comments=True)
    page = re.sub(r"^\s*<\?xml[^>]*\?>", "", _decoded(data))
    if not page.strip():
        return Extracted("", {})
    return _prose([lxml.html.document_fromstring(page, parser=parser)], HTML)


def _decoded(data: bytes) -> str:
    """UTF-8 if it is that, else as the page says, else as old pages are written."""
    said = re.search(rb"charset\s*=\s*[\"']?([\w.:-]+)", data[:2048], re.IGNORECASE)
    found = to_text(data)
    if found.encoding != "cp1252" or said is None:
        return found.text
    try:
        return data.decode(said[1].decode("ascii"), "replace")
    except LookupError:
        return found.text


def read_tei(data: bytes, file: str, options: Options) -> Extracted:
    """The body of a TEI document, or the elements that were asked for, of any XML."""
    root, chosen = _parsed(data), frozenset(options.elements or ("body",))
    if not options.elements and local(root) not in ("TEI", "TEI.2", "teiCorpus"):
        raise UnreadableError(
            f"{file} is XML of another kind (<{local(root)[:40]}>), not TEI: name the elements "
            "that hold the prose with elements (--element), or give plain text"
        )
    rules = Rules(TEI.leave_out - chosen, TEI.blocks, marks=TEI.marks)
    found = _prose(_outermost(root, chosen), rules)
    if not found.text.strip() and options.elements:
        raise UnreadableError(
            f"{file} has no text in <{'>, <'.join(sorted(chosen))}>; its elements are "
            f"{', '.join(sorted({local(node) for node in root.iter()} - {''})[:20])}: name others "
            "with elements (--element)"
        )
    header = sum(local(node) == "teiHeader" for node in root.iter())
    return Extracted(found.text, {"teiHeader": header, **found.left_out})


def _outermost(root: Any, chosen: frozenset[str]) -> list[Any]:
    """Chosen elements that lie in no other chosen one."""
    return [
        node
        for node in root.iter()
        if local(node) in chosen and not any(local(up) in chosen for up in node.iterancestors())
    ]


def read_pdf(data: bytes, file: str, options: Options) -> Extracted:
    """The text layer, page by page; words broken at line ends are joined again."""
    import pypdf

    reader = pypdf.PdfReader(io.BytesIO(data))
    if reader.is_encrypted and not reader.decrypt(""):
        raise UnreadableError(f"{file} is locked by a password: save a copy without one")
    if len(reader.pages) > MOST_PAGES:
        raise UnreadableError(
            f"{file} has {len(reader.pages):,} pages and the limit is {MOST_PAGES:,}: split it"
        )
    pages, size, bare = [], 0, 0
    for page in reader.pages:
        text = page.extract_text()
        size += len(text.encode("utf-8", "replace"))
        if size > options.max_document_bytes:
            raise too_large(file, None, size, options.max_document_bytes, "document")
        bare += not text.strip()
        pages.append(text)
    if bare == len(pages):
        raise UnreadableError(
            f"{file} has {count(len(pages), 'page')} and no text layer (a scan, or drawings "
            "alone): run it through text recognition (OCR) first, or give plain text"
        )
    return Extracted("\n\n".join(map(unwrapped, pages)), {"page without text": bare})


def unwrapped(page: str) -> str:
    r"""Lines joined into paragraphs: a short line that ends a sentence ends one.

    >>> unwrapped("It was a dark win-\nter evening when it\ncame.\nNext")
    'It was a dark winter evening when it came.\n\nNext'
    """
    lines = [line.rstrip() for line in page.splitlines()]
    width = max(map(len, lines), default=0)
    out: list[str] = []
    for line in lines:
        ends = len(line) < 0.8 * width and re.search(r"[.!?:][\"'”’)]*$", line)
        out.append(f"{line}\n\n" if ends or not line else f"{line}\n")
    joined = re.sub(r"([^\W\d_])-\n(?=[a-z])", r"\1", "".join(out))
    return re.sub(r"(?<!\n)\n(?!\n)", " ", joined).strip()


def _archive(data: bytes, file: str, options: Options) -> zipfile.ZipFile:
    """An archive that unfolds to no more than the limit: reading stops at the size it declares."""
    archive = zipfile.ZipFile(io.BytesIO(data))
    size, limit = (
        sum(one.file_size for one in archive.infolist()),
        UNFOLDED * options.max_document_bytes,
    )
    if size > limit or len(archive.infolist()) > MOST_ENTRIES:
        raise UnreadableError(
            f"{file} unfolds to {size / 1e6:,.1f} MB in {len(archive.infolist()):,} parts and the "
            f"limit is {limit / 1e6:,.1f} MB in {MOST_ENTRIES:,}: save it without pictures, or "
            "raise max_document_bytes"
        )
    return archive


def _entry(archive: zipfile.ZipFile, name: str, file: str) -> bytes:
    try:
        return archive.read(name)
    except KeyError:
        raise UnreadableError(
            f"{file} has no part {name!r}: save it again, or as plain text"
        ) from None


SUFFIXES: dict[str, Callable[[bytes, str, Options], Extracted]] = {
    ".docx": read_docx,
    ".odt": read_odt,
    ".epub": read_epub,
    ".pdf": read_pdf,
    **dict.fromkeys((".html", ".htm", ".xhtml"), read_html),
    **dict.fromkeys((".xml", ".tei"), read_tei),
}
"""The reader of each kind of file."""
