"""What a plain ``Attributor()`` is worth, from 3 authors x 5 texts up: the choice of its defaults.

Draws of k bloggers x n texts from Blog-30, other texts of theirs as questions, and texts of
bloggers who are not enrolled as outsiders. Methods: ``Attributor`` with each feature set, and the
n-gram SVM. Error, log-loss and calibration error over the questions; of the outsiders the share
that is said to be by none of these, beside the share of the questions that is wrongly said to be.
The settings were chosen on other draws.

Command:  python experiments/attributor.py blog30.parquet [--sizes 3x5,5x10]
Hardware: two cores, about 25 minutes for all sizes.
Expect:   experiments/results/attributor.json, and the table in docs/attribution.md.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whowrote import Attributor, Corpus, __version__, load
from whowrote.baselines import NGramSVM
from whowrote.files import write_text
from whowrote.metrics import evaluate

REPEATS = {"3x5": 10, "5x10": 8, "10x10": 5, "10x50": 3, "30x20": 2, "30x100": 1}
FIRST_SEED = 100
QUESTIONS = 20
OUTSIDERS = 100
OUT = Path(__file__).parent / "results" / "attributor.json"


def draw(corpus: Corpus, k: int, n: int, seed: int) -> tuple[Corpus, Corpus, Corpus]:
    """Training texts, questions by the same authors, and texts of others."""
    random = np.random.default_rng(seed)
    authors = np.array(corpus.authors)
    chosen = random.choice(corpus.author_names, k, replace=False)
    train: list[int] = []
    asked: list[int] = []
    for name in chosen:
        rows = random.permutation(np.flatnonzero(authors == name))
        train += rows[:n].tolist()
        asked += rows[n : n + QUESTIONS].tolist()
    others = random.permutation(np.flatnonzero(~np.isin(authors, chosen)))[:OUTSIDERS]
    return corpus.subset(train), corpus.subset(asked), corpus.subset(others.tolist())


def ours(features: str) -> Callable[[Corpus, Corpus, Corpus, int], dict[str, Any]]:
    """An attributor with this feature set."""

    def measure(train: Corpus, asked: Corpus, others: Corpus, seed: int) -> dict[str, Any]:
        began = perf_counter()
        model = Attributor(features, random_state=seed).fit(train)
        seconds = perf_counter() - began
        figures = evaluated(model.predict_log_proba(asked.texts), asked, model.classes_)
        figures["seconds"] = seconds
        figures["none_of_own"] = none_share(model, asked)
        if len(others):
            figures["none_of_others"] = none_share(model, others)
        return figures

    return measure


def svm(train: Corpus, asked: Corpus, others: Corpus, seed: int) -> dict[str, Any]:
    """The n-gram SVM, which always names somebody."""
    began = perf_counter()
    model = NGramSVM(random_state=seed).fit(list(train.texts), list(train.authors))
    seconds = perf_counter() - began
    log_proba = model.predict_log_proba(list(asked.texts))
    return {**evaluated(log_proba, asked, model.classes_), "seconds": seconds}


def none_share(model: Attributor, texts: Corpus) -> float:
    """How many texts are said to be by none of these."""
    return float(np.mean([answer.author is None for answer in model.attribute(texts)]))


def evaluated(log_proba: NDArray[Any], asked: Corpus, classes: NDArray[Any]) -> dict[str, Any]:
    """Error, log-loss and calibration error."""
    found = evaluate(list(asked.authors), log_proba, classes.tolist(), log=True)
    return {"error": found.error, "log_loss": found.log_loss, "ece": found.ece}


METHODS: dict[str, Callable[[Corpus, Corpus, Corpus, int], dict[str, Any]]] = {
    "hybrid": ours("hybrid"),
    "ngrams": ours("ngrams"),
    "adhominem": ours("adhominem"),
    "n-gram SVM": svm,
}


def measure_size(corpus: Corpus, size: str, repeats: int) -> dict[str, Any]:
    """All methods on the same draws of one size."""
    k, n = map(int, size.split("x"))
    draws = [draw(corpus, k, n, FIRST_SEED + seed) for seed in range(repeats)]
    record: dict[str, Any] = {"repeats": repeats}
    for name, method in METHODS.items():
        rows = [method(*parts, seed) for seed, parts in enumerate(draws)]
        record[name] = {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}
        shown = ", ".join(f"{key} {value:.3f}" for key, value in record[name].items())
        print(f"{size:7} {name:10} {shown}", flush=True)
    return record


def main() -> None:
    """Run and record, size by size; sizes that are recorded already are kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--sizes", default=",".join(REPEATS))
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    corpus = load(options.corpus)
    record = json.loads(options.out.read_text()) if options.out.exists() else {"sizes": {}}
    record["version"] = __version__
    for size in options.sizes.split(","):
        repeats = options.repeats or REPEATS[size]
        record["sizes"][size] = measure_size(corpus, size, repeats)
        write_text(options.out, json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
