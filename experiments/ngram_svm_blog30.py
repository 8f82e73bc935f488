"""The n-gram SVM on Blog-30: the number that the model has to beat.

Command:   python experiments/ngram_svm_blog30.py path/to/blog30.parquet
Hardware:  two CPU cores
Time:      85 to 120 s a fold, 7 to 10 minutes in all
Expect:    6.2 % error within 0.5 (mean of five folds; last measured 6.13, sd 0.22)

Blog-30 is thirty adult bloggers of the Blog Authorship Corpus, 20,340 posts of at least 80 words.
The folds are those of scikit-learn's ``StratifiedKFold(5, shuffle=True, random_state=0)``; each
held-out fold is tested whole, since nothing is chosen on it. The record goes to
``experiments/results/ngram_svm_blog30.json``; ``--folds 1`` rehearses and writes nothing.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import mean, stdev

import numpy as np

from whowrote.baselines import NGramSVM
from whowrote.corpus.splits import Split, combined_hash, folds
from whowrote.corpus.texts import Corpus, load
from whowrote.files import write_text
from whowrote.metrics import wilson

N_FOLDS = 5
RESULT = Path(__file__).parent / "results" / "ngram_svm_blog30.json"
PACKAGES = ("whowrote", "scikit-learn", "numpy", "scipy")


@dataclass(frozen=True)
class FoldResult:
    """Error of one fold in per cent, and what it cost."""

    fold: int
    wrong: int
    n: int
    error: float
    seconds: float
    split_hash: str


def run_fold(corpus: Corpus, number: int, split: Split) -> FoldResult:
    """Train on one fold's training part and count the wrong answers on its held-out part."""
    started = time.perf_counter()
    train, test = corpus.subset(split.train), corpus.subset(split.held_out)
    model = NGramSVM(probability=False).fit(train.texts, np.array(train.authors))
    answers = model.predict(test.texts).tolist()
    wrong = sum(answer != author for answer, author in zip(answers, test.authors, strict=True))
    seconds = round(time.perf_counter() - started, 1)
    error = 100.0 * wrong / len(test)
    return FoldResult(number, wrong, len(test), round(error, 3), seconds, split.hash)


def record(corpus: Corpus, splits: tuple[Split, ...], results: list[FoldResult]) -> str:
    """Everything needed to know what was measured, as JSON."""
    errors = [result.error for result in results]
    wrong, n = sum(result.wrong for result in results), sum(result.n for result in results)
    plain = {
        "experiment": "ngram_svm_blog30",
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "versions": {name: version(name) for name in PACKAGES},
        "texts": len(corpus),
        "authors": len(set(corpus.authors)),
        "corpus_sha256": corpus.fingerprint,
        "splits_sha256": combined_hash(splits),
        "error_percent": {"mean": round(mean(errors), 3), "sd": round(stdev(errors), 3)},
        "error_interval_95": asdict(wilson(wrong, n)),
        "seconds": round(sum(result.seconds for result in results), 1),
        "folds": [asdict(result) for result in results],
    }
    return json.dumps(plain, indent=2) + "\n"


def main() -> None:
    """Parse, run the folds, print, and write the record of a whole run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path, help="Blog-30 as Parquet, columns author and text")
    parser.add_argument("--folds", type=int, default=N_FOLDS, help="stop after so many folds")
    arguments = parser.parse_args()
    corpus = load(arguments.corpus)
    splits = folds(corpus.authors, ids=corpus.ids, n_folds=N_FOLDS, random_state=0)
    results = []
    for number, split in enumerate(splits[: arguments.folds], start=1):
        results.append(run_fold(corpus, number, split))
        print(f"fold {number}: {results[-1].error:.2f} % in {results[-1].seconds} s", flush=True)
    if len(results) == N_FOLDS:
        errors = [result.error for result in results]
        print(f"mean {mean(errors):.2f} % ± {stdev(errors):.2f}")
        write_text(RESULT, record(corpus, splits, results))
        print(f"written: {RESULT.relative_to(Path(__file__).parents[1])}")


if __name__ == "__main__":
    main()
