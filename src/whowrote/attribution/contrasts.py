r"""From wide sparse rows to a contrast per author: how much a text looks like theirs, not others'.

.. math:: c_k(x) = \frac1F \sum_{f=1}^{F} \left( w_{kf}^\top x + b_{kf} \right)

Each :math:`(w_{kf}, b_{kf})` is a linear SVM of author *k* against the rest, learnt from all folds
but *f*. A training row gets the answer of the one SVM that has not seen it, a new row the mean over
all of them, which is one linear map. So the contrasts of training rows spread as those of new rows
do: what is learnt from them, and what is called unusual by them, holds for texts never seen. A
linear map also means that each n-gram's part in an answer can be read off.

Several *views* (ranges of columns) give several sets of contrasts side by side.

Few rows are contrasted by ridge regression instead, whose held-out answers have a closed form. With
:math:`K = \sum_p w_p^2 X_p X_p^\top + 1` over the parts *p* of the columns, :math:`Y` the authors
(1 for one's own, :math:`-1/(K-1)` for others) and :math:`D` one over the rows' weights,

.. math:: G = (K + \lambda D)^{-1}, \qquad A = G Y, \qquad
    \hat y_g = K_{g \bar g} \left( A_{\bar g} - G_{\bar g g} G_{gg}^{-1} A_g \right)

is what a regression without the rows *g* answers to them: without a text, to learn how the views
count together, and without an author, to learn how strangers look. A text that the others answer
well teaches little: short texts are solved twice, the second time with rows that weigh
:math:`(1 - p)^{0.3}` by the probability *p* of their author before (:func:`hardness`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from whowrote.arrays import Arrays, FloatArray, IntArray
from whowrote.estimators.scaling import is_sparse
from whowrote.progress import tell

TOLERANCE = 0.03
"""Of the SVMs: a hundredth of scikit-learn's makes the same errors and takes twice as long."""


class Contrasts:
    """Cross-fitted linear SVMs over views of sparse rows.

    >>> X = sparse.csr_matrix([[1.0, 0], [0.9, 0.1], [0, 1.0], [0.2, 0.8]])
    >>> contrasts = Contrasts([slice(None)])
    >>> held_out = contrasts.fit_transform(X, np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]))
    >>> held_out.argmax(axis=1).tolist(), contrasts.transform(X).argmax(axis=1).tolist()
    ([0, 0, 1, 1], [0, 0, 1, 1])
    """

    def __init__(self, views: Sequence[slice]) -> None:
        self.views = tuple(views)

    def fit_transform(
        self,
        X: sparse.csr_matrix,
        codes: IntArray,
        folds: IntArray,
        as_new: sparse.csr_matrix | None = None,
    ) -> FloatArray:
        """Learn, and give every training row the contrasts of SVMs that have not seen it.

        ``as_new`` has the rows as new texts would have them, where those differ.
        """
        new = X if as_new is None else as_new
        parts = [self._view(X[:, view], new[:, view], codes, folds) for view in self.views]
        self.weights_ = tuple(weights for weights, _, _ in parts)
        self.bias_ = tuple(bias for _, bias, _ in parts)
        return np.hstack([held_out for _, _, held_out in parts])

    def _view(
        self, X: sparse.csr_matrix, new: sparse.csr_matrix, codes: IntArray, folds: IntArray
    ) -> tuple[NDArray[np.float32], FloatArray, FloatArray]:
        held_out = np.empty((len(codes), int(codes.max()) + 1))
        numbers = np.unique(folds)
        weights, bias = np.zeros((X.shape[1], held_out.shape[1])), np.zeros(held_out.shape[1])
        for done, fold in enumerate(numbers):
            out = folds == fold
            svm = _svm().fit(X[~out], codes[~out])
            w, b = _a_column_per_author(svm)
            held_out[out] = new[out] @ w + b
            weights += w / len(numbers)
            bias += b / len(numbers)
            tell("contrasting the authors", done + 1, len(numbers))
        # Half precision in memory as on disk, so that a loaded model gives equal answers.
        return weights.astype(np.float16).astype(np.float32), bias, held_out

    def transform(self, X: sparse.csr_matrix) -> FloatArray:
        """The contrasts of new rows, (n, views x authors)."""
        X = X.astype(np.float32)
        parts = [
            X[:, view] @ weights + bias
            for view, weights, bias in zip(self.views, self.weights_, self.bias_, strict=True)
        ]
        return np.hstack(parts)

    def set(self, weights: FloatArray, bias: FloatArray) -> None:
        """Take over one map that was learnt elsewhere."""
        self.weights_ = (weights.astype(np.float16).astype(np.float32),)
        self.bias_ = (bias,)

    @property
    def n_authors(self) -> int:
        """How many authors have a contrast."""
        return len(self.bias_[0])

    def state(self) -> dict[str, NDArray[Any]]:
        """What was learnt, as arrays for a model file."""
        arrays: dict[str, NDArray[Any]] = {}
        for number, (weights, bias) in enumerate(zip(self.weights_, self.bias_, strict=True)):
            arrays[f"weights.{number}"] = weights.astype(np.float16)
            arrays[f"bias.{number}"] = bias
        return arrays

    def restore(self, state: Arrays) -> Self:
        """The opposite of :meth:`state`."""
        numbers = range(len(self.views))
        self.weights_ = tuple(state[f"weights.{n}"].astype(np.float32) for n in numbers)
        self.bias_ = tuple(state[f"bias.{n}"] for n in numbers)
        return self


def _svm() -> Any:
    from sklearn.svm import LinearSVC  # late: answers need none

    # Balanced, or an author would look rarer to the very SVM that their text is held out of.
    return LinearSVC(C=1.0, tol=TOLERANCE, class_weight="balanced", random_state=0)


def _a_column_per_author(svm: Any) -> tuple[FloatArray, FloatArray]:
    """Scikit-learn gives two authors one map; give each their own."""
    w, b = svm.coef_.T, svm.intercept_
    return (np.hstack([-w, w]), np.concatenate([-b, b])) if w.shape[1] == 1 else (w, b)


# -- few rows ------------------------------------------------------------------------------------

VIEWS: tuple[dict[str, float], ...] = (
    {"features": 1.0},
    {"vectors": 1.0},
    {"written": 1.0},
    {"masked": 1.0},
    {"plain": 1.0},
    {"bare": 1.0},
    {"vectors": 1.0, "written": 1.0},
    {"vectors": 1.0, "written": 0.7, "masked": 0.5, "plain": 0.5},
    {"vectors": 0.7, "written": 1.4},
    {"vectors": 1.4, "written": 1.4, "masked": 1.0, "plain": 1.0},
    {"vectors": 0.4},
    {"vectors": 0.5, "written": 0.4, "masked": 0.3, "plain": 0.3},
)
"""The parts of the columns that are looked at together, and how much each of them weighs.

Small weights are a strong penalty: which is better, held-out texts say."""
COMMON = 30
"""A column that one row in so many has is common."""
PENALTY, PENALTY_OF_WORKS = 1.0, 0.3
"""For short texts, and for long works, of which all weigh alike."""
HARDNESS, LEAST_DOUBT = 0.3, 0.05
"""The power of 1 - p by which a short text weighs, and the least 1 - p.

Chosen, with the penalty, on draws of 2 to 20 texts an author (seeds 100 to 105 of
``experiments/few_texts.py``): powers of 0.3 to 0.7 and penalties of 0.5 to 1.5 are as good, equal
weights and a penalty of 0.3 have half a point more errors."""
FIRST_SUM = 8.0
"""The weights of the views add up to this where nothing says otherwise."""
ACROSS_WORKS, LEAST = ("plain", "bare"), 0.02
"""The views that hold across long works, and what any other weighs beside them at first.

Names, matter and printing are those of a work. In a short text they hardly show; in one of many
thousand words they do, and few works cannot tell which of them are the author's: what no printer
decides comes first, and held-out works must show that more is theirs. Chosen on half of the
novelists (``experiments/works.py``)."""
SHORT_WORK, LONG_WORK = 1000.0, 10_000.0
"""Words of a work up to which all views weigh alike at first, and from which on these lead.

Between them the settings of short texts turn into those of long works: :func:`length`."""


@dataclass(frozen=True)
class Known:
    """Rows to learn from: as they are, as if their unit were new, as if their author were."""

    rows: Any
    as_new: Any
    as_stranger: Any
    codes: IntArray
    folds: IntArray
    """What is held out together: as many texts of every author, so that none looks rarer."""
    document: IntArray
    """The text of each row."""
    asked: NDArray[np.bool_]
    """Whether a new text would be read so; other rows are learnt from only."""
    units: IntArray
    """The unit of each text: what belongs together, such as chapters of a novel."""
    words: float = 0.0
    """Words of a unit, in the median."""

    @property
    def n_authors(self) -> int:
        """K."""
        return int(self.codes.max()) + 1

    def per_text(self, values: FloatArray) -> FloatArray:
        """Means over the asked rows of each text; (rows, ...) to (texts, ...)."""
        own, rows = self.document[self.asked], values[self.asked]
        sums = np.zeros((int(self.document.max()) + 1, *rows.shape[1:]))
        np.add.at(sums, own, rows)
        counts = np.bincount(own).reshape(-1, *[1] * (rows.ndim - 1))
        return np.asarray(sums / counts)

    def told(self) -> NDArray[np.bool_]:
        """Whether held-out answers say something of a text: not of all that an author has."""
        each = [len(np.unique(self.folds[self.codes == k])) for k in range(self.n_authors)]
        return np.asarray(np.array(each)[code_per_text(self)] > 1)


@dataclass(frozen=True)
class Ridge:
    """One view, solved."""

    answers: FloatArray
    """A, (rows, authors): what each row adds to an answer."""
    held_out: FloatArray
    strangers: FloatArray
    """Of rows by a regression that knows nothing of their author; their own column is not one."""


def ridge_contrasts(known: Known, parts: Mapping[str, slice]) -> tuple[Contrasts, Held]:
    """One linear map per author, all views in one, and what it would answer to held-out rows."""
    scaled = Scaled.of(known.rows)
    views = [view for view in VIEWS if set(view) <= set(parts)]
    kernels = {name: _kernels(known, scaled, own) for name, own in parts.items()}
    first, long = first_weights(views, known.words), length(known.words)
    penalty = np.full(len(known.codes), PENALTY ** (1 - long) * PENALTY_OF_WORKS**long)
    before, solved = [], []
    if long < 1.0:
        for done, view in enumerate(views):
            before.append(_solve(known, kernels, view, penalty, strangers=False).held_out)
            tell("comparing the texts", done + 1, len(views))
        power = HARDNESS * (1 - long)
        penalty = penalty / hardness(known, np.stack(before, axis=-1), first, power)
    for done, view in enumerate(views):
        solved.append(_solve(known, kernels, view, penalty))
        tell("contrasting the authors", done + 1, len(views))
    weights = view_weights(known, np.stack([one.held_out for one in solved], axis=-1), first)
    pairs = list(zip(views, solved, weights, strict=True))
    maps = np.zeros((known.rows.shape[1], known.n_authors))
    for name, own in parts.items():
        added = sum(w * view[name] ** 2 * one.answers for view, one, w in pairs if name in view)
        if not isinstance(added, int):
            maps[own] = scaled.part(known.rows, own).T @ added
    bias = sum(w * one.answers.sum(axis=0) for _, one, w in pairs)
    contrasts = Contrasts([slice(0, None)])
    contrasts.set(*scaled.undone(maps, np.asarray(bias)))
    return contrasts, Held(
        np.asarray(sum(w * one.held_out for _, one, w in pairs)),
        np.asarray(sum(w * one.strangers for _, one, w in pairs)),
        tuple(zip(["+".join(view) for view in views], weights.tolist(), strict=True)),
    )


@dataclass(frozen=True)
class Held:
    """Contrasts of training rows, (rows, authors), and how the views were weighed."""

    held_out: FloatArray
    strangers: FloatArray
    weights: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Scaled:
    """Dense columns are standardised first; sparse ones have unit length."""

    mean: FloatArray | None
    scale: FloatArray | None

    @classmethod
    def of(cls, rows: Any) -> Self:
        """How the columns of these rows are scaled."""
        if is_sparse(rows):
            return cls(None, None)
        spread = rows.std(axis=0)
        return cls(rows.mean(axis=0), np.where(spread > 0, spread, 1.0) * np.sqrt(rows.shape[1]))

    def part(self, rows: Any, own: slice) -> Any:
        """Some columns, scaled."""
        if self.mean is None or self.scale is None:
            return sparse.csr_matrix(rows[:, own])
        return ((rows - self.mean) / self.scale)[:, own]

    def undone(self, maps: FloatArray, bias: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Maps of rows as they are that give the same answers."""
        if self.mean is None or self.scale is None:
            return maps, bias
        maps = maps / self.scale[:, None]
        return maps, bias - self.mean @ maps


def _kernels(known: Known, scaled: Scaled, own: slice) -> list[FloatArray]:
    """Products of rows, of rows as new and of rows as a stranger's, with all rows."""
    rows = scaled.part(known.rows, own)
    sides = (rows, scaled.part(known.as_new, own), scaled.part(known.as_stranger, own))
    if not is_sparse(rows):
        return [np.asarray(side @ rows.T) for side in sides]
    # What many rows have is multiplied fastest as if all had it, the rest as what it is.
    often = np.bincount(rows.indices, minlength=rows.shape[1]) >= rows.shape[0] / COMMON
    dense, rare = rows[:, often].toarray(), sparse.csr_matrix(rows[:, ~often].T)
    return [
        side[:, often].toarray() @ dense.T + (side[:, ~often] @ rare).toarray() for side in sides
    ]


def sum_of(
    kernels: Mapping[str, Sequence[FloatArray]], view: Mapping[str, float], which: int
) -> FloatArray:
    """The kernel of a view; the one stands for the bias."""
    return np.asarray(1.0 + sum(w**2 * kernels[name][which] for name, w in view.items()))


def _solve(
    known: Known,
    kernels: Mapping[str, Sequence[FloatArray]],
    view: Mapping[str, float],
    penalty: FloatArray,
    strangers: bool = True,
) -> Ridge:
    """One view, each row with its penalty; where strangers are not asked for, theirs are NaN."""
    n, k = len(known.codes), known.n_authors
    targets = np.full((n, k), -1.0 / (k - 1))
    targets[np.arange(n), known.codes] = 1.0
    # Every author counts alike, or one would look rarer when a text of theirs is held out.
    thinness = np.bincount(known.codes)[known.codes] * k / n
    inverse = np.linalg.inv(sum_of(kernels, view, 0) + np.diag(penalty * thinness))
    answers = inverse @ targets
    held_out, apart = np.empty_like(answers), np.full_like(answers, np.nan)
    as_new = sum_of(kernels, view, 1)
    as_stranger = sum_of(kernels, view, 2) if strangers else as_new
    for fold in np.unique(known.folds):
        out = known.folds == fold
        held_out[out] = _without(inverse, answers, as_new, out, out)
        for author in np.unique(known.codes[out]) if strangers else ():
            # The same fold is away, so that strangers meet the very model that insiders met.
            theirs = known.codes == author
            asked = out & theirs
            apart[asked] = _without(inverse, answers, as_stranger, asked, out | theirs)
    apart[np.arange(n), known.codes] = np.nan
    return Ridge(answers, held_out, apart)


def _without(
    inverse: FloatArray,
    answers: FloatArray,
    kernel: FloatArray,
    asked: NDArray[np.bool_],
    out: NDArray[np.bool_],
) -> FloatArray:
    """What a regression without the rows ``out`` answers to the rows ``asked``."""
    away = np.flatnonzero(out)
    others = kernel[asked]
    others[:, away] = 0.0
    lost = np.linalg.solve(inverse[np.ix_(away, away)], answers[away])
    return np.asarray(others @ answers - (others @ inverse[:, away]) @ lost)


def length(words: float) -> float:
    """0 for short texts, 1 for long works, by the logarithm of their words between.

    >>> [round(length(words), 2) for words in (300.0, 3162.0, 30_000.0)]
    [0.0, 0.5, 1.0]
    """
    away = np.log(max(words, 1.0) / SHORT_WORK) / np.log(LONG_WORK / SHORT_WORK)
    return float(np.clip(away, 0.0, 1.0))


def first_weights(views: Sequence[Mapping[str, float]], words: float) -> FloatArray:
    """What the views weigh before any text is held out, by the words of a unit.

    >>> first_weights([{"written": 1.0}, {"plain": 1.0}], 300.0).tolist()
    [4.0, 4.0]
    >>> first_weights([{"written": 1.0}, {"plain": 1.0}], 30_000.0).round(2).tolist()
    [0.16, 7.84]
    """
    holds = np.array([set(view) <= set(ACROSS_WORKS) for view in views])
    if not holds.any():
        return np.full(len(views), FIRST_SUM / len(views))
    share = np.where(holds, 1.0, LEAST ** length(words))
    return np.asarray(FIRST_SUM * share / share.sum())


def hardness(
    known: Known, held_out: FloatArray, first: FloatArray, power: float = HARDNESS
) -> FloatArray:
    r"""What rows weigh, 1 in the mean: :math:`(1 - p)^{0.3}`, by how sure the others are of them.

    As in a support vector machine, a text that others answer without doubt says nothing new; but
    here none is without weight, all authors share the weights, and all answers keep their closed
    form. Texts of which nothing is known weigh as others do in the mean.
    """
    from scipy.special import softmax  # late: answers need none

    weights, told, codes = view_weights(known, held_out, first), known.told(), code_per_text(known)
    proba = softmax(known.per_text(held_out) @ weights, axis=1)[np.arange(len(codes)), codes]
    found = np.maximum(1 - proba, LEAST_DOUBT) ** power
    found[~told] = found[told].mean() if told.any() else 1.0
    rows = found[known.document]
    return np.asarray(rows / rows.mean())


def view_weights(known: Known, held_out: FloatArray, first: FloatArray) -> FloatArray:
    r"""Weights :math:`\omega` of the views, one for all authors, by the log-loss of held-out texts.

    .. math:: \min_\omega - \sum_i \frac{1}{n_{u(i)}} \ln \mathrm{softmax}_{y_i}\bigl(
        \textstyle\sum_v \omega_v c_{vi} \bigr) + \tfrac12 \lVert \ln \omega - \ln \omega_0 \rVert^2

    A unit *u* counts once, however many of its texts there are: they are held out together.
    """
    from scipy.optimize import minimize  # late: answers need none
    from scipy.special import log_softmax

    start = np.log(first)
    contrasts, codes, told = known.per_text(held_out), code_per_text(known), known.told()
    share = (1.0 / np.bincount(known.units)[known.units])[told]
    contrasts, codes = contrasts[told], codes[told]
    if not len(codes):
        return np.asarray(np.exp(start))
    own = share @ contrasts[np.arange(len(codes)), codes]

    def loss(point: FloatArray) -> tuple[float, FloatArray]:
        weights, away = np.exp(point), point - start
        log_proba = log_softmax(contrasts @ weights, axis=1)
        value = -share @ log_proba[np.arange(len(codes)), codes] + away @ away / 2
        slope = np.einsum("n,nk,nkv->v", share, np.exp(log_proba), contrasts) - own
        return float(value), slope * weights + away

    return np.asarray(np.exp(minimize(loss, start, jac=True, method="L-BFGS-B").x))


def code_per_text(known: Known) -> IntArray:
    """The author of each text."""
    codes = np.empty(int(known.document.max()) + 1, dtype=np.int64)
    codes[known.document] = known.codes
    return codes
