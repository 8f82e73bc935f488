"""Is typicality a p-value: coverage of own new rows, and telling a class that was not learnt.

Ten problems, several splits each, eight members a fit, of which each answers alone as a fit with
its seed would. Of every problem with three classes or more one class is left out of the fit. A row
has the share of new rows whose typicality under their own class is below .05, .2 and .5, calibrated
and by the F formula, with the standard error over splits, and the mean area under the ROC curve of
own new rows against those of the class left out: of the largest typicality, calibrated and not,
and of the simplest thing that could do it, the largest probability.

Command:  python experiments/typicality.py --start logistic --out FILE
          python experiments/typicality.py --start random --splits 4 --out (the same)
          (for the record: 6 splits of iris and wine, and without "many")
Hardware: one core, 10 minutes each (--jobs for more cores).
Expect:   calibrated shares within two points of the levels, up to the standard error of so few
          splits; by the F formula hardly any row is below any level; areas of calibrated typicality
          no smaller than those of the probability.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed
from sklearn import datasets
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from whowrote import MixtureVAEClassifier

LEVELS = (0.05, 0.2, 0.5)
SETTINGS: dict[str, dict[str, Any]] = {
    "logistic": {},
    "random": {"start": "random"},
}
SPLITS = {
    "iris": 24,
    "wine": 24,
    "breast_cancer": 12,
    "digits": 3,
    "circles": 10,
    "moons": 5,
    "blobs": 5,
    "heavy": 5,
    "clusters": 5,
    "many": 3,
}
LEARNT = {"circles": 300, "moons": 600, "blobs": 540, "heavy": 720, "clusters": 720, "many": 900}
"""Rows that are learnt from, of what is drawn; of what is given, three in five."""
NEW = 4000


def rows_of(name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and classes: of a data set, the same for every seed; of a distribution, fresh ones."""
    if name not in LEARNT:
        return getattr(datasets, f"load_{name}")(return_X_y=True)
    n, fixed, random = LEARNT[name] + NEW, np.random.default_rng(0), np.random.default_rng(seed + 1)
    if name == "circles":
        return datasets.make_circles(n, noise=0.12, factor=0.5, random_state=seed)
    if name == "moons":
        return datasets.make_moons(n, noise=0.25, random_state=seed)
    if name == "blobs":
        centres = fixed.uniform(-10, 10, (5, 8))
        return datasets.make_blobs(n, centers=centres, cluster_std=4.0, random_state=seed)
    if name == "clusters":
        shape: dict[str, Any] = {"n_features": 20, "n_informative": 8, "n_redundant": 4}
        return datasets.make_classification(n, n_classes=4, class_sep=1.5, random_state=0, **shape)
    if name == "heavy":
        y = np.arange(n) % 3
        return 3.0 + y[:, None] + random.standard_t(3, (n, 6)), y
    y, centres = np.arange(n) % 30, fixed.normal(size=(30, 40))
    return centres[y] + 1.2 * random.normal(size=(n, 40)), y


def split(name: str, seed: int) -> tuple[np.ndarray, ...]:
    """Rows to learn from, new ones, the classes of both, and new rows of a class left out."""
    X, y = rows_of(name, seed)
    classes = np.unique(y)
    inside = np.full(len(y), True) if len(classes) == 2 else y != classes[seed % len(classes)]
    share = LEARNT[name] / len(y) if name in LEARNT else 0.6
    parts = train_test_split(
        X[inside], y[inside], train_size=share, random_state=seed, stratify=y[inside]
    )
    return *parts, X[~inside]


def answers(name: str, settings: dict[str, Any], seed: int) -> list[dict[str, Any]]:
    """Shares below the levels, and areas, of every member of a fit."""
    torch.set_num_threads(1)
    rows, new, known, own, outside = split(name, seed)
    model = MixtureVAEClassifier(n_members=8, random_state=seed, **settings).fit(rows, known)
    at = np.arange(len(new)), np.searchsorted(model.classes_, own)
    return [judged(model.member(number), new, at, outside) for number in range(8)]


def judged(
    model: MixtureVAEClassifier, new: np.ndarray, at: tuple[np.ndarray, ...], outside: np.ndarray
) -> dict[str, Any]:
    """The same of one model; ``at`` says which typicality is under the own class of a new row."""
    asked = np.vstack([new, outside])
    found = {
        "calibrated": model.typicality(asked),
        "by theory": model.typicality(asked, calibrated=False),
        "probability": model.predict_proba(asked),
    }
    shares = {
        kind: [float((found[kind][at] < level).mean()) for level in LEVELS]
        for kind in ("calibrated", "by theory")
    }
    if not len(outside):
        return {"shares": shares}
    inside = np.arange(len(asked)) < len(new)
    areas = {kind: roc_auc_score(inside, values.max(axis=1)) for kind, values in found.items()}
    return {"shares": shares, "areas": areas}


def trial(name: str, settings: dict[str, Any], n_splits: int, jobs: int) -> dict[str, Any]:
    """Means over members and splits, and standard errors over splits."""
    seeds = range(min(n_splits, SPLITS[name]))
    splits = Parallel(n_jobs=jobs)(delayed(answers)(name, settings, seed) for seed in seeds)
    shares = {
        kind: np.array([[own["shares"][kind] for own in fit] for fit in splits]).mean(axis=1)
        for kind in ("calibrated", "by theory")
    }
    error = shares["calibrated"].std(axis=0, ddof=1) / len(splits) ** 0.5
    made: dict[str, Any] = {
        "splits": len(splits),
        "shares": {kind: values.mean(axis=0).round(3).tolist() for kind, values in shares.items()},
        "standard_error": error.round(3).tolist(),
    }
    if "areas" in splits[0][0]:
        made["areas"] = {
            kind: round(float(np.mean([own["areas"][kind] for fit in splits for own in fit])), 3)
            for kind in splits[0][0]["areas"]
        }
    return made


def main() -> None:
    """Run, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--start", action="append", choices=list(SETTINGS))
    parser.add_argument("--only", action="append", choices=list(SPLITS))
    parser.add_argument("--splits", type=int, default=100, help="at most so many of a problem")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, help="what it holds of others stays")
    given = parser.parse_args()
    record: dict[str, Any] = {"levels": LEVELS}
    if given.out is not None and given.out.exists():
        record = json.loads(given.out.read_text(encoding="utf-8"))
    for start in given.start or SETTINGS:
        record.setdefault(start, {"settings": SETTINGS[start], "problems": {}})
        for name in given.only or SPLITS:
            record[start]["problems"][name] = made = trial(
                name, SETTINGS[start], given.splits, given.jobs
            )
            print(start, name, json.dumps(made), flush=True)
            if given.out is not None:
                given.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
