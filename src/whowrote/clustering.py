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
    \hat K = \min \{K : B_K \ge B_{K^*} - \mathrm{se}(B_{K^*})\}, \quad K^* = \arg\max_K B_K,

the rule of one standard error: without it, an author who writes in two moods becomes two.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from whowrote.corpus import Corpus
from whowrote.features.interface import TextFeatures
from whowrote.features.storage import named

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

DIMENSIONS = 8
"""D at most; a power of two, for which there is a Hadamard matrix."""
FOLDS = 3
FEWEST = 4
FEWEST_AUTO = 12
MOST_AUTHORS = 12
TYPICAL = 3


@dataclass(frozen=True)
class CurvePoint:
    """Mean bound of held-out texts with so many groups, and its standard error over texts."""

    n_authors: int
    bound: float
    standard_error: float


@dataclass(frozen=True)
class Choice:
    """How the number of groups was come by; ``best`` is the K of the highest bound.

    ``curve`` and ``best`` are empty where the number was given.
    """

    method: Literal["given", "held-out bound, one standard error"]
    n_authors: int
    best: int | None = None
    n_folds: int = 0
    curve: tuple[CurvePoint, ...] = ()


@dataclass(frozen=True)
class Group:
    """Texts supposed to be by one hand; ``typical`` are the ids of its clearest cases."""

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
    n_authors: int | Literal["auto"] = "auto",
    *,
    features: str | TextFeatures = "adhominem",
    dimensions: int = DIMENSIONS,
    n_folds: int = FOLDS,
    max_authors: int | None = None,
    random_state: int = 0,
) -> Clustering:
    """Put the texts of a corpus into groups, one for each supposed author.

    Parameters
    ----------
    n_authors : how many groups, or ``"auto"``: chosen by the bound of held-out texts.
    features : ``"adhominem"``, ``"ngrams"``, ``"hybrid"``, or a feature set. Style vectors mind
        subjects less; n-grams tell presidents and bloggers apart better, and essays on one subject
        worse.
    dimensions : columns that are kept of the features, a power of two.
    n_folds : parts that are held out in turn; texts of one ``corpus.groups`` stay together.
    max_authors : the largest number that "auto" tries; by default the root of the number of texts,
        and 12 at most.
    random_state : seed; the same seed and texts give the same groups.

    Examples
    --------
    >>> ann, bob = "I walk, and I sing, and I hum along. ", "We went home; we slept! It was late. "
    >>> corpus = Corpus.from_texts([ann * n for n in (2, 3, 4)] + [bob * n for n in (2, 3, 4)])
    >>> [text.group for text in cluster(corpus, 2, features="ngrams").placed]
    [1, 1, 1, 2, 2, 2]

    """
    _check(corpus, n_authors, dimensions)
    X = _rows(corpus.texts, named(features))
    if n_authors == "auto":
        choice = choose(
            X,
            _fold_numbers(corpus, n_folds, random_state),
            max_authors,
            **_settings(dimensions, random_state),
        )
    else:
        choice = Choice("given", int(n_authors))
    ...
