r"""The second tower of the style extractor: a transformer over word pieces.

.. math:: x_0 = \mathrm{LN}(E_p + P_i + M_m), \qquad
    u = \mathrm{LN}(x + O\,\mathrm{softmax}(q k^\top / \sqrt{d})\, v), \qquad
    x' = \mathrm{LN}(u + W_2\, \mathrm{gelu}(W_1 u)), \qquad
    t = w \tanh\bigl(A\, [\bar x_0; \bar x_j; \bar x_n] + d\bigr)

with :math:`E` the pieces, :math:`P` their places, :math:`M` their marks (:mod:`.pieces`), and
:math:`\bar x_j` the mean of layer j over the pieces of a text. It starts in the weights of a
sentence encoder (all-MiniLM-L6-v2, Apache-2.0); marks start at zero. A text is read in equal
stretches, and the means run over all of them.

Reading, the products run in 8 bits: weights and inputs are rounded row by row, so that no text
changes how another one is rounded.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file
from torch import Tensor, nn

from whowrote import private
from whowrote.arrays import IntArray
from whowrote.errors import InputError
from whowrote.features.layers import Standardise, drop
from whowrote.features.pieces import MARKS, PieceRows

MOST_STRETCHES = 32
"""Of one text; a longer one is read in so many stretches at equal distances."""
PADDING = 8
"""Stretches are padded to multiples of so many pieces."""
PIECES_PER_GROUP = {"cpu": 512, "cuda": 65_536}
"""Pieces that go through the layers together, by device: as many as it likes."""


@dataclass(frozen=True)
class EncoderShape:
    """Everything that decides the shape of the tower; zero layers: there is none."""

    layers: int = 0
    width: int = 384
    heads: int = 12
    hidden: int = 1536
    positions: int = 130
    """A stretch has so many pieces less two, for every stretch is opened and closed by one."""
    depths: tuple[int, ...] = (0, 3, 6)
    """The layers whose means go into the vector; 0 is what goes into the first."""
    lev_dim: int = 200
    lev_gain: float = 0.5
    marks: bool = True
    n_pieces: int = 30522
    special: tuple[int, ...] = (101, 102, 103)
    """The numbers of the pieces that open, close and hide."""
    alone: bool = False
    """Whether the vector is this tower's alone: for measuring what it is worth."""
    weight: float = 1.0
    """How much its numbers count beside the first tower's, by cosine."""

    def __post_init__(self) -> None:
        if self.layers and (not self.depths or max(self.depths) > self.layers):
            raise InputError(
                f"depths are {list(self.depths)} and there are {self.layers} layers; each must be "
                "0 to that number: correct them"
            )
        if self.layers and (self.width % self.heads or self.positions < 3):
            raise InputError(
                f"width is {self.width}, heads {self.heads}, positions {self.positions}; the width "
                "must be a multiple of the heads and there must be 3 positions: give 384, 12, 130"
            )
        if not self.weight > 0:
            raise InputError(
                f"weight is {self.weight}; it must be above 0: give 1, or layers = 0 for no tower"
            )


@dataclass(frozen=True)
class Hiding:
    """What is hidden while the tower learns: shares, and whatever draws them."""

    shares: Mapping[str, float]
    """Of pieces, of rare pieces besides, of means, and of what a layer adds (``states``)."""
    generator: torch.Generator

    def pieces(self, group: PieceGroup, rare: Tensor, hidden: int) -> Tensor:
        """The pieces of a group, some of them replaced by the hidden one."""
        share = self.shares["pieces"] + self._rare_shares(group) * rare[group.pieces]
        chance = torch.rand(group.pieces.shape, generator=self.generator, device=share.device)
        return torch.where(group.inner & (chance < share), hidden, group.pieces)

    def _rare_shares(self, group: PieceGroup) -> Tensor | float:
        """(stretches, 1), or one share for all where they are not spread."""
        mean, spread = self.shares["rare"], self.shares["rare_spread"]
        if not spread:
            return mean
        shape, device = (len(group.pieces), 1), group.pieces.device
        drawn = torch.rand(shape, generator=self.generator, device=device)
        return mean * (1 + spread * (2 * drawn - 1))

    def states(self, added: Tensor) -> Tensor:
        """(n, time, width), the same columns hidden along a stretch."""
        n, _, width = added.shape
        return drop(added, self.shares["states"], (n, 1, width), self.generator)

    def means(self, means: Tensor) -> Tensor:
        """(texts, size)."""
        return drop(means, self.shares["means"], means.shape, self.generator)


class Layer(nn.Module):
    """Attention, then two products; each is added to what it read and normalised."""

    def __init__(self, shape: EncoderShape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.read = nn.Linear(shape.width, 3 * shape.width)
        self.write = nn.Linear(shape.width, shape.width)
        self.up = nn.Linear(shape.width, shape.hidden)
        self.down = nn.Linear(shape.hidden, shape.width)
        self.first = nn.LayerNorm(shape.width, eps=1e-12)
        self.second = nn.LayerNorm(shape.width, eps=1e-12)

    def forward(self, states: Tensor, inside: Tensor, drawn: Hiding | None = None) -> Tensor:
        """(n, time, width) to the same; ``inside`` is (n, 1, 1, time)."""
        n, time, width = states.shape
        split = self.read(states).view(n, time, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=inside)
        added = self.write(mixed.transpose(1, 2).reshape(n, time, width))
        states = self.first(states + (added if drawn is None else drawn.states(added)))
        added = self.down(nn.functional.gelu(self.up(states)))
        found: Tensor = self.second(states + (added if drawn is None else drawn.states(added)))
        return found


@dataclass(frozen=True)
class Stretches:
    """Places of stretches in flat arrays of pieces, and the text each belongs to."""

    starts: IntArray
    lengths: IntArray
    text: IntArray


def stretches_of(starts: IntArray, lengths: IntArray, longest: int) -> Stretches:
    """Cut every text into equal stretches; of a very long one, some at equal distances.

    >>> found = stretches_of(np.array([0, 5]), np.array([5, 7]), longest=4)
    >>> found.starts.tolist(), found.lengths.tolist(), found.text.tolist()
    ([0, 2, 5, 8], [2, 3, 3, 4], [0, 0, 1, 1])
    """
    pieces = np.maximum(1, -(-lengths // longest))
    kept = np.minimum(pieces, MOST_STRETCHES)
    text = np.repeat(np.arange(len(lengths)), kept)
    place = np.arange(len(text)) - np.repeat(np.cumsum(kept) - kept, kept)
    place = place * pieces[text] // kept[text]
    low = lengths[text] * place // pieces[text]
    high = lengths[text] * (place + 1) // pieces[text]
    return Stretches(starts[text] + low, high - low, text)


def padded(lengths: IntArray, most: int) -> IntArray:
    """Lengths after padding, which a stretch's own length alone decides.

    Sums over other padding round differently in the last bit, and what is rounded to 8 bits after
    them would now and then differ by a step: the other texts of a call would be seen.

    >>> padded(np.array([3, 8, 9, 129]), most=130).tolist()
    [8, 8, 16, 130]
    """
    found: IntArray = np.minimum(-(-lengths // PADDING) * PADDING, most)
    return found


@dataclass(frozen=True)
class DevicePieces:
    """Flat pieces and marks of a corpus, where the network is."""

    pieces: Tensor
    marks: Tensor

    @classmethod
    def place(cls, rows: PieceRows, device: torch.device | str) -> DevicePieces:
        """Copy them there; torch indexes by signed numbers only."""
        return cls(
            torch.from_numpy(rows.pieces.astype(np.int32)).to(device),
            torch.from_numpy(rows.marks).to(device),
        )

    def batch(self, stretches: Stretches, shape: EncoderShape, n_texts: int) -> PieceBatch:
        """Stretches, opened and closed, in groups of one padded length."""
        device = self.pieces.device
        order = np.argsort(-stretches.lengths, kind="stable")
        sizes = padded(stretches.lengths[order] + 2, shape.positions)
        at_once = PIECES_PER_GROUP.get(device.type, 65_536)
        groups = []
        for size in np.unique(sizes)[::-1]:
            same = order[sizes == size]
            for low in range(0, len(same), step := max(1, at_once // size)):
                own = same[low : low + step]
                bounds = (stretches.starts[own], stretches.lengths[own])
                groups.append(self._group(*bounds, int(size), shape))
        counts = np.bincount(stretches.text, stretches.lengths + 2, n_texts)
        owner = torch.from_numpy(stretches.text[order]).to(device)
        return PieceBatch(tuple(groups), owner, torch.from_numpy(counts).float().to(device))

    def _group(
        self, starts: IntArray, lengths: IntArray, size: int, shape: EncoderShape
    ) -> PieceGroup:
        device = self.pieces.device
        first, length = torch.from_numpy(np.stack([starts, lengths])).to(device)[..., None]
        place = torch.arange(size, device=device)
        inner = (place >= 1) & (place <= length)
        index = torch.where(inner, first + place - 1, 0)
        start, end, _ = shape.special
        ends = torch.where(place == 0, start, end)
        pieces = torch.where(inner, self.pieces[index].long(), ends)
        marks = torch.where(inner, self.marks[index].long(), 0)
        return PieceGroup(pieces, marks, inner, place <= length + 1)


@dataclass(frozen=True)
class PieceGroup:
    """Stretches of one padded length, (stretches, time).

    ``inner`` says where there is a piece of a text, ``inside`` where there is one at all.
    """

    pieces: Tensor
    marks: Tensor
    inner: Tensor
    inside: Tensor


@dataclass(frozen=True)
class PieceBatch:
    """Stretches of texts, the text of each, and how many pieces are read of each text."""

    groups: tuple[PieceGroup, ...]
    text: Tensor
    counts: Tensor


class PieceEncoder(nn.Module):
    """From stretches of pieces to one vector per text."""

    rare: Tensor

    def __init__(self, shape: EncoderShape) -> None:
        super().__init__()
        self.shape = s = shape
        self.pieces = nn.Embedding(s.n_pieces, s.width)
        self.places = nn.Embedding(s.positions, s.width)
        self.marks = nn.Embedding(MARKS, s.width) if s.marks else None
        for table in (self.pieces, self.places):
            nn.init.normal_(table.weight, std=0.02)
        if self.marks is not None:
            nn.init.zeros_(self.marks.weight)
        self.norm = nn.LayerNorm(s.width, eps=1e-12)
        self.layers = nn.ModuleList(Layer(s) for _ in range(s.layers))
        self.mean_scaling = Standardise(s.width * len(s.depths))
        self.lev = nn.Linear(s.width * len(s.depths), s.lev_dim)
        self.lev_scaling = Standardise(s.lev_dim)
        self.register_buffer("rare", torch.zeros(s.n_pieces))

    def forward(self, batch: PieceBatch, drawn: Hiding | None = None) -> Tensor:
        """(texts, lev_dim); while it learns, ``drawn`` hides parts of what it sees."""
        means = self.means(batch, drawn)
        scaled = self.mean_scaling(means, drawn is not None)
        if drawn is not None:
            scaled = drawn.means(scaled)
        lev: Tensor = self.lev(scaled).float()
        squashed: Tensor = (self.shape.lev_gain * self.lev_scaling(lev, drawn is not None)).tanh()
        return self.shape.weight * squashed

    def means(self, batch: PieceBatch, drawn: Hiding | None = None) -> Tensor:
        """(texts, depths x width): the states at the depths, averaged over the pieces of texts."""
        sums = []
        for group in batch.groups:
            hidden = self.shape.special[2]
            shown = group.pieces if drawn is None else drawn.pieces(group, self.rare, hidden)
            sums.append(self.sums(shown, group.marks, group.inside, drawn))
        together = torch.cat(sums)
        total = together.new_zeros(len(batch.counts), together.shape[1])
        return total.index_add(0, batch.text, together) / batch.counts[:, None]

    def sums(
        self, pieces: Tensor, marks: Tensor, inside: Tensor, drawn: Hiding | None = None
    ) -> Tensor:
        """(stretches, depths x width): the states of all pieces at the depths, added up."""
        states = self.pieces(pieces) + self.places.weight[: pieces.shape[1]]
        if self.marks is not None:
            states = states + self.marks(marks)
        states = self.norm(states)
        mask = inside[:, None, None]
        found = [_sum(states, inside)] if 0 in self.shape.depths else []
        for number, layer in enumerate(self.layers, start=1):
            states = layer(states, mask, drawn)
            if number in self.shape.depths:
                found.append(_sum(states, inside))
        return torch.cat(found, dim=1)


def _sum(states: Tensor, inside: Tensor) -> Tensor:
    return torch.einsum("nt,ntw->nw", inside.to(states.dtype), states).float()


# -- where it starts -----------------------------------------------------------------------------

_LAYER = {
    "write": "attention.output.dense",
    "first": "attention.output.LayerNorm",
    "up": "intermediate.dense",
    "down": "output.dense",
    "second": "output.LayerNorm",
}


def bert_state(arrays: Mapping[str, NDArray[Any]], shape: EncoderShape) -> dict[str, Tensor]:
    """The weights of a BERT model by the names of this tower."""
    try:
        state = _bert_state({n.removeprefix("bert."): a for n, a in arrays.items()}, shape)
    except KeyError as problem:
        raise InputError(
            f"the start weights have no {problem}; they must be those of a BERT model of at least "
            f"{shape.layers} layers: give the model.safetensors of all-MiniLM-L6-v2"
        ) from None
    return {
        name: torch.from_numpy(np.ascontiguousarray(a, np.float32)) for name, a in state.items()
    }


def _bert_state(arrays: Mapping[str, NDArray[Any]], shape: EncoderShape) -> dict[str, NDArray[Any]]:
    tables = {k: arrays[f"embeddings.{k}_embeddings.weight"] for k in ("word", "position")}
    tables["position"] = tables["position"] + arrays["embeddings.token_type_embeddings.weight"][0]
    found = {
        "pieces.weight": tables["word"],
        "places.weight": tables["position"][: shape.positions],
    }
    ends = ("weight", "bias")
    found |= {f"norm.{end}": arrays[f"embeddings.LayerNorm.{end}"] for end in ends}
    for number in range(shape.layers):
        there, here = f"encoder.layer.{number}.", f"layers.{number}."
        for end in ends:
            parts = [arrays[f"{there}attention.self.{p}.{end}"] for p in ("query", "key", "value")]
            found[f"{here}read.{end}"] = np.concatenate(parts)
            found |= {f"{here}{k}.{end}": arrays[f"{there}{v}.{end}"] for k, v in _LAYER.items()}
    return found


@torch.no_grad()
def start_encoder(encoder: PieceEncoder, weights: Path) -> None:
    """Start in the weights of a sentence encoder; what it has no counterpart for stays."""
    state = bert_state(load_file(weights), encoder.shape)
    own = encoder.state_dict()
    for name, value in state.items():
        if own[name].shape != value.shape:
            raise InputError(
                f"{name} is {tuple(value.shape)} in '{weights}' and {tuple(own[name].shape)} in "
                "the configuration; they must agree: correct [encoder]"
            )
    encoder.load_state_dict(state, strict=False)


# -- 8 bits --------------------------------------------------------------------------------------

LEVELS, SMALLEST_STEP = 127, 1e-12


def to_eight_bits(matrix: NDArray[Any]) -> tuple[NDArray[np.int8], NDArray[np.float16]]:
    """Rows as whole numbers and their steps: w_ij = s_i q_ij, |q| <= 127.

    >>> whole, steps = to_eight_bits(np.array([[0.5, -1.0], [0.0, 0.0]]))
    >>> whole.tolist(), steps.tolist()
    ([[64, -127], [0, 0]], [0.00787353515625, 0.0])
    """
    rows = matrix.reshape(len(matrix), -1).astype(np.float32)
    steps = (np.abs(rows).max(axis=1) / LEVELS).astype(np.float16)
    safe = np.where(steps > 0, steps, 1).astype(np.float32)[:, None]
    whole = np.clip(np.rint(rows / safe), -LEVELS, LEVELS).astype(np.int8)
    return whole.reshape(matrix.shape), steps


def from_eight_bits(whole: NDArray[np.int8], steps: NDArray[np.float16]) -> NDArray[np.float32]:
    """The numbers that they stand for."""
    wide = steps.astype(np.float32).reshape(-1, *[1] * (whole.ndim - 1))
    found: NDArray[np.float32] = whole.astype(np.float32) * wide
    return found


class EightBitLinear(nn.Module):
    r"""A linear layer in whole numbers: :math:`y_{ij} = s_i\, t_j \sum_k q_{ik} w_{jk} + b_j`.

    :math:`q_i` is a row of the inputs and :math:`s_i` its largest number by 127, so no row changes
    how another one is rounded. Where the processor multiplies whole numbers fast they are kept as
    such; elsewhere the same numbers are multiplied in single precision. For reading alone.
    """

    whole: Tensor
    steps: Tensor
    bias: Tensor

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach()
        steps = (weight.abs().amax(1) / LEVELS).clamp(min=SMALLEST_STEP)
        whole = (weight / steps[:, None]).round().clamp(-LEVELS, LEVELS)
        self.fast = weight.device.type == "cpu" and private.multiplies_bytes()
        self.register_buffer("whole", (whole.to(torch.int8) if self.fast else whole).T)
        self.register_buffer("steps", steps)
        self.register_buffer("bias", linear.bias.detach())

    def forward(self, inputs: Tensor) -> Tensor:
        """(..., in) to (..., out)."""
        rows = inputs.reshape(-1, inputs.shape[-1]).float()
        largest = torch.maximum(rows.amax(1, keepdim=True), -rows.amin(1, keepdim=True))
        steps = (largest / LEVELS).clamp(min=SMALLEST_STEP)
        whole = (rows / steps).round_()
        if self.fast:
            product = private.multiply_bytes(whole.to(torch.int8), self.whole).float()
        else:
            product = whole @ self.whole
        found = torch.addcmul(self.bias, product.mul_(steps), self.steps)
        return found.view(*inputs.shape[:-1], -1)


def in_eight_bits(encoder: PieceEncoder) -> PieceEncoder:
    """A copy whose layers multiply whole numbers."""
    copied = copy.deepcopy(encoder)
    for layer in copied.layers:
        for name in ("read", "write", "up", "down"):
            setattr(layer, name, EightBitLinear(getattr(layer, name)))
    return copied


@torch.no_grad()
def encode(
    encoder: PieceEncoder,
    placed: DevicePieces,
    starts: IntArray,
    lengths: IntArray,
    *,
    at_once: int,
    half: bool = False,
) -> Tensor:
    """(texts, lev_dim) of texts that lie at these places, so many at once; ``half``: bfloat16."""
    device, longest = placed.pieces.device, encoder.shape.positions - 2
    found = []
    for low in range(0, len(starts), at_once):
        own = slice(low, low + at_once)
        stretches = stretches_of(starts[own], lengths[own], longest)
        with torch.autocast(device.type, torch.bfloat16, enabled=half):
            found.append(encoder(placed.batch(stretches, encoder.shape, len(starts[own]))).float())
    return torch.cat(found)
