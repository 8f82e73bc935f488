r"""Where the weights of a run start, and how far each step goes.

.. math:: \theta_0 \sim p(\theta \mid \text{seed}), \qquad
    E_t = v_t / \operatorname{sd}(v), \qquad W_0 = 0.1\, V_k, \qquad
    \eta(t) = \eta\, \min\!\left(1, \tfrac{t + 1}{t_w}\right)
    \left(f + (1 - f)\, \tfrac{1 + \cos \pi s}{2}\right)

:math:`v_t` is the given vector of word t, if there is one, and :math:`V_k` the leading directions
of the n-grams of the training documents. Earlier weights, where named, replace all that they fit.
:math:`t_w` is the number of steps of warm-up, :math:`s` the share of the run that is done and
:math:`f` the share of the rate that is left at its end.
"""

from __future__ import annotations

import math
import re
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from whowrote.drafts import regular
from whowrote.errors import InputError, first_line
from whowrote.features.counting import FittedNGrams
from whowrote.features.encoder import EncoderShape, start_encoder
from whowrote.features.extractor.preparation import Prepared
from whowrote.features.extractor.recipe import Config, Recipe
from whowrote.features.layers import leading_directions
from whowrote.features.network import Network
from whowrote.features.pieces import END, HIDDEN, START, PieceTable, shares_of_users
from whowrote.features.reading import DeviceCorpus, read_extractor
from whowrote.features.vocabulary import FIRST_WORD, Vocabulary

GRAM_DEVIATION = 0.1
SKETCH_ROWS = 40_000
"""Documents from which it is learnt where the n-grams' table starts."""


def make_network(
    config: Config,
    vocabulary: Vocabulary,
    ngrams: FittedNGrams | None = None,
    table: PieceTable | None = None,
) -> Network:
    """The network for a vocabulary, with weights that depend on the seed alone."""
    sizes: dict[str, Any] = {
        "encoder": encoder_for(config.encoder, table),
        "n_words": len(vocabulary.words),
        "n_characters": len(vocabulary.characters),
        "n_grams": sum(len(block.keys) for block in ngrams.grams) if ngrams else 0,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.recipe.seed)
        network = Network(replace(config.network, **sizes))
    if config.glove is not None:
        words, vectors = _glove(config.glove)
        start_words(network, vocabulary, words, vectors)
    if network.encoder is not None and config.start_encoder is not None:
        start_encoder(network.encoder, config.start_encoder)
    return network


def _glove(path: Path) -> tuple[list[str], NDArray[Any]]:
    """Words and their vectors."""
    try:
        with open(path, "rb", opener=regular) as raw, np.load(raw) as glove:
            return glove["words"].tolist(), glove["vectors"]
    except (EOFError, KeyError, TypeError, ValueError, zipfile.BadZipFile) as problem:
        raise InputError(
            f"glove is '{path}', which cannot be read ({first_line(problem)}); it must be an .npz "
            "with the arrays words and vectors"
        ) from None


def encoder_for(shape: EncoderShape, table: PieceTable | None) -> EncoderShape:
    """The second tower for a table of word pieces."""
    if table is None:
        return shape
    special = tuple(table.index[piece] for piece in (START, END, HIDDEN))
    return replace(shape, n_pieces=len(table), special=special)


@torch.no_grad()
def mark_rare(network: Network, prepared: Prepared, common: int) -> None:
    """Tell the second tower which pieces are rare: all but those that the most authors use."""
    if network.encoder is None or prepared.pieces is None:
        return
    size, learnt = network.encoder.shape.n_pieces, prepared.part == 0
    shares = shares_of_users(prepared.pieces, prepared.authors, prepared.domain_of, learnt, size)
    rare = torch.ones(size)
    rare[torch.from_numpy(np.argsort(-shares, kind="stable")[:common].copy())] = 0.0
    network.encoder.rare.copy_(rare)


@torch.no_grad()
def start_words(
    network: Network, vocabulary: Vocabulary, words: Sequence[str], vectors: NDArray[Any]
) -> None:
    """Start the word table in given vectors, scaled to the size of the others."""
    table = network.words.weight
    if vectors.shape[1] != table.shape[1]:
        raise InputError(
            f"the given word vectors have {vectors.shape[1]} dimensions and word_dim is "
            f"{table.shape[1]}; they must agree: set word_dim"
        )
    rows = {word: number for number, word in enumerate(words)}
    scaled = vectors.astype(np.float32) / vectors.astype(np.float32).std()
    for number, word in enumerate(vocabulary.words, start=FIRST_WORD):
        if word.strip().lower() in rows:
            table[number] = torch.from_numpy(scaled[rows[word.strip().lower()]])


@torch.no_grad()
def start_grams(network: Network, corpus: DeviceCorpus, prepared: Prepared, seed: int) -> None:
    """Start the n-grams' table in the leading directions of the training documents."""
    if network.grams is None:
        return
    learnt = np.flatnonzero(prepared.part[prepared.authors] == 0)
    rows = corpus.rows_of(
        learnt[np.random.default_rng(seed).permutation(len(learnt))[:SKETCH_ROWS]]
    )
    assert rows is not None
    n_grams, size = network.grams.shape
    if size > n_grams:
        raise InputError(
            f"gram_dim is {size} and the corpora have {n_grams} widely used n-grams; it must be at "
            "most as many: lower gram_dim or raise n_grams"
        )
    directions = leading_directions(rows, n_grams, size, seed)
    network.grams.copy_(GRAM_DEVIATION * directions)


@torch.no_grad()
def start_from(network: Network, weights: Path | None) -> None:
    """Take over what earlier weights have in common with this network."""
    if weights is None:
        return
    before, state = read_extractor(weights).network.state_dict(), network.state_dict()
    same = {name for name in state if name in before and before[name].shape == state[name].shape}
    network.load_state_dict({name: before[name] for name in same}, strict=False)


def learning_rate(recipe: Recipe, step: int, share_done: float) -> float:
    """Linear warm-up, then half a cosine down to ``final_rate``."""
    warm = min(1.0, (step + 1) / max(1, recipe.warm_up))
    fall = (1 + math.cos(math.pi * min(1.0, share_done))) / 2
    return recipe.learning_rate * warm * (recipe.final_rate + (1 - recipe.final_rate) * fall)


SLOW = re.compile(r"network\.encoder\.(pieces|places|norm|layers)\b")
"""What the second tower starts with; its marks and what follows its means are new."""


def make_optimizer(
    modules: nn.Module, recipe: Recipe, device: torch.device
) -> torch.optim.Optimizer:
    """AdamW; vectors and the temperature are not decayed, what has been learnt before is slow."""
    shares = {"": 1.0, "grams": recipe.gram_rate, "encoder": recipe.encoder_rate}
    parts: dict[tuple[str, bool], list[nn.Parameter]] = {("", True): [], ("", False): []}
    for name, parameter in modules.named_parameters():
        kind = "grams" if name == "network.grams" else "encoder" if SLOW.match(name) else ""
        parts.setdefault((kind, parameter.ndim > 1), []).append(parameter)
    groups: list[dict[str, Any]] = [
        {"params": own, "share": shares[kind], "weight_decay": recipe.weight_decay * matrix}
        for (kind, matrix), own in parts.items()
    ]
    return torch.optim.AdamW(
        groups, lr=recipe.learning_rate, betas=(0.9, 0.99), fused=device.type == "cuda"
    )
