"""What the estimators return when one array is not enough."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating[Any]]


class Sample(NamedTuple):
    """Draws of the generative story, a row each; observations are in the units of X."""

    observations: FloatArray
    latents: FloatArray
    scales: FloatArray
    classes: NDArray[Any]


class Decoded(NamedTuple):
    """The distribution of the observation given a latent: mean and standard deviation."""

    mean: FloatArray
    scale: FloatArray
