r"""The widely used n-grams of a text as a few numbers: :math:`b = \sum_j x_j W_j`.

:math:`x` is the text's row of character and word n-grams, each weighed by
:math:`(1 + \log n_j)(1 - \log s_j)` with :math:`s_j` the share of training authors who use it. Only
the n-grams that the most authors use have a column, each domain counting alike: what one person
writes about has none. :math:`W` starts in the leading right singular vectors of the training rows
and is learnt with the rest of the network. The rows of many texts lie one after another in flat
arrays, as documents do everywhere here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from whowrote.arrays import IntArray
from whowrote.features.counting import BASES, Block, FittedNGrams, Keys

PASSES, ROWS_PER_PRODUCT = 3, 2048
"""Of the power iteration that finds where :math:`W` starts."""


@dataclass(frozen=True)
class Users:
    """N-grams of one kind, sorted, and how many authors use each."""

    keys: Keys
    authors: IntArray


def count_users(texts: Sequence[str], authors: IntArray) -> tuple[Users, ...]:
    """How many of these authors use each n-gram, kind by kind; an author's texts lie together.

    What only one of several authors uses is left out: it is most of all, and never widely used.

    >>> found, _ = count_users(["a cat", "a dog", "a cow"], np.array([0, 0, 1]))
    >>> found.authors.tolist()
    [2, 2, 2]
    """
    firsts = [*np.flatnonzero(np.diff(authors, prepend=-1)), len(texts)]
    found = []
    for kind in BASES.values():
        own = [
            np.unique(np.concatenate([kind(text) for text in texts[low:high]]))
            for low, high in pairwise(firsts)
        ]
        everyone = np.concatenate([np.empty(0, dtype=np.uint64), *own])
        keys, counts = np.unique(everyone, return_counts=True)
        several = counts >= min(2, len(own))
        found.append(Users(keys[several], counts[several]))
    return tuple(found)


def choose(
    domains: Sequence[tuple[Sequence[tuple[Users, ...]], int]], most: Sequence[int]
) -> FittedNGrams:
    """The n-grams that the most authors use: so many of each kind.

    A domain is what :func:`count_users` found in its parts, and how many authors it has.
    """
    blocks = []
    for number, (kind, limit) in enumerate(zip(BASES, most, strict=True)):
        parts = [(part[number], n_authors) for own, n_authors in domains for part in own]
        keys, place = np.unique(np.concatenate([p.keys for p, _ in parts]), return_inverse=True)
        share = np.concatenate([p.authors / n_authors / len(domains) for p, n_authors in parts])
        share = np.bincount(place, share, len(keys))
        kept = np.sort(np.argsort(-share, kind="stable")[:limit])
        blocks.append(Block(kind, keys[kept], 1.0 - np.log(share[kept])))
    return FittedNGrams(tuple(blocks))


@dataclass(frozen=True)
class GramRows:
    """Row i is ``columns[offsets[i]:offsets[i + 1]]`` with their ``values``."""

    columns: NDArray[np.int32]
    values: NDArray[np.float16]
    offsets: IntArray

    @classmethod
    def of(cls, texts: Sequence[str], ngrams: FittedNGrams) -> Self:
        """The rows of texts."""
        rows = ngrams.transform(texts)
        values = rows.data.astype(np.float16)
        return cls(rows.indices.astype(np.int32), values, rows.indptr.astype(np.int64))

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """One after another."""
        lengths = np.concatenate([np.diff(part.offsets) for part in parts])
        return cls(
            np.concatenate([part.columns for part in parts]),
            np.concatenate([part.values for part in parts]),
            np.concatenate([[0], np.cumsum(lengths)]),
        )


@dataclass(frozen=True)
class DeviceRows:
    """Rows where the network is."""

    columns: Tensor
    values: Tensor
    offsets: Tensor

    @classmethod
    def place(cls, rows: GramRows, device: torch.device | str) -> DeviceRows:
        """Copy them there."""
        return cls(
            *(torch.from_numpy(a).to(device) for a in (rows.columns, rows.values, rows.offsets))
        )

    def take(self, rows: Tensor) -> DeviceRows:
        """Some rows, in this order."""
        first, length = self.offsets[rows], self.offsets[rows + 1] - self.offsets[rows]
        ends = length.cumsum(0)
        owner = torch.repeat_interleave(length)
        place = torch.arange(len(owner), device=owner.device) + (first - ends + length)[owner]
        offsets = torch.cat([ends.new_zeros(1), ends])
        return DeviceRows(self.columns[place], self.values[place], offsets)

    def times(self, table: Tensor) -> Tensor:
        """(rows, n-grams) x (n-grams, size)."""
        product: Tensor = nn.functional.embedding_bag(
            self.columns.long(),
            table,
            self.offsets,
            mode="sum",
            per_sample_weights=self.values.to(table.dtype),
            include_last_offset=True,
        )
        return product

    def transposed_times(self, values: Tensor, n_columns: int) -> Tensor:
        """(n-grams, rows) x (rows, size): the slope of :meth:`times` along ``values``."""
        table = values.new_zeros(n_columns, values.shape[1], requires_grad=True)
        with torch.enable_grad():
            product = self.times(table)
        slope: Tensor = torch.autograd.grad(product, table, values)[0]
        return slope


def leading_directions(rows: DeviceRows, n_columns: int, size: int, seed: int) -> Tensor:
    """(n-grams, size): about the leading right singular vectors, of root mean square one."""
    generator = torch.Generator().manual_seed(seed)
    device = rows.columns.device
    basis = torch.randn(n_columns, size, generator=generator).to(device)
    order = torch.arange(len(rows.offsets) - 1, device=device)
    for _ in range(PASSES):
        total = torch.zeros_like(basis)
        for some in torch.split(order, ROWS_PER_PRODUCT):
            part = rows.take(some)
            total += part.transposed_times(part.times(basis), n_columns)
        basis = torch.linalg.qr(total)[0]
    scaled: Tensor = basis * n_columns**0.5
    return scaled
