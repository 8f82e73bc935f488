r"""The packaged population: likelihood ratios of pairs by people whom the extractor never saw.

Development authors of the extractor's training corpora (five in a hundred by the split of
``whowrote.features.extractor.preparation``; it was never trained on them, and no test author is
read). An author's texts are dealt into parts that share none, joined, and cropped to 5 to 3,000
words (each length times :math:`e^u`, *u* between -0.3 and 0.3). Pairs: two parts of one author; one
of them with another author *of the same domain* at the same length, so that neither domain nor
length tells. Authors of a domain count alike, and so do domains. Draws resample domains, then
authors.

What is kept was chosen here: each curve is learnt without one domain and measured on it (Cllr in
bits, 1 is a ratio of 1 to all pairs), beside the simplest thing, a logistic curve of the cosine
that was learnt at 200 words and knows no length.

Command:  python experiments/population.py --corpus blogs=blogs_train.parquet
          --corpus hotels=hotels_train.parquet --corpus mail=mail_train.parquet
          --corpus forum=forum_train.parquet [--weights style.safetensors --size small]
Hardware: one core, about three minutes.
Expect:   Cllr on a domain not learnt from, mean of four: 0.83 with both cosines, 0.84 with that of
          the vectors alone, 1.1 with the curve of one length.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import eigh

from whowrote import __version__
from whowrote.attribution.verification import (
    POPULATIONS,
    PRETRAINED,
    VECTORS,
    Population,
    Sides,
    extractor_key,
    figures,
    read_by_extractor,
    ridge_logistic,
)
from whowrote.features.extractor.preparation import read_domain
from whowrote.features.fitted_features import FittedAdHominem, FittedStyle
from whowrote.features.reading import SECTION
from whowrote.files import sha256_of, write_text
from whowrote.metrics import AuthorPairs, cllr, matched_pairs

OUT = Path(__file__).parent / "results" / "population.json"
DEVELOPMENT = 1
LENGTHS = (5, 10, 20, 35, 50, 100, 200, 400, 800, 1600, 3000)
LONG_PART, MOST_PARTS = 3000, 4
JITTER, PAIRS, DRAWS, PENALTY = 0.3, 60, 100, 1e-2
LEAST_PEOPLE = 100
"""So many people must have shown two sides of a length for it to count as learnt."""


@dataclass(frozen=True)
class Drawn:
    """Crops of texts: whose they are, of which part, and of about which length."""

    texts: list[str]
    author: NDArray[np.intp]
    part: NDArray[np.intp]
    length: NDArray[np.intp]


def crop(text: str, words: int, random: np.random.Generator) -> str:
    """So many words from anywhere in a text, with its white space."""
    spans = [match.span() for match in re.finditer(r"\S+", text)]
    low = int(random.integers(0, len(spans) - words + 1))
    return text[spans[low][0] : spans[low + words - 1][1]]


def draw(
    authors: Sequence[Sequence[str]],
    random: np.random.Generator,
    *,
    jitter: float = JITTER,
    most: int = MOST_PARTS,
) -> Drawn:
    """Crops of every length that each part of each author has the words for."""
    found: list[tuple[str, int, int, int]] = []
    for code, texts in enumerate(authors):
        total = sum(len(text.split()) for text in texts)
        parts = min(int(np.clip(total // LONG_PART, 2, most)), len(texts))
        order = random.permutation(len(texts))
        for part in range(parts):
            joined = "\n\n".join(texts[row] for row in order[part::parts])
            have = len(joined.split())
            for length in LENGTHS:
                words = max(3, round(length * np.exp(random.uniform(-jitter, jitter))))
                if words <= have:
                    found.append((crop(joined, words, random), code, part, length))
    texts_, *numbers = zip(*found, strict=True)
    return Drawn(list(texts_), *(np.array(each, dtype=np.intp) for each in numbers))


def development(name: str, path: Path, most: int, random: np.random.Generator) -> list[list[str]]:
    """The texts of at most so many development authors of a corpus, no text twice."""
    domain = read_domain(name, path)
    by_author: dict[int, dict[str, None]] = defaultdict(dict)
    for text, author in zip(domain.texts, domain.authors.tolist(), strict=True):
        if domain.parts[author] == DEVELOPMENT:
            by_author[author][text] = None
    several = [list(texts) for texts in by_author.values() if len(texts) > 1]
    chosen = np.sort(random.permutation(len(several))[:most])
    return [several[row] for row in chosen]


# -- one domain, read ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Domain:
    """Pairs of one domain: who, how alike and how long."""

    drawn: Drawn
    sides: Sides
    pairs: AuthorPairs
    similarities: NDArray[np.float64]

    @property
    def words(self) -> NDArray[np.intp]:
        """(pairs, 2)."""
        return self.sides.words[self.pairs.rows]

    @property
    def people(self) -> int:
        """Authors with a pair."""
        return len(np.unique(self.pairs.owner))


def read(
    extractor: FittedAdHominem, authors: Sequence[Sequence[str]], random: np.random.Generator
) -> Domain:
    """Draw crops and pairs, and read them."""
    drawn = draw(authors, random)
    sides = read_by_extractor(extractor, drawn.texts)
    pairs = matched_pairs(drawn.author, drawn.part, drawn.length, PAIRS, random)
    return Domain(drawn, sides, pairs, sides.similarities(pairs.rows))


def reach(domains: Sequence[Domain]) -> tuple[tuple[float, int], ...]:
    """How many people have two parts with a side of each length or longer."""
    found = []
    for length in LENGTHS:
        people = 0
        for own in domains:
            long = own.drawn.length >= length
            each = np.unique(np.stack([own.drawn.author[long], own.drawn.part[long]]), axis=1)[0]
            people += int((np.bincount(each) > 1).sum()) if len(each) else 0
        if people >= LEAST_PEOPLE:
            found.append((float(length), people))
    return tuple(found)


# -- curves --------------------------------------------------------------------------------------

Columns = Callable[[Domain], NDArray[np.float64]]


def learn(
    domains: Sequence[Domain], columns: Columns, times: Sequence[NDArray[np.float64]] | None = None
) -> NDArray[np.float64]:
    """Weights of a curve; domains count alike, and so do the authors of each."""
    X = np.concatenate([columns(own) for own in domains])
    same = np.concatenate([own.pairs.same for own in domains])
    weights = []
    for number, own in enumerate(domains):
        each = np.ones(own.pairs.owner.max() + 1) if times is None else times[number]
        weight = own.pairs.weights(each)
        weights.append(weight / weight.sum() * len(X) / len(domains))
    return ridge_logistic(X, same, np.concatenate(weights), np.full(X.shape[1], PENALTY))


def sampled(
    domains: Sequence[Domain], random: np.random.Generator
) -> tuple[list[Domain], list[NDArray[np.float64]]]:
    """As many domains as there are, drawn with replacement, and how often each author counts."""
    chosen = [domains[row] for row in random.integers(0, len(domains), len(domains))]
    times = []
    for own in chosen:
        codes = np.unique(own.pairs.owner)
        drawn = random.choice(codes, len(codes))
        times.append(np.bincount(drawn, minlength=codes.max() + 1).astype(np.float64))
    return chosen, times


def vectors_alone(own: Domain) -> NDArray[np.float64]:
    """The cosine of the vectors, with lengths."""
    return figures(own.similarities[:, :1], own.words)


def both_cosines(own: Domain) -> NDArray[np.float64]:
    """Both cosines, with lengths: what is packaged."""
    return figures(own.similarities, own.words)


def without_length(own: Domain) -> NDArray[np.float64]:
    """The simplest thing: the cosine of the vectors and a constant."""
    return np.column_stack([own.similarities[:, 0], np.ones(len(own.similarities))])


def at_one_length(own: Domain, length: int = 200) -> Domain:
    """The pairs with both sides of about one length."""
    kept = np.flatnonzero((own.drawn.length[own.pairs.rows] == length).all(axis=1))
    pairs = AuthorPairs(own.pairs.rows[kept], own.pairs.same[kept], own.pairs.owner[kept])
    return Domain(own.drawn, own.sides, pairs, own.similarities[kept])


def two_covariance(domains: Sequence[Domain], shrunk: float = 0.1) -> Columns:
    r"""Both cosines and the score of :math:`y \sim N(0, B)`, :math:`x \sim N(y, W (.3 + 200 / n))`.

    *B* and *W* by moments from sides of 100 to 400 words about the mean of their domain; *W* with a
    tenth of the sphere of its trace.
    """
    between, within = [], []
    for own in domains:
        vectors = np.asarray(own.sides.rows[VECTORS], dtype=np.float64)
        for length in (100, 200, 400):
            rows = np.flatnonzero(own.drawn.length == length)
            code = np.unique(own.drawn.author[rows], return_inverse=True)[1]
            count = np.bincount(code)
            if (count > 1).sum() < 40:
                continue
            share = sparse.csr_matrix((1 / count[code], (code, np.arange(len(code)))))
            means = share @ (vectors[rows] - vectors[rows].mean(axis=0))
            rest = vectors[rows] - vectors[rows].mean(axis=0) - means[code]
            spread = rest.T @ rest / (count - 1).sum()
            within.append(spread * length / 200)
            between.append(np.cov(means[count > 1].T) - spread * np.mean(1 / count[count > 1]))
    W, B = np.mean(within, axis=0), np.mean(between, axis=0)
    W = (1 - shrunk) * W + shrunk * np.trace(W) / len(W) * np.eye(len(W))
    values, maps = eigh(B, W)
    kept = values > 1e-3

    def columns(own: Domain) -> NDArray[np.float64]:
        centred = np.asarray(own.sides.rows[VECTORS], dtype=np.float64)
        centred = (centred - centred.mean(axis=0)) @ maps[:, kept]
        x, y = centred[own.pairs.rows[:, 0]], centred[own.pairs.rows[:, 1]]
        noise = 0.3 + 200.0 / own.words
        b, u, v = values[kept], values[kept] + noise[:, :1], values[kept] + noise[:, 1:]
        left = u * v - b * b
        score = np.log(u * v / left) + x * x / u + y * y / v
        score -= (v * x * x + u * y * y - 2 * b * x * y) / left
        tamed = np.tanh(score.sum(axis=1) / 80)
        return figures(np.column_stack([own.similarities, tamed]), own.words)

    return columns


# -- what is recorded ----------------------------------------------------------------------------


def by_length(own: Domain, log_lr: NDArray[np.float64]) -> dict[str, dict[str, float]]:
    """Cllr and the share of different-author pairs above 1, all and by about equal lengths."""
    lengths = own.drawn.length[own.pairs.rows]
    found = {}
    for name, kept in {
        "all": np.ones(len(lengths), dtype=bool),
        **{str(one): (lengths == one).all(axis=1) for one in LENGTHS},
    }.items():
        same = own.pairs.same[kept]
        if min(same.sum(), (~same).sum()) >= 20:
            above = float((log_lr[kept][~same] > 0).mean())
            found[name] = {"cllr": round(cllr(log_lr[kept], same), 4), "above": round(above, 4)}
    return found


def without_each(domains: Mapping[str, Domain]) -> dict[str, dict[str, Any]]:
    """Every curve, learnt without a domain, on that domain."""
    found: dict[str, dict[str, Any]] = defaultdict(dict)
    for name, own in domains.items():
        others = [other for key, other in domains.items() if key != name]
        curves: dict[str, tuple[Columns, Sequence[Domain]]] = {
            "one length": (without_length, [at_one_length(other) for other in others]),
            "vectors": (vectors_alone, others),
            "vectors and words": (both_cosines, others),
            "with two-covariance": (two_covariance(others), others),
        }
        for curve, (columns, material) in curves.items():
            weights = learn([one for one in material if len(one.pairs.same)], columns)
            found[curve][name] = by_length(own, columns(own) @ weights)
    for each in found.values():
        each["mean"] = round(float(np.mean([one["all"]["cllr"] for one in each.values()])), 4)
    return dict(found)


def population(domains: Mapping[str, Domain], random: np.random.Generator) -> Population:
    """The curve of all domains, and those of samples of them."""
    every = list(domains.values())
    draws = []
    for _ in range(DRAWS):
        chosen, times = sampled(every, random)
        draws.append(learn(chosen, both_cosines, times))
    return Population(
        {name: own.people for name, own in domains.items()},
        reach(every),
        learn(every, both_cosines),
        np.array(draws),
    )


def package(extractor: FittedAdHominem, found: Population, place: Path) -> None:
    """Write it among the packaged ones, in the place of an older one for this extractor."""
    key = extractor_key(extractor)
    kept = json.loads(place.read_text(encoding="utf-8")) if place.is_file() else []
    kept = [one for one in kept if one["extractor"] != key]
    kept.append({"extractor": key, **found.to_dict()})
    lines = ",\n".join(json.dumps(one) for one in sorted(kept, key=lambda one: one["extractor"]))
    write_text(place, f"[\n{lines}\n]\n")


def main() -> None:
    """Run, package and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", action="append", required=True, help="name=path")
    parser.add_argument("--weights", type=Path, default=PRETRAINED / "adhominem.safetensors")
    parser.add_argument("--size", choices=("small", "large"), help="of a two-tower extractor")
    parser.add_argument("--most", type=int, default=600, help="authors of a domain")
    parser.add_argument("--package", type=Path, default=POPULATIONS)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    extractor = FittedAdHominem(options.weights, SECTION)
    if options.size:
        extractor = FittedStyle(options.weights, SECTION, size=options.size)
    random, domains, hashes = np.random.default_rng(0), {}, {}
    for name, path in (value.split("=", 1) for value in options.corpus):
        authors = development(name, Path(path), options.most, random)
        domains[name], hashes[name] = read(extractor, authors, random), sha256_of(Path(path))
        print(f"{name}: {len(authors)} authors, {len(domains[name].drawn.texts)} sides", flush=True)
    found = population(domains, random)
    package(extractor, found, options.package)
    record = {
        "version": __version__,
        "extractor": extractor_key(extractor),
        "corpora": hashes,
        "people": dict(found.people),
        "reach": [list(one) for one in found.reach],
        "left_out": without_each(domains),
    }
    write_text(options.out, json.dumps(record, indent=1) + "\n")
    for curve, each in record["left_out"].items():
        print(f"{curve:20} Cllr on a domain not learnt from {each['mean']:.3f}")


if __name__ == "__main__":
    main()
