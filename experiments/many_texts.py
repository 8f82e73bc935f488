"""All texts of prolific authors: whowrote beside an SVM on n-grams and one on [n-grams, vector].

Closed: every text of Blog-30 is held out once, in five stratified folds. Open: two thirds of the
authors are enrolled with all their texts but those of the fold; of the rest, the texts of the fold
are asked as strangers'. A fold that is in the record is not computed again. The parts and the
penalty of ``whowrote.attribution.many_rows`` were chosen on forty writers of pan11 (``--choose``;
first on two of its folds), after a look at one fold of Blog-30 that said which orders of magnitude
to try.

Command:  python experiments/many_texts.py DATA [--folds 0 1 2 3 4] [--kinds closed open]
          python experiments/many_texts.py DATA --choose
          (DATA: folder with blog30.parquet and pan11.parquet)
Hardware: two cores, seven minutes a fold, half of it the SVMs.
Expect:   experiments/results/many_texts.json: 5.7 % error, the n-gram SVM 6.2.
"""

from __future__ import annotations

import argparse
import json
import resource
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import LinearSVC

from whowrote import AdHominem, Attributor, NGrams, __version__
from whowrote.attribution import many_rows
from whowrote.attribution.contrasts import Known
from whowrote.attribution.many_rows import contrasts_of_many
from whowrote.features.kinds import named
from whowrote.files import write_text
from whowrote.metrics import auc, calibration_error

OUT = Path(__file__).parent / "results" / "many_texts.json"
FOLDS, LIMIT = 5, 0.05
WRITERS, LEAST_WORDS = 40, 25
VIEWS = (
    {"written": 1.0},
    {"written": 1.0, "vectors": 0.5},
    {"written": 1.0, "masked": 0.5, "plain": 0.5, "vectors": 0.35},
    {"written": 1.0, "masked": 0.5, "plain": 0.5, "vectors": 0.5},
    {"written": 1.0, "masked": 0.7, "plain": 0.7, "vectors": 0.7},
    {"written": 1.0, "masked": 0.7, "plain": 0.5, "vectors": 1.0},
)
PENALTIES = (1.0, 0.5, 0.3, 0.15)

Texts = NDArray[Any]


def folds_of(authors: Texts) -> NDArray[np.int64]:
    """Of each text, in which part it is held out."""
    folds = np.empty(len(authors), dtype=np.int64)
    parts = StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(authors, authors)
    for number, (_, out) in enumerate(parts):
        folds[out] = number
    return folds


def svms(texts: Texts, authors: Texts, asked: Texts) -> dict[str, NDArray[Any]]:
    """The authors that two linear SVMs name."""
    ngrams = NGrams().fit(texts)
    grams = [ngrams.transform(some) for some in (texts, asked)]
    vectors = [AdHominem().transform(list(some)) for some in (texts, asked)]
    centre, spread = vectors[0].mean(0), vectors[0].std(0) + 1e-9
    dense = [0.5 * (v - centre) / spread / np.sqrt(v.shape[1]) for v in vectors]
    both = [sparse.hstack(pair).tocsr() for pair in zip(dense, grams, strict=True)]
    rows = {"n-gram SVM": grams, "SVM on [n-grams, vector]": both}
    return {
        name: LinearSVC(C=1.0, random_state=0).fit(learnt, authors).predict(new)
        for name, (learnt, new) in rows.items()
    }


def closed(texts: Texts, authors: Texts, out: NDArray[np.bool_]) -> dict[str, Any]:
    """Errors of all on the texts of a fold, and how good our probabilities are."""
    began = perf_counter()
    model = Attributor().fit(list(texts[~out]), list(authors[~out]))
    seconds = perf_counter() - began
    log_proba = model.predict_log_proba(list(texts[out]))
    best, sure = model.classes_[log_proba.argmax(axis=1)], np.exp(log_proba.max(axis=1))
    truth = np.searchsorted(model.classes_, authors[out])
    record = {
        "whowrote": {
            "error": float((best != authors[out]).mean()),
            "log_loss": float(-log_proba[np.arange(len(truth)), truth].mean()),
            "ece": calibration_error(sure, best == authors[out], n_bins=10),
            "seconds": round(seconds),
            "gigabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 1),
        }
    }
    for name, named_ in svms(texts[~out], authors[~out], texts[out]).items():
        record[name] = {"error": float((named_ != authors[out]).mean())}
    return record


def open_set(texts: Texts, authors: Texts, out: NDArray[np.bool_], fold: int) -> dict[str, Any]:
    """How many strangers' texts are given to somebody, and how many own texts to their author."""
    names = np.random.default_rng(fold).permutation(np.unique(authors))
    inside = np.isin(authors, names[: 2 * len(names) // 3])
    model = Attributor(false_attributions=LIMIT)
    model.fit(list(texts[inside & ~out]), list(authors[inside & ~out]))
    answers, own = model.attribute(list(texts[out])), inside[out]
    named_ = np.array([one.author is not None for one in answers])
    right = np.array([one.best.author for one in answers]) == authors[out]
    curve = model.fitted_.calibration.strangers
    away = [float(named_[authors[out] == name].mean()) for name in names[2 * len(names) // 3 :]]
    return {
        "area": auc(np.array([-float(one.stranger or 0.0) for one in answers]), own),
        "area of the best probability": auc(
            np.array([one.best.probability for one in answers]), own
        ),
        "false attributions": float(named_[~own].mean()),
        "false attributions, mean of strangers": float(np.mean(away)),
        "correct attributions": float((named_ & right)[own].mean()),
        "best candidate right": float(right[own].mean()),
        "expected missed": None if curve is None else curve.missed(LIMIT),
    }


def choose(data: Path, found: dict[str, Any]) -> Iterator[None]:
    """Held-out errors of views and penalties on writers of e-mails, those not yet found."""
    table = pd.read_parquet(data / "pan11.parquet")[["author", "text"]].drop_duplicates("text")
    table = table[table.text.str.split().str.len() >= LEAST_WORDS]
    table = table[table.author.isin(table.author.value_counts().index[:WRITERS])]
    codes, rows = np.unique(table.author, return_inverse=True)[1], np.arange(len(table))
    features = named("hybrid", few=True, words=10**9)
    X, folds = features.fit_transform(list(table.text)), folds_of(table.author.to_numpy())
    parts = features.fitted().parts()
    known = Known(X, X, X, codes, folds, rows, np.ones(len(rows), bool), rows)
    for penalty, view in product(PENALTIES, VIEWS):
        name = " + ".join(f"{weight:g} {part}" for part, weight in view.items())
        if (cell := f"{name}, penalty {penalty:g}") in found:
            continue
        with patch.object(many_rows, "VIEW", view), patch.object(many_rows, "PENALTY", penalty):
            held_out = contrasts_of_many(known, parts)[1].held_out
        found[cell] = float((held_out.argmax(axis=1) != codes).mean())
        print(f"{cell}: {found[cell]:.2%}", flush=True)
        yield


def show(record: Mapping[str, Any]) -> str:
    """Means over the folds."""
    lines = []
    for kind in ("closed", "open"):
        folds = [value for cell, value in record["cells"].items() if cell.startswith(kind)]
        flat = [pd.json_normalize(fold, sep=" ").iloc[0] for fold in folds]
        if flat:
            lines.append(f"{kind}, {len(flat)} folds")
            lines += [f"  {name}: {mean:.4f}" for name, mean in pd.DataFrame(flat).mean().items()]
    return "\n".join(lines)


def main() -> None:
    """Compute what is missing and print the means."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--folds", nargs="*", type=int, default=list(range(FOLDS)))
    parser.add_argument("--kinds", nargs="*", default=["closed", "open"])
    parser.add_argument("--choose", action="store_true", help="errors of views and penalties")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    record: dict[str, Any] = {"version": __version__, "cells": {}}
    if given.out.is_file():
        record = json.loads(given.out.read_text(encoding="utf-8"))
    if given.choose:
        for _ in choose(given.data, record.setdefault("chosen on pan11", {})):
            write_text(given.out, json.dumps(record, indent=1) + "\n")
        return
    table = pd.read_parquet(given.data / "blog30.parquet")
    texts, authors = table.text.to_numpy(dtype=object), table.author.to_numpy(dtype=object)
    folds = folds_of(authors)
    for fold, kind in product(given.folds, given.kinds):
        if (name := f"{kind}/{fold}") not in record["cells"]:
            out = folds == fold
            done = closed(texts, authors, out) if kind == "closed" else None
            record["cells"][name] = done or open_set(texts, authors, out, fold)
            write_text(given.out, json.dumps(record, indent=1) + "\n")
            print(name, record["cells"][name], flush=True)
    print(show(record))


if __name__ == "__main__":
    main()
