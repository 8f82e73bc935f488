"""A start in closed form beside random networks, and beside the usual classifiers.

Every problem is split five times; a row has the mean accuracy of each method on the held-out half
(of texts: learnt from as many an author as the row says), and for ours the calibration error and
the seconds. ``start="ridge"`` is tried without any training, with it, and as four members. The
vectors of texts come from ``python experiments/start.py --embed FOLDER`` (the measuring corpora),
so that the comparison itself runs anywhere.

Command:  python experiments/start.py --vectors scratch/start.npz --out experiments/results
Hardware: 16 cores, 6 minutes.
Expect:   untrained, the ridge start is calibrated (ECE mostly below 0.06) in a second, and near
          SVC() on half of the problems; four members, trained, are level with it on average.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn import datasets
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from whowrote import MixtureVAEClassifier
from whowrote.metrics import calibration_error

SEEDS = range(5)
TEXTS = {
    "blogs": ("blog30.parquet", 30, (5, 20, 100)),
    "reviews": ("amazon_music.parquet", 40, (10,)),
}


class Untrained(MixtureVAEClassifier):
    """The start alone."""

    def _train(self, *_: Any, **__: Any) -> None:
        """Nothing is trained."""


RIDGE = {"start": "ridge", "hidden": 256, "dropout": 0.0, "label_weight": 30.0}
METHODS = {
    "SVC()": lambda: make_pipeline(StandardScaler(), SVC()),
    "LogisticRegression()": lambda: make_pipeline(
        StandardScaler(), LogisticRegression(max_iter=1000)
    ),
    "default": lambda: MixtureVAEClassifier(random_state=0),
    "ridge, untrained": lambda: Untrained(**RIDGE, random_state=0),
    "ridge": lambda: MixtureVAEClassifier(**RIDGE, random_state=0),
    "ridge, four members": lambda: MixtureVAEClassifier(
        **RIDGE, n_members=4, patience=3, random_state=0
    ),
}


def toy_problems() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """What comes with scikit-learn: narrow, wide, few rows, many."""
    make = datasets.make_classification
    return {
        "iris": datasets.load_iris(return_X_y=True),
        "wine": datasets.load_wine(return_X_y=True),
        "cancer": datasets.load_breast_cancer(return_X_y=True),
        "digits": datasets.load_digits(return_X_y=True),
        "circles": datasets.make_circles(600, noise=0.08, factor=0.5, random_state=1),
        "moons": datasets.make_moons(600, noise=0.2, random_state=1),
        "blobs": datasets.make_blobs(1000, centers=5, cluster_std=2.0, random_state=2),
        "wide, few rows": make(
            200, 100, n_informative=20, n_redundant=20, n_classes=4, random_state=3
        ),
        "narrow": make(2000, 10, n_informative=6, n_classes=6, random_state=4),
        "forty columns": make(
            3000, 40, n_informative=30, n_classes=3, n_clusters_per_class=1, random_state=5
        ),
    }


def embed(folder: Path, out: Path) -> None:
    """Vectors of some authors' texts, by the packaged extractor."""
    from whowrote import AdHominem, load

    found = {}
    for name, (file, n_authors, sizes) in TEXTS.items():
        own = {a: c for a, c in load(folder / file).by_author().items() if len(c) >= 14}
        chosen = sorted(own)[:n_authors]
        texts = [text for author in chosen for text in own[author].texts[: 2 * max(sizes)]]
        counts = [min(len(own[author]), 2 * max(sizes)) for author in chosen]
        found[f"{name}|X"] = AdHominem().transform(texts)
        found[f"{name}|y"] = np.repeat(np.arange(len(chosen)), counts)
    np.savez_compressed(out, **found)


def split(X: np.ndarray, y: np.ndarray, seed: int, each: int | None) -> list[np.ndarray]:
    """Half and half, or so many rows a class to learn from and at most 20 to ask."""
    if each is None:
        return list(train_test_split(X, y, test_size=0.5, random_state=seed, stratify=y))
    random = np.random.default_rng(seed)
    rows = [random.permutation(np.flatnonzero(y == k)) for k in np.unique(y)]
    train = np.concatenate([own[:each] for own in rows])
    test = np.concatenate([own[each : each + 20] for own in rows])
    return [X[train], X[test], y[train], y[test]]


def one(problem: str, X: np.ndarray, y: np.ndarray, each: int | None, seed: int) -> dict[str, Any]:
    """Every method on one split."""
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    X_train, X_test, y_train, y_test = split(X, y, seed, each)
    row: dict[str, Any] = {"problem": problem, "seed": seed, "rows": len(y_train)}
    for name, make in METHODS.items():
        began = time.perf_counter()
        model = make().fit(X_train, y_train)
        row[name] = {"accuracy": float(model.score(X_test, y_test))}
        row[name]["seconds"] = time.perf_counter() - began
        if hasattr(model, "fitted_"):
            proba = model.predict_proba(X_test)
            right = model.classes_[proba.argmax(axis=1)] == y_test
            row[name]["ece"] = calibration_error(proba.max(axis=1), right)
    return row


def main() -> None:
    """Compare, or embed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--embed", type=Path, help="folder of the measuring corpora")
    parser.add_argument("--vectors", type=Path, default=Path("scratch/start.npz"))
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    if arguments.embed is not None:
        embed(arguments.embed, arguments.vectors)
        return
    problems = [(name, *data, None) for name, data in toy_problems().items()]
    if arguments.vectors.is_file():
        with np.load(arguments.vectors) as file:
            problems += [
                (f"{name}, {each} texts", file[f"{name}|X"], file[f"{name}|y"], each)
                for name, (_, _, sizes) in TEXTS.items()
                for each in sizes
            ]
    tasks = [(*problem, seed) for problem in problems for seed in SEEDS]
    rows = Parallel(arguments.jobs, verbose=5)(delayed(one)(*task) for task in tasks)
    table = {
        name: {
            method: {
                figure: round(float(np.mean([row[method][figure] for row in own])), 4)
                for figure in own[0][method]
            }
            for method in METHODS
        }
        for name, *_ in problems
        if (own := [row for row in rows if row["problem"] == name])
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "start.json").write_text(json.dumps(table, indent=1) + "\n")
    for name, found in table.items():
        print(f"{name:20s}" + "".join(f"{m}: {v['accuracy']:.3f}  " for m, v in found.items()))


if __name__ == "__main__":
    main()
