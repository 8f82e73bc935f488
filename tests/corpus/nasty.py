r"""Mutated inputs against everything that reads or shows what strangers wrote.

Seeded: the same seed makes the same inputs. An execution passes where the answer is sound (texts
that are clean UTF-8 in one form, pages with no tag of the input's) or the refusal is an
``InputError``; anything else, a warning included, and whatever takes over two seconds, is a failure
and is written out. From the folder of the repository, ten minutes of one core:

    PYTHONPATH=src:tests python tests/corpus/nasty.py --seconds 600 --seed 1
"""

import argparse
import codecs
import gzip
import io
import json
import random
import re
import signal
import sys
import tempfile
import time
import traceback
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from types import FrameType
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.parquet as pq

from whowrote.attribution.rows import cut_all
from whowrote.corpus.copies import near_copies
from whowrote.corpus.documents import Document, Note, Options, decode, name_of
from whowrote.corpus.formats import finish, reader
from whowrote.corpus.office import extract
from whowrote.corpus.texts import load, load_stream
from whowrote.errors import CorpusWarning, InputError
from whowrote.features.counting import character_grams, masked, plain, word_grams
from whowrote.features.vocabulary import spans, spelling
from whowrote.formatting import grid, one_line, paragraph, printable
from whowrote.report import Facts, Paragraph, Section, Table, page
from whowrote.stylometry.delta import Consensus, Edge, Group, graphml

SLOW = 2.0
LIMIT = 1_000_000
SMALL, LARGE = 400, 0.002
DEEP = b"[" * 3000

NASTY: tuple[bytes, ...] = (
    b"",
    b"\n" * 50,
    b"\r\r\r",
    b"text,author\ra,b\r",
    b"text,author\r\n\"It was, he said, late.\",Ann\r\n'',Bob\r\n",
    b'text;author\nGood day;Ann\n"open',
    b"text,text\na,b\n",
    b"," * 3000,
    b"text," + b",".join(b"c%d" % n for n in range(600)) + b"\n",
    b'"' + b"x" * 200_000 + b'",text\n1,2\n',
    b'{"text": "I am.", "author": "Ann"}\n{"text": "I was.", "author": 7}\n',
    b'{"text": "a", "author": NaN}\n{"text": "b", "author": Infinity}\n',
    b'{"text": ' + b"9" * 5000 + b"}",
    b'{"text": ' + DEEP + b"]" * 3000 + b"}",
    b"{'text': '" + b"(" * 300 + b"'}",
    b'{"text": "\\ud800", "author": "\\udc00\\u001b[2J"}\n',
    b'{"id": "p", "pair": ["one", "two"]}\n',
    b'{"pair": ["one"]}\n[]\n1\nnull\n',
    b"<html><body>" + b"<div>" * 400 + b"deep</body></html>",
    b"<TEI><text><body><p>Prose <del>gone</del>&unknown;</p></body></text></TEI>",
    b'<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><TEI>&b;</TEI>',
    b"<Blog><date>01,May,2004</date><post>One</post><post>Two<date>x</date><post>&lt;b&gt;</Blog>",
    "\ufeffGood day, said Zoë.".encode(),
    "Good day, said Zoë.".encode("latin-1"),
    codecs.BOM_UTF16_LE + "Good day.\r\n".encode("utf-16-le") + b"\x00",
    codecs.BOM_UTF16_BE + b"\xd8\x00\xd8\x00",
    b"\xf0\x9f\x98\x80\xf0\x9f\x98",
    b"\xed\xa0\x80\xed\xb0\x80",
    b"\xc0\x80\xfe\xff",
    ("e" + "\u0301\u0327" * 200).encode(),
    "\u202eevil\u2066\u2028\u0085\x9b31m".encode(),
    b"\x1b]0;title\x07\x1b[2J\x1b[31mred\x00\x7f",
    b"<script>alert(1)</script>\"'><img src=x onerror=y>&amp;]]>--><!--",
    "的一是不了人我在有他".encode() * 20,
    b"a",
    b"a " * 2000,
    b"x" * 20_000,
    b" " * 20_000 + b".",
    b"!?;:" * 1000,
    b"%PDF-1.4\n1 0 obj<</Length 10>>stream\nendstream",
    b"PK\x03\x04\x14\x00\x00\x00",
    gzip.compress(b'{"text": "packed", "author": "Ann"}\n' * 20, mtime=0),
    b"\x28\xb5\x2f\xfd\x04\x00",
)
"""Inputs that once broke a reader, or that break readers elsewhere: where mutation starts."""

PIECES = (
    *(b"\x00", b"\xff", b"\r", b"\n", b"\r\n", b'"', b",", b"\t", b"{", b"}", b"[", b"]", b"'"),
    *(b"\x1b[2J", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\xcc\x81", b"\xe2\x80\xae"),
    *(b"text", b"author", b"<", b">", b"</post>", b"<post>", b"&#0;", b"&lt;", b"\\u0000", b"NaN"),
    *(b"-1", b"1e999", b"9" * 5000, b"\\ud800", b"\xe2\x80\x8b", b"\xf0\x9f\x98\x80", b"null"),
)


def mutated(random_numbers: random.Random, seeds: tuple[bytes, ...] = NASTY) -> bytes:
    """An input after a few changes: bytes set, parts left out, doubled, exchanged, put in."""
    small = random_numbers.random() > LARGE
    data = bytearray(random_numbers.choice(seeds))
    if small and len(data) > SMALL:  # long ones are tried, but most time goes to many
        data = data[: random_numbers.randrange(SMALL)]
    for _ in range(random_numbers.randrange(6)):
        at = random_numbers.randrange(len(data) + 1)
        end = min(len(data), at + random_numbers.randrange(1, 40))
        match random_numbers.randrange(7):
            case 0:
                data[at:at] = random_numbers.choice(PIECES)
            case 1:
                del data[at:end]
            case 2:
                data[at:at] = data[at:end] * random_numbers.randrange(1, 9)
            case 3 if data:
                data[at % len(data)] = random_numbers.randrange(256)
            case 4:
                other = random_numbers.choice(seeds)
                start = random_numbers.randrange(len(other) + 1)
                data[at:end] = other[start : start + 60]
            case 5 if not small:
                data[at:at] = (bytes(data[at:end]) or b" ") * 2000
            case _:
                data[at:at] = random_numbers.randbytes(random_numbers.randrange(1, 9))
    return bytes(data[:100_000])


# -- what an answer must be ----------------------------------------------------------------------


CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def require(holds: bool, what: str) -> None:
    """An answer that is not sound is a failure."""
    if not holds:
        raise AssertionError(what)


def sound_text(text: str) -> None:
    """UTF-8, NFC, and no control character but line end and tab."""
    text.encode("utf-8")
    require(unicodedata.is_normalized("NFC", text), "not NFC")
    require(CONTROL.search(text) is None, "a control character")


def sound_name(name: str) -> None:
    """UTF-8 on one line, with nothing that steers a terminal."""
    name.encode("utf-8")
    require(one_line(name) == name, "a name that steers")


def sound(found: Iterator[Document | Note]) -> None:
    for item in found:
        if isinstance(item, Document):
            sound_text(item.text)
            for name in (item.id, item.group, *([item.author] if item.author else [])):
                sound_name(name)
        else:
            printable(str(item)).encode("utf-8")


class Tags(HTMLParser):
    """The tags of a page, in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag with the names of its attributes."""
        self.found.append(f"{tag} {sorted(name for name, _ in attrs)}")

    def handle_endtag(self, tag: str) -> None:
        """Note the end of one."""
        self.found.append(f"/{tag}")


def tags(markup: str) -> list[str]:
    """The tags of a page, in their order."""
    parser = Tags()
    parser.feed(markup)
    parser.close()
    return parser.found


# -- what is tried -------------------------------------------------------------------------------


class Tries:
    """Everything that is fed, by name, with how often of a thousand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plain_page = tags(self._page("word"))
        self.shares: dict[Callable[[bytes], None], int] = {
            self.decoding: 400,
            self.tokens: 110,
            self.names: 220,
            self.jsonl: 90,
            self.csv: 90,
            self.shown: 30,
            self.one_text: 40,
            self.markup: 25,
            self.blogs: 10,
            self.pairs: 6,
            self.packed: 5,
            self.parquet: 4,
        }

    def decoding(self, data: bytes) -> None:
        """Bytes to one clean text; a clean text stays as it is."""
        text = decode(data).text
        sound_text(text)
        require(decode(text.encode()).text == text.removeprefix("\ufeff"), "decoded twice")

    def tokens(self, data: bytes) -> None:
        """Tokens lie in the text in their order; n-grams and passages lose nothing."""
        text = decode(data[:1500]).text
        end = 0
        for span in spans(text):
            require(end <= span.start <= span.end <= len(text), "tokens out of order")
            spelling(text[span.start : span.end])
            end = span.end
        for reading in (text, masked(text), plain(text)):
            require(len(character_grams(reading)) + len(word_grams(reading)) >= 0, "n-grams")
        pieces = cut_all([text, "a b"], 20, 10**6)
        joined = "".join(
            one for one, row in zip(pieces.texts, pieces.document, strict=True) if not row
        )
        require(joined == text, "passages lose text")
        if len(text) % 50 == 0:
            near_copies([text, text + " end", "other"])

    def names(self, data: bytes) -> None:
        """Names are printable, whatever they were, and stay so."""
        for name in (data.decode("utf-8", "surrogateescape")[:300], data.decode("latin-1")[:300]):
            made = name_of(name)
            sound_name(made)
            require(name_of(made) == made, "named twice")
            quoted = json.dumps(name, ensure_ascii=False)
            require(json.loads(printable(quoted)) == name, "JSON of another value")

    def _file(self, name: str, data: bytes) -> Path:
        path = self.folder / name
        path.write_bytes(data)
        return path

    def _read(self, format: str, name: str, data: bytes, options: Options | None = None) -> None:
        options = options or Options(max_document_bytes=LIMIT)
        path = self._file(name, data)
        sound(finish(reader(format)(path, options), options, unique=True))

    def jsonl(self, data: bytes) -> None:
        """One object a line."""
        self._read("jsonl", "a.jsonl", data)

    def csv(self, data: bytes) -> None:
        """Rows of fields, with commas and with tabs."""
        self._read("tsv" if data[:1] == b"\t" else "csv", "a.csv", data)

    def one_text(self, data: bytes) -> None:
        """A file and standard input: the same text, or the same refusal."""
        path = self._file("a.txt", data)
        answers = []
        for read in (lambda: load(path), lambda: load_stream(io.BytesIO(data))):
            try:
                answers.append(read().texts)
            except InputError:
                answers.append(None)
        require(answers[0] == answers[1], "a file and standard input differ")

    def markup(self, data: bytes) -> None:
        """Pages and TEI."""
        options = Options(max_document_bytes=LIMIT)
        for suffix in (".html", ".xml"):
            try:
                text = extract(data, suffix, "a", options).text
            except InputError:
                continue
            sound_text(decode(text.encode("utf-8", "surrogatepass")).text)

    def blogs(self, data: bytes) -> None:
        """Files of the Blog Authorship Corpus."""
        self._read("blogs", "7.female.37.indUnk.Leo.xml", data)

    def pairs(self, data: bytes) -> None:
        """Pairs of PAN."""
        self._read("pan-verification", "pairs.jsonl", data)

    def packed(self, data: bytes) -> None:
        """Damaged archives, and sound ones of damaged tables."""
        self._read("jsonl", "a.jsonl.gz", data)
        self._read("csv", "a.csv.gz", gzip.compress(data, 1))

    def parquet(self, data: bytes) -> None:
        """A table whose bytes were changed, and one with the input in its cells."""
        cells = [data.decode("utf-8", "replace"), None]
        whole = io.BytesIO()
        pq.write_table(pa.table({"text": cells, "author": cells}), whole)
        self._read("parquet", "whole.parquet", whole.getvalue())
        broken, at = bytearray(whole.getvalue()), sum(data) % len(whole.getvalue())
        broken[at : at + 3] = data[:3]
        self._read("parquet", "broken.parquet", bytes(broken))

    def shown(self, data: bytes) -> None:
        """Pages have our tags alone, and networks are well-formed XML."""
        text = "w" + data[:600].decode("utf-8", "surrogateescape")
        made = self._page(text)
        made.encode("utf-8")
        require(tags(made) == self.plain_page, "a tag of the input's")
        require(CONTROL.search(made) is None, "a control sign")
        groups = (Group((0, 1), 1.0),)
        edges = (Edge(0, 1, 1.0),)
        ElementTree.fromstring(
            graphml(Consensus((text, "b"), (text, None), (100,), 0.5, groups, edges))
        )

    def _page(self, text: str) -> str:
        table = Table(["name", "value"], [[text, 1]], caption=text)
        blocks = (Paragraph(text), Facts([(text, text)]), table)
        return (
            page(text, [Section(text, blocks)], lead=text + "x", footer=text + "x")
            + paragraph(text)
            + grid([f"a{text}"], [[text]], f"x{text}")
        )


# -- the run -------------------------------------------------------------------------------------


class HangError(Exception):
    """An execution took far too long."""


@contextmanager
def alarmed() -> Iterator[None]:
    """An alarm that ends an execution that hangs."""

    def rise(_: int, __: FrameType | None) -> None:
        raise HangError("over a minute")

    before = signal.signal(signal.SIGALRM, rise)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def run(
    seconds: float, seed: int, most: int | None = None
) -> tuple[Counter[str], Counter[str], list[str]]:
    """Feed until the time or the number is over: counts, refusals, and failures with inputs."""
    numbers, failures = random.Random(seed), list[str]()
    counts, refused = Counter[str](), Counter[str]()
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(dir=_memory()) as folder, alarmed(), warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", CorpusWarning)
        tries = Tries(Path(folder))
        kinds, shares = list(tries.shares), list(tries.shares.values())
        while time.monotonic() < end and (most is None or counts.total() < most):
            (kind,) = numbers.choices(kinds, shares)
            data = mutated(numbers)
            before = time.thread_time()
            signal.alarm(60)
            try:
                kind(data)
            except InputError as problem:
                refused[kind.__name__] += 1
                str(problem).encode("utf-8", "backslashreplace")
            except Exception:
                where = traceback.format_exc(limit=-4)
                failures.append(f"{kind.__name__} {data[:2000]!r} ({len(data)} bytes)\n{where}")
            counts[kind.__name__] += 1
            if time.thread_time() - before > SLOW:
                failures.append(f"{kind.__name__} {data[:2000]!r} ({len(data)} bytes)\nslow")
    return counts, refused, failures


def _memory() -> str | None:
    """A folder in memory, where there is one."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def main() -> None:
    """Run for a while; the counts on standard output, failures on standard error."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=int)
    asked = parser.parse_args()
    counts, refused, failures = run(asked.seconds, asked.seed, asked.most)
    for name, times in counts.most_common():
        print(f"{name:10} {times:9,} executions, {refused[name]:9,} refused in a sentence")
    print(f"{'all':10} {counts.total():9,} executions, {len(failures)} failures, seed {asked.seed}")
    for failure in failures[:20]:
        print(failure, file=sys.stderr)
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
