r"""Frequencies of words and distances of texts: Delta, and cosines of vectors and n-grams.

.. math:: \Delta_B(x, y) = \frac1J \sum_{j \le J} |z_j(x) - z_j(y)|, \qquad
    \Delta_\angle(x, y) = 1 - \cos(z(x), z(y)), \qquad z_j = (f_j - \mu_j) / \sigma_j

:math:`f_j` is the share of the *j*-th most frequent word of all texts in a text. Texts go in, a
frozen table comes out; nothing is learnt, and no figure here is a probability.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from scipy.spatial.distance import cdist

from whowrote.arrays import FloatArray
from whowrote.attribution.population import (
    read_by_extractor,
)
from whowrote.attribution.profiles import unit_rows
from whowrote.attribution.verification import (
    packaged_extractor,
)
from whowrote.corpus.texts import Corpus
from whowrote.errors import InputError, did_you_mean
from whowrote.features.counting import Block, plain

N_WORDS = 500
MOST_TEXTS = 2000
"""Texts of a distance table: four million distances."""


def words_in(text: str) -> list[str]:
    """Lower-case words without marks.

    >>> words_in("Upon my word, I'd rather not.")
    ['upon', 'my', 'word', "i'd", 'rather', 'not']
    """
    return plain(text).split()


@dataclass(frozen=True)
class Frequencies:
    """Shares of words in texts, (n, J); words by their total frequency, ties by the alphabet."""

    words: tuple[str, ...]
    shares: FloatArray

    @classmethod
    def of(cls, texts: Sequence[str], most: int = N_WORDS) -> Self:
        """Count the words of texts; of all words the ``most`` frequent have a column."""
        counts = [Counter(words_in(text)) for text in texts]
        total: Counter[str] = Counter()
        for own in counts:
            total.update(own)
        names = sorted(total, key=lambda word: (-total[word], word))[:most]
        table = np.array([[own[word] for word in names] for own in counts], dtype=np.float64)
        sizes = np.array([[max(1, own.total())] for own in counts])
        return cls(tuple(names), table.reshape(len(counts), len(names)) / sizes)

    def z(self, most: int) -> FloatArray:
        """Standardised shares of the most frequent words; a word that never varies is left out."""
        shares = self.shares[:, :most]
        spread = shares.std(axis=0, ddof=1)
        varies = spread > 0
        return np.asarray((shares - shares.mean(axis=0))[:, varies] / spread[varies])

    def delta(self, most: int, *, cosine: bool = False) -> FloatArray:
        """Burrows' Delta of every two texts, or the cosine Delta."""
        z = self.z(most)
        if cosine:
            return _cosine(z)
        return np.asarray(cdist(z, z, "cityblock") / max(1, z.shape[1]))


def _cosine(rows: FloatArray) -> FloatArray:
    size = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = rows / np.where(size > 0, size, 1.0)
    table = np.clip(1.0 - unit @ unit.T, 0.0, 2.0)
    np.fill_diagonal(table, 0.0)
    return np.asarray((table + table.T) / 2)


METHODS = {
    "delta": "Burrows' Delta over the most frequent words",
    "cosine-delta": "one minus the cosine of standardised frequencies",
    "vectors": "one minus the cosine of style vectors of the packaged extractor",
    "ngrams": "one minus the cosine of TF-IDF rows of character 2-4-grams",
}


@dataclass(frozen=True)
class Distances:
    """Every two texts by one method: names, authors (None: questioned), and a square table."""

    method: str
    n_words: int | None
    names: tuple[str, ...]
    authors: tuple[str | None, ...]
    table: FloatArray

    def nearest(self, row: int, n: int = 3) -> list[int]:
        """The texts nearest to a text, itself left out; ties in the order of the corpus."""
        order = np.argsort(self.table[row], kind="stable").tolist()
        return [other for other in order if other != row][:n]

    def plane(self) -> FloatArray:
        """(n, 2): places whose distances are like those of the table (classical scaling)."""
        values, vectors = self._scaled()
        axes = vectors[:, :2] * np.sqrt(np.maximum(values[:2], 0.0))
        largest = np.abs(axes).argmax(axis=0)
        signs = np.sign(axes[largest, np.arange(axes.shape[1])])
        return np.asarray(axes * np.where(signs == 0, 1.0, signs))

    def kept(self) -> float:
        """The share of the squared distances that the plane shows."""
        values = np.abs(self._scaled()[0])
        return float(values[:2].sum() / (values.sum() or 1.0))

    def _scaled(self) -> tuple[FloatArray, FloatArray]:
        n = len(self.names)
        centre = np.eye(n) - 1.0 / n
        values, vectors = np.linalg.eigh(-0.5 * centre @ self.table**2 @ centre)
        return values[::-1], vectors[:, ::-1]

    def to_csv(self) -> str:
        """The square table, a row and a column per text."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["text", "author", *self.names])
        for name, author, row in zip(self.names, self.authors, self.table, strict=True):
            writer.writerow([name, author or "", *(f"{value:.6f}" for value in row)])
        return out.getvalue()

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "table": self.table.tolist()}


def distances(corpus: Corpus, method: str = "delta", n_words: int = N_WORDS) -> Distances:
    """The distance of every two texts of a corpus."""
    check_texts(corpus, n_words)
    if method not in METHODS:
        raise InputError(
            f"method is {method!r}; it must be one of {', '.join(METHODS)}"
            f"{did_you_mean(method, METHODS)}: choose one"
        )
    by_words = method in ("delta", "cosine-delta")
    if by_words:
        table = Frequencies.of(corpus.texts, n_words).delta(n_words, cosine=method != "delta")
    elif method == "vectors":
        table = _cosine(vectors_of(corpus.texts))
    else:
        table = cosine_of_ngrams(corpus.texts)
    return Distances(method, n_words if by_words else None, corpus.ids, corpus.authors, table)


def vectors_of(texts: Sequence[str]) -> FloatArray:
    """Mean style vectors of texts, by the packaged extractor."""
    rows = next(iter(read_by_extractor(packaged_extractor(), texts).rows.values()))
    return np.asarray(rows, dtype=np.float64)


def cosine_of_ngrams(texts: Sequence[str]) -> FloatArray:
    """One minus the cosine of TF-IDF rows of character 2-4-grams, for every two texts."""
    rows = unit_rows(Block.learn("characters", texts, 1, 150_000).rows(texts))
    table = np.clip(1.0 - np.asarray((rows @ rows.T).todense()), 0.0, 1.0)
    np.fill_diagonal(table, 0.0)
    return np.asarray(table)


def check_texts(corpus: Corpus, n_words: int) -> None:
    """Whether a corpus can be laid out as a table or a tree."""
    if not 3 <= len(corpus) <= MOST_TEXTS:
        raise InputError(
            f"the corpus has {len(corpus)} texts; a table of distances needs 3 to {MOST_TEXTS:,}: "
            "give so many, or cut a longer text into passages"
        )
    if n_words < 1:
        raise InputError(f"n_words is {n_words}; it must be at least 1: give 500")
