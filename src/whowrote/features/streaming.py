"""A corpus of any size into one table of vectors: ``stream -> parts -> Parquet``.

Documents are read one by one and embedded in parts of some thousand texts, each a small file in a
folder beside the target that is either whole or absent. A run that was killed finds its parts again
by what they hold (ids, hashes of the texts, the settings), makes the missing ones and joins all of
them into the target in one step; a finished run leaves nothing else behind. In memory there are
never more than a few parts. A table of vectors becomes one of answers in the same way.
"""

from __future__ import annotations

import json
import os
import re
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from pathlib import Path
from threading import Thread
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from whowrote import __version__
from whowrote.arrays import (
    FloatArray,
    matrix,
    table_batches,
    table_files,
    table_length,
    table_schema,
    vector_columns,
)
from whowrote.corpus.texts import Document, Note, stream
from whowrote.distributed import HERE, Here, Machines
from whowrote.drafts import (
    held,
    probe,
    regular,
    remove,
    require_regular,
    require_unwritten,
    resolved,
    strangers,
    sync,
)
from whowrote.errors import InputError
from whowrote.features.interface import ReliabilityWarning, TextFeatures
from whowrote.files import atomic_path
from whowrote.progress import tell
from whowrote.runtime import usable_cores

FEATURES = ("adhominem", "style", "sentences")
TEXTS_PER_PART = 4096
CHARACTERS_PER_PART = 16_000_000
HEADER = b"whowrote"
WHOLE = "whole.parquet"
_PART = re.compile(r"part-\d{6,}\.parquet|whole\.parquet")


@dataclass(frozen=True)
class Choice:
    """Which vectors: an extractor (``model``: a file of weights), or a sentence encoder.

    ``size`` is that of ``style``.
    """

    features: str = "adhominem"
    model: str | None = None
    device: str | None = None
    size: str = "large"

    def make(self) -> TextFeatures:
        """The feature set."""
        from whowrote.features.adhominem import AdHominem, SentenceEncoder, StyleExtractor

        if self.features == "adhominem":
            return AdHominem(self.model, device=self.device)
        if self.features == "style":
            return StyleExtractor(self.model, size=self.size, device=self.device)
        if self.features != "sentences":
            raise InputError(
                f"features is '{self.features}'; a table of vectors can be made with one of "
                f"{list(FEATURES)}: choose one (n-grams are sparse and learnt from the training "
                "texts: use NGrams in Python)"
            )
        if self.model is None:
            raise InputError(
                "features is 'sentences' and no model is named; a sentence-transformers model is "
                "needed: give its name or folder as model (--model)"
            )
        return SentenceEncoder(self.model, device=self.device)

    def identity(self) -> dict[str, str]:
        """What decides the vectors, for the header of the table."""
        from whowrote.features.adhominem import AdHominem, StyleExtractor

        if self.features == "style":
            chosen = StyleExtractor(self.model, size=self.size).fitted()
            digest = chosen.weights_sha256()
            return {"features": self.features, "size": chosen.size, "weights_sha256": digest}
        if self.features != "adhominem":
            return {"features": self.features, "model": str(self.model)}
        digest = AdHominem(self.model).fitted().weights_sha256()
        return {"features": self.features, "weights_sha256": digest}


@dataclass(frozen=True)
class Part:
    """A finished part: its texts, those too short to tell, whether it was there already."""

    texts: int
    short: int = 0
    found: bool = False


@dataclass(frozen=True)
class Embedded:
    """A finished table; ``found`` texts were embedded by an earlier run."""

    out: str
    texts: int
    dimensions: int
    found: int
    short: int
    seconds: float
    notes: dict[str, int]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def embed_corpus(
    corpus: str | os.PathLike[str],
    out: str | os.PathLike[str],
    choice: Choice = Choice(),  # noqa: B008  (frozen)
    *,
    workers: int = 1,
    machines: Machines = HERE,
    texts_per_part: int = TEXTS_PER_PART,
    overwrite: bool = False,
    on_part: Callable[[Part], None] = lambda part: None,
    **reading: Any,
) -> Embedded:
    """Embed a corpus on disk into a Parquet table with id, author, sha256 and vector.

    ``workers`` are processes here; other ``machines`` make vectors alone, and the parts are filed
    here. ``reading`` holds options of :func:`whowrote.corpus.stream`; a run that was killed resumes
    when called again with the same arguments.
    """
    began, target = perf_counter(), Path(out)
    _check(target, workers, texts_per_part, overwrite)
    choice.make().get_feature_names_out()  # what is wrong with it is said before all else
    header = json.dumps({"version": __version__, **choice.identity()}, sort_keys=True)
    notes: Counter[str] = Counter()
    documents = stream(corpus, on_note=partial(_count, notes), **reading)
    with _parts_of(target) as folder:
        runs, parts = _runs(documents, texts_per_part), []
        if isinstance(machines, Here):
            made = _in_order(partial(make_part, choice, header, folder), runs, workers)
        else:
            made = _by_machines(choice, header, folder, runs, machines)
        for part in made:
            parts.append(part)
            on_part(part)
        if not parts:
            remove(folder, is_part)
            raise InputError(f"{corpus} holds no text; a corpus needs at least one: check the path")
        dimensions = join_parts(folder, len(parts), resolved(target)).field("vector")
    return Embedded(
        out=str(target),
        texts=sum(part.texts for part in parts),
        dimensions=int(dimensions.type.list_size),
        found=sum(part.texts for part in parts if part.found),
        short=sum(part.short for part in parts),
        seconds=perf_counter() - began,
        notes=dict(notes),
    )


def _check(target: Path, workers: int, texts_per_part: int, overwrite: bool) -> None:
    if target.suffix != ".parquet":
        raise InputError(f"out is '{target}'; a table of vectors must end in .parquet: rename it")
    if target.is_dir():
        raise InputError(f"out is the folder '{target}'; it must be a file: give another name")
    require_unwritten(target, overwrite)
    for name, value in (("workers", workers), ("texts_per_part", texts_per_part)):
        if value < 1:
            raise InputError(f"{name} is {value}; it must be at least 1: give a larger one")


@contextmanager
def _parts_of(target: Path) -> Iterator[Path]:
    """The folder of the parts, for this process alone; nothing else may lie in it."""
    place = resolved(target)
    folder = place.with_name(f"{place.name}.parts")
    require_regular(place)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with held(folder, target):
        others = strangers(folder, is_part)
        if others:
            raise InputError(
                f"'{folder}' holds '{others[0]}', which is no part of a table; it is removed when "
                "the table is whole: take that away, or give another name"
            )
        probe(part_path(folder, 0))
        yield folder


def is_part(name: str) -> bool:
    """Whether a file of that name belongs into the folder of parts."""
    return _PART.fullmatch(name) is not None


def _count(notes: Counter[str], note: Note) -> None:
    if not note.lossless:
        notes[note.kind] += 1


Run = tuple[int, list[Document]]


def _runs(documents: Iterable[Document], texts_per_part: int) -> Iterator[Run]:
    """Numbered runs of documents, cut at a number of texts or of characters."""
    run: list[Document] = []
    number = size = 0
    for document in documents:
        run.append(replace(document, metadata={}))
        size += len(document.text)
        if len(run) == texts_per_part or size >= CHARACTERS_PER_PART:
            yield number, run
            number, run, size = number + 1, [], 0
    if run:
        yield number, run


def _in_order(make: Callable[[Run], Part], runs: Iterable[Run], workers: int) -> Iterator[Part]:
    """The parts one after the other, made by several processes if asked."""
    if workers == 1:
        yield from map(make, runs)
        return
    waiting: deque[Future[Part]] = deque()
    with _pool(workers) as pool:
        for run in runs:
            waiting.append(pool.submit(make, run))
            if len(waiting) > workers:  # no more runs in memory than can be worked on soon
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    threads = max(1, usable_cores() // workers)
    try:
        with ProcessPoolExecutor(
            workers, get_context("spawn"), initializer=_begin_worker, initargs=(threads,)
        ) as pool:
            yield pool
    except BrokenProcessPool:
        raise InputError(
            f"one of {workers} processes was ended from outside, perhaps for want of memory; give "
            "fewer workers: the same command goes on from the finished parts"
        ) from None


def _begin_worker(threads: int) -> None:
    """Take a share of the cores, and leave when the first process is gone, however it went."""
    import torch

    torch.set_num_threads(threads)
    Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def make_part(choice: Choice, header: str, folder: Path, run: Run) -> Part:
    """Embed one run into its file, unless the file is there and holds just that."""
    number, documents = run
    path = part_path(folder, number)
    if _holds(path, header, documents):
        return Part(len(documents), found=True)
    vectors, short = _embed(choice.make(), [document.text for document in documents])
    _write_part(path, header, documents, vectors)
    return Part(len(documents), short)


def _by_machines(
    choice: Choice, header: str, folder: Path, runs: Iterable[Run], machines: Machines
) -> Iterator[Part]:
    """The parts as their vectors come; files are read and written here alone."""
    waiting: dict[int, list[Document]] = {}
    found: deque[Part] = deque()

    def missing() -> Iterator[tuple[int, list[str]]]:
        for number, documents in runs:
            if _holds(part_path(folder, number), header, documents):
                found.append(Part(len(documents), found=True))
            else:
                waiting[number] = documents
                yield number, [document.text for document in documents]

    for _, (number, vectors, short) in machines.map(_vectors_of_run, choice, missing()):
        documents = waiting.pop(number)
        _write_part(part_path(folder, number), header, documents, vectors)
        yield Part(len(documents), short)
        while found:
            yield found.popleft()
    yield from found


def _vectors_of_run(
    choice: Choice, run: tuple[int, list[str]]
) -> tuple[int, np.ndarray[Any, Any], int]:
    number, texts = run
    return number, *_embed(choice.make(), texts)


def _write_part(
    path: Path, header: str, documents: Sequence[Document], vectors: np.ndarray[Any, Any]
) -> None:
    table = pa.table(
        {
            "id": pa.array([document.id for document in documents], pa.string()),
            "author": pa.array([document.author for document in documents], pa.string()),
            "sha256": pa.array([document.sha256 for document in documents], pa.string()),
            "vector": pa.FixedSizeListArray.from_arrays(
                pa.array(vectors.ravel(), pa.float32()), vectors.shape[1]
            ),
        }
    ).replace_schema_metadata({HEADER: header})
    with atomic_path(path) as draft:
        pq.write_table(table, draft, compression="zstd")


def part_path(folder: Path, number: int) -> Path:
    """The file of a part."""
    return folder / f"part-{number:06d}.parquet"


def _embed(features: TextFeatures, texts: Sequence[str]) -> tuple[np.ndarray[Any, Any], int]:
    """Vectors, and how many texts are too short; that is said once for the whole corpus."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        vectors = np.ascontiguousarray(features.transform(texts), dtype=np.float32)
    messages = [warning.message for warning in caught]
    short = sum(m.count for m in messages if isinstance(m, ReliabilityWarning))
    for message in messages:
        if not isinstance(message, ReliabilityWarning):
            warnings.warn(message, stacklevel=2)
    return vectors, short


def _holds(path: Path, header: str, documents: Sequence[Document]) -> bool:
    if not path.is_file():
        return False
    try:
        with open(path, "rb", opener=regular) as raw:
            table = pq.read_table(raw, columns=["id", "author", "sha256"])
    except (pa.ArrowException, OSError):
        return False
    rows = [(document.id, document.author, document.sha256) for document in documents]
    same = (table.schema.metadata or {}).get(HEADER) == header.encode()
    columns = (table.column(name).to_pylist() for name in ("id", "author", "sha256"))
    return same and list(zip(*columns, strict=True)) == rows


def join_parts(folder: Path, count: int, target: Path) -> pa.Schema:
    """Write the parts one after the other into the target; the columns that it has.

    The draft lies among the parts, so that a kill leaves nothing beside the target but that folder.
    """
    schema = pq.read_schema(part_path(folder, 0))
    with (
        atomic_path(folder / WHOLE) as draft,
        pq.ParquetWriter(draft, schema, compression="zstd") as writer,
    ):
        for number in range(count):
            writer.write_table(pq.read_table(part_path(folder, number)))
    os.replace(folder / WHOLE, target)
    sync(target.parent)
    remove(folder, is_part)
    return schema


# -- answers for vectors ---------------------------------------------------------------------------

KEPT = ("id", "author", "sha256")
ROWS_PER_PART = 65_536


@dataclass(frozen=True)
class Answered:
    """A finished table of answers; ``found`` rows were answered by an earlier run."""

    out: str
    rows: int
    found: int


def answer_table(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    answer: Callable[[FloatArray], Mapping[str, pa.Array]],
    *,
    width: int,
    settings: Mapping[str, Any],
    vector: str | None = None,
    kept: Sequence[str] = KEPT,
    rows_per_part: int = ROWS_PER_PART,
    overwrite: bool = False,
) -> Answered:
    """Answer for every row of a table of vectors of ``width`` numbers, in the order of the table.

    ``settings`` say what decides the answers: parts of a run that was killed count where they and
    the table are the same. Of its columns, those ``kept`` come along.
    """
    target, table = Path(out), Path(source)
    _check(target, 1, rows_per_part, overwrite)
    if not table.exists():
        raise InputError(f"there is no table of vectors at '{table}'; check the path")
    files = table_files(table)
    stats = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    header = json.dumps([__version__, stats, dict(settings), rows_per_part], sort_keys=True)
    total, rows, found, count = sum(map(table_length, files)), 0, 0, 0
    with _parts_of(target) as folder:
        for batch, names in _rows_of(files, table, vector, kept, rows_per_part):
            path = part_path(folder, count)
            if _answered(path, header, len(batch)):
                found += len(batch)
            else:
                vectors = matrix(table, batch, names)
                if vectors.shape[1] != width:
                    raise InputError(
                        f"'{table}' has vectors of {vectors.shape[1]} numbers and the model has "
                        f"learnt from vectors of {width}; give those of the same extractor"
                    )
                good = np.isfinite(vectors).all(axis=1)
                if not good.all():
                    raise InputError(
                        f"row {rows + int(np.argmin(good))} of '{table}' has a value that is not "
                        "finite (NaN or infinity); every value must be: leave such rows out"
                    )
                told = batch.drop_columns(names)
                for name, column in answer(np.asarray(vectors, np.float32)).items():
                    told = told.append_column(name, column)
                with atomic_path(path) as draft:
                    named = told.replace_schema_metadata({HEADER: header})
                    pq.write_table(named, draft, compression="zstd")
            rows, count = rows + len(batch), count + 1
            tell("answering", rows, total)
        if not count:
            remove(folder, is_part)
            raise InputError(f"'{table}' has no rows; there is nothing to answer")
        join_parts(folder, count, resolved(target))
    return Answered(str(target), rows, found)


def _rows_of(
    files: list[Path], source: Path, vector: str | None, kept: Sequence[str], size: int
) -> Iterator[tuple[pa.Table, list[str]]]:
    """Some columns of tables, some thousands of rows at a time, and which hold the vectors."""
    for file in files:
        schema, held, rows = table_schema(file), list[pa.RecordBatch](), 0
        names = vector_columns(file, schema, vector)
        for batch in table_batches(file, [*(n for n in kept if n in schema.names), *names], source):
            for low in range(0, batch.num_rows, size):
                held.append(batch.slice(low, size))
                rows += len(held[-1])
                if rows >= size:
                    yield pa.Table.from_batches(held), names
                    held, rows = [], 0
        if held:
            yield pa.Table.from_batches(held), names


def _answered(path: Path, header: str, rows: int) -> bool:
    try:
        with open(path, "rb", opener=regular) as raw:
            known = pq.ParquetFile(raw)
            same = (known.schema_arrow.metadata or {}).get(HEADER) == header.encode()
            return same and known.metadata.num_rows == rows
    except (pa.ArrowException, OSError):
        return False
