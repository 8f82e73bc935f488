"""What StyleExtractor must show, in one run beside AdHominem: on authors never trained on.

Attribution: a linear SVM (C = 0.1) on vectors of Blog-30, 5 stratified folds. Few texts: a linear
SVM (C = 1) on n-grams alone and on [n-grams, vector] at two weights of the vector, 3 to 20 texts of
each of the 30 bloggers, 20 others of each asked, on drawn sets that are the same for all.
Verification: AUC of the cosine over 5,000 pairs of the test authors of every corpus, of all authors
of the probe, and of the test parts of PAN's verification tasks, where the known texts of a problem
have one mean vector; the cosine of character 4-grams stands beside it as the simplest thing that
could do it. Test authors and parts are only read. Sizes are measured as shipped: in 8 bits.

Command:  python experiments/extractor/measure.py style.safetensors --texts scratch/extractor/texts
          --out experiments/results/extractor_style.json
          (--texts: the folder of pack.py unpack; --thin 8 --problems 8 for a quick look: every
          8th text of Blog-30 and every 8th problem, which the record says)
Hardware: one H200 with 16 cores, about three minutes; one core, about 40 minutes.
Expect:   errors and AUCs of docs/model_card.md; AdHominem 21.8 % on Blog-30.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from evaluate import Texts, levs_of, read_material, score
from linear_svm import cross_validated_errors
from numpy.typing import NDArray
from scipy import sparse
from sklearn.svm import LinearSVC

from whowrote import __version__
from whowrote.features import NGrams
from whowrote.features.adhominem import PRETRAINED
from whowrote.features.reading import SECTION, read_extractor
from whowrote.files import sha256_of, write_text
from whowrote.metrics import auc

DOMAINS = ("blogs", "hotels", "mail", "forum")
SIZES, DRAWS, ASKED = (3, 5, 10, 20), 5, 20
WEIGHTS = (0.5, 0.7)
"""Of vectors beside n-grams: the default of Hybrid, and what hybrid_weight.py found for large."""
TARGETS = {
    "blog30 error": {"large": 0.15, "small": 0.20},
    "auc": {"blogs": 0.935, "hotels": 0.96, "mail": 0.87, "forum": 0.90, "amazon": 0.935},
    "pan": {"pan15-mixed": 0.86, "pan14-novels": 0.78, "pan14-essays": 0.66},
}
WINNERS = {"pan15-mixed": 0.81, "pan14-novels": 0.73, "pan14-essays": 0.72}
"""About, as published by the organisers."""


@dataclass(frozen=True)
class Problem:
    """A verification problem: texts by one author, one more, and whether it is by the same."""

    task: str
    known: Sequence[str]
    unknown: str
    same: bool


def read_problems(path: Path) -> list[Problem]:
    """The test parts of PAN's tasks."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [
        Problem(row["set"], row["known"], row["unknown"], row["same"])
        for row in rows
        if row["part"].startswith("test")
    ]


def unit(vectors: NDArray[Any]) -> NDArray[np.float64]:
    """Rows of length one."""
    rows = np.asarray(vectors, dtype=np.float64)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def pan_scores(problems: Sequence[Problem], vectors: NDArray[Any]) -> NDArray[np.float64]:
    """Cosine of the mean of the known vectors and the unknown one; they lie in this order."""
    counts = np.array([len(problem.known) for problem in problems])
    ends = np.cumsum(counts + 1)
    rows = unit(vectors)
    known = [rows[e - n - 1 : e - 1].mean(0) for e, n in zip(ends, counts, strict=True)]
    found: NDArray[np.float64] = (unit(np.stack(known)) * rows[ends - 1]).sum(1)
    return found


def pan_aucs(problems: Sequence[Problem], scores: NDArray[np.float64]) -> dict[str, float]:
    """AUC of each task."""
    tasks = np.array([problem.task for problem in problems])
    same = np.array([problem.same for problem in problems])
    return {str(t): auc(scores[tasks == t], same[tasks == t]) for t in np.unique(tasks)}


def four_gram_scores(problems: Sequence[Problem]) -> NDArray[np.float64]:
    """The same by character 4-grams: what needs no network."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = [text for problem in problems for text in (*problem.known, problem.unknown)]
    model = TfidfVectorizer(analyzer="char", ngram_range=(4, 4), use_idf=False, sublinear_tf=True)
    rows = sparse.csr_matrix(model.fit_transform(texts))
    found, low = [], 0
    for problem in problems:
        high = low + len(problem.known)
        mean = np.asarray(rows[low:high].mean(axis=0)).ravel()
        own = rows[high].toarray().ravel()
        found.append(mean @ own / np.linalg.norm(mean) / np.linalg.norm(own))
        low = high + 1
    return np.array(found)


def draw(authors: NDArray[Any], size: int, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Rows to learn from, so many of each author, and rows to be asked."""
    random = np.random.default_rng([seed, size])
    learnt, asked = [], []
    for author in np.unique(authors):
        own = random.permutation(np.flatnonzero(authors == author))
        learnt.append(own[:size])
        asked.append(own[size : size + ASKED])
    return np.concatenate(learnt), np.concatenate(asked)


def hybrid(rows: Any, vectors: NDArray[Any], learnt: int, weight: float) -> sparse.csr_matrix:
    """[w z / sqrt L, n-grams], centre and spread of z from the first ``learnt`` rows."""
    own = vectors[:learnt]
    scaled = (vectors - own.mean(0)) / np.where(own.std(0) > 0, own.std(0), 1.0)
    dense = sparse.csr_matrix(weight * scaled / np.sqrt(vectors.shape[1]))
    return sparse.csr_matrix(sparse.hstack([dense, rows], format="csr"))


def few_texts(
    texts: Texts,
    vectors: Mapping[str, NDArray[Any]],
    sizes: Sequence[int] = SIZES,
    weights: Sequence[float] = WEIGHTS,
) -> dict[str, dict[str, list[float]]]:
    """The errors of every draw, by the number of texts an author, by features and weight."""
    found: dict[str, dict[str, list[float]]] = {}
    for size in sizes:
        errors = found.setdefault(str(size), {})
        for seed in range(DRAWS):
            learnt, asked = draw(texts.authors, size, seed)
            both = np.concatenate([learnt, asked])
            rows = (
                NGrams()
                .fit([texts.texts[i] for i in learnt])
                .transform([texts.texts[i] for i in both])
            )
            matrices = {"n-grams": rows} | {
                f"{name}, {weight:g}": hybrid(rows, own[both], len(learnt), weight)
                for name, own in vectors.items()
                for weight in weights
            }
            for name, X in matrices.items():
                model = LinearSVC(C=1.0, random_state=0)
                model.fit(X[: len(learnt)], texts.authors[learnt])
                wrong = model.predict(X[len(learnt) :]) != texts.authors[asked]
                errors.setdefault(name, []).append(float(wrong.mean()))
        print(size, {name: round(float(np.mean(e)), 3) for name, e in errors.items()}, flush=True)
    return found


def thinned(texts: Texts, every: int) -> Texts:
    """Every so many-th text of a set that is in order of its authors."""
    return Texts(texts.texts[::every], texts.authors[::every])


def all_vectors(
    weights: Path, texts: Sequence[str], device: str
) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Vectors by AdHominem and both sizes; the small one's are the first columns of the large."""
    yield "AdHominem", levs_of(read_extractor(PRETRAINED, device), texts, device, SECTION)
    extractor = read_extractor(weights, device)
    large = levs_of(extractor, texts, device, SECTION)
    yield "small", large[:, : extractor.network.architecture.lev_dim]
    yield "large", large


def measure(
    weights: Path,
    texts: Path,
    device: str,
    every: int = 1,
    every_problem: int = 1,
    keep: Callable[[Mapping[str, Any]], None] = lambda record: None,
) -> dict[str, Any]:
    """Everything, for today's extractor and both sizes; ``keep`` gets what there is so far."""
    corpora = {name: texts / f"{name}.jsonl" for name in DOMAINS}
    material = read_material(texts / "blog30.jsonl", corpora, {"amazon": texts / "amazon.jsonl"})
    problems = read_problems(texts / "pan.jsonl")[::every_problem]
    sets = {name: material.domains[name, 2] for name in DOMAINS} | dict(material.probes)
    assert material.blog30 is not None
    sets["blog30"] = thinned(material.blog30, every)
    known = [text for p in problems for text in (*p.known, p.unknown)]
    everything = [text for own in sets.values() for text in own.texts] + known
    cuts = np.cumsum([len(own.texts) for own in sets.values()])
    record: dict[str, Any] = {"version": __version__, "weights_sha256": sha256_of(weights)}
    record |= {"blog30_every": every, "blog30_texts": len(sets["blog30"].texts)}
    record |= {"pan_problems": len(problems), "device": device}
    record |= {"targets": TARGETS, "pan_winners": WINNERS, "extractors": {}}
    record["pan_four_grams"] = pan_aucs(problems, four_gram_scores(problems))
    blog30: dict[str, NDArray[Any]] = {}
    for name, vectors in all_vectors(weights, everything, device):
        *parts, of_problems = np.split(vectors, cuts)
        own = dict(zip(sets, parts, strict=True))
        blog30[name] = own.pop("blog30")
        scored = {n: score(v, sets[n].authors) for n, v in own.items()}
        record["extractors"][name] = {
            "dimensions": vectors.shape[1],
            "blog30_folds": cross_validated_errors(blog30[name], sets["blog30"].authors),
            "auc": {n: auc(s.scores, s.pairs.same) for n, s in scored.items()},
            "pairs": {n: len(s.pairs.same) for n, s in scored.items()},
            "pan": pan_aucs(problems, pan_scores(problems, of_problems)),
        }
        print(name, json.dumps(record["extractors"][name]), flush=True)
        keep(record)
    record["few_texts"] = few_texts(sets["blog30"], blog30)
    keep(record)
    return record


def again_few_texts(record: Mapping[str, Any], weights: Path, texts: Path) -> dict[str, Any]:
    """A record with its part on few texts measured anew, on the texts that it names."""
    if record["weights_sha256"] != sha256_of(weights):
        raise SystemExit(f"the record is of other weights than '{weights}': leave --few out")
    blog30 = read_material(texts / "blog30.jsonl", {}, {}).blog30
    assert blog30 is not None
    some = thinned(blog30, record["blog30_every"])
    vectors = dict(all_vectors(weights, some.texts, record["device"]))
    return {**record, "few_texts": few_texts(some, vectors)}


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weights", type=Path)
    parser.add_argument("--texts", type=Path, default=Path("scratch/extractor/texts"))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--thin", type=int, default=1, help="every so many-th text of Blog-30")
    parser.add_argument("--problems", type=int, default=1, help="every so many-th problem of PAN")
    parser.add_argument("--few", action="store_true", help="only few texts, in the record of --out")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()

    def keep(record: Mapping[str, Any]) -> None:
        if given.out:
            write_text(given.out, json.dumps(record, indent=1) + "\n")

    if given.few:
        keep(again_few_texts(json.loads(given.out.read_text()), given.weights, given.texts))
    else:
        measure(given.weights, given.texts, given.device, given.thin, given.problems, keep)


if __name__ == "__main__":
    main()
