r"""From the evidence of passages to probabilities and p-values of whole texts.

With :math:`\ell_{ik} = \log p(k \mid o_i) - \log \pi_k` for passage *i* of *m* and author *k*,

.. math:: \log p(k \mid \text{text}) = \log p_k
    + \frac{1}{T\, m^{a}} \sum_{i=1}^{m} \ell_{ik} - \text{const}

*a* = 0 sums the passages as if they were independent, *a* = 1 averages them as if they all said the
same. Both *T* and *a* are learnt from training texts whose answers come from models that have not
seen them. The same texts say how like its own author's others a text is: see :class:`Norms`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from scipy.special import log_softmax, stdtr

from whowrote.arrays import FloatArray, IntArray

RANKED_FROM = 100
"""From so many held-out texts on, p-values are ranks among them; below, a Student-t predicts."""
PRIOR_TEXTS = 2.0
"""The mean of all authors counts as so many texts of each: few texts are shrunk towards it."""


def per_text(values: FloatArray, document: IntArray) -> FloatArray:
    """Sums of the rows of each text, (texts, columns).

    >>> per_text(np.array([[1.0], [2.0], [4.0]]), np.array([0, 0, 1])).tolist()
    [[3.0], [4.0]]
    """
    sums = np.zeros((int(document.max()) + 1, values.shape[1]))
    np.add.at(sums, document, values)
    return sums


@dataclass(frozen=True)
class Pooling:
    """How the passages of a text count together."""

    temperature: float
    exponent: float

    def log_proba(
        self, evidence: FloatArray, counts: IntArray, log_prior: FloatArray
    ) -> FloatArray:
        """Log-probabilities of texts from the summed evidence of their passages."""
        divisor = self.temperature * counts[:, None] ** self.exponent
        return np.asarray(log_softmax(log_prior + evidence / divisor, axis=1), dtype=np.float64)

    @classmethod
    def fit(
        cls, evidence: FloatArray, counts: IntArray, log_prior: FloatArray, codes: IntArray
    ) -> Self:
        """Minimise the smoothed log-loss of held-out texts; few stay near T = 1 and a = 1/2."""
        from scipy.optimize import minimize  # late, as below: answers need none

        from whowrote.metrics import smoothed_targets

        targets = smoothed_targets(codes, evidence.shape[1])

        def loss(point: FloatArray) -> float:
            log_proba = cls(float(np.exp(point[0])), point[1]).log_proba(
                evidence, counts, log_prior
            )
            penalty = point[0] ** 2 / 2 + 8 * (point[1] - 0.5) ** 2
            return float(-np.sum(targets * log_proba) + penalty)

        bounds = [(-4.0, 4.0), (0.0, 1.0)]
        found = minimize(loss, np.array([0.0, 0.5]), method="L-BFGS-B", bounds=bounds).x
        return cls(float(np.exp(found[0])), float(found[1]))


@dataclass(frozen=True)
class Norms:
    r"""What is usual: held-out training texts under their own authors.

    Of a text and an author there are several figures :math:`s_j`, each larger the more the text is
    like theirs: its nearness to their mean, its contrasts, its evidence. With :math:`w` the
    logarithm of the number of words,

    .. math:: r = e^{-g w} \, \frac1J \sum_j \frac{s_j - c_{kj} - b_j w}{\sigma_j}

    is large for a text that is much like the author's others. Centres :math:`c_k` are shrunk
    towards that of all authors, which counts as ``PRIOR_TEXTS`` texts, since few texts tell little
    of one's own. The p-value of a new text is its rank among the held-out ones,
    :math:`(1 + \#\{r_i \le r\}) / (n + 1)`.
    """

    centers: FloatArray
    slopes: FloatArray
    spreads: FloatArray
    narrowing: float
    middle: float
    reference: FloatArray

    @classmethod
    def fit(cls, figures: FloatArray, words: IntArray, codes: IntArray) -> Self:
        """Learn from the figures (texts, J) of held-out texts under their true authors."""
        middle = float(np.log(words).mean())
        w = np.log(words) - middle
        counts = np.bincount(codes)[:, None]
        inside = figures - _means(figures, codes)[codes]
        w_inside = (w - _means(w[:, None], codes)[codes, 0])[:, None]
        # Texts of nearly one length say little of other lengths: no slope without a spread.
        slopes = (w_inside * inside).sum(0) / (float((w_inside**2).sum()) + PRIOR_TEXTS / 4)
        level = figures - slopes * w[:, None]
        total = level.mean(0) * PRIOR_TEXTS + _means(level, codes) * counts
        shrunk = total / (PRIOR_TEXTS + counts)
        # A text must not be its own measure: its author's centre without it.
        own = PRIOR_TEXTS + counts[codes]
        others = (shrunk[codes] * own - level) / (own - 1)
        residuals = level - others
        spreads = np.maximum(residuals.std(0), 1e-9)
        raw = (residuals / spreads).mean(1)
        narrowing = _narrowing(raw - raw.mean(), w)
        return cls(
            shrunk, slopes, spreads, narrowing, middle, np.sort(raw * np.exp(-narrowing * w))
        )

    def standing(self, figures: FloatArray, words: IntArray) -> FloatArray:
        """r of texts under authors, from figures (texts, authors, J); a missing one is left out."""
        w = (np.log(words) - self.middle)[:, None]
        level = figures - self.centers - self.slopes * w[:, :, None]
        return np.asarray(np.nanmean(level / self.spreads, axis=-1) * np.exp(-self.narrowing * w))

    def p_values(self, figures: FloatArray, words: IntArray) -> FloatArray:
        """How often an author's own text is as little like them as these are, (texts, authors)."""
        new, n = self.standing(figures, words), len(self.reference)
        if n >= RANKED_FROM:
            return np.asarray((1 + np.searchsorted(self.reference, new, side="right")) / (n + 1))
        # Middle and spread by quantiles: one odd text must not hide the next.
        low, center, high = np.quantile(self.reference, (0.159, 0.5, 0.841))
        spread = max((high - low) / 2, 1e-9) * np.sqrt(1 + 1 / n)
        return np.asarray(stdtr(n - 1, (new - center) / spread))


def _means(values: FloatArray, codes: IntArray) -> FloatArray:
    """Means by author, (authors, columns)."""
    return per_text(values, codes) / np.bincount(codes)[:, None]


def _narrowing(values: FloatArray, w: FloatArray) -> float:
    """The slope of the log spread over w: how much less long texts scatter; never the opposite."""
    if np.std(w) < 0.1:
        return 0.0
    logs = np.log(np.abs(values) + 1e-3)
    return float(np.clip(np.polyfit(w, logs, 1)[0], -0.5, 0.0))


@dataclass(frozen=True)
class HeldOut:
    """How training texts fared with models that had not learnt from them."""

    texts: int
    right: int


@dataclass(frozen=True)
class Calibration:
    """Everything learnt from held-out training texts."""

    pooling: Pooling
    norms: Norms
    held_out: HeldOut

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        norms = {name: _plain(value) for name, value in asdict(self.norms).items()}
        parts = {"pooling": asdict(self.pooling), "held_out": asdict(self.held_out)}
        return {**parts, "norms": norms}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Self:
        """The opposite of :meth:`to_dict`."""
        norms: dict[str, Any] = {
            name: np.array(value) if isinstance(value, list) else value
            for name, value in plain["norms"].items()
        }
        held_out = HeldOut(**plain["held_out"])
        return cls(Pooling(**plain["pooling"]), Norms(**norms), held_out)


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value
