"""What Ray costs: a sweep and an embedding on one slot, with and without it, in turns.

One core works either way, so that the ratio is the cost of sending tasks and results. Starting the
cluster is not counted, beginning to work on it (a process that loads torch) is. Texts are embedded
in pieces, in turns too: a machine that is busy with other things is so on both sides.

Command:  OMP_NUM_THREADS=1 python benchmarks/bench_ray.py --corpus hotels_train.parquet
          [--texts 100000] [--epochs 120] [--turns 1] [--pieces 4]
Hardware: one core; two minutes and the embedding, 100 to 500 texts a second, twice.
Expect:   ratios of 1.0 to 1.2 for a sweep of a minute.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from itertools import islice
from pathlib import Path
from time import perf_counter

import numpy as np

from whowrote.corpus.splits import folds
from whowrote.corpus.texts import stream
from whowrote.distributed import HERE, Machines, machines_of
from whowrote.features.streaming import Choice, embed_corpus
from whowrote.sweep import sweep


def swept(machines: Machines, epochs: int) -> float:
    """Seconds of sixteen fits in eight groups."""
    random = np.random.default_rng(0)
    codes = np.arange(3000) % 10
    X = random.normal(size=(3000, 50)) + random.normal(size=(10, 50))[codes]
    grid = {"latent_dim": [10, 20], "max_epochs": epochs, "component": ["student-t", "gaussian"]}
    began = perf_counter()
    with tempfile.TemporaryDirectory() as out:
        sweep(
            grid,
            X,
            codes,
            folds(codes, n_folds=4),
            out=out,
            group_size=2,
            device="cpu",
            machines=machines,
        )
    return perf_counter() - began


def embedded(machines: Machines, corpus: Path) -> float:
    """Seconds of a corpus."""
    began = perf_counter()
    with tempfile.TemporaryDirectory() as out:
        embed_corpus(corpus, Path(out) / "a.parquet", Choice(device="cpu"), machines=machines)
    return perf_counter() - began


def main() -> None:
    """Both, in turns."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--corpus", type=Path, required=True)
    asked.add_argument("--texts", type=int, default=100_000)
    asked.add_argument("--epochs", type=int, default=120)
    asked.add_argument("--turns", type=int, default=1)
    asked.add_argument("--pieces", type=int, default=4)
    given = asked.parse_args()
    # Ray's workers give way to everything else on a machine (nice 15): not while it is measured.
    os.environ.setdefault("RAY_worker_niceness", "0")
    import ray

    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder, machines_of("auto") as cluster:
        texts = (json.dumps({"text": one.text}) for one in stream(given.corpus))
        sides = (("here", HERE), ("ray", cluster))
        for _ in range(given.turns):
            for name, machines in sides:
                found.setdefault(f"sweep, {name}", []).append(swept(machines, given.epochs))
            print(found, flush=True)
        for number in range(given.pieces):
            some = Path(folder) / f"{number}.jsonl"
            some.write_text("\n".join(islice(texts, given.texts // given.pieces)))
            for name, machines in sides if number % 2 else sides[::-1]:
                found.setdefault(f"embedding, {name}", []).append(embedded(machines, some))
            print(found, flush=True)
    ray.shutdown()
    for work in ("sweep", "embedding"):
        here, there = (found[f"{work}, {name}"] for name in ("here", "ray"))
        ratio = sum(there) / sum(here)
        print(f"{work}: here {here}, Ray {there} seconds; ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
