"""The scikit-learn face of the model: numeric X only.

Names are imported on first use: what answers does not load what learns, nor scikit-learn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from whowrote.runtime import on_first_use

if TYPE_CHECKING:
    from whowrote.estimators.classifier import MixtureVAEClassifier as MixtureVAEClassifier
    from whowrote.estimators.clusterer import MixtureVAEClusterer as MixtureVAEClusterer
    from whowrote.estimators.fitted_classifier import Decoded as Decoded
    from whowrote.estimators.fitted_classifier import Sample as Sample
    from whowrote.estimators.vector_table import VectorTable as VectorTable

_MODULES = {
    "Decoded": "whowrote.estimators.fitted_classifier",
    "MixtureVAEClassifier": "whowrote.estimators.classifier",
    "MixtureVAEClusterer": "whowrote.estimators.clusterer",
    "Sample": "whowrote.estimators.fitted_classifier",
    "VectorTable": "whowrote.estimators.vector_table",
}

__all__ = ["Decoded", "MixtureVAEClassifier", "MixtureVAEClusterer", "Sample", "VectorTable"]

__getattr__ = on_first_use(__name__, _MODULES)
