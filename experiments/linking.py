r"""Accounts of one person among others: amazon_music and forum authors split into two accounts.

Authors with six or more texts are split into two accounts of three to ten texts; authors with three
or more are one account each. Which are split is drawn by seed; 0 to 2 served to develop, 10 and
more are reported. The true links are read for the figures alone. ``none`` splits nobody: the
control. Beside the linker stand the cosine of mean style vectors and that of n-gram rows
(tf-idf of whole accounts), by which a pair is ranked without anything learnt.

``scale`` draws accounts from the fitted population, mean vectors from the scatter of accounts and
texts from the scatter inside them, and splits some: what is measured is time, memory, and how many
of the nearest accounts the search finds.

Command:  python experiments/linking.py --corpus amazon=amazon_music.parquet --split 150
          [--vectors amazon=vectors.npy] [--seeds 10 11 12]
          python experiments/linking.py --scale 100000 --corpus amazon=amazon_music.parquet
Hardware: one core; two minutes a corpus and twenty seconds a seed, and embedding before.
Expect:   amazon, 150 links among 680 accounts: 0.6 to 0.7 of them found at 95 % precision (cosine
          0.2), and at a false-discovery rate of 5 % about half, 3 to 5 % of them wrong.
"""

from __future__ import annotations

import argparse
import json
import resource
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from whowrote import __version__
from whowrote.arrays import BoolArray, FloatArray, IntArray
from whowrote.corpus.texts import load
from whowrote.features import NGrams
from whowrote.features.streaming import Choice
from whowrote.files import write_text
from whowrote.linking.accounts import Accounts
from whowrote.linking.discovery import Found, find_links
from whowrote.linking.linker import NGRAMS, STYLE, find_copies, sketches

OUT = Path(__file__).parent / "results" / "linking.json"
LEAST, MOST, ASKED, REVIEWS = 3, 10, 0.05, 200


@dataclass(frozen=True)
class Read:
    """A corpus with a row of each view for every text."""

    name: str
    texts: tuple[str, ...]
    author: IntArray
    words: IntArray
    views: dict[str, FloatArray]


@dataclass(frozen=True)
class Case:
    """Accounts, the rows of their texts, and the pairs that are one person."""

    accounts: Accounts
    rows: IntArray
    links: frozenset[tuple[int, int]]
    copied: int


def read(
    name: str, path: Path, features: str, size: str, vectors: Path | None, grams: bool
) -> Read:
    """The texts of a corpus and their rows; ``grams``: sketches of n-grams as well."""
    corpus = load(path).labelled()
    author = np.unique(np.array(corpus.authors), return_inverse=True)[1]
    if vectors is None:
        style = Choice(features, size=size, device="cpu").make().transform(corpus.texts)
    else:
        style = np.load(vectors)
    if len(style) != len(corpus):
        raise SystemExit(f"{vectors} has {len(style)} rows for {len(corpus)} texts")
    views = {STYLE: np.asarray(style, np.float32)}
    views |= {NGRAMS: sketches(corpus.texts)} if grams else {}
    return Read(name, corpus.texts, author, np.array(corpus.word_counts), views)


def case(corpora: list[Read], split: int, seed: int) -> Case:
    """Split so many authors of all corpora; every corpus gives its share."""
    random, rows, names, links = np.random.default_rng([seed, 71]), [], [], []
    views = {name: np.concatenate([one.views[name] for one in corpora]) for name in (STYLE, NGRAMS)}
    words = np.concatenate([one.words for one in corpora])
    texts = [text for one in corpora for text in one.texts]
    low = 0
    for number, one in enumerate(corpora):
        own = _authors(one.author, low)
        several = [place for place, known in enumerate(own) if len(known) >= 2 * LEAST]
        share = split // len(corpora) + (number < split % len(corpora))
        chosen = set(random.permutation(several)[:share].tolist())
        for place, known in enumerate(own):
            mixed = random.permutation(known)
            if place in chosen:
                cut = mixed[: 2 * MOST]
                links.append((len(rows), len(rows) + 1))
                rows += [cut[: len(cut) // 2], cut[len(cut) // 2 :]]
                names += [f"{one.name}{place}a", f"{one.name}{place}b"]
            elif len(known) >= LEAST:
                rows.append(mixed[:MOST])
                names.append(f"{one.name}{place}")
        low += len(one.texts)
    owner = np.repeat(np.arange(len(rows)), [len(own) for own in rows])
    every = np.concatenate(rows)
    copies = find_copies([texts[row] for row in every], owner)
    kept = ~copies.copied
    known, account = np.unique(owner[kept], return_inverse=True)
    place = np.full(len(rows), -1)
    place[known] = np.arange(len(known))
    pairs = {(min(place[a], place[b]), max(place[a], place[b])) for a, b in links}
    taken = every[kept]
    accounts = Accounts(
        tuple(names[one] for one in known),
        account,
        words[taken],
        {name: rows[taken] for name, rows in views.items()},
        np.arange(len(taken)),
        np.zeros(len(known), dtype=np.int64),
    )
    found = frozenset((int(a), int(b)) for a, b in pairs)
    return Case(accounts, taken, found, int(copies.copied.sum()))


def _authors(author: IntArray, low: int) -> list[IntArray]:
    order = np.argsort(author, kind="stable")
    return [part + low for part in np.split(order, np.cumsum(np.bincount(author))[:-1])]


# -- figures -------------------------------------------------------------------------------------


def ranked(true: BoolArray, links: int) -> dict[str, float]:
    """Recall at 95 % precision, precision and recall of the pairs that can be reviewed."""
    right = np.cumsum(true)
    precise = np.flatnonzero(right / np.arange(1, len(true) + 1) >= 0.95)
    recall = right[precise[-1]] / links if len(precise) else 0.0
    first = int(true[:REVIEWS].sum())
    return {
        "recall_at_95_precision": float(recall),
        "precision_at_200": first / REVIEWS,
        "recall_at_200": first / links,
    }


def of_cosine(rows: Any, truth: frozenset[tuple[int, int]]) -> dict[str, float]:
    """The same of pairs ranked by the inner product of unit rows."""
    products = rows @ rows.T
    products = np.asarray(products.todense()) if hasattr(products, "todense") else products
    i, j = np.triu_indices(len(products), 1)
    order = np.argsort(-np.asarray(products)[i, j], kind="stable")[:20_000]
    pairs = zip(i[order].tolist(), j[order].tolist(), strict=True)
    return ranked(np.array([pair in truth for pair in pairs]), len(truth))


def baselines(found: Case, texts: list[str]) -> dict[str, dict[str, float]]:
    """Cosines without anything learnt from the corpus but the weight of n-grams."""
    from sklearn.preprocessing import normalize

    accounts = found.accounts
    n = len(accounts)
    mean = np.zeros((n, accounts.views[STYLE].shape[1]))
    np.add.at(mean, accounts.owner, accounts.words[:, None] * accounts.views[STYLE])
    whole: list[list[str]] = [[] for _ in range(n)]
    for row, own in zip(found.rows.tolist(), accounts.owner.tolist(), strict=True):
        whole[own].append(texts[row])
    grams = normalize(NGrams().fit_transform(["\n\n".join(own) for own in whole]))
    return {
        "cosine of style vectors": of_cosine(normalize(mean), found.links),
        "cosine of n-grams": of_cosine(grams, found.links),
    }


def figures(found: Found, truth: frozenset[tuple[int, int]]) -> dict[str, Any]:
    """What the linker's list is worth."""
    true = np.array([(int(a), int(b)) in truth for a, b in found.pairs])
    count = found.reported(ASKED)
    told: dict[str, Any] = ranked(true, len(truth)) if truth else {}
    return {
        **told,
        "reported": count,
        "wrong": int((~true[:count]).sum()),
        "false_discovery_rate": float((~true[:count]).mean()) if count else 0.0,
        "recall_of_reported": float(true[:count].sum() / len(truth)) if truth else None,
        "expected_links": found.prior.links,
        "expected_in_200": float(found.probabilities[:REVIEWS].sum()),
        "links_among_candidates": float(true.sum() / len(truth)) if truth else None,
        "probable_links_kept": found.kept,
        "weights": found.ratio.to_dict()["weights"],
    }


def measure(corpora: list[Read], split: int, seeds: list[int], simple: bool) -> Iterator[Any]:
    """One record a seed."""
    texts = [text for one in corpora for text in one.texts]
    for seed in seeds:
        made = case(corpora, split, seed)
        began = perf_counter()
        found = find_links(made.accounts, random_state=seed)
        alone = replace(made.accounts, views={STYLE: made.accounts.views[STYLE]})
        yield {
            "seed": seed,
            "accounts": len(made.accounts),
            "links": len(made.links),
            "copied_texts": made.copied,
            "seconds": round(perf_counter() - began, 1),
            "whowrote": figures(found, made.links),
            "whowrote, style vectors alone": figures(
                find_links(alone, random_state=seed), made.links
            ),
            **(baselines(made, texts) if simple and split else {}),
        }


def summed_up(records: list[Any]) -> dict[str, Any]:
    """Means over seeds, and the worst rate of false discoveries."""
    names = [name for name, value in records[0].items() if isinstance(value, dict)]
    found: dict[str, Any] = {}
    for name in names:
        keys = [key for key, value in records[0][name].items() if isinstance(value, float | int)]
        found[name] = {
            key: round(float(np.mean([one[name][key] for one in records])), 4) for key in keys
        }
        if "wrong" in keys:
            rates = [one[name]["false_discovery_rate"] for one in records]
            wrong = sum(one[name]["wrong"] for one in records)
            total = max(1, sum(one[name]["reported"] for one in records))
            found[name] |= {"worst_rate": max(rates), "pooled_rate": round(wrong / total, 4)}
    return found


# -- many accounts -------------------------------------------------------------------------------


def drawn(source: Read, number: int, seed: int) -> tuple[Accounts, frozenset[tuple[int, int]]]:
    """So many accounts of 3 to 10 texts from the fitted population; one in a hundred is split."""
    random = np.random.default_rng([seed, 73])
    rows, codes = source.views[STYLE], source.author
    times = np.bincount(codes)
    mean = np.stack([np.bincount(codes, column) for column in rows.T], axis=1) / times[:, None]
    inside = rows[times[codes] > 1] - mean[codes[times[codes] > 1]]
    within = inside.T @ inside / (len(inside) - (times > 1).sum())
    several = times >= LEAST
    between = np.cov(mean[several].T) - within * (1.0 / times[several]).mean()
    values, axes = np.linalg.eigh(between)
    root = axes * np.sqrt(np.maximum(values, 0.0))
    people = number - number // 200
    person = np.concatenate([np.arange(people), np.arange(number - people)])
    means = (random.standard_normal((people, len(root))) @ root.T + mean.mean(axis=0))[person]
    texts = random.integers(LEAST, MOST + 1, number)
    owner = np.repeat(np.arange(number), texts)
    noise = np.linalg.cholesky(within + 1e-9 * np.eye(len(within))).astype(np.float32)
    vectors = means[owner].astype(np.float32)
    for low in range(0, len(owner), 50_000):
        block = slice(low, low + 50_000)
        vectors[block] += random.standard_normal(vectors[block].shape, np.float32) @ noise.T
    accounts = Accounts(
        tuple(map(str, range(number))),
        owner,
        np.full(len(owner), 200),
        {STYLE: vectors},
        np.arange(len(owner)),
        np.zeros(number, dtype=np.int64),
    )
    return accounts, frozenset((one, people + one) for one in range(number - people))


def scale(source: Read, number: int, seed: int) -> dict[str, Any]:
    """Time, memory and recall with many accounts."""
    accounts, truth = drawn(source, number, seed)
    began = perf_counter()
    found = find_links(accounts, random_state=seed)
    seconds = perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    told = figures(found, truth)
    return {
        "accounts": number,
        "texts": len(accounts.owner),
        "seconds": round(seconds, 1),
        "peak_gigabytes": round(peak, 2),
        "candidates": len(found.pairs),
        "neighbours_found": found.recall,
        **told,
    }


def main() -> None:
    """All corpora alone and together, or many drawn accounts."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--corpus", action="append", required=True, metavar="NAME=PATH")
    asked.add_argument("--vectors", action="append", default=[], metavar="NAME=NPY")
    asked.add_argument("--features", default="adhominem")
    asked.add_argument("--size", default="small")
    asked.add_argument("--split", type=int, default=150)
    asked.add_argument("--seeds", type=int, nargs="+", default=[10, 11, 12])
    asked.add_argument("--scale", type=int)
    asked.add_argument("--name", help="of the record; default: the names of the corpora")
    asked.add_argument("--simple", action="store_true", help="the cosines as well")
    asked.add_argument("--out", type=Path, default=OUT)
    given = asked.parse_args()
    vectors = dict(one.split("=", 1) for one in given.vectors)
    corpora = []
    for one in given.corpus:
        name, path = one.split("=", 1)
        made = Path(vectors[name]) if name in vectors else None
        corpora.append(read(name, Path(path), given.features, given.size, made, not given.scale))
    name = given.name or "+".join(one.name for one in corpora)
    record: dict[str, Any] = {
        "features": given.features,
        "size": given.size,
        "version": __version__,
    }
    if given.scale:
        record |= scale(corpora[0], given.scale, given.seeds[0])
    else:
        records = list(measure(corpora, given.split, given.seeds, given.simple))
        record |= {"mean": summed_up(records), "seeds": records}
    kept = json.loads(given.out.read_text()) if given.out.is_file() else {}
    write_text(given.out, json.dumps(kept | {name: record}, indent=1, sort_keys=True) + "\n")
    print(name, json.dumps(record.get("mean", record), indent=1))


if __name__ == "__main__":
    main()
