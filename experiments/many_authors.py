r"""Attribution among very many authors: how often right, how sure, how fast.

Some authors are drawn; of each, one text or all but one are enrolled, and one text of up to 1,000
of them is asked. Beside the model stand the cosine to the author's mean style vector, and that to
their n-grams. Where one text is enrolled, what all authors share is the first guess of
``whowrote.attribution.many_authors``, which was chosen on the bloggers that come after the first
1,000 of the corpus: they are in no figure (``--between 0 1000``).

Time is that of a search, without reading the text, whose rows are there.

``--switch`` is about where training goes over to this kind of model: the linear engine,
``Attributor()``, beside the directory on the same texts of the same authors, and beside the nearest
cosine. There, time is that of a core for reading, learning and answering.

Command:  python experiments/many_authors.py --corpus blogs=blogs_train.parquet --authors 1000
          [--enrolled 1] [--vectors vectors.npz] [--seed 1]
          python experiments/many_authors.py --corpus blogs=blogs_train.parquet --enrolled 5
          --switch 200 350
Hardware: one core; minutes where vectors are there, at 100 to 200 texts a second where not.
Expect:   see docs/scale.md.
"""

from __future__ import annotations

import argparse
import json
import resource
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from whowrote import __version__
from whowrote.arrays import FloatArray, IntArray
from whowrote.attribution import Attributor
from whowrote.attribution import many_authors as engine
from whowrote.attribution.directory import Directory
from whowrote.corpus.texts import Corpus
from whowrote.features.adhominem import AdHominem
from whowrote.features.fitted_features import FittedAdHominem
from whowrote.files import write_text
from whowrote.metrics import calibration_error

OUT = Path(__file__).parent / "results" / "many_authors.json"
MOST_ASKED = 1000


def letters(text: str) -> str:
    """What a text begins and ends with, without what reading a corpus may mend."""
    some = unicodedata.normalize("NFKC", f"{text[:200]} {text[-200:]}")
    return "".join(filter(str.isalnum, some))


class Remembered(FittedAdHominem):
    """The packaged extractor, for texts that it has read before."""

    known: dict[str, FloatArray]

    def transform(self, X: Sequence[str]) -> Any:
        """One row per text."""
        keys = [letters(text) for text in X]
        new = [text for text, key in zip(X, keys, strict=True) if key not in self.known]
        if new:  # mended when it was read
            made = super().transform(new)
            self.known.update(zip(map(letters, new), made, strict=True))
        return np.stack([self.known[key] for key in keys]).astype(np.float32)


@dataclass(frozen=True)
class Drawn:
    """Enrolled texts and those asked, a number of the author for each."""

    enrolled: list[str]
    codes: IntArray
    asked: list[str]
    own: IntArray


def draw(authors: list[list[str]], number: int, enrolled: int | None, seed: int) -> Drawn:
    """So many authors with two texts at least."""
    random = np.random.default_rng([seed, 89])
    several = [place for place, texts in enumerate(authors) if len(texts) > (enrolled or 1)]
    chosen = random.permutation(several)[:number]
    texts, codes, asked, own = [], [], [], []
    for code, place in enumerate(chosen.tolist()):
        mixed = [authors[place][i] for i in random.permutation(len(authors[place]))]
        kept = mixed[1:] if enrolled is None else mixed[1 : 1 + enrolled]
        texts += kept
        codes += [code] * len(kept)
        if code < MOST_ASKED:
            asked.append(mixed[0])
            own.append(code)
    return Drawn(texts, np.array(codes), asked, np.array(own))


def figures(score: Any, own: IntArray) -> dict[str, float]:
    """How often the author is first, and among the first ten."""
    rank = (score > score[np.arange(len(own)), own][:, None]).sum(axis=1)
    return {
        "top_1": round(float((rank < 1).mean()), 4),
        "top_10": round(float((rank < 10).mean()), 4),
    }


def plain(model: engine.ManyAuthors, rows: engine.Rows, own: IntArray) -> dict[str, Any]:
    """Cosines by which nothing was learnt."""
    directory = model.directory
    grams = replace(directory, shared=engine.Concentrations(0.0, 1.0, 0.0, 0.0))
    return {
        "cosine of style vectors": figures(rows.styles @ directory.rows.T, own),
        "cosine of n-grams": figures(grams.all_scores(np.zeros_like(rows.styles), rows.grams), own),
    }


def pruned(directory: Directory, rows: engine.Rows, own: IntArray, exact: Any) -> dict[str, Any]:
    """What the search finds, and how long it takes."""
    began, found = perf_counter(), []
    for row in range(len(own)):
        found.append(directory.scores(rows.styles[row], rows.grams[row]))
    seconds = (perf_counter() - began) / len(own)
    first = np.array([one.authors[0] for one in found])
    ten = [true in one.authors[:10] for one, true in zip(found, own, strict=True)]
    right = first == own
    shared = directory.shared
    log_p = np.array([engine.log_shares(one.score, shared.rest)[0] for one in found])
    cells = directory.cells
    return {
        "top_1": round(float(right.mean()), 4),
        "top_10": round(float(np.mean(ten)), 4),
        "recall_of_exact_best": round(float((first == exact.argmax(axis=1)).mean()), 4),
        "mean_probability_of_first": round(float(np.exp(log_p).mean()), 4),
        "ece": round(float(calibration_error(np.exp(log_p), right)), 4),
        "milliseconds_a_text": round(1000 * seconds, 3),
        "cells": None if cells is None else len(cells.centers),
        "cells_searched": None if cells is None else cells.probes,
        "recall_when_laid_out": None if cells is None else cells.recall,
    }


def measure(drawn: Drawn, dense: FittedAdHominem | None) -> dict[str, Any]:
    """Learn, answer, enrol one more."""
    names = [f"{code:06d}" for code in drawn.codes.tolist()]
    corpus = Corpus.from_texts(drawn.enrolled, names)
    began = perf_counter()
    model = engine.learn_many(corpus, extractor=dense)
    seconds = perf_counter() - began
    rows = engine.read(model.features, drawn.asked)
    exact = model.directory.all_scores(rows.styles, rows.grams)
    began = perf_counter()
    model.directory.grown(rows.styles[:1], engine.Grams.of(rows.grams[:1]))
    enrolled = perf_counter() - began
    strangers = [
        engine.share_above(
            model.strangers,
            engine.stands_out(
                model.directory.scores(rows.styles[row], rows.grams[row], without=code).score
            ),
        )
        for row, code in enumerate(drawn.own.tolist())
    ]
    told = [
        engine.share_above(
            model.strangers,
            engine.stands_out(model.directory.scores(rows.styles[row], rows.grams[row]).score),
        )
        for row in range(len(drawn.own))
    ]
    return {
        "authors": len(model.authors),
        "texts": len(drawn.enrolled),
        "asked": len(drawn.asked),
        "whowrote": pruned(model.directory, rows, drawn.own, exact),
        "whowrote, nothing pruned": figures(exact, drawn.own),
        **plain(model, rows, drawn.own),
        "shared": vars(model.directory.shared),
        "strangers_named_at_5": round(float(np.mean(np.array(strangers) <= 0.05)), 4),
        "own_named_at_5": round(float(np.mean(np.array(told) <= 0.05)), 4),
        "seconds_to_learn": round(seconds, 1),
        "seconds_to_enrol_one": round(enrolled, 4),
        "megabytes": round(sum(a.nbytes for a in model.directory.arrays().values()) / 1e6, 1),
        "peak_gigabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }


def answered(log_p: Any, own: IntArray, began: float) -> dict[str, float]:
    """Figures of log-probabilities, and the seconds of a core since ``began``."""
    loss = -float(np.asarray(log_p)[np.arange(len(own)), own].mean())
    seconds = round(process_time() - began, 1)
    return {**figures(log_p, own), "log_loss": round(loss, 4), "core_seconds": seconds}


def switched(drawn: Drawn) -> dict[str, Any]:
    """Both engines on the same texts; the directory also by the extractor that the other reads."""
    corpus = Corpus.from_texts(drawn.enrolled, [f"{code:06d}" for code in drawn.codes.tolist()])
    found: dict[str, Any] = {"authors": len(corpus.author_names), "texts": len(corpus)}
    found |= {"words": sum(corpus.word_counts), "asked": len(drawn.asked)}
    ways = {"directory": None, "directory, AdHominem": AdHominem(device="cpu").fitted()}
    for way, extractor in ways.items():
        began = process_time()
        model = engine.learn_many(corpus, extractor=extractor)
        rows = engine.read(model.features, drawn.asked)
        score = model.directory.all_scores(rows.styles, rows.grams)
        rest = model.directory.shared.rest
        log_p = np.stack([engine.log_shares(one, rest) for one in score])
        found[way] = answered(log_p, drawn.own, began) | {"extractor": model.features.dense.kind}
        found[way] |= plain(model, rows, drawn.own)
        print(way, found[way], flush=True)
    began = process_time()
    linear = Attributor().fit(corpus).fitted()
    found["linear"] = answered(linear.predict_log_proba(drawn.asked), drawn.own, began)
    print("linear", found["linear"], flush=True)
    return found


def main() -> None:
    """One draw of authors."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--corpus", required=True, metavar="NAME=PATH")
    asked.add_argument("--vectors", type=Path, nargs="+", help="npz with V and rows of the corpus")
    asked.add_argument("--authors", type=int, default=1000)
    asked.add_argument("--between", type=int, nargs=2, help="authors by first appearance")
    asked.add_argument("--enrolled", type=int)
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--switch", type=int, nargs="+", help="numbers of authors, in turn")
    asked.add_argument("--out", type=Path, default=OUT)
    given = asked.parse_args()
    name, path = given.corpus.split("=", 1)
    table = pq.read_table(path, columns=["author", "text"])
    by_author: dict[str, list[str]] = {}
    for author, text in zip(table["author"].to_pylist(), table["text"].to_pylist(), strict=True):
        by_author.setdefault(author, []).append(text)
    low, high = given.between or (0, len(by_author))
    authors = [sorted(set(texts)) for texts in list(by_author.values())[low:high]]
    dense = None
    if given.vectors:
        packaged = AdHominem(device="cpu").fitted()
        dense = Remembered(**vars(packaged))
        texts, known = table["text"].to_pylist(), {}
        for one in given.vectors:
            stored = np.load(one)
            known |= {
                letters(texts[row]): v for row, v in zip(stored["rows"], stored["V"], strict=True)
            }
        object.__setattr__(dense, "known", known)
    for number in given.switch or [given.authors]:
        drawn = draw(authors, number, given.enrolled, given.seed)
        record = switched(drawn) if given.switch else measure(drawn, dense)
        record["version"] = __version__
        texts_enrolled = given.enrolled or "all but one"
        key = f"{name}, {number} authors, {texts_enrolled} enrolled, seed {given.seed}"
        key += ", switch" if given.switch else ""
        kept = json.loads(given.out.read_text()) if given.out.is_file() else {}
        write_text(given.out, json.dumps(kept | {key: record}, indent=1, sort_keys=True) + "\n")
        print(key, json.dumps(record, indent=1), flush=True)


if __name__ == "__main__":
    main()
