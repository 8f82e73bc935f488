r"""Figures: how good probabilities of authors are, and answers to "are these two by one author?".

.. math:: \text{Brier} = \frac1n \sum_i \sum_k (p_{ik} - [y_i = k])^2, \qquad
    \text{log-loss} = -\frac1n \sum_i \log p_{i y_i}, \qquad
    \text{ECE} = \sum_b \frac{n_b}{n} |\text{right}_b - \text{confidence}_b|

``evaluate`` takes probabilities and the truth and returns every figure in one record. The error
comes with Wilson's interval, which stays inside [0, 1] and is honest when nothing went wrong. Brier
runs from 0 (certain and right) to 2 (certain and wrong). The log-loss is infinite where a true
author was given probability zero: that is the truth about such a forecast, so no probability is
clipped; give log-probabilities where they exist and it happens only when it must.

.. math:: \text{AUC} = P(s_\text{same} > s_\text{different}), \qquad
    c@1 = \tfrac1n\bigl(n_c + n_u \tfrac{n_c}{n}\bigr), \qquad
    F_{0.5u} = \frac{1.25\, t_p}{1.25\, t_p + 0.25\,(f_n + n_u) + f_p}

``verify`` takes probabilities that two texts are by one author and returns PAN's figures: an answer
of exactly 0.5 is no answer, and :math:`n_u` counts those. The Brier score of pairs is the mean
squared error of the probability (PAN prints one minus it).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whowrote.arrays import BoolArray, FloatArray, IntArray
from whowrote.errors import InputError


@dataclass(frozen=True)
class Interval:
    """Limits of a confidence interval."""

    low: float
    high: float


@dataclass(frozen=True)
class Evaluation:
    """Every figure of one test, in natural units: shares, not per cent."""

    n: int
    error: float
    error_interval: Interval
    macro_f1: float
    brier: float
    ece: float
    log_loss: float
    classes: tuple[Any, ...]
    confusion: tuple[tuple[int, ...], ...]
    """Rows are true classes, columns answers."""

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers for JSON; an infinite log-loss, which JSON cannot write, becomes None."""
        plain = asdict(self)
        plain["log_loss"] = self.log_loss if np.isfinite(self.log_loss) else None
        plain["classes"] = [_plain(name) for name in self.classes]
        plain["confusion"] = [list(row) for row in self.confusion]
        return plain


def evaluate(
    y_true: ArrayLike,
    proba: ArrayLike,
    classes: Sequence[Any] | NDArray[Any],
    *,
    log: bool = False,
    n_bins: int = 15,
) -> Evaluation:
    """Compare probabilities (or, with ``log``, log-probabilities) with the true classes.

    >>> result = evaluate(["a", "b"], [[0.9, 0.1], [0.6, 0.4]], ["a", "b"])
    >>> result.error, round(result.brier, 3), result.confusion
    (0.5, 0.37, ((1, 0), (1, 0)))
    """
    names = tuple(classes)
    log_proba = _checked_log_proba(proba, len(names), log=log)
    codes = _checked_codes(y_true, names, len(log_proba))
    answers = log_proba.argmax(axis=1)
    probabilities = np.exp(log_proba)
    confusion = confusion_counts(codes, answers, len(names))
    wrong = int((codes != answers).sum())
    return Evaluation(
        n=len(codes),
        error=wrong / len(codes),
        error_interval=wilson(wrong, len(codes)),
        macro_f1=macro_f1(confusion),
        brier=float(((probabilities - np.eye(len(names))[codes]) ** 2).sum(axis=1).mean()),
        ece=calibration_error(probabilities.max(axis=1), codes == answers, n_bins=n_bins),
        log_loss=float(-log_proba[np.arange(len(codes)), codes].mean()) + 0.0,
        classes=names,
        confusion=tuple(tuple(row) for row in confusion.tolist()),
    )


def wilson(count: int, n: int, *, confidence: float = 0.95) -> Interval:
    """Wilson's score interval for ``count`` of ``n``.

    >>> wilson(0, 10).low, round(wilson(0, 10).high, 4)
    (0.0, 0.2775)
    """
    if not 0 <= count <= n or n < 1:
        raise InputError(
            f"count is {count} of n {n}; it must lie between 0 and n, and n be at least 1: count "
            "the wrong answers among all answers"
        )
    if not 0.0 < confidence < 1.0:
        raise InputError(f"confidence is {confidence}; it must lie between 0 and 1: give 0.95")
    z = NormalDist().inv_cdf(0.5 + confidence / 2.0)
    share, shift = count / n, z * z / n
    middle = (share + shift / 2.0) / (1.0 + shift)
    half = z / (1.0 + shift) * float(np.sqrt(share * (1.0 - share) / n + shift / (4.0 * n)))
    return Interval(
        0.0 if count == 0 else middle - half,
        1.0 if count == n else middle + half,
    )


def confusion_counts(codes: IntArray, answers: IntArray, n_classes: int) -> IntArray:
    """How often each true class (row) got each answer (column)."""
    cells = np.bincount(codes * n_classes + answers, minlength=n_classes * n_classes)
    return cells.reshape(n_classes, n_classes).astype(np.intp)


def macro_f1(confusion: ArrayLike) -> float:
    """Mean F1 over the classes that occur, as truth or as answer: 2 TP / (truths + answers).

    >>> macro_f1([[2, 0], [1, 1]])
    0.7333333333333334
    """
    counts = np.asarray(confusion)
    total = counts.sum(axis=0) + counts.sum(axis=1)
    return float((2.0 * np.diag(counts)[total > 0] / total[total > 0]).mean())


def matched_share(table: IntArray) -> float:
    """The share of counts in their cell when every row has at most one column, in the best way.

    >>> matched_share(np.array([[0, 2], [1, 1]]))
    0.75
    """
    from scipy.optimize import linear_sum_assignment  # late: answers need none

    rows, columns = linear_sum_assignment(table, maximize=True)
    return float(table[rows, columns].sum() / table.sum())


def calibration_error(confidence: ArrayLike, right: ArrayLike, *, n_bins: int = 15) -> float:
    """Expected calibration error of the best answers over bins of equal width."""
    if n_bins < 1:
        raise InputError(f"n_bins is {n_bins}; it must be at least 1: give 15")
    sure, hits = np.asarray(confidence, dtype=np.float64), np.asarray(right, dtype=np.float64)
    bins = np.minimum((sure * n_bins).astype(np.intp), n_bins - 1)
    gaps = np.bincount(bins, weights=hits - sure, minlength=n_bins)
    return float(np.abs(gaps).sum() / len(sure))


def smoothed_targets(codes: IntArray, n_classes: int) -> FloatArray:
    """What probabilities are calibrated to, (n, K): (n + 1)/(n + 2) for the true class, not 1.

    The other classes share the rest (Platt, 1999): a few texts, all answered rightly, are no proof
    of certainty.

    >>> smoothed_targets(np.array([0, 1]), 2).tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    """
    n = len(codes)
    targets = np.full((n, n_classes), 1.0 / (n + 2.0) / (n_classes - 1))
    targets[np.arange(n), codes] = (n + 1.0) / (n + 2.0)
    return targets


def _checked_log_proba(proba: ArrayLike, n_classes: int, *, log: bool) -> FloatArray:
    table = np.asarray(proba, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] != n_classes or len(table) == 0:
        raise InputError(
            f"proba has shape {table.shape}; it must have a row per text and {n_classes} columns, "
            "one per class: give the output of predict_proba and classes_"
        )
    if np.isnan(table).any() or (not log and (table < 0.0).any()):
        raise InputError(
            "proba has a negative or missing entry; every probability must be a number from 0 to "
            "1: check the model, or set log=True for log-probabilities"
        )
    sums = np.exp(table).sum(axis=1) if log else table.sum(axis=1)
    row = int(np.abs(sums - 1.0).argmax())
    if not abs(sums[row] - 1.0) < 1e-4:
        raise InputError(
            f"proba[{row}] sums to {sums[row]:.6g}; a row of probabilities must sum to 1: "
            "normalise it, or set log=True for log-probabilities"
        )
    if log:
        return table
    with np.errstate(divide="ignore"):  # log 0 is minus infinity, and that is meant
        return np.asarray(np.log(table))


def _checked_codes(y_true: ArrayLike, names: tuple[Any, ...], n_rows: int) -> IntArray:
    truth = np.asarray(y_true).tolist()
    if len(truth) != n_rows:
        raise InputError(
            f"y_true has {len(truth)} entries for {n_rows} rows of proba; there must be one per "
            "row: give both in the same order"
        )
    number = {name: code for code, name in enumerate(names)}
    if len(number) != len(names):
        raise InputError("classes has a name twice; each class must have its own: give classes_")
    unknown = sorted({str(name) for name in truth if name not in number})
    if unknown:
        raise InputError(
            f"y_true has {unknown[0]!r}, which is not among the {len(names)} classes; a test "
            "text's author must be known to the model: leave such texts out, they are open set"
        )
    return np.array([number[name] for name in truth], dtype=np.intp)


def _plain(name: Any) -> Any:
    return name.item() if isinstance(name, np.generic) else name


# -- pairs of texts, by one author or by two -----------------------------------------------------


@dataclass(frozen=True)
class Pairs:
    """Rows on the left, rows on the right, and whether one author wrote both."""

    left: IntArray
    right: IntArray
    same: BoolArray


def balanced_pairs(authors: IntArray, n_pairs: int, seed: int = 0) -> Pairs:
    """As many pairs by one author as by two; no pair twice, and all there are if that is fewer.

    >>> pairs = balanced_pairs(np.array([0, 0, 1, 1, 2]), 4)
    >>> pairs.same.tolist(), len(pairs.left)
    ([True, True, False, False], 4)
    """
    random = np.random.default_rng(seed)
    same = _same_pairs(authors, n_pairs // 2, random)
    other = _other_pairs(authors, len(same), random)
    both = np.concatenate([same, other])
    return Pairs(both[:, 0], both[:, 1], np.arange(len(both)) < len(same))


def _same_pairs(authors: IntArray, n: int, random: np.random.Generator) -> IntArray:
    """Round by round a new pair of each author, so that none of them dominates."""
    order = np.lexsort((random.random(len(authors)), authors))
    found = []
    for gap in range(1, max(2, int(np.bincount(authors).max()))):
        left, right = order[:-gap], order[gap:]
        alike = np.flatnonzero(authors[left] == authors[right])
        pairs = np.stack([left[alike], right[alike]], axis=1)
        found.append(pairs[random.permutation(len(alike))])
        if sum(map(len, found)) >= n:
            break
    return np.asarray(np.concatenate(found)[:n], dtype=np.int64)


def _other_pairs(authors: IntArray, n: int, random: np.random.Generator) -> IntArray:
    drawn = random.integers(0, len(authors), (8 * n + 64, 2))
    drawn = np.unique(np.sort(drawn, axis=1), axis=0)
    drawn = drawn[authors[drawn[:, 0]] != authors[drawn[:, 1]]]
    return np.asarray(drawn[random.permutation(len(drawn))][:n], dtype=np.int64)


@dataclass(frozen=True)
class AuthorPairs:
    """Pairs of sides to learn from, whether one author wrote both, and whose the first side is."""

    rows: IntArray
    same: BoolArray
    owner: IntArray

    def weights(self, times: FloatArray) -> FloatArray:
        """Every author counts ``times`` on either kind of pair, however many pairs they have."""
        kind = 2 * self.owner + self.same
        return np.asarray(times[self.owner] / np.bincount(kind)[kind])


def matched_pairs(
    author: IntArray, part: IntArray, length: IntArray, most: int, random: np.random.Generator
) -> AuthorPairs:
    """Pairs by one author from different parts, and for each its first side with another author.

    ``part`` says which of an author's sides share texts (they are never paired), ``length`` which
    sides are alike in length: the other author's side is of the same one. At most so many pairs of
    either kind an author.
    """
    same, other, owner = [], [], []
    alike = {int(one): np.flatnonzero(length == one) for one in np.unique(length)}
    for code in np.unique(author):
        rows = np.flatnonzero(author == code)
        left, right = (side.ravel() for side in np.meshgrid(rows, rows, indexing="ij"))
        kept = np.flatnonzero(part[left] < part[right])
        for place in random.permutation(kept)[:most]:
            others = alike[int(length[right[place]])]
            others = others[author[others] != code]
            if len(others):
                same.append((left[place], right[place]))
                other.append((left[place], random.choice(others)))
                owner.append(code)
    n = len(owner)
    both = np.array([*same, *other], dtype=np.intp).reshape(-1, 2)
    return AuthorPairs(both, np.arange(2 * n) < n, np.array([*owner, *owner], dtype=np.intp))


def cllr(log_lr: FloatArray, same: BoolArray) -> float:
    r"""The cost of likelihood ratios in bits: 0 is perfect, 1 what a ratio of 1 to all pairs costs.

    .. math:: \tfrac12 \Bigl(\operatorname{mean}_{\text{same}} \log_2(1 + \mathrm{LR}^{-1})
        + \operatorname{mean}_{\text{different}} \log_2(1 + \mathrm{LR})\Bigr)

    >>> round(cllr(np.log([1.0, 3.0, 1.0]), np.array([True, True, False])), 6)
    0.853759
    """
    cost = np.logaddexp(0.0, np.where(same, -log_lr, log_lr)) / np.log(2.0)
    return float((cost[same].mean() + cost[~same].mean()) / 2.0)


def auc(scores: FloatArray, same: BoolArray) -> float:
    """The chance that a pair by one author scores above one by two; ties count half.

    >>> auc(np.array([0.9, 0.8, 0.1, 0.8]), np.array([True, True, False, False]))
    0.875
    """
    values, place = np.unique(scores, return_inverse=True)
    counts = np.bincount(place, minlength=len(values))
    middle = (np.cumsum(counts) - counts + np.cumsum(counts) + 1) / 2
    n_same, n_other = int(same.sum()), int((~same).sum())
    return float((middle[place][same].sum() - n_same * (n_same + 1) / 2) / (n_same * n_other))


def cosines(vectors: FloatArray, pairs: Pairs) -> FloatArray:
    """The cosine of each pair."""
    unit = _unit_rows(vectors)
    return np.asarray((unit[pairs.left] * unit[pairs.right]).sum(axis=1))


def _unit_rows(vectors: FloatArray) -> FloatArray:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def recall_at_1(vectors: FloatArray, authors: IntArray) -> float:
    """How often the nearest of all authors' second texts is the same author's, asked by the first.

    One text of every author is the question, another one the answer to be found.
    """
    first = np.flatnonzero(np.diff(authors, prepend=-1))
    first = first[np.append(authors, -1)[first + 1] == authors[first]]
    unit = _unit_rows(vectors)
    nearest = (unit[first] @ unit[first + 1].T).argmax(axis=1)
    return float((nearest == np.arange(len(first))).mean())


@dataclass(frozen=True)
class Verification:
    """PAN's figures for one set of pairs."""

    n: int
    auc: float
    c_at_1: float
    f_05_u: float
    f1: float
    brier: float

    def to_dict(self) -> dict[str, float]:
        """Plain values."""
        return asdict(self)


def verify(probability: FloatArray, same: BoolArray) -> Verification:
    """All figures of the probabilities that two texts are by one author.

    >>> verify(np.array([0.9, 0.5, 0.2, 0.6]), np.array([True, True, False, False])).c_at_1
    0.625
    """
    p = np.asarray(probability, dtype=np.float64)
    n, unanswered = len(p), int((p == 0.5).sum())
    yes, no = p > 0.5, p < 0.5
    tp, fp, fn = int((yes & same).sum()), int((yes & ~same).sum()), int((no & same).sum())
    right = tp + int((no & ~same).sum())
    return Verification(
        n=n,
        auc=auc(p, same),
        c_at_1=(right + unanswered * right / n) / n,
        f_05_u=_ratio(1.25 * tp, 1.25 * tp + 0.25 * (fn + unanswered) + fp),
        f1=_ratio(2 * tp, 2 * tp + fp + fn),
        brier=float(((p - same) ** 2).mean()),
    )


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


SVM_TEXTS, SVM_AUTHORS, SVM_PENALTY = 8, 60, 0.1
"""How many texts a development author must have to be named, and how many authors are."""


def svm_error(vectors: NDArray[np.float32], authors: IntArray) -> float | None:
    """The share of every author's second texts that a linear SVM on the first ones gets wrong.

    Texts count alternately as first and second; None where fewer than two authors have enough.
    """
    from sklearn.svm import LinearSVC

    counts = np.bincount(authors)
    chosen = np.flatnonzero(counts >= SVM_TEXTS)[:SVM_AUTHORS]
    if len(chosen) < 2:
        return None
    rows = np.flatnonzero(np.isin(authors, chosen))
    first, second = rows[::2], rows[1::2]  # an author's texts lie together
    deviation, mean = vectors[first].std(0), vectors[first].mean(0)
    scaled = (vectors - mean) / np.where(deviation > 0, deviation, 1.0)
    model = LinearSVC(C=SVM_PENALTY, random_state=0).fit(scaled[first], authors[first])
    return float((model.predict(scaled[second]) != authors[second]).mean())
