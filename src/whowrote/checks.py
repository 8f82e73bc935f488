"""Validation in one sentence each: the name, the value, the requirement and the cure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from whowrote.arrays import IntArray
from whowrote.errors import InputError, did_you_mean

if TYPE_CHECKING:
    import torch


MOST_SEED = 2**32 - 1
TINY = 5e-324
"""The least number above 0."""


def shown(value: Any) -> str:
    """A value for a sentence; an integer of thousands of digits, which cannot be spelt, in words.

    >>> shown(0.5), shown(10**5000)
    ('0.5', 'an integer of 16610 bits')
    """
    if isinstance(value, int) and value.bit_length() > 1000:
        return f"an integer of {value.bit_length()} bits"
    return repr(value)


def at_least(name: str, value: Any, low: float, *, integer: bool = False) -> None:
    """Require a finite number that is not below ``low``."""
    kind = Integral if integer else Real
    good = isinstance(value, kind) and not isinstance(value, bool) and _between(value, low, np.inf)
    if not good:
        what = "an integer" if integer else "a number"
        raise InputError(f"{name} is {shown(value)}; it must be {what} of at least {low:g}")


def _between(value: Any, low: float, high: float) -> bool:
    """Compared as they are: an integer may be too large for a float."""
    return bool(low <= value < high)


def above_zero(name: str, value: Any) -> None:
    """Require a positive finite number."""
    if not (isinstance(value, Real) and _between(value, TINY, np.inf)):
        raise InputError(f"{name} is {shown(value)}; it must be a number above 0")


def fraction(name: str, value: Any) -> None:
    """Require a number in [0, 1)."""
    if not (isinstance(value, Real) and _between(value, 0, 1)):
        raise InputError(f"{name} is {shown(value)}; it must be at least 0 and below 1")


def seed(name: str, value: Any) -> None:
    """Require a whole number that numpy and scikit-learn both take as a seed: 32 bits."""
    good = isinstance(value, Integral) and not isinstance(value, bool)
    if not (good and 0 <= int(value) <= MOST_SEED):
        raise InputError(
            f"{name} is {shown(value)}; it must be a whole number from 0 to {MOST_SEED}"
        )


def one_of(name: str, value: Any, choices: Sequence[str]) -> None:
    """Require one of a few words, and guess which was meant."""
    if value not in choices:
        hint = did_you_mean(str(value), choices)
        raise InputError(f"{name} is {value!r}; it must be one of {', '.join(choices)}{hint}")


def choose_device(name: str | torch.device | None = None) -> torch.device:
    """The torch device for 'cpu', 'cuda', 'cuda:1' or 'mps'; None and 'auto' are the best there is.

    >>> choose_device("cpu")
    device(type='cpu')
    """
    import torch  # not above: who only counts n-grams does not wait for it

    asked = "auto" if name is None else str(name)
    counts = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": torch.mps.device_count()}
    kind, _, index = asked.partition(":")
    if kind not in counts or not (kind == asked or index.isdecimal()):
        one_of("device", asked, ("auto", *counts))
    if kind == "auto":
        kind = next(one for one in ("cuda", "mps", "cpu") if counts[one])
    if int(index or 0) >= counts[kind]:
        raise InputError(f"device is {asked!r}, which this machine has not; use 'auto' or 'cpu'")
    if kind == "cuda":  # with its number: every process of a distributed run has a GPU of its own
        return torch.device(kind, int(index or torch.cuda.current_device()))
    return torch.device(asked if index else kind)


def random_numbers(random_state: Any) -> np.random.RandomState:
    """Random numbers from what scikit-learn takes as a seed, or from a generator of numpy.

    A ``Generator`` or ``BitGenerator`` is drawn from: used twice, it gives other numbers.

    >>> generator = np.random.default_rng(0)
    >>> random_numbers(generator).randint(100) == random_numbers(generator).randint(100)
    False
    """
    if isinstance(random_state, np.random.Generator):
        return np.random.RandomState(random_state.bit_generator)
    if isinstance(random_state, np.random.BitGenerator):
        return np.random.RandomState(random_state)
    from sklearn.utils import check_random_state

    if isinstance(random_state, Integral):
        seed("random_state", random_state)
    numbers: np.random.RandomState = check_random_state(random_state)
    return numbers


def all_finite(X: Any) -> None:
    """Require every value of X to be finite, and name the first that is not."""
    is_sparse = sparse.issparse(X)
    matrix: Any = X
    values = matrix.data if is_sparse else matrix
    good = np.isfinite(values)
    if good.all():
        return
    if is_sparse:
        coordinates = matrix.tocoo()
        place = int(np.flatnonzero(~good)[0])
        row, column = int(coordinates.row[place]), int(coordinates.col[place])
        value = values[place]
    else:
        row, column = (int(i) for i in np.argwhere(~good)[0])
        value = X[row, column]
    shown = "NaN" if np.isnan(value) else "infinity (inf)"
    raise InputError(
        f"X contains {shown} in row {row}, column {column}; every value must be finite: "
        "drop or impute such rows"
    )


MOST_VALUE = 1e150
"""Squares of larger numbers do not fit a float."""


def computable(X: Any) -> None:
    """Require every value of X to be finite, and its square too."""
    all_finite(X)
    matrix: Any = X
    values = matrix.data if sparse.issparse(X) else matrix
    most = float(np.abs(values).max(initial=0.0))
    if most > MOST_VALUE:
        raise InputError(
            f"X has a value of size {most:.3g}; at most {MOST_VALUE:g} can be computed with: look "
            "for a wrong value, or divide its column by a constant"
        )


def two_classes(classes: NDArray[Any]) -> None:
    """Require at least two classes."""
    if len(classes) < 2:
        raise InputError(
            f"y has one class only, {classes.tolist()[0]!r}; a classifier needs at least two "
            "classes: add texts by another author"
        )


def two_rows_each(classes: NDArray[Any], counts: NDArray[Any]) -> None:
    """Require at least two rows of every class."""
    if counts.min() < 2:
        rare = classes.tolist()[int(np.argmin(counts))]
        raise InputError(
            f"class {rare!r} has 1 row; each class needs at least 2: add texts or leave it out"
        )


def fold_numbers(folds: Any, labels: IntArray, n_members: int) -> IntArray:
    """Require a fold per row, and rows of every class outside of every fold."""
    numbers = np.asarray(folds)
    if numbers.shape != labels.shape or numbers.dtype.kind not in "iu":
        raise InputError(
            f"folds has the shape {numbers.shape} and type {numbers.dtype}; it must be one whole "
            f"number for each of {len(labels)} rows"
        )
    if numbers.min() < 0 or numbers.max() >= n_members:
        raise InputError(
            f"folds has numbers from {numbers.min()} to {numbers.max()}; each fold is one of the "
            f"n_members={n_members} members: number them from 0 to {n_members - 1}"
        )
    for fold in range(n_members):
        missing = np.setdiff1d(labels, labels[numbers != fold])
        if len(missing):
            raise InputError(
                f"all rows of class number {missing[0]} are in fold {fold}; a member must learn "
                "every class from other folds: spread the rows of each class"
            )
    return numbers.astype(np.int64)


def callbacks_of(callbacks: Any) -> tuple[Callable[[dict[str, Any]], object], ...]:
    """One callable, several, or None, as a tuple."""
    given = () if callbacks is None else (callbacks,) if callable(callbacks) else callbacks
    if not isinstance(given, (tuple, list)) or not all(map(callable, given)):
        raise InputError(
            f"callbacks is {callbacks!r}; it must be a callable or a list of callables that take "
            "the record of an epoch, a dictionary"
        )
    return tuple(given)
