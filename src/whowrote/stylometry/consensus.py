r"""The consensus of trees over bands of frequent words, and the network of nearest texts.

A group of texts stays if more than half of the trees have it: Ward's trees of the cosine Delta over
the 100, 200, ..., 1,000 most frequent words. An edge of the network has, for every band, 3, 2 or 1
where a text is the nearest, second or third of another (Eder, 2017). Exports: Newick, GraphML, CSV.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any
from xml.etree import ElementTree

import numpy as np
from scipy.cluster import hierarchy
from scipy.spatial.distance import squareform

from whowrote.arrays import FloatArray
from whowrote.corpus.texts import Corpus
from whowrote.errors import InputError
from whowrote.formatting import printable
from whowrote.progress import tell
from whowrote.stylometry.frequencies import Frequencies, check_texts

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
