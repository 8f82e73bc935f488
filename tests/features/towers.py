"""A second tower of a few thousand parameters, and the files that it starts from."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from features.made_up import MARKS, WORDS, small_config
from whowrote.features.encoder import EncoderShape
from whowrote.features.extractor.recipe import Config
from whowrote.features.pieces import SPECIAL, PieceTable

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
PIECES = tuple(
    dict.fromkeys(
        [*SPECIAL, *LETTERS, *(f"##{c}" for c in LETTERS), *"".join(MARKS).strip(), *WORDS, "-"]
    )
)
TABLE = PieceTable(tuple(piece for piece in PIECES if piece != " "))
SHAPE = EncoderShape(
    layers=2,
    width=16,
    heads=2,
    hidden=24,
    positions=42,
    depths=(0, 1, 2),
    lev_dim=10,
    n_pieces=len(TABLE),
    special=tuple(TABLE.index[name] for name in ("[CLS]", "[SEP]", "[MASK]")),
)


def bert_arrays(shape: EncoderShape = SHAPE, seed: int = 0) -> dict[str, NDArray[Any]]:
    """Weights of a BERT model with the names that its files have."""
    random = np.random.default_rng(seed)
    w, h = shape.width, shape.hidden
    sizes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (shape.n_pieces, w),
        "embeddings.position_embeddings.weight": (shape.positions, w),
        "embeddings.token_type_embeddings.weight": (2, w),
        "embeddings.LayerNorm.weight": (w,),
        "embeddings.LayerNorm.bias": (w,),
    }
    linear = {f"attention.self.{part}": (w, w) for part in ("query", "key", "value")}
    linear |= {"attention.output.dense": (w, w), "intermediate.dense": (h, w)}
    linear |= {"output.dense": (w, h)}
    for number in range(shape.layers):
        own = f"encoder.layer.{number}."
        for name, size in linear.items():
            sizes |= {f"{own}{name}.weight": size, f"{own}{name}.bias": size[:1]}
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            sizes |= {f"{own}{name}.weight": (w,), f"{own}{name}.bias": (w,)}
    return {
        name: (random.normal(0, 0.3, size) + name.endswith("Norm.weight")).astype(np.float32)
        for name, size in sizes.items()
    }


def tower_config(folder: Path, **sections: Any) -> Config:
    """The small configuration with a second tower."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in TABLE.pieces))
    if not (folder / "start.safetensors").exists():
        save_file(bert_arrays(), folder / "start.safetensors")
    encoder = {"layers": 2, "width": 16, "heads": 2, "hidden": 24, "positions": 42}
    encoder |= {"depths": [0, 1, 2], "lev_dim": 10} | sections.pop("encoder", {})
    batch = {"min_pieces": 20, "max_pieces": 40} | sections.pop("batch", {})
    return small_config(
        folder,
        encoder=encoder,
        batch=batch,
        pieces="vocab.txt",
        start_encoder="start.safetensors",
        **sections,
    )
