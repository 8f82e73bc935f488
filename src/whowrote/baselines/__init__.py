"""What the model has to beat: baselines behind the scikit-learn contract.

On vectors: a linear and an RBF SVM (support vector machine), one Gaussian per author, and one
Student-t per author.
On texts: the n-gram SVM, the opponent in accuracy, and Burrows' Delta.
All of them answer ``predict`` with the argmax of ``predict_proba``.
"""

from __future__ import annotations

from whowrote.baselines.classic import RBFSVM, BurrowsDelta, LinearSVM, NGramSVM
from whowrote.baselines.densities import GaussianMixtureClassifier, StudentTMixtureClassifier

__all__ = [
    "RBFSVM",
    "BurrowsDelta",
    "GaussianMixtureClassifier",
    "LinearSVM",
    "NGramSVM",
    "StudentTMixtureClassifier",
]
