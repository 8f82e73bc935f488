"""Zeta, distances and the consensus tree of The Federalist beside stylo's own functions.

The R functions are those of a checkout of github.com/computationalstylistics/stylo (GPL, not part
of this repository): ``zeta.craig``, ``dist.delta`` and ``dist.wurzburg``; trees and their consensus
by ape, as ``stylo()`` calls it. First the same table of shares and the same segments go into both
programs; then each reads the texts in its own way.

Command:  python experiments/beside_stylo.py federalist.parquet --stylo stylo/R --work DIR
Hardware: one core, half a minute; needs R with the package ape.
Expect:   results/beside_stylo.json; distances and Zeta equal to 1e-12 for the same input.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from whowrote import Corpus, __version__, load
from whowrote.files import write_text
from whowrote.stylometry import consensus, zeta
from whowrote.stylometry.delta import Frequencies, joined_samples

HERE = Path(__file__).parent
OUT = HERE / "results" / "beside_stylo.json"
WORDS, SAMPLE, TOP = 500, 8000, 20
KNOWN = ("Hamilton", "Madison", "Jay")


def read_zeta(path: Path) -> dict[str, float]:
    """Words and their Zeta, as R wrote them."""
    with path.open(encoding="utf-8") as page:
        return {row["word"]: float(row["zeta"]) for row in csv.DictReader(page)}


def written(corpus: Corpus, work: Path) -> tuple[Corpus, Frequencies, dict[str, float]]:
    """The exchange: samples, table of shares, shares of segments that have a word, both sides."""
    samples = joined_samples(corpus, SAMPLE)
    for number, text in enumerate(samples.texts):
        write_text(work / "samples" / f"{number}.txt", text)
    table = Frequencies.of(samples.texts, WORDS)
    np.savetxt(work / "shares.csv", table.shares, delimiter=",", fmt="%.17g")
    sides = [[t for t, a in zip(corpus.texts, corpus.authors, strict=True) if a == name]
             for name in KNOWN[:2]]  # fmt: skip
    found = zeta(sides[0], sides[1], sides=("Hamilton", "Madison"), top=10**6)
    rows = [(one.word, 100 * one.first, 100 * one.second) for one in (*found.first, *found.second)]
    lines = ["word,first,second", *(f'"{word}",{a!r},{b!r}' for word, a, b in rows)]
    write_text(work / "segments.csv", "\n".join(lines) + "\n")
    for name, own in zip(("first", "second"), sides, strict=True):
        write_text(work / f"{name}.txt", "\n".join(own))
    return samples, table, {one.word: one.zeta for one in (*found.first, *found.second)}


def same_input(table: Frequencies, own: dict[str, float], work: Path) -> dict[str, float]:
    """The largest differences where both programs have the same table."""
    upper = np.triu_indices(len(table.shares), 1)
    theirs = read_zeta(work / "zeta_same.csv")
    apart = {
        name: float(np.abs(np.loadtxt(work / f"{name}.csv", delimiter=",") - mine)[upper].max())
        for name, mine in (
            ("delta", table.delta(WORDS)),
            ("cosine", table.delta(WORDS, cosine=True)),
        )
    }
    return {**apart, "zeta": max(abs(own[word] - value) for word, value in theirs.items())}


def own_input(own: dict[str, float], work: Path) -> dict[str, Any]:
    """Zeta where each program finds words and segments by itself."""
    theirs = read_zeta(work / "zeta_own.csv")
    both = [word for word in theirs if word in own]
    pairs = np.array([(own[word], theirs[word]) for word in both])
    mine, other = (sorted(some, key=some.__getitem__) for some in (own, theirs))
    return {
        "words beyond 0.2 in stylo": len(theirs),
        "of these known here": len(both),
        "mean absolute difference": round(float(np.abs(pairs[:, 0] - pairs[:, 1]).mean()), 4),
        "correlation": round(float(np.corrcoef(pairs.T)[0, 1]), 4),
        f"first {TOP} of Hamilton, shared": len({*mine[-TOP:]} & {*other[-TOP:]}),
        f"first {TOP} of Madison, shared": len({*mine[:TOP]} & {*other[:TOP]}),
        "here, stylo": {
            word: [round(own[word], 3), round(theirs[word], 3)]
            for word in ("upon", "kind", "while", "whilst")
        },
        "strongest in stylo": [other[-1], other[-2], other[-3]],
        "strongest here": [mine[-1], mine[-2], mine[-3]],
    }


def sides_of(samples: Corpus, groups: list[list[int]]) -> list[dict[str, Any]]:
    """Of every group that has a disputed paper or all of an author's samples: who is in it."""
    authors = [name or "disputed" for name in samples.authors]
    every, told = Counter(authors), []
    for members in groups:
        own = Counter(authors[row] for row in members)
        whole = [name for name in KNOWN if own[name] == every[name]]
        if len(members) < len(authors) and (whole or own["disputed"]):
            told.append(dict(own))
    return told


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("federalist")
    parser.add_argument("--stylo", type=Path, required=True, help="the folder R of a checkout")
    parser.add_argument("--work", type=Path, required=True, help="an empty folder")
    given = parser.parse_args()
    texts = load(given.federalist)
    rows = [row for row, name in enumerate(texts.authors) if name != "joint"]
    names = [None if texts.authors[row] == "disputed" else texts.authors[row] for row in rows]
    some = texts.subset(rows)
    corpus = Corpus.from_texts(some.texts, names, ids=some.ids)
    samples, table, own = written(corpus, given.work)
    script = [str(HERE / "beside_stylo.R"), str(given.stylo.resolve()), str(given.work.resolve())]
    subprocess.run(["Rscript", *script], check=True)
    theirs = [
        [int(name) for name in line.split(";")]
        for line in (given.work / "groups.txt").read_text().splitlines()
    ]
    here = [list(group.members) for group in consensus(samples).groups]
    found = {
        "version": __version__,
        "the same input, largest difference": same_input(table, own, given.work),
        "own words and segments": own_input(own, given.work),
        "groups of stylo's consensus": sides_of(samples, theirs),
        "groups of the consensus here": sides_of(samples, here),
    }
    print(json.dumps(found, indent=1))
    write_text(OUT, json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
