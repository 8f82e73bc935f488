"""Vectors of texts and their authors from a file: NumPy ``.npz`` or Parquet."""

from __future__ import annotations

import os
import re
import zipfile
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from whowrote.errors import InputError
from whowrote.sweep.grid import did_you_mean

_NUMBERED = re.compile(r"(.*?)(\d+)")


@dataclass(frozen=True)
class Vectors:
    """One row per text: its vector, its author and, where known, what it may not be split from."""

    X: NDArray[np.floating[Any]]
    y: NDArray[Any]
    groups: list[Any] | None = None


def read_vectors(
    path: str | os.PathLike[str],
    *,
    author: str | None = None,
    vector: str | None = None,
    group: str | None = None,
) -> Vectors:
    """Read vectors and authors.

    ``.npz``: arrays ``X`` and ``y``. ``.parquet``: a column ``author``, and the vectors as a column
    of lists or as numbered columns (``v0``, ``v1``, ...). ``author``, ``vector`` and ``group`` give
    other names of arrays or columns; ``vector`` is the common beginning of numbered ones.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"there is no file of vectors at '{path}'; check the path")
    if path.suffix == ".npz":
        return _read_npz(path, author or "y", vector or "X", group)
    if path.suffix == ".parquet":
        return _read_parquet(path, author or "author", vector, group)
    raise InputError(f"'{path}' ends in {path.suffix!r}; vectors must be in .npz or .parquet")


def _read_npz(path: Path, author: str, vector: str, group: str | None) -> Vectors:
    try:
        # Opened here: numpy leaves a file that it cannot read open.
        with path.open("rb") as raw, np.load(raw) as file:
            arrays = {
                name: file[_present(path, name, file.files, "array")]
                for name in (author, vector, group)
                if name is not None
            }
    except InputError:
        raise
    except (OSError, TypeError, ValueError, zipfile.BadZipFile) as problem:
        raise InputError(
            f"'{path}' cannot be read ({problem}); write it with numpy.savez, names as text"
        ) from None
    groups = None if group is None else arrays[group].tolist()
    return Vectors(arrays[vector], arrays[author], groups)


def _present(path: Path, name: str, names: Iterable[str], kind: str) -> str:
    names = list(names)
    if name not in names:
        raise InputError(
            f"'{path}' has no {kind} {name!r}; it has {', '.join(map(repr, names))}"
            f"{did_you_mean(name, names)}"
        )
    return name


def _read_parquet(path: Path, author: str, vector: str | None, group: str | None) -> Vectors:
    try:
        table = pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as problem:
        raise InputError(
            f"'{path}' is not a readable Parquet file ({str(problem).splitlines()[0]}); give a "
            "whole one"
        ) from None
    for name in filter(None, (author, group)):
        _present(path, name, table.column_names, "column")
    return Vectors(
        _matrix(path, table, vector),
        np.array(table[author].to_pylist(), dtype=object),
        None if group is None else table[group].to_pylist(),
    )


def _matrix(path: Path, table: Any, vector: str | None) -> NDArray[np.floating[Any]]:
    lists = [field.name for field in table.schema if _is_list(field.type)]
    if vector in lists or (vector is None and len(lists) == 1):
        return _from_lists(path, table[vector or lists[0]])
    names = _numbered(table.column_names, vector)
    if not names or not all(_is_number(table.schema.field(name).type) for name in names):
        wanted = "" if vector is None else f" called {vector!r}"
        raise InputError(
            f"'{path}' has no vectors{wanted}; it needs one column of lists, or numbered columns "
            "of numbers: name the column (vector = ...)"
        )
    return np.column_stack([table[name].to_numpy() for name in names])


def _is_list(kind: Any) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def _is_number(kind: Any) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))


def _from_lists(path: Path, column: Any) -> NDArray[np.floating[Any]]:
    lengths = pc.unique(pc.list_value_length(column)).to_pylist()
    if len(lengths) != 1 or not lengths[0] or not _is_number(column.type.value_type):
        raise InputError(
            f"the vectors of '{path}' are not numbers or have lengths {lengths[:5]}; every text "
            "needs one vector of the same length"
        )
    flat = np.concatenate([chunk.flatten().to_numpy(False) for chunk in column.chunks])
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
