"""New digits: what share of the sampled ones an SVM takes for the digit that was asked for.

Half of scikit-learn's digits is learnt from; an RBF SVM trained on the other half judges 200 draws
of each class. Beside ``MixtureVAEClassifier.for_generation()`` and the defaults stands the simplest
thing that generates: a Gaussian per class in the 15 leading principal components, with normal noise
of the size of what they leave over. Three splits; the picture is of the first.

Command:  python experiments/generation.py
Hardware: one core, about 4 minutes.
Expect:   more than nine of ten recognised with the setting, fewer if it is trained on.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from whowrote import MixtureVAEClassifier, __version__
from whowrote.files import write_text

EACH = 200
SEEDS = (0, 1, 2)
RESULTS = Path(__file__).parent / "results"
FIGURE = Path(__file__).parents[1] / "docs" / "generation.png"


def gaussians(X: Any, y: Any, seed: int) -> Any:
    """Draws of a Gaussian per class in 15 principal components, class after class."""
    random = np.random.default_rng(seed)
    pca = PCA(15).fit(X)
    Z = pca.transform(X)
    noise = (X - pca.inverse_transform(Z)).std(axis=0)
    drawn = [
        random.multivariate_normal(Z[y == k].mean(axis=0), np.cov(Z[y == k].T), EACH)
        for k in range(10)
    ]
    found = pca.inverse_transform(np.concatenate(drawn))
    return found + noise * random.normal(size=found.shape)


def draws(model: MixtureVAEClassifier, seed: int) -> Any:
    """The same from a fitted model."""
    return np.concatenate(
        [model.sample(EACH, author=k, random_state=seed + k).observations for k in range(10)]
    )


def run_one(seed: int) -> tuple[dict[str, Any], Any, Any]:
    """Shares recognised on one split; draws of the setting, and real digits, for the picture."""
    X, X_other, y, y_other = train_test_split(
        *load_digits(return_X_y=True), test_size=0.5, random_state=seed
    )
    judge, asked = SVC().fit(X_other, y_other), np.repeat(np.arange(10), EACH)
    row: dict[str, Any] = {"seed": seed, "real rows": float(judge.score(X, y))}
    models = {
        "for_generation()": MixtureVAEClassifier.for_generation(random_state=seed),
        "for_generation(), trained": MixtureVAEClassifier.for_generation(
            random_state=seed, validation_fraction=0.1, max_epochs=60, patience=15
        ),
        "defaults": MixtureVAEClassifier(random_state=seed),
    }
    found = {"a Gaussian per class": gaussians(X, y, seed)}
    for name, model in models.items():
        began = time.perf_counter()
        model.fit(X, y)
        row[f"{name}, seconds"] = round(time.perf_counter() - began, 1)
        row[f"{name}, bound"] = round(float(model.bound(X_other).mean()), 1)
        found[name] = draws(model, seed)
    for name, rows in found.items():
        row[name] = float((judge.predict(rows) == asked).mean())
    real = np.concatenate([X[y == k][:8] for k in range(10)])
    return row, found["for_generation()"].reshape(10, EACH, 64)[:, :8].reshape(-1, 64), real


def draw(sampled: Any, real: Any, path: Path) -> None:
    """Eight sampled digits of each class beside eight real ones."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(7, 4.7))
    for axis, rows, title in zip(axes, (sampled, real), ("sampled", "real"), strict=True):
        framed = np.pad(rows.reshape(10, 8, 8, 8), ((0, 0), (0, 0), (1, 1), (1, 1)))
        tiles = framed.transpose(0, 2, 1, 3).reshape(100, 80)
        axis.imshow(tiles, cmap="gray_r", vmin=0, vmax=16, interpolation="nearest")
        axis.set_title(title)
        axis.set_axis_off()
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    """Run, record and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS / "generation.json")
    parser.add_argument("--figure", type=Path, default=FIGURE)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for seed in SEEDS:
        row, sampled, real = run_one(seed)
        rows.append(row)
        print(json.dumps(row), flush=True)
        if seed == SEEDS[0]:
            draw(sampled, real, options.figure)
    means = {
        name: round(float(np.mean([row[name] for row in rows])), 4)
        for name in rows[0]
        if name != "seed"
    }
    write_text(
        options.out,
        json.dumps({"version": __version__, "mean": means, "rows": rows}, indent=1) + "\n",
    )


if __name__ == "__main__":
    main()
