"""Randomness as an argument: one generator per member.

A member draws the same numbers whether it trains alone or among a thousand others, and whatever
the global generator holds.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass

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

    def _fill(self, shape: Sequence[int], fill: Callable[..., Tensor]) -> Tensor:
        return self._refill(
            torch.zeros(len(self), *shape, device=self.device, dtype=self.dtype), fill
        )

    def _refill(self, drawn: Tensor, fill: Callable[..., Tensor]) -> Tensor:
        for row, generator, draws in zip(drawn, self.generators, self._drawing, strict=True):
            if draws:
                fill(row, generator=generator)
        return drawn

    def normal(self, *shape: int) -> Float[Tensor, "m *shape"]:
        """Standard normal numbers of the given shape for every member."""
        return self._fill(shape, Tensor.normal_)

    def uniform(self, *shape: int) -> Float[Tensor, "m *shape"]:
        """Uniform numbers in [0, 1) of the given shape for every member."""
        return self._fill(shape, Tensor.uniform_)


class Unison(Streams):
    """Members who all hear the same numbers: what a seed draws is drawn once for everyone.

    >>> together, apart = Unison(7, 3).normal(4), Streams([7, 7, 7]).normal(4)
    >>> bool((together == apart).all())
    True
    """

    def __init__(
        self,
        seed: int,
        n_members: int,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__([seed], device, dtype)
        self.n_members = n_members

    def _fill(self, shape: Sequence[int], fill: Callable[..., Tensor]) -> Tensor:
        return super()._fill(shape, fill).expand(self.n_members, *shape)


@dataclass
class _Shelf:
    """The stock of one question that every step asks: many steps' answers, and the present one."""

    source: Streams
    fill: Callable[..., Tensor]
    stock: Float[Tensor, "m block *shape"]
    present: Float[Tensor, "m *shape"]

    def restock(self) -> None:
        self.source._refill(self.stock, self.fill)

    def turn_to(self, step: int) -> None:
        if self.stock.device.type == "cpu":
            self.present = self.stock[:, step]
        else:
            self.present.copy_(self.stock[:, step])


class Reservoir(Streams):
    """Streams for a loop whose every step asks the same: numbers are drawn many steps at once.

    Asking every member at every step costs more than the numbers themselves. On a graphics
    processor the answers live at the same addresses in every step, as a captured graph needs them.

    >>> reservoir = Reservoir(Streams([3, 7]), block=4)
    >>> reservoir.begin_step()
    >>> first = reservoir.normal(2).clone()
    >>> reservoir.begin_step()
    >>> bool((reservoir.normal(2) == first).any())
    False
    """

    def __init__(self, streams: Streams, block: int) -> None:
        self.device, self.dtype = streams.device, streams.dtype
        self.generators, self._drawing = streams.generators, streams._drawing
        self.block = block
        self._shelves: list[_Shelf] = []
        self._place = [-1, 0]  # the step within the block, the question within the step

    def begin_epoch(self) -> None:
        """Forget what is left of a block: whoever joins or leaves does it between epochs."""
        self._place[0] = -1

    def begin_step(self) -> None:
        """Move on to the next step's numbers."""
        step = self._place[0] = (self._place[0] + 1) % self.block
        self._place[1] = 0
        for shelf in self._shelves:
            if step == 0:
                shelf.restock()
            shelf.turn_to(step)

    def only(self, which: Sequence[bool]) -> Streams:
        """The same reservoir, but the other members get zeros and draw nothing."""
        chosen = copy.copy(self)
        chosen._drawing = list(which)
        return chosen

    def _fill(self, shape: Sequence[int], fill: Callable[..., Tensor]) -> Tensor:
        step, question = self._place
        self._place[1] += 1
        if question == len(self._shelves):
            source = Streams([], self.device, self.dtype)
            source.generators, source._drawing = self.generators, self._drawing
            stock = Streams._fill(source, (self.block, *shape), fill)
            self._shelves.append(_Shelf(source, fill, stock, stock[:, step].clone()))
        return self._shelves[question].present
