r"""Many documents through the network: :math:`\mathrm{LEV} = \sum_k (n_k / n)\, f(\text{part}_k)`.

A document of more than ``longest`` tokens is cut into equal segments whose vectors are averaged by
their tokens, so every token of it counts. Documents travel sorted by length, in batches of about as
many windows as the device likes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from whowrote.arrays import IntArray
from whowrote.features.bag import DeviceRows, GramRows
from whowrote.features.network import Architecture, Layout, Network, lay_out
from whowrote.features.vocabulary import Types


@dataclass(frozen=True)
class DeviceCorpus:
    """The flat tokens and the table of types, where the network is."""

    tokens: Tensor
    characters: Tensor
    words: Tensor
    rows: DeviceRows | None = None

    @classmethod
    def place(
        cls,
        tokens: NDArray[np.int32],
        types: Types,
        device: torch.device | str,
        rows: GramRows | None = None,
    ) -> DeviceCorpus:
        """Copy them there."""
        return cls(
            torch.from_numpy(tokens).to(device),
            torch.from_numpy(types.characters).to(device),
            torch.from_numpy(types.words).to(device),
            None if rows is None else DeviceRows.place(rows, device),
        )

    def rows_of(self, documents: IntArray) -> DeviceRows | None:
        """The n-grams of documents, by their numbers."""
        if self.rows is None:
            return None
        return self.rows.take(torch.from_numpy(documents).to(self.tokens.device))


@dataclass(frozen=True)
class Segments:
    """Stretches of tokens and the document each belongs to."""

    starts: IntArray
    lengths: IntArray
    document: IntArray


def cut(starts: IntArray, lengths: IntArray, longest: int) -> Segments:
    """Cut documents into equal segments of at most ``longest`` tokens (0: do not cut).

    >>> segments = cut(np.array([0, 10]), np.array([10, 3]), longest=4)
    >>> segments.starts.tolist(), segments.lengths.tolist(), segments.document.tolist()
    ([0, 3, 6, 10], [3, 3, 4, 3], [0, 0, 0, 1])
    """
    pieces = np.maximum(1, -(-lengths // longest)) if longest else np.ones_like(lengths)
    document = np.repeat(np.arange(len(starts)), pieces)
    place = np.arange(len(document)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    low = lengths[document] * place // pieces[document]
    high = lengths[document] * (place + 1) // pieces[document]
    return Segments(starts[document] + low, high - low, document)


def batches(lengths: IntArray, hop: int, windows: int) -> Iterator[IntArray]:
    """Positions, longest first, in batches of at most about so many windows."""
    order = np.argsort(-lengths, kind="stable")
    low = 0
    while low < len(order):
        most = int(lengths[order[low]]) // hop + 1
        high = low + max(1, windows // most)
        yield order[low:high]
        low = high


Forward = Callable[[Tensor, Layout, IntArray], Tensor]
"""From the types in windows, where the windows lie, and whose they are, to one vector each."""


@torch.no_grad()
def embed_stretches(
    forward: Forward,
    architecture: Architecture,
    tokens: Tensor,
    starts: IntArray,
    lengths: IntArray,
    *,
    longest: int,
    windows: int,
) -> Tensor:
    """One vector per stretch of tokens, whatever its length; segments count by their tokens."""
    a, device = architecture, tokens.device
    segments = cut(starts, lengths, longest)
    total = torch.zeros(len(starts), a.lev_dim, device=device)
    for rows in batches(segments.lengths, a.hop, windows):
        layout = lay_out(segments.starts[rows], segments.lengths[rows], a.window, a.hop, device)
        size = min(a.window, int(segments.lengths[rows[0]]))  # the first one is the longest
        share = segments.lengths[rows] / lengths[segments.document[rows]]
        vectors = forward(layout.ids(tokens, size), layout, segments.document[rows]).float()
        vectors = vectors * torch.from_numpy(share).to(vectors)[:, None]
        total.index_add_(0, torch.from_numpy(segments.document[rows]).to(device), vectors)
    return total


def embed(
    network: Network,
    corpus: DeviceCorpus,
    starts: IntArray,
    lengths: IntArray,
    *,
    longest: int = 264,
    windows: int = 8192,
    half: bool = False,
    documents: IntArray | None = None,
) -> Tensor:
    """LEVs (documents, lev_dim) of stretches of the corpus; ``half`` computes in bfloat16.

    ``documents`` says whose n-grams go with each stretch, by default those of the document of its
    number.
    """

    def forward(ids: Tensor, layout: Layout, stretches: IntArray) -> Tensor:
        rows = corpus.rows_of(stretches if documents is None else documents[stretches])
        with torch.autocast(ids.device.type, torch.bfloat16, enabled=half):
            levs: Tensor = network(ids, layout, corpus.characters, corpus.words, rows=rows)
        return levs

    return embed_stretches(
        forward,
        network.architecture,
        corpus.tokens,
        starts,
        lengths,
        longest=longest,
        windows=windows,
    )
