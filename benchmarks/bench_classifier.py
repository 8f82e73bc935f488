"""Fit and predict against an RBF SVM with calibrated probabilities, as ratios in one run.

The Student-t classifier at D = 50, K = 30 on 16,000 x 200 against ``CalibratedClassifierCV(SVC)``
with five folds on the same rows and cores. Real vectors are used if an ``.npz`` with ``X`` and
``y`` is given or lies with the measuring corpora beside the repository, synthetic ones of the same
shape otherwise.

Command:  python benchmarks/bench_classifier.py [levs30.npz]
Hardware: two cores, about ten minutes, nearly all of it the SVM.
Expect:   fit ratio below 1, predict ratio above 20.
"""

from __future__ import annotations

import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from whowrote import MixtureVAEClassifier

REAL = Path(__file__).parents[2] / "shared" / "data" / "levs30.npz"
ROWS, QUESTIONS, SVM_QUESTIONS = 16_000, 100_000, 2_000


def data(path: Path) -> tuple[Any, Any]:
    """Real vectors from a file, or synthetic ones of the same shape."""
    if path.is_file():
        print("real vectors")
        with np.load(path) as file:
            return file["X"][:ROWS].astype(np.float32), file["y"][:ROWS]
    X, y = make_classification(
        ROWS,
        200,
        n_informative=60,
        n_redundant=60,
        n_classes=30,
        n_clusters_per_class=1,
        class_sep=1.5,
        random_state=0,
    )
    return X.astype(np.float32), y


def seconds(work: Any) -> float:
    began = perf_counter()
    work()
    return perf_counter() - began


def main() -> None:
    X, y = data(Path(sys.argv[1]) if len(sys.argv) > 1 else REAL)
    questions = np.tile(X, (QUESTIONS // len(X) + 1, 1))[:QUESTIONS]
    ours = MixtureVAEClassifier(latent_dim=50, device="cpu", random_state=0)
    fit = seconds(lambda: ours.fit(X, y))
    predict = seconds(lambda: ours.predict_proba(questions))
    print(f"whowrote: fit {fit:.1f} s ({ours.n_iter_} epochs), {QUESTIONS} rows in {predict:.2f} s")
    rbf = make_pipeline(StandardScaler(), SVC(gamma="auto"))
    svm = CalibratedClassifierCV(rbf, cv=5, n_jobs=2)
    svm_fit = seconds(lambda: svm.fit(X, y))
    # The SVM answers row by row at a constant price: a sample of the questions is enough.
    svm_predict = seconds(lambda: svm.predict_proba(questions[:SVM_QUESTIONS]))
    svm_predict *= QUESTIONS / SVM_QUESTIONS
    print(f"RBF SVM:  fit {svm_fit:.1f} s, {QUESTIONS} rows in {svm_predict:.1f} s (extrapolated)")
    print(f"fit, whowrote / SVM:     {fit / svm_fit:.2f}  (required: at most 1)")
    print(f"predict, SVM / whowrote: {svm_predict / predict:.0f}  (required: at least 20)")


if __name__ == "__main__":
    main()
