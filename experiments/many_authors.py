r"""Attribution among very many authors: accuracy, time, memory, and what pruning loses.

Vectors of texts by known authors come as a file; one text of each asked author is kept back and the
others are enrolled. With ``--drawn K`` authors drawn from the fitted population (mean vectors from
the scatter of authors, a text each from that inside them) fill the roster up to K: they make the
task harder and the search longer, and are counted apart from the real ones. Beside the mixture
stands the nearest mean by cosine.

Command:  python experiments/many_authors.py --name blogs --vectors v.npy --authors a.txt
          python experiments/many_authors.py --name hotels --vectors v.npy --authors a.txt
          --drawn 10000 75000
Hardware: one core, one to three minutes.
Expect:   accuracy like that of the cosine; 99 % of the exact best found by pruning; an author
          enrolled in a tenth of a second.
"""

from __future__ import annotations

import argparse
import json
import resource
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from whowrote import __version__
from whowrote.arrays import FloatArray, IntArray
from whowrote.attribution import many_authors as module
from whowrote.attribution.many_authors import FittedMany, ManyAuthors, Roster
from whowrote.attribution.profiles import author_means
from whowrote.files import write_text

OUT = Path(__file__).parent / "results" / "many_authors.json"


def kept_back(codes: IntArray, asked: int, seed: int) -> IntArray:
    """One text each of so many authors with several."""
    random = np.random.default_rng([seed, 83])
    able = random.permutation(np.flatnonzero(np.bincount(codes)[codes] > 1))
    _, first = np.unique(codes[able], return_index=True)
    return np.sort(random.permutation(able[first])[:asked])


def drawn(fitted: FittedMany, more: int, seed: int) -> FittedMany:
    """With so many authors of one text drawn from the population."""
    random, space = np.random.default_rng([seed, 89]), fitted.roster.space
    x = random.standard_normal((more, space.axes.shape[1])) * np.sqrt(space.spread + 1.0)
    names = [f"drawn {number}" for number in range(more)]
    grown = fitted.enrolled(x.astype(np.float32), names, np.full(more, 200))
    return replace(grown, roster=replace(grown.roster, graph=None).indexed())


def top(fitted: FittedMany, x: FloatArray, true: list[str], exact: bool) -> dict[str, float]:
    """Shares of texts whose author is first, or among ten; the times a text takes."""
    roster: Roster = replace(fitted.roster, graph=None) if exact else fitted.roster
    roster.candidates(x[:2])
    began = perf_counter()
    best = []
    for row in x:  # one at a time, as questions come
        near = roster.candidates(row[None])
        best.append(near[0, np.argsort(-roster.weigh(row[None], near)[0])[:10]])
    seconds = perf_counter() - began
    names = np.array(fitted.names)[np.stack(best)]
    hit = names == np.array(true)[:, None]
    return {
        "top_1": float(hit[:, 0].mean()),
        "top_10": float(hit.any(axis=1).mean()),
        "milliseconds_a_text": 1000 * seconds / len(x),
    } | {"best": [int(own[0]) for own in best]}  # type: ignore[dict-item]


def of_cosine(rows: FloatArray, codes: IntArray, asked: FloatArray, true: IntArray) -> Any:
    """Nearest mean by cosine."""
    means = author_means(rows, codes)
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    order = np.argsort(-(asked @ means.T), axis=1)[:, :10]
    hit = order == true[:, None]
    return {"top_1": float(hit[:, 0].mean()), "top_10": float(hit.any(axis=1).mean())}


def measured(fitted: FittedMany, x: FloatArray, true: list[str]) -> dict[str, Any]:
    """Accuracy, time and recall of pruning, and how long an enrolment takes."""
    exact, pruned = top(fitted, x, true, exact=True), top(fitted, x, true, exact=False)
    recall = np.mean(np.array(exact.pop("best")) == np.array(pruned.pop("best")))
    began = perf_counter()
    fitted.enrolled(x[:1], ["somebody new"], np.array([200]))
    seconds = perf_counter() - began
    return {
        "authors": len(fitted.names),
        "exact": exact,
        "pruned": pruned,
        "graph": fitted.roster.graph is not None,
        "recall_of_the_exact_best": float(recall),
        "enrolment_seconds": seconds,
        "peak_gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def main() -> None:
    """One corpus, alone and filled up."""
    given = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    given.add_argument("--name", required=True)
    given.add_argument("--vectors", type=Path, required=True)
    given.add_argument("--authors", type=Path, required=True, help="One name a line.")
    given.add_argument("--asked", type=int, default=1000)
    given.add_argument("--drawn", type=int, nargs="*", default=[])
    given.add_argument("--exact-up-to", type=int, default=module.MOST_EXACT)
    given.add_argument("--seed", type=int, default=0)
    given.add_argument("--out", type=Path, default=OUT)
    settings = given.parse_args()
    module.MOST_EXACT = settings.exact_up_to
    rows = np.load(settings.vectors).astype(np.float64)
    names, codes = np.unique(settings.authors.read_text().splitlines(), return_inverse=True)
    asked = kept_back(codes, settings.asked, settings.seed)
    rest = np.setdiff1d(np.arange(len(rows)), asked)
    began = perf_counter()
    words = np.full(len(rest), 200)
    model = ManyAuthors(random_state=settings.seed)
    fitted = model.fit_rows(rows[rest], names[codes[rest]].tolist(), words).fitted_
    record: dict[str, Any] = {
        "version": __version__,
        "texts_enrolled": len(rest),
        "asked": len(asked),
        "seconds_to_fit": perf_counter() - began,
        "one_sphere": bool(np.ptp(fitted.roster.space.spread) == 0),
        "df": fitted.roster.space.df,
        "temperature": fitted.roster.space.temperature,
        "cosine": of_cosine(rows[rest], codes[rest], rows[asked], codes[asked]),
    }
    x, true = fitted.roster.space.place(rows[asked]), names[codes[asked]].tolist()
    record["real"] = measured(fitted, x, true)
    for number in settings.drawn:
        grown = drawn(fitted, number - len(fitted.names), settings.seed)
        record[f"filled up to {number}"] = measured(grown, x, true)
    kept = json.loads(settings.out.read_text()) if settings.out.is_file() else {}
    write_text(
        settings.out, json.dumps(kept | {settings.name: record}, indent=1, sort_keys=True) + "\n"
    )
    print(settings.name, json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
