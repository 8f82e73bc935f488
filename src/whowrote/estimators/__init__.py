"""The scikit-learn face of the model: numeric X only."""

from whowrote.estimators.classifier import MixtureVAEClassifier as MixtureVAEClassifier
from whowrote.estimators.clusterer import MixtureVAEClusterer as MixtureVAEClusterer
from whowrote.estimators.records import Decoded as Decoded
from whowrote.estimators.records import Sample as Sample
