"""Who wrote this text, how sure is that, and may it be none of these.

The table of contents. Names are imported on first use, so ``import whowrote`` costs nothing
and the command line answers ``--help`` without loading torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from whowrote.runtime import on_first_use

if TYPE_CHECKING:
    from whowrote.attribution import Attribution as Attribution
    from whowrote.attribution import Attributor as Attributor
    from whowrote.corpus.texts import Corpus as Corpus
    from whowrote.corpus.texts import load as load
    from whowrote.estimators import MixtureVAEClassifier as MixtureVAEClassifier
    from whowrote.estimators import MixtureVAEClusterer as MixtureVAEClusterer
    from whowrote.features import AdHominem as AdHominem
    from whowrote.features import Hybrid as Hybrid
    from whowrote.features import NGrams as NGrams
    from whowrote.features import SentenceEncoder as SentenceEncoder
    from whowrote.features import StyleExtractor as StyleExtractor

__version__ = "0.1.0.dev0"

_MODULES = {
    "AdHominem": "whowrote.features",
    "Attribution": "whowrote.attribution",
    "Attributor": "whowrote.attribution",
    "Corpus": "whowrote.corpus.texts",
    "Hybrid": "whowrote.features",
    "MixtureVAEClassifier": "whowrote.estimators",
    "MixtureVAEClusterer": "whowrote.estimators",
    "NGrams": "whowrote.features",
    "SentenceEncoder": "whowrote.features",
    "StyleExtractor": "whowrote.features",
    "load": "whowrote.corpus.texts",
}

__all__ = [
    "AdHominem",
    "Attribution",
    "Attributor",
    "Corpus",
    "Hybrid",
    "MixtureVAEClassifier",
    "MixtureVAEClusterer",
    "NGrams",
    "SentenceEncoder",
    "StyleExtractor",
    "__version__",
    "load",
]

__getattr__ = on_first_use(__name__, _MODULES)


def __dir__() -> list[str]:
    """The table of contents, and no helper of it."""
    return sorted(__all__)
