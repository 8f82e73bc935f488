"""How much vectors count beside n-grams, on few texts: [w z / sqrt L, n-grams], a linear SVM.

The protocol of measure.py's few texts (C = 1, 20 others of each author asked, five draws) on
development authors with at least 8 texts, at most 60 of a corpus; test authors and Blog-30 are
never read. A vector of both towers has twice the columns of AdHominem's, each worth half as much at
the same weight.

Command:  python experiments/extractor/hybrid_weight.py
          src/whowrote/features/pretrained/style.safetensors --out
          experiments/results/extractor_hybrid.json
          (--texts: the folder of pack.py unpack)
Hardware: one core, five minutes.
Expect:   the large size best at 0.7 to 1 and below AdHominem at any weight, by mean error.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from evaluate import Texts
from measure import all_vectors, few_texts
from tower_weight import SVM_MOST, SVM_TEXTS, development

from whowrote import __version__
from whowrote.files import sha256_of, write_text

DOMAINS = ("blogs", "mail", "forum")
"""Authors of hotel reviews have three texts at most."""
SIZES, WEIGHTS = (3, 5), (0.35, 0.5, 0.7, 1.0)


def with_enough(texts: Texts) -> Texts:
    """The texts of the first authors who have enough of them."""
    authors, counts = np.unique(texts.authors, return_counts=True)
    kept = np.flatnonzero(np.isin(texts.authors, authors[counts >= SVM_TEXTS][:SVM_MOST]))
    return Texts([texts.texts[row] for row in kept], texts.authors[kept])


def means(found: Mapping[str, Mapping[str, Mapping[str, list[float]]]]) -> dict[str, float]:
    """The mean error over corpora and sizes, by features and weight."""
    cells = [own for domain in found.values() for own in domain.values()]
    return {name: float(np.mean([cell[name] for cell in cells])) for name in cells[0]}


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weights", type=Path)
    parser.add_argument("--texts", type=Path, default=Path("scratch/extractor/texts"))
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    found: dict[str, Any] = {}
    for name, texts in development(given.texts).items():
        if name in DOMAINS:
            own = with_enough(texts)
            vectors = dict(all_vectors(given.weights, own.texts, "cpu"))
            print(name, len(own.texts), len(np.unique(own.authors)), flush=True)
            found[name] = few_texts(own, vectors, SIZES, WEIGHTS)
    record = {"version": __version__, "weights_sha256": sha256_of(given.weights)}
    record |= {"authors": "development", "errors": found, "mean": means(found)}
    print(json.dumps(record["mean"], indent=1))
    if given.out:
        write_text(given.out, json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
