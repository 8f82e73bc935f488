r"""Standing of a pair among the nearest of both: adaptive symmetric normalisation.

.. math:: z_{ij} = \tfrac12 \left(\frac{c_{ij} - m_{i \setminus j}}{s_{i \setminus j}}
    + \frac{c_{ij} - m_{j \setminus i}}{s_{j \setminus i}}\right)

:math:`m_{i \setminus j}` and :math:`s_{i \setminus j}` are the mean and the spread of the cosines
of the accounts nearest to *i*, without *j*. Some accounts are near to everybody; a cosine counts by
how far it stands out of what is usual for both. In speaker recognition it is known as AS-norm.
"""

from __future__ import annotations

import numpy as np

from whowrote.arrays import FloatArray, IntArray
from whowrote.linking.accounts import Unit
from whowrote.linking.pruning import Neighbours

COHORT = 20
"""Nearest accounts that say what is usual."""
LEAST_SPREAD = 1e-3


def cohort_size(accounts: int) -> int:
    """How many of so many accounts are the nearest.

    >>> cohort_size(1000), cohort_size(40)
    (20, 10)
    """
    return int(np.clip(accounts // 4, 2, COHORT))


def standing(
    cosines: FloatArray, pairs: IntArray, left: Neighbours, right: Neighbours
) -> FloatArray:
    """Of some pairs; the last neighbour is there to fill in for one that is the target."""
    one = _side(cosines, pairs[:, 0], pairs[:, 1], left)
    other = _side(cosines, pairs[:, 1], pairs[:, 0], right)
    return (one + other) / 2.0


def _side(cosines: FloatArray, own: IntArray, target: IntArray, near: Neighbours) -> FloatArray:
    total = near.cosines.sum(axis=1, dtype=np.float64)[own]
    squares = (near.cosines.astype(np.float64) ** 2).sum(axis=1)[own]
    dropped = near.cosines[own, -1].astype(np.float64)
    for column in range(near.ids.shape[1]):
        hit = near.ids[own, column] == target
        dropped[hit] = near.cosines[own[hit], column]
    return _standardised(cosines, total, squares, dropped, near.ids.shape[1] - 1)


def _standardised(
    cosines: FloatArray, total: FloatArray, squares: FloatArray, dropped: FloatArray, count: int
) -> FloatArray:
    mean = (total - dropped) / count
    spread = np.sqrt(np.maximum((squares - dropped**2) / count - mean**2, LEAST_SPREAD**2))
    return np.asarray((cosines - mean) / spread)


def standing_of_all(
    first: Unit, second: Unit, left: Neighbours, right: Neighbours, number: IntArray
) -> FloatArray:
    """(m, m): every row of ``first`` with every one of ``second``.

    ``number`` is how the neighbours call the rows. Row *i* of both is one account, whose standing
    with itself is on the diagonal: what a matched pair looks like.
    """
    cosines = first.astype(np.float64) @ second.T
    return (_all(cosines, left, number) + _all(cosines.T, right, number).T) / 2.0


def _all(cosines: FloatArray, near: Neighbours, number: IntArray) -> FloatArray:
    values = near.cosines.astype(np.float64)
    dropped = np.repeat(values[:, -1:], len(number), axis=1)
    order = np.argsort(number)
    place = np.searchsorted(number[order], near.ids).clip(max=len(number) - 1)
    known = number[order][place] == near.ids
    row, column = np.nonzero(known)
    dropped[row, order[place[row, column]]] = values[row, column]
    total, squares = values.sum(axis=1)[:, None], (values**2).sum(axis=1)[:, None]
    return _standardised(cosines, total, squares, dropped, values.shape[1] - 1)
