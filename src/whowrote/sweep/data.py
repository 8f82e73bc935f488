r"""What a sweep reads: vectors and authors from a file, and the rows of its splits on a device.

.. math:: o^{(f)}_n = (x_n - \bar x_{\mathrm{train}(f)}) / s_{\mathrm{train}(f)}

Vectors come from NumPy ``.npz`` or from Parquet. Every split is scaled by its own training rows;
the scaled copies lie one after another in a single set of rows, and every fit has numbers of rows
into its own copy, so that fits of different folds train as one fleet.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from whowrote.arrays import FloatArray, IntArray, matrix, vector_columns
from whowrote.corpus.splits import Split
from whowrote.drafts import regular
from whowrote.errors import InputError, did_you_mean, first_line
from whowrote.estimators import MixtureVAEClassifier
from whowrote.estimators.labels import read_labels
from whowrote.estimators.scaling import learn_scaling
from whowrote.files import canonical_json
from whowrote.model import Rows


@dataclass(frozen=True)
class Vectors:
    """One row per text: its vector, its author and, where known, what it may not be split from."""

    X: FloatArray
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
        with open(path, "rb", opener=regular) as raw, np.load(raw) as file:
            arrays = {
                name: file[_present(path, name, file.files, "array")]
                for name in (author, vector, group)
                if name is not None
            }
    except InputError:
        raise
    except (EOFError, OSError, TypeError, ValueError, zipfile.BadZipFile) as problem:
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
        with open(path, "rb", opener=regular) as raw:
            table = pq.read_table(raw)
    except (pa.ArrowException, OSError, ValueError) as problem:
        raise InputError(
            f"'{path}' is not a readable Parquet file ({first_line(problem)}); give a whole one"
        ) from None
    for name in filter(None, (author, group)):
        _present(path, name, table.column_names, "column")
    return Vectors(
        matrix(path, table, vector_columns(path, table.schema, vector)),
        np.array(table[author].to_pylist(), dtype=object),
        None if group is None else table[group].to_pylist(),
    )


# -- splits --------------------------------------------------------------------------------------

Splits = Sequence[Split] | Mapping[tuple[int, float], Split]


@dataclass(frozen=True)
class Dataset:
    """Checked rows, their class numbers, and the names of the classes."""

    X: FloatArray
    labels: IntArray
    classes: NDArray[Any]

    @cached_property
    def hash(self) -> str:
        """SHA-256 of values and labels, whatever precision they are stored in."""
        digest = hashlib.sha256(
            canonical_json([list(self.X.shape), *map(str, self.classes)]).encode()
        )
        digest.update(np.ascontiguousarray(self.X, dtype="<f8").tobytes())
        digest.update(self.labels.astype("<i8").tobytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class Part:
    """A split and what it is called in the records."""

    fold: int
    share: float
    split: Split

    @cached_property
    def hash(self) -> str:
        """The hash of the split."""
        return self.split.hash

    @property
    def labels(self) -> dict[str, Any]:
        """What a record says of the split beside its hash."""
        return {
            "fold": self.fold,
            "share": self.share,
            "n_train": len(self.split.train),
            "n_development": len(self.split.development),
            "n_test": len(self.split.test),
        }


def shares_of(
    splits: Sequence[Split], shares: Sequence[float] = (1.0,), only: Sequence[int] | None = None
) -> dict[tuple[int, float], Split]:
    """Every fold (or ``only`` some) with every share of its training rows, under (fold, share).

    >>> from whowrote.corpus.splits import folds
    >>> several = shares_of(folds(["ann", "bob"] * 50), [0.2, 1.0], only=[0, 3])
    >>> [(label, len(split.train)) for label, split in several.items()]
    [((0, 0.2), 16), ((0, 1.0), 80), ((3, 0.2), 16), ((3, 1.0), 80)]
    """
    chosen = range(len(splits)) if only is None else only
    for fold in chosen:
        if fold not in range(len(splits)):
            raise InputError(
                f"only has fold {fold!r}; there are {len(splits)} folds, counted from 0"
            )
    return {(fold, share): splits[fold].fraction(share) for fold in chosen for share in shares}


def checked_data(X: Any, y: Any) -> Dataset:
    """Read X and y as the classifier does; every row must have a label."""
    if sparse.issparse(X):
        raise InputError(
            "X is sparse and a sweep reads dense rows; project it first, or use GridSearchCV with "
            "MixtureVAEClassifier"
        )
    reader = MixtureVAEClassifier()
    X = reader._read(X, reset=True)
    classes, codes = read_labels(y, len(X))
    if (codes < 0).any():
        raise InputError(
            f"row {int(codes.argmin())} has no label; a sweep needs the author of every row: "
            "leave out those rows"
        )
    return Dataset(X, codes, classes)


def checked_parts(splits: Splits, data: Dataset) -> tuple[Part, ...]:
    """Name the splits and require of each what a fit needs."""
    if not isinstance(splits, Mapping):
        splits = {(fold, 1.0): split for fold, split in enumerate(splits)}
    parts = tuple(Part(int(fold), float(share), one) for (fold, share), one in splits.items())
    if not parts:
        raise InputError(
            "splits is empty; a sweep needs at least one: see whowrote.corpus.splits.folds"
        )
    seen: dict[str, Part] = {}
    for part in parts:
        _check_part(part, data)
        twin = seen.setdefault(part.hash, part)
        if twin is not part:
            raise InputError(
                f"the splits {_called(twin)} and {_called(part)} hold the same rows; leave one out"
            )
    return parts


def _called(part: Part) -> str:
    return f"(fold {part.fold}, share {part.share:g})"


def _check_part(part: Part, data: Dataset) -> None:
    split, called = part.split, _called(part)
    if not split.train or not split.development:
        raise InputError(
            f"the split {called} has {len(split.train)} training and {len(split.development)} "
            "development rows; a fit learns from the first and stops by the second: give both some"
        )
    highest = max(split.train + split.held_out)
    if highest >= len(data.X):
        raise InputError(
            f"the split {called} has row {highest} and X has {len(data.X)} rows; make the splits "
            "from the labels of this X"
        )
    missing = np.setdiff1d(data.labels, data.labels[list(split.train)])
    if len(missing):
        raise InputError(
            f"class {data.classes.tolist()[missing[0]]!r} has no training row in the split "
            f"{called}; every class needs one: take a larger share or leave the class out"
        )


# -- rows on a device ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Places:
    """Where the rows of a split lie among the staged ones."""

    train: IntArray
    development: Tensor
    test: Tensor

    def training_order(self, seed: int) -> Tensor:
        """The training rows in the order of a seed: their beginning must be a fair sample."""
        order = np.random.RandomState(seed).permutation(self.train)
        return torch.as_tensor(order, device=self.development.device)


@dataclass(frozen=True)
class Staged:
    """Scaled rows of several splits, and where those of each split lie."""

    rows: Rows
    places: dict[str, Places]


class Stage:
    """Puts splits on the device; groups that read the same splits in turn share the work."""

    def __init__(self, data: Dataset, device: torch.device, dtype: torch.dtype) -> None:
        self.data, self.device, self.dtype = data, device, dtype
        self._last: tuple[tuple[str, ...], Staged] | None = None

    def staged(self, parts: Sequence[Part]) -> Staged:
        """The rows of the given splits."""
        key = tuple(part.hash for part in parts)
        if self._last is None or self._last[0] != key:
            self._last = None  # never two sets of rows at a time
            self._last = key, self._stage(parts)
        return self._last[1]

    def _stage(self, parts: Sequence[Part]) -> Staged:
        targets, labels, places, first = [], [], {}, 0
        for part in parts:
            split = part.split
            index = [*split.train, *split.development, *split.test]
            X = self.data.X[index]
            scaling = learn_scaling(X[: len(split.train)], X.shape[1], 0)
            targets.append(scaling.observations(X, self.dtype))
            labels.append(torch.as_tensor(self.data.labels[index]))
            places[part.hash] = self._places(split, first)
            first += len(index)
        rows = Rows(torch.cat(targets).to(self.device), torch.cat(labels).to(self.device))
        return Staged(rows, places)

    def _places(self, split: Split, first: int) -> Places:
        sizes = [len(split.train), len(split.development), len(split.test)]
        train, development, test = np.split(
            np.arange(first, first + sum(sizes), dtype=np.int64), np.cumsum(sizes)[:-1]
        )
        on_device = (torch.as_tensor(part, device=self.device) for part in (development, test))
        return Places(train, *on_device)
