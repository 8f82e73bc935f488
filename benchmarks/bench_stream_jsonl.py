"""Filter and count a JSON-lines file that is larger than the memory allowed for it.

Command:  python benchmarks/bench_stream_jsonl.py [--megabytes 1000]
Hardware: any; two cores and as much free disk as the file. Time: about a minute for 1 GB.
Expect:   a peak of resident memory well under 500 MB (ratio below 1), whatever the file's size.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ALLOWED = 500e6
SYLLABLES = ["ba", "co", "di", "fu", "ge", "la", "mi", "no", "pu", "re", "sa", "té"]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--megabytes", type=int, default=1000, help="size of the file")
    arguments.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.read:
        print(json.dumps(count(given.read)))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "reviews.jsonl"
        written = generate(path, given.megabytes * 1_000_000)
        size = path.stat().st_size
        found = run_child(path)
    if found["documents"] != written:
        raise SystemExit(f"{found['documents']} documents read, {written} written")
    report(found, size)


def generate(path: Path, size: int) -> int:
    """Write reviews of about 1 kB until the file has its size; return how many."""
    rng = random.Random(0)
    words = ["".join(rng.choices(SYLLABLES, k=rng.randint(1, 4))) for _ in range(5_000)]
    passages = [" ".join(rng.choices(words, k=150)) for _ in range(500)]
    done = number = 0
    with path.open("w", encoding="utf-8") as file:
        while done < size:
            number += 1
            text = f"{number} {rng.choice(passages)}\n{rng.choice(passages)[:200]}"
            review = {"user_id": f"u{rng.randrange(1000)}", "rating": number % 5 + 1, "text": text}
            done += file.write(json.dumps(review, ensure_ascii=False) + "\n")
    return number


def run_child(path: Path) -> dict[str, float]:
    """Read in a process of its own, so that its peak is the reader's alone."""
    command = [sys.executable, __file__, "--read", str(path)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[str, float] = json.loads(output)
    return found


def count(path: Path) -> dict[str, float]:
    """Count all reviews and the words of those with five stars."""
    from whowrote.corpus.texts import stream

    start = time.perf_counter()
    documents = kept = words = 0
    for document in stream(path):
        documents += 1
        if document.metadata["rating"] == 5:
            kept += 1
            words += len(document.text.split())
    seconds = time.perf_counter() - start
    kilobyte = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * kilobyte
    return {"documents": documents, "kept": kept, "words": words, "peak": peak, "seconds": seconds}


def report(found: dict[str, float], size: int) -> None:
    peak = found["peak"]
    print(f"{size / 1e6:.0f} MB, {found['documents']} documents, {found['kept']} kept, ", end="")
    print(f"{found['words']} words in {found['seconds']:.0f} s")
    print(f"peak resident memory / 500 MB:       {peak / ALLOWED:.2f}")
    print(f"peak resident memory / size of file: {peak / size:.3f}")
    if peak > ALLOWED:
        raise SystemExit(f"peak of {peak / 1e6:.0f} MB is over the allowed 500 MB")


if __name__ == "__main__":
    main()
