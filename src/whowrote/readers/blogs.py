"""The Blog Authorship Corpus as published (Schler, Koppel, Argamon and Pennebaker, 2006).

One file per blogger, ``NUMBER.gender.age.industry.sign.xml``, with ``<date>`` and ``<post>`` in
turn. The files are not well-formed XML and mix encodings from post to post, so the posts are cut
out of the bytes and decoded one by one.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from whowrote.decoding import to_text
from whowrote.errors import InputError
from whowrote.readers.files import format_suffix, open_bytes
from whowrote.readers.folders import files_below
from whowrote.readers.records import Note, Options, Raw

_NAME = re.compile(
    r"(?P<number>\d+)\.(?P<gender>[A-Za-z]+)\.(?P<age>\d+)\.(?P<industry>[^.]+)\.(?P<sign>[^.]+)\.xml",
    re.IGNORECASE,
)
# A post ends at its closing tag or, where that was forgotten, before the next date or the end.
_POST = re.compile(
    rb"(?:<date>(?P<date>[^<]*)</date>\s*)?"
    rb"<post>(?P<text>.*?)(?P<end></post>|(?=<date>|<post>)|</Blog>|\Z)",
    re.DOTALL,
)


def is_blog_name(name: str) -> bool:
    """Whether a file is named like the corpus names them.

    >>> is_blog_name("1000331.female.37.indUnk.Leo.xml"), is_blog_name("letters.xml")
    (True, False)
    """
    return _NAME.fullmatch(name) is not None


def read_blogs(path: Path, options: Options) -> Iterator[Raw | Note]:
    """A folder of bloggers' files, or one such file; author is the blogger's number."""
    files = [path] if path.is_file() else list(files_below(path))
    if not any(is_blog_name(file.name) for file in files):
        raise InputError(
            f"{path} has no file of the Blog Authorship Corpus; each must be named "
            "NUMBER.gender.age.industry.sign.xml: give the folder of the published files, or "
            "another format (--format)"
        )
    for file in files:
        if is_blog_name(file.name):
            yield from _read_blogger(file)
        else:
            message = f"a {format_suffix(file) or 'nameless'} file among the blogs: skipped"
            yield Note("not-text", message, str(file))


def _read_blogger(file: Path) -> Iterator[Raw | Note]:
    name = _NAME.fullmatch(file.name)
    about: dict[str, object] = name.groupdict() if name else {}
    number = str(about.pop("number"))
    count = 0
    for count, post in enumerate(_posts(file), start=1):
        identity = f"{number}/{count:04d}"
        text = to_text(post.text)
        for repair in text.repairs:
            yield Note(repair.kind, repair.message, str(file), post.line, identity)
        if not post.closed:
            message = "a post without </post>: it was ended at the next tag"
            yield Note("unclosed", message, str(file), post.line, identity)
        yield Raw(
            text=html.unescape(text.text),
            author=number,
            id=identity,
            file=str(file),
            line=post.line,
            metadata={**about, "date": post.date},
        )
    if not count:
        yield Note("empty", "a blogger's file without <post>: skipped", str(file))


@dataclass(frozen=True, slots=True)
class _Post:
    line: int
    date: str | None
    text: bytes
    closed: bool


def _posts(file: Path) -> Iterator[_Post]:
    with open_bytes(file) as stream:
        data = stream.read()
    line, counted = 1, 0
    for found in _POST.finditer(data):
        line += data.count(b"\n", counted, found.start("text"))
        counted = found.start("text")
        date = to_text(found["date"] or b"").text.strip() or None
        yield _Post(line, date, found["text"].strip(), found["end"] == b"</post>")
