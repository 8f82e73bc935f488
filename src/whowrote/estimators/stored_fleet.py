r"""A fleet in a file, checked before anything is made of it.

.. math:: \text{values} \to \text{shapes} \overset!= \text{shapes of the arrays}

The values say how large every array must be. They are compared with the arrays that are there
before a byte is allocated: a file of some kilobytes cannot ask for terabytes, or for a million
members.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from itertools import pairwise
from typing import Any

import numpy as np

from whowrote.arrays import Arrays
from whowrote.errors import InputError
from whowrote.files import ModelFile, below
from whowrote.model import Architecture, Member
from whowrote.model.distributions import FAMILIES
from whowrote.model.networks import ACTIVATIONS
from whowrote.model.vae import OBJECTIVES
from whowrote.schema import listed, maybe, number, one_of, record, refuse, table, text, whole

MOST_COLUMNS, MOST_LAYERS = 10**8, 64
_SIZE = whole(1, MOST_COLUMNS)
_ARCHITECTURE = record(
    {
        "n_features": _SIZE,
        "n_components": _SIZE,
        "latent_dim": _SIZE,
        "hidden": listed(_SIZE, 0, MOST_LAYERS),
    },
    {
        "activation": one_of(*ACTIVATIONS),
        "n_inputs": maybe(_SIZE),
        "n_samples": whole(1, 10**6),
        "objective": one_of(*OBJECTIVES),
    },
)
_MEMBER = record(
    {},
    {
        **dict.fromkeys(asdict(Member()), number(0)),
        "seed": whole(-(2**63), 2**64),
        "component": one_of(*FAMILIES),
        "initial_df": number(2),
    },
)
_VALUES = record(
    {
        "architecture": _ARCHITECTURE,
        "members": listed(_MEMBER, 1),
        "parameters": table(text("[a-z_0-9]+", "the name of a parameter"), lambda *_: None),
        "state": table(text(), lambda *_: None),
    }
)
PUBLISHED_DF, LOG_EXCESS = "mixture.raw_df", "mixture.log_excess"
"""Where files of before keep the degrees of freedom, by their published parameter; and now."""


def check_stored(stored: ModelFile, fleet: str, scaling: str, ranks: str) -> None:
    """Whether a file holds a fleet that can be made; if not, a sentence on what is wrong."""
    arrays = below(fleet, stored.arrays)
    _check_members(stored.values, arrays)
    _VALUES(dict(stored.values), "the model file")
    shape, members = dict(stored.values["architecture"]), stored.values["members"]
    whole(0, len(members) - 1)(stored.values["state"].get("leader_"), "leader_")
    if len(shape["hidden"]) * 4 > len(arrays):
        refuse("hidden", shape["hidden"], "a list with two arrays for each layer of each network")
    shape["hidden"] = tuple(shape["hidden"])
    needed = shapes_of(Architecture(**shape), len(members))
    if PUBLISHED_DF in arrays:
        needed[PUBLISHED_DF] = needed.pop(LOG_EXCESS)
    require_shapes(needed, arrays)
    _check_scaling(Architecture(**shape), below(scaling, stored.arrays))
    _check_ranks(len(members), below(ranks, stored.arrays))
    if stored.arrays[f"{fleet}mixture.loc"].dtype not in (np.float32, np.float64):
        refuse("mixture.loc", stored.arrays[f"{fleet}mixture.loc"].dtype, "float32 or float64")


def _check_members(values: Mapping[str, Any], arrays: Arrays) -> None:
    """Their number first: there may be a million of them in the values, and none in the arrays."""
    members, loc = values.get("members"), arrays.get("mixture.loc")
    if not isinstance(members, list) or loc is None or loc.ndim != 3 or len(loc) != len(members):
        raise InputError("the members of the model file are not those of its arrays; save it again")


def shapes_of(architecture: Architecture, members: int) -> dict[str, tuple[int, ...]]:
    """What a fleet holds, by arithmetic: nothing is made.

    >>> shape = Architecture(n_features=4, n_components=3, latent_dim=2, hidden=(5,))
    >>> shapes_of(shape, 7)["encoder.layers.0.weight"], shapes_of(shape, 7)["mixture.factor"]
    ((7, 4, 5), (7, 3, 2, 2))
    """
    a, m, k, d = architecture, members, architecture.n_components, architecture.latent_dim
    own = ("l1", "joint_weight", "label_weight", "input_dropout", "hidden_dropout")
    found: dict[str, tuple[int, ...]] = dict.fromkeys((*own, "mixture.scale_floor"), (m,))
    found |= {"mixture.logits": (m, k), "mixture.loc": (m, k, d)}
    found |= {"mixture.factor": (m, k, d, d), LOG_EXCESS: (m, k)}
    widths = {
        "encoder": (a.encoder_width, *a.hidden, 2 * d),
        "decoder": (d, *a.hidden[::-1], 2 * a.n_features),
    }
    for network, sizes in widths.items():
        for place, (low, high) in enumerate(pairwise(sizes)):
            layer = f"{network}.layers.{place}"
            found |= {f"{layer}.weight": (m, low, high), f"{layer}.bias": (m, high)}
    return found


def require_shapes(needed: Mapping[str, tuple[int, ...]], arrays: Arrays) -> None:
    """Require just these arrays, of these shapes, of finite numbers."""
    for name in sorted(needed.keys() ^ arrays.keys()):
        refuse(f"array {name!r}", "missing" if name in needed else "there", "as the values say")
    for name, shape in needed.items():
        if arrays[name].shape != shape:
            refuse(f"the shape of {name!r}", arrays[name].shape, f"{shape}, as the values say")
        require_finite(name, arrays[name])


def require_finite(name: str, array: Any) -> None:
    """Require numbers, none of them NaN or infinite."""
    if array.dtype.kind not in "fiu" or not np.isfinite(array).all():
        raise InputError(f"{name!r} holds values that are no finite numbers; save the model again")


def _check_scaling(shape: Architecture, arrays: Arrays) -> None:
    needed: dict[str, tuple[int, ...]] = dict.fromkeys(("mean", "scale"), (shape.n_features,))
    needed["input_scale"] = (1,)
    if shape.n_inputs is not None:
        needed["projection"] = (shape.n_inputs, shape.n_features)
    require_shapes(needed, arrays)
    if not (arrays["scale"] > 0).all():
        refuse("the smallest scale", float(arrays["scale"].min()), "above 0")


def _check_ranks(members: int, arrays: Arrays) -> None:
    if arrays:
        length = arrays["both"].shape[-1] if "both" in arrays and arrays["both"].ndim else 0
        require_shapes(dict.fromkeys(("log_proba", "bound", "both"), (members, length)), arrays)
