"""A thinned corpus and start weights in 8 bits, for short comparisons on a borrowed GPU.

A comparison that is equal in steps needs neither all texts nor exact start weights. ``pack`` keeps
some authors of each side of the split (drawn by a hash of their names), some texts of each, every
eighth text of Blog-30, and the weights with one step for each row of a matrix; everything is
compressed. The texts and the first tower's start go to OUT/texts, the second tower's to OUT/start.
``unpack`` makes of either folder what style_ablations.py reads. Texts are never committed.

Command:  python experiments/extractor/thin.py pack DATA MODEL OUT
          (DATA holds the Parquet tables, MODEL the files of all-MiniLM-L6-v2)
          python experiments/extractor/thin.py unpack OUT/texts OUT/start --into TARGET
Hardware: two cores, a minute to pack; some seconds to unpack.
"""

from __future__ import annotations

import argparse
import bz2
import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, load_file, save, save_file

from whowrote.features.encoder import from_eight_bits, to_eight_bits
from whowrote.features.extractor.preparation import part_of
from whowrote.features.reading import read_extractor, write_extractor

KEPT = {
    "blogs": ((2000, 200, 400), 4),
    "hotels": ((4500, 400, 800), 2),
    "mail": ((1400, 100, 100), 5),
    "forum": ((1400, 100, 100), 7),
}
"""Authors of each side of the split, and texts of each author."""
EVERY = 8
LAYERS = 4
STEPS = "steps/"
FIRST = Path("src/whowrote/features/pretrained/adhominem.safetensors")


def rows_of(path: Path) -> list[tuple[str, str]]:
    """Authors and texts of a table."""
    import pyarrow.parquet as pq

    table = pq.read_table(path, columns=["author", "text"])
    return list(zip(*(table.column(name).to_pylist() for name in ("author", "text")), strict=True))


def thinned(
    name: str, rows: list[tuple[str, str]], most: tuple[int, ...], texts: int
) -> list[tuple[str, str]]:
    """Some texts of some authors of each side, of those who wrote two."""
    written: dict[str, list[str]] = defaultdict(list)
    for author, text in rows:
        written[author].append(text)
    sides: list[list[str]] = [[], [], []]
    for author in sorted(written, key=lambda own: hashlib.sha256(f"thin/{own}".encode()).digest()):
        if len(written[author]) > 1:
            sides[part_of(name, author)].append(author)
    kept = {a for side, count in zip(sides, most, strict=True) for a in side[:count]}
    return [(author, text) for author in sorted(kept) for text in written[author][:texts]]


def squeezed(rows: list[tuple[str, str]]) -> bytes:
    """Compressed JSON lines."""
    lines = (json.dumps({"author": a, "text": t}, ensure_ascii=False) + "\n" for a, t in rows)
    return bz2.compress("".join(lines).encode())


def in_steps(arrays: Mapping[str, NDArray[Any]], layers: int) -> dict[str, NDArray[Any]]:
    """The first layers of a sentence encoder: matrices in 8 bits, the rest in half precision."""
    found: dict[str, NDArray[Any]] = {}
    for name, array in arrays.items():
        later = "encoder.layer." in name and int(name.split("layer.")[1].split(".")[0]) >= layers
        if later or "pooler" in name or not array.ndim:
            continue
        if array.ndim > 1 and np.issubdtype(array.dtype, np.floating):
            found[name], found[STEPS + name] = to_eight_bits(array)
        else:
            found[name] = array.astype(np.float16)
    return found


def from_steps(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """What :func:`in_steps` kept, in single precision."""
    return {
        name: from_eight_bits(array, arrays[STEPS + name])
        if STEPS + name in arrays
        else array.astype(np.float32)
        for name, array in arrays.items()
        if not name.startswith(STEPS)
    }


def pack(data: Path, model: Path, out: Path) -> None:
    """Fill OUT/texts and OUT/start."""
    texts, start = out / "texts", out / "start"
    for folder in (texts, start):
        folder.mkdir(parents=True, exist_ok=True)
    for name, (most, own) in KEPT.items():
        rows = thinned(name, rows_of(data / f"{name}_train.parquet"), most, own)
        (texts / f"{name}.jsonl.bz2").write_bytes(squeezed(rows))
        print(f"{name}: {len({a for a, _ in rows})} authors, {len(rows)} texts")
    blog30 = rows_of(data / "blog30.parquet")[::EVERY]
    (texts / "blog30.jsonl.bz2").write_bytes(squeezed(blog30))
    draft = out / "adhominem.safetensors"
    write_extractor(draft, read_extractor(FIRST), bits=8)
    (texts / f"{draft.name}.bz2").write_bytes(bz2.compress(draft.read_bytes()))
    draft.unlink()
    (texts / "vocab.txt.bz2").write_bytes(bz2.compress((model / "vocab.txt").read_bytes()))
    weights = save(in_steps(load_file(model / "model.safetensors"), LAYERS))
    (start / "start.steps.bz2").write_bytes(bz2.compress(weights))
    for folder in (texts, start):
        size = sum(path.stat().st_size for path in folder.iterdir())
        print(f"{folder}: {size / 1e6:.1f} MB")


def unpack(folders: list[Path], into: Path) -> None:
    """The files that style_ablations.py reads."""
    into.mkdir(parents=True, exist_ok=True)
    for folder in folders:
        for path in sorted(folder.glob("*.bz2")):
            data = bz2.decompress(path.read_bytes())
            if path.name == "start.steps.bz2":
                save_file(from_steps(load(data)), into / "start.safetensors")
            else:
                (into / path.stem).write_bytes(data)


def main() -> None:
    """Pack or unpack."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    packing = commands.add_parser("pack")
    for name in ("data", "model", "out"):
        packing.add_argument(name, type=Path)
    unpacking = commands.add_parser("unpack")
    unpacking.add_argument("folders", type=Path, nargs="+")
    unpacking.add_argument("--into", type=Path, required=True)
    given = parser.parse_args()
    if given.command == "pack":
        pack(given.data, given.model, given.out)
    else:
        unpack(given.folders, given.into)


if __name__ == "__main__":
    main()
