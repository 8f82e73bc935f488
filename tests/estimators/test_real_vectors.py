"""The classifier on real style vectors of 30 bloggers, briefly."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whowrote import MixtureVAEClassifier


@pytest.fixture(scope="module")
def vectors(data: Path) -> dict[str, Any]:
    with np.load(data / "levs30.npz") as file:
        return dict(file)


def error(vectors: dict[str, Any], labels: Any) -> float:
    X, y, train, test = (vectors[name] for name in ("X", "y", "train", "test"))
    model = MixtureVAEClassifier(latent_dim=20, max_epochs=6, device="cpu", random_state=0)
    model.fit(X[train].astype(np.float32), labels)
    return 1 - model.score(X[test].astype(np.float32), y[test])


@pytest.mark.data
def test_six_epochs_attribute_most_texts(vectors: dict[str, Any]) -> None:
    assert error(vectors, vectors["y"][vectors["train"]]) < 0.36


@pytest.mark.data
def test_shuffled_labels_teach_nothing(vectors: dict[str, Any]) -> None:
    labels = np.random.default_rng(0).permutation(vectors["y"][vectors["train"]])
    assert error(vectors, labels) > 0.9
