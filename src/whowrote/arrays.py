"""The arrays that functions take and give: named once, so that every signature says the same.

And those that the columns of a table hold: lists of one length, or numbered columns.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from whowrote.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Arrays = Mapping[str, NDArray[Any]]
"""Arrays by name, as a file holds them."""
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
