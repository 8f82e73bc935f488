r"""Copied texts: :math:`c(t) = \lvert R_t \cap R_{\text{others}} \rvert / \lvert R_t \rvert`.

:math:`R_t` is the set of runs of eight words in text *t*. A text of which more than 30 % stands in
texts of another account says who copied, not who writes, so it is taken out before styles are
weighed, and the accounts that share it are told apart from those that write alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from whowrote.arrays import BoolArray, IntArray
from whowrote.features.counting import word_runs
from whowrote.progress import tell

RUN, MOST_SHARED = 8, 0.3
"""Words of a run, and the share of a text's runs from which on it counts as copied."""
FEWEST_RUNS = 5
"""Fewer shared runs are proverbs and titles."""


@dataclass(frozen=True)
class Copies:
    """Which texts are copied, and how many runs of words each pair of accounts has in common."""

    copied: BoolArray
    pairs: IntArray
    """(pairs, 3): two accounts and their shared runs, most first."""


def find_copies(texts: Sequence[str], owner: IntArray) -> Copies:
    """Texts that stand, by and large, in another account as well."""
    runs = []
    for number, text in enumerate(texts):
        runs.append(np.unique(word_runs(text, RUN)))
        if number % 1000 == 0:
            tell("looking for copies", number, len(texts))
    lengths = np.array([len(own) for own in runs])
    document = np.repeat(np.arange(len(texts)), lengths)
    keys, key = np.unique(np.concatenate(runs), return_inverse=True)
    # The accounts of a run: each once, in order of runs.
    held = np.unique(np.stack([key, owner[document]], axis=1), axis=0)
    holders = np.bincount(held[:, 0], minlength=len(keys))
    shared = np.bincount(document, holders[key] > 1, minlength=len(texts))
    tell("looking for copies", len(texts), len(texts))
    copied = (shared >= FEWEST_RUNS) & (shared > MOST_SHARED * lengths)
    return Copies(copied, _pairs(held[holders[held[:, 0]] == 2][:, 1].reshape(-1, 2)))


def _pairs(accounts: IntArray) -> IntArray:
    """Pairs of accounts by the runs that they alone share, from so many on."""
    found, times = np.unique(np.sort(accounts, axis=1), axis=0, return_counts=True)
    table = np.column_stack([found, times])[times >= FEWEST_RUNS]
    return np.asarray(table[np.argsort(-table[:, 2], kind="stable")])
