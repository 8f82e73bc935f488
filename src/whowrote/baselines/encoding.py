"""Names of classes in, numbers out: what every baseline does to its labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets

from whowrote.errors import InputError


@dataclass(frozen=True)
class Encoded:
    """Sorted names of the classes, and each row's number among them."""

    classes: NDArray[Any]
    codes: NDArray[np.intp]


def encode(y: ArrayLike) -> Encoded:
    """Number the classes in the order of their names; there must be at least two.

    >>> encode(["bob", "ann", "bob"]).codes.tolist()
    [1, 0, 1]
    """
    check_classification_targets(y)
    classes, codes = np.unique(np.asarray(y), return_inverse=True)
    if len(classes) < 2:
        raise InputError(
            f"y has one class only, {classes[0]!s}; a classifier needs at least two classes: add "
            "texts by another author"
        )
    return Encoded(classes, codes.astype(np.intp))
