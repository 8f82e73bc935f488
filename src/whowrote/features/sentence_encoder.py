"""Any sentence-transformers model as a feature set: ``texts -> model.encode(texts)``.

Such models are trained on meaning, so expect them to know topics better than habits; they are here
for comparison, and for those who have one trained on style. Texts beyond a model's own limit are
cut by the model itself: :class:`~whowrote.features.adhominem.AdHominem` cuts nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from whowrote.errors import InputError
from whowrote.features.interface import checked_texts, text_tags

_SURROGATE = re.compile("[\ud800-\udfff]")


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
        # The models' tokenizers take valid Unicode only; half a character says nothing anyway.
        texts = [_SURROGATE.sub("\ufffd", text) for text in checked_texts(X)]
        rows = self._model().encode(
            texts, batch_size=self.batch_size, convert_to_numpy=True, show_progress_bar=False
        )
        return np.asarray(rows, dtype=np.float32)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """``sentence0``, ``sentence1``, ..."""
        size = self.transform(["a"]).shape[1]  # the method that tells it changes its name
        return np.array([f"sentence{column}" for column in range(size)], dtype=object)

    def _model(self) -> Any:
        if hasattr(self.model, "encode") and not isinstance(self.model, str):
            return self.model
        return _loaded(str(self.model), self.device)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        return text_tags(super().__sklearn_tags__(), fitted=False)


@lru_cache(maxsize=1)
def _loaded(model: str, device: str | None) -> Any:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise InputError(
            f"SentenceEncoder('{model}') needs the package sentence-transformers, which is not "
            "installed: pip install 'whowrote[sentences]', or use AdHominem()"
        ) from None
    try:
        return SentenceTransformer(model, device=device)
    except (OSError, ValueError) as problem:
        raise InputError(
            f"sentence-transformers cannot load '{model}' ({str(problem).splitlines()[0]}); give "
            "the name or the folder of a model that is on this machine"
        ) from None
