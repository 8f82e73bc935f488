"""Texts and start weights in parts that fit through a narrow door, and back again.

A machine with a GPU may take only so many megabytes at a time. Compressed texts are the smallest
form of a corpus: word pieces with their marks take as much, and the rows of n-grams ten times as
much; all of these are made from the texts where the training runs. ``pack`` cuts every table into
pieces of JSON lines, compresses each, and fills folders ``part-0``, ``part-1``, ... up to a limit;
the start weights of the second tower go along in half precision, with their table of word pieces.
``unpack`` puts all parts together again and checks the hash of every file. Texts are never
committed.

Command:  python experiments/extractor/pack.py pack DATA MODEL OUT --limit 36
          (DATA holds the Parquet tables, MODEL the files of all-MiniLM-L6-v2)
          python experiments/extractor/pack.py unpack OUT TARGET
Hardware: two cores, two minutes to pack; 16 cores, some seconds to unpack.
"""

from __future__ import annotations

import argparse
import bz2
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from whowrote.files import sha256_of, write_text
from whowrote.runtime import usable_cores

TABLES = {
    "forum": "forum_train.parquet",
    "mail": "mail_train.parquet",
    "blogs": "blogs_train.parquet",
    "hotels": "hotels_train.parquet",
    "blog30": "blog30.parquet",
    "amazon": "amazon_music.parquet",
    "pan": "pan_verification.parquet",
}
MANIFEST = "manifest.json"
SHARD_BYTES = 8_000_000
START = "start"
"""Name of the start weights and, with -0, -1, ..., of their pieces."""


def shards(lines: Sequence[str], limit: int = SHARD_BYTES) -> Iterator[bytes]:
    r"""Runs of whole lines of about ``limit`` bytes.

    >>> [shard.decode() for shard in shards(["a\n", "bb\n", "c\n"], limit=4)]
    ['a\nbb\n', 'c\n']
    """
    run: list[bytes] = []
    size = 0
    for line in lines:
        run.append(line.encode())
        size += len(run[-1])
        if size >= limit:
            yield b"".join(run)
            run, size = [], 0
    if run:
        yield b"".join(run)


def read_lines(path: Path) -> list[str]:
    """The rows of a table as JSON lines."""
    import pyarrow.parquet as pq

    return [json.dumps(row, ensure_ascii=False) + "\n" for row in pq.read_table(path).to_pylist()]


def start_pieces(path: Path) -> list[dict[str, np.ndarray[Any, Any]]]:
    """The start weights in half precision: the table of word pieces, then all else."""
    arrays = {name: a.astype(np.float16) for name, a in load_file(path).items() if a.ndim}
    table = {name: a for name, a in arrays.items() if "word_embeddings" in name}
    return [table, {name: a for name, a in arrays.items() if name not in table}]


class Parts:
    """Folders that are filled one after the other, each up to a limit."""

    def __init__(self, out: Path, limit: int) -> None:
        self.out, self.limit = out, limit
        self.sizes: list[int] = []

    def place(self, name: str, data: bytes) -> None:
        """Write a file into the first folder that has room."""
        if len(data) > self.limit:
            raise SystemExit(f"{name} has {len(data)} bytes; --limit is {self.limit}: raise it")
        number = next((i for i, s in enumerate(self.sizes) if s + len(data) <= self.limit), None)
        if number is None:
            number = len(self.sizes)
            self.sizes.append(0)
        self.sizes[number] += len(data)
        folder = self.out / f"part-{number}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def pack(data: Path, model: Path, out: Path, limit: int, most: int | None = None) -> dict[str, Any]:
    """Fill the parts; what is in them."""
    parts = Parts(out, limit)
    manifest: dict[str, Any] = {"files": {}, "start": {}}
    for number, arrays in enumerate(start_pieces(model / "model.safetensors")):
        draft = out / f"{START}-{number}.safetensors"
        out.mkdir(parents=True, exist_ok=True)
        save_file(arrays, draft)
        manifest["start"][draft.name] = sha256_of(draft)
        parts.place(draft.name, draft.read_bytes())
        draft.unlink()
    parts.place("vocab.txt", (model / "vocab.txt").read_bytes())
    for name, file in TABLES.items():
        lines = read_lines(data / file)[:most]
        digest = hashlib.sha256()
        count = 0
        for count, shard in enumerate(shards(lines, SHARD_BYTES), start=1):
            digest.update(shard)
            parts.place(f"{name}-{count - 1:03d}.jsonl.bz2", bz2.compress(shard))
        manifest["files"][name] = {
            "rows": len(lines),
            "shards": count,
            "sha256": digest.hexdigest(),
        }
        print(name, manifest["files"][name], flush=True)
    parts.place(MANIFEST, json.dumps(manifest, indent=1).encode())
    print([round(size / 1e6, 1) for size in parts.sizes], "MB")
    return manifest


def _unpacked(path: Path) -> bytes:
    return bz2.decompress(path.read_bytes())


def unpack(out: Path, target: Path, only: Sequence[str] | None = None) -> None:
    """Put the parts, or some tables of them, together; errors name what is missing or damaged."""
    found = {path.name: path for path in sorted(out.glob("part-*/*"))}
    if MANIFEST not in found:
        raise SystemExit(f"'{out}' has no {MANIFEST}; all parts must be there: {sorted(found)[:3]}")
    manifest = json.loads(found[MANIFEST].read_text())
    target.mkdir(parents=True, exist_ok=True)
    for name, about in manifest["files"].items():
        if only is None or name in only:
            _join(name, about, found, target)
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for name, digest in manifest["start"].items():
        if name not in found or sha256_of(found[name]) != digest:
            raise SystemExit(f"{name} is missing or damaged; send its part again")
        arrays |= load_file(found[name])
    save_file(arrays, target / f"{START}.safetensors")
    write_text(target / "vocab.txt", found["vocab.txt"].read_text(encoding="utf-8"))


def _join(name: str, about: Mapping[str, Any], found: Mapping[str, Path], target: Path) -> None:
    names = [f"{name}-{number:03d}.jsonl.bz2" for number in range(about["shards"])]
    missing = [one for one in names if one not in found]
    if missing:
        raise SystemExit(f"{missing} are missing; send their part")
    with ProcessPoolExecutor(usable_cores()) as pool:
        data = b"".join(pool.map(_unpacked, [found[one] for one in names]))
    if hashlib.sha256(data).hexdigest() != about["sha256"]:
        raise SystemExit(f"{name} is damaged; send its parts again")
    (target / f"{name}.jsonl").write_bytes(data)


def main() -> None:
    """Pack or unpack."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    packing = commands.add_parser("pack")
    packing.add_argument("data", type=Path)
    packing.add_argument("model", type=Path)
    packing.add_argument("out", type=Path)
    packing.add_argument("--limit", type=float, default=36, help="megabytes of a part")
    packing.add_argument("--most", type=int, help="rows of each table, for a rehearsal")
    unpacking = commands.add_parser("unpack")
    unpacking.add_argument("out", type=Path)
    unpacking.add_argument("target", type=Path)
    unpacking.add_argument("--only", nargs="*", help="tables; by default all")
    given = parser.parse_args()
    if given.command == "pack":
        pack(given.data, given.model, given.out, int(given.limit * 1e6), given.most)
    else:
        unpack(given.out, given.target, given.only)


if __name__ == "__main__":
    main()
