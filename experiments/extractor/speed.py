"""Texts a second: AdHominem, both sizes of StyleExtractor and the original sentence encoder.

All in one process and in turns on the same texts of Blog-30, by processor time on one thread, so
that what else the machine does meets all of them alike; the figure is the median over the rounds,
for each core. The sentence
encoder (all-MiniLM-L6-v2 by sentence-transformers, as it comes: it cuts at 256 pieces) sees less of
a long text than the others, which read it whole. With ``--memory N`` the large size reads N texts
in blocks, and the resident memory is recorded on the way.

Command:  python experiments/extractor/speed.py style.safetensors MODEL blog30.parquet --rounds 3
          --out experiments/results/extractor_speed.json
Hardware: one core, ten minutes; --memory 200000 some six hours.
Expect:   small as fast as AdHominem, large at least twice as fast as the sentence encoder.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from whowrote import __version__
from whowrote.corpus.texts import load
from whowrote.features import AdHominem, SentenceEncoder, StyleExtractor
from whowrote.files import write_text

BLOCK, TURN = 2000, 32


def rates(
    readers: dict[str, Callable[[Sequence[str]], Any]], texts: Sequence[str], rounds: int
) -> dict[str, list[float]]:
    """Texts a second of processor time of each round; the readers take turns at every few texts."""
    found: dict[str, list[float]] = {name: [] for name in readers}
    for read in readers.values():
        read(texts[:8])  # loads the weights
    for _ in range(rounds):
        spent = dict.fromkeys(readers, 0.0)
        for low in range(0, len(texts), TURN):
            for name, read in readers.items():
                began = time.process_time()
                read(texts[low : low + TURN])
                spent[name] += time.process_time() - began
        for name, seconds in spent.items():
            found[name].append(len(texts) / seconds)
        print({name: round(own[-1], 2) for name, own in found.items()}, flush=True)
    return found


def memory(
    read: Callable[[Sequence[str]], Any], texts: Sequence[str], total: int
) -> list[tuple[int, float]]:
    """Texts read so far and the largest resident memory in MB."""
    found = []
    for low in range(0, total, BLOCK):
        read([texts[i % len(texts)] for i in range(low, low + BLOCK)])
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        found.append((low + BLOCK, round(used, 1)))
        print(*found[-1], flush=True)
    return found


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weights", type=Path)
    parser.add_argument("model", help="folder of all-MiniLM-L6-v2")
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--texts", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", type=int, default=0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    corpus = load(given.corpus)
    rows = np.random.default_rng(0).choice(len(corpus.texts), given.texts, replace=False)
    texts = [corpus.texts[row] for row in rows]
    large = StyleExtractor(given.weights, size="large", device="cpu")
    readers: dict[str, Callable[[Sequence[str]], Any]] = {
        "sentence encoder": SentenceEncoder(given.model, device="cpu").transform,
        "AdHominem": AdHominem(device="cpu").transform,
        "small": StyleExtractor(given.weights, size="small", device="cpu").transform,
        "large": large.transform,
    }
    found = rates(readers, texts, given.rounds)
    middle = {name: median(own) for name, own in found.items()}
    record = {
        "version": __version__,
        "torch": torch.__version__,
        "machine": platform.machine(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "threads": 1,
        "texts": given.texts,
        "mean_words": float(np.mean([len(text.split()) for text in texts])),
        "texts_per_second_of_a_core": found,
        "median": middle,
        "large_to_sentence_encoder": middle["large"] / middle["sentence encoder"],
        "small_to_adhominem": middle["small"] / middle["AdHominem"],
        "memory_mb": memory(large.transform, texts, given.memory) if given.memory else [],
    }
    if given.out:
        write_text(given.out, json.dumps(record, indent=1) + "\n")
    print(json.dumps({k: record[k] for k in ("median", "large_to_sentence_encoder")}))


if __name__ == "__main__":
    main()
