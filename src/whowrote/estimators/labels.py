"""Labels in: classes and class numbers of rows, which of them are missing, and what rows weigh.

``None``, NaN and ``pandas.NA`` say that a label is missing. So does -1 among integers, as in
scikit-learn's ``LabelSpreading``, where the other labels are at least two and none is negative: in
{-1, +1} and in {-2, -1, 0} it is a class like the others, and in {-1, 0, 1}, which can be read both
ways, it is missing and a :class:`~whowrote.errors.DataWarning` says so.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets

from whowrote import checks, private
from whowrote.arrays import FloatArray, IntArray
from whowrote.errors import DataWarning, InputError, did_you_mean
from whowrote.estimators.vector_table import VectorTable
from whowrote.model.fleet import UNLABELLED


class Labels(NamedTuple):
    """The classes of y in order, and the class number of every row, -1 where it is unknown."""

    classes: NDArray[Any]
    codes: IntArray


def read_labels(y: Any, n_rows: int) -> Labels:
    """Labels of ``n_rows`` rows, of at least two classes.

    >>> read_labels(["b", None, "a", "b"], 4).codes.tolist()
    [1, -1, 0, 1]
    """
    if y is None:
        raise InputError(
            "requires y to be passed, but the target y is None: give an author per row, or use "
            "MixtureVAEClusterer, which needs none"
        )
    y = _checked(y)
    if len(y) != n_rows:
        raise InputError(
            f"X and y have inconsistent numbers of samples, {n_rows} rows and {len(y)} labels; "
            "give one label per row"
        )
    unknown = unlabelled(y)
    if unknown.all():
        raise InputError(
            f"all {len(y)} labels are missing; label some rows or use MixtureVAEClusterer"
        )
    named = np.array(y[~unknown].tolist()) if y.dtype == object else y[~unknown]
    check_classification_targets(named)
    classes, own, counts = np.unique(named, return_inverse=True, return_counts=True)
    checks.two_classes(classes)
    if not unknown.any():
        checks.two_rows_each(classes, counts)
    codes = np.full(len(y), UNLABELLED, dtype=np.int64)
    codes[~unknown] = own
    return Labels(classes, codes)


def labels_of(X: Any, y: Any) -> Labels:
    """The labels of rows: of a table, unless y is given, its own.

    A table has millions: what is missing and what is a class is decided on the different ones.
    """
    if y is not None or not isinstance(X, VectorTable):
        return read_labels(y, X.shape[0])
    different, found = np.array(X.distinct, dtype=object), X.times
    unknown = unlabelled(different)
    if unknown.all():
        raise InputError(
            f"all {len(X)} labels of '{X.path}' are missing; label some rows or use "
            "MixtureVAEClusterer on an array"
        )
    classes, own = np.unique(np.array(different[~unknown].tolist()), return_inverse=True)
    checks.two_classes(classes)
    if not unknown.any():
        checks.two_rows_each(classes, found[np.argsort(own)])
    number = np.full(len(different), UNLABELLED, dtype=np.int64)
    number[~unknown] = own
    return Labels(classes, X.numbered(number))  # type: ignore[arg-type]  # half as long


def unlabelled(y: NDArray[Any]) -> NDArray[np.bool_]:
    """None, NaN or NA among names; -1 among integers of which two or more others are not negative.

    >>> unlabelled(np.array(["a", None], dtype=object)), unlabelled(np.array([0, 7, -1]))
    (array([False,  True]), array([False, False,  True]))
    >>> unlabelled(np.array([1, -1])), unlabelled(np.array([-2, -1, 0]))
    (array([False, False]), array([False, False, False]))
    """
    missing = np.zeros(len(y), dtype=bool)
    if y.dtype == object:
        missing = np.array([_is_missing(name) for name in y], dtype=bool)
        if not all(isinstance(name, Integral) for name in y[~missing]):
            return missing
    elif not np.issubdtype(y.dtype, np.signedinteger):
        return missing
    missing[~missing] = _means_unlabelled(y[~missing].astype(np.int64))
    return missing


def _is_missing(name: Any) -> bool:
    try:
        return name is None or bool(name != name)
    except TypeError:  # pandas.NA is neither equal to itself nor not
        return True


def _means_unlabelled(numbers: IntArray) -> NDArray[np.bool_]:
    """Which of these whole numbers are a -1 that means a missing label."""
    found: NDArray[np.bool_] = numbers == UNLABELLED
    others = np.unique(numbers[~found]).tolist()
    if len(others) == 1 or (others and others[0] < 0):
        return np.zeros_like(found)
    if found.any() and others == [0, 1]:
        warnings.warn(
            f"y has the values -1, 0 and 1: the {int(found.sum())} rows of -1 are taken as "
            "unlabelled, not as a class; for three classes give names, y.astype(str), and for "
            "unlabelled rows without this warning None, np.where(y == -1, None, y)",
            DataWarning,
            stacklevel=5,  # where fit was called
        )
    return found


def _checked(y: Any) -> NDArray[Any]:
    """One column; objects as they are, so that what is missing can be told from a name."""
    if hasattr(y, "isna") and not isinstance(y.dtype, np.dtype):
        y = y.astype(object)  # pandas would turn an NA among its own integers into a float
    as_array = np.asarray(y)
    if as_array.dtype.kind == "U" and isinstance(y, (list, tuple)):
        as_array = np.array(y, dtype=object)  # numpy would turn a NaN among names into "nan"
    if as_array.dtype == object and as_array.ndim == 1:
        return as_array
    return np.asarray(private.checked_y(y))


def codes_of(y: Any, classes: NDArray[Any], n_rows: int) -> IntArray:
    """The class numbers of validation rows, each of which must have a class that was learnt."""
    y = _checked(y)
    if len(y) != n_rows:
        raise InputError(
            f"validation has {n_rows} rows and {len(y)} labels; give one label per row"
        )
    number = {name: code for code, name in enumerate(classes.tolist())}
    for row, name in enumerate(y.tolist()):
        if _is_missing(name) or name not in number:
            raise InputError(
                f"row {row} of validation has the label {name!r}, which is not among the classes "
                f"{classes.tolist()} of y; leave the row out"
            )
    return np.array([number[name] for name in y.tolist()], dtype=np.int64)


# -- weights -------------------------------------------------------------------------------------


def row_weights(sample_weight: Any, class_weight: Any, labels: Labels) -> FloatArray | None:
    r"""How much every row counts, :math:`w_n = s_n c_{y_n}`; None where all count alike.

    ``"balanced"`` is :math:`c_k = \sum_n s_n / (K \sum_{n: y_n = k} s_n)` over labelled rows. The
    unlabelled have no class weight. A class of which no row counts cannot be learnt and is refused.
    """
    if sample_weight is None and class_weight is None:
        return None
    codes = labels.codes
    weights = _sample_weights(sample_weight, len(codes))
    known = codes != UNLABELLED
    counts: FloatArray = np.zeros(len(labels.classes))
    np.add.at(counts, codes[known], weights[known])
    if class_weight is not None:
        by_class = _class_weights(class_weight, labels.classes, counts)
        weights[known] *= by_class[codes[known]]
        counts = counts * by_class
    if not counts.all():
        lost = labels.classes.tolist()[int(np.argmin(counts))]
        raise InputError(
            f"all rows of class {lost!r} have zero weight; a class is learnt from rows that count: "
            "give one of them a weight above 0 or leave the class out"
        )
    return weights


def _sample_weights(sample_weight: Any, n_rows: int) -> FloatArray:
    if sample_weight is None:
        return np.ones(n_rows)
    weights = np.array(sample_weight, dtype=np.float64)
    weights = np.full(n_rows, weights) if weights.ndim == 0 else weights
    if weights.shape != (n_rows,):
        raise InputError(
            f"sample_weight has the shape {weights.shape}; it must be one number for each of "
            f"{n_rows} rows"
        )
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(
            f"sample_weight is {weights[row]:g} in row {row}; weights must be finite and at least "
            "0, which leaves a row out"
        )
    if not weights.any():
        raise InputError(f"all {n_rows} sample weights are zero; give some rows a weight above 0")
    return weights


def _class_weights(class_weight: Any, classes: NDArray[Any], counts: FloatArray) -> FloatArray:
    """The weight of every class, from ``"balanced"`` or a dictionary; 1 where it names none."""
    names = classes.tolist()
    if isinstance(class_weight, str) and class_weight == "balanced":
        return np.asarray(counts.sum() / (len(names) * np.where(counts > 0, counts, 1)))
    if not isinstance(class_weight, Mapping):
        raise InputError(
            f"class_weight is {class_weight!r}; it must be None, 'balanced' or a dictionary of "
            "classes and their weights"
        )
    for name, weight in class_weight.items():
        if name not in names:
            hint = did_you_mean(str(name), [str(one) for one in names])
            raise InputError(f"class_weight names {name!r}, which is not among {names}{hint}")
        checks.at_least(f"class_weight of {name!r}", weight, 0)
    return np.array([float(class_weight.get(name, 1.0)) for name in names])
