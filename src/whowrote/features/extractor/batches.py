r"""Which crops of which texts of which authors make a batch.

.. math:: P(\text{domain } d) \propto (\#\text{authors of } d)^{\alpha}

A batch holds authors of every domain in these shares or, with ``mixed = false``, of one domain that
is drawn by them; the loss compares authors within a domain, for those are hard to tell apart. A
draw is a function of the seed, the process and the step alone: whoever resumes at step t draws what
would have been drawn. Views of an author are of different texts as far as there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whowrote.arrays import IntArray
from whowrote.errors import InputError
from whowrote.features.encoder import Stretches, stretches_of
from whowrote.features.extractor.preparation import Prepared

SHUFFLE_EVERY = 200


@dataclass(frozen=True)
class Crops:
    """A batch: for each view its author, its document, its first token and its length."""

    authors: IntArray
    documents: IntArray
    starts: IntArray
    lengths: IntArray

    def __len__(self) -> int:
        return len(self.starts)


@dataclass(frozen=True)
class BatchSettings:
    """How many authors and views, how long a crop, how domains mix."""

    authors: int = 512
    views: int = 4
    min_crop: int = 60
    max_crop: int = 264
    alpha: float = 0.5
    mixed: bool = True
    """Whether every batch holds all domains."""
    hard_share: float = 0.0
    """Share of each batch drawn as neighbours of its other authors; 0 draws all at random."""
    min_pieces: int = 64
    """Word pieces of a crop for the second tower, which sees another one of the same text."""
    max_pieces: int = 256

    def __post_init__(self) -> None:
        if self.authors < 2 or self.views < 2 or not 1 <= self.min_crop <= self.max_crop:
            raise InputError(
                f"a batch of authors {self.authors}, views {self.views}, crops of {self.min_crop} "
                f"to {self.max_crop} tokens cannot be drawn; it needs at least 2 authors, 2 views "
                "and 1 <= min_crop <= max_crop: give 512, 4, 60 and 264"
            )
        if not 1 <= self.min_pieces <= self.max_pieces:
            raise InputError(
                f"crops of {self.min_pieces} to {self.max_pieces} pieces cannot be drawn; it must "
                "be 1 <= min_pieces <= max_pieces: give 64 and 256"
            )
        if not 0 <= self.hard_share < 1:
            raise InputError(f"hard_share is {self.hard_share}; it must be in [0, 1): give 0.5")


class AuthorBatches:
    """Draws batches of the training authors."""

    def __init__(
        self,
        prepared: Prepared,
        settings: BatchSettings,
        seed: int,
        rank: int = 0,
        mixture: Mapping[str, float] | None = None,
    ) -> None:
        self.prepared, self.settings, self.seed, self.rank = prepared, settings, seed, rank
        n_authors = len(prepared.part)
        self.lengths = prepared.lengths
        self.first = np.searchsorted(prepared.authors, np.arange(n_authors))
        self.count = np.bincount(prepared.authors, minlength=n_authors)
        domains = range(len(prepared.domains))
        learnt = prepared.part == 0
        self.pools = [np.flatnonzero(learnt & (prepared.domain_of == d)) for d in domains]
        self.domain_probabilities = self._domain_probabilities(mixture or {})
        self.neighbours: IntArray | None = None
        self._round, self._order = -1, np.arange(len(prepared))

    def _domain_probabilities(self, mixture: Mapping[str, float]) -> NDArray[np.float64]:
        sizes = np.array([len(pool) for pool in self.pools])
        small = sizes < 2
        if small.all():
            raise InputError(
                f"no domain has two training authors (there are {sizes.tolist()}); a batch needs "
                "two of one domain: add authors"
            )
        weight = np.where(small, 0.0, sizes**self.settings.alpha)
        if mixture:
            if set(mixture) != set(self.prepared.domains) or min(mixture.values()) <= 0:
                raise InputError(
                    f"mixture is {dict(mixture)}; it must give each of "
                    f"{list(self.prepared.domains)} a number above 0: complete it"
                )
            given = np.array([mixture[name] for name in self.prepared.domains])
            weight = np.where(small, 0.0, given)
        return np.asarray(weight / weight.sum())

    def draw(self, step: int) -> Crops:
        """The batch of a step."""
        random = np.random.default_rng([self.seed, self.rank, step])
        sizes = zip(self.pools, self._sizes(random), strict=True)
        authors = np.concatenate(
            [self._authors(pool, max(2, size), random) for pool, size in sizes if size]
        )
        documents = self._documents(authors, step, random)
        authors = np.repeat(authors, self.settings.views)
        own = self.lengths[documents]
        wanted = random.integers(
            self.settings.min_crop, self.settings.max_crop, len(own), endpoint=True
        )
        lengths = np.minimum(own, wanted)
        starts = self.prepared.offsets[documents] + random.integers(0, own - lengths, endpoint=True)
        return Crops(authors, documents, starts, lengths)

    def draw_pieces(self, step: int, documents: IntArray, longest: int) -> Stretches:
        """One crop of word pieces of each document, in stretches of at most ``longest``."""
        assert self.prepared.pieces is not None
        random = np.random.default_rng([self.seed, self.rank, step, 2])
        offsets = self.prepared.pieces.offsets
        own = offsets[documents + 1] - offsets[documents]
        s = self.settings
        lengths = np.minimum(
            own, random.integers(s.min_pieces, s.max_pieces, len(own), endpoint=True)
        )
        starts = offsets[documents] + random.integers(0, own - lengths, endpoint=True)
        return stretches_of(starts, lengths, longest)

    def _sizes(self, random: np.random.Generator) -> list[int]:
        """How many authors of each domain a batch holds."""
        wanted = self.settings.authors
        if self.settings.mixed:
            return [round(wanted * share) for share in self.domain_probabilities]
        drawn = random.choice(len(self.pools), p=self.domain_probabilities)
        return [wanted * int(number == drawn) for number in range(len(self.pools))]

    def _authors(self, pool: IntArray, wanted: int, random: np.random.Generator) -> IntArray:
        total = min(wanted, len(pool))
        if self.neighbours is None or self.settings.hard_share == 0:
            return random.choice(pool, total, replace=False)
        n_hard = int(total * self.settings.hard_share)
        seeds = random.choice(pool, total - n_hard, replace=False)
        asked = random.choice(seeds, n_hard)
        near = self.neighbours[asked, random.integers(0, self.neighbours.shape[1], n_hard)]
        return np.unique(np.concatenate([seeds, near]))

    def _documents(self, authors: IntArray, step: int, random: np.random.Generator) -> IntArray:
        """Different texts of each author while there are any left, then the same ones again."""
        if self._round != step // SHUFFLE_EVERY:
            self._round = step // SHUFFLE_EVERY
            shuffle = np.random.default_rng([self.seed, self.rank, self._round, 1])
            self._order = np.lexsort((shuffle.random(len(self._order)), self.prepared.authors))
        count = self.count[authors]
        place = random.integers(0, count)[:, None] + np.arange(self.settings.views)
        return self._order[(self.first[authors][:, None] + place % count[:, None]).ravel()]
