"""A model is a fleet: members share an architecture and differ in everything else.

An ensemble, five folds and a grid are the same code: batched products instead of many small jobs.
Every parameter and buffer has the member dimension first, so that choosing, saving and restoring
members is indexing. Here is what a fleet is made of (:class:`Architecture`, :class:`Member`), what
it learns from (:class:`Rows`, :class:`Batch`) and where it draws random numbers from
(:class:`Streams`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

UNLABELLED = -1


@dataclass(frozen=True)
class Architecture:
    """What all members share.

    ``n_features`` is what the decoder explains (L); ``n_inputs`` is what the encoder reads, which
    differs from it only for sparse data.
    """

    n_features: int
    n_components: int
    latent_dim: int
    hidden: tuple[int, ...]
    activation: str = "tanh"
    n_inputs: int | None = None
    n_samples: int = 1
    objective: str = "bound"

    @property
    def encoder_width(self) -> int:
        """The number of columns the encoder reads."""
        return self.n_features if self.n_inputs is None else self.n_inputs


@dataclass(frozen=True)
class Member:
    """What a member may have for itself.

    ``df_rate`` multiplies the step size of the degrees of freedom: Adam moves a parameter by about
    one step size at a time, here ln(nu - 2), and that has far to go.
    """

    seed: int = 0
    component: str = "student-t"
    learning_rate: float = 0.003
    scale_floor: float = 0.1
    l1: float = 0.0
    joint_weight: float = 1.0
    label_weight: float = 0.0
    input_dropout: float = 0.0
    hidden_dropout: float = 0.0
    initial_df: float = 5.0
    df_rate: float = 1.0


State = dict[str, Tensor]


def snapshot(fleet: nn.Module) -> State:
    """A copy of every parameter."""
    return {name: value.detach().clone() for name, value in fleet.named_parameters()}


# -- rows ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SparseRows:
    """Rows in compressed form: row i owns ``columns[start[i]:start[i + 1]]`` and their values.

    With ``per_member`` rows, the first block of rows belongs to the first member, and so on.
    """

    start: Int[Tensor, " r1"]
    columns: Int[Tensor, " z"]
    values: Float[Tensor, " z"]

    def take(self, index: Int[Tensor, "m n"]) -> SparseRows:
        """The rows ``index``, member after member."""
        flat = index.reshape(-1)
        length = self.start[flat + 1] - self.start[flat]
        start = torch.zeros(len(flat) + 1, dtype=self.start.dtype, device=flat.device)
        torch.cumsum(length, 0, out=start[1:])
        total = int(start[-1])
        within = torch.arange(total, device=flat.device) - torch.repeat_interleave(
            start[:-1], length, output_size=total
        )
        source = torch.repeat_interleave(self.start[flat], length, output_size=total) + within
        return SparseRows(start, self.columns[source], self.values[source])


@dataclass(frozen=True)
class Groups:
    """The rows of a batch by author, p slots for each; numbers count through all members.

    Where each row needs the distance from its own component alone, rows lie together by author in
    groups of equal length, whose empty slots are never read back.
    """

    slots: Int[Tensor, "m k p"]
    """Which row lies in a slot, among the n + 1 rows of every member; the last one is empty."""
    places: Int[Tensor, "m n"]
    """In which slot a row lies."""

    @classmethod
    def of(cls, labels: Int[Tensor, "m n"], k: int, width: int) -> Groups:
        """Group rows; ``width`` must be at least :func:`widest` of their labels.

        >>> Groups.of(torch.tensor([[1, 0, 1]]), 2, 2).slots.tolist()
        [[[1, 3], [0, 2]]]
        """
        m, n = labels.shape
        members, own = torch.arange(m, device=labels.device)[:, None], labels.unsqueeze(-1)
        hits = own == torch.arange(k, device=labels.device)
        rank = hits.cumsum(1, dtype=torch.int32).gather(-1, own).squeeze(-1).long() - 1
        places = (members * k + labels) * width + rank
        slots = (members * (n + 1) + n).repeat_interleave(k * width, dim=1).flatten()
        rows = members * (n + 1) + torch.arange(n, device=labels.device)
        slots.scatter_(0, places.flatten(), rows.flatten())
        return cls(slots.reshape(m, k, width), places)

    def gathered(self, rows: Float[Tensor, "m n d"], spare: int = 0) -> Float[Tensor, "m k p e"]:
        """Rows in their slots, with ``spare`` zeros behind each; zeros where a slot is empty."""
        padded = functional.pad(rows, (0, spare, 0, 1)).flatten(0, 1)
        taken = padded.index_select(0, self.slots.flatten())
        return taken.reshape(*self.slots.shape, -1)

    def vectors(self, slots: Float[Tensor, "m k p d"]) -> Float[Tensor, "m n d"]:
        """What lies in the slot of every row."""
        taken = slots.flatten(0, 2).index_select(0, self.places.flatten())
        return taken.reshape(*self.places.shape, -1)

    def values(self, slots: Float[Tensor, "m p k"]) -> Float[Tensor, "m n"]:
        """One number for every row, differentiable: no two rows share a slot."""
        return slots.mT.flatten().gather(0, self.places.flatten()).reshape(self.places.shape)


def widest(labels: Int[Tensor, "*batch n"], k: int) -> int:
    """The largest number of rows that one author has in one batch.

    >>> widest(torch.tensor([[0, 0, 1], [2, 2, 2]]), 3)
    3
    """
    counts = torch.zeros(*labels.shape[:-1], k, dtype=torch.int32, device=labels.device)
    counts.scatter_add_(-1, labels.long(), torch.ones_like(labels, dtype=torch.int32))
    return int(counts.max())


@dataclass(frozen=True)
class Batch:
    """One minibatch for every member; ``labels`` is -1 where the author is unknown.

    With ``groups``, a fleet computes the distance of each row from its own component alone: enough
    where every row is labelled and the joint score is all that is maximised.
    """

    inputs: Float[Tensor, "m n l"] | SparseRows
    targets: Float[Tensor, "m n l"]
    labels: Int[Tensor, "m n"]
    groups: Groups | None = None

    def unlabelled(self) -> Batch:
        """The same rows with every label forgotten."""
        return Batch(self.inputs, self.targets, torch.full_like(self.labels, UNLABELLED))

    def grouped(self, k: int, width: int) -> Batch:
        """The same rows, also by author; ``width`` is at least that of the :func:`widest` group."""
        return replace(self, groups=Groups.of(self.labels, k, width))


@dataclass(frozen=True)
class Rows:
    """All rows, shared by every member; a member asks for its own by index.

    Dense data are read by the encoder and explained by the decoder. Sparse data (n-grams) are read
    as they are, while the decoder explains a dense low-dimensional projection of them, ``targets``:
    the bound is then one on the log-likelihood of that projection, with the sparse row as side
    information of q(x | o).

    ``weights`` say how much a row counts; without them every row counts alike.
    """

    targets: Float[Tensor, "r l"]
    labels: Int[Tensor, " r"]
    sparse: SparseRows | None = None
    weights: Float[Tensor, " r"] | None = None

    def take(self, index: Int[Tensor, "m n"]) -> Batch:
        """Gather the rows that each member asks for."""
        targets = self.targets[index]
        inputs = targets if self.sparse is None else self.sparse.take(index)
        return Batch(inputs, targets, self.labels[index])

    def of_step(self, index: Int[Tensor, "m n"]) -> Batch:
        """The same for a step of learning, whose rows come in an order."""
        return self.take(index)

    @property
    def replayable(self) -> bool:
        """Whether a captured step can gather them: they are on the device, of equal length."""
        return self.sparse is None

    def all_labelled(self) -> bool:
        """Whether the author of every row is known."""
        return bool((self.labels != UNLABELLED).all())

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class StoredRows(Rows):
    """Dense rows that stay in a file; ``targets`` says shape, device and precision, and no value.

    ``read`` gives those of an index, scaled; it is told whether what lies beside them will soon be
    asked for too.
    """

    read: Callable[[Tensor, bool], Tensor] = field(kw_only=True)

    def take(self, index: Int[Tensor, "m n"]) -> Batch:
        """Read the rows that each member asks for."""
        return self._batch(index, in_runs=False)

    def of_step(self, index: Int[Tensor, "m n"]) -> Batch:
        """The same for a step of learning."""
        return self._batch(index, in_runs=True)

    @property
    def replayable(self) -> bool:
        """They are not on the device."""
        return False

    def _batch(self, index: Tensor, in_runs: bool) -> Batch:
        targets = self.read(index, in_runs)
        return Batch(targets, targets, self.labels[index].long())


# -- random numbers ------------------------------------------------------------------------------


class Streams:
    """Randomness as an argument: independent streams of random numbers, one per member.

    A member draws the same numbers whether it trains alone or among a thousand others, and whatever
    the global generator holds.

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


class SharedStream(Streams):
    """One stream for all members: what a seed draws is drawn once for everyone.

    >>> together, apart = SharedStream(7, 3).normal(4), Streams([7, 7, 7]).normal(4)
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
class _Drawn:
    """What one call of every step draws: the numbers of a block of steps, and the present ones."""

    source: Streams
    fill: Callable[..., Tensor]
    block: Float[Tensor, "m block *shape"]
    present: Float[Tensor, "m *shape"]

    def refill(self) -> None:
        self.source._refill(self.block, self.fill)

    def turn_to(self, step: int) -> None:
        if self.block.device.type == "cpu":
            self.present = self.block[:, step]
        else:
            self.present.copy_(self.block[:, step])


class BlockStreams(Streams):
    """Streams for a loop whose every step draws the same shapes: a block of steps is drawn at once.

    Asking every member at every step costs more than the numbers themselves. On a GPU the numbers
    live at the same addresses in every step, as a captured graph needs them.

    >>> streams = BlockStreams(Streams([3, 7]), block=4)
    >>> streams.begin_step()
    >>> first = streams.normal(2).clone()
    >>> streams.begin_step()
    >>> bool((streams.normal(2) == first).any())
    False
    """

    def __init__(self, streams: Streams, block: int) -> None:
        self.device, self.dtype = streams.device, streams.dtype
        self.generators, self._drawing = streams.generators, streams._drawing
        self.block = block
        self._calls: list[_Drawn] = []
        self._place = [-1, 0]  # the step within the block, the call within the step

    def begin_epoch(self) -> None:
        """Forget what is left of a block: members leave between epochs."""
        self._place[0] = -1

    def begin_step(self) -> None:
        """Move on to the next step's numbers."""
        step = self._place[0] = (self._place[0] + 1) % self.block
        self._place[1] = 0
        for drawn in self._calls:
            if step == 0:
                drawn.refill()
            drawn.turn_to(step)

    def only(self, which: Sequence[bool]) -> Streams:
        """The same streams, but the other members get zeros and draw nothing."""
        chosen = copy.copy(self)
        chosen._drawing = list(which)
        return chosen

    def _fill(self, shape: Sequence[int], fill: Callable[..., Tensor]) -> Tensor:
        step, call = self._place
        self._place[1] += 1
        if call == len(self._calls):
            source = Streams([], self.device, self.dtype)
            source.generators, source._drawing = self.generators, self._drawing
            block = Streams._fill(source, (self.block, *shape), fill)
            self._calls.append(_Drawn(source, fill, block, block[:, step].clone()))
        return self._calls[call].present
