r"""Delta and its relatives: frequencies of words, distances of texts, and trees over the bands.

.. math:: \Delta_B(x, y) = \frac1J \sum_{j \le J} |z_j(x) - z_j(y)|, \qquad
    \Delta_\angle(x, y) = 1 - \cos(z(x), z(y)), \qquad z_j = (f_j - \mu_j) / \sigma_j

:math:`f_j` is the share of the *j*-th most frequent word of all texts in a text. Texts go in, a
frozen table comes out; nothing is learnt, and no figure here is a probability.

In the consensus a group of texts stays if more than half of the trees have it: Ward's trees of the
cosine Delta over the 100, 200, ..., 1,000 most frequent words. An edge of the network has, for
every band, 3, 2 or 1 where a text is the nearest, second or third of another (Eder, 2017). Exports:
Newick, GraphML, CSV.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self
from xml.etree import ElementTree

import numpy as np
from scipy.cluster import hierarchy
from scipy.spatial.distance import cdist, squareform

from whowrote.arrays import FloatArray
from whowrote.attribution.population import read_by_extractor
from whowrote.attribution.profiles import unit_rows
from whowrote.attribution.verification import packaged_extractor
from whowrote.corpus.texts import Corpus
from whowrote.errors import InputError, did_you_mean
from whowrote.features.counting import Block, plain
from whowrote.formatting import count, printable
from whowrote.progress import tell

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
            f"the corpus has {count(len(corpus), 'text')}; a table of distances needs 3 to "
            f"{MOST_TEXTS:,}: give so many, or cut a longer text into passages"
        )
    if n_words < 1:
        raise InputError(f"n_words is {n_words}; it must be at least 1: give 500")


BANDS = tuple(range(100, 1001, 100))
STRENGTH = 0.5
NEIGHBOURS = (3.0, 2.0, 1.0)
"""What the nearest, second and third text of a text add to their edge, for every band of words."""


@dataclass(frozen=True)
class Group:
    """Texts that stand together, and the share of trees in which they do."""

    members: tuple[int, ...]
    share: float


@dataclass(frozen=True)
class Edge:
    """Two texts of which one is among the nearest of the other, and how often and how near."""

    source: int
    target: int
    weight: float


@dataclass(frozen=True)
class Consensus:
    """The groups that most trees share; rooted where the two most different branches meet."""

    names: tuple[str, ...]
    authors: tuple[str | None, ...]
    bands: tuple[int, ...]
    strength: float
    groups: tuple[Group, ...]
    """Nested or disjoint, larger ones first; the first one is all texts."""
    edges: tuple[Edge, ...]

    def children(self, group: Group) -> list[Group | int]:
        """What a group is made of: smaller groups, and texts in none of them."""
        inside = [one for one in self.groups if set(one.members) < set(group.members)]
        top = [a for a in inside if not any(set(a.members) < set(b.members) for b in inside)]
        held = {row for one in top for row in one.members}
        return [*top, *(row for row in group.members if row not in held)]

    def company(self, row: int) -> tuple[Group, dict[str, int]] | None:
        """The smallest group of a text that has texts of known authors, and how many of each."""
        for group in reversed(self.groups[1:]):
            others = [self.authors[one] for one in group.members if one != row]
            known = Counter(name for name in others if name is not None)
            if row in group.members and known:
                return group, dict(known)
        return None

    def newick(self) -> str:
        """The tree in Newick's notation, with the shares as labels of the groups."""
        return f"{self._newick(self.groups[0])};"

    def _newick(self, node: Group | int) -> str:
        if isinstance(node, int):
            return "'" + self.names[node].replace("'", "''") + "'"
        inner = ",".join(self._newick(child) for child in self.children(node))
        return f"({inner}){node.share:.2f}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def consensus(
    corpus: Corpus,
    *,
    bands: Sequence[int] = BANDS,
    strength: float = STRENGTH,
    cosine: bool = True,
) -> Consensus:
    """Ward's trees of the cosine Delta over bands of frequent words; the groups that most have."""
    check_texts(corpus, min(bands, default=0))
    if not 0.5 <= strength < 1.0:
        raise InputError(
            f"strength is {strength}; it must be at least 0.5 and below 1, or groups that "
            "contradict each other could both be kept: give 0.5"
        )
    table = Frequencies.of(corpus.texts, max(bands))
    used = tuple(sorted({min(band, len(table.words)) for band in bands}))
    found: Counter[frozenset[int]] = Counter()
    weights = np.zeros((len(corpus), len(corpus)))
    for number, band in enumerate(used, start=1):
        apart = table.delta(band, cosine=cosine)
        found.update(_clades(apart))
        _add_neighbours(weights, apart)
        tell("growing trees", number, len(used))
    kept = [(group, times / len(used)) for group, times in found.items()]
    groups = [Group(tuple(sorted(group)), share) for group, share in kept if share > strength]
    groups.sort(key=lambda group: (-len(group.members), group.members))
    rows, columns = np.nonzero(np.triu(weights))
    edges = [Edge(int(a), int(b), float(weights[a, b])) for a, b in zip(rows, columns, strict=True)]
    return Consensus(corpus.ids, corpus.authors, used, strength, tuple(groups), tuple(edges))


def _clades(apart: FloatArray) -> set[frozenset[int]]:
    """The texts below every node of Ward's tree."""
    links = hierarchy.linkage(squareform(apart, checks=False), "ward")
    below: list[frozenset[int]] = [frozenset([row]) for row in range(len(apart))]
    for left, right in links[:, :2].astype(int):
        below.append(below[left] | below[right])
    return set(below[len(apart) :])


def _add_neighbours(weights: FloatArray, apart: FloatArray) -> None:
    far = apart.copy()
    np.fill_diagonal(far, np.inf)
    order = np.argsort(far, axis=1, kind="stable")
    for rank, weight in enumerate(NEIGHBOURS[: len(apart) - 1]):
        for row, other in enumerate(order[:, rank]):
            weights[row, other] += weight
            weights[other, row] += weight


def joined_samples(corpus: Corpus, words: int) -> Corpus:
    """Texts of known authors joined, in their order, to samples of so many words or more.

    Short texts are unsteady: a tree of them keeps few groups. A questioned text stays alone, since
    to join it with others would say that one person wrote them all.
    """
    texts: list[str] = []
    authors: list[str | None] = []
    names: list[str] = []
    for author, own in corpus.by_author().items():
        for first, last in _runs(own.word_counts, words):
            texts.append("\n\n".join(own.texts[first:last]))
            authors.append(author)
            span = (
                own.ids[first] if last - first == 1 else f"{own.ids[first]} to {own.ids[last - 1]}"
            )
            names.append(f"{author}: {span}")
    asked = corpus.unlabelled()
    names += [f"?: {name}" for name in asked.ids]
    return Corpus.from_texts([*texts, *asked.texts], [*authors, *asked.authors], ids=names)


def _runs(sizes: Sequence[int], least: int) -> list[tuple[int, int]]:
    """Neighbours that have so many words together; what is left over belongs to the last."""
    runs, first, total = list[tuple[int, int]](), 0, 0
    for row, size in enumerate(sizes):
        total += size
        if total >= least:
            runs.append((first, row + 1))
            first, total = row + 1, 0
    if first < len(sizes):
        start = runs.pop()[0] if runs else 0
        runs.append((start, len(sizes)))
    return runs


# -- exports -------------------------------------------------------------------------------------

QUESTIONED = "questioned"


def edge_list(tree: Consensus) -> str:
    """The network as CSV, as Gephi reads it."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["Source", "Target", "Weight", "Type"])
    for edge in tree.edges:
        ends = tree.names[edge.source], tree.names[edge.target]
        writer.writerow([*ends, f"{edge.weight:g}", "Undirected"])
    return out.getvalue()


def graphml(tree: Consensus) -> str:
    """The network as GraphML; texts have a label and an author, edges a weight."""
    root = ElementTree.Element("graphml", xmlns="http://graphml.graphdrawing.org/xmlns")
    keys = (("label", "node", "string"), ("author", "node", "string"), ("weight", "edge", "double"))
    for name, of, kind in keys:
        about = {"id": name, "for": of, "attr.name": name, "attr.type": kind}
        ElementTree.SubElement(root, "key", about)
    graph = ElementTree.SubElement(root, "graph", edgedefault="undirected")
    for row, (name, author) in enumerate(zip(tree.names, tree.authors, strict=True)):
        node = ElementTree.SubElement(graph, "node", id=f"n{row}")
        ElementTree.SubElement(node, "data", key="label").text = name
        ElementTree.SubElement(node, "data", key="author").text = author or QUESTIONED
    for edge in tree.edges:
        ends = {"source": f"n{edge.source}", "target": f"n{edge.target}"}
        line = ElementTree.SubElement(graph, "edge", ends)
        ElementTree.SubElement(line, "data", key="weight").text = f"{edge.weight:g}"
    return printable(ElementTree.tostring(root, encoding="unicode", xml_declaration=True))
