"""Trained extractor weights on authors they never saw: attribution and verification.

Attribution: a linear SVM (C = 0.1, fixed beforehand) on the LEVs of Blog-30, 5 stratified folds,
seed 0. Verification: 5,000 balanced pairs of the test authors of every corpus given with
``--corpus``, and of all authors of those given with ``--probe``, which no training may have seen.
The cosine becomes a probability by a logistic curve fitted on pairs of development authors; a probe
is evaluated with the curve of all corpora together. The test authors are only read.

Command:  python experiments/extractor/evaluate.py extractor.safetensors --blog30 blog30.parquet
          --corpus blogs=blogs_train.parquet --corpus mail=mail_train.parquet
          --probe amazon=amazon_music.parquet --out record.json
Hardware: one H200 with 16 cores, about a minute; two cores, about five minutes.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from linear_svm import cross_validated_errors
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from whowrote import __version__
from whowrote.corpus.texts import load
from whowrote.features.encoder import DevicePieces, encode, in_eight_bits
from whowrote.features.extractor.preparation import (
    Numbered,
    number,
    pieces_of,
    read_domain,
    rows_of,
)
from whowrote.features.layers import GramRows
from whowrote.features.pieces import PieceRows
from whowrote.features.reading import SECTION, DeviceCorpus, Extractor, embed, read_extractor
from whowrote.files import write_text
from whowrote.metrics import Pairs, balanced_pairs, cosines, verify
from whowrote.runtime import usable_cores

PAIRS = 5000
TEXTS_AT_ONCE = 2048
PENALTY = 0.1
CORES = usable_cores()
EVERYONE = -1
"""In the place of a side of the split: all authors."""


@dataclass(frozen=True)
class Texts:
    """Texts to be evaluated on, and who wrote them."""

    texts: Sequence[str]
    authors: NDArray[Any]


@dataclass(frozen=True)
class Material:
    """All texts, read once for any number of extractors; domains by name and side of the split."""

    blog30: Texts | None = None
    domains: Mapping[tuple[str, int], Texts] = field(default_factory=dict)
    probes: Mapping[str, Texts] = field(default_factory=dict)

    def sets(self) -> list[Texts]:
        """Blog-30, the domains, the probes."""
        blog30 = [self.blog30] if self.blog30 else []
        return [*blog30, *self.domains.values(), *self.probes.values()]

    def texts(self) -> list[str]:
        """All texts in the order of the sets."""
        return [text for own in self.sets() for text in own.texts]


def read_material(
    blog30: Path | None, corpora: Mapping[str, Path], probes: Mapping[str, Path]
) -> Material:
    """Read what the weights are to be evaluated on."""
    domains = {}
    for name, path in corpora.items():
        domains[name, 1], domains[name, 2] = _sides(name, path, (1, 2))
    return Material(
        None if blog30 is None else _blog30(blog30),
        domains,
        {name: _sides(name, path, (EVERYONE,))[0] for name, path in probes.items()},
    )


def thinned(material: Material, every: int, most: int) -> Material:
    """Every so many-th text of Blog-30; the authors of the first ``most`` texts of each side."""

    def some(texts: Texts, rows: NDArray[np.int64]) -> Texts:
        return Texts([texts.texts[row] for row in rows], texts.authors[rows])

    def first(texts: Texts) -> Texts:
        last = texts.authors[min(most, len(texts.authors)) - 1]
        return some(texts, np.flatnonzero(texts.authors <= last))

    blog30 = material.blog30
    if blog30 is not None:
        blog30 = some(blog30, np.arange(0, len(blog30.texts), every))
    return Material(
        blog30,
        {key: first(own) for key, own in material.domains.items()},
        {name: first(own) for name, own in material.probes.items()},
    )


def _blog30(path: Path) -> Texts:
    corpus = load(path)
    return Texts(corpus.texts, np.array(corpus.authors))


def _sides(name: str, path: Path, sides: Sequence[int]) -> list[Texts]:
    domain = read_domain(name, path)
    part = domain.parts[domain.authors]
    every = np.ones(len(part), dtype=bool)
    rows = [np.flatnonzero(every if side == EVERYONE else part == side) for side in sides]
    return [Texts([domain.texts[row] for row in own], domain.authors[own]) for own in rows]


@dataclass(frozen=True)
class Read:
    """Texts by the tables of an extractor: tokens, n-grams and word pieces."""

    numbered: Numbered
    grams: GramRows | None
    pieces: PieceRows | None


def read_texts(extractor: Extractor, texts: Sequence[str]) -> Read:
    """Tokenised by all cores; any extractor with the same tables can be given the result."""
    return Read(
        number(texts, extractor.vocabulary, CORES),
        None if extractor.ngrams is None else rows_of(texts, extractor.ngrams, CORES),
        None if extractor.pieces is None else pieces_of(texts, extractor.pieces, CORES),
    )


def levs_of(
    extractor: Extractor, texts: Sequence[str] | Read, device: str, longest: int
) -> NDArray[np.float32]:
    """The LEVs of texts; the network goes to the device and stays there."""
    read = texts if isinstance(texts, Read) else read_texts(extractor, texts)
    numbered = read.numbered
    corpus = DeviceCorpus.place(numbered.tokens, numbered.types, device, read.grams)
    bounds = (numbered.offsets[:-1], numbered.lengths)
    windows = 8192 if torch.device(device).type == "cuda" else 256
    network = extractor.network.to(device)  # training hands it over on the CPU
    levs = embed(network, corpus, *bounds, longest=longest, windows=windows)
    found: NDArray[np.float32] = levs.cpu().numpy()
    if network.encoder is None or read.pieces is None:
        return found
    places = (read.pieces.offsets[:-1], read.pieces.lengths)
    placed = DevicePieces.place(read.pieces, device)
    encoded = encode(in_eight_bits(network.encoder), placed, *places, at_once=TEXTS_AT_ONCE)
    second = encoded.cpu().numpy()
    return second if network.encoder.shape.alone else np.concatenate([found, second], axis=1)


@dataclass(frozen=True)
class Scored:
    """Pairs, and the cosine of each."""

    scores: NDArray[np.floating]
    pairs: Pairs


def score(levs: NDArray[np.float32], authors: NDArray[Any]) -> Scored:
    """Cosines of balanced pairs."""
    pairs = balanced_pairs(np.unique(authors, return_inverse=True)[1], PAIRS)
    return Scored(cosines(levs, pairs), pairs)


def curve(scored: Sequence[Scored]) -> LogisticRegression:
    """From cosine to probability, by pairs of development authors."""
    scores = np.concatenate([own.scores for own in scored])[:, None]
    return LogisticRegression(C=1e6).fit(scores, np.concatenate([own.pairs.same for own in scored]))


def evaluate(
    extractor: Extractor,
    material: Material,
    device: str,
    longest: int = SECTION,
    read: Read | None = None,
) -> dict[str, Any]:
    """Everything that is reported of one extractor; ``read`` are all texts, read before."""
    sets, began = material.sets(), perf_counter()
    levs = levs_of(extractor, read or material.texts(), device, longest)
    record: dict[str, Any] = {"longest": longest, "embedding_seconds": perf_counter() - began}
    cut = iter(np.split(levs, np.cumsum([len(own.texts) for own in sets])[:-1]))
    if material.blog30:
        errors = cross_validated_errors(next(cut), material.blog30.authors, PENALTY)
        record["blog30"] = {
            "texts": len(material.blog30.texts),
            "C": PENALTY,
            "error": float(np.mean(errors)),
            "folds": errors,
        }
    scored = {key: score(next(cut), own.authors) for key, own in material.domains.items()}
    probes = {name: score(next(cut), own.authors) for name, own in material.probes.items()}
    record |= _verification(scored, probes)
    return record


def _verification(
    scored: Mapping[tuple[str, int], Scored], probes: Mapping[str, Scored]
) -> dict[str, Any]:
    if not scored:
        return {}
    names = list(dict.fromkeys(name for name, _ in scored))
    asked = {name: (curve([scored[name, 1]]), scored[name, 2]) for name in names}
    joint = curve([scored[name, 1] for name in names])
    asked |= {name: (joint, own) for name, own in probes.items()}
    return {
        "development_auc": {
            name: verify(scored[name, 1].scores, scored[name, 1].pairs.same).auc for name in names
        },
        "verification": {
            name: verify(found.predict_proba(own.scores[:, None])[:, 1], own.pairs.same).to_dict()
            for name, (found, own) in asked.items()
        },
    }


def report(record: Mapping[str, Any]) -> str:
    """The record in a few lines."""
    lines = []
    if "blog30" in record:
        lines.append(f"Blog-30, linear SVM, C={PENALTY:g}: error {record['blog30']['error']:.2%}")
    for name, figures in record.get("verification", {}).items():
        lines.append(
            f"{name:8} AUC {figures['auc']:.4f}  c@1 {figures['c_at_1']:.4f}  F0.5u "
            f"{figures['f_05_u']:.4f}  F1 {figures['f1']:.4f}  Brier {figures['brier']:.4f}"
        )
    return "\n".join(lines)


def named(values: list[str]) -> dict[str, Path]:
    """``name=path`` arguments."""
    return {name: Path(path) for name, path in (value.split("=", 1) for value in values)}


def main() -> None:
    """Run and record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("weights", type=Path)
    parser.add_argument("--blog30", type=Path)
    parser.add_argument("--corpus", action="append", default=[], help="name=path, as in training")
    parser.add_argument("--probe", action="append", default=[], help="name=path, never trained on")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--longest", type=int, default=SECTION, help="tokens read in one piece")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    extractor = read_extractor(options.weights, options.device)
    material = read_material(options.blog30, named(options.corpus), named(options.probe))
    record = {"version": __version__, "card": dict(extractor.card)}
    record |= evaluate(extractor, material, options.device, options.longest)
    print(report(record), flush=True)
    if options.out:
        write_text(options.out, json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
