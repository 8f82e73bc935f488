"""Texts to numbers: ``list[str] -> (n, L)``.

Five feature sets share one interface (``interface``): ``AdHominem``, ``StyleExtractor``,
``NGrams``, ``Hybrid`` and ``SentenceEncoder``, by name in ``kinds``. Behind the first two,
``vocabulary`` and ``pieces`` say what the network reads, ``bag``, ``layers``, ``encoder`` and
``network`` are the network, ``reading`` its file and its use; what trains it is in ``extractor``.
``counting`` finds and weighs n-grams. ``fitted_features`` has what answers need, without
scikit-learn. ``streaming`` embeds a corpus of any size. Names are imported on first use: n-grams do
not load torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from whowrote.runtime import on_first_use

if TYPE_CHECKING:
    from whowrote.features.adhominem import AdHominem as AdHominem
    from whowrote.features.adhominem import Attention as Attention
    from whowrote.features.adhominem import SentenceEncoder as SentenceEncoder
    from whowrote.features.adhominem import StyleExtractor as StyleExtractor
    from whowrote.features.interface import ReliabilityWarning as ReliabilityWarning
    from whowrote.features.interface import TextFeatures as TextFeatures
    from whowrote.features.kinds import Hybrid as Hybrid
    from whowrote.features.ngrams import NGrams as NGrams
    from whowrote.features.streaming import embed_corpus as embed_corpus

_MODULES = {
    "AdHominem": "whowrote.features.adhominem",
    "Attention": "whowrote.features.adhominem",
    "Hybrid": "whowrote.features.kinds",
    "NGrams": "whowrote.features.ngrams",
    "ReliabilityWarning": "whowrote.features.interface",
    "SentenceEncoder": "whowrote.features.adhominem",
    "StyleExtractor": "whowrote.features.adhominem",
    "TextFeatures": "whowrote.features.interface",
    "embed_corpus": "whowrote.features.streaming",
}

__all__ = [
    "AdHominem",
    "Attention",
    "Hybrid",
    "NGrams",
    "ReliabilityWarning",
    "SentenceEncoder",
    "StyleExtractor",
    "TextFeatures",
    "embed_corpus",
]

__getattr__ = on_first_use(__name__, _MODULES)
