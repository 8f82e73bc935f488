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
