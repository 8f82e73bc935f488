"""What unlabelled texts are worth: labels for 1 to 20 % of the rows, with and without the rest.

Reads an ``.npz`` with ``X``, ``y``, ``train`` and ``test``. For each share, the same rows are
labelled for both models: one learns from them alone, the other from them first and from all
training rows afterwards. Both are trained on their labels for the same number of epochs.

Command:  python experiments/semi_supervised.py levs30.npz
Hardware: two cores, about 35 minutes (a fit takes one to three).
Expect:   the rest lowers the error while labels are scarce (2 %: from about 49 to 47 %) and no
          longer helps at 10 %.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from whowrote import MixtureVAEClassifier, __version__, plots
from whowrote.files import write_text

SHARES = (0.02, 0.01, 0.05, 0.10, 0.20)
RESULTS = Path(__file__).parent / "results"
FIGURE = Path(__file__).parents[1] / "docs" / "semi_supervised.png"


def labelled_part(y: Any, share: float, seed: int) -> Any:
    """Labels of a stratified share of the rows, at least two per author; -1 elsewhere."""
    random = np.random.default_rng(seed)
    labels = np.full(len(y), -1)
    for author in np.unique(y):
        own = random.permutation(np.flatnonzero(y == author))
        labels[own[: max(2, round(share * len(own)))]] = author
    return labels


def make_model(seed: int, epochs: int, refinement: int | None = None) -> MixtureVAEClassifier:
    """One member; with a refinement, that many epochs on everything after the labelled ones."""
    length = (
        {"max_epochs": epochs}
        if refinement is None
        else {"warm_up": epochs, "max_epochs": refinement}
    )
    return MixtureVAEClassifier(
        start="random",
        latent_dim=50,
        validation_fraction=0.0,
        random_state=seed,
        device="auto",
        **length,
    )


def run_one(data: Any, share: float, seed: int, epochs: int, refinement: int) -> dict[str, Any]:
    """Test errors of both models for one share and seed."""
    X, y, train, test = data["X"].astype(np.float32), data["y"], data["train"], data["test"]
    labels = labelled_part(y[train], share, seed)
    known = labels >= 0
    alone = make_model(seed, epochs).fit(X[train][known], labels[known])
    both = make_model(seed, epochs, refinement).fit(X[train], labels)
    return {
        "share": share,
        "seed": seed,
        "labels": int(known.sum()),
        "labelled only": 1 - alone.score(X[test], y[test]),
        "with the rest": 1 - both.score(X[test], y[test]),
    }


def draw(rows: list[dict[str, Any]]) -> Any:
    """Error against the share of labels, both ways."""
    shares = sorted({row["share"] for row in rows})

    def curve(name: str) -> plots.Curve:
        values = [[100 * r[name] for r in rows if r["share"] == share] for share in shares]
        spread = [float(np.std(v)) for v in values]
        return plots.Curve(
            name, [100 * s for s in shares], [float(np.mean(v)) for v in values], spread
        )

    return plots.curves(
        [curve("labelled only"), curve("with the rest")],
        title="What unlabelled texts are worth (30 authors)",
        x_label="labelled texts (% of the training rows)",
        y_label="test error (%)",
        log_x=True,
    )


def main() -> None:
    """Run and record; the record grows with every fit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--refinement", type=int, default=30)
    parser.add_argument("--out", type=Path, default=RESULTS / "semi_supervised.json")
    parser.add_argument("--figure", type=Path, default=FIGURE)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with np.load(options.data) as file:
        data = dict(file)
    for seed in range(options.seeds):
        for share in SHARES:
            rows.append(run_one(data, share, seed, options.epochs, options.refinement))
            print(rows[-1], flush=True)
            record = {"version": __version__, "rows": rows}
            write_text(options.out, json.dumps(record, indent=1) + "\n")
    plots.save(draw(rows), options.figure)


if __name__ == "__main__":
    main()
