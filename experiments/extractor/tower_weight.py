r"""How much the second tower counts in the vector, by cosine: :math:`[\mathrm{LEV};\, w\, t]`.

For each weight the mean AUC of cosines over the corpora, 5,000 pairs of development authors of
each; the best weight is what package.py is given. Beside it stand each tower alone and AdHominem,
and the error of a linear SVM (C = 0.1, 5 folds) on the vectors of development authors with at least
8 texts, at most 60 of a corpus; it standardises every column, so the weight does not change it.
With ``--start`` the tower is also read half-way back to the weights that it started from,
:math:`\theta_0 + \alpha (\theta - \theta_0)` for everything that the start has, which often helps
in domains with few authors; the parts that it has not, and their statistics, stay. Test authors are
never read.

Command:  python experiments/extractor/tower_weight.py style.safetensors
          --start scratch/extractor/texts/start.safetensors --out
          experiments/results/extractor_towers.json
          (--texts: the folder of pack.py unpack)
Hardware: one core, six minutes; one H200, half a minute.
Expect:   best at 0.7 with a mean AUC of 0.8895, 0.8872 at 1; nothing below alpha = 1 better.
"""

from __future__ import annotations

import argparse
import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from evaluate import Material, Texts, levs_of, read_material, score, thinned
from linear_svm import cross_validated_errors
from numpy.typing import NDArray
from safetensors.numpy import load_file

from whowrote import __version__
from whowrote.features.adhominem import PRETRAINED
from whowrote.features.encoder import bert_state
from whowrote.features.reading import SECTION, Extractor, read_extractor
from whowrote.files import sha256_of, write_text
from whowrote.metrics import auc

DOMAINS = ("blogs", "hotels", "mail", "forum")
WEIGHTS = (0.0, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2)
ALPHAS = (0.8, 0.6)
TEXTS_PER_CORPUS = 1500
SVM_TEXTS, SVM_FEWEST, SVM_MOST = 8, 10, 60
"""Texts that an author must have for the SVM; authors that a corpus must and may have."""


@torch.no_grad()
def towards_start(extractor: Extractor, start: Path, alpha: float) -> Extractor:
    """The second tower at the start + alpha (trained - start)."""
    network = copy.deepcopy(extractor.network)
    assert network.encoder is not None
    own = network.encoder.state_dict()
    for name, value in bert_state(load_file(start), network.encoder.shape).items():
        own[name].copy_(value + alpha * (own[name] - value))
    return replace(extractor, network=network)


def alone(extractor: Extractor) -> Extractor:
    """The second tower and nothing else."""
    network = copy.deepcopy(extractor.network)
    shape = replace(network.architecture.encoder, alone=True)
    assert network.encoder is not None
    network.encoder.shape = shape
    network.architecture = replace(network.architecture, encoder=shape)
    return replace(extractor, network=network)


def aucs(vectors: NDArray[Any], sets: Mapping[str, Texts]) -> dict[str, float]:
    """AUC of the cosine in each corpus, and the mean."""
    cuts = np.cumsum([len(own.texts) for own in sets.values()])[:-1]
    found = {}
    for name, rows in zip(sets, np.split(vectors, cuts), strict=True):
        scored = score(rows, sets[name].authors)
        found[name] = auc(scored.scores, scored.pairs.same)
    return found | {"mean": float(np.mean(list(found.values())))}


def svm_errors(vectors: NDArray[Any], sets: Mapping[str, Texts]) -> dict[str, float]:
    """Error of the linear SVM in each corpus that has authors with enough texts."""
    cuts = np.cumsum([len(own.texts) for own in sets.values()])[:-1]
    found = {}
    for name, rows in zip(sets, np.split(vectors, cuts), strict=True):
        authors, counts = np.unique(sets[name].authors, return_counts=True)
        kept = authors[counts >= SVM_TEXTS][:SVM_MOST]
        own = np.isin(sets[name].authors, kept)
        if len(kept) >= SVM_FEWEST:
            errors = cross_validated_errors(rows[own], sets[name].authors[own])
            found[name] = float(np.mean(errors))
    return found


def weighed(
    first: NDArray[Any], second: NDArray[Any], sets: Mapping[str, Texts]
) -> dict[str, dict[str, float]]:
    """AUC for every weight of the second tower."""
    return {f"{w:g}": aucs(np.concatenate([first, w * second], axis=1), sets) for w in WEIGHTS}


def best(by_weight: Mapping[str, Mapping[str, float]]) -> str:
    """The weight with the highest mean.

    >>> best({"0.5": {"mean": 0.8}, "1": {"mean": 0.7}})
    '0.5'
    """
    return max(by_weight, key=lambda weight: by_weight[weight]["mean"])


def development(texts: Path) -> dict[str, Texts]:
    """Development authors of the corpora: those of the first so many texts of each."""
    read = read_material(None, {name: texts / f"{name}.jsonl" for name in DOMAINS}, {})
    own = Material(None, {key: texts for key, texts in read.domains.items() if key[1] == 1})
    kept = thinned(own, 1, TEXTS_PER_CORPUS).domains
    return {name: kept[name, 1] for name in DOMAINS}


def measure(
    weights: Path,
    sets: Mapping[str, Texts],
    start: Path | None,
    alphas: Sequence[float] = ALPHAS,
    device: str = "cpu",
) -> dict[str, Any]:
    """The record."""
    texts = [text for own in sets.values() for text in own.texts]
    extractor = read_extractor(weights, device)

    def vectors(read: Extractor) -> NDArray[np.float32]:
        return levs_of(read, texts, device, SECTION)

    first = vectors(read_extractor(weights, device, small=True))
    second = vectors(alone(extractor))
    published = vectors(read_extractor(PRETRAINED, device))
    by_weight = weighed(first, second, sets)
    record = {
        "version": __version__,
        "weights_sha256": sha256_of(weights),
        "authors": "development",
        "texts": {name: len(own.texts) for name, own in sets.items()},
        "AdHominem": aucs(published, sets),
        "first tower": aucs(first, sets),
        "second tower": aucs(second, sets),
        "by weight": by_weight,
        "best weight": float(best(by_weight)),
        "linear SVM": {
            "AdHominem": svm_errors(published, sets),
            "first tower": svm_errors(first, sets),
            "both towers": svm_errors(np.concatenate([first, second], axis=1), sets),
        },
        "towards the start": {},
    }
    for alpha in alphas if start is not None else ():
        moved = vectors(alone(towards_start(extractor, Path(start or ""), alpha)))
        record["towards the start"][f"{alpha:g}"] = weighed(first, moved, sets)
    return record


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weights", type=Path)
    parser.add_argument("--texts", type=Path, default=Path("scratch/extractor/texts"))
    parser.add_argument("--start", type=Path, help="what the tower started from")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    given = parser.parse_args()
    record = measure(given.weights, development(given.texts), given.start, device=given.device)
    if given.out:
        write_text(given.out, json.dumps(record, indent=1) + "\n")
    for weight, found in record["by weight"].items():
        print(weight, {name: round(value, 4) for name, value in found.items()})
    print("best weight:", record["best weight"])


if __name__ == "__main__":
    main()
