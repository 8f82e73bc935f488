"""Attribution of 30 bloggers from 200-dimensional vectors: one member, sixteen, and the baselines.

Reads an ``.npz`` with ``X``, ``y``, ``train`` and ``test``. All settings were chosen on a fifth of
the training rows; the test rows are read once, here.

Command:  python experiments/levs30.py levs30.npz [--component gaussian] [--baselines]
Hardware: one H200, about 30 s; on two cores about 4 minutes a member. Baselines: 5 minutes.
Expect:   Student-t about 26 % with one member and 25.5 % with sixteen; linear SVM 27.7 %, RBF SVM
          25.7 %.
"""

from __future__ import annotations

import argparse
import json
import platform
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import sklearn
import torch

from whowrote import MixtureVAEClassifier, __version__
from whowrote.files import write_text

RESULTS = Path(__file__).parent / "results"


def make_model(options: argparse.Namespace) -> MixtureVAEClassifier:
    """The settings chosen on the development rows."""
    return MixtureVAEClassifier(
        start="random",
        component=options.component,
        latent_dim=100,
        hidden=512,
        label_weight=options.label_weight,
        df_rate=options.df_rate,
        dropout=(0.35, 0.7),
        max_epochs=options.epochs,
        patience=25,
        validation_fraction=0.05,
        n_members=options.members,
        random_state=0,
        verbose=1,
    )


def our_errors(options: argparse.Namespace, data: Any) -> dict[str, Any]:
    """Test error of every member alone and of the ensemble."""
    X, y, train, test = data["X"].astype(np.float32), data["y"], data["train"], data["test"]
    began = perf_counter()
    model = make_model(options).fit(X[train], y[train])
    seconds = perf_counter() - began
    alone = [1 - model.member(i).score(X[test], y[test]) for i in range(options.members)]
    df = model.fleet_.mixture.df.detach().cpu().numpy()
    return {
        "method": f"{options.component} VAE",
        "parameters": model.get_params(),
        "single": {"mean": np.mean(alone), "sd": np.std(alone), "each": alone},
        "leader": alone[model.leader_],
        "ensemble": 1 - model.score(X[test], y[test]),
        "degrees_of_freedom": {"least": df.min(), "median": np.median(df), "most": df.max()},
        "seconds": seconds,
    }


def baseline_errors(data: Any) -> list[dict[str, Any]]:
    """The SVMs on the same rows."""
    from whowrote.baselines import RBFSVM, LinearSVM

    X, y, train, test = data["X"].astype(np.float64), data["y"], data["train"], data["test"]
    rows = []
    for svm in (LinearSVM(probability=False), RBFSVM(probability=False)):
        began = perf_counter()
        error = 1 - svm.fit(X[train], y[train]).score(X[test], y[test])
        name = type(svm).__name__
        rows.append({"method": name, "error": error, "seconds": perf_counter() - began})
        print(f"{name}: {error:.2%}", flush=True)
    return rows


def main() -> None:
    """Run and record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--component", default="student-t")
    parser.add_argument("--members", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=80)
    parser.add_argument("--label-weight", type=float, default=300.0)
    parser.add_argument("--df-rate", type=float, default=10.0)
    parser.add_argument("--baselines", action="store_true", help="the SVMs instead of the model")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    versions = {"whowrote": __version__, "torch": torch.__version__, "sklearn": sklearn.__version__}
    record: dict[str, Any] = {"versions": versions, "python": platform.python_version()}
    with np.load(options.data) as data:
        if options.baselines:
            record["baselines"] = baseline_errors(data)
            name = "levs30_baselines.json"
        else:
            record |= our_errors(options, data)
            print(f"single {record['single']['mean']:.2%} +- {record['single']['sd']:.2%}")
            print(f"{options.members} members {record['ensemble']:.2%}, {record['seconds']:.0f} s")
            name = f"levs30_{options.component}.json"
    write_text(options.out / name, json.dumps(record, indent=1, default=float) + "\n")


if __name__ == "__main__":
    main()
