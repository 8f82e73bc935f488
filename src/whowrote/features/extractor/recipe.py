"""The TOML file that describes a training run: corpora, tables, network, batches, recipe."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from whowrote.errors import InputError
from whowrote.features.encoder import EncoderShape
from whowrote.features.extractor.batches import BatchSettings
from whowrote.features.network import Architecture, Dropout
from whowrote.features.vocabulary import VocabularySettings
from whowrote.schema import check_names, from_table, read_toml, section

LOSSES = ("batch", "pairs")
PRECISIONS = ("bfloat16", "float32")
UNCHECKED = ("steps", "max_minutes", "evaluate_every", "checkpoint_minutes")
"""What a resumed run may change."""


@dataclass(frozen=True)
class Recipe:
    """How the network is trained, and for how long: ``steps``, ``max_minutes``, or who is first."""

    loss: str = "batch"
    steps: int | None = None
    max_minutes: float | None = None
    learning_rate: float = 1e-3
    final_rate: float = 0.02
    """Share of the rate that is left at the end of the cosine."""
    gram_rate: float = 0.1
    """Share of the rate at which the n-grams' table learns: fast, it would learn who is who."""
    encoder_rate: float = 0.3
    """Share of the rate at which what the second tower starts with goes on learning."""
    tower_weight: float = 0.0
    """Weight of the loss of each tower by itself, beside that of both together."""
    imitation: float = 0.0
    """Weight of the first tower's imitation of both: it is the small size of the extractor."""
    common_pieces: int = 8000
    """How many of the most widely used word pieces are not rare (``dropout.rare``)."""
    warm_up: int = 200
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    average: float = 0.999
    """How much of the running average of the weights, which is what counts, each step keeps."""
    temperature: float = 0.1
    same_text: bool = False
    """Whether two crops of one text may be a pair by one author (batch loss)."""
    precision: str = "bfloat16"
    """On a GPU; a CPU computes in single precision."""
    evaluate_every: int = 500
    evaluate_documents: int = 4000
    """Development documents of each domain."""
    checkpoint_minutes: float = 2.0
    neighbours: int = 16
    """From how many nearest authors hard negatives are drawn (``batch.hard_share``)."""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.loss not in LOSSES:
            raise InputError(f"loss is '{self.loss}'; it must be one of {list(LOSSES)}: choose one")
        if self.precision not in PRECISIONS:
            raise InputError(
                f"precision is '{self.precision}'; it must be one of {list(PRECISIONS)}: choose one"
            )
        if self.steps is None and self.max_minutes is None:
            raise InputError(
                "[training] has neither steps nor max_minutes; a run needs an end: give one"
            )
        for name in ("learning_rate", "clip_norm", "temperature", "evaluate_every"):
            if getattr(self, name) <= 0:
                raise InputError(
                    f"{name} is {getattr(self, name)}; it must be above 0: give a larger one"
                )
        if not 0 <= self.average < 1:
            raise InputError(f"average is {self.average}; it must be in [0, 1): give 0.999")


@dataclass(frozen=True)
class Config:
    """A whole run. Paths are relative to the file that names them."""

    corpora: dict[str, Path]
    out: Path
    cache: Path
    recipe: Recipe
    vocabulary: VocabularySettings = field(default_factory=VocabularySettings)
    network: Architecture = field(default_factory=Architecture)
    batch: BatchSettings = field(default_factory=BatchSettings)
    dropout: Dropout = field(default_factory=Dropout)
    max_authors: dict[str, int] = field(default_factory=dict)
    mixture: dict[str, float] = field(default_factory=dict)
    """How often each domain is drawn, instead of ``batch.alpha``."""
    glove: Path | None = None
    """An ``.npz`` with ``words`` and ``vectors`` in which the word table starts."""
    start: Path | None = None
    """Earlier weights; every tensor of the same name and shape starts in theirs."""
    start_tables: bool = False
    """Whether words and n-grams are those of ``start``, instead of being chosen anew."""
    encoder: EncoderShape = field(default_factory=EncoderShape)
    """The second tower, with the table of its word pieces (a ``vocab.txt``) and its start."""
    pieces: Path | None = None
    start_encoder: Path | None = None

    def __post_init__(self) -> None:
        if self.encoder.layers and self.pieces is None:
            raise InputError(
                f"[encoder] has {self.encoder.layers} layers and no pieces are named; a second "
                "tower reads word pieces: give pieces = 'vocab.txt'"
            )
        if self.start_tables and self.start is None:
            raise InputError(
                "start_tables is true and there is no start; the tables of earlier weights are "
                "meant: name them with start"
            )

    def settings(self) -> dict[str, Any]:
        """Everything but paths and duration, as plain values: what a resumed run must share."""
        recipe = asdict(self.recipe)
        for name in UNCHECKED:
            del recipe[name]
        settings = {
            "corpora": sorted(self.corpora),
            "training": recipe,
            "vocabulary": asdict(self.vocabulary),
            "network": self.network.to_dict(),
            "batch": asdict(self.batch),
            "dropout": asdict(self.dropout),
            "max_authors": self.max_authors,
            "mixture": self.mixture,
            "glove": self.glove is not None,
            "start": self.start is not None,
        }
        if self.encoder.layers:
            settings["encoder"] = asdict(self.encoder) | {"start": self.start_encoder is not None}
        return settings | ({"start_tables": True} if self.start_tables else {})


def read_config(path: Path) -> Config:
    """Read and check a configuration."""
    return parse_config(read_toml(path), path.parent)


SECTIONS: dict[str, type[Any]] = {
    "vocabulary": VocabularySettings,
    "network": Architecture,
    "batch": BatchSettings,
    "dropout": Dropout,
    "training": Recipe,
    "encoder": EncoderShape,
}
PATHS = ("glove", "start", "pieces", "start_encoder")
OTHERS = ("corpora", "out", "cache", "max_authors", "mixture", "start_tables", *PATHS)


def parse_config(values: Mapping[str, Any], base: Path) -> Config:
    """A configuration from plain values; every unknown name is an error."""
    check_names(values, (*SECTIONS, *OTHERS), "the file")
    built: dict[str, Any] = {
        name: from_table(kind, section(values, name), f"[{name}]")
        for name, kind in SECTIONS.items()
    }
    corpora = {str(name): base / str(file) for name, file in values.get("corpora", {}).items()}
    return Config(
        corpora=corpora,
        out=base / values.get("out", "extractor"),
        cache=base / values.get("cache", "cache"),
        recipe=built.pop("training"),
        max_authors=dict(values.get("max_authors", {})),
        mixture=dict(values.get("mixture", {})),
        start_tables=bool(values.get("start_tables", False)),
        **{name: base / values[name] for name in PATHS if name in values},
        **built,
    )


def check_same(before: Any, now: Any) -> None:
    """Settings of a checkpoint are those of the run that resumes from it."""
    for name, values in now.items():
        if _with_defaults(name, before.get(name)) != values:
            raise InputError(
                f"the checkpoint was made with {name} = {before.get(name)} and the "
                f"configuration says {values}; a run resumes with its own settings: restore them, "
                "or name another folder with out"
            )


def _with_defaults(section: str, values: Any) -> Any:
    """Entries that are newer than a checkpoint had their defaults when it was made."""
    if section not in SECTIONS or values is None:
        return values
    known = {entry.name: entry.default for entry in fields(SECTIONS[section])}
    kept = {n: v for n, v in known.items() if n not in UNCHECKED and v is not MISSING}
    return {**json.loads(json.dumps(kept)), **values}
