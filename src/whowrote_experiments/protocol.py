r"""The published protocol as a file: which methods, which settings, which folds, which sizes.

.. math:: \mathrm{fits} = \sum_{\mathrm{methods}} |\mathrm{grid}| \times |\mathrm{folds}| \times
    |\mathrm{sizes}|

.. code-block:: toml

    corpus = "blog30"
    folds = 5
    sizes = [0.2, 1.0]

    [methods."SMM-VAE"]
    kind = "vae"
    epochs = [60, 40]                  # at most, for each size
    watch = "error"
    grid = {latent_dim = [20, 50], learning_rate = [0.001, 0.002]}
    fixed = {component = "student-t", label_weight = 0.0}

    [methods."SVM (linear)"]
    kind = "linear-svm"
    grid = {C = [0.01, 0.1]}

In every fold a fifth is held out and halved into development and test; the sizes are nested shares
of the rest. A method of kind "vae" with ``members = [4, 16]`` is also tried as ensembles of what
each fold and size has chosen on its development rows; ``plan = {final_rate = 1.0}`` keeps its step
size as it is, where half a cosine would bring it down.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any

from whowrote.errors import InputError
from whowrote.schema import from_table, read_toml, section

KINDS = ("vae", "linear-svm", "rbf-svm", "ngram-svm", "attributor")
READERS = ("ngram-svm", "attributor")
"""Kinds that read texts, not vectors."""


@dataclass(frozen=True)
class Method:
    """A line of the table: what is fitted, over which settings."""

    name: str
    kind: str
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    epochs: Sequence[int] = ()
    watch: str = "log-loss"
    seeds: Sequence[int] = (0,)
    members: Sequence[int] = ()
    """Sizes of the ensembles of the chosen configuration, smallest first."""
    plan: Mapping[str, Any] = field(default_factory=dict)
    """Settings of a training plan that are no parameters, such as ``final_rate = 1.0``."""

    @property
    def points(self) -> list[dict[str, Any]]:
        """Every point of the grid.

        >>> Method("m", "rbf-svm", {"C": [1, 2], "gamma": [0.1]}).points
        [{'C': 1, 'gamma': 0.1}, {'C': 2, 'gamma': 0.1}]
        """
        return [
            dict(zip(self.grid, values, strict=True)) for values in product(*self.grid.values())
        ]

    @property
    def n_points(self) -> int:
        """How many fits a split takes, ensembles included."""
        return prod(map(len, self.grid.values())) * len(self.seeds) + len(self.members)

    @property
    def dimensions(self) -> Sequence[int | None]:
        """The D of the grid; one unknown D for methods that have none."""
        return self.grid.get("latent_dim", (None,))


@dataclass(frozen=True)
class Protocol:
    """All methods on all folds and sizes of one corpus."""

    corpus: str
    methods: Sequence[Method]
    sizes: Sequence[float]
    folds: int = 5
    seed: int = 0

    def expected(self) -> dict[str, dict[str, int]]:
        """How many fits every method takes, by corpus and method."""
        splits = self.folds * len(self.sizes)
        return {self.corpus: {one.name: one.n_points * splits for one in self.methods}}


@dataclass(frozen=True)
class Part:
    """Some of a protocol; None is all of it."""

    methods: Sequence[str] | None = None
    sizes: Sequence[float] | None = None
    folds: Sequence[int] | None = None
    dimensions: Sequence[int] | None = None


@dataclass(frozen=True)
class Unit:
    """What is fitted and filed at once: a method at one size (and D) on some folds."""

    method: Method
    share: float
    folds: tuple[int, ...]
    dimension: int | None = None
    ensembles: bool = False

    @property
    def label(self) -> str:
        """A name for files and progress."""
        parts = [self.method.name, f"{100 * self.share:03.0f}"]
        parts += [f"D{self.dimension:03d}"] if self.dimension is not None else []
        parts += ["ensembles"] if self.ensembles else []
        return "-".join("".join(c if c.isalnum() else "_" for c in part) for part in parts)


def units(protocol: Protocol, part: Part) -> list[Unit]:
    """The units of a part, ensembles after what they choose from.

    >>> method = Method("SMM-VAE", "vae", {"latent_dim": [20, 50]}, epochs=[9], members=[4])
    >>> [one.label for one in units(Protocol("blog30", [method], [1.0]), Part())]
    ['SMM_VAE-100-D020', 'SMM_VAE-100-D050', 'SMM_VAE-100-ensembles']
    """
    names = [method.name for method in protocol.methods]
    methods = _wanted("methods", part.methods, names)
    sizes = _wanted("sizes", part.sizes, protocol.sizes)
    folds = tuple(_wanted("folds", part.folds, range(protocol.folds)))
    made = []
    for method in protocol.methods:
        if method.name not in methods:
            continue
        every = [
            d for d in method.dimensions if not part.dimensions or d in (*part.dimensions, None)
        ]
        for share in sizes:
            made += [Unit(method, share, folds, d) for d in every]
            if method.members and len(every) == len(method.dimensions):
                made.append(Unit(method, share, folds, ensembles=True))
    return made


def _wanted(what: str, asked: Sequence[Any] | None, there: Sequence[Any]) -> list[Any]:
    for one in asked or ():
        if one not in there:
            raise InputError(
                f"{what} has {one!r}; the protocol has {', '.join(map(str, there))}: name some of "
                "these"
            )
    return [one for one in there if asked is None or one in asked]


def read_protocol(path: str | os.PathLike[str]) -> Protocol:
    """Read and check a file."""
    plain = read_toml(path)
    tables = section(plain, "methods")
    if not tables:
        raise InputError(
            f"'{path}' names no methods; add [methods.NAME] for each: see "
            "experiments/published/blog30.toml"
        )
    methods = [
        from_table(Method, section(tables, name), f"[methods.{name!r}]", name=name)
        for name in tables
    ]
    rest = {name: value for name, value in plain.items() if name != "methods"}
    protocol = from_table(Protocol, rest, "the file", methods=methods)
    for method in methods:
        _check(method, protocol)
    return protocol


def _check(method: Method, protocol: Protocol) -> None:
    if method.kind not in KINDS:
        raise InputError(
            f"the kind of {method.name!r} is {method.kind!r}; it must be one of {', '.join(KINDS)}"
        )
    if method.kind == "vae" and len(method.epochs) != len(protocol.sizes):
        raise InputError(
            f"{method.name!r} has epochs for {len(method.epochs)} sizes and the protocol "
            f"{len(protocol.sizes)} sizes; give one number for each"
        )
