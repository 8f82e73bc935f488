r"""The folder of a case: a question, texts registered with hash and source, and a chained log.

.. math:: h_i = \mathrm{SHA256}(\text{number}_i, \text{time}_i, \text{action}_i,
    \text{details}_i, h_{i-1})

``log.jsonl`` says everything that was done and holds the register: one canonical JSON object a
line, each with the hash of the one before it. An entry is never changed or removed: whoever changes
a byte of the log changes a hash, and :func:`read_log` says in which line. ``texts/`` has the texts,
each named by its SHA-256; ``findings.json``, ``report.html`` and ``report.json`` are what came of
it. A text is questioned, known to be by a candidate, or reference: by another person of the
population.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, asdict, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_type_hints

from whowrote import __version__
from whowrote.corpus.documents import FILE_HASH, Document
from whowrote.corpus.folders import files_below, identity
from whowrote.corpus.texts import Corpus
from whowrote.drafts import clear_drafts, held
from whowrote.errors import InputError
from whowrote.files import bytes_of, canonical_hash, canonical_json, sha256_of, write_text

LOG, TEXTS, FINDINGS = "log.jsonl", "texts", "findings.json"
ROLES = ("questioned", "known", "reference")
WRITTEN = {"findings": ("findings.json",), "report": ("report.html", "report.json")}
"""The files whose hashes the entries of an action hold."""
_HASH = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class Exhibit:
    """One registered text."""

    id: str
    role: str
    author: str | None
    sha256: str
    words: int
    group: str
    source: str
    source_sha256: str | None
    """Of the file that it was read from, where that was one file."""

    @property
    def file(self) -> str:
        """Where it lies in the folder."""
        return f"{TEXTS}/{self.sha256}.txt"


@dataclass(frozen=True)
class Question:
    """What is asked, of whom, and by which means."""

    question: str
    population: str
    features: str
    seed: int
    version: str
    closed: bool = False
    """Whether one of the candidates must have written each questioned text."""


@dataclass(frozen=True)
class Case:
    """A case folder as its log tells of it."""

    folder: Path
    question: Question
    exhibits: tuple[Exhibit, ...]
    log: Log

    @classmethod
    def new(
        cls,
        folder: str | os.PathLike[str],
        question: str,
        *,
        population: str,
        features: str = "hybrid",
        seed: int = 0,
        closed: bool = False,
    ) -> Case:
        """Begin a case in a folder that is not there yet, or is empty.

        ``closed``: one of the candidates wrote each questioned text, and ``population`` says why
        nobody else can have.
        """
        from whowrote.features.kinds import BY_NAME  # late: what learns is slow to load

        place = Path(folder)
        clear_drafts(place)  # of a process that died before the first entry
        if place.exists() and (not place.is_dir() or any(place.iterdir())):
            raise InputError(f"'{place}' is there already; a case begins in a folder of its own")
        for name, value in (("question", question), ("population", population)):
            if not value.strip():
                raise InputError(f"{name} is empty; a case needs one: say it in a sentence")
        if features not in BY_NAME:
            raise InputError(f"features is {features!r}; it must be one of {', '.join(BY_NAME)}")
        asked = Question(question.strip(), population.strip(), features, seed, __version__, closed)
        append(place / LOG, "new", asdict(asked))
        return cls.open(place)

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Case:
        """Read the log of a case; one that is broken is a sentence."""
        place = Path(folder)
        log = settled_log(place)
        if log.broken:
            raise InputError(
                f"'{place}' is no sound case: {log.broken}; begin one with `whowrote case new`, or "
                "restore it from a copy"
            )
        exhibits = tuple(
            Exhibit(**one)
            for entry in log.entries
            if entry.action == "add"
            for one in entry.details["texts"]
        )
        return cls(place, Question(**log.entries[0].details), exhibits, log)

    # -- texts -----------------------------------------------------------------------------------

    def add(
        self,
        corpus: Corpus,
        role: str,
        *,
        path: Path | None,
        author: str | None = None,
        source: str | None = None,
    ) -> Case:
        """Register texts: copies are kept under their hashes, then the log names them.

        ``path`` is where they were read from; without one a text's own metadata may tell the hash
        of its file.
        """
        if role not in ROLES:
            raise InputError(f"role is {role!r}; it must be one of {', '.join(ROLES)}")
        if role == "reference" and self.question.closed:
            raise InputError(
                "the case is closed, so nobody but the candidates can have written a text; it "
                "takes no reference texts: add them as known, or begin a case that is not closed"
            )
        found: list[Exhibit] = []
        for document in corpus:
            writer = None if role == "questioned" else author or document.author
            if role != "questioned" and writer is None:
                raise InputError(
                    f"text {document.id!r} has no author; a {role} text must have one: give "
                    "--author, or a folder for each author"
                )
            found.append(
                Exhibit(
                    id=f"{role[0].upper()}{_number(self.exhibits, found, role)}",
                    role=role,
                    author=writer,
                    sha256=document.sha256,
                    words=len(document.text.split()),
                    group=document.group,
                    source=source or (f"{path.name}: {document.id}" if path else document.id),
                    source_sha256=_file_hash(path, document),
                )
            )
        self._refuse_doubles(found)
        for exhibit, text in zip(found, corpus.texts, strict=True):
            write_text(self.folder / exhibit.file, text)
        added = {"texts": [asdict(one) for one in found]}
        append(self.folder / LOG, "add", added, after=self.log.head)
        return Case.open(self.folder)

    def _refuse_doubles(self, found: Iterable[Exhibit]) -> None:
        known = {one.sha256: one for one in self.exhibits}
        for one in found:
            if one.sha256 in known:
                there = known[one.sha256]
                raise InputError(
                    f"text {one.source!r} is in the case already, as {there.id} ({there.role}); "
                    "the same text cannot be evidence twice: leave it out"
                )
            known[one.sha256] = one

    def of_role(self, *roles: str) -> tuple[Exhibit, ...]:
        """Texts of these roles."""
        return tuple(one for one in self.exhibits if one.role in roles)

    @property
    def candidates(self) -> tuple[str, ...]:
        """Whose known texts there are, sorted."""
        return tuple(sorted({str(one.author) for one in self.of_role("known")}))

    def corpus(self, *roles: str) -> Corpus:
        """The texts of these roles, read from the folder; what is not as registered is an error."""
        own = self.of_role(*roles)
        return Corpus.from_texts(
            [self._text(one) for one in own],
            [one.author for one in own],
            ids=[one.id for one in own],
            groups=[f"{one.author}: {one.group}" for one in own],
        )

    def _text(self, exhibit: Exhibit) -> str:
        path = self.folder / exhibit.file
        data = bytes_of(path) if path.is_file() else b""
        if hashlib.sha256(data).hexdigest() != exhibit.sha256:
            raise InputError(
                f"{exhibit.file} ({exhibit.id}) is missing or not as it was registered; put the "
                "text back as it was, or begin a new case"
            )
        return data.decode("utf-8")

    # -- what was done ---------------------------------------------------------------------------

    def written(self, action: str, name: str) -> bytes:
        """The bytes of a written file, which are those that the log tells of; read once."""
        entry, path = self.log.last(action), self.folder / name
        if entry is None or not path.is_file():
            raise InputError(f"'{self.folder}' has no {action} yet: `whowrote case run` makes it")
        data = bytes_of(path)
        if hashlib.sha256(data).hexdigest() != entry.details["sha256"][name]:
            raise InputError(
                f"{name} is not as the log says: its bytes have changed; `whowrote case run` "
                "makes it anew"
            )
        return data

    def record(self, action: str, details: dict[str, Any]) -> Entry:
        """A further entry of the log."""
        return append(self.folder / LOG, action, details)

    def write(self, action: str, texts: Mapping[str, str]) -> Entry:
        """Write files with a further entry that holds their hashes.

        They lie beside their places until the entry tells of them: wherever a process dies, the
        files in their places are those of the log, or whoever looks next puts them there.
        """
        with held(self.folder, self.folder / LOG):
            if Case.open(self.folder).exhibits != self.exhibits:
                raise InputError(
                    f"texts were added to '{self.folder}' meanwhile; run the command again"
                )
            for name, text in texts.items():
                write_text(_beside(self.folder, name), text)
            hashes = {name: sha256_of(_beside(self.folder, name)) for name in texts}
            entry = append_held(self.folder / LOG, action, {"sha256": hashes})
            settled_log(self.folder)
        return entry


def _beside(folder: Path, name: str) -> Path:
    """Where a file lies until the log tells of it."""
    return folder / f".{name}.next"


def settled_log(folder: Path) -> Log:
    """The log, after the files that it tells of last have taken their places."""
    log = _of_a_case(read_log(folder / LOG))
    for action, names in WRITTEN.items():
        last = log.last(action)
        told = {} if last is None else last.details["sha256"]
        for name in names:
            new = _beside(folder, name)
            if name in told and new.is_file() and sha256_of(new) == told[name]:
                with suppress(OSError):  # another process was faster, or may not be written here
                    os.replace(new, folder / name)
    return log


def _of_a_case(log: Log) -> Log:
    """The log up to the first entry that no case of ours has, whatever its hash."""
    for number, entry in enumerate(log.entries):
        if not _is_ours(entry):
            broken = f"{LOG}, line {number + 1}: the entry is not one that whowrote writes"
            return Log(log.entries[:number], broken)
    return log


def _is_ours(entry: Entry) -> bool:
    told: Any = entry.details
    if not isinstance(told, dict) or (entry.number == 1) != (entry.action == "new"):
        return False
    if entry.action == "new":
        return _fits(Question, told)
    if entry.action == "add":
        texts = told.get("texts")
        return isinstance(texts, list) and all(
            _fits(Exhibit, one) and _HASH.fullmatch(one["sha256"]) and one["role"] in ROLES
            for one in texts
        )
    hashes = told.get("sha256", {})
    names = WRITTEN.get(entry.action, ())
    return not names or (
        isinstance(hashes, dict) and all(isinstance(hashes.get(name), str) for name in names)
    )


def _fits(kind: type[Exhibit] | type[Question], plain: object) -> bool:
    """Whether a table has the fields of a record, each of its type."""
    if not isinstance(plain, dict):
        return False
    types = get_type_hints(kind)
    needed = {one.name for one in fields(kind) if one.default is MISSING}
    return needed <= plain.keys() <= types.keys() and all(
        isinstance(value, types[name]) for name, value in plain.items()
    )


def problems(folder: str | os.PathLike[str]) -> list[str]:
    """Everything in a case folder that is not as its log says, each with the name of the file."""
    place = Path(folder)
    log = settled_log(place)
    found = [log.broken] if log.broken else []
    for entry in log.entries:
        for one in entry.details["texts"] if entry.action == "add" else ():
            exhibit = Exhibit(**one)
            found += _changed(place, exhibit.file, exhibit.sha256, f" ({exhibit.id})")
    for action, names in WRITTEN.items():
        last = log.last(action)
        for name in names:
            if last is not None:
                found += _changed(place, name, str(last.details["sha256"][name]))
            elif (place / name).exists() and not log.broken:
                found.append(f"{name} is there, but the log does not tell of it")
    return found


def _changed(place: Path, name: str, sha256: str, who: str = "") -> Iterator[str]:
    path = place / name
    if not path.is_file():
        yield f"{name}{who} is missing"
    elif sha256_of(path) != sha256:
        yield f"{name}{who} is not as the log says: its bytes have changed"


def _number(known: Iterable[Exhibit], more: Iterable[Exhibit], role: str) -> int:
    return 1 + sum(one.role == role for one in (*known, *more))


def read_unchanged(path: Path, load: Callable[[Path], Corpus]) -> Corpus:
    """Texts whose files are the same before and after they were read, with the hash of each."""
    before = _hashes(path)
    corpus = load(path)
    if _hashes(path) != before:
        raise InputError(f"'{path}' was changed while it was read; run the command again")
    hashes = [before.get("" if path.is_file() else one) for one in corpus.ids]
    own = [{FILE_HASH: one} if one else {} for one in hashes]
    metadata = tuple({**m, **one} for m, one in zip(corpus.metadata, own, strict=True))
    return replace(corpus, metadata=metadata)


def _hashes(path: Path) -> dict[str, str]:
    """Of a file, or of every file of a folder by the name of its text."""
    if not path.is_dir():
        return {"": sha256_of(path)} if path.exists() else {}
    return {identity(one, path): sha256_of(one) for one in files_below(path) if one.is_file()}


def _file_hash(path: Path | None, document: Document) -> str | None:
    """Of the file itself, or of the document's own file in a folder."""
    told = document.metadata.get(FILE_HASH)
    if path is None or told is not None:  # the name of a text that was sent is not a path here
        return None if told is None else str(told)
    file = path if path.is_file() else path / document.id
    return sha256_of(file) if file.is_file() else None


START = "0" * 64
"""What the first entry follows."""


@dataclass(frozen=True)
class Entry:
    """What was done, when, and the hash of all that was done before."""

    number: int
    time: str
    action: str
    details: Mapping[str, Any]
    previous: str
    hash: str

    def line(self) -> str:
        """One line of the log."""
        return canonical_json(asdict(self))


@dataclass(frozen=True)
class Log:
    """The entries up to the first that is broken, and what is wrong there."""

    entries: tuple[Entry, ...]
    broken: str = ""

    @property
    def head(self) -> str:
        """The hash of the last entry: it stands for the whole log."""
        return self.entries[-1].hash if self.entries else START

    def last(self, action: str) -> Entry | None:
        """The latest entry of an action."""
        return next((one for one in reversed(self.entries) if one.action == action), None)


def read_log(path: Path) -> Log:
    """Read and check a log; what is broken is said, not raised."""
    if not path.is_file():
        return Log((), f"{path.name} is missing")
    entries: list[Entry] = []
    head = START
    *lines, rest = bytes_of(path).split(b"\n")
    for number, line in enumerate(lines, 1):
        entry = _entry(line)
        if entry is None or entry.number != number or entry.previous != head:
            return Log(tuple(entries), f"{path.name}, line {number}: the chain of hashes breaks")
        entries.append(entry)
        head = entry.hash
    if rest:
        return Log(tuple(entries), f"{path.name}, line {len(lines) + 1}: the line is not whole")
    return Log(tuple(entries))


def _entry(line: bytes) -> Entry | None:
    """The entry of a line; None where any byte of it is not as it was written."""
    try:
        plain = json.loads(line)
        entry = Entry(**plain)
        unsigned = {name: value for name, value in plain.items() if name != "hash"}
        sound = canonical_hash(unsigned) == entry.hash and entry.line().encode() == line
    except (ValueError, TypeError, RecursionError):
        return None
    return entry if sound else None


def append(path: Path, action: str, details: Mapping[str, Any], after: str | None = None) -> Entry:
    """Write a further entry; the file is the old one or the new one, never a part.

    One process at a time. ``after``: the head that the details were made for; another one says that
    somebody else has written meanwhile.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with held(path.parent, path):
        return append_held(path, action, details, after)


def append_held(
    path: Path, action: str, details: Mapping[str, Any], after: str | None = None
) -> Entry:
    """The same, by whoever holds the folder."""
    log = read_log(path) if path.exists() else Log(())
    if after is not None and log.head != after:
        raise InputError(
            f"another process has written into '{path}' meanwhile; run the command again"
        )
    if log.broken:
        raise InputError(
            f"{log.broken}; nothing can follow it: restore the log from a copy, or begin a new case"
        )
    unsigned = {
        "number": len(log.entries) + 1,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "action": action,
        "details": json.loads(canonical_json(details)),
        "previous": log.head,
    }
    entry = Entry(**unsigned, hash=canonical_hash(unsigned))
    write_text(path, "".join(f"{one.line()}\n" for one in (*log.entries, entry)))
    return entry
