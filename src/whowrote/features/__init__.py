"""Texts to numbers: ``list[str] -> (n, L)``.

Four feature sets share one interface (``interface``): ``AdHominem``, ``NGrams``, ``Hybrid`` and
``SentenceEncoder``. Behind the first, ``tokens`` and ``vocabulary`` say what the network reads,
``network`` is the network, ``reading`` its use, ``losses`` and ``author_batches`` what it learns
from, ``extractor_training`` the loop, ``weights`` the file. ``streaming`` embeds a corpus of any
size. Names are imported on first use: n-grams do not load torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whowrote.features.adhominem import AdHominem as AdHominem
    from whowrote.features.adhominem import Attention as Attention
    from whowrote.features.hybrid import Hybrid as Hybrid
    from whowrote.features.interface import ReliabilityWarning as ReliabilityWarning
    from whowrote.features.interface import TextFeatures as TextFeatures
    from whowrote.features.ngrams import NGrams as NGrams
    from whowrote.features.sentence_encoder import SentenceEncoder as SentenceEncoder
    from whowrote.features.streaming import embed_corpus as embed_corpus

_HOME = {
    "AdHominem": "adhominem",
    "Attention": "adhominem",
    "Hybrid": "hybrid",
    "NGrams": "ngrams",
    "ReliabilityWarning": "interface",
    "SentenceEncoder": "sentence_encoder",
    "TextFeatures": "interface",
    "embed_corpus": "streaming",
}

__all__ = [
    "AdHominem",
    "Attention",
    "Hybrid",
    "NGrams",
    "ReliabilityWarning",
    "SentenceEncoder",
    "TextFeatures",
    "embed_corpus",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"whowrote.features.{_HOME[name]}"), name)
    raise AttributeError(f"module 'whowrote.features' has no attribute {name!r}")
