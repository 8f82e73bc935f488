"""The arrays that functions take and give: named once, so that every signature says the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Arrays = Mapping[str, NDArray[Any]]
"""Arrays by name, as a file holds them."""


def per_text(values: FloatArray, document: IntArray) -> FloatArray:
    """Sums of the rows of each text, (texts, columns).

    >>> per_text(np.array([[1.0], [2.0], [4.0]]), np.array([0, 0, 1])).tolist()
    [[3.0], [4.0]]
    """
    sums = np.zeros((int(document.max()) + 1, values.shape[1]))
    np.add.at(sums, document, values)
    return sums
