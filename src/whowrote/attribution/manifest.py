r"""The manifest of a model folder: one typed record, checked before anything is made of it.

.. math:: \text{id} = \mathrm{SHA256}(\text{learnt}), \qquad
    \text{manifest} = (\dots, \mathrm{SHA256}(\dots))

It names every other file with its hash, and since format 2 it has a hash of its own and must be,
byte for byte, what would be written today: no bit of a folder can turn without a sentence. Formats
1 and 2 say the same, and are read alike.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from whowrote import __version__
from whowrote.arrays import Arrays
from whowrote.attribution.answers import Enrolled
from whowrote.attribution.fitted_attributor import FittedAttributor
from whowrote.attribution.rows import NORMALISE
from whowrote.errors import InputError, first_line
from whowrote.features.fitted_features import STORED_FEATURES, WEIGHTS
from whowrote.files import (
    MOST_JSON_BYTES,
    bytes_of,
    canonical_hash,
    other_bytes,
    sha256_of,
    strict_json,
)
from whowrote.schema import (
    HASH,
    Schema,
    listed,
    maybe,
    number,
    one_of,
    record,
    refuse,
    table,
    text,
    whole,
)

KIND, FORMAT, FORMATS = "Attributor", 2, (1, 2)
MANIFEST, MODEL = "manifest.json", "model.safetensors"
PARTS = ("features", "training", "contrasts", "profiles")
MANY, DIRECTORY = "ManyAuthors", "directory.safetensors"
FILES = (*(f"{part}.safetensors" for part in PARTS), MODEL, DIRECTORY, WEIGHTS)
"""Every file that a model folder may hold beside the manifest."""
OWN_HASH = "sha256"
LEARNT = ("authors", "log_share", "calibration", "verifier", "features")
"""What the id is the hash of, with the arrays; limits and prior may change."""

# -- what it must be -----------------------------------------------------------------------------

_COUNT = whole(1, 2**62)
_ABOVE_ZERO = number(0, above=True)
_NUMBERS = listed(number(), 1)
_AUTHOR = record({"name": text(), "texts": _COUNT, "passages": _COUNT, "words": whole(0, 2**62)})
_NORMS = record(
    {
        "centers": listed(_NUMBERS, 2),
        "slopes": _NUMBERS,
        "spreads": listed(_ABOVE_ZERO, 1),
        "narrowing": number(-0.5, 0),
        "middle": number(0),
        "reference": listed(number(), 1),
    }
)
_OTHERS = record(
    {"weights": listed(number(), 6, 6), "reference": listed(number(), 2), "people": _COUNT}
)
_STRANGERS = record(
    {
        "centers": listed(number(), 4, 4),
        "spreads": listed(_ABOVE_ZERO, 4, 4),
        "weights": listed(number(), 4, 4),
        "reference": listed(number(), 1),
        "own": listed(number()),
        "held_out": _COUNT,
        "people": _COUNT,
    },
    {
        "doubt": number(0),
        "texts": number(0),
        "others": maybe(_OTHERS),
        "block": whole(0, 9),
        "met": number(0),
    },
)
_CALIBRATION = record(
    {
        "pooling": record({"temperature": _ABOVE_ZERO, "exponent": number(0, 1)}),
        "held_out": record({"texts": _COUNT, "right": whole(0)}),
        "norms": _NORMS,
    },
    {"strangers": _STRANGERS},
)
_CENTRE = record(
    {"authors": _COUNT, "vector": _NUMBERS},
    {"weights": listed(number(0, 1)), "population": text("[0-9a-f]{0,16}", "the key of one")},
)
_CURVE = record(
    {
        "weights": _NUMBERS,
        "length_weight": number(),
        "bias": number(),
        "pairs": _COUNT,
        "auc": number(0, 1),
    },
    {
        "authors": _COUNT,
        "words": listed(whole(1, 2**62), 2, 2),
        "draws": listed(listed(number(), 3)),
    },
)


def _verifier(value: Any, place: str) -> None:
    (_CENTRE if isinstance(value, dict) and "vector" in value else _CURVE)(value, place)


SETTINGS = {
    "passage_words": whole(1, 2**31),
    "none_below": maybe(number(0, 1)),
    "prior": one_of("equal", "training"),
    "random_state": whole(0, 2**63),
}
_ENTRIES: dict[str, Schema] = {
    "format": one_of(*FORMATS),
    "kind": one_of(KIND),
    "version": text(r"[\w.+!-]{1,80}", "a version"),
    "id": HASH,
    "settings": record(
        SETTINGS,
        {
            "false_attributions": number(0, 1, above=True),
            "normalise": listed(one_of(*NORMALISE)),
        },
    ),
    "authors": listed(_AUTHOR, 2),
    "log_share": listed(number(high=0), 2),
    "calibration": _CALIBRATION,
    "verifier": maybe(_verifier),
    "features": STORED_FEATURES,
    "files": table(one_of(*FILES), record({"bytes": whole(0, 2**62), "sha256": HASH})),
}
_FIRST, _SECOND = record(_ENTRIES), record({**_ENTRIES, OWN_HASH: HASH})
_MANY = record(
    {
        "format": one_of(1),
        "kind": one_of(MANY),
        "version": _ENTRIES["version"],
        "id": HASH,
        "settings": record(
            {
                "false_attributions": number(0, 1, above=True),
                "none_below": maybe(number(0, 1)),
                "random_state": whole(0, 2**63),
            }
        ),
        "learnt": record(
            {
                "authors": listed(listed(lambda value, place: None, 3, 3), 2),
                "features": STORED_FEATURES,
                "shared": record(
                    {
                        **dict.fromkeys(("style", "grams", "near", "rest"), number()),
                        "texts": whole(0, 2**62),
                    }
                ),
                "own": listed(number()),
                "strangers": listed(number(), 1),
                "held_out": record({"texts": whole(0, 2**62), "right": whole(0, 2**62)}),
                "verifier": maybe(_CENTRE),
                "width": _COUNT,
                "cells": maybe(record({"probes": _COUNT, "recall": number(0, 1)})),
            }
        ),
        "files": _ENTRIES["files"],
        OWN_HASH: HASH,
    }
)


def check(plain: Mapping[str, Any]) -> None:
    """Whether the entries are what they must be, and go together."""
    (_FIRST if plain.get("format") == 1 else _SECOND)(plain, "the manifest")
    names, norms = [one["name"] for one in plain["authors"]], plain["calibration"]["norms"]
    if len(set(names)) < len(names):
        twice = next(name for name, times in Counter(names).items() if times > 1)
        refuse("authors", twice, "a list in which every name stands once")
    figures = len(norms["slopes"])
    lengths = {
        "log_share": (plain["log_share"], len(names)),
        "norms.centers": (norms["centers"], len(names)),
        "norms.spreads": (norms["spreads"], figures),
        **{f"norms.centers[{i}]": (one, figures) for i, one in enumerate(norms["centers"])},
    }
    for place, (values, wanted) in lengths.items():
        if len(values) != wanted:
            refuse(place, values, f"a list of {wanted} values")
    ascending(norms["reference"], "norms.reference")
    for place in ("reference", "own"):
        ascending(plain["calibration"].get("strangers", {}).get(place, []), f"strangers.{place}")
    held_out = plain["calibration"]["held_out"]
    whole(0, held_out["texts"])(held_out["right"], "calibration.held_out.right")
    if abs(np.exp(plain["log_share"]).sum() - 1) > 1e-6:
        refuse("log_share", plain["log_share"], "logarithms of shares that sum to 1")
    for name in (MODEL, "training.safetensors", "profiles.safetensors"):
        if name not in plain["files"]:
            raise InputError(f"the manifest names no {name}; a model folder must have one")


def check_many(plain: Mapping[str, Any]) -> None:
    """The same of a model of very many authors."""
    _MANY(plain, "the manifest")
    learnt, names = plain["learnt"], set[str]()
    for row, (name, texts, words) in enumerate(learnt["authors"]):
        where = f"learnt.authors[{row}]"
        text()(name, where)
        whole(1, 2**62)(texts, where)
        whole(0, 2**62)(words, where)
        names.add(name)
    if len(names) < len(learnt["authors"]):
        refuse("learnt.authors", learnt["authors"], "a list in which every name stands once")
    for place in ("own", "strangers"):
        ascending(learnt[place], f"learnt.{place}")
    if DIRECTORY not in plain["files"] or "features.safetensors" not in plain["files"]:
        raise InputError("the manifest names no directory; a model folder must have one")


def ascending(values: list[float], place: str) -> None:
    """Require what is looked up by its rank to be in order."""
    if any(one > other for one, other in pairwise(values)):
        refuse(place, values, "a list in ascending order")


# -- the record ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class StoredFile:
    """What the manifest says of another file."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Settings:
    """How the model was asked to answer."""

    passage_words: int
    none_below: float | None
    prior: str
    random_state: int
    false_attributions: float = 0.05
    normalise: tuple[str, ...] = ()


@dataclass(frozen=True)
class Manifest:
    """Everything the manifest says; ``learnt`` are the plain values that the id covers."""

    format: int
    version: str
    id: str
    settings: Settings
    authors: tuple[Enrolled, ...]
    learnt: Mapping[str, Any]
    files: Mapping[str, StoredFile]

    @classmethod
    def of(cls, fitted: FittedAttributor, files: Mapping[str, StoredFile]) -> Manifest:
        """That of a model whose other files are written."""
        settings = Settings(
            fitted.reader.words,
            fitted.none_below,
            fitted.prior,
            int(fitted.random_state),
            fitted.false_attributions,
            fitted.reader.normalise,
        )
        return cls(
            FORMAT, __version__, fitted.id, settings, fitted.authors, learnt_of(fitted), files
        )

    def text(self) -> str:
        """The file, with the hash of all the rest."""
        plain: dict[str, Any] = {
            "format": self.format,
            "kind": KIND,
            "version": self.version,
            "id": self.id,
            "settings": asdict(self.settings) | {"normalise": list(self.settings.normalise)},
            **self.learnt,
            "files": {name: asdict(one) for name, one in self.files.items()},
        }
        try:
            check({**plain, OWN_HASH: canonical_hash(plain)})
        except (InputError, ValueError) as problem:
            raise InputError(f"the model cannot be saved: {first_line(problem)}") from None
        return as_text({**plain, OWN_HASH: canonical_hash(plain)})


def as_text(plain: Mapping[str, Any]) -> str:
    """The one form in which a manifest is written."""
    return json.dumps(plain, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def learnt_of(fitted: FittedAttributor) -> dict[str, Any]:
    """Plain values of what was learnt."""
    return {
        "authors": [asdict(author) for author in fitted.authors],
        "log_share": fitted.log_share.tolist(),
        "calibration": fitted.calibration.to_dict(),
        "verifier": None if fitted.verifier is None else fitted.verifier.to_dict(),
        "features": dict(fitted.reader.features.stored().values),
    }


def learnt_hash(learnt: Mapping[str, Any], arrays: Iterable[Arrays], files: Iterable[Path]) -> str:
    """SHA-256 over everything learnt: the id of a model."""
    plain = {name: learnt[name] for name in LEARNT}
    digest = hashlib.sha256(json.dumps(plain, sort_keys=True).encode())
    for part in arrays:
        for name in sorted(part):
            digest.update(name.encode() + np.ascontiguousarray(part[name]).tobytes())
    for path in files:
        digest.update(path.read_bytes())
    return digest.hexdigest()


# -- reading -------------------------------------------------------------------------------------


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a model folder; every way in which it may be wrong has its own sentence."""
    place = folder / MANIFEST
    plain, data = _read(folder)
    found = plain.get("format"), plain.get("kind")
    if found[1] == MANY:
        raise InputError(
            f"'{folder}' is a model of very many authors, which `whowrote attribute`, `verify`, "
            "`enroll` and `inspect` can ask; train on fewer authors for anything else"
        )
    if found[0] not in FORMATS or found[1] != KIND:
        raise InputError(
            f"'{folder}' has model format {found[0]!r} ({found[1]}, written by whowrote "
            f"{plain.get('version')}), this version reads {' and '.join(map(str, FORMATS))}; train "
            "it again or change versions"
        )
    try:
        check(plain)
    except InputError as problem:
        raise InputError(f"'{place}' is damaged ({problem}); train the model again") from None
    if plain["format"] > 1:
        _check_bytes(place, plain, data)
    return Manifest(
        plain["format"],
        plain["version"],
        plain["id"],
        _settings(plain["settings"]),
        tuple(Enrolled(**author) for author in plain["authors"]),
        {name: plain[name] for name in LEARNT},
        {name: StoredFile(**one) for name, one in plain["files"].items()},
    )


def _settings(plain: Mapping[str, Any]) -> Settings:
    return replace(Settings(**plain), normalise=tuple(plain.get("normalise", ())))


def _plain(folder: Path) -> dict[str, Any]:
    """The entries as they stand there."""
    return _read(folder)[0]


def _read(folder: Path) -> tuple[dict[str, Any], bytes]:
    """The entries and the bytes that they were read from."""
    place = folder / MANIFEST
    if not place.is_file():
        raise InputError(
            f"there is no model at '{folder}' (no {MANIFEST} in it); give the folder that "
            "`whowrote train` or save() wrote"
        )
    try:
        data = bytes_of(place, MOST_JSON_BYTES)
        plain = strict_json(data)
    except ValueError as problem:
        raise InputError(
            f"'{place}' is damaged ({first_line(problem)}); train the model again"
        ) from None
    if not isinstance(plain, dict) or not {"format", "kind"} <= set(plain):
        raise InputError(f"'{place}' is damaged (it is no manifest); train the model again")
    return plain, data


def _check_bytes(place: Path, plain: Mapping[str, Any], data: bytes) -> None:
    """Every byte of it is as it was written."""
    rest = {name: value for name, value in plain.items() if name != OWN_HASH}
    hashed = plain[OWN_HASH] == canonical_hash(rest)
    if not hashed or data != as_text(plain).encode("utf-8", "surrogatepass"):
        raise InputError(
            f"'{place}' is damaged (it is not what was saved); copy the whole folder again, or "
            "train the model again"
        )


def read_many(folder: Path) -> dict[str, Any]:
    """The entries of a model of very many authors, checked as those of any other."""
    place, (plain, data) = folder / MANIFEST, _read(folder)
    try:
        check_many(plain)
    except InputError as problem:
        raise InputError(f"'{place}' is damaged ({problem}); train the model again") from None
    _check_bytes(place, plain, data)
    return plain


def holds_many(folder: Path) -> bool:
    """Whether a folder holds a model of very many authors."""
    return bool(_plain(folder)["kind"] == MANY)


def holds_model(folder: Path) -> bool:
    """Whether the manifest there is that of a model, damaged otherwise or not."""
    try:
        return bool(_plain(folder)["kind"] in (KIND, MANY))
    except InputError:
        return False


def check_files(folder: Path, files: Mapping[str, StoredFile]) -> None:
    """Whether every file is there and is what was saved; if not, a sentence on which."""
    for name, about in files.items():
        path = folder / name
        there = path.is_file() and path.stat().st_size == about.bytes
        # What is read at once is compared with its hash then, of the same bytes.
        if not there or (name == WEIGHTS and sha256_of(path) != about.sha256):
            raise other_bytes(path)
