"""What an ensemble costs: sixteen members against one, D=50, K=30, 16,000 x 200, on the CPU.

Command: ``python benchmarks/bench_ensemble.py``. Two cores, about two minutes.
Expect: the ensemble takes at most 8 times as long as one member (half the price a member). Medians
are compared, not rounds: one member alone feels every other job on the machine more than the
ensemble does, so that single rounds would flatter the ensemble. Last measured, seven runs: 7.2 to
7.9; the ratio of the best times, which has no requirement, 7.9 to 8.7.
"""

from __future__ import annotations

import time
from statistics import median

import numpy as np
import torch

from whowrote import MixtureVAEClassifier

ROWS, FEATURES, AUTHORS, MEMBERS, EPOCHS, ROUNDS = 16_000, 200, 30, 16, 2, 7


def made_up_vectors() -> tuple[np.ndarray, np.ndarray]:
    """Vectors of authors that overlap, as style vectors do."""
    random = np.random.default_rng(0)
    y = np.arange(ROWS) % AUTHORS
    centres = random.normal(0, 0.5, (AUTHORS, FEATURES))
    return (centres[y] + random.normal(size=(ROWS, FEATURES))).astype(np.float32), y


def seconds(n_members: int, X: np.ndarray, y: np.ndarray) -> float:
    """One fit of a fixed number of epochs."""
    model = MixtureVAEClassifier(
        start="random",
        n_members=n_members,
        latent_dim=50,
        max_epochs=EPOCHS,
        patience=EPOCHS,
        device="cpu",
        random_state=0,
    )
    began = time.perf_counter()
    model.fit(X, y)
    return time.perf_counter() - began


def main() -> None:
    X, y = made_up_vectors()
    seconds(1, X, y)  # the first fit pays for what is loaded lazily
    # Turn by turn, one member before and after the ensemble: a busy minute hits both.
    ones, many = [seconds(1, X, y)], []
    for _ in range(ROUNDS):
        many.append(seconds(MEMBERS, X, y))
        ones.append(seconds(1, X, y))
    print(f"threads: {torch.get_num_threads()}, rounds: {ROUNDS}")
    print(f"one member: {median(ones):.2f} s for {EPOCHS} epochs ({min(ones):.2f} at best)")
    print(f"{MEMBERS} members: {median(many):.2f} s ({min(many):.2f} at best)")
    ratio, best = median(many) / median(ones), min(many) / min(ones)
    print(f"ratio of medians: {ratio:.2f} (required: at most 8); of the best times: {best:.2f}")


if __name__ == "__main__":
    main()
