"""Where users live: few texts, short texts, strangers; whowrote beside the simplest things.

Closed: K authors, so many texts each to learn from, others of theirs asked; error, log-loss and
expected calibration error of every method on the same draws. Open: two thirds of the authors are
enrolled, texts of the rest are asked as well; the area under the ROC curve of telling strangers
from the enrolled, the share of strangers' texts that is given to somebody at
``false_attributions=0.05``, and of enrolled authors' texts that is given to them. Methods: the
n-gram SVM (calibrated), a linear SVM on [n-grams, style vector], the nearest mean style vector,
Burrows' Delta, General Impostors, ``Attributor()``. Nothing is chosen on any of these texts by the
benchmark itself.

The task of PAN 2011 as it was set (``--plus``; part names of pan11.parquet): LargeTrain or
SmallTrain learnt, the test parts asked, those with + with texts by people who are not enrolled.
Micro: right answers over all answers (precision), and over all texts of enrolled authors (recall).
Macro: the same figures of each enrolled author in the part, averaged; who is never named has a
precision of 0. Once at the default limit for strangers, once at the limit with the best micro F1
on the Valid+ part. Who has one text alone is not learnt, and missed.

A cell (corpus, kind, texts an author, draw) that is in the record is not computed again: end it and
repeat the command at will.

Command:  python benchmarks/accuracy.py DATA --out experiments/results/accuracy.json
          (DATA: folder with blog30, amazon_music, ebg and pan11.parquet; --draws 10; --corpora,
          --sizes; --quick for two draws of 3 and 5 texts; --table prints what there is)
          python benchmarks/accuracy.py DATA --plus --out experiments/results/pan11_plus.json
Hardware: two cores, about half a minute a draw of 30 authors x 10 texts.
Expect:   the error of whowrote below every other method's at each size.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from sklearn.svm import LinearSVC

from whowrote import AdHominem, Attributor, __version__
from whowrote.baselines import BurrowsDelta, NGramSVM
from whowrote.features import NGrams
from whowrote.files import write_text
from whowrote.metrics import auc, calibration_error

MOST_AUTHORS, ASKED, OPEN_ASKED = 30, 15, 15
LEAST_WORDS = {"pan11": 25}
SIZES = (2, 3, 5, 10, 20)
FALSE_ATTRIBUTIONS = 0.05
IMPOSTOR_ROUNDS = 50


@dataclass(frozen=True)
class Draw:
    """Texts to learn from and texts to ask about; an author of -1 is not enrolled."""

    texts: list[str]
    codes: NDArray[np.int64]
    asked: list[str]
    truth: NDArray[np.int64]


def read(data: Path, corpus: str) -> pd.DataFrame:
    """The texts of a corpus that are long enough, by author."""
    table = pd.read_parquet(data / f"{corpus}.parquet")
    if corpus == "ebg":
        table = table[table.kind == "text"]
    if corpus == "pan11":
        table = table[table.part.isin(["LargeTrain", "LargeValid", "LargeTest"])]
    least = LEAST_WORDS.get(corpus, 40)
    return table[table.text.str.split().str.len() >= least][["author", "text"]]


def draw(table: pd.DataFrame, size: int, seed: int, share_enrolled: float = 1.0) -> Draw:
    """Some authors with enough texts, and some texts of each."""
    random = np.random.default_rng([seed, size])
    counts = table.author.value_counts()
    names = sorted(counts[counts >= size + 3].index)
    names = [names[i] for i in random.permutation(len(names))[:MOST_AUTHORS]]
    n_enrolled = round(len(names) * share_enrolled)
    parts: tuple[list[str], list[int], list[str], list[int]] = ([], [], [], [])
    for number, name in enumerate(names):
        own = table.text[table.author == name].to_numpy()
        own = own[random.permutation(len(own))]
        enrolled = number < n_enrolled
        learnt = own[:size] if enrolled else own[:0]
        asked = own[len(learnt) : len(learnt) + ASKED]
        parts[0].extend(learnt)
        parts[1].extend([number] * len(learnt))
        parts[2].extend(asked)
        parts[3].extend([number if enrolled else -1] * len(asked))
    return Draw(parts[0], np.array(parts[1]), parts[2], np.array(parts[3]))


# -- methods: log-probabilities (or scores) of the asked texts, and whether they are calibrated ----


def n_gram_svm(case: Draw) -> NDArray[Any]:
    """The classic, calibrated."""
    model = NGramSVM().fit(case.texts, case.codes)
    return np.log(np.maximum(model.predict_proba(case.asked), 1e-12))


def delta(case: Draw) -> NDArray[Any]:
    """Burrows' Delta."""
    model = BurrowsDelta().fit(case.texts, case.codes)
    return np.log(np.maximum(model.predict_proba(case.asked), 1e-12))


def hybrid_svm(case: Draw) -> NDArray[Any]:
    """One line on our features: a linear SVM on [n-grams, vector]."""
    ngrams = NGrams().fit(case.texts)
    vectors = [AdHominem().transform(texts) for texts in (case.texts, case.asked)]
    centre, spread = vectors[0].mean(0), vectors[0].std(0) + 1e-9
    rows = [
        sparse.hstack([0.5 * (v - centre) / spread / np.sqrt(v.shape[1]), ngrams.transform(t)])
        for v, t in zip(vectors, (case.texts, case.asked), strict=True)
    ]
    model = LinearSVC(C=1.0, random_state=0).fit(rows[0].tocsr(), case.codes)
    return np.asarray(model.decision_function(rows[1].tocsr()))


def nearest_mean(case: Draw) -> NDArray[Any]:
    """Cosine to the mean style vector of each author."""
    learnt, asked = (AdHominem().transform(texts) for texts in (case.texts, case.asked))
    means = np.stack([learnt[case.codes == k].mean(0) for k in np.unique(case.codes)])
    units = [m / np.linalg.norm(m, axis=1, keepdims=True) for m in (asked, means)]
    return np.asarray(units[0] @ units[1].T)


def general_impostors(case: Draw) -> NDArray[Any]:
    """How often each author wrote the nearest text, by random halves of the n-grams.

    Koppel, Schler and Argamon (2011): the others are the impostors.
    """
    ngrams, random = NGrams().fit(case.texts), np.random.default_rng(0)
    learnt, asked = (ngrams.transform(texts) for texts in (case.texts, case.asked))
    votes, rows = np.zeros((len(case.asked), int(case.codes.max()) + 1)), np.arange(len(case.asked))
    for _ in range(IMPOSTOR_ROUNDS):
        half = sparse.diags_array((random.random(learnt.shape[1]) < 0.5).astype(float))
        known, new = learnt @ half, asked @ half
        norms = np.sqrt(np.asarray(known.multiply(known).sum(axis=1)).ravel()) + 1e-12
        nearest = ((new @ known.T).toarray() / norms).argmax(axis=1)
        votes[rows, case.codes[nearest]] += 1
    return np.asarray(votes / IMPOSTOR_ROUNDS)


METHODS: Mapping[str, Callable[[Draw], NDArray[Any]]] = {
    "n-gram SVM": n_gram_svm,
    "SVM on [n-grams, vector]": hybrid_svm,
    "nearest mean vector": nearest_mean,
    "Burrows' Delta": delta,
    "General Impostors": general_impostors,
}
CALIBRATED = ("n-gram SVM", "whowrote")


# -- figures ---------------------------------------------------------------------------------------


def figures(name: str, scores: NDArray[Any], truth: NDArray[np.int64]) -> dict[str, float]:
    """Error, and how good the probabilities are."""
    best = scores.argmax(axis=1)
    found = {"error": float((best != truth).mean())}
    if name in CALIBRATED:
        sure = np.exp(scores.max(axis=1))
        found["ece"] = calibration_error(sure, best == truth, n_bins=10)
        found["log_loss"] = float(-scores[np.arange(len(truth)), truth].mean())
    return found


def closed(case: Draw) -> dict[str, Any]:
    """Every method on one draw."""
    record = {name: figures(name, ask(case), case.truth) for name, ask in METHODS.items()}
    began = perf_counter()
    model = Attributor().fit(case.texts, [f"{code:03d}" for code in case.codes])
    seconds = perf_counter() - began
    own = figures("whowrote", model.predict_log_proba(case.asked), case.truth)
    return {**record, "whowrote": {**own, "fit_seconds": round(seconds, 1)}}


def open_set(case: Draw) -> dict[str, Any]:
    """Strangers among the asked."""
    names = [f"{code:03d}" for code in case.codes]
    model = Attributor(false_attributions=FALSE_ATTRIBUTIONS).fit(case.texts, names)
    inside, found = case.truth >= 0, model.attribute(case.asked)
    svm = n_gram_svm(case)
    own = np.array([-(one.stranger if one.stranger is not None else 0.0) for one in found])
    named = np.array([-1 if one.author is None else int(one.author) for one in found])
    right, wide = svm.argmax(axis=1) == case.truth, svm.max(axis=1)
    limit = np.quantile(wide[~inside], 1 - FALSE_ATTRIBUTIONS)  # as if the truth were known
    curve = model.fitted_.calibration.strangers
    return {
        "whowrote": {
            "area": auc(own, inside),
            "area of its best probability": auc(
                np.array([one.best.probability for one in found]), inside
            ),
            "false attributions": float((named[~inside] >= 0).mean()),
            "correct attributions": float((named == case.truth)[inside].mean()),
            "expected missed": None if curve is None else curve.missed(FALSE_ATTRIBUTIONS),
        },
        "n-gram SVM": {
            "area": auc(wide, inside),
            "correct attributions": float((right & (wide > limit))[inside].mean()),
        },
    }


# -- PAN 2011 --------------------------------------------------------------------------------------


def of_authors(
    named: NDArray[Any], truth: NDArray[Any], enrolled: NDArray[Any]
) -> dict[str, float]:
    """Precision, recall and F1 of answers, "" for none: over texts, and over authors."""
    right, inside = named == truth, np.isin(truth, enrolled)
    each = []
    for author in np.unique(truth[inside]):
        hits = float((right & (truth == author)).sum())
        each.append(_f1(hits, (named == author).sum(), (truth == author).sum()))
    found = {"micro": _f1(float((right & inside).sum()), (named != "").sum(), inside.sum())}
    found["macro"] = tuple(np.mean(each, axis=0))
    names = ("precision", "recall", "F1")
    return {
        f"{kind} {name}": round(float(value), 4)
        for kind, values in found.items()
        for name, value in zip(names, values, strict=True)
    }


def _f1(hits: float, answers: float, texts: float) -> tuple[float, float, float]:
    precision, recall = hits / max(answers, 1), hits / max(texts, 1)
    return precision, recall, 2 * hits / max(answers + texts, 1)


def plus(data: Path, size: str) -> dict[str, Any]:
    """One of the two sets of PAN 2011: the closed part, and the part with strangers."""
    table = pd.read_parquet(data / "pan11.parquet").dropna(subset=["text"])
    table = table[table.text.str.split().str.len() > 0]
    parts = dict(list(table.groupby("part")))
    every = parts[f"{size}Train"]
    learnt = every[every.groupby("author").text.transform("size") >= 2]
    texts, authors = list(learnt.text), learnt.author.to_numpy().astype(str)
    model, svm = Attributor().fit(texts, list(authors)), NGramSVM().fit(texts, authors)
    sides: dict[str, dict[str, tuple[NDArray[Any], NDArray[Any]]]] = {}
    for part in ("Test", "Valid+", "Test+"):
        asked = list(parts[f"{size}{part}"].text)
        answers, proba = model.attribute(asked), svm.predict_proba(asked)
        away = [1.0 if one.stranger is None else one.stranger for one in answers]
        sides[part] = {
            "whowrote": (np.array([one.best.author for one in answers]), np.array(away)),
            "n-gram SVM": (svm.classes_[proba.argmax(axis=1)], 1 - proba.max(axis=1)),
        }
    enrolled, record = np.unique(every.author.to_numpy().astype(str)), {}
    truth = {part: parts[f"{size}{part}"].author.to_numpy().astype(str) for part in sides}
    for method in ("whowrote", "n-gram SVM"):
        best, away = sides["Test"][method]
        record[method] = {"closed": of_authors(best, truth["Test"], enrolled)}
        limit = _best_limit(*sides["Valid+"][method], truth["Valid+"], enrolled)
        best, away = sides["Test+"][method]
        limits = {"limit of the Valid+ part": limit}
        if method == "whowrote":
            limits["default limit"] = FALSE_ATTRIBUTIONS
        for name, most in limits.items():
            told = np.where(away <= most, best, "")
            outside = ~np.isin(truth["Test+"], enrolled)
            own = {"strangers named": round(float((told[outside] != "").mean()), 4)}
            record[method][name] = of_authors(told, truth["Test+"], enrolled) | own
    return {"learnt": len(texts), "authors": len(enrolled), **record}


def _best_limit(
    best: NDArray[Any], away: NDArray[Any], truth: NDArray[Any], enrolled: NDArray[Any]
) -> float:
    limits = np.quantile(away, np.linspace(0.02, 1.0, 99))
    answers = [np.where(away <= most, best, "") for most in limits]
    scores = [of_authors(told, truth, enrolled)["micro F1"] for told in answers]
    return float(limits[int(np.argmax(scores))])


KINDS: Mapping[str, tuple[Callable[[Draw], dict[str, Any]], float]] = {
    "closed": (closed, 1.0),
    "open": (open_set, 2 / 3),
}


def table(cells: Mapping[str, Any]) -> str:
    """Means over draws, a row for each corpus, kind and size."""
    lines: dict[tuple[str, str, int], list[Any]] = {}
    for cell, record in cells.items():
        corpus, kind, size, _ = cell.split("/")
        lines.setdefault((corpus, kind, int(size)), []).append(record)
    shown = []
    for (corpus, kind, size), records in lines.items():
        parts = []
        for method in records[-1]:
            means = {
                figure: np.mean([r[method][figure] for r in records if method in r])
                for figure, value in records[-1][method].items()
                if value is not None and figure != "fit_seconds"
            }
            told = ", ".join(f"{figure} {value:.3f}" for figure, value in means.items())
            parts.append(f"  {method}: {told}")
        shown.append(f"{corpus}, {kind}, {size} texts an author, {len(records)} draws")
        shown += parts
    return "\n".join(shown)


def main() -> None:
    """Compute what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--out", type=Path, default=Path("experiments/results/accuracy.json"))
    parser.add_argument("--corpora", nargs="*", default=["blog30", "amazon_music", "ebg", "pan11"])
    parser.add_argument("--sizes", nargs="*", type=int, default=list(SIZES))
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--quick", action="store_true", help="two draws of 3 and 5 texts")
    parser.add_argument("--table", action="store_true", help="only print what there is")
    parser.add_argument("--plus", action="store_true", help="the task of PAN 2011 as it was set")
    given = parser.parse_args()
    if given.plus:
        sets: dict[str, Any] = {"version": __version__}
        for size in ("Small", "Large"):
            sets[size] = plus(given.data, size)
            write_text(given.out, json.dumps(sets, indent=1) + "\n")
            print(size, json.dumps(sets[size], indent=1), flush=True)
        return
    sizes, draws = ([3, 5], 2) if given.quick else (given.sizes, given.draws)
    record = {"version": __version__, "cells": {}}
    if given.out.is_file():
        record = json.loads(given.out.read_text(encoding="utf-8"))
    corpora = given.corpora if not given.table else []
    for corpus in corpora:
        rows = read(given.data, corpus)
        for seed in range(draws):
            for size in sizes:
                for kind in given.kinds:
                    name = f"{corpus}/{kind}/{size}/{seed}"
                    ask, share = KINDS[kind]
                    if name in record["cells"] or (kind == "open" and size < 5):
                        continue
                    case = draw(rows, size, seed, share)
                    record["cells"][name] = ask(case)
                    write_text(given.out, json.dumps(record, indent=1) + "\n")
                    print(name, flush=True)
    print(table(record["cells"]))


if __name__ == "__main__":
    main()
