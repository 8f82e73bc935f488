r"""Where the authors stand: the plane in which they differ most, and how far apart they are.

.. math:: x \mapsto P^\top x, \qquad \mu_k \mapsto P^\top \mu_k, \qquad
    \Sigma_k \mapsto P^\top \Sigma_k P

The columns of :math:`P` are the first two principal components of the K means. If :math:`x` is
Student-t, so is :math:`P^\top x`, with this location, this scale matrix and the same degrees of
freedom: what the map shows of an author is their own marginal, not a picture of it. The distance is
Mahalanobis', measured with the mean of the two scale matrices, which makes it symmetric:

.. math:: d_{kl}^2 = (\mu_k - \mu_l)^\top
    \left(\tfrac12 (\Sigma_k + \Sigma_l)\right)^{-1} (\mu_k - \mu_l)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whowrote.arrays import FloatArray
from whowrote.errors import InputError


@dataclass(frozen=True)
class LatentMap:
    """Texts and components in the plane; ``groups`` counts into ``names``, -1 is unknown."""

    points: FloatArray
    """(n, 2)."""
    groups: NDArray[np.intp]
    names: tuple[str, ...]
    means: FloatArray
    """(K, 2)."""
    scales: FloatArray
    """(K, 2, 2)."""


def plane(means: ArrayLike) -> FloatArray:
    """P (D, 2), orthonormal: the principal components of the means (K, D).

    Two authors differ along one direction only; the second is then any that is orthogonal to it.
    Signs are such that the largest entry of a column is positive, so a map never flips.

    >>> plane([[0.0, 3.0, 0.0], [0.0, -3.0, 0.0], [1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]]).T.tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    """
    table = _checked_means(means)
    if table.shape[1] < 2:
        raise InputError(
            "means has 1 dimension; a plane needs two or more: train with latent_dim=2 or larger"
        )
    axes = np.linalg.svd(table - table.mean(axis=0))[2][:2]
    largest = np.abs(axes).argmax(axis=1)
    return np.asarray((axes * np.sign(axes[[0, 1], largest])[:, None]).T + 0.0)


def latent_map_of(
    latents: ArrayLike,
    codes: ArrayLike,
    names: Sequence[Any],
    means: ArrayLike,
    scales: ArrayLike,
) -> LatentMap:
    """Project latents (n, D), means (K, D) and scale matrices (K, D, D) to the plane of the means.

    ``codes`` has the number of each text's author among ``names``, -1 where they are unknown.
    """
    centres = _checked_means(means)
    spreads = _checked_scales(scales, centres)
    texts, groups = np.asarray(latents, dtype=np.float64), np.asarray(codes, dtype=np.intp)
    _check_texts(texts, groups, centres, len(names))
    P = plane(centres)
    return LatentMap(
        points=texts @ P,
        groups=groups,
        names=tuple(str(name) for name in names),
        means=centres @ P,
        scales=P.T @ spreads @ P,
    )


def author_distances(means: ArrayLike, scales: ArrayLike) -> FloatArray:
    """The distance d (K, K) between every two components, in scales of the two.

    >>> author_distances([[0.0], [6.0]], [[[1.0]], [[7.0]]]).tolist()
    [[0.0, 3.0], [3.0, 0.0]]
    """
    centres = _checked_means(means)
    spreads = _checked_scales(scales, centres)
    squared = np.zeros((len(centres), len(centres)))
    for k in range(len(centres)):  # row by row: all pairs at once would hold K * K matrices
        apart = centres[k] - centres[:k]
        solved = np.linalg.solve((spreads[k] + spreads[:k]) / 2.0, apart[:, :, None])
        squared[k, :k] = (apart * solved[:, :, 0]).sum(axis=1)
    return np.sqrt(squared + squared.T)


def _checked_means(means: ArrayLike) -> FloatArray:
    table = np.asarray(means, dtype=np.float64)
    if table.ndim != 2 or 0 in table.shape or not np.isfinite(table).all():
        raise InputError(
            f"means has shape {table.shape} or an entry that is no number; it must be (K, D), a "
            "row per author: give means_ of a fitted model"
        )
    return table


def _checked_scales(scales: ArrayLike, means: FloatArray) -> FloatArray:
    table = np.asarray(scales, dtype=np.float64)
    if table.shape != (*means.shape, means.shape[1]):
        raise InputError(
            f"scales has shape {table.shape} for means {means.shape}; it must be (K, D, D), a "
            "matrix per author: give scales_ of the same model"
        )
    smallest = np.linalg.eigvalsh(table).min(axis=1)
    worst = int(smallest.argmin())
    if not smallest[worst] > 0.0:
        raise InputError(
            f"scales[{worst}] has the eigenvalue {smallest[worst]:.3g}; a scale matrix must be "
            "positive definite: give scales_ of a fitted model"
        )
    return table


def _check_texts(
    latents: FloatArray, codes: NDArray[np.intp], means: FloatArray, n_names: int
) -> None:
    if latents.ndim != 2 or latents.shape[1] != means.shape[1] or codes.shape != (len(latents),):
        raise InputError(
            f"latents has shape {latents.shape} and codes {codes.shape} for means {means.shape}; "
            "they must be (n, D) and (n,): give transform(V) and the authors' numbers"
        )
    if n_names != len(means):
        raise InputError(
            f"names has {n_names} entries for {len(means)} means; there must be one per author: "
            "give classes_ of the same model"
        )
    if len(codes) and not -1 <= codes.min() <= codes.max() < n_names:
        raise InputError(
            f"codes has {codes.min()} to {codes.max()}; a code must be -1 (unknown) or the number "
            f"of one of {n_names} authors: count from 0 in the order of names"
        )
