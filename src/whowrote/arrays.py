"""The arrays that functions take and give: named once, so that every signature says the same.

And those that the columns of a table hold, lists of one length or numbered columns, with the files
(Parquet, Arrow) that such tables are kept in.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from whowrote.errors import InputError, did_you_mean, first_line

if TYPE_CHECKING:
    import pyarrow as pa

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Arrays = Mapping[str, NDArray[Any]]
"""Arrays by name, as a file holds them."""
ARROW, PARQUET = (".arrow", ".feather"), ".parquet"
_READ = 8192
"""Rows of a table that are read together."""
_NUMBERED = re.compile(r"(.*?)(\d+)")


def per_text(values: FloatArray, document: IntArray) -> FloatArray:
    """Sums of the rows of each text, (texts, columns).

    >>> per_text(np.array([[1.0], [2.0], [4.0]]), np.array([0, 0, 1])).tolist()
    [[3.0], [4.0]]
    """
    sums = np.zeros((int(document.max()) + 1, values.shape[1]))
    np.add.at(sums, document, values)
    return sums


# -- columns of vectors in a table -----------------------------------------------------------------


def vector_columns(path: Path, schema: pa.Schema, vector: str | None) -> list[str]:
    """The column of lists, or the numbered columns of numbers, that hold the vectors."""
    lists = [field.name for field in schema if _is_list(field.type)]
    if vector in lists or (vector is None and len(lists) == 1):
        return [vector or lists[0]]
    names = _numbered(schema.names, vector)
    if not names or not all(_is_number(schema.field(name).type) for name in names):
        wanted = "" if vector is None else f" called {vector!r}"
        raise InputError(
            f"'{path}' has no vectors{wanted}; it needs one column of lists, or numbered columns "
            "of numbers: name the column (vector = ...)"
        )
    return names


def matrix(path: Path, table: pa.Table | pa.RecordBatch, names: list[str]) -> FloatArray:
    """Those columns of a table or a batch as one array."""
    columns = [table.column(name) for name in names]
    if _is_list(columns[0].type):
        return _from_lists(path, columns[0])
    return np.column_stack([column.to_numpy(zero_copy_only=False) for column in columns])


def _is_list(kind: Any) -> bool:
    import pyarrow as pa

    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def _is_number(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))


def _from_lists(path: Path, column: Any) -> FloatArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    lengths = pc.unique(pc.list_value_length(column)).to_pylist()
    if len(lengths) != 1 or not lengths[0] or not _is_number(column.type.value_type):
        raise InputError(
            f"the vectors of '{path}' are not numbers or have lengths {lengths[:5]}; every text "
            "needs one vector of the same length"
        )
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    flat: NDArray[Any] = np.concatenate([chunk.flatten().to_numpy(False) for chunk in chunks])
    return flat.reshape(len(column), lengths[0])


def _numbered(names: Iterable[str], beginning: str | None) -> list[str]:
    """The longest row of columns that differ in a number at the end, in the order of it.

    >>> _numbered(["author", "v10", "v9", "v8", "year2"], None)
    ['v8', 'v9', 'v10']
    """
    families: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for name in names:
        if (found := _NUMBERED.fullmatch(name)) is not None:
            families[found[1]].append((int(found[2]), name))
    if beginning is not None:
        chosen = families.get(beginning, [])
    else:
        chosen = max(families.values(), key=len, default=[])
    return [name for _, name in sorted(chosen)]


# -- files of tables -------------------------------------------------------------------------------


def table_files(path: Path) -> list[Path]:
    """The tables of a path, in the order of their names."""
    if not path.is_dir():
        found = [path] if path.suffix in (*ARROW, PARQUET) else []
    else:
        found = sorted(
            one
            for one in path.iterdir()
            if one.suffix in (*ARROW, PARQUET) and not one.name.startswith((".", "_"))
        )
    if not found:
        raise InputError(
            f"'{path}' is no table of vectors and no folder of some; it must end in .parquet, "
            ".arrow or .feather: check the path"
        )
    return found


def table_schema(file: Path) -> pa.Schema:
    """The columns of a table and their types."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if file.suffix == PARQUET:
            return pq.read_schema(file)
        with pa.memory_map(str(file)) as mapped:
            return pa.ipc.open_file(mapped).schema
    except (pa.ArrowException, OSError, ValueError) as problem:
        raise InputError(
            f"'{file}' is not a readable table ({first_line(problem)}); give a whole one"
        ) from None


def table_length(file: Path) -> int:
    """How many rows a table has."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table_schema(file)  # or a sentence on what is wrong with it
    if file.suffix == PARQUET:
        return int(pq.read_metadata(file).num_rows)
    with pa.memory_map(str(file)) as mapped:
        reader = pa.ipc.open_file(mapped)
        return sum(reader.get_batch(one).num_rows for one in range(reader.num_record_batches))


def require_column(schema: pa.Schema, name: str, path: Path) -> None:
    """Say which columns there are, where one is not."""
    if name not in schema.names:
        raise InputError(
            f"'{path}' has no column {name!r}; it has {', '.join(map(repr, schema.names))}"
            f"{did_you_mean(name, schema.names)}"
        )


def table_batches(file: Path, columns: list[str], named: Path) -> Iterator[pa.RecordBatch]:
    """Some columns of a table, in this order, some thousands of rows at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = table_schema(file)
    for name in columns:
        require_column(schema, name, named)
    try:
        if file.suffix == PARQUET:
            with pq.ParquetFile(file) as table:
                for batch in table.iter_batches(batch_size=_READ, columns=columns):
                    yield batch.select(columns)
            return
        options = pa.ipc.IpcReadOptions(
            included_fields=[schema.get_field_index(name) for name in columns]
        )
        with pa.OSFile(str(file)) as opened:  # not mapped: what is read is given back
            reader = pa.ipc.open_file(opened, options=options)
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number).select(columns)
    except (pa.ArrowException, OSError) as problem:
        raise InputError(
            f"'{file}' cannot be read ({first_line(problem)}); give a whole one"
        ) from None
