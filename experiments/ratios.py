r"""Likelihood ratios of pairs by strangers: how much they tell, and whether they can be believed.

Corpora that neither the extractor nor its packaged population has learnt from. Reference authors
are drawn, and their texts are learnt from as those of a model's authors are; every pair is by other
people. Posts are
joined and cropped to 5 to 3,000 words a side; "mixed" are sides of unequal lengths. Cllr in bits (1
is a ratio of 1 to all pairs), and the share of pairs by two people with a ratio above 1. Beside it
the simplest thing, a logistic curve of the cosine that was learnt from the same reference authors'
single texts, and features without a packaged population (n-grams, the authors' own curve). Where
the package ``lir`` is installed its Cllr of the same ratios stands beside.

No number is chosen here, but these corpora are not untouched: that ratios need a centre, that it
must come from joined texts and that passages at equal distances are a little better than the first
ones was seen on them.

Command:  python experiments/ratios.py --corpus blog30=blog30.parquet
          --corpus amazon=amazon_music.parquet --corpus ebg=ebg.parquet --corpus pan11=pan11.parquet
Hardware: one core, about fifteen minutes (six with --cache, where the sides were read before).
Expect:   Cllr, mean of the four corpora with 20 reference authors: 0.61 at 200 words, 0.47
          at 400, 0.34 at 800 (0.69, 0.63, 0.69 for the curve of one length); the worst of every
          corpus, number of references and length is 1.0004.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from population import LENGTHS, Drawn, draw, kept_sides

from whowrote import __version__
from whowrote.attribution.population import (
    Population,
    Sides,
)
from whowrote.attribution.verification import (
    Centre,
    OwnCurve,
    fit_verifier,
    grounded,
    packaged_extractor,
    read_by_features,
    ridge_logistic,
)
from whowrote.corpus.texts import load
from whowrote.features import NGrams
from whowrote.files import sha256_of, write_text
from whowrote.metrics import cllr, matched_pairs

OUT = Path(__file__).parent / "results" / "ratios.json"
REFERENCES, AT, TRIALS = (2, 5, 20, 60), 20, 3
"""Numbers of reference authors, the one that is summed up, and draws of each."""
SHOWN = tuple(length for length in LENGTHS if length not in (10, 35, 1600))
SIMPLE_WORDS = 200
"""Of the sides of the simple curve."""
TEXTS_EACH, PAIRS_EACH, MOST_AUTHORS, LEAST_WORDS, MOST_PARTS = 20, 12, 120, 400, 6
LEAST_PAIRS, ROUNDS = 20, 3
"""Pairs of a cell; how often an author's sides are paired, each time with other people's."""
MIXED = "mixed"
NO_MODEL, OURS, SIMPLE, OWN = "no model", "whowrote", "one-length curve", "n-grams, own curve"


@dataclass(frozen=True)
class Asked:
    """Pairs of one corpus: who wrote either side, whether one did, and what is known of them."""

    authors: list[list[str]]
    drawn: Drawn
    rows: NDArray[np.intp]
    same: NDArray[np.bool_]
    cell: NDArray[np.str_]
    """The words of both sides, or "mixed"."""
    sides: Sides

    def strangers(self, references: NDArray[np.intp]) -> NDArray[np.intp]:
        """The pairs in which no reference author is."""
        return np.flatnonzero(~np.isin(self.drawn.author[self.rows], references).any(axis=1))


def read_authors(path: Path, random: np.random.Generator) -> list[list[str]]:
    """Authors with at least two texts and so many words; no text twice, none that was disguised."""
    by_author: dict[str, dict[str, None]] = defaultdict(dict)
    for document in load(path, id_column=""):  # names of files come again in parts of pan11
        if document.author is not None and document.metadata.get("kind", "text") == "text":
            by_author[document.author][document.text] = None
    kept = [list(texts) for texts in by_author.values() if len(texts) > 1]
    kept = [own for own in kept if sum(len(text.split()) for text in own) >= LEAST_WORDS]
    chosen = np.sort(random.permutation(len(kept))[:MOST_AUTHORS])
    return [kept[row] for row in chosen]


def ask(path: Path, random: np.random.Generator, cache: Path | None = None) -> Asked:
    """Draw sides and pairs of a corpus and read them."""
    authors = read_authors(path, random)
    drawn = draw(authors, np.random.default_rng(0), jitter=0.0, most=MOST_PARTS)
    rows, same, cells = [], [], []
    for length in (*SHOWN, MIXED) * ROUNDS:
        kept = np.arange(len(drawn.texts))
        if length != MIXED:
            kept = np.flatnonzero(drawn.length == length)
        found = matched_pairs(
            drawn.author[kept], drawn.part[kept], drawn.length[kept], PAIRS_EACH, random
        )
        own = kept[found.rows]
        unequal = drawn.length[own[:, 0]] != drawn.length[own[:, 1]]
        good = unequal if length == MIXED else np.ones(len(own), dtype=bool)
        rows.append(own[good])
        same.append(found.same[good])
        cells.append(np.full(int(good.sum()), str(length)))
    pairs = np.concatenate(rows)
    sides = kept_sides(packaged_extractor(), drawn.texts, cache)
    return Asked(authors, drawn, pairs, np.concatenate(same), np.concatenate(cells), sides)


# -- three ways to a ratio -----------------------------------------------------------------------


def reference_texts(
    asked: Asked, references: NDArray[np.intp], random: np.random.Generator
) -> tuple[list[str], NDArray[np.intp]]:
    """At most so many texts of each reference author, and whose they are."""
    texts, codes = [], []
    for code, author in enumerate(references.tolist()):
        own = asked.authors[author]
        chosen = random.permutation(len(own))[:TEXTS_EACH]
        texts += [own[row] for row in chosen]
        codes += [code] * len(chosen)
    return texts, np.array(codes, dtype=np.intp)


def packaged_ratios(asked: Asked, rows: NDArray[np.intp], centre: Centre | None) -> Any:
    """By the packaged population; with what the reference authors' own texts add."""
    population = Population.of(packaged_extractor())
    assert population is not None  # the package brings it
    sides, weights = asked.sides, None
    if centre is not None:
        sides, weights = centre.applied(sides), centre.weights_of(population)
    pairs = asked.rows[rows]
    words = sides.words[pairs]
    log_lr = population.log_lr(sides, pairs, 0 if centre is None else centre.authors, weights)
    return grounded(log_lr, population.most(words), words)[:, 0]


def simple_ratios(
    asked: Asked, rows: NDArray[np.intp], references: NDArray[np.intp], number: int
) -> Any:
    """By a logistic curve of the cosine, learnt from sides of 200 words by the references."""
    drawn, random = asked.drawn, np.random.default_rng([number, 3])
    own = np.flatnonzero(np.isin(drawn.author, references) & (drawn.length == SIMPLE_WORDS))
    pairs = matched_pairs(drawn.author[own], drawn.part[own], drawn.length[own], PAIRS_EACH, random)
    if not len(pairs.same):
        return np.zeros(len(rows))
    alike = asked.sides.similarities(own[pairs.rows])[:, :1]
    X = np.column_stack([alike, np.ones(len(alike))])
    curve = ridge_logistic(X, pairs.same, np.ones(len(X)), np.full(2, 1e-2))
    return asked.sides.similarities(asked.rows[rows])[:, 0] * curve[0] + curve[1]


def own_ratios(
    asked: Asked, rows: NDArray[np.intp], texts: Sequence[str], codes: NDArray[np.intp]
) -> Any:
    """By n-grams and the reference authors' own curve."""
    features = NGrams().fit(texts).fitted()
    curve = fit_verifier(features, texts, codes)
    if not isinstance(curve, OwnCurve):
        return np.zeros(len(rows))
    used, place = np.unique(asked.rows[rows], return_inverse=True)
    sides = read_by_features(features, [asked.drawn.texts[row] for row in used])
    pairs = place.reshape(-1, 2)
    words = sides.words[pairs]
    log_lr = curve.log_lr(sides.similarities(pairs), words)
    return grounded(log_lr, curve.most(words), words)[:, 0]


# -- trials --------------------------------------------------------------------------------------


def trial(asked: Asked, n: int, number: int) -> dict[str, dict[str, dict[str, float]]] | None:
    """Every method with ``n`` reference authors; None where too few people are left."""
    random = np.random.default_rng([n, number])
    if len(asked.authors) < n + 10:
        return None
    references = random.permutation(len(asked.authors))[:n]
    rows = asked.strangers(references)
    texts, codes = reference_texts(asked, references, random)
    centre = fit_verifier(packaged_extractor(), texts, codes)
    assert isinstance(centre, Centre)  # the extractor's population is packaged
    found = {
        NO_MODEL: packaged_ratios(asked, rows, None),
        OURS: packaged_ratios(asked, rows, centre),
        SIMPLE: simple_ratios(asked, rows, references, number),
    }
    if number == 0 and n == AT:
        found[OWN] = own_ratios(asked, rows, texts, codes)
    return {name: by_cell(asked, rows, log_lr) for name, log_lr in found.items()}


def by_cell(asked: Asked, rows: NDArray[np.intp], log_lr: Any) -> dict[str, dict[str, float]]:
    """Cllr, the share of different-author pairs above 1, and how many pairs there are."""
    found = {}
    for cell in (*map(str, SHOWN), MIXED):
        kept = asked.cell[rows] == cell
        same = asked.same[rows][kept]
        if min(same.sum(), (~same).sum()) >= LEAST_PAIRS:
            own = log_lr[kept]
            found[cell] = {
                "cllr": cllr(own, same),
                "above": float((own[~same] > 0).mean()),
                "pairs": float(len(same)),
            }
            agrees = lir_cllr(own, same)
            if agrees is not None:
                found[cell]["lir"] = agrees
    return found


def lir_cllr(log_lr: NDArray[np.float64], same: NDArray[np.bool_]) -> float | None:
    """The Cllr of the package ``lir``, if it is installed."""
    try:
        from lir.data.models import LLRData
        from lir.metrics import cllr as theirs
    except ImportError:
        return None
    data = LLRData(features=log_lr[:, None] / np.log(10), labels=same.astype(int))
    return float(theirs(data))


def mean_of(trials: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, dict[str, float]]]:
    """Means over trials, cell by cell."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for method in (NO_MODEL, OURS, SIMPLE, OWN):
        found[method] = {}
        for cell in (*map(str, SHOWN), MIXED):
            own = [one[method][cell] for one in trials if cell in one.get(method, {})]
            if own:
                found[method][cell] = {
                    name: round(float(np.mean([one[name] for one in own])), 4) for name in own[0]
                }
    return found


def summary(record: Mapping[str, Any]) -> dict[str, Any]:
    """Means over corpora with 20 reference authors, and the worst combination of each method."""
    worst: dict[str, Any] = {}
    for method in (NO_MODEL, OURS, SIMPLE, OWN):
        every = [
            (figures["cllr"], corpus, int(n), cell)
            for corpus, by_n in record["corpora"].items()
            for n, methods in by_n["references"].items()
            for cell, figures in methods.get(method, {}).items()
        ]
        worst[method] = dict(
            zip(("cllr", "corpus", "references", "words"), max(every), strict=True)
        )
    at_20 = [own["references"][str(AT)] for own in record["corpora"].values()]
    means = {
        method: {
            cell: {
                name: round(float(np.mean([own[method][cell][name] for own in at_20])), 4)
                for name in ("cllr", "above")
            }
            for cell in (*map(str, SHOWN), MIXED)
            if all(cell in own.get(method, {}) for own in at_20)
        }
        for method in (NO_MODEL, OURS, SIMPLE, OWN)
    }
    return {"worst": worst, "means_at_20": means}


def main() -> None:
    """Run and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", action="append", required=True, help="name=path")
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--cache", type=Path, help="a folder that keeps vectors between runs")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    record: dict[str, Any] = {"version": __version__, "trials": options.trials, "corpora": {}}
    for name, path in (value.split("=", 1) for value in options.corpus):
        asked = ask(Path(path), np.random.default_rng(0), options.cache)
        own: dict[str, Any] = {"sha256": sha256_of(Path(path)), "authors": len(asked.authors)}
        own["references"] = {}
        for n in REFERENCES:
            trials = [trial(asked, n, number) for number in range(options.trials)]
            held = [one for one in trials if one is not None]
            if held:
                own["references"][str(n)] = mean_of(held)
                print(name, n, _line(own["references"][str(n)][OURS]), flush=True)
        record["corpora"][name] = own
    record["summary"] = summary(record)
    write_text(options.out, json.dumps(record) + "\n")
    for method, means in record["summary"]["means_at_20"].items():
        print(f"{method:20}", _line(means))
    print("worst:", record["summary"]["worst"])


def _line(cells: Mapping[str, Mapping[str, float]]) -> str:
    return " ".join(f"{cell}:{one['cllr']:.2f}/{one['above']:.2f}" for cell, one in cells.items())


if __name__ == "__main__":
    main()
