"""How attribution of essays by 45 people holds under stress: short, masked, noisy, rewritten texts.

Thirty people are enrolled with eight essays each; their other essays and all essays of the fifteen
others are asked. No original of a rewrite is learnt from. Five language models rewrote one essay of
each person in ten ways. The models are then candidates in two ways: enrolled into the fitted model,
and learnt together with the people, both from rewrites of half of the people.

Command:  python experiments/stress.py ebg.parquet ebg_rewrites.parquet
Hardware: one core, about five minutes.
Expect:   results/stress.json.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from whowrote import Attributor, Corpus, __version__
from whowrote.files import write_text
from whowrote.stress import ask_writers, condition, drawn, stress

OUT = Path(__file__).parent / "results" / "stress.json"
ENROLLED, TRAINED, MOST = 30, 8, 250


def table(path: Path) -> list[dict[str, Any]]:
    """The rows of a table."""
    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows


def main() -> None:
    """Run and record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("essays", type=Path)
    parser.add_argument("rewrites", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    essays, rows = table(options.essays), table(options.rewrites)
    originals = {row["original"].strip() for row in rows}
    own = [row for row in essays if row["kind"] == "text"]
    people = sorted({row["author"] for row in own})
    random = np.random.default_rng([options.seed, 5])
    enrolled = set(random.permutation(people)[:ENROLLED].tolist())
    train: list[dict[str, Any]] = []
    for name in sorted(enrolled):
        mine = [r for r in own if r["author"] == name and r["text"].strip() not in originals]
        train += [mine[i] for i in random.permutation(len(mine))[:TRAINED]]
    learnt = {row["text"] for row in train}
    rest = [row for row in own if row["text"] not in learnt]
    known = Corpus.from_texts([r["text"] for r in train], [r["author"] for r in train])
    asked = Corpus.from_texts([r["text"] for r in rest], [r["author"] for r in rest])
    rewrites = Corpus.from_texts(
        [r["text"] for r in rows], [r["author"] for r in rows], groups=[r["writer"] for r in rows]
    )
    model = Attributor(random_state=options.seed).fit(known).fitted()
    found = stress(model, asked, rewrites=rewrites, most=MOST, seed=options.seed)
    record: dict[str, Any] = {"version": __version__, **found.to_dict()}
    record["people_who_hide"] = [
        condition(model, kind, [r["text"] for r in hid], [r["author"] for r in hid]).to_dict()
        for kind in ("obfuscation", "imitation")
        if (hid := [r for r in essays if r["kind"] == kind])
    ]
    names = sorted(set(rewrites.authors))
    half = set(np.random.default_rng([options.seed, 53]).permutation(names)[: len(names) // 2])
    first = [row for row, one in enumerate(rewrites.authors) if one in half]
    second = [row for row, one in enumerate(rewrites.authors) if one not in half]
    samples = drawn(rewrites.subset(first), MOST, options.seed)
    both = Corpus.from_texts([*known.texts, *samples.texts], [*known.authors, *samples.groups])
    together = Attributor(random_state=options.seed).fit(both).fitted()
    writers = tuple(sorted(set(samples.groups)))
    later = drawn(rewrites.subset(second), MOST, options.seed)
    told = ask_writers(together, writers, half, asked, later)
    record["learnt_together"] = told.to_dict()
    write_text(options.out, json.dumps(record, indent=1) + "\n")
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
