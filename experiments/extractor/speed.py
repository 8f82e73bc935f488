"""Texts a second: AdHominem, both sizes of StyleExtractor and the original sentence encoder.

All in one process, one after the other and again, on the same texts of Blog-30, so that whatever
else the machine does meets all of them; the figure is the median over the rounds. The sentence
encoder (all-MiniLM-L6-v2 by sentence-transformers, as it comes: it cuts at 256 pieces) sees less of
a long text than the others, which read it whole. With ``--memory N`` the large size reads N texts
in blocks, and the resident memory is recorded on the way.

Command:  python experiments/extractor/speed.py style.safetensors MODEL blog30.parquet --threads 2
          --out experiments/results/extractor_speed.json
Hardware: two cores, ten minutes; --memory 200000 some six hours.
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

BLOCK = 2000


def rates(
    readers: dict[str, Callable[[Sequence[str]], Any]], texts: Sequence[str], rounds: int
) -> dict[str, list[float]]:
    """Texts a second of each round."""
    found: dict[str, list[float]] = {name: [] for name in readers}
    for read in readers.values():
        read(texts[:8])  # loads the weights
    for _ in range(rounds):
        for name, read in readers.items():
            began = time.perf_counter()
            read(texts)
            found[name].append(len(texts) / (time.perf_counter() - began))
            print(name, round(found[name][-1], 2), flush=True)
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
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--memory", type=int, default=0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
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
        "threads": given.threads,
        "texts": given.texts,
        "mean_words": float(np.mean([len(text.split()) for text in texts])),
        "texts_per_second": found,
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
