r"""Strangers where few people are enrolled: simulated cases of people whom the extractor never saw.

Development authors of the extractor's training corpora (it was never trained on them, and no test
author is read). A case: two to five authors of one domain with 2 to 12 texts each, more texts of
theirs, and texts of up to 25 others of the domain. Kept is how near each text comes to the nearest
author (``whowrote.attribution.profiles``), and by a logistic regression over all cases, in which
cases and both sides count alike, what of that is owed to the words of the text and to the numbers
of texts and authors (``whowrote.attribution.few_people``).

Each domain is asked by the curve of the others: the share of strangers' texts below 5 %, which
should be 5 %, and of own texts. The curve of all goes into ``populations.json``.

Command:  python experiments/few_people.py --corpus blogs=blogs_train.parquet
          --corpus hotels=hotels_train.parquet --corpus mail=mail_train.parquet
          --corpus forum=forum_train.parquet [--adhominem] [--cache FOLDER]
Hardware: one core, about three minutes (one with the vectors in FOLDER).
Expect:   strangers' texts at 5 %, domain left out: 2.5 to 7.4 %.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize

from whowrote import __version__
from whowrote.attribution.few_people import FewPeople, columns
from whowrote.attribution.population import (
    POPULATIONS,
    PRETRAINED,
    extractor_key,
)
from whowrote.attribution.profiles import Profiles
from whowrote.features.extractor.preparation import read_domain
from whowrote.features.fitted_features import FittedAdHominem, FittedStyle
from whowrote.features.reading import SECTION
from whowrote.files import write_text

OUT = Path(__file__).parent / "results" / "few_people.json"
DEVELOPMENT, MOST_TEXTS, LEAST_WORDS = 1, 1600, 20
AUTHORS, TEXTS, REPEATS, STRANGERS, ASKED = (2, 3, 4, 5), (2, 3, 5, 8, 12), 12, 25, 15
PENALTY, QUANTILES, RATE = 0.05, 201, 0.05
BLOCK = "style vectors"


@dataclass(frozen=True)
class Texts:
    """Vectors of texts by development authors, with their words."""

    vectors: NDArray[np.float64]
    words: NDArray[np.int64]
    author: NDArray[np.int64]


@dataclass(frozen=True)
class Case:
    """The asked texts of one simulated case."""

    domain: str
    columns: NDArray[np.float64]
    inside: NDArray[np.bool_]
    right: NDArray[np.bool_]


def read(name: str, path: Path, extractor: FittedAdHominem, cache: Path | None) -> Texts:
    """Some development authors, all their texts of some length."""
    domain = read_domain(name, path)
    kept = cache / f"{name}.npz" if cache else None
    if kept is not None and kept.is_file():
        found = np.load(kept)
        rows, vectors = found["rows"], found["v"]
    else:
        own = np.flatnonzero(domain.parts[domain.authors] == DEVELOPMENT)
        people = np.random.default_rng(0).permutation(np.unique(domain.authors[own]))
        counts = np.bincount(domain.authors[own])[people]
        chosen = people[np.cumsum(counts) <= MOST_TEXTS]
        rows = own[np.isin(domain.authors[own], chosen)]
        vectors = extractor.transform([domain.texts[row] for row in rows])
        if kept is not None:
            np.savez(kept, rows=rows, v=vectors)
    words = np.array([len(domain.texts[row].split()) for row in rows])
    long = words >= LEAST_WORDS
    author = np.unique(domain.authors[rows][long], return_inverse=True)[1]
    return Texts(vectors[long].astype(np.float64), words[long], author)


def simulate(name: str, texts: Texts, random: np.random.Generator) -> list[Case]:
    """Cases of every size that the domain has the people for."""
    rows = [np.flatnonzero(texts.author == one) for one in range(int(texts.author.max()) + 1)]
    counts, found = np.array([len(own) for own in rows]), []
    for k in AUTHORS:
        for n in TEXTS:
            several = np.flatnonzero(counts > n)
            if len(several) >= k + 10:
                found += [case(name, texts, rows, several, k, n, random) for _ in range(REPEATS)]
    return found


def case(
    name: str,
    texts: Texts,
    rows: list[NDArray[np.intp]],
    several: NDArray[np.intp],
    k: int,
    n: int,
    random: np.random.Generator,
) -> Case:
    """k authors with n texts each, other texts of theirs, and some by others of the domain."""
    people = random.permutation(several)[:k]
    dealt = [random.permutation(rows[one]) for one in people]
    learnt = np.concatenate([own[:n] for own in dealt])
    codes = np.repeat(np.arange(k), n)
    own = [own[n : n + ASKED] for own in dealt]
    others = random.permutation(np.setdiff1d(np.arange(len(rows)), people))[:STRANGERS]
    strange = np.concatenate([random.permutation(rows[one])[:6] for one in others])
    asked = np.concatenate([*own, strange])
    truth = np.concatenate([np.repeat(np.arange(k), [len(one) for one in own]), -1 + 0 * strange])
    mean, scale = texts.vectors[learnt].mean(0), texts.vectors[learnt].std(0) + 1e-9
    scale = scale * np.sqrt(len(mean))
    profiles = Profiles.learn(
        sparse.csr_matrix((texts.vectors[learnt] - mean) / scale),
        codes,
        {BLOCK: slice(0, len(mean))},
        {BLOCK: -mean / scale},
    )
    near = profiles.nearness(sparse.csr_matrix((texts.vectors[asked] - mean) / scale))[..., 0]
    shown = columns(near.max(axis=1), texts.words[asked], float(n), k)
    return Case(name, shown, truth >= 0, near.argmax(axis=1) == truth)


def learn(cases: list[Case], people: int) -> FewPeople:
    """The logistic regression, and the quantiles of strangers' scores; cases count alike."""
    X = np.concatenate([one.columns for one in cases])
    inside = np.concatenate([one.inside for one in cases])
    sign = np.where(inside, 1.0, -1.0)
    each = [np.where(c.inside, 1 / max(c.inside.sum(), 1), 1 / (~c.inside).sum()) for c in cases]
    weight = np.concatenate(each) / 2

    def loss(b: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        margin = sign * (X @ b)
        slope = X.T @ (-weight * sign / (1 + np.exp(np.clip(margin, -500, 500))))
        return float(weight @ np.logaddexp(0, -margin) + PENALTY * b @ b / 2), slope + PENALTY * b

    b = minimize(loss, np.zeros(X.shape[1]), jac=True, method="L-BFGS-B").x
    scores, shares = X[~inside] @ b, weight[~inside]
    order = np.argsort(scores)
    rank = (np.cumsum(shares[order]) - shares[order] / 2) / shares.sum()
    reference = np.interp(np.linspace(0, 1, QUANTILES), rank, scores[order])
    return FewPeople(b, reference, people)


def rates(curve: FewPeople, cases: list[Case]) -> dict[str, float]:
    """Texts below the rate: of strangers, and of enrolled authors that went to them; in %."""
    limit = np.interp(1 - RATE, np.linspace(0, 1, len(curve.reference)), curve.reference)
    over = [one.columns @ curve.weights > limit for one in cases]
    false = [o[~one.inside].mean() for o, one in zip(over, cases, strict=True)]
    own = [
        (o & one.right)[one.inside].mean()
        for o, one in zip(over, cases, strict=True)
        if one.inside.any()
    ]
    return {"strangers": round(100 * np.mean(false), 1), "own": round(100 * np.mean(own), 1)}


def main() -> None:
    """Simulate, learn, measure on domains left out, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", action="append", required=True, metavar="NAME=FILE")
    parser.add_argument("--adhominem", action="store_true", help="the extractor with one tower")
    parser.add_argument("--cache", type=Path, help="folder for vectors")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    extractor: Any = FittedStyle(PRETRAINED / "style.safetensors", SECTION, size="large")
    if given.adhominem:
        extractor = FittedAdHominem(PRETRAINED / "adhominem.safetensors", SECTION)
    random, cases, people = np.random.default_rng(given.seed), [], 0
    for name, _, path in (one.partition("=") for one in given.corpus):
        texts = read(name, Path(path), extractor, given.cache)
        people += int(texts.author.max()) + 1
        cases += simulate(name, texts, random)
    names = sorted({one.domain for one in cases})
    left_out = {
        name: rates(
            learn([one for one in cases if one.domain != name], people),
            [one for one in cases if one.domain == name],
        )
        for name in names
    }
    curve, key = learn(cases, people), extractor_key(extractor)
    packaged = json.loads(POPULATIONS.read_text(encoding="utf-8"))
    entry = next((one for one in packaged if one["extractor"] == key), None)
    if entry is None:
        packaged.append(entry := {"extractor": key})
    entry["strangers"] = curve.to_dict()
    packaged.sort(key=lambda one: str(one["extractor"]))
    lines = ",\n".join(json.dumps(one) for one in packaged)
    write_text(POPULATIONS, f"[\n{lines}\n]\n")
    record = json.loads(OUT.read_text(encoding="utf-8")) if OUT.is_file() else {}
    record["adhominem" if given.adhominem else "large"] = {
        "version": __version__,
        "cases": len(cases),
        "people": people,
        "domain_left_out_percent_at_5": left_out,
    }
    write_text(OUT, json.dumps(record, indent=1) + "\n")
    print(json.dumps(left_out, indent=1))


if __name__ == "__main__":
    main()
