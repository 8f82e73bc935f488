r"""From the evidence of passages to probabilities and p-values of whole texts.

With :math:`\ell_{ik} = \log p(k \mid o_i) - \log \pi_k` for passage *i* of *m* and author *k*,

.. math:: \log p(k \mid \text{text}) = \log p_k
    + \frac{1}{T\, m^{a}} \sum_{i=1}^{m} \ell_{ik} - \text{const}

*a* = 0 sums the passages as if they were independent, *a* = 1 averages them as if they all said the
same. Both *T* and *a* are learnt from training texts whose answers come from models that have not
seen them. The same texts say how like its own author's others a text is: see :class:`Norms`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, stdtr

from whowrote.arrays import FloatArray, IntArray, per_text
from whowrote.attribution.few_people import FewPeople
from whowrote.attribution.rows import LONG

RANKED_FROM = 100
"""From so many held-out texts on, p-values are ranks among them; below, a Student-t predicts."""
PRIOR_TEXTS = 2.0
"""The mean of all authors counts as so many texts of each: few texts are shrunk towards it."""


MOST_SCORES = 3000
"""Of strangers' texts: more say nothing more of the people, who are fewer."""
NEARNESS, STANDING = 2, 3
"""Where the figures of strangers have the nearness to the best author's mean, and the standing."""


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

    def sharper(self, n_folds: int | None) -> Self:
        r"""For answers from all texts after a fit to answers from all folds *F* but one.

        .. math:: T \leftarrow T (1 - 1/F)^{1/F}

        With two texts an author the answers of both say about :math:`\sqrt 2` times as much as
        those of one; with ten the gain is small. T by held-out texts over the best T for new ones
        is, with 2, 3, 5 and 10: .71, .84, .92, .97 on seeds 100 to 105 of
        ``experiments/few_texts.py``, and .75, .89, 1.00, 1.04 on its ``blogs_test`` to
        ``forum_test``.
        """
        if n_folds is None:
            return self
        gain = float((1 - 1 / n_folds) ** (1 / n_folds))
        return replace(self, temperature=self.temperature * gain)

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
    def fit(
        cls,
        figures: FloatArray,
        words: IntArray,
        codes: IntArray,
        units: IntArray | None = None,
    ) -> Self:
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
        # A text must not be its own measure: its author's centre without it and its unit.
        own, unit = PRIOR_TEXTS + counts[codes], np.arange(len(codes)) if units is None else units
        rest = own - np.bincount(unit)[unit, None]
        others = (shrunk[codes] * own - per_text(level, unit)[unit]) / rest
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
class Strangers:
    r"""How texts by people who are not enrolled look, from authors left out in turn.

    .. math:: s = \sum_j w_j \frac{f_j - c_j}{\sigma_j}, \qquad
        p_1(s) = \frac1n \sum_i F_\nu\!\left(\frac{s_i - s}{h}\right), \qquad
        p = 1 - (1 - p_1)^{K / (K - 1)}

    of the best author's contrast, the log odds of their probability, how near the text is to the
    mean of their texts, and how it stands among them (:class:`Norms`). :math:`s_i` are texts of *K*
    authors about each of whom the model that answers knows nothing: p is the share of strangers'
    texts that look as much like somebody enrolled. A stranger met *K - 1* authors there and meets
    *K* here. Texts of one person look alike, so few people say little of the next one:
    :math:`h = \tau / \sqrt K` for the spread :math:`\tau` between people, and :math:`F_\nu` is
    Student's distribution. Fewer than a hundred texts are taken for a normal sample about which
    only that is not known.

    The weights are those of a logistic regression of held-out texts against strangers', drawn to
    ``FIRST``; a text is scored by weights that were learnt without its author.

    Below six authors contrasts and odds among one author fewer are another thing: nearness and
    standing alone count, and p is drawn to that of simulated cases of other people
    (:mod:`whowrote.attribution.few_people`), geometrically, by :math:`2 / (K + 1)`.
    """

    centers: FloatArray
    spreads: FloatArray
    weights: FloatArray
    reference: FloatArray
    """Scores of strangers' texts, ascending."""
    own: FloatArray
    """p of held-out texts that went to their author; in models of before, their scores."""
    held_out: int
    """Of so many held-out texts."""
    people: int
    doubt: float = 0.0
    """h, as a share of the spread of the scores."""
    texts: float = 0.0
    """Texts of an author, in the mean."""
    others: FewPeople | None = None
    block: int = 0
    """The block of the features whose nearness counts: see :func:`nearness_block`."""
    met: float = 0.0
    """Authors whom a stranger met; 0 in models of before: all but one."""

    FIRST: ClassVar = np.array([0.6, 0.6, 0.3, 0.3])
    FIRST_OF_FEW: ClassVar = np.array([0.0, 0.0, 0.5, 0.5])
    FEW_PEOPLE: ClassVar = 6
    STRENGTH: ClassVar = 30.0
    """The first weights count as so many texts, about."""
    BETWEEN: ClassVar = 0.3
    """The share of the variance that lies between people, as if ``PRIOR_PEOPLE`` had shown it."""
    PRIOR_PEOPLE: ClassVar = 5.0
    LEAST_SHARE: ClassVar = 0.005
    """No p is smaller where strangers' texts are too few to show it."""

    @classmethod
    def fit(
        cls,
        inside: FloatArray,
        right: NDArray[np.bool_],
        outside: FloatArray,
        codes: IntArray,
        words: IntArray,
        others: FewPeople | None = None,
        block: int = 0,
        asked: NDArray[np.bool_] | None = None,
        met: float = 0.0,
    ) -> Self:
        """From the figures (texts, 4) of held-out texts, and of the same as strangers' texts.

        ``asked`` are the texts of ``outside``, None for all; ``met`` the authors whom they met.
        """
        both, people = np.concatenate([inside, outside]), len(np.unique(codes))
        theirs = codes if asked is None else codes[asked]
        few = people < cls.FEW_PEOPLE
        first = cls.FIRST_OF_FEW if few else cls.FIRST
        strength = np.inf if few else cls.STRENGTH
        centers, spreads = both.mean(0), np.maximum(both.std(0), 1e-9)
        scaled = [(one - centers) / spreads for one in (inside, outside)]
        scores = np.empty(len(codes)), np.empty(len(theirs))
        for author in np.unique(codes):
            own, other = codes == author, theirs == author
            weights = _separating(scaled[0][~own], scaled[1][~other], first, strength)
            scores[0][own], scores[1][other] = scaled[0][own] @ weights, scaled[1][other] @ weights
        found = cls(
            centers,
            spreads,
            _separating(scaled[0], scaled[1], first, strength),
            _thinned(np.sort(scores[1])),
            np.zeros(0),
            len(codes),
            people,
            float(np.sqrt(cls._between(scores[1], theirs) / len(np.unique(theirs)))),
            len(codes) / people,
            others if few else None,
            block,
            met or people - 1.0,
        )
        shares = found._drawn(found._by_scores(scores[0]), inside, words)
        return replace(found, own=np.sort(shares[right]))

    @classmethod
    def _between(cls, scores: FloatArray, codes: IntArray) -> float:
        """The share of the variance that lies between people, drawn to what is usual."""
        _, own, counts = np.unique(codes, return_inverse=True, return_counts=True)
        total = float(scores.var()) or 1.0
        means = np.bincount(own, scores) / counts
        within = float(((scores - means[own]) ** 2).sum()) / max(len(scores) - len(counts), 1)
        between = max(float(means.var(ddof=1)) - within * float((1 / counts).mean()), 0.0)
        n = len(counts) - 1
        share = (cls.PRIOR_PEOPLE * cls.BETWEEN + n * between / total) / (cls.PRIOR_PEOPLE + n)
        return float(min(share, 1.0))

    @property
    def least(self) -> float:
        """The smallest p."""
        n = len(self.reference)
        return 1 / (n + 1) if n >= RANKED_FROM or self.doubt == 0.0 else self.LEAST_SHARE

    def share(self, figures: FloatArray, words: IntArray) -> FloatArray:
        """p: the share of strangers' texts that look as much like somebody enrolled."""
        scores = ((figures - self.centers) / self.spreads) @ self.weights
        return self._drawn(self._by_scores(scores), figures, words)

    def _by_scores(self, scores: FloatArray) -> FloatArray:
        if self.doubt == 0.0:  # models of before
            return self._ranks(scores)
        n, nu = len(self.reference), self.people - 1 + self.PRIOR_PEOPLE
        # Strangers who are like nobody at all say nothing of those who come near.
        middle = float(np.median(self.reference))
        upper = self.reference[self.reference >= middle] - middle
        spread = max(float(np.sqrt((upper**2).mean())), 1e-9)
        if n >= RANKED_FROM:
            away = (self.reference - scores[:, None]) / (self.doubt * spread)
            once = stdtr(nu, away).mean(axis=1)
        else:
            wide = spread * np.sqrt(1 + 2 / n + self.doubt**2)
            once = stdtr(min(nu, n - 1), (middle - scores) / wide)
        more = self.people / (self.met or self.people - 1)
        among = -np.expm1(np.log1p(-np.minimum(once, 1 - 1e-12)) * more)
        return np.asarray(np.maximum(among, self.least))

    def _ranks(self, scores: FloatArray) -> FloatArray:
        n = len(self.reference)
        if n >= RANKED_FROM:
            below = np.searchsorted(self.reference, scores, side="left")
            return np.asarray((1 + n - below) / (n + 1))
        spread = max(float(self.reference.std(ddof=1)), 1e-9) * np.sqrt(1 + 1 / n)
        return np.asarray(stdtr(n - 1, (self.reference.mean() - scores) / spread))

    def _drawn(self, shares: FloatArray, figures: FloatArray, words: IntArray) -> FloatArray:
        if self.others is None:
            return shares
        there = self.others.share(figures[:, NEARNESS], words, self.texts, self.people)
        part = 2 / (self.people + 1)
        return np.asarray(shares ** (1 - part) * np.maximum(there, self.least) ** part)

    def own_shares(self) -> FloatArray:
        """p of held-out texts that went to their author."""
        return self._ranks(self.own) if self.doubt == 0.0 else self.own

    def missed(self, rate: float) -> float:
        """The share of enrolled authors' own texts that get nobody, or another, at a rate."""
        return 1.0 - float((self.own_shares() <= rate).sum()) / self.held_out


def _thinned(scores: FloatArray) -> FloatArray:
    """Of many sorted scores, those at equal ranks.

    >>> _thinned(np.arange(4 * MOST_SCORES))[:3].tolist()
    [1, 5, 9]
    """
    if len(scores) <= MOST_SCORES:
        return scores
    ranks = (np.arange(MOST_SCORES) + 0.5) * len(scores) / MOST_SCORES - 0.5
    return np.asarray(scores[ranks.astype(np.int64)])


def _separating(
    inside: FloatArray, outside: FloatArray, first: FloatArray, strength: float
) -> FloatArray:
    """Weights of a logistic regression that counts both sides alike, drawn to the first ones."""
    if not len(inside) or not np.isfinite(strength):
        return first
    from scipy.optimize import minimize

    rows, sign = (
        np.concatenate([inside, outside]),
        np.repeat([1.0, -1.0], [len(inside), len(outside)]),
    )

    def loss(point: FloatArray) -> tuple[float, FloatArray]:
        margin = sign * (point[0] + rows @ point[1:])
        slope = -sign / (1 + np.exp(np.minimum(margin, 500)))
        away = point[1:] - first
        value = np.logaddexp(0, -margin).sum() + strength * away @ away / 2
        return float(value), np.concatenate([[slope.sum()], slope @ rows + strength * away])

    found = minimize(loss, np.concatenate([[0.0], first]), jac=True, method="L-BFGS-B").x
    return np.asarray(found[1:])


def nearness_block(n_blocks: int, words: IntArray, people: int) -> int:
    """Whose nearness tells strangers apart: that of the vectors, or of long texts of the n-grams.

    A style vector of many thousand words shows the work more than its author.
    Novels of enrolled authors are told from others' with an area of .66 by the vectors and .88 by
    the n-grams. Below six authors the curve of other people is one of vectors.
    """
    long = float(np.median(words)) >= LONG and people >= Strangers.FEW_PEOPLE
    return n_blocks - 1 if long else 0


def best_figures(
    norms: Norms,
    figures: FloatArray,
    log_proba: FloatArray,
    words: IntArray,
    people: int,
    block: int = 0,
) -> FloatArray:
    """The figures of :class:`Strangers` for the best author of each text, (texts, 4).

    Of figures (texts, authors, J) the last two are the log-probability and the contrast. How a text
    stands among its author's others is far out as soon as they are alike: the arsinh keeps order.
    """
    rows, best = np.arange(len(log_proba)), log_proba.argmax(axis=1)
    known = figures.copy()
    known[..., :block] = np.nan
    if people < Strangers.FEW_PEOPLE:
        known[..., -2:] = np.nan
    standing = np.arcsinh(norms.standing(known, words))
    top = np.minimum(log_proba[rows, best], -1e-12)
    odds = top - np.log(-np.expm1(top))
    others = [one[rows, best] for one in (figures[..., -1], figures[..., block], standing)]
    return np.stack([others[0], odds, *others[1:]], axis=1)


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
    strangers: Strangers | None = None
    """None where authors were not left out in turn."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        parts = {"pooling": asdict(self.pooling), "held_out": asdict(self.held_out)}
        plain = {**parts, "norms": _plain_fields(self.norms)}
        if self.strangers is not None:
            others = self.strangers.others
            plain["strangers"] = _plain_fields(replace(self.strangers, others=None))
            plain["strangers"]["others"] = None if others is None else others.to_dict()
        return plain

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Self:
        """The opposite of :meth:`to_dict`."""
        held_out, strangers = HeldOut(**plain["held_out"]), plain.get("strangers")
        return cls(
            Pooling(**plain["pooling"]),
            Norms(**_with_arrays(plain["norms"])),
            held_out,
            None if strangers is None else _strangers(strangers),
        )


def _strangers(plain: dict[str, Any]) -> Strangers:
    others = plain.get("others")
    found = Strangers(**_with_arrays({**plain, "others": None}))
    return found if others is None else replace(found, others=FewPeople.from_dict(others))


def _plain_fields(record: Any) -> dict[str, Any]:
    values = asdict(record)
    return {n: v.tolist() if isinstance(v, np.ndarray) else v for n, v in values.items()}


def _with_arrays(plain: dict[str, Any]) -> dict[str, Any]:
    return {n: np.array(v) if isinstance(v, list) else v for n, v in plain.items()}
