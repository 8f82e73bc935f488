r"""Vectors and labels that stay in a file: :math:`i \mapsto o_i`, read as they are asked for.

In go an Arrow file, a Parquet file or a folder of either, such as ``whowrote embed`` writes: a
column of lists of numbers of one length (or numbered columns) and one of labels. Out come rows of
float32, by slice or by number, and class numbers. An uncompressed Arrow file with lists of a fixed
size is read where it lies; of anything else one is made beside it, once.

Rows are read with ``pread``, not through a map of the file: how much of a map counts as resident is
up to the kernel, which lays it in by two megabytes where it can. Learning reads runs of neighbours
that are shuffled as wholes within a window (:class:`~whowrote.training.Runs`); the runs of the
window are what is held in memory.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from whowrote.arrays import (
    ARROW,
    FloatArray,
    IntArray,
    matrix,
    require_column,
    table_batches,
    table_files,
    table_length,
    table_schema,
    vector_columns,
)
from whowrote.errors import InputError, first_line
from whowrote.files import atomic_path
from whowrote.progress import tell

if TYPE_CHECKING:
    import pyarrow as pa

    from whowrote.training import Runs

BLOCK = 8192
"""Rows that are looked at together in a pass over all."""
RUN_BYTES = 102_400
"""Neighbours read at once; runs of 25 and of 400 kB took longer (docs/scale.md)."""
WINDOW_BYTES = 2**28
"""What is held of the file while it is learnt from."""
LEAST_WINDOW = 64
SOURCE = b"whowrote.rows"


class VectorTable:
    """Rows of float32 in a file, with labels, if any, in a column called ``author``.

    ``vector`` names the column of lists, or the common beginning of numbered columns; without it,
    there must be one such column. ``copy`` is where the Arrow file goes that is made of anything
    else; None means beside it.

    >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq
    >>> path = Path(tempfile.mkdtemp()) / "rows.parquet"
    >>> pq.write_table(pa.table({"author": ["b", "a"], "vector": [[1.0, 2.0], [3.0, 4.0]]}), path)
    >>> table = VectorTable(path)
    >>> table.shape, table[1:].tolist(), table.distinct
    ((2, 2), [[3.0, 4.0]], ['b', 'a'])
    """

    ndim = 2
    dtype = np.dtype(np.float32)

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        author: str = "author",
        vector: str | None = None,
        copy: str | os.PathLike[str] | None = None,
    ) -> None:
        self.path, self.author, self.vector = Path(path), author, vector
        if not self.path.exists():
            raise InputError(f"there is no table of vectors at '{path}'; check the path")
        found = _placed(self.path, vector) if self.path.suffix in ARROW else None
        if found is None:
            self.file = self._copied(Path(copy) if copy else None)
            found = _placed(self.file, "vector")
            assert found is not None  # for the type checker: it was written so
        else:
            self.file = self.path
        self._starts, self._first, self._width = found
        self.shape = (int(self._first[-1]), self._width)
        if not self.shape[0]:
            raise InputError(f"'{path}' has no rows; a model is learnt from some")
        self._descriptor = os.open(self.file, os.O_RDONLY)
        self._held: Held | None = None
        self._lock = threading.Lock()

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            os.close(self._descriptor)

    def __len__(self) -> int:
        return self.shape[0]

    # -- rows ------------------------------------------------------------------------------------

    def __getitem__(self, rows: Any) -> FloatArray:
        """Rows by slice or by number, in memory."""
        if isinstance(rows, slice):
            low, high, step = rows.indices(len(self))
            if step == 1:
                return self._finite(low, max(low, high))
            rows = np.arange(low, high, step)
        numbers = np.asarray(rows)
        if numbers.dtype == bool:
            raise InputError(
                f"some rows of '{self.path}' are to be left out; a table is learnt from as a "
                "whole: write one without them"
            )
        found = np.empty((len(numbers), self._width), np.float32)
        for place in np.argsort(numbers, kind="stable").tolist():  # forwards through the file
            found[place] = self._read(int(numbers[place]), int(numbers[place]) + 1)
        return found

    def _read(self, low: int, high: int) -> FloatArray:
        """Neighbours; those of one batch of the file lie together in it."""
        found, done = np.empty((high - low, self._width), np.float32), 0
        batch, width = int(np.searchsorted(self._first, low, side="right")) - 1, 4 * self._width
        while low + done < high:
            row = low + done
            n = min(high, int(self._first[batch + 1])) - row
            start = int(self._starts[batch]) + width * (row - int(self._first[batch]))
            self._fill(found[done : done + n], start)
            done, batch = done + n, batch + 1
        return found

    def _finite(self, low: int, high: int) -> FloatArray:
        found = self._read(low, high)
        good = np.isfinite(found).all(axis=1)
        if not good.all():
            raise InputError(
                f"row {low + int(np.argmin(good))} of '{self.path}' has a value that is not "
                "finite (NaN or infinity); every value must be: drop or impute such rows"
            )
        return found

    def _fill(self, rows: FloatArray, start: int) -> None:
        left = rows.data.cast("B")
        while len(left):
            n = os.preadv(self._descriptor, [left], start)
            if not n:
                raise InputError(f"'{self.file}' has become shorter; make it again")
            left, start = left[n:], start + n

    def blocks(self) -> Iterator[FloatArray]:
        """All rows in turn, some thousands at a time."""
        for low in range(0, len(self), BLOCK):
            yield self._finite(low, min(low + BLOCK, len(self)))
            tell("reading vectors", min(low + BLOCK, len(self)), len(self))

    @property
    def run(self) -> int:
        """Rows of a run of neighbours."""
        return max(1, RUN_BYTES // (4 * self._width))

    def runs(self, n_members: int) -> Runs | None:
        """The order to learn in; None where all rows are one window."""
        from whowrote.training import Runs  # late: what learns needs scikit-learn, answers do not

        window = max(LEAST_WINDOW, WINDOW_BYTES // (4 * self._width * self.run * n_members))
        return Runs(self.run, window) if window * self.run < len(self) else None

    @contextmanager
    def held(self, n_members: int) -> Iterator[None]:
        """Keep the runs of as many windows as there are members, to learn from."""
        order, runs = self.runs(n_members), -(-len(self) // self.run)
        self._held = Held.of(self, runs if order is None else min(runs, order.window * n_members))
        try:
            yield
        finally:
            self._held = None

    def take(self, numbers: IntArray) -> FloatArray:
        """Rows whose neighbours will soon be asked for: whole runs are read and held."""
        if self._held is None:
            return self[numbers]
        with self._lock:  # members learn in several threads
            return self._held.take(numbers)

    # -- labels ----------------------------------------------------------------------------------

    @cached_property
    def _labels(self) -> tuple[list[Any], NDArray[np.int32], list[int]]:
        """Different labels in the order of appearance, whose every row is, and rows of each."""
        import pyarrow as pa
        import pyarrow.compute as pc

        require_column(table_schema(table_files(self.path)[0]), self.author, self.path)
        codes, known, low = np.empty(len(self), np.int32), dict[Any, int](), 0
        times = list[int]()
        for column in _pieces(table_batches(self.file, [self.author], self.path)):
            if pa.types.is_dictionary(column.type):
                column = column.cast(column.type.value_type)
            if not _is_name(column.type):
                raise InputError(
                    f"the labels of '{self.path}' in the column {self.author!r} are of type "
                    f"{column.type}; they must be text or whole numbers: write them as text"
                )
            coded = pc.dictionary_encode(column, null_encoding="encode")
            own = [known.setdefault(name, len(known)) for name in coded.dictionary.to_pylist()]
            times += [0] * (len(known) - len(times))
            for place, found in zip(own, np.bincount(coded.indices).tolist(), strict=True):
                times[place] += found
            codes[low : low + len(column)] = np.array(own)[np.asarray(coded.indices)]
            low += len(column)
        return list(known), codes, times

    @property
    def distinct(self) -> list[Any]:
        """The labels, each once; None where one is missing."""
        return self._labels[0]

    @property
    def places(self) -> NDArray[np.int32]:
        """Which of :attr:`distinct` every row has."""
        return self._labels[1]

    @property
    def times(self) -> IntArray:
        """How many rows have each of :attr:`distinct`."""
        return np.array(self._labels[2])

    def numbered(self, number: IntArray) -> NDArray[np.int32]:
        """Of every row, the number of its label; where the labels stood, which are forgotten."""
        found = self.places
        for low in range(0, len(found), BLOCK):
            found[low : low + BLOCK] = number[found[low : low + BLOCK]]
        del self._labels
        return found

    # -- a copy that can be read by number -------------------------------------------------------

    def _copied(self, copy: Path | None) -> Path:
        """The Arrow file made of this table; an earlier one if nothing has changed since."""
        import pyarrow as pa

        files = table_files(self.path)
        stats = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
        source = json.dumps([1, stats, self.author, self.vector]).encode()
        target = copy or self.path.with_name(f"{self.path.name}.rows.arrow")
        if target.is_file():
            try:
                with pa.memory_map(str(target)) as mapped:
                    if (pa.ipc.open_file(mapped).schema.metadata or {}).get(SOURCE) == source:
                        return target
            except pa.ArrowException:
                pass  # of something else: written anew
        try:
            self._copy(files, target, source)
        except OSError as problem:
            raise InputError(
                f"'{self.path}' has to be copied into a form that is read by number, and '{target}'"
                f" cannot be written ({first_line(problem)}); give another place (copy=...)"
            ) from None
        return target

    def _copy(self, files: list[Path], target: Path, source: bytes) -> None:
        import pyarrow as pa

        schema, total, done = None, sum(map(table_length, files)), 0
        with atomic_path(target) as draft, pa.OSFile(str(draft), "wb") as sink:
            writer = None
            for file in files:
                vectors = vector_columns(file, table_schema(file), self.vector)
                labelled = [self.author] if self.author in table_schema(file).names else []
                for batch in table_batches(file, [*labelled, *vectors], self.path):
                    rows = matrix(file, batch, vectors)
                    columns = batch.columns[: len(labelled)]
                    if labelled and pa.types.is_dictionary(columns[0].type):
                        columns = [columns[0].cast(columns[0].type.value_type)]  # one per file
                    fields = [(self.author, one.type) for one in columns]
                    fields.append(("vector", pa.list_(pa.float32(), rows.shape[1])))
                    if schema is None:
                        schema = pa.schema(fields, metadata={SOURCE: source})
                        _require_space(target, total * rows.shape[1] * 4)
                        writer = pa.ipc.new_file(sink, schema)
                    _require_same(file, schema, pa.schema(fields))
                    flat = pa.array(np.ascontiguousarray(rows, np.float32).ravel())
                    listed = pa.FixedSizeListArray.from_arrays(flat, rows.shape[1])
                    assert writer is not None  # for the type checker: it came with the schema
                    writer.write_batch(pa.record_batch([*columns, listed], schema=schema))
                    done += len(rows)
                    tell("copying vectors", done, total)
            if writer is None:
                raise InputError(f"'{self.path}' has no rows; a model is learnt from some")
            writer.close()


@dataclass
class Held:
    """The runs that were read last, in slots that are filled in turn."""

    table: VectorTable
    rows: FloatArray
    slot_of: IntArray
    owner: IntArray
    next: int = 0

    @classmethod
    def of(cls, table: VectorTable, n_slots: int) -> Held:
        """Empty slots."""
        runs = -(-len(table) // table.run)
        rows = np.empty((n_slots, table.run, table.shape[1]), np.float32)
        return cls(table, rows, np.full(runs, -1), np.full(n_slots, -1))

    def take(self, numbers: IntArray) -> FloatArray:
        """Rows by number."""
        most = max(1, len(self.owner) // 2)
        if len(numbers) > most:  # not so many at once that runs of theirs push out each other
            parts = [self.take(numbers[low : low + most]) for low in range(0, len(numbers), most)]
            return np.concatenate(parts)
        run, place = np.divmod(numbers, self.table.run)
        wanted = np.unique(run)
        missing = wanted[self.slot_of[wanted] < 0]
        if len(missing):
            self._read(missing, set(wanted.tolist()))
        return np.asarray(self.rows[self.slot_of[run], place])

    def _read(self, missing: IntArray, wanted: set[int]) -> None:
        for number in missing.tolist():
            while int(self.owner[self.next]) in wanted:
                self.next = (self.next + 1) % len(self.owner)
            slot, low = self.next, number * self.table.run
            former = int(self.owner[slot])
            if former >= 0:
                self.slot_of[former] = -1
            own = self.table[low : low + self.table.run]
            self.rows[slot, : len(own)] = own
            self.owner[slot], self.slot_of[number] = number, slot
            self.next = (slot + 1) % len(self.owner)


def opened(X: Any) -> Any:
    """The table at a path; everything else as it is."""
    return VectorTable(X) if isinstance(X, (str, os.PathLike)) else X


def numbers_of(chosen: NDArray[np.bool_], X: Any) -> IntArray:
    """The numbers of the chosen rows; those of a table, which are many, of four bytes each."""
    if not isinstance(X, VectorTable):
        return np.flatnonzero(chosen)
    found = np.empty(int(np.count_nonzero(chosen)), np.int32)
    done = 0
    for low in range(0, len(chosen), BLOCK):
        own = np.flatnonzero(chosen[low : low + BLOCK])
        found[done : done + len(own)] = own + low
        done += len(own)
    return found  # type: ignore[return-value]


def table_columns(estimator: Any, table: VectorTable, *, reset: bool) -> VectorTable:
    """What scikit-learn does for arrays: note the number of columns in ``fit``, and compare it."""
    n, learnt = table.shape[1], getattr(estimator, "n_features_in_", None)
    if reset:
        estimator.n_features_in_ = n
        vars(estimator).pop("feature_names_in_", None)
    elif n != learnt:
        raise InputError(
            f"'{table.path}' has vectors of {n} numbers and the model has learnt from vectors of "
            f"{learnt}; give those of the same extractor"
        )
    return table


def answering(model: Any, *, every: bool = False) -> Callable[[FloatArray], dict[str, Any]]:
    """Columns of answers for rows: the likeliest class or cluster, and its probability.

    ``every``: the probabilities of all, in the order of ``classes_``, as a list.
    """
    import pyarrow as pa

    classes = getattr(model, "classes_", None)

    def answer(rows: FloatArray) -> dict[str, Any]:
        probability = np.exp(model.predict_log_proba(rows))
        best = probability.argmax(axis=1)
        likeliest = probability[np.arange(len(best)), best].astype(np.float32)
        named = pa.array(best if classes is None else classes[best])
        found = {"predicted": named, "probability": pa.array(likeliest)}
        if every:
            flat = pa.array(probability.astype(np.float32).ravel())
            listed = pa.FixedSizeListArray.from_arrays(flat, probability.shape[1])
            found["probabilities"] = listed
        return found

    return answer


# -- files ---------------------------------------------------------------------------------------


def _pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Array]:
    """The first column of batches, of which one may have all rows, some thousands at a time."""
    for batch in batches:
        for low in range(0, batch.num_rows, BLOCK):
            yield batch.column(0).slice(low, BLOCK)


def _placed(path: Path, vector: str | None) -> tuple[IntArray, IntArray, int] | None:
    """Where every batch of vectors begins in the file and with which row, and their width.

    None where they do not lie in it as plain float32 of one length.
    """
    import pyarrow as pa

    schema = table_schema(path)
    (name, *more) = vector_columns(path, schema, vector)
    kind = schema.field(name).type
    if more or not (pa.types.is_fixed_size_list(kind) and pa.types.is_float32(kind.value_type)):
        return None
    starts, first = list[int](), [0]
    with pa.memory_map(str(path)) as mapped:
        base, reader = mapped.read_buffer(), pa.ipc.open_file(mapped)
        for number in range(reader.num_record_batches):
            column = reader.get_batch(number).column(schema.get_field_index(name))
            if column.null_count or column.values.null_count:
                raise InputError(
                    f"'{path}' has rows without a whole vector in the column {name!r}; leave these "
                    "rows out"
                )
            if not len(column):
                continue
            values = column.flatten()
            start = values.buffers()[1].address + 4 * values.offset - base.address
            if not 0 <= start <= base.size - 4 * len(values):
                return None  # compressed
            starts.append(start)
            first.append(first[-1] + len(column))
    return np.array(starts), np.array(first), int(kind.list_size)


def _require_space(target: Path, size: int) -> None:
    free = shutil.disk_usage(target.parent).free
    if size > free:
        raise InputError(
            f"a copy of {size / 1e9:.1f} GB that is read by number does not fit beside "
            f"'{target.name}', where {free / 1e9:.1f} GB are free; give another place (copy=...)"
        )


def _require_same(file: Path, before: pa.Schema, now: pa.Schema) -> None:
    def said(schema: pa.Schema) -> str:
        label = f"labels of type {schema.field(0).type}" if len(schema) > 1 else "no labels"
        return f"vectors of {schema.field('vector').type.list_size} numbers and {label}"

    if now != before:
        raise InputError(
            f"'{file}' has {said(now)}, and the file before it {said(before)}; they must be alike"
        )


def _is_name(kind: Any) -> bool:
    import pyarrow as pa

    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return bool(text or pa.types.is_integer(kind) or pa.types.is_null(kind))
