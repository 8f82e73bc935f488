r"""The packaged population: likelihood ratios of pairs by people whom the extractor never saw.

Development authors of the extractor's training corpora (five in a hundred by the split of
``whowrote.features.extractor.preparation``; it was never trained on them, and no test author is
read). An author's texts are dealt into parts that share none, joined, and cropped to 5 to 3,000
words (each length times :math:`e^u`, *u* between -0.3 and 0.3). Pairs: two parts of one author; one
of them with another author *of the same domain* at the same length, so that neither domain nor
length tells. Authors of a domain count alike, and so do domains. Draws resample domains, then
authors.

The case is simulated. The extractor was centred on these domains while it learnt; a user's domain
is another one, and its mean lies about twice as far out as an author does. So in each of several
worlds a domain is moved by the vector of an author of another one, times 0 to 2.4, its authors are
drawn together by 0.85 to 1, and 0, 2, 5, 20 or 60 of them are the reference authors that find its
centre again and whose own pairs weigh the draws; the pairs asked about are of the others.

What is kept was chosen on what a domain says by the curve of the others and on the training parts
of PAN's verification problems: the least spread of shift and slope without a model at which essays
on set topics, where likeness says least, cost less than a ratio of 1 (it costs the others 0.01
bits), and half of it with one, of which half of the novelists approved. That draws are weighed by
the likelihood of the reference authors' pairs as it is, that two kinds of pairs count alike, and 35
words for full ground, was chosen on domains left out. Shared words of content were tried as a
figure of the curve and left out (Cllr on those parts changed by -0.02 to 0.03), and so were n-grams
of characters, whitening by the covariance within authors, and a shift downwards without a model.
Reported, and chosen by nothing: PAN's test parts, addresses. Beside it, the same without domains,
with cosines alone, the simplest thing (a logistic curve of the cosine that was learnt at 200
words), and ``lir`` (such a curve with empirical bounds).

Command:  python experiments/population.py --data ../shared/data --extractor large
          (or adhominem, small; --weights FILE for others; --cache FOLDER keeps the vectors)
Hardware: one core, about nine minutes (adhominem: four).
Expect:   results/population_large.json, and the curve in the place of the packaged one.
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
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import qmc

from whowrote import __version__
from whowrote.attribution.population import (
    POPULATIONS,
    PRETRAINED,
    VECTORS,
    KnownPairs,
    Population,
    Sides,
    extractor_key,
    figures,
    read_by_extractor,
    shown,
)
from whowrote.attribution.verification import Centre, Enrolled
from whowrote.corpus.texts import load
from whowrote.demo import read_addresses
from whowrote.features.extractor.preparation import read_domain
from whowrote.features.fitted_features import FittedAdHominem, FittedStyle
from whowrote.features.reading import SECTION
from whowrote.files import canonical_hash, sha256_of, write_text
from whowrote.metrics import AuthorPairs, auc, cllr, matched_pairs
from whowrote.ratios import cllr_min, ridge_logistic

RESULTS = Path(__file__).parent / "results"
DOMAINS = ("blogs", "hotels", "mail", "forum")
EXTRACTORS: dict[str, Callable[[Path], FittedAdHominem]] = {
    "adhominem": lambda weights: FittedAdHominem(weights, SECTION),
    "small": lambda weights: FittedStyle(weights, SECTION, size="small"),
    "large": lambda weights: FittedStyle(weights, SECTION, size="large"),
}
DEVELOPMENT = 1
LENGTHS = (5, 10, 20, 35, 50, 100, 200, 400, 800, 1600, 3000)
LONG_PART, MOST_PARTS = 3000, 4
JITTER, PENALTY = 0.3, 1e-2
REFERENCES, WORLDS, PAIRS, PEOPLE = (0, 2, 5, 20, 60), 4, 16, 60
"""Worlds for each number of reference authors; pairs an author and people of each world."""
FARTHEST, NEAREST, LEAST_LEFT = 2.4, 0.85, 15
"""How far a domain is moved, how near its authors are drawn together, how many must be left."""
SAMPLES, FEW_SAMPLES, DRAWS = 16, 8, 256
"""Samples of domains and people, fewer where one is left out; domains that a user may have."""
SPREAD = ((0.67, 1.67), (0.6, 0.9))
"""Of the shift and of ln of the slope between domains, with the centre known and with none."""
KNOWN_WORDS = (800, 200)
"""Of the sides that reference authors are known by: at most so many."""
MOST_UNSEEN_WORDS, MOST_PROBLEM_WORDS = 5000, 3200
"""Of a text of the domains that the extractor does not know, and of a side of a problem."""
LEAST_PEOPLE = 100
"""So many people must have shown two sides of a length for it to count as learnt."""
PROBLEMS = {
    "pan13-mixed/train": 10,
    "pan13-mixed/test-corpus2": 30,
    "pan14-essays/train": 120,
    "pan14-essays/test-corpus2": 200,
    "pan14-novels/train": 50,
    "pan14-novels/test-corpus2": 100,
    "pan15-mixed/train": 100,
    "pan15-mixed/test-corpus2": 300,
}
"""Sets of PAN and how many of their problems are read."""


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
    """Pairs of simulated cases: what the curve reads of them, and their cosines uncentred."""

    pairs: AuthorPairs
    plain: NDArray[np.float64]
    columns: NDArray[np.float64]
    length: NDArray[np.intp]
    references: NDArray[np.float64]
    case: NDArray[np.intp]
    known: tuple[KnownPairs | None, ...] = (None,)
    """Pairs of the reference authors of every case."""

    def ratios(self, found: Population) -> NDArray[np.float64]:
        """ln of the ratios of its pairs, with the draws weighed anew in each case."""
        log_lr = np.zeros(len(self.case))
        for number, known in enumerate(self.known):
            own = self.case == number
            weights = None if known is None else found.weights(known)
            log_lr[own] = found.over_domains(self.columns[own], self.references[own], weights)[:, 0]
        return log_lr


def known_rows(drawn: Drawn, authors: NDArray[np.intp]) -> NDArray[np.intp]:
    """Of each author's first two parts the longest sides of no more than so many words."""
    rows = np.full((len(authors), 2, len(KNOWN_WORDS)), -1, dtype=np.intp)
    for place, author in enumerate(authors.tolist()):
        for part in range(2):
            own = np.flatnonzero((drawn.author == author) & (drawn.part == part))
            for number, most in enumerate(KNOWN_WORDS):
                fits = own[drawn.length[own] <= most]
                if len(fits):
                    rows[place, part, number] = fits[drawn.length[fits].argmax()]
    return rows


def domain(drawn: Drawn, sides: Sides) -> Domain:
    """Crops that were read, with the vectors of their authors."""
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
    centred, known_pairs = sides, None
    if n:
        enrolled = Enrolled(sides, known_rows(own.drawn, codes[chosen[:n]]))
        centred = Centre.about(enrolled.vectors()).applied(sides)
        known_pairs = enrolled.pairs(LONGEST)
    rows = np.flatnonzero(np.isin(own.drawn.author, codes[chosen[n : n + PEOPLE]]))
    drawn = own.drawn
    pairs = matched_pairs(drawn.author[rows], drawn.part[rows], drawn.length[rows], PAIRS, random)
    at, references = rows[pairs.rows], np.full(len(pairs.same), float(n))
    # Only the sides that are asked of are divided by their lengths.
    used, place = np.unique(at, return_inverse=True)
    place = place.reshape(-1, 2)
    plain, moved_back = (
        Sides({VECTORS: one.rows[VECTORS][used]}, one.words[used]) for one in (sides, centred)
    )
    return World(
        AuthorPairs(at, pairs.same, pairs.owner),
        plain.similarities(place)[:, 0],
        figures(moved_back, place, references, LONGEST),
        drawn.length[at],
        references,
        np.zeros(len(at), dtype=np.intp),
        (known_pairs,),
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
    first = np.cumsum([0, *(len(one.known) for one in worlds)])
    case = np.concatenate([one.case + own for one, own in zip(worlds, first[:-1], strict=True)])
    known = tuple(pairs for one in worlds for pairs in one.known)
    return World(pairs, *map(every, ("plain", "columns", "length", "references")), case, known)


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
COSINES = 12
"""So many of the columns are of the cosine and of nothing."""


def packaged_columns(own: World) -> NDArray[np.float64]:
    """What is packaged."""
    return own.columns


def cosine_columns(own: World) -> NDArray[np.float64]:
    """The same without distances."""
    return own.columns[:, :COSINES]


def without_length(own: World) -> NDArray[np.float64]:
    """The simplest thing: the cosine and a constant."""
    return np.column_stack([own.plain, np.ones(len(own.plain))])


def at_one_length(own: World, length: int = 200) -> World:
    """The pairs with both sides of about one length."""
    kept = np.flatnonzero((own.length == length).all(axis=1))
    pairs = AuthorPairs(own.pairs.rows[kept], own.pairs.same[kept], own.pairs.owner[kept])
    rest = (own.plain, own.columns, own.length, own.references, own.case)
    return World(pairs, *(each[kept] for each in rest), own.known)


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


OURS, ALIKE, SIMPLE = "whowrote", "all draws alike", "logistic curve of the cosine"


def told(own: World, log_lr: NDArray[np.float64]) -> dict[str, dict[str, float]]:
    """Cllr and the share of different-author pairs above 1: all, by length, by references."""
    kinds = {"all": np.ones(len(log_lr), dtype=bool)}
    kinds |= {f"{one} words": (own.length == one).all(axis=1) for one in (50, 200, 400, 800)}
    kinds |= {f"{n} references": own.references == n for n in REFERENCES}
    found = {}
    for name, kept in kinds.items():
        same = own.pairs.same[kept]
        if min(same.sum(), (~same).sum()) >= (2 if name == "all" else 20):
            above = float((log_lr[kept][~same] > 0).mean())
            found[name] = {"cllr": round(cllr(log_lr[kept], same), 4), "above": round(above, 4)}
    scored = {"auc": round(auc(log_lr, own.pairs.same), 4)}
    found["all"] |= scored | {"cllr_min": round(cllr_min(log_lr, own.pairs.same), 4)}
    return found


def compared(learnt: Sequence[World], asked: World, found: Population) -> dict[str, Any]:
    """Every curve, learnt from some domains, on pairs of another; ``found`` is of the same."""
    material = [at_one_length(one) for one in learnt]
    simple = learn(material, without_length)
    cosines, whole = learn(learnt, cosine_columns), learn(learnt, packaged_columns)
    ratios = {
        SIMPLE: without_length(asked) @ simple,
        "cosine, lengths and centre": cosine_columns(asked) @ cosines,
        "and distance": asked.columns @ whole,
        ALIKE: found.over_domains(asked.columns, asked.references)[:, 0],
        OURS: asked.ratios(found),
    }
    ratios |= by_lir(joined(material), asked)
    return {name: told(asked, log_lr) for name, log_lr in ratios.items()}


def by_lir(learnt: World, asked: World) -> dict[str, NDArray[np.float64]]:
    """A logistic curve of the cosine with empirical bounds by ``lir``, where it is installed."""
    try:
        from lir.algorithms.bayeserror import ELUBBounder
        from lir.algorithms.logistic_regression import LogitCalibrator
        from lir.data.models import LLRData
    except ImportError:
        return {}
    labels = learnt.pairs.same.astype(int)
    curve = LogitCalibrator().fit(learnt.plain[:, None], labels)
    known, new = (curve.transform(one.plain[:, None]) for one in (learnt, asked))
    bounds = ELUBBounder().fit(LLRData(features=known, labels=labels))
    return {"lir": bounds.transform(LLRData(features=new)).llrs * np.log(10.0)}


def without_each(
    domains: Mapping[str, Domain], worlds: Sequence[World], random: np.random.Generator
) -> dict[str, Any]:
    """Every curve on worlds of a domain by those of the others."""
    found = {}
    for left_out, asked in zip(domains, worlds, strict=True):
        others = {key: own for key, own in domains.items() if key != left_out}
        learnt = [own for key, own in zip(domains, worlds, strict=True) if key != left_out]
        population_of = population(others, learnt, random, FEW_SAMPLES)
        found[left_out] = compared(learnt, asked, population_of)
        print(left_out, found[left_out][OURS]["all"], flush=True)
    return found


def on_unseen(
    unknown: Mapping[str, Domain],
    problems: Mapping[str, World],
    learnt: Sequence[World],
    found: Population,
) -> dict[str, Any]:
    """Every curve of all domains on texts of other kinds, as they are."""
    told_of = {name: compared(learnt, own, found) for name, own in problems.items()}
    for name, own in unknown.items():
        possible = [n for n in REFERENCES if len(own.authors) >= n + LEAST_LEFT]
        random = seeded(name)
        cases = [world(own, n, random) for n in possible for _ in range(WORLDS)]
        told_of[name] = compared(learnt, joined(cases), found)
    return told_of


def all_worlds(domains: Mapping[str, Domain], random: np.random.Generator) -> list[World]:
    """Worlds of every domain, each moved by authors of the others."""
    return [
        worlds_of(own, [other for key, other in domains.items() if key != name], random)
        for name, own in domains.items()
    ]


def population(
    domains: Mapping[str, Domain],
    worlds: Sequence[World],
    random: np.random.Generator,
    n_samples: int = SAMPLES,
) -> Population:
    """The curves of samples of the domains, and where among all domains each draw has its own."""
    samples = [learn(*_turned(sampled(worlds, random))) for _ in range(n_samples)]
    normals = ndtri(qmc.Sobol(2, seed=0).random(DRAWS))
    people = {
        name: len(np.unique(own.pairs.owner)) for name, own in zip(domains, worlds, strict=True)
    }
    reached = reach(list(domains.values()))
    return Population(people, reached, np.array(samples), normals, np.array(SPREAD))


def _turned(
    drawn: tuple[list[World], list[NDArray[np.float64]]],
) -> tuple[list[World], Columns, list[NDArray[np.float64]]]:
    return drawn[0], packaged_columns, drawn[1]


def package(extractor: FittedAdHominem, found: Population, place: Path) -> None:
    """Write it among the packaged ones, in the place of an older one for this extractor."""
    key = extractor_key(extractor)
    kept = json.loads(place.read_text(encoding="utf-8")) if place.is_file() else []
    before: dict[str, Any] = next((one for one in kept if one["extractor"] == key), {})
    kept = [one for one in kept if one["extractor"] != key]
    kept.append({**before, "extractor": key, **found.to_dict()})
    lines = ",\n".join(json.dumps(one) for one in sorted(kept, key=lambda one: one["extractor"]))
    write_text(place, f"[\n{lines}\n]\n")


# -- reading, kept between runs ------------------------------------------------------------------


def kept_sides(extractor: FittedAdHominem, texts: Sequence[str], cache: Path | None) -> Sides:
    """Vectors of texts, from a folder where they lie there already."""
    if cache is None:
        return read_by_extractor(extractor, texts)
    key = canonical_hash({"extractor": extractor_key(extractor), "texts": list(texts)})
    place = cache / f"{key}.npz"
    if place.is_file():
        stored = np.load(place)
        return Sides({VECTORS: stored["rows"].astype(np.float64)}, stored["words"])
    sides = read_by_extractor(extractor, texts)
    np.savez(place, rows=sides.rows[VECTORS].astype(np.float32), words=sides.words)
    return sides


def seeded(name: str) -> np.random.Generator:
    """Randomness of a corpus's own: its draw depends on no other one, nor on the extractor."""
    return np.random.default_rng([0, sum(map(ord, name))])


def development_drawn(name: str, path: Path, most: int) -> Drawn:
    """Crops of the development authors of a corpus."""
    random = seeded(name)
    return draw(development(name, path, most, random), random)


def unseen_drawn(data: Path) -> dict[str, Drawn]:
    """Crops of novels and of addresses to Congress."""
    novels, addresses, found = load(data / "novels.parquet"), read_addresses(), {}
    material = {
        "novels": unseen(novels.texts, novels.authors),
        "addresses": unseen([a.text for a in addresses], [a.author for a in addresses]),
    }
    for name, authors in material.items():
        found[name] = draw(authors, seeded(name))
    return found


def problems(extractor: FittedAdHominem, path: Path, cache: Path | None) -> dict[str, World]:
    """Problems of PAN by set, each of known texts and a questioned one, without a centre."""
    rows = pq.read_table(path).to_pylist()
    found = {}
    for name, most in PROBLEMS.items():
        own = [row for row in rows if f"{row['set']}/{row['part']}" == name]
        chosen = np.random.RandomState(0).choice(len(own), most, replace=False)
        asked = [own[row] for row in chosen]
        texts = [_first("\n\n".join(one["known"])) for one in asked]
        sides = kept_sides(extractor, texts + [_first(one["unknown"]) for one in asked], cache)
        n = len(asked)
        pairs = np.stack([np.arange(n), np.arange(n) + n], axis=1)
        same = np.array([bool(one["same"]) for one in asked])
        nobody = np.zeros(n)
        found[name] = World(
            AuthorPairs(pairs, same, np.arange(n)),
            sides.similarities(pairs)[:, 0],
            figures(sides, pairs, nobody, LONGEST),
            sides.words[pairs],
            nobody,
            np.zeros(n, dtype=np.intp),
        )
    return found


def _first(text: str) -> str:
    short = len(text.split()) < MOST_PROBLEM_WORDS
    return text if short else " ".join(text.split(" ")[:MOST_PROBLEM_WORDS])


def corpora_of(options: argparse.Namespace) -> dict[str, Path]:
    """The corpora that are learnt from, by name."""
    if options.corpus:
        return {name: Path(path) for name, path in (one.split("=", 1) for one in options.corpus)}
    return {name: options.data / f"{name}_train.parquet" for name in DOMAINS}


def options_of() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="the folder of all corpora")
    parser.add_argument("--corpus", action="append", help="name=path, in place of --data")
    parser.add_argument("--extractor", choices=EXTRACTORS, default="large")
    parser.add_argument("--weights", type=Path, help="others than the packaged ones")
    parser.add_argument("--most", type=int, default=600, help="authors of a domain")
    parser.add_argument("--cache", type=Path, help="a folder that keeps vectors between runs")
    parser.add_argument("--package", type=Path, default=POPULATIONS)
    parser.add_argument("--out", type=Path, help="the record [results/population_EXTRACTOR.json]")
    options = parser.parse_args()
    if not options.data and not options.corpus:
        parser.error("--data FOLDER or --corpus name=path is needed")
    return options


def main() -> None:
    """Run, package and record."""
    options, domains, hashes = options_of(), {}, {}
    name = "adhominem" if options.extractor == "adhominem" else "style"
    weights = options.weights or PRETRAINED / f"{name}.safetensors"
    extractor, random = EXTRACTORS[options.extractor](weights), np.random.default_rng(0)
    for name, path in corpora_of(options).items():
        drawn = development_drawn(name, path, options.most)
        domains[name] = domain(drawn, kept_sides(extractor, drawn.texts, options.cache))
        hashes[name] = sha256_of(path)
        people = len(np.unique(drawn.author))
        print(f"{name}: {people} authors, {len(drawn.texts)} sides", flush=True)
    worlds = all_worlds(domains, random)
    found = population(domains, worlds, random)
    package(extractor, found, options.package)
    print(f"packaged: {options.package}", flush=True)
    record = {
        "version": __version__,
        "extractor": extractor_key(extractor),
        "corpora": hashes,
        "people": dict(found.people),
        "reach": [list(one) for one in found.reach],
        "not_learnt_from": without_each(domains, worlds, random),
    }
    if options.data:
        unknown = {
            name: domain(drawn, kept_sides(extractor, drawn.texts, options.cache))
            for name, drawn in unseen_drawn(options.data).items()
        }
        asked = problems(extractor, options.data / "pan_verification.parquet", options.cache)
        record["not_learnt_from"] |= on_unseen(unknown, asked, worlds, found)
    out = options.out or RESULTS / f"population_{options.extractor}.json"
    write_text(out, json.dumps(record, indent=1) + "\n")
    for name, curves in record["not_learnt_from"].items():
        listed = ", ".join(f"{curve} {one['all']['cllr']:.3f}" for curve, one in curves.items())
        print(f"{name:10} Cllr {listed}")


if __name__ == "__main__":
    main()
