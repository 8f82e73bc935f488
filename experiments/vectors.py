"""Vectors of a corpus by the packaged extractor, small enough to travel: float16 with authors.

The authors must be none that the extractor learnt from: their names are compared with those of the
training corpora, and a common one is an error.

Command:  python experiments/vectors.py blog30.parquet --unlike blogs_train.parquet --out blog30.npz
          python experiments/vectors.py amazon_music.parquet --least 20 --out amazon_music.npz
Hardware: two CPU cores, 8 minutes for Blog-30 and half a minute for the reviews; a GPU is used
          where there is one
Expect:   Blog-30 20,340 x 200 (8 MB), 30 authors; reviews 593 x 200, 22 authors
          The records of the published evaluation name their vectors by a hash: OMP_NUM_THREADS=2
          gives the very same ones, one thread moves the last digit of 184 of 4 million values
"""

from __future__ import annotations

import argparse
import hashlib
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from whowrote.corpus.texts import Corpus, load
from whowrote.features import AdHominem
from whowrote.features.adhominem import PRETRAINED
from whowrote.features.interface import ReliabilityWarning
from whowrote.files import atomic_path

CHUNK = 256


def kept(corpus: Corpus, least: int, most: int | None = None) -> Corpus:
    """Authors with ``least`` texts or more, and the first ``most`` texts of each."""
    counts = Counter(corpus.authors)
    seen: Counter[str | None] = Counter()
    rows = []
    for row, author in enumerate(corpus.authors):
        seen[author] += 1
        if counts[author] >= least and (most is None or seen[author] <= most):
            rows.append(row)
    return corpus.subset(rows)


def require_unseen(authors: Iterable[str | None], training: Sequence[Path]) -> int:
    """How many training authors there are; an error if one of ours is among them."""
    learnt: set[str] = set()
    for path in training:
        learnt |= set(map(str, pq.read_table(path, columns=["author"])["author"].to_pylist()))
    common = sorted(set(map(str, authors)) & learnt)
    if common:
        raise SystemExit(
            f"{len(common)} authors are among those the extractor learnt from, such as "
            f"{common[0]!r}; figures on them would say nothing: leave them out"
        )
    return len(learnt)


def embed(texts: Sequence[str], device: str | None = None) -> NDArray[np.float16]:
    """One vector per text."""
    extractor = AdHominem(device=device)
    parts = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReliabilityWarning)  # short reviews are part of the corpus
        for low in range(0, len(texts), CHUNK):
            parts.append(extractor.transform(texts[low : low + CHUNK]).astype(np.float16))
            print(f"{low + len(parts[-1]):,} of {len(texts):,} texts", end="\r", flush=True)
    return np.concatenate(parts)


def write(corpus: Corpus, X: NDArray[np.float16], learnt: int, out: Path) -> None:
    """Vectors, authors, ids, and what they were made of and with."""
    with atomic_path(out) as draft:
        np.savez_compressed(
            draft,
            X=X,
            y=np.array(corpus.authors, dtype=str),
            ids=np.array(corpus.ids, dtype=str),
            corpus_sha256=np.array(corpus.fingerprint),
            weights_sha256=np.array(hashlib.sha256(PRETRAINED.read_bytes()).hexdigest()),
            training_authors_compared=np.array(learnt),
        )


def main() -> None:
    """Read, compare authors, embed, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="the .npz to write")
    parser.add_argument("--unlike", type=Path, nargs="*", default=[], help="training corpora")
    parser.add_argument("--least", type=int, default=1, help="texts that an author must have")
    parser.add_argument("--most", type=int, help="texts to take of an author, to rehearse")
    parser.add_argument("--device", help="cpu or cuda; a GPU if there is one")
    given = parser.parse_args()
    corpus = kept(load(given.corpus), given.least, given.most)
    learnt = require_unseen(corpus.authors, given.unlike)
    X = embed(corpus.texts, given.device)
    write(corpus, X, learnt, given.out)
    size = given.out.stat().st_size / 1e6
    print()
    print(f"{X.shape[0]:,} x {X.shape[1]}, {len(set(corpus.authors))} authors, {size:.1f} MB")


if __name__ == "__main__":
    main()
