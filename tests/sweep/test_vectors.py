"""Vectors and authors in files of NumPy and Parquet."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sweep.small_sweeps import L, N, X, Y
from threads import one_thread as one_thread
from whowrote.errors import InputError
from whowrote.sweep import (
    read_vectors,
)


def test_vectors_of_numpy_and_parquet(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=X.astype(np.float16), y=Y)
    author, pages = pa.array(Y.tolist()), pa.array(np.arange(N) // 2)
    rows = X.astype(np.float32).tolist()
    tables = {
        "lists": {"vector": pa.array(rows)},
        "fixed": {"v": pa.array(rows, pa.list_(pa.float32(), L))},
        "numbered": {f"v{i}": pa.array(X[:, i].astype(np.float32)) for i in reversed(range(L))},
    }
    for name, columns in tables.items():
        table = pa.table({"author": author, "page1": pages, **columns})
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=50)
        found = read_vectors(tmp_path / f"{name}.parquet", group="page1")
        np.testing.assert_array_equal(found.X, X.astype(np.float32))
        assert found.y.tolist() == Y.tolist()
        assert found.groups == pages.to_pylist()
    numpy = read_vectors(tmp_path / "a.npz")
    assert (numpy.X.dtype, numpy.y.tolist(), numpy.groups) == (np.float16, Y.tolist(), None)
    swapped = read_vectors(tmp_path / "numbered.parquet", author="page1", vector="v")
    assert swapped.y.tolist() == pages.to_pylist()


def test_vectors_that_cannot_be_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "names.npz", X=X, Y=Y)
    np.save(tmp_path / "array.npy", X)
    (tmp_path / "array.npy").rename(tmp_path / "array.npz")
    np.savez(tmp_path / "objects.npz", X=X, y=Y.astype(object))
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1")
    (tmp_path / "x.csv").write_text("1,2")
    pq.write_table(pa.table({"author": ["a", "b"]}), tmp_path / "none.parquet")
    pq.write_table(pa.table({"author": ["a"], "v": [["x"]]}), tmp_path / "text.parquet")
    uneven = pa.table({"author": ["a", "b"], "v": [[1.0], [1.0, 2.0]]})
    pq.write_table(uneven, tmp_path / "uneven.parquet")
    for name, message in {
        "gone.npz": "there is no file of vectors at",
        "x.csv": "ends in '.csv'; vectors must be in .npz or .parquet",
        "names.npz": "has no array 'y'; it has 'X', 'Y'",
        "objects.npz": "cannot be read .*names as text",
        "broken.npz": "cannot be read",
        "array.npz": "cannot be read",
        "broken.parquet": "is not a readable Parquet file",
        "none.parquet": "has no vectors; it needs one column of lists, or numbered columns",
        "text.parquet": "are not numbers or have lengths",
        "uneven.parquet": r"have lengths \[1, 2\]; every text needs one vector of the same",
    }.items():
        with pytest.raises(InputError, match=message):
            read_vectors(tmp_path / name)
    with pytest.raises(InputError, match=r"has no column 'auther'; .*did you mean 'author'?"):
        read_vectors(tmp_path / "none.parquet", author="auther")
    with pytest.raises(InputError, match="has no vectors called 'w'"):
        read_vectors(tmp_path / "uneven.parquet", vector="w")
