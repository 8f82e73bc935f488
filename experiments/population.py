r"""The packaged population: likelihood ratios of pairs by people whom the extractor never saw.

Development authors of the extractor's training corpora (five in a hundred by the split of
``whowrote.features.extractor.preparation``; it was never trained on them, and no test author is
read). An author's texts are dealt into parts that share none, joined, and cropped to 5 to 3,000
words (each length times :math:`e^u`, *u* between -0.3 and 0.3). Pairs: two parts of one author; one
of them with another author *of the same domain* at the same length, so that neither domain nor
length tells. Authors of a domain count alike, and so do domains. Draws resample domains, then
authors.

The case is simulated. The extractor was centred on these domains while it learnt; a user's domain
is another one, and its mean lies about as far out as an author does (3.6 for novels and addresses
to Congress, 0.9 to 1.9 here; authors 1.6 and 2.0 from the mean there, 3.4 to 4.7 here). So in each
of several worlds a domain is moved by the vector of an author of another one, times 0 to 1.2, its
authors are drawn together by 0.9 to 1, and 0, 2, 5, 20 or 60 of them are the reference authors that
find its centre again; the pairs are of the others.

What is kept was chosen here: each curve is learnt without one domain and measured on worlds of it
(Cllr in bits, 1 is a ratio of 1 to all pairs), and all domains' curve on novels and addresses as
they are, which the extractor does not know. Beside it the simplest thing, a logistic curve of the
cosine that was learnt at 200 words, and the same with lengths but without a centre.

Command:  python experiments/population.py --corpus blogs=blogs_train.parquet
          --corpus hotels=hotels_train.parquet --corpus mail=mail_train.parquet
          --corpus forum=forum_train.parquet --unseen novels=novels.parquet
          [--weights style.safetensors --size small]
Hardware: one core, about four minutes.
Expect:   Cllr, mean of the six domains not learnt from: 1.14 for one length, 0.95 with lengths,
          0.93 with lengths and a centre; the worst are novels with 1.03 (1.00 with lengths alone).
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

from whowrote import __version__
from whowrote.attribution.verification import (
    POPULATIONS,
    PRETRAINED,
    VECTORS,
    Centre,
    Population,
    Sides,
    extractor_key,
    figures,
    read_by_extractor,
    shown,
)
from whowrote.corpus.texts import load
from whowrote.demo import read_addresses
from whowrote.features.extractor.preparation import read_domain
from whowrote.features.fitted_features import FittedAdHominem, FittedStyle
from whowrote.features.reading import SECTION
from whowrote.files import sha256_of, write_text
from whowrote.metrics import AuthorPairs, cllr, matched_pairs
from whowrote.ratios import ridge_logistic

OUT = Path(__file__).parent / "results" / "population.json"
DEVELOPMENT = 1
LENGTHS = (5, 10, 20, 35, 50, 100, 200, 400, 800, 1600, 3000)
LONG_PART, MOST_PARTS = 3000, 4
JITTER, DRAWS, PENALTY = 0.3, 100, 1e-2
REFERENCES, WORLDS, PAIRS, PEOPLE = (0, 2, 5, 20, 60), 3, 24, 150
"""Worlds for each number of reference authors; pairs an author and people of each world."""
FARTHEST, NEAREST, LEAST_LEFT = 1.2, 0.9, 15
"""How far a domain is moved, how near its authors are drawn together, how many must be left."""
MOST_UNSEEN_WORDS = 5000
"""Of a text of the domains that the extractor does not know."""
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


def unseen(texts: Sequence[str], authors: Sequence[str | None]) -> list[list[str]]:
    """The beginnings of texts by author, of authors with several."""
    by_author: dict[str, list[str]] = defaultdict(list)
    for text, author in zip(texts, authors, strict=True):
        by_author[str(author)].append(" ".join(text.split(" ")[:MOST_UNSEEN_WORDS]))
    return [own for own in by_author.values() if len(own) > 1]


# -- one domain, read, and worlds of it ----------------------------------------------------------


@dataclass(frozen=True)
class Domain:
    """Crops of one domain, read; the vectors of its authors, and whose each is."""

    drawn: Drawn
    sides: Sides
    authors: NDArray[np.intp]
    vectors: NDArray[np.float64]


@dataclass(frozen=True)
class World:
    """Pairs of a simulated case: how alike they are without and with a centre."""

    pairs: AuthorPairs
    plain: NDArray[np.float64]
    centred: NDArray[np.float64]
    words: NDArray[np.intp]
    length: NDArray[np.intp]
    references: NDArray[np.float64]


def read(
    extractor: FittedAdHominem, authors: Sequence[Sequence[str]], random: np.random.Generator
) -> Domain:
    """Draw crops and read them."""
    drawn = draw(authors, random)
    sides = read_by_extractor(extractor, drawn.texts)
    long = (drawn.length >= 100) & (drawn.length <= 800)
    codes = np.unique(drawn.author[long])
    vectors = []
    for code in codes:
        own = long & (drawn.author == code)
        only = np.zeros(int(own.sum()), dtype=np.intp)
        vectors.append(Centre.learn(sides.rows[VECTORS][own], sides.words[own], only).vector)
    return Domain(drawn, sides, codes, np.array(vectors))


def world(
    own: Domain,
    n: int,
    random: np.random.Generator,
    moved: NDArray[np.float64] | float = 0.0,
    near: float = 1.0,
) -> World:
    """One case with ``n`` reference authors; the domain is moved, its authors drawn together."""
    share, codes = shown(own.sides.words)[:, None], own.authors
    middle = own.vectors.mean(axis=0)
    place = np.minimum(np.searchsorted(codes, own.drawn.author), len(codes) - 1)
    known = (codes[place] == own.drawn.author)[:, None]
    inward = np.where(known, (1.0 - near) * (own.vectors[place] - middle), 0.0)
    vectors = own.sides.rows[VECTORS] + share * (moved - inward)
    chosen = random.permutation(len(codes))
    sides = Sides({VECTORS: vectors}, own.sides.words)
    centred = sides
    if n:
        mean = middle + near * (own.vectors[chosen[:n]].mean(axis=0) - middle) + moved
        centred = Centre(n, tuple(mean.tolist())).applied(sides)
    rows = np.flatnonzero(np.isin(own.drawn.author, codes[chosen[n : n + PEOPLE]]))
    drawn = own.drawn
    pairs = matched_pairs(drawn.author[rows], drawn.part[rows], drawn.length[rows], PAIRS, random)
    at = rows[pairs.rows]
    return World(
        AuthorPairs(at, pairs.same, pairs.owner),
        sides.similarities(at)[:, 0],
        centred.similarities(at)[:, 0],
        own.sides.words[at],
        drawn.length[at],
        np.full(len(at), float(n)),
    )


def joined(worlds: Sequence[World]) -> World:
    """All their pairs."""

    def every(name: str) -> Any:
        return np.concatenate([getattr(one, name) for one in worlds])

    pairs = AuthorPairs(
        *(
            np.concatenate([getattr(one.pairs, name) for one in worlds])
            for name in ("rows", "same", "owner")
        )
    )
    return World(pairs, *map(every, ("plain", "centred", "words", "length", "references")))


def worlds_of(own: Domain, others: Sequence[Domain], random: np.random.Generator) -> World:
    """Simulated cases of a domain, moved by authors of others."""
    found = []
    for n in REFERENCES:
        for _ in range(WORLDS if len(own.authors) >= n + LEAST_LEFT else 0):
            donor = others[random.integers(len(others))].vectors
            moved = donor[random.integers(len(donor))] * random.uniform(0.0, FARTHEST)
            found.append(world(own, n, random, moved, random.uniform(NEAREST, 1.0)))
    return joined(found)


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

Columns = Callable[[World], NDArray[np.float64]]
LONGEST = 1600


def centred(own: World) -> NDArray[np.float64]:
    """What is packaged."""
    return figures(own.centred, np.minimum(own.words, LONGEST), own.references)


def uncentred(own: World) -> NDArray[np.float64]:
    """With lengths, without a centre."""
    nobody = np.zeros(len(own.plain))
    return figures(own.plain, np.minimum(own.words, LONGEST), nobody)


def without_length(own: World) -> NDArray[np.float64]:
    """The simplest thing: the cosine and a constant."""
    return np.column_stack([own.plain, np.ones(len(own.plain))])


def at_one_length(own: World, length: int = 200) -> World:
    """The pairs with both sides of about one length."""
    kept = np.flatnonzero((own.length == length).all(axis=1))
    pairs = AuthorPairs(own.pairs.rows[kept], own.pairs.same[kept], own.pairs.owner[kept])
    rest = (own.plain, own.centred, own.words, own.length, own.references)
    return World(pairs, *(each[kept] for each in rest))


def learn(
    worlds: Sequence[World], columns: Columns, times: Sequence[NDArray[np.float64]] | None = None
) -> NDArray[np.float64]:
    """Weights of a curve; domains count alike, and so do the authors of each."""
    X = np.concatenate([columns(own) for own in worlds])
    same = np.concatenate([own.pairs.same for own in worlds])
    weights = []
    for number, own in enumerate(worlds):
        each = np.ones(own.pairs.owner.max() + 1) if times is None else times[number]
        weight = own.pairs.weights(each)
        weights.append(weight / weight.sum() * len(X) / len(worlds))
    return ridge_logistic(X, same, np.concatenate(weights), np.full(X.shape[1], PENALTY))


def sampled(
    worlds: Sequence[World], random: np.random.Generator
) -> tuple[list[World], list[NDArray[np.float64]]]:
    """As many domains as there are, drawn with replacement, and how often each author counts."""
    chosen = [worlds[row] for row in random.integers(0, len(worlds), len(worlds))]
    times = []
    for own in chosen:
        codes = np.unique(own.pairs.owner)
        drawn = random.choice(codes, len(codes))
        times.append(np.bincount(drawn, minlength=codes.max() + 1).astype(np.float64))
    return chosen, times


# -- what is recorded ----------------------------------------------------------------------------


def told(own: World, log_lr: NDArray[np.float64]) -> dict[str, dict[str, float]]:
    """Cllr and the share of different-author pairs above 1: all, by length, by references."""
    kinds = {"all": np.ones(len(log_lr), dtype=bool)}
    kinds |= {f"{one} words": (own.length == one).all(axis=1) for one in (50, 200, 400, 800)}
    kinds |= {f"{n} references": own.references == n for n in REFERENCES}
    found = {}
    for name, kept in kinds.items():
        same = own.pairs.same[kept]
        if min(same.sum(), (~same).sum()) >= 20:
            above = float((log_lr[kept][~same] > 0).mean())
            found[name] = {"cllr": round(cllr(log_lr[kept], same), 4), "above": round(above, 4)}
    return found


def compared(learnt: Sequence[World], asked: World) -> dict[str, Any]:
    """Every curve, learnt from some domains, on pairs of another."""
    curves: dict[str, tuple[Columns, Sequence[World]]] = {
        "one length": (without_length, [at_one_length(one) for one in learnt]),
        "lengths": (uncentred, learnt),
        "lengths and centre": (centred, learnt),
    }
    return {
        name: told(asked, columns(asked) @ learn(material, columns))
        for name, (columns, material) in curves.items()
    }


def without_each(
    domains: Mapping[str, Domain], unknown: Mapping[str, Domain], random: np.random.Generator
) -> dict[str, Any]:
    """Every curve on worlds of a domain it has not learnt from, and on unseen ones as they are."""
    found = {}
    for name, own in domains.items():
        others = {key: other for key, other in domains.items() if key != name}
        worlds = [
            worlds_of(other, [one for key, one in others.items() if key != here], random)
            for here, other in others.items()
        ]
        found[name] = compared(worlds, worlds_of(own, list(others.values()), random))
    every = all_worlds(domains, random)
    for name, own in unknown.items():
        possible = [n for n in REFERENCES if len(own.authors) >= n + LEAST_LEFT]
        cases = [world(own, n, random) for n in possible for _ in range(WORLDS)]
        found[name] = compared(every, joined(cases))
    return found


def all_worlds(domains: Mapping[str, Domain], random: np.random.Generator) -> list[World]:
    """Worlds of every domain, each moved by authors of the others."""
    return [
        worlds_of(own, [other for key, other in domains.items() if key != name], random)
        for name, own in domains.items()
    ]


def population(domains: Mapping[str, Domain], random: np.random.Generator) -> Population:
    """The curve of all domains, and those of samples of them."""
    worlds = all_worlds(domains, random)
    draws = []
    for _ in range(DRAWS):
        chosen, times = sampled(worlds, random)
        draws.append(learn(chosen, centred, times))
    people = {
        name: len(np.unique(own.pairs.owner)) for name, own in zip(domains, worlds, strict=True)
    }
    return Population(
        people, reach(list(domains.values())), learn(worlds, centred), np.array(draws)
    )


def package(extractor: FittedAdHominem, found: Population, place: Path) -> None:
    """Write it among the packaged ones, in the place of an older one for this extractor."""
    key = extractor_key(extractor)
    kept = json.loads(place.read_text(encoding="utf-8")) if place.is_file() else []
    before: dict[str, Any] = next((one for one in kept if one["extractor"] == key), {})
    kept = [one for one in kept if one["extractor"] != key]
    kept.append({**before, "extractor": key, **found.to_dict()})
    lines = ",\n".join(json.dumps(one) for one in sorted(kept, key=lambda one: one["extractor"]))
    write_text(place, f"[\n{lines}\n]\n")


def main() -> None:
    """Run, package and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", action="append", required=True, help="name=path")
    parser.add_argument("--unseen", action="append", default=[], help="name=path, to measure on")
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
    unknown = {}
    for name, path in (value.split("=", 1) for value in options.unseen):
        corpus = load(path)
        unknown[name] = read(extractor, unseen(corpus.texts, corpus.authors), random)
    if unknown:
        addresses = read_addresses()
        texts, names = [one.text for one in addresses], [one.author for one in addresses]
        unknown["addresses"] = read(extractor, unseen(texts, names), random)
    record = {
        "version": __version__,
        "extractor": extractor_key(extractor),
        "corpora": hashes,
        "people": dict(found.people),
        "reach": [list(one) for one in found.reach],
        "not_learnt_from": without_each(domains, unknown, random),
    }
    write_text(options.out, json.dumps(record, indent=1) + "\n")
    for name, curves in record["not_learnt_from"].items():
        listed = ", ".join(f"{curve} {one['all']['cllr']:.3f}" for curve, one in curves.items())
        print(f"{name:10} Cllr {listed}")


if __name__ == "__main__":
    main()
