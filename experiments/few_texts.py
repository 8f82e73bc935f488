"""Few texts, and strangers among few and many: whowrote beside the simplest things, in parallel.

Draws as in ``benchmarks/accuracy.py`` (up to 30 authors, so many texts of each, 15 others of theirs
asked; ``open``: two thirds enrolled; ``few``: three enrolled, texts of 20 others asked), with
vectors that are read once and kept, and every draw in a process of its own: hundreds of draws in
minutes. Texts have fewer than 1,400 words, an author at most 130; vectors are kept in half
precision. Settings of the engine were chosen on draws of seeds 100 to 105; report others.

Command:  python experiments/few_texts.py DATA --cache FOLDER --seeds 200 201 202 203 [--jobs 16]
          (DATA: folder with blog30, amazon_music, ebg and pan11.parquet; --sizes 100 has blog30
          alone, where alone so many authors have so many texts; --corpora blogs_test mail_test
          forum_test: people of blogs_train.parquet and so on whom the extractor never saw)
Hardware: one core, ten seconds a draw of ten texts and five minutes one of a hundred; vectors in
          eight minutes.
Expect:   the error of whowrote below the n-gram SVM's by a tenth and more at 3 and 5 texts.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.svm import LinearSVC

from whowrote import Attributor, NGrams, StyleExtractor, __version__
from whowrote.attribution import attributor as attributor_module
from whowrote.baselines import NGramSVM
from whowrote.corpus.texts import Corpus
from whowrote.features.counting import counted_once
from whowrote.features.extractor.preparation import part_of
from whowrote.features.fitted_features import FittedStyle
from whowrote.files import write_text
from whowrote.metrics import auc, calibration_error

OUT = Path(__file__).parent / "results" / "few_texts.json"
CORPORA, KINDS = ("blog30", "amazon_music", "ebg", "pan11"), ("closed", "open", "few")
MOST_AUTHORS, ASKED, LEAST_TEXTS, MOST_TEXTS, RATE = 30, 15, 5, 130, 0.05
BINS = 10
MOST_WORDS = 1400
FRESH = {"blogs_test": "blogs", "mail_test": "mail", "forum_test": "forum"}
"""Authors on the test side of the extractor's corpora, on whom no setting of the engine was chosen
but how much T is lowered."""
TEST = 2
VECTORS: dict[str, NDArray[np.float32]] = {}
TEXTS: dict[str, dict[str, list[str]]] = {}


def table_of(data: Path, name: str) -> pd.DataFrame:
    """Authors and texts of a corpus that are long enough, not too long, and enough."""
    domain = FRESH.get(name)
    table = pd.read_parquet(data / (f"{domain}_train.parquet" if domain else f"{name}.parquet"))
    if name == "ebg":
        table = table[table.kind == "text"]
    if name == "pan11":
        table = table[table.part.isin(["LargeTrain", "LargeValid", "LargeTest"])]
    if domain:
        table = table[[part_of(domain, str(author)) == TEST for author in table.author]]
    words = table.text.str.split().str.len()
    table = table[(words >= (25 if name == "pan11" else 40)) & (words < MOST_WORDS)]
    sizes = table.groupby("author").text.transform("size")
    table = table[sizes >= LEAST_TEXTS]
    return table.sample(frac=1.0, random_state=3).groupby("author").head(MOST_TEXTS)


def prepare(data: Path, cache: Path, name: str) -> None:
    """Texts by author, and their vectors, read once."""
    table = table_of(data, name)
    texts = list(Corpus.from_texts(list(table.text)).texts)  # as an attributor will see them
    place = cache / f"{name}.npy"
    if not place.is_file():
        np.save(place, StyleExtractor(size="large").transform(texts).astype(np.float16))
    VECTORS.update(zip(texts, np.load(place).astype(np.float32), strict=True))
    for author, text in zip(table.author, texts, strict=True):
        TEXTS.setdefault(name, {}).setdefault(str(author), []).append(text)


class Draw:
    """Texts to learn from and texts to ask about; an author of -1 is not enrolled."""

    def __init__(self, corpus: str, kind: str, size: int, seed: int) -> None:
        random, by_author = np.random.default_rng([seed, size]), TEXTS[corpus]
        names = sorted(name for name, own in by_author.items() if len(own) >= size + 3)
        names = [names[i] for i in random.permutation(len(names))[:MOST_AUTHORS]]
        names = names[:23] if kind == "few" else names
        enrolled = {"closed": len(names), "open": round(len(names) * 2 / 3), "few": 3}[kind]
        self.texts: list[str] = []
        self.asked: list[str] = []
        codes: list[int] = []
        truth: list[int] = []
        for number, name in enumerate(names):
            own = [by_author[name][i] for i in random.permutation(len(by_author[name]))]
            learnt = own[:size] if number < enrolled else []
            asked = own[len(learnt) : len(learnt) + ASKED]
            self.texts += learnt
            self.asked += asked
            codes += [number] * len(learnt)
            truth += [number if number < enrolled else -1] * len(asked)
        self.codes, self.truth = np.array(codes), np.array(truth)


def vectors(texts: list[str]) -> NDArray[np.float64]:
    """Those that were kept."""
    return np.stack([VECTORS[text] for text in texts]).astype(np.float64)


def simple(case: Draw) -> dict[str, NDArray[np.float64]]:
    """Scores of the simplest methods: log-probabilities of the first one."""
    svm = NGramSVM().fit(case.texts, case.codes)
    found = {"n-gram SVM": np.log(np.maximum(svm.predict_proba(case.asked), 1e-12))}
    learnt, asked = vectors(case.texts), vectors(case.asked)
    ngrams, mean, spread = NGrams().fit(case.texts), learnt.mean(0), learnt.std(0) + 1e-9
    rows = [
        sparse.hstack([0.5 * (v - mean) / spread / np.sqrt(v.shape[1]), ngrams.transform(t)])
        for v, t in ((learnt, case.texts), (asked, case.asked))
    ]
    both = LinearSVC(C=1.0, random_state=0).fit(rows[0].tocsr(), case.codes)
    found["SVM on [n-grams, vector]"] = both.decision_function(rows[1].tocsr())
    means = np.stack([learnt[case.codes == k].mean(0) for k in np.unique(case.codes)])
    units = [one / np.linalg.norm(one, axis=1, keepdims=True) for one in (asked, means)]
    return {**found, "nearest mean vector": units[0] @ units[1].T}


def probabilities(scores: NDArray[np.float64], truth: NDArray[np.int64]) -> dict[str, Any]:
    """Error, log-loss, calibration error, and by how much answers are too sure.

    ``gaps``: right answers less expected ones in bins of confidence, to be added over draws.
    """
    best, sure = scores.argmax(axis=1), np.exp(scores.max(axis=1))
    right = best == truth
    bins = np.minimum((sure * BINS).astype(int), BINS - 1)
    gaps = np.bincount(bins, weights=right - sure, minlength=BINS)
    return {
        "error": float(1 - right.mean()),
        "log_loss": float(-scores[np.arange(len(truth)), truth].mean()),
        "ece": calibration_error(sure, right, n_bins=BINS),
        "overconfidence": float(sure.mean() - right.mean()),
        "texts": len(truth),
        "gaps": gaps.round(3).tolist(),
    }


def pooled_ece(records: Sequence[Mapping[str, Any]]) -> float:
    """The expected calibration error of all draws' answers together."""
    gaps = np.sum([record["gaps"] for record in records], axis=0)
    return float(np.abs(gaps).sum() / sum(record["texts"] for record in records))


def answer(job: tuple[str, str, int, int]) -> tuple[str, dict[str, Any]]:
    """All methods on one draw."""
    corpus, kind, size, seed = job
    torch.set_num_threads(1)
    case = Draw(corpus, kind, size, seed)
    names = [f"{code:03d}" for code in case.codes]

    def looked_up(_: FittedStyle, texts: list[str]) -> NDArray[np.float32]:
        return np.stack([VECTORS[text] for text in texts])

    # Vectors are those that were kept; nothing is compared, so no verifier is learnt.
    with (
        patch.object(FittedStyle, "transform", looked_up),
        patch.object(StyleExtractor, "transform", looked_up),
        patch.object(attributor_module, "fit_verifier", lambda *_: None),
        counted_once(),
    ):
        model = Attributor(passage_words=1000, false_attributions=RATE).fit(case.texts, names)
        closed_or_open = in_closed_set if kind == "closed" else in_open_set
        return f"{corpus}/{kind}/{size}/{seed}", closed_or_open(model, case)


def in_closed_set(model: Attributor, case: Draw) -> dict[str, Any]:
    """Everybody asked is enrolled."""
    record: dict[str, Any] = {
        "whowrote": probabilities(model.predict_log_proba(case.asked), case.truth)
    }
    for name, other in simple(case).items():
        error = {"error": float((other.argmax(axis=1) != case.truth).mean())}
        record[name] = probabilities(other, case.truth) if name == "n-gram SVM" else error
    return record


def in_open_set(model: Attributor, case: Draw) -> dict[str, Any]:
    """Some are not."""
    found = model.attribute(case.asked)
    inside = case.truth >= 0
    named = np.array([-1 if one.author is None else int(one.author) for one in found])
    share = np.array([1.0 if one.stranger is None else one.stranger for one in found])
    fitted = NGramSVM().fit(case.texts, case.codes)
    svm = fitted.predict_proba(case.asked)
    margins = fitted.svm_.decision_function(fitted.ngrams_.transform(case.asked))
    limit = np.quantile(svm.max(axis=1)[~inside], 1 - RATE)  # as if the truth were known
    kept = (svm.argmax(axis=1) == case.truth) & (svm.max(axis=1) > limit)
    best = np.array([one.best.probability for one in found])
    return {
        "whowrote": {
            "area": auc(-share, inside),
            "area of its best probability": auc(best, inside),
            "false attributions": float((named[~inside] >= 0).mean()),
            "correct attributions": float((named == case.truth)[inside].mean()),
        },
        "n-gram SVM": {
            "area": auc(svm.max(axis=1), inside),
            "area of its largest decision": auc(margins.max(axis=1), inside),
            "correct attributions at 5 % in fact": float(kept[inside].mean()),
        },
    }


def table(cells: Mapping[str, Any]) -> str:
    """Means over draws in %, and what they say together."""
    groups: dict[str, list[Any]] = {}
    for label, record in cells.items():
        groups.setdefault(label.rsplit("/", 1)[0], []).append(record)
    lines = []
    for label, records in sorted(groups.items()):
        lines.append(f"{label}, {len(records)} draws")
        for method, figures in records[0].items():
            means = {
                name: 100 * np.mean([record[method][name] for record in records])
                for name in figures
                if name not in ("texts", "gaps")
            }
            if "gaps" in figures:
                means["pooled ece"] = 100 * pooled_ece([record[method] for record in records])
            lines.append(f"  {method}: " + ", ".join(f"{f} {v:.1f}" for f, v in means.items()))
    return "\n".join(lines)


def main() -> None:
    """Compute what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--corpora", nargs="*", default=CORPORA)
    parser.add_argument("--kinds", nargs="*", default=KINDS, choices=KINDS)
    parser.add_argument("--sizes", nargs="*", type=int, default=[2, 3, 5, 10, 20])
    parser.add_argument("--seeds", nargs="*", type=int, default=[200, 201, 202, 203])
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    cells: dict[str, Any] = {}
    if given.out.is_file():
        cells = json.loads(given.out.read_text(encoding="utf-8"))["cells"]
    jobs = []
    for corpus in given.corpora:
        prepare(given.data, given.cache, corpus)
        for kind in given.kinds:
            for size in given.sizes:
                most = {"ebg": 12, "blog30": 100}.get(corpus, 20)  # of as many authors
                if size > most or (kind != "closed" and size < 5):
                    continue
                jobs += [(corpus, kind, size, seed) for seed in given.seeds]
    jobs = [job for job in jobs if "/".join(map(str, job)) not in cells]
    with multiprocessing.get_context("fork").Pool(given.jobs) as pool:
        for label, record in pool.imap_unordered(answer, jobs):
            cells[label] = record
            record_of_all = {"version": __version__, "cells": dict(sorted(cells.items()))}
            write_text(given.out, json.dumps(record_of_all) + "\n")
            print(label, flush=True)
    print(table(cells))


if __name__ == "__main__":
    main()
