"""Whether explanations hold: marked words deleted beside random ones, and planted phrases found.

Texts held out from a model of the same authors are explained; of each, the marked 5, 10 and 20 % of
the words are deleted, and as many random ones (20 draws). Beside the share of texts whose own check
holds, the mean over texts of how much more the evidence falls, with a 95 % bootstrap interval over
texts. Then a phrase is planted once into every training text of one author and into a held-out text
of theirs: the n-gram, word, phrase and sentence that count most must lie in it, or around it.

Command:  python experiments/explanations.py --blog30 blog30.parquet --ebg ebg.parquet --keep DIR
Hardware: one core, about ten minutes.
Expect:   results/explanations.json; every mean above zero.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from whowrote import Attributor, Corpus, __version__, load
from whowrote.attribution.explanation import Explanation
from whowrote.attribution.fitted_attributor import FittedAttributor
from whowrote.attribution.occlusion import Mark, Occlusion, strongest
from whowrote.files import write_text

OUT = Path(__file__).parent / "results" / "explanations.json"
PHRASES = (
    "in a manner of speaking",
    "wherefore and whence",
    "so it jolly well goes",
    "mark ye well",
    "as the crow hops",
)
TRAINED, PLANTED_AUTHORS, LEAST, MOST = 20, 10, 100, 600


def drawn(corpus: Corpus, n_train: int, n_test: int, seed: int) -> tuple[Corpus, Corpus]:
    """So many texts of each author to learn from, and so many texts of all to ask about."""
    random = np.random.default_rng(seed)
    authors, words = np.array(corpus.authors), np.array(corpus.word_counts)
    train, rest = [], []
    for name in corpus.author_names:
        own = random.permutation(np.flatnonzero((authors == name) & (words >= LEAST)))
        train += own[:n_train].tolist()
        rest += own[n_train:][words[own[n_train:]] <= MOST].tolist()
    asked = random.permutation(rest)[:n_test].tolist()
    return corpus.subset(train), corpus.subset(asked)


def interval(values: Sequence[float], seed: int = 0) -> list[float]:
    """The mean, and the limits of its 95 % bootstrap interval."""
    every, random = np.array(values), np.random.default_rng(seed)
    means = every[random.integers(0, len(every), (4000, len(every)))].mean(axis=1)
    return [round(float(x), 4) for x in (every.mean(), *np.percentile(means, [2.5, 97.5]))]


def deletions(corpus: Corpus, n_train: int, n_test: int, features: str) -> dict[str, Any]:
    """The check of marks over many texts."""
    train, asked = drawn(corpus, n_train, n_test, 0)
    model = Attributor(features).fit(train).fitted()
    found: list[Explanation] = []
    for number, text in enumerate(asked.texts):
        found.append(model.explain(text, seed=number))
        if number % 20 == 0:
            print(number, flush=True)
    right = [one.best == author for one, author in zip(found, asked.authors, strict=True)]
    told: dict[str, Any] = {
        "features": features,
        "authors": len(train.author_names),
        "texts": len(found),
        "right": int(sum(right)),
        "holds at every share": int(sum(one.holds for one in found)),
        "share a reader can check, mean": round(
            float(np.mean([one.checkable or 0.0 for one in found])), 3
        ),
    }
    for place, check in enumerate(found[0].checks):
        own = [one.checks[place] for one in found]
        told[f"{check.share:.0%}"] = {
            "marked less random: mean, 95 % interval": interval([one.difference for one in own]),
            "marked": round(float(np.mean([one.marked for one in own])), 4),
            "random": round(float(np.mean([one.random for one in own])), 4),
            "holds": int(sum(one.holds for one in own)),
        }
    return told


KINDS = ("n-gram", "word", "phrase", "most of the phrase", "sentence")


def planted(
    corpus: Corpus, features: str, keep: Path, offset: int = 0, each: int = 10
) -> dict[str, Any]:
    """How often phrases planted into the texts of one author come out on top, and should.

    With an ``offset`` the phrases are planted into texts of other authors, for development. What
    was found in each text is kept in a folder, so that a run can go on where it was stopped.
    """
    keep.mkdir(parents=True, exist_ok=True)
    found = []
    for trial in range(len(PHRASES)):
        place = keep / f"{offset}-{trial}-{each}.json"
        if not place.is_file():
            once = planted_once(corpus, features, trial, offset, each)
            write_text(place, json.dumps(once, indent=1) + "\n")
        found += json.loads(place.read_text(encoding="utf-8"))
    theirs = [one for one in found if not one["other"]]
    most = "without it the lead falls further than without any phrase elsewhere"
    return {
        "features": features,
        "texts": len(found),
        "on top": {kind: sum(one[kind] for one in found) for kind in KINDS},
        most: sum(one["most"] for one in found),
        "of these the phrase on top": sum(one["most"] and one["phrase"] for one in found),
        "given to others": len(found) - len(theirs),
        "on top, of those given to their author": sum(one["phrase"] for one in theirs),
    }


def planted_once(
    corpus: Corpus, features: str, trial: int, offset: int, each: int
) -> list[dict[str, Any]]:
    """One phrase in the texts of one of ten authors; the author's held-out texts explained."""
    phrase, half = PHRASES[trial], int(offset > 0)
    authors = np.random.default_rng(18).permutation(corpus.author_names).reshape(2, -1)[half]
    random = np.random.default_rng([trial, offset, 18])
    author = str(authors[(trial + offset) % len(authors)])
    rest = random.permutation([name for name in corpus.author_names if name != author])
    names = {author, *rest[: PLANTED_AUTHORS - 1].tolist()}
    some = corpus.subset([i for i, name in enumerate(corpus.authors) if name in names])
    train, asked = drawn(some, TRAINED, 10_000, 1800 + trial + offset)
    known = [
        plant(text, phrase, random) if name == author else text
        for text, name in zip(train.texts, train.authors, strict=True)
    ]
    model = Attributor(features).fit(known, [str(name) for name in train.authors]).fitted()
    theirs = [t for t, name in zip(asked.texts, asked.authors, strict=True) if name == author]
    told = []
    for text in theirs[:each]:
        whole = plant(text, phrase, random)
        told.append(on_top(model, whole, phrase, author))
        print(told[-1], flush=True)
    return told


def on_top(model: FittedAttributor, text: str, phrase: str, author: str) -> dict[str, Any]:
    """Whether a phrase is on top of each list of an explanation, and ought to be."""
    found = model.explain(text, draws=2)
    span = (text.index(phrase), text.index(phrase) + len(phrase))
    top = strongest(found.phrases, 1)[0]
    itself = Occlusion(model, text, model.names.tolist().index(found.best)).marks([span])[0].lead
    return {
        "n-gram": bool(found.ngrams_for) and _inside(found.ngrams_for[0].text, phrase),
        "word": _meets(max(found.words, key=lambda mark: mark.drop), span),
        "phrase": _meets(top, span),
        "most of the phrase": 2 * _common(top, span) >= len(phrase),
        "sentence": _meets(strongest(found.sentences, 1)[0], span),
        "most": itself > max(one.lead for one in found.phrases if not _meets(one, span)),
        "other": found.best != author,
        "shown": " ".join(text[top.start : top.end].split()) if _meets(top, span) else "elsewhere",
    }


def _common(mark: Mark, span: tuple[int, int]) -> int:
    return max(0, min(mark.end, span[1]) - max(mark.start, span[0]))


def _meets(mark: Mark, span: tuple[int, int]) -> bool:
    return _common(mark, span) > 0


def _inside(ngram: str, phrase: str) -> bool:
    return ngram.strip().lower() in f" {phrase} "


def plant(text: str, phrase: str, random: np.random.Generator) -> str:
    """The phrase between two words of a text, somewhere."""
    words = text.split(" ")
    place = int(random.integers(1, len(words)))
    return " ".join([*words[:place], phrase, *words[place:]])


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blog30", required=True)
    parser.add_argument("--ebg", required=True)
    parser.add_argument("--texts", type=int, default=200, help="0: planted alone")
    parser.add_argument("--features", default="hybrid")
    parser.add_argument("--offset", type=int, default=0, help="other draws, for development")
    parser.add_argument("--keep", type=Path, required=True, help="folder of what was found")
    parser.add_argument("--trial", type=int, help="this phrase alone, into the folder")
    parser.add_argument("--each", type=int, default=5, help="texts of each of those draws")
    given = parser.parse_args()
    blog30, ebg = load(given.blog30), load(given.ebg)
    genuine = [i for i, one in enumerate(ebg) if one.metadata.get("kind", "text") == "text"]
    found: dict[str, Any] = {"version": __version__}
    if given.offset:  # development: printed, and never into the record
        told = planted(blog30, given.features, given.keep, given.offset, given.each)
        print(json.dumps(told, indent=1))
        return
    if given.trial is not None:
        planted_trial = planted_once(blog30, given.features, given.trial, 0, 10)
        write_text(given.keep / f"0-{given.trial}-10.json", json.dumps(planted_trial, indent=1))
        return
    found["planted, blog30"] = planted(blog30, given.features, given.keep)
    if given.texts == 0:  # planted phrases alone, into the record that is there
        found = {**json.loads(OUT.read_text()), **found}
        write_text(OUT, json.dumps(found, indent=1) + "\n")
        return
    print(json.dumps(found, indent=1), flush=True)
    found["ebg"] = deletions(ebg.subset(genuine), 10, min(100, given.texts), given.features)
    print(json.dumps(found, indent=1), flush=True)
    found["blog30"] = deletions(blog30, TRAINED, given.texts, given.features)
    print(json.dumps(found, indent=1), flush=True)
    write_text(OUT, json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
