r"""Who wrote what when nobody is labelled: texts into groups, one for each supposed author.

.. math:: z_i = Q^\top V_D^\top \left(\frac{x_i}{\lVert x_i \rVert} - \bar x\right), \qquad
    Q^\top Q = I, \quad |Q_{jk}| = D^{-1/2}, \qquad
    p(k \mid z_i) = \gamma_k(q(\cdot \mid z_i))

A corpus of this kind has some hundred texts, and an autoencoder of 200 columns would learn them by
heart. So rows are brought to length one, centred, and projected on their :math:`D = 8` leading
principal axes :math:`V_D`. The model standardises its columns, which would blow up the least of
these axes to the size of the first; the rotation :math:`Q` (a Hadamard matrix) gives all columns
the same variance before, and distances stay what they are. A Student-t autoencoder then starts from
the groups of k-means and follows its bound.

With ``"auto"`` the number of groups K is chosen by what held-out texts say: with texts in F folds,

.. math:: B_K = \frac1n \sum_{i=1}^n \mathrm{bound}_K(z_i \mid \text{other folds}), \qquad
    \hat K = \min \{K : B_K \ge B_{K^*} - \mathrm{se}(B_K - B_{K^*})\}, \quad
    K^* = \arg\max_K B_K,

the rule of one standard error, of differences over the same texts. It is a guess: of 20 corpora it
met 5 and missed 7 by one. With style vectors K may be twice the number of authors or, of few or
much alike texts, one; with n-grams it is nearly always too low. A number that is known is better.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import isqrt
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import hadamard
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GroupKFold
from sklearn.preprocessing import normalize

from whowrote.arrays import FloatArray, IntArray
from whowrote.corpus.texts import Corpus
from whowrote.errors import ClusterWarning, InputError
from whowrote.estimators import MixtureVAEClusterer
from whowrote.estimators.fitted_classifier import Fit
from whowrote.estimators.scaling import Scaling
from whowrote.features.interface import TextFeatures
from whowrote.features.kinds import named
from whowrote.formatting import clipped, count
from whowrote.metrics import matched_share
from whowrote.model import Rows
from whowrote.progress import listening, tell
from whowrote.training import Assignment

DIMENSIONS = 8
"""D at most; a power of two, for which there is a Hadamard matrix."""
FEWEST = 4
FEWEST_AUTO = 12
FEW = 100
"""Fewer texts than this are held out in more and smaller parts: each counts for learning."""
MOST_AUTHORS = 12
WARM_UP, EPOCHS = 30, 10
TYPICAL = 3
METHOD = "held-out bound, one standard error"


@dataclass(frozen=True)
class CurvePoint:
    """Mean bound of held-out texts with so many groups, and its standard error over texts.

    ``difference_error`` is the standard error of the difference from the best number's bound.
    """

    n_authors: int
    bound: float
    standard_error: float
    difference_error: float


@dataclass(frozen=True)
class Choice:
    """How the number of groups was come by; ``best`` is the K of the highest bound.

    ``curve`` and ``best`` are empty where the number was given.
    """

    method: str
    n_authors: int
    best: int | None = None
    n_folds: int = 0
    curve: tuple[CurvePoint, ...] = ()


@dataclass(frozen=True)
class Group:
    """Texts supposed to be by one author; ``typical`` are the ids of its clearest cases."""

    number: int
    size: int
    typical: tuple[str, ...]


@dataclass(frozen=True)
class Placed:
    """Where one text went: the probability of its group, and how usual the text is for it."""

    id: str
    sha256: str
    group: int
    probability: float
    typicality: float


@dataclass(frozen=True)
class Agreement:
    """Groups against the known authors; these have played no part in making the groups.

    ``accuracy`` is the share of texts in the right group when each author is matched with at most
    one group in the best way; ``table`` has a row per author and a column per group.
    """

    texts: int
    adjusted_rand: float
    accuracy: float
    authors: tuple[str, ...]
    table: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Clustering:
    """The whole answer. Groups are numbered from one, the largest first; no text is in it."""

    texts: int
    choice: Choice
    groups: tuple[Group, ...]
    placed: tuple[Placed, ...]
    agreement: Agreement | None
    features: str
    dimensions: int
    random_state: int
    fingerprint: str

    @property
    def n_groups(self) -> int:
        """Groups that have texts; the model may leave some of those asked for empty."""
        return len(self.groups)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {**asdict(self), "n_groups": self.n_groups}


def cluster(
    corpus: Corpus,
    n_authors: int | str = "auto",
    *,
    features: str | TextFeatures = "adhominem",
    max_authors: int | None = None,
    random_state: int = 0,
) -> Clustering:
    """Put the texts of a corpus into groups, one for each supposed author.

    Authors that the corpus knows are compared with the groups and not learnt from. ``n_authors``
    is the number of groups, or ``"auto"``: what held-out texts speak for, ``max_authors`` at most
    (by default the root of the number of texts, and 12 at most); texts of one of ``corpus.units``
    are held out together. ``features`` is ``"adhominem"``, ``"ngrams"``, ``"hybrid"``, or a feature
    set. The same ``random_state`` and texts give the same groups.

    >>> ann, bob = "I walk, and I sing, and I hum along. ", "We went home; we slept! It was late. "
    >>> corpus = Corpus.from_texts([ann * n for n in (2, 3, 4)] + [bob * n for n in (2, 3, 4)])
    >>> [text.group for text in cluster(corpus, 2, features="ngrams").placed]
    [1, 1, 1, 2, 2, 2]
    """
    _check(corpus, n_authors)
    X = _rows(corpus.texts, clone(named(features)))
    if n_authors == "auto":
        folds = fold_numbers(corpus.units, random_state)
        choice = choose(X, folds, _most(len(corpus), max_authors), random_state)
    else:
        choice = Choice("given", int(n_authors))
    placed = _place(corpus, fit(X, choice.n_authors, random_state), X)
    return Clustering(
        texts=len(corpus),
        choice=choice,
        groups=_groups(placed),
        placed=placed,
        agreement=agreement(corpus.authors, [text.group for text in placed]),
        features=features if isinstance(features, str) else type(features).__name__,
        dimensions=width(X),
        random_state=random_state,
        fingerprint=corpus.fingerprint,
    )


def _rows(texts: Sequence[str], features: TextFeatures) -> Any:
    """One row a text, of length one."""
    fit_transform = getattr(features, "fit_transform", None)
    X: Any = fit_transform(texts) if fit_transform else features.fit(texts).transform(texts)
    return normalize(X if sparse.issparse(X) else np.asarray(X, dtype=np.float64))


def width(X: Any) -> int:
    """D: eight, or the largest power of two that fewer rows or columns allow.

    >>> width(np.zeros((7, 200))), width(np.zeros((100, 200)))
    (4, 8)
    """
    spare = 1 if sparse.issparse(X) else 0  # the solver for sparse rows cannot find the last axis
    most: int = min(X.shape[0] - 1, X.shape[1] - spare)
    return min(DIMENSIONS, 1 << (most.bit_length() - 1))


@dataclass(frozen=True)
class Reduction:
    r"""Centre and axes: :math:`z = A (x - \bar x)` with :math:`A = Q^\top V_D^\top`."""

    mean: FloatArray
    axes: FloatArray

    def transform(self, X: Any) -> FloatArray:
        """Rows of D columns."""
        return np.asarray(X @ self.axes.T) - self.mean @ self.axes.T


def reduce(X: Any, random_state: int) -> Reduction:
    """Learn the leading axes and turn them so that all columns have one variance."""
    d = width(X)
    solver = "arpack" if sparse.issparse(X) else "auto"  # sparse rows are never made dense
    with np.errstate(invalid="ignore", divide="ignore"):  # equal rows have no variance to explain
        leading = PCA(d, svd_solver=solver, random_state=random_state).fit(X)
    turn = hadamard(d) / np.sqrt(d)
    return Reduction(np.asarray(leading.mean_).ravel(), turn @ leading.components_)


class _Clusterer(MixtureVAEClusterer):
    """Provisional labels from k-means: a Gaussian mixture of full covariances asks for more rows.

    On the rows of 18 corpora of 24 to 240 texts the mean adjusted Rand index of k-means was 0.52,
    of the mixture 0.47.
    """

    def _provisional(self, X: Any, scaling: Scaling, seed: int) -> IntArray:
        means = KMeans(self.n_components, n_init=20, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than groups
            return np.asarray(means.fit_predict(X), dtype=np.int64)

    def _place(self, fit: Fit, rows: Rows, assignment: Assignment) -> None:
        """Components stay where the warm-up has put them, for the same reason."""


@dataclass(frozen=True)
class Fitted:
    """A reduction and the model that has learnt from the reduced rows."""

    reduction: Reduction
    model: MixtureVAEClusterer


def fit(X: Any, n_authors: int, random_state: int) -> Fitted:
    """Reduce the rows and learn so many groups of them.

    Eight batches an epoch, however few the rows: the number of steps decides how far the model
    gets. Most epochs have provisional labels; a long time without merges groups of few rows.
    """
    reduction = reduce(X, random_state)
    model = _Clusterer(
        n_authors,
        learning_rate=0.005,
        warm_up=WARM_UP,
        max_epochs=EPOCHS,
        batch_size=max(4, min(256, X.shape[0] // 8)),
        n_members=4,
        validation_fraction=0.0,
        device="cpu",  # so few rows do not repay the way to a GPU
        random_state=random_state,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClusterWarning)  # the answer says how many groups are left
        return Fitted(reduction, model.fit(reduction.transform(X)))


def fold_numbers(groups: Sequence[str], random_state: int) -> IntArray:
    """The fold of each text, of five, and of three where texts are many; a group stays together."""
    n_folds = min(5 if len(groups) < FEW else 3, len(set(groups)))
    if n_folds < 2:
        raise InputError(
            f"all {len(groups)} texts are of one group, {groups[0]!r}; choosing the number of "
            "authors needs held-out texts of other groups: give the number of authors"
        )
    folds = np.empty(len(groups), dtype=np.int64)
    splitter = GroupKFold(n_folds, shuffle=True, random_state=random_state)
    for number, (_, held_out) in enumerate(splitter.split(folds, groups=groups)):
        folds[held_out] = number
    return folds


def choose(X: Any, folds: IntArray, most: int, random_state: int) -> Choice:
    """The number of groups, ``most`` at most, that held-out rows speak for."""
    most = min(most, len(folds) - int(np.bincount(folds).max()))  # each needs a row to start from
    bounds = _held_out_bounds(X, folds, most, random_state)
    best = int(bounds.mean(axis=1).argmax())
    curve = tuple(
        CurvePoint(k, float(row.mean()), _standard_error(row), _standard_error(row - bounds[best]))
        for k, row in enumerate(bounds, start=1)
    )
    return Choice(METHOD, within_one_error(curve), best + 1, int(folds.max()) + 1, curve)


def within_one_error(curve: Sequence[CurvePoint]) -> int:
    """The smallest K whose bound differs from the best by at most one standard error."""
    best = max(point.bound for point in curve)
    return min(p.n_authors for p in curve if p.bound >= best - p.difference_error)


def _standard_error(values: FloatArray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def _held_out_bounds(X: Any, folds: IntArray, most: int, random_state: int) -> FloatArray:
    """(K, n): the bound of every row under models that have not learnt from its fold."""
    n_folds = int(folds.max()) + 1
    bounds = np.empty((most, len(folds)))
    for fold in range(n_folds):
        held_out = folds == fold
        for k in range(1, most + 1):
            tell("choosing the number of authors", fold * most + k - 1, n_folds * most)
            with listening(lambda stage: None):  # one bar for all fits, not one for each
                fitted = fit(X[~held_out], k, random_state)
            rows = fitted.reduction.transform(X[held_out])
            bounds[k - 1, held_out] = fitted.model.bound(rows)
    return bounds


def _place(corpus: Corpus, fitted: Fitted, X: Any) -> tuple[Placed, ...]:
    rows = fitted.reduction.transform(X)
    probability = fitted.model.predict_proba(rows)
    typicality = fitted.model.typicality(rows, calibrated=False)  # these are the rows learnt from
    group = fitted.model.labels_
    own = np.arange(len(group)), group
    columns = (group + 1).tolist(), probability[own].tolist(), typicality[own].tolist()
    return tuple(Placed(*row) for row in zip(corpus.ids, corpus.sha256, *columns, strict=True))


def _groups(placed: Sequence[Placed]) -> tuple[Group, ...]:
    """Each group with the texts that are most surely and most usually of it."""
    members: dict[int, list[Placed]] = {}
    for text in placed:
        members.setdefault(text.group, []).append(text)
    found = []
    for number, own in sorted(members.items()):
        clear = sorted(own, key=lambda text: -text.probability * text.typicality)
        found.append(Group(number, len(own), tuple(text.id for text in clear[:TYPICAL])))
    return tuple(found)


def agreement(authors: Sequence[str | None], groups: Sequence[int]) -> Agreement | None:
    """Compare groups (numbered from one) with the authors that are known; None if none is.

    >>> found = agreement(["ann", "ann", "bob", None], [2, 2, 1, 1])
    >>> found.accuracy, found.table
    (1.0, ((0, 2), (1, 0)))
    """
    known = [(a, g) for a, g in zip(authors, groups, strict=True) if a is not None]
    if not known:
        return None
    names, codes = np.unique([author for author, _ in known], return_inverse=True)
    columns = np.array([group for _, group in known]) - 1
    table = np.zeros((len(names), max(groups)), dtype=np.int64)
    np.add.at(table, (codes, columns), 1)
    return Agreement(
        texts=len(known),
        adjusted_rand=float(adjusted_rand_score(codes, columns)),
        accuracy=matched_share(table),
        authors=tuple(names.tolist()),
        table=tuple(map(tuple, table.tolist())),
    )


def _check(corpus: Corpus, n_authors: object) -> None:
    auto = n_authors == "auto"
    what, fewest = ("choosing a number of authors", FEWEST_AUTO) if auto else ("grouping", FEWEST)
    if len(corpus) < fewest:
        raise InputError(
            f"the corpus has {count(len(corpus), 'text')} and {what} needs at least {fewest}: add "
            "texts, or cut long ones into passages"
        )
    whole = isinstance(n_authors, Integral) and not isinstance(n_authors, bool)
    if not auto and not (whole and 1 <= int(str(n_authors)) <= len(corpus)):
        raise InputError(
            f"the number of authors is {clipped(repr(n_authors))}; it must be 'auto' or a whole "
            f"number from 1 to {len(corpus)}, the number of texts: give 'auto' if it is not known"
        )


def _most(n_texts: int, max_authors: int | None) -> int:
    if max_authors is None:
        return min(MOST_AUTHORS, isqrt(n_texts))
    if max_authors >= 1:
        return max_authors
    raise InputError(f"max_authors is {max_authors}; it must be at least 1: give {MOST_AUTHORS}")
