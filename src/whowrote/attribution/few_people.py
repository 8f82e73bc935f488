r"""Strangers where too few people are enrolled to play them: how near other people's texts come.

.. math:: s = b' \left( 1,\; c,\; c\, w,\; w,\; \tfrac1n,\; \ln K \right), \qquad
    p(s) = \text{the share of strangers' texts with a larger } s

*c* is the nearness of the style vector to the nearest of *K* authors with *n* texts each
(:mod:`whowrote.attribution.profiles`) and :math:`w = \ln(\text{words}) - 5`. The curve comes with
the package for the extractor it was learnt with: from simulated cases of two to five authors among
people whom that extractor has never seen, in several domains (``experiments/few_people.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from whowrote.arrays import FloatArray, IntArray
from whowrote.attribution.population import packaged_for
from whowrote.features.interface import FittedFeatures

MIDDLE = 5.0
"""ln of some 150 words."""


@dataclass(frozen=True)
class FewPeople:
    """The curve of one extractor."""

    weights: FloatArray
    reference: FloatArray
    """Quantiles of strangers' s at equal distances, ascending."""
    people: int

    @classmethod
    def of(cls, features: FittedFeatures) -> FewPeople | None:
        """That of the features' extractor; None without one."""
        found = next(iter(packaged_for(features)), {})
        return cls.from_dict(found["strangers"]) if "strangers" in found else None

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """The opposite of :meth:`to_dict`."""
        return cls(np.array(plain["weights"]), np.array(plain["reference"]), plain["people"])

    def to_dict(self) -> dict[str, Any]:
        """Plain values, rounded to six digits."""
        rounded = [[float(f"{x:.6g}") for x in one] for one in (self.weights, self.reference)]
        return {"weights": rounded[0], "reference": rounded[1], "people": self.people}

    def share(
        self, nearness: FloatArray, words: IntArray, texts: float, authors: int
    ) -> FloatArray:
        """p for texts of so many words, each with its nearness to the nearest author."""
        scores = columns(nearness, words, texts, authors) @ self.weights
        rank = np.linspace(1.0, 0.0, len(self.reference))
        return np.asarray(np.interp(scores, self.reference, rank))


def columns(nearness: FloatArray, words: IntArray, texts: float, authors: int) -> FloatArray:
    """(texts, 6): what s is a sum of."""
    w, one = np.log(np.maximum(words, 1)) - MIDDLE, np.ones(len(words))
    parts = [one, nearness, nearness * w, w, one / texts, one * np.log(authors)]
    return np.stack(parts, axis=1)
