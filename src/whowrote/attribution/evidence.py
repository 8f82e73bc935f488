r"""What a model says of texts, before it is weighed.

For every text and author: the summed evidence of the passages, the log density of the latent, and
the figures by which it is judged whether the text is like the author's others,

.. math:: s_{kv}(x), \qquad \frac1m \sum_i \ln p(k \mid o_i), \qquad
    \frac1m \sum_i c_k(o_i)

the last one for sparse features, in the last view, and NaN for authors enrolled later, who have no
contrast of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whowrote.attribution.profiles import Profiles, text_rows
from whowrote.attribution.reading import Read
from whowrote.calibration import per_text

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.intp]


@dataclass(frozen=True)
class Evidence:
    """What the model says of texts under every author, a row each."""

    counts: IntArray
    words: IntArray
    log_likelihood: FloatArray
    """Sum over passages of ln p(author | passage) - ln p(author)."""
    log_density: FloatArray
    """Mean over passages of the log density of the latent."""
    figures: FloatArray
    """(texts, authors, J): how like the author's others the text is, larger is more."""


def mean_per_text(values: FloatArray, read: Read) -> FloatArray:
    """Means over the passages of each text."""
    return np.asarray(per_text(values, read.passages.document) / read.passages.counts[:, None])


def figures(
    read: Read, log_proba: FloatArray, profiles: Profiles, n_contrasts: int | None
) -> FloatArray:
    """(texts, authors, J); ``n_contrasts`` is how many authors have contrasts, None for none."""
    means = mean_per_text(log_proba, read)
    parts = [profiles.nearness(text_rows(read)), means[..., None]]
    if n_contrasts is not None:
        own = np.full_like(means, np.nan)
        own[:, :n_contrasts] = mean_per_text(read.V[:, -n_contrasts:], read)
        parts.append(own[..., None])
    return np.concatenate(parts, axis=-1)
