r"""The packaged population: how alike texts of one person are, and of two, domain by domain.

.. math:: \mathrm{LR} = \frac{P}{1 - P}, \qquad
    P = \sum_{d=1}^D \pi_d\, \sigma(\kappa \alpha_d + \beta_d \ell_d), \qquad
    \ell_d = c_d + v_d \cos(\tilde x, \tilde y) + w_d \ln \lVert \tilde x - \tilde y \rVert

for the mean style vectors *x* and *y* of both sides about their centre. Every draw *d* is a curve
that another domain might have: learnt from other samples of domains and people, moved by
:math:`\alpha_d = s_\alpha(u) z_d` and made steeper or flatter by
:math:`\ln \beta_d = s_\beta(u) z'_d - s_\beta^2(u) / 2`, with standard normal *z* and spreads that
are linear in *u*; :math:`\kappa = \bar n / (\bar n + 50)`, as likeness says less in short texts.
Where the draws do not agree the ratio is near 1, and they are its interval.

.. math:: \pi_d \propto \exp \Bigl(\sum_a \operatorname{mean}_{\text{same}, a} \ln \sigma(l_d)
    + k \operatorname{mean}_{\text{different}} \ln \sigma(-l_d)\Bigr)

Before a user's own authors were seen all draws count alike. The likeness of those authors' own
texts, of one author and of two, tells which draws are like the user's domain: :math:`l_d` is what
draw *d* says of such a pair, about the centre of all others, *a* an author with two parts that
share no text, *k* how many there are.

.. math:: f = f_0 + f_1 h + f_2 h^2 + f_3 \delta + f_4 u + f_5 u h, \qquad f \in \{c, v, w\}

:math:`h = (\ln \bar n - 5) / 2` is the length of the sides by the harmonic mean of their words,
:math:`\delta = \lvert \ln n_1 - \ln n_2 \rvert / 3` how unequal they are, and
:math:`u = 1 / (m + 1)` how much of the centre is unknown with *m* reference authors. What all texts
of a place share makes every cosine there large and no distance small: the distance needs no centre.
The curve comes with the package, for the extractor it was learnt with: from people whom that
extractor has never seen (``experiments/population.py``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.special import expit, log_expit, logit, softmax

from whowrote.arrays import BoolArray, FloatArray, IntArray
from whowrote.attribution.answers import Reference, words_of
from whowrote.attribution.profiles import mean_rows, row_products, unit_rows
from whowrote.attribution.rows import cut_all
from whowrote.features.fitted_features import FittedAdHominem, FittedHybrid, FittedStyle
from whowrote.features.interface import FittedFeatures
from whowrote.files import canonical_hash

PRETRAINED = Path(__file__).parents[1] / "features" / "pretrained"
POPULATIONS = PRETRAINED / "populations.json"
VECTORS = "style vectors"
HALF_POWER = 40.0
"""A text of so many words shows half of the variance that a long one shows."""
HALF_SHIFT = 50.0
"""Sides of so many words are moved half as much from domain to domain as long ones."""
LEAST_APART, LEAST_PROBABILITY = 1e-6, 1e-12
"""So that equal texts have a distance, and no ratio is infinite."""


# -- sides and how alike they are ----------------------------------------------------------------


@dataclass(frozen=True)
class Sides:
    """What is compared: rows of every kind, and the words of each side."""

    rows: Mapping[str, Any]
    words: IntArray

    def distances(self, pairs: IntArray) -> FloatArray:
        """(pairs,): ln of how far the style vectors of the two sides are apart."""
        rows = self.rows[VECTORS]
        apart = ((rows[pairs[:, 0]] - rows[pairs[:, 1]]) ** 2).sum(axis=1)
        return np.asarray(0.5 * np.log(np.maximum(apart, LEAST_APART)))

    def similarities(self, pairs: IntArray) -> FloatArray:
        """(pairs, kinds): cosines of the two sides."""
        found = [_cosines(rows, pairs) for rows in self.rows.values()]
        return np.stack(found, axis=1)


def _cosines(rows: Any, pairs: IntArray) -> FloatArray:
    """Of pairs of rows, dense or sparse; 0 for rows of zeros."""
    if isinstance(rows, np.ndarray):
        lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        dense = rows / np.where(lengths > 0, lengths, 1.0)[:, None]
        return np.asarray(np.einsum("ij,ij->i", dense[pairs[:, 0]], dense[pairs[:, 1]]))
    unit = unit_rows(sparse.csr_matrix(rows))
    return row_products(unit[pairs[:, 0]], unit[pairs[:, 1]])


def extractor_of(features: FittedFeatures) -> FittedAdHominem | None:
    """The neural extractor of features, if they have one."""
    dense = features.dense if isinstance(features, FittedHybrid) else features
    return dense if isinstance(dense, FittedAdHominem) else None


def read_by_extractor(extractor: FittedAdHominem, texts: Sequence[str]) -> Sides:
    """Mean vectors of passages."""
    passages = cut_all(texts)
    vectors = mean_rows(passages, extractor.transform(passages.texts))
    return Sides({VECTORS: np.asarray(vectors, dtype=np.float64)}, words_of(texts))


def shown(words: IntArray) -> FloatArray:
    """r(n): how much of their author, and of what all authors share, texts of n words show.

    >>> shown(np.array([10, 120])).round(2).tolist()
    [0.45, 0.87]
    """
    return np.asarray(np.sqrt(words / (words + HALF_POWER)))


# -- the packaged population ---------------------------------------------------------------------


def figures(sides: Sides, pairs: IntArray, authors: FloatArray, most: float) -> FloatArray:
    """(pairs, 18): 1, the cosine and ln of the distance, each times 1, h, h squared, d, u and u h.

    ``authors`` is m for each pair; sides of more than ``most`` words count as so long.
    """
    left, right = np.log(np.minimum(sides.words[pairs], most).T.astype(np.float64))
    h = (np.log(2.0) - np.logaddexp(-left, -right) - 5.0) / 2.0
    u = 1.0 / (authors + 1.0)
    shape = np.stack([np.ones_like(h), h, h * h, np.abs(left - right) / 3.0, u, u * h], axis=1)
    cosine, distance = sides.similarities(pairs)[:, :1], sides.distances(pairs)[:, None]
    return np.concatenate([shape, cosine * shape, distance * shape], axis=1)


def over_draws(log_lr: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """(pairs, 1 + draws): before the draws the ratio of the mean probability over them.

    With ``weights`` the mean is by them, and every draw is there as often as it weighs.

    >>> over_draws(np.array([[-3.0, 5.0]])).round(2).tolist()
    [[0.08, -3.0, 5.0]]
    >>> over_draws(np.array([[-3.0, 5.0]]), np.array([0.0, 1.0])).round(2).tolist()
    [[5.0, 5.0, 5.0]]
    """
    n = log_lr.shape[1]
    share = np.full(n, 1.0 / n) if weights is None else weights
    mean = np.clip(expit(log_lr) @ share, LEAST_PROBABILITY, 1.0 - LEAST_PROBABILITY)
    at = np.searchsorted(np.cumsum(share), (np.arange(n) + 0.5) / n)
    return np.column_stack([logit(mean), log_lr[:, np.minimum(at, n - 1)]])


@dataclass(frozen=True)
class KnownPairs:
    """Pairs of sides by reference authors, each about the centre of all others."""

    columns: FloatArray
    """(pairs, 18): their figures."""
    authors: FloatArray
    """(pairs,): how many found the centre."""
    same: BoolArray
    owner: IntArray
    """(pairs,): who wrote the first side."""


@dataclass(frozen=True)
class Population:
    """The packaged curve for one extractor, and the people it was learnt from."""

    people: Mapping[str, int]
    """How many, by domain."""
    reach: tuple[tuple[float, int], ...]
    """(words, people): how many people have shown two sides at least so long; rising words."""
    draws: FloatArray
    """(samples, 18): the curves of other samples of domains and people, each for several draws."""
    normals: FloatArray
    """(draws, 2): where among all domains each draw has its own, for the shift and the slope."""
    spread: FloatArray
    """(2, 2): of the shift and of the slope, with the centre known and with none."""

    @classmethod
    def of(cls, features: FittedFeatures) -> Population | None:
        """That of the features' extractor, known by the hash of its weights; None without one."""
        known = (one for one in packaged_for(features) if "normals" in one)
        return next((cls.from_dict(one) for one in known), None)

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """The opposite of :meth:`to_dict`."""
        reach = tuple((float(words), int(people)) for words, people in plain["reach"])
        arrays = (np.array(plain[name]) for name in ("draws", "normals", "spread"))
        return cls(plain["people"], reach, *arrays)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, rounded to five digits."""
        plain = {
            name: [[float(f"{one:.5g}") for one in row] for row in getattr(self, name)]
            for name in ("draws", "normals", "spread")
        }
        return {"people": dict(self.people), "reach": [list(one) for one in self.reach], **plain}

    def most_words(self) -> float:
        """The longest side that was learnt from; a longer one counts as one of so many words."""
        return self.reach[-1][0]

    def log_lr(
        self, sides: Sides, pairs: IntArray, authors: float, weights: FloatArray | None = None
    ) -> FloatArray:
        """(pairs, 1 + draws): ln of the ratio, and what every draw says."""
        m = np.full(len(pairs), float(authors))
        return self.over_domains(figures(sides, pairs, m, self.most_words()), m, weights)

    def over_domains(
        self, columns: FloatArray, authors: FloatArray, weights: FloatArray | None = None
    ) -> FloatArray:
        """The same from figures that are known."""
        return over_draws(self._by_draw(columns, authors), weights)

    def _by_draw(self, columns: FloatArray, authors: FloatArray) -> FloatArray:
        u = 1.0 / (authors[:, None] + 1.0)
        shift, slope = (known + u * (unknown - known) for known, unknown in self.spread)
        beta = np.exp(slope * self.normals[:, 1] - slope**2 / 2.0)
        # The second figure is h, of the harmonic mean of the words.
        kappa = expit(2.0 * columns[:, 1:2] + 5.0 - np.log(HALF_SHIFT))
        said = columns @ self.draws.T
        said = said[:, np.arange(len(self.normals)) % len(self.draws)]
        return np.asarray(kappa * shift * self.normals[:, 0] + beta * said)

    def weights(self, known: KnownPairs) -> FloatArray:
        """(draws,): how much each counts after pairs of known authorship; they sum to 1.

        All alike where no author has two parts, or there is but one author.
        """
        log_lr = self._by_draw(known.columns, known.authors)
        same, told = known.same, np.zeros(len(self.normals))
        if same.any() and not same.all():
            _, owner, times = np.unique(known.owner[same], return_inverse=True, return_counts=True)
            told = (log_expit(log_lr[same]) / times[owner][:, None]).sum(axis=0)
            told += len(times) * log_expit(-log_lr[~same]).mean(axis=0)
        return np.asarray(softmax(told))

    def key(self) -> str:
        """By which weights of draws know the draws they are of."""
        return canonical_hash(self.to_dict())[:16]

    def most(self, words: IntArray) -> FloatArray:
        r"""The largest :math:`\lvert \ln \mathrm{LR} \rvert`: that of 1 + m to one.

        Among *m* people who have shown texts so long nothing rarer than about one in *m* has been
        seen, so nothing rarer can be claimed, however far the curve goes on.
        """
        lengths, people = np.array(self.reach).T
        return np.asarray(np.log1p(np.interp(words.min(axis=1), lengths, people)))

    def reference(self, enrolled: int) -> Reference:
        """Whom the ratio speaks of."""
        total = sum(self.people.values())
        listed = ", ".join(f"{name} {count:,}" for name, count in self.people.items())
        known = f"centred by {enrolled} enrolled authors"
        if not enrolled:
            known = "without enrolled authors, what texts of this kind have in common is unknown"
        text = f"{total:,} people who write English ({listed}); {known}"
        return Reference(total, text, enrolled)


@lru_cache(maxsize=1)
def packaged() -> list[dict[str, Any]]:
    """What is packaged for each extractor, as it is stored."""
    found: list[dict[str, Any]] = json.loads(POPULATIONS.read_text(encoding="utf-8"))
    return found


def packaged_for(features: FittedFeatures) -> list[dict[str, Any]]:
    """What is packaged for the features' extractor, known by the hash of its weights."""
    extractor = extractor_of(features)
    if extractor is None or not POPULATIONS.is_file():
        return []
    key = extractor_key(extractor)
    return [one for one in packaged() if one["extractor"] == key]


def extractor_key(extractor: FittedAdHominem) -> str:
    """By which a population knows its extractor: the hash of the weights, and the size."""
    digest = extractor.weights_sha256()
    return f"{digest}/{extractor.size}" if isinstance(extractor, FittedStyle) else digest
