"""Any sentence-transformers model as a feature set: ``texts -> model.encode(texts)``.

Such models are trained on meaning, so expect them to know topics better than habits; they are here
for comparison, and for those who have one trained on style. Texts beyond a model's own limit are
cut by the model itself: :class:`~whowrote.features.adhominem.AdHominem` cuts nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from whowrote.features.fitted_features import FittedSentences
from whowrote.features.interface import text_tags


class SentenceEncoder(TransformerMixin, BaseEstimator):
    """A model by name, by folder, or ready-made (anything with ``encode``)."""

    def __init__(self, model: Any, *, device: str | None = None, batch_size: int = 32) -> None:
        self.model = model
        self.device = device
        self.batch_size = batch_size

    def fit(self, X: Sequence[str], y: Any = None) -> Self:
        """Nothing to learn: the model is trained."""
        return self

    def transform(self, X: Sequence[str]) -> NDArray[np.float32]:
        """One row per text."""
        return self.fitted().transform(X)

    def fitted(self) -> FittedSentences:
        """The model, which reads texts."""
        return FittedSentences(self.model, self.batch_size, self.device)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """``sentence0``, ``sentence1``, ..."""
        size = self.transform(["a"]).shape[1]  # the method that tells it changes its name
        return np.array([f"sentence{column}" for column in range(size)], dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        return text_tags(super().__sklearn_tags__(), fitted=False)
