r"""Feature sets by name, and two of them side by side: :math:`[\,\omega\, z_i / \sqrt L,\; g_i\,]`.

The names are what a user may ask for, and what a model folder can hold. In a :class:`Hybrid`
:math:`z_i` is the dense vector, standardised over the texts of ``fit``, so that its block has a
squared length of about :math:`\omega^2` beside the two of the n-gram blocks. With a linear SVM and
some ten texts of each of 60 and 80 bloggers that the extractor never saw, a weight of 0.5 did best.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from whowrote.errors import InputError
from whowrote.features.adhominem import AdHominem, SentenceEncoder, StyleExtractor
from whowrote.features.counting import READINGS, SHORT_READINGS, counted_once
from whowrote.features.fitted_features import (
    STORED_FEATURES,
    WEIGHTS_ID,
    FittedHybrid,
    as_dense,
    excerpts,
    require_asked,
    require_named,
)
from whowrote.features.interface import TextFeatures, checked_texts, text_tags
from whowrote.features.ngrams import NGrams


class Hybrid(TransformerMixin, BaseEstimator):
    """A dense feature set (by default :class:`AdHominem`) beside :class:`NGrams`."""

    def __init__(
        self,
        dense: TextFeatures | None = None,
        ngrams: NGrams | None = None,
        *,
        weight: float = 0.5,
    ) -> None:
        self.dense = dense
        self.ngrams = ngrams
        self.weight = weight

    def fit(self, X: Sequence[str], y: Any = None) -> Self:
        """Learn the n-grams, and centre and spread of the dense columns."""
        self.fit_transform(X, y)
        return self

    def fit_transform(self, X: Sequence[str], y: Any = None, **_: Any) -> sparse.csr_matrix:
        """Fit and transform in one pass over the texts."""
        if not self.weight >= 0:
            raise InputError(f"weight is {self.weight}; it must be 0 or more: give 0.5")
        texts = checked_texts(X)
        dense = AdHominem() if self.dense is None else clone(self.dense)
        self.ngrams_ = NGrams() if self.ngrams is None else clone(self.ngrams)
        with counted_once():  # the extractor reads n-grams of the same texts
            vectors = as_dense(dense.fit(texts).transform(excerpts(texts)))
            rows = self.ngrams_.fit_transform(texts)
        spread = vectors.std(axis=0)
        self.fitted_ = FittedHybrid(
            dense.fitted(),
            self.ngrams_.fitted(),
            vectors.mean(axis=0),
            np.where(spread > 0, spread, 1.0) * np.sqrt(vectors.shape[1]),
            self.weight,
        )
        self.dense_ = dense
        return self.fitted_.joined(vectors, rows)

    def transform(self, X: Sequence[str]) -> sparse.csr_matrix:
        """One sparse row per text: the dense columns first."""
        return self.fitted().transform(X)

    def fitted(self) -> FittedHybrid:
        """Both halves, and how they stand side by side."""
        check_is_fitted(self, "fitted_")
        return self.fitted_

    def as_new(self, rows: sparse.csr_matrix, document: NDArray[Any]) -> sparse.csr_matrix:
        """Training rows as they would be had their text not been there: see :class:`NGrams`."""
        width = len(self.fitted().mean)
        as_new = self.ngrams_.as_new(sparse.csr_matrix(rows[:, width:]), document)
        return sparse.csr_matrix(sparse.hstack([rows[:, :width], as_new], format="csr"))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """``dense__<name>``, then the names of the n-grams."""
        check_is_fitted(self, "fitted_")
        dense = [f"dense__{name}" for name in self.dense_.get_feature_names_out()]
        return np.array([*dense, *self.ngrams_.get_feature_names_out()], dtype=object)

    def __sklearn_tags__(self) -> Any:
        return text_tags(super().__sklearn_tags__(), fitted=True)


KINDS = {
    "adhominem": AdHominem,
    "ngrams": NGrams,
    "hybrid": Hybrid,
    "sentences": SentenceEncoder,
    "style": StyleExtractor,
}
BY_NAME = ("adhominem", "style", "ngrams", "hybrid")
"""Those that need nothing but their name."""


MOST_WORDS_FOR_LARGE = 500_000
"""Words up to which the extractor with two towers reads: about a minute of one core."""


def named(
    features: str | TextFeatures,
    few: bool = False,
    words: int | None = None,
    long: bool = False,
) -> TextFeatures:
    """A feature set by name, or the one that is given.

    ``few``: for few texts, n-grams by name come in several readings (of ``long`` works in every
    one), and vectors count twice as much; where they are known to have not too many ``words`` in
    all, the vectors are those of two towers.
    """
    if not isinstance(features, str):
        return features
    if few and features in ("hybrid", "ngrams"):
        ngrams = NGrams(readings=tuple(READINGS) if long else SHORT_READINGS)
        if features == "ngrams":
            return ngrams
        large = words is not None and words <= MOST_WORDS_FOR_LARGE
        dense = StyleExtractor(size="large") if large else AdHominem()
        return Hybrid(dense, ngrams, weight=1.0)
    if features not in BY_NAME:
        raise InputError(
            f"features is {features!r}; it must be one of {', '.join(BY_NAME)}, or a feature set "
            "such as SentenceEncoder('name')"
        )
    made: TextFeatures = KINDS[features]()
    return made


def with_weights(features: str, weights: str | os.PathLike[str], few: bool = False) -> TextFeatures:
    """A feature set by name whose extractor is a file of weights; ``few`` as in :func:`named`."""
    if not Path(weights).is_file():
        raise InputError(
            f"weights is '{weights}', which is no file; it must be one that `whowrote extractor "
            "train` wrote: give its path, or leave it out for the packaged extractor"
        )
    match features:
        case "adhominem":
            return AdHominem(weights)
        case "style":
            return StyleExtractor(weights)
        case "hybrid" if few:
            return Hybrid(AdHominem(weights), NGrams(readings=SHORT_READINGS), weight=1.0)
        case "hybrid":
            return Hybrid(AdHominem(weights))
    raise InputError(
        f"weights is '{weights}' and features is {features!r}, which has no extractor; it must be "
        "hybrid, adhominem or style: choose one of these, or leave the weights out"
    )


def require_storable(features: Any) -> None:
    """Whether a model folder can hold a feature set, fitted or not; if not, a sentence on why."""
    if type(features) not in KINDS.values():
        raise InputError(
            f"features is of type {type(features).__name__}, which a model folder cannot hold; use "
            f"one of {', '.join(kind.__name__ for kind in KINDS.values())}"
        )
    if isinstance(features, Hybrid):
        for half in (features.dense, features.ngrams):
            if half is not None:
                require_storable(half)
    if isinstance(features, SentenceEncoder):
        require_named(features.model)


def with_settings(values: Mapping[str, Any], encoder: str | None = None) -> TextFeatures:
    """An unfitted feature set with the settings that a model folder tells of.

    The weights of its extractor are those of the package: it learns anew. A sentence encoder is
    none but the one that the user names as ``encoder``.
    """
    STORED_FEATURES(values, "features")  # nothing but known kinds with their own settings
    settings = {name: value for name, value in values.items() if name not in ("kind", WEIGHTS_ID)}
    match values["kind"]:
        case "hybrid":
            dense, ngrams = (
                with_settings(settings.pop(half), encoder) for half in ("dense", "ngrams")
            )
            assert isinstance(ngrams, NGrams)  # for the type checker: a hybrid holds no other
            return Hybrid(dense, ngrams, **settings)
        case "ngrams":
            listed = {n: tuple(v) if isinstance(v, list) else v for n, v in settings.items()}
            return NGrams(**listed)
        case "sentences":
            require_asked(settings["model"], encoder)
            return SentenceEncoder(**settings)
        case kind:
            made: TextFeatures = KINDS[kind](**settings)
            return made
