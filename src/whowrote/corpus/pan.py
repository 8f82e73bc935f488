"""The PAN shared tasks: folders of attribution problems, and files of verification pairs.

An attribution problem holds ``candidateNNNNN/`` folders of known texts and an ``unknown/`` folder.
The unknown texts stay without author even where ``ground-truth.json`` is present: the answer goes
into the metadata, so that no training can see it by accident.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from whowrote.corpus.documents import Note, Options, Raw, place, to_text
from whowrote.corpus.folders import UNKNOWN, entries_below, inode, read_text_file, visible
from whowrote.corpus.sources import read_whole
from whowrote.corpus.tables import Row, json_rows
from whowrote.errors import InputError, first_line

COLLECTION_INFO = "collection-info.json"
PROBLEM_INFO = "problem-info.json"
GROUND_TRUTH = "ground-truth.json"
_DESCRIPTIONS = frozenset({COLLECTION_INFO, PROBLEM_INFO, GROUND_TRUTH})
_OPEN_SET = "<UNK>"
# What PAN says of each text of a pair, in lists of two, and the name for one of them.
_OF_EACH = {"fandoms": "fandom", "discourse_types": "discourse_type"}


def is_problem(folder: Path) -> bool:
    """Whether a folder is one PAN attribution problem."""
    return (folder / PROBLEM_INFO).is_file()


def is_collection(folder: Path) -> bool:
    """Whether a folder holds PAN attribution problems."""
    return (folder / COLLECTION_INFO).is_file() or any(
        is_problem(entry) for entry in visible(folder) if entry.is_dir()
    )


def read_attribution(path: Path, options: Options) -> Iterator[Raw | Note]:
    """One problem, or a collection of them; authors of a collection are ``problem/candidate``."""
    if is_problem(path):
        yield from _read_problem(path, path, {}, options)
        return
    languages = _languages(path / COLLECTION_INFO, options)
    problems = [entry for entry in visible(path) if entry.is_dir()]
    if not problems:
        raise InputError(
            f"{path} has no problem folder; a PAN collection holds one folder per problem, each "
            f"with {PROBLEM_INFO}: give the folder that holds them"
        )
    for entry in visible(path):
        yield from _other_file(entry)
    for problem in problems:
        about: dict[str, object] = {"problem": problem.name}
        if problem.name in languages:
            about["language"] = languages[problem.name]
        yield from _read_problem(problem, path, about, options)


def _other_file(file: Path) -> Iterator[Note]:
    """A note on a file that is neither a text in its folder nor one of PAN's descriptions."""
    if file.is_file() and file.name not in _DESCRIPTIONS:
        yield Note("not-text", "lies beside the authors' folders: skipped", str(file))


def _languages(info: Path, options: Options) -> dict[str, str]:
    if not info.is_file():
        return {}
    entries = _read_json(info, options)
    if not isinstance(entries, list):
        raise _malformed(info, "a list of problems")
    return {
        str(entry["problem-name"]): str(entry["language"])
        for entry in entries
        if isinstance(entry, dict) and {"problem-name", "language"} <= entry.keys()
    }


def _read_problem(
    problem: Path, root: Path, about: dict[str, object], options: Options
) -> Iterator[Raw | Note]:
    unknown = _unknown_folder(problem / PROBLEM_INFO, options)
    truth = _ground_truth(problem / GROUND_TRUTH, options)
    prefix = "" if problem == root else f"{problem.name}/"
    seen = {inode(root), inode(problem)}
    for folder in visible(problem):
        yield from _other_file(folder)
        for file in entries_below(folder, seen) if folder.is_dir() else ():
            if folder.name == unknown:
                metadata = {**about, "role": "unknown", **truth.get(file.name, {})}
                yield read_text_file(file, root, None, options, metadata)
            else:
                metadata = {**about, "role": "known"}
                yield read_text_file(file, root, prefix + folder.name, options, metadata)


def _unknown_folder(info: Path, options: Options) -> str:
    if not info.is_file():
        return UNKNOWN
    entry = _read_json(info, options)
    if not isinstance(entry, dict):
        raise _malformed(info, "an object with 'unknown-folder'")
    return str(entry.get("unknown-folder", UNKNOWN))


def _ground_truth(file: Path, options: Options) -> dict[str, dict[str, object]]:
    """For each unknown text ``{"true_author": name}``; None where no candidate wrote it."""
    if not file.is_file():
        return {}
    content = _read_json(file, options)
    entries = content.get("ground_truth") if isinstance(content, dict) else None
    try:
        pairs = {str(entry["unknown-text"]): str(entry["true-author"]) for entry in entries or ()}
    except (KeyError, TypeError):
        raise _malformed(file, "a list 'ground_truth' of unknown-text and true-author") from None
    return {
        text: {"true_author": None if author == _OPEN_SET else author}
        for text, author in pairs.items()
    }


def _read_json(file: Path, options: Options) -> object:
    try:
        value: object = json.loads(to_text(read_whole(file, options.max_document_bytes)).text)
    except (ValueError, RecursionError) as problem:
        line = problem.lineno if isinstance(problem, json.JSONDecodeError) else None
        raise InputError(
            f"{place(str(file), line)}: not valid JSON ({first_line(problem)}): correct the file, "
            "or fetch the PAN data again"
        ) from problem
    return value


def _malformed(file: Path, requirement: str) -> InputError:
    return InputError(f"{file} must hold {requirement}, as PAN publishes it: fetch the data again")


@dataclass(frozen=True, slots=True)
class _Truth:
    same: bool | None = None
    authors: tuple[str | None, str | None] = (None, None)


def truth_file(pairs: Path) -> Path | None:
    """The answers beside a file of pairs: ``truth.jsonl`` or the same name with ``-truth``."""
    stem, dot, suffixes = pairs.name.partition(".")
    names = (stem.replace("pairs", "truth"), f"{stem}-truth", f"{stem}_truth", "truth")
    beside = [pairs.with_name(name + dot + suffixes) for name in names]
    return next((file for file in beside if file != pairs and file.is_file()), None)


def pair_files(folder: Path) -> list[Path]:
    """The files of a folder that are PAN verification pairs, told by name and by their answers."""
    files = [file for file in visible(folder) if ".jsonl" in file.name and "truth" not in file.name]
    return [file for file in files if "pairs" in file.name or truth_file(file)]


def read_verification(path: Path, options: Options) -> Iterator[Raw | Note]:
    """Pairs of texts: each text a document, each pair a group."""
    files = [path] if path.is_file() else pair_files(path)
    if not files:
        raise InputError(
            f"{path} has no pairs.jsonl; PAN verification data are pairs.jsonl and truth.jsonl: "
            "give the folder or the file that holds the pairs"
        )
    for file in files:
        truths = _truths(truth_file(file), options)
        for row in json_rows(file, options):
            yield from row.notes
            yield from _read_pair(row, file, truths)


def _truths(file: Path | None, options: Options) -> dict[str, _Truth]:
    found: dict[str, _Truth] = {}
    for row in json_rows(file, options) if file else ():
        authors = row.values.get("authors")
        both = authors if isinstance(authors, list) and len(authors) == 2 else None
        same = row.values.get("same")
        found[str(row.values.get("id"))] = _Truth(
            same if isinstance(same, bool) else None,
            (str(both[0]), str(both[1])) if both else (None, None),
        )
    return found


def _read_pair(row: Row, file: Path, truths: dict[str, _Truth]) -> Iterator[Raw]:
    pair, identity = row.values.get("pair"), row.values.get("id")
    texts = pair if isinstance(pair, list) else []
    if identity is None or len(texts) != 2 or not all(isinstance(text, str) for text in texts):
        raise InputError(
            f"{place(str(file), row.line)}: found {', '.join(map(repr, row.values))}; each line "
            "must hold 'id' and 'pair', a list of two texts: correct the line, or name another "
            "format (--format jsonl)"
        )
    truth = truths.get(str(identity), _Truth())
    for position, text in enumerate(texts):
        metadata = {"pair": str(identity), **_of_each(row, position)}
        if truth.same is not None:
            metadata["same"] = truth.same
        yield Raw(
            text=text,
            author=truth.authors[position],
            id=f"{identity}/{position + 1}",
            file=str(file),
            line=row.line,
            group=str(identity),
            metadata=metadata,
        )


def _of_each(row: Row, position: int) -> dict[str, object]:
    lists = {name: row.values.get(many) for many, name in _OF_EACH.items()}
    return {
        name: values[position]
        for name, values in lists.items()
        if isinstance(values, list) and len(values) == 2
    }
