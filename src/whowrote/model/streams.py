"""Randomness as an argument: one generator per member.

A member draws the same numbers whether it trains alone or among a thousand others, and whatever
the global generator holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor


class Streams:
    """Independent streams of random numbers, one per member.

    >>> alone, together = Streams([7]), Streams([3, 7])
    >>> bool((alone.normal(4)[0] == together.normal(4)[1]).all())
    True
    """

    def __init__(
        self,
        seeds: Sequence[int],
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.device = torch.device(device)
        self.dtype = dtype
        self.generators = [torch.Generator(self.device).manual_seed(seed) for seed in seeds]
        self._drawing = [True] * len(self.generators)

    def __len__(self) -> int:
        return len(self.generators)

    def select(self, keep: Sequence[int]) -> Streams:
        """The streams of some members, each going on where it was."""
        chosen = Streams([], self.device, self.dtype)
        chosen.generators = [self.generators[index] for index in keep]
        chosen._drawing = [self._drawing[index] for index in keep]
        return chosen

    def only(self, which: Sequence[bool]) -> Streams:
        """The same streams, but the other members get zeros and draw nothing."""
        chosen = self.select(range(len(self)))
        chosen._drawing = list(which)
        return chosen

    def _fill(
        self, shape: Sequence[int], fill: Callable[[Tensor, torch.Generator], object]
    ) -> Tensor:
        drawn = torch.zeros(len(self), *shape, device=self.device, dtype=self.dtype)
        for row, generator, draws in zip(drawn, self.generators, self._drawing, strict=True):
            if draws:
                fill(row, generator)
        return drawn

    def normal(self, *shape: int) -> Float[Tensor, "m *shape"]:
        """Standard normal numbers of the given shape for every member."""
        return self._fill(shape, lambda row, generator: row.normal_(generator=generator))

    def uniform(self, *shape: int) -> Float[Tensor, "m *shape"]:
        """Uniform numbers in [0, 1) of the given shape for every member."""
        return self._fill(shape, lambda row, generator: row.uniform_(generator=generator))
