"""Records as the experiments would leave them, made up."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from whowrote.sweep import Record
from whowrote.sweep.records import rounded
from whowrote_experiments.trials import Trials

SIZES = (0.2, 1.0)
ERRORS = {"SMM-VAE": 0.20, "GMM-VAE": 0.22, "SVM (linear)": 0.25, "SVM (RBF kernel)": 0.24}
DIMENSIONS = (20, 50)


def trial(method: str = "SMM-VAE", fold: int = 0, share: float = 1.0, **changes: Any) -> Record:
    values: dict[str, Any] = {
        "method": method,
        "corpus": "blog30",
        "configuration": changes.pop("settings", {"latent_dim": 20}),
        "protocol": {},
        "fold": fold,
        "share": share,
        "seed": 0,
        "split": f"split-{fold}-{share}",
        "data": "data",
        "n_train": int(160 * share),
        "n_development": 20,
        "development_error": 0.2,
        "development_log_loss": 0.5,
        "n_test": 20,
        "test_error": 0.2,
        "test_log_loss": None,
        "df": None,
        "epochs": 3,
        "best_epoch": None,
        "seconds": 0.1,
        "diverged": None,
        "versions": {"device": "cpu"},
    }
    return Record(**{**values, **changes})


def trials(methods: Sequence[str] = tuple(ERRORS), folds: int = 5, seed: int = 0) -> Trials:
    """Three step sizes at every D (or three C) on every fold and size."""
    random = np.random.default_rng(seed)
    rows = []
    for method in methods:
        heavy, deep = method.startswith("SMM"), "VAE" in method
        points = [{"latent_dim": d} for d in DIMENSIONS] if deep else [{"C": 1.0}]
        for point in ({**p, "step": step} for p in points for step in (1, 2, 3)):
            for share in SIZES:
                for fold in range(folds):
                    error = ERRORS[method.split(",")[0]] + 0.1 * (1 - share)
                    development, test = error + random.normal(0, 0.01, 2)
                    nu = random.uniform(2, 9, 4) + 40 / point.get("latent_dim", 1)
                    own = trial(
                        method,
                        fold,
                        share,
                        settings=point,
                        development_error=float(development),
                        test_error=float(test),
                        df=rounded(nu) if heavy else None,
                    )
                    rows.append(own)
    counts = {name: sum(row.method == name for row in rows) for name in methods}
    return Trials(tuple(rows), {"blog30": counts})
