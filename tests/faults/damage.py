"""Turned bits and cut ends over every file of a model folder: a sentence, or the same answer.

A bit of a file is turned, or its end is cut off at a kilobyte, the folder is opened, and one of two
things may happen: a sentence within two seconds, or the very answer that the whole folder gives.
Values of the manifest are also exchanged for strange ones by somebody who knows how it is hashed:
that may be another answer, but never anything else than an answer or a sentence.

Command:  PYTHONPATH=src:tests python -m faults.damage --flips 10000
Hardware: one core, about three minutes.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from attribution.people import QUICK, corpus, texts_by
from whowrote.attribution import Attributor
from whowrote.attribution.manifest import as_text
from whowrote.attribution.storage import MANIFEST, load
from whowrote.errors import InputError
from whowrote.features import NGrams
from whowrote.files import canonical_hash

SLOWEST = 2.0
"""Seconds after which a refusal counts as a hang."""
ASKED = texts_by(0, 1, seed=9)


@dataclass
class Found:
    """What became of damaged folders, by file; ``wrong`` says of each failure how it came about."""

    refused: Counter[str] = field(default_factory=Counter)
    same: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    slowest: float = 0.0


def small_model(folder: Path) -> Path:
    """A model of some hundred kilobytes."""
    texts, authors = corpus(3, 4)
    features = NGrams(max_features=(1500, 600))
    return Attributor(features, QUICK).fit(texts, authors).save(folder)


def answer(folder: Path) -> str:
    """What a folder says of a text that it does not know."""
    return load(folder).attribute(ASKED)[0].to_json()


@contextmanager
def damaged(path: Path, data: bytes) -> Iterator[None]:
    """A file with other bytes meanwhile."""
    whole = path.read_bytes()
    path.write_bytes(data)
    try:
        yield
    finally:
        path.write_bytes(whole)


def look(folder: Path, name: str, data: bytes, how: str, wanted: str, found: Found) -> None:
    """Open a folder in which a file has other bytes, and file what happens."""
    with damaged(folder / name, data):
        began = time.perf_counter()
        try:
            said = answer(folder)
        except InputError:
            found.refused[name] += 1
        except Exception as problem:
            found.wrong.append(f"{how}: {type(problem).__name__}: {problem}")
        else:
            found.same[name] += said == wanted
            if said != wanted:
                found.wrong.append(f"{how}: another answer")
        took = time.perf_counter() - began
        found.slowest = max(found.slowest, took)
        if took > SLOWEST:
            found.wrong.append(f"{how}: {took:.1f} s")


def flip(folder: Path, times: int, seed: int, found: Found, seconds: float = 600.0) -> None:
    """Turn random bits, half of them in the manifest, which is small and says the most."""
    wanted, chance, began = answer(folder), random.Random(seed), time.perf_counter()
    names = sorted(path.name for path in folder.iterdir())
    sizes = [(folder / name).stat().st_size for name in names]
    for number in range(times):
        if time.perf_counter() - began > seconds:
            break
        name = MANIFEST if number % 2 else chance.choices(names, sizes)[0]
        data = bytearray((folder / name).read_bytes())
        bit = chance.randrange(8 * len(data))
        data[bit // 8] ^= 1 << bit % 8
        look(folder, name, bytes(data), f"bit {bit} of {name}", wanted, found)


def cut(folder: Path, step: int, found: Found) -> None:
    """Cut the end off every file, at every ``step`` bytes from none on."""
    wanted = answer(folder)
    for path in sorted(folder.iterdir()):
        data = path.read_bytes()
        for size in range(0, len(data), step):
            how = f"{path.name} cut to {size} bytes"
            look(folder, path.name, data[:size], how, wanted, found)


STRANGE: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 2**31, 2**63, 10**400, -0.0, 1e-320, 1e308, 0.5, "", "x", "\ud800"),
    *("../x", "\x1b[2J", "a" * 10_000, [], {}, [[]], [None], {"": 0}, [0] * 10_000, [1e308] * 3),
)


def edit(folder: Path, times: int, seed: int, found: Found) -> None:
    """Put a strange value at some place of the manifest, with the hash that belongs to it."""
    whole, chance = json.loads((folder / MANIFEST).read_bytes()), random.Random(seed)
    for _ in range(times):
        plain = copy.deepcopy(whole)
        places = list(_places(plain))
        holder, key = chance.choice(places)
        value = chance.choice(STRANGE)
        if chance.random() < 0.2:
            value = chance.choice(places)[0]
            value = copy.deepcopy(value)
        how = f"{key!r} is {value!r:.60}"
        holder[key] = value
        plain.pop("sha256", None)
        try:
            data = as_text({**plain, "sha256": canonical_hash(plain)}).encode(
                "utf-8", "surrogatepass"
            )
        except ValueError:
            continue  # no JSON holds it
        with damaged(folder / MANIFEST, data):
            began = time.perf_counter()
            try:
                answer(folder)
            except InputError as problem:
                str(problem).encode("utf-8", "backslashreplace")
                found.refused[MANIFEST] += 1
            except Exception as problem:
                found.wrong.append(f"{how}: {type(problem).__name__}: {problem}")
            else:
                found.same[MANIFEST] += 1
            found.slowest = max(found.slowest, time.perf_counter() - began)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every list and table below, with each of its keys."""
    keys = value if isinstance(value, dict) else range(len(value))
    for key in list(keys):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--flips", type=int, default=10_000)
    options.add_argument("--edits", type=int, default=2_000)
    options.add_argument("--step", type=int, default=1024)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--seconds", type=float, default=600.0)
    asked = options.parse_args()
    torch.set_num_threads(1)
    place = Path(tempfile.mkdtemp())
    folder, flips, cuts = small_model(place / "model"), Found(), Found()
    total = sum(path.stat().st_size for path in folder.iterdir())
    cut(folder, asked.step, cuts)
    flip(folder, asked.flips, asked.seed, flips, asked.seconds)
    edits = Found()
    edit(folder, asked.edits, asked.seed, edits)
    shutil.rmtree(place)
    print(f"a model of {total:,} bytes in {len(list(flips.refused))} files")
    runs = (("bit flips", flips), ("truncations", cuts), ("edits with the right hash", edits))
    for what, found in runs:
        refused, same = sum(found.refused.values()), sum(found.same.values())
        print(
            f"{refused + same + len(found.wrong):,} {what}: {refused:,} refused in a sentence, "
            f"{same} answered, {len(found.wrong)} wrong; slowest {found.slowest:.2f} s"
        )
        print(*found.wrong[:20], sep="\n")


if __name__ == "__main__":
    main()
