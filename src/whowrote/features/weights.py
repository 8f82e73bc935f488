"""A trained extractor in one file: half-precision safetensors, vocabulary and settings in JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from whowrote import persistence
from whowrote.errors import InputError
from whowrote.features.counting import FittedNGrams
from whowrote.features.network import Architecture, Network
from whowrote.features.vocabulary import Vocabulary, vocabulary_from

KIND = "AdHominem"
NGRAMS = "ngrams/"


@dataclass(frozen=True)
class Extractor:
    """A network, what it reads, how long a stretch it was trained on, and where it comes from."""

    network: Network
    vocabulary: Vocabulary
    longest: int = 264
    card: Mapping[str, Any] = field(default_factory=dict)
    ngrams: FittedNGrams | None = None
    """The n-grams that it reads besides, if it does."""


def write_extractor(path: Path, extractor: Extractor) -> None:
    """Write the weights in half precision."""
    state = extractor.network.state_dict()
    arrays = {
        name: value.detach().cpu().numpy().astype(np.float16) for name, value in state.items()
    }
    if extractor.ngrams is not None:
        arrays |= {f"{NGRAMS}{name}": a for name, a in extractor.ngrams.state().items()}
    values = {
        "architecture": extractor.network.architecture.to_dict(),
        "vocabulary": asdict(extractor.vocabulary),
        "longest": extractor.longest,
        "card": dict(extractor.card),
    }
    persistence.write(path, persistence.Record(KIND, values, arrays))


def read_extractor(path: Path, device: torch.device | str = "cpu") -> Extractor:
    """Read weights; the network computes in single precision."""
    record = persistence.read(path, KIND)
    try:
        shape = dict(record.values["architecture"])
        shape["character_widths"] = tuple(shape["character_widths"])
        network = Network(Architecture(**shape))
        ngrams = _ngrams(record.arrays) if network.grams is not None else None
        network.load_state_dict(
            {
                name: torch.from_numpy(a.astype(np.float32))
                for name, a in record.arrays.items()
                if not name.startswith(NGRAMS)
            }
        )
        vocabulary = vocabulary_from(record.values["vocabulary"])
        longest, card = int(record.values["longest"]), record.values["card"]
    except (KeyError, TypeError, RuntimeError) as problem:
        raise InputError(
            f"the weights in '{path}' do not fit this version of whowrote "
            f"({str(problem).splitlines()[0]}); train them again or change versions"
        ) from None
    return Extractor(network.to(device).requires_grad_(False), vocabulary, longest, card, ngrams)


def _ngrams(arrays: Mapping[str, NDArray[Any]]) -> FittedNGrams:
    return FittedNGrams.restore(persistence.below(NGRAMS, arrays))
