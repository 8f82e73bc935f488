"""Learnt degrees of freedom beside the true ones, for both estimators.

Three Student-t components in two dimensions with nu = 3, 8 and 50, 4,000 rows of each, ten seeds,
both estimators. Prints and writes what each seed found, the medians and in how many the order is
right. The maximum likelihood of the components alone, with labels, has medians of 3.0, 8.1 and 52.

    python experiments/degrees_of_freedom.py           # one core of a CPU, 3 minutes
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from whowrote import MixtureVAEClassifier, MixtureVAEClusterer

TRUE = (3.0, 8.0, 50.0)
CENTRES = 6.0 * np.array([[0.0, 1.0], [-0.87, -0.5], [0.87, -0.5]])
RESULTS = Path(__file__).parent / "results" / "degrees_of_freedom.json"
# Linear networks carry a Student-t to a Student-t; hidden units bend its tails. The floor lies
# below the scale of a component; a step of lr * df_rate = 0.02 is that of the default.
LINEAR: dict[str, Any] = {"hidden": (), "scale_floor": 0.001, "learning_rate": 0.02, "df_rate": 1.0}
SETTINGS: dict[str, dict[str, Any]] = {
    "classifier": {**LINEAR, "label_weight": 0.0, "dropout": 0.0, "validation_fraction": 0.0},
    "clusterer": {**LINEAR, "warm_up": 30},
}


def rows(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """n rows of each component: x = mu + z / sqrt(u), u ~ Gamma(nu/2, nu/2)."""
    random = np.random.default_rng(seed)
    y = np.repeat(np.arange(3), n)
    u = random.gamma(np.repeat(TRUE, n) / 2) / (np.repeat(TRUE, n) / 2)
    return CENTRES[y] + random.normal(size=(3 * n, 2)) / np.sqrt(u)[:, None], y


def learnt(kind: str, n: int, seed: int, settings: dict[str, Any]) -> list[float]:
    """Degrees of freedom in the order of the true components."""
    X, y = rows(n, seed)
    if kind == "classifier":
        model = MixtureVAEClassifier(start="random", random_state=seed, **settings).fit(X, y)
        return [float(df) for df in model.degrees_of_freedom_]
    clusterer = MixtureVAEClusterer(3, random_state=seed, **settings).fit(X)
    own = [np.bincount(clusterer.labels_[y == k], minlength=3).argmax() for k in range(3)]
    return [float(df) for df in clusterer.degrees_of_freedom_[own]]


def main() -> None:
    """Read the flags, fit, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=4000, help="of each component")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--kind", choices=list(SETTINGS), action="append")
    parser.add_argument("--settings", type=json.loads, default=None, help="JSON, instead of ours")
    parser.add_argument("--out", type=Path, default=None, help=f"such as {RESULTS}")
    given = parser.parse_args()
    torch.set_num_threads(1)
    record: dict[str, Any] = {"true": TRUE, "rows": given.rows}
    for kind in given.kind or SETTINGS:
        settings = SETTINGS[kind] if given.settings is None else given.settings
        began, found = time.perf_counter(), []
        for seed in range(given.seeds):
            found.append([round(df, 2) for df in learnt(kind, given.rows, seed, settings)])
            print(kind, seed, found[-1], flush=True)
        ordered = sum(a < b < c for a, b, c in found)
        median = np.median(found, axis=0).round(2).tolist()
        seconds = round((time.perf_counter() - began) / given.seeds, 1)
        record[kind] = {"settings": settings, "found": found, "median": median, "ordered": ordered}
        print(f"{kind}: median {median}, order right in {ordered}, {seconds} s a fit")
    if given.out is not None:
        given.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
