"""What is said of accounts: links with what was weighed, groups, a table and a graph."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from xml.etree import ElementTree

from whowrote.ratios import verbal

PROPOSITIONS = (
    "one person wrote both accounts",
    "two different people of the population wrote them",
)
REMARK = (
    "A link is a lead for a person to look into, never a finding: people who know each other, who "
    "share a trade or quote each other write alike, and linking accounts can hurt people."
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True)
class Link:
    """One pair of accounts and what speaks for one person.

    ``log10_lr`` is the logarithm of the likelihood ratio, ``low`` and ``high`` its limits over
    other samples of accounts; ``limited`` says that it would be larger had more pairs been learnt
    from. ``probability`` is what the ratio makes of the prior; ``false_discovery_rate`` the share
    of pairs by two people that is expected among this one and all before it. ``standings`` say how
    far the likeness stands out of what is usual for both, ``cosines`` how alike they are, by view.
    """

    rank: int
    first: str
    second: str
    log10_lr: float
    low: float
    high: float
    limited: bool
    probability: float
    false_discovery_rate: float
    reported: bool
    group: int | None
    standings: dict[str, float]
    cosines: dict[str, float]
    texts: tuple[int, int]
    words: tuple[int, int]
    shared_runs: int
    """Runs of eight words that these two accounts alone have in common."""
    alike: tuple[str, str]
    """The two texts that are most alike, to begin reading with."""

    @property
    def in_words(self) -> str:
        """How much the ratio says, on the verbal scale of ENFSI; it decides nothing."""
        return verbal(self.log10_lr, *PROPOSITIONS)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, with the ratio in words."""
        listed = {"texts": list(self.texts), "words": list(self.words), "alike": list(self.alike)}
        return {**asdict(self), **listed, "support": self.in_words}


@dataclass(frozen=True)
class Group:
    """Accounts that reported links hold together, and the weakest of these links.

    ``links`` of ``pairs`` pairs of them are reported: a group in which few are may be a chain, each
    account like the next and the first not like the last.
    """

    number: int
    accounts: tuple[str, ...]
    links: int
    pairs: int
    weakest: float


@dataclass(frozen=True)
class Links:
    """The pairs to review, the likeliest first; those reported come before the others."""

    links: tuple[Link, ...]
    groups: tuple[Group, ...]
    reported: int
    fdr: float
    budget: int
    expected_in_budget: float
    """How many of the pairs within the budget are expected to be by one person."""
    expected_links: float
    prior_given: bool
    pairs: int
    """All pairs of accounts."""
    accounts: int
    texts: int
    population: str
    ratio: dict[str, Any]
    search: dict[str, Any]
    copied_texts: int
    copies: tuple[tuple[str, str, int], ...]
    """Pairs of accounts with the runs of words they share, most first."""
    left_out: tuple[str, ...]
    warnings: tuple[str, ...]
    settings: dict[str, Any]

    @property
    def prior(self) -> float:
        """The probability of one person for a pair, before anything is read."""
        return self.expected_links / self.pairs

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "propositions": list(PROPOSITIONS),
            **{name: value for name, value in self.__dict__.items() if name != "links"},
            "prior": self.prior,
            "groups": [asdict(group) | {"accounts": list(group.accounts)} for group in self.groups],
            "copies": [list(one) for one in self.copies],
            "left_out": list(self.left_out),
            "warnings": [*self.warnings, REMARK],
            "links": [link.to_dict() for link in self.links],
        }

    def to_json(self) -> str:
        """One object of JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    def to_csv(self) -> str:
        """A table, a row for each pair; names that a spreadsheet would compute are quoted."""
        page = io.StringIO()
        writer = csv.writer(page, lineterminator="\n")
        views = list(self.links[0].standings) if self.links else []
        heads = [*(f"standing: {name}" for name in views), *(f"cosine: {name}" for name in views)]
        writer.writerow([*_HEAD, *heads])
        for link in self.links:
            writer.writerow([_cell(value) for value in _row(link)])
        return page.getvalue()

    def to_graphml(self) -> str:
        """A graph of the accounts in the list: nodes with their groups, edges with their ratios."""
        return graphml(self.links)


_HEAD = (
    *("rank", "first", "second", "log10_lr", "low", "high", "limited", "support", "probability"),
    *("false_discovery_rate", "reported", "group", "texts_first", "texts_second"),
    *("words_first", "words_second", "shared_runs", "alike_first", "alike_second"),
)


def _row(link: Link) -> list[Any]:
    return [
        *(link.rank, link.first, link.second, link.log10_lr, link.low, link.high, link.limited),
        *(link.in_words, link.probability, link.false_discovery_rate, link.reported),
        *("" if link.group is None else link.group, *link.texts, *link.words),
        *(link.shared_runs, *link.alike, *link.standings.values(), *link.cosines.values()),
    ]


def _cell(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


# -- groups --------------------------------------------------------------------------------------


def group_numbers(pairs: Iterable[tuple[str, str]]) -> dict[str, int]:
    """The connected components of links, numbered from 1 in the order of their first link.

    >>> group_numbers([("a", "b"), ("c", "d"), ("b", "e")])
    {'a': 1, 'b': 1, 'c': 2, 'd': 2, 'e': 1}
    """
    root: dict[str, str] = {}

    def top(name: str) -> str:
        root.setdefault(name, name)
        while root[name] != name:
            root[name] = root[root[name]]
            name = root[name]
        return name

    for first, second in pairs:
        root[top(second)] = top(first)
    numbers: dict[str, int] = {}
    return {name: numbers.setdefault(top(name), len(numbers) + 1) for name in list(root)}


def groups_of(links: Sequence[Link]) -> tuple[Group, ...]:
    """The groups of the reported links, with their evidence."""
    by_number: dict[int, list[Link]] = {}
    for link in links:
        if link.reported and link.group is not None:
            by_number.setdefault(link.group, []).append(link)
    return tuple(_group(number, own) for number, own in sorted(by_number.items()))


def _group(number: int, own: Sequence[Link]) -> Group:
    names = sorted({name for link in own for name in (link.first, link.second)})
    pairs = len(names) * (len(names) - 1) // 2
    return Group(number, tuple(names), len(own), pairs, min(link.log10_lr for link in own))


# -- a graph -------------------------------------------------------------------------------------

_NODE = {"group": "int", "reported": "boolean"}
_EDGE = {
    **{"log10_lr": "double", "probability": "double", "false_discovery_rate": "double"},
    **{"reported": "boolean", "support": "string", "shared_runs": "int"},
}


def graphml(links: Sequence[Link]) -> str:
    """Links as GraphML, which Gephi, Cytoscape and networkx read."""
    root = ElementTree.Element("graphml", xmlns="http://graphml.graphdrawing.org/xmlns")
    for kind, fields in (("node", _NODE), ("edge", _EDGE)):
        for name, value in fields.items():
            key = {"id": f"{kind}-{name}", "for": kind, "attr.name": name, "attr.type": value}
            ElementTree.SubElement(root, "key", key)
    graph = ElementTree.SubElement(root, "graph", id="links", edgedefault="undirected")
    nodes: dict[str, tuple[int | None, bool]] = {}
    for link in links:
        for name in (link.first, link.second):
            group, reported = nodes.get(name, (None, False))
            nodes[name] = (group or link.group, reported or link.reported)
    for name, (group, reported) in nodes.items():
        node = ElementTree.SubElement(graph, "node", id=_xml(name))
        _data(node, "node", {"group": group, "reported": reported})
    for link in links:
        edge = ElementTree.SubElement(
            graph, "edge", source=_xml(link.first), target=_xml(link.second)
        )
        plain = {name: getattr(link, name) for name in _EDGE if name != "support"}
        _data(edge, "edge", plain | {"support": link.in_words})
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _data(holder: ElementTree.Element, kind: str, values: dict[str, Any]) -> None:
    for name, value in values.items():
        if value is not None:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            ElementTree.SubElement(holder, "data", key=f"{kind}-{name}").text = text


def _xml(name: str) -> str:
    """A name without characters that XML cannot hold."""
    return "".join(c if c in "\t\n\r" or (c >= " " and not _unfit(c)) else "\ufffd" for c in name)


def _unfit(c: str) -> bool:
    return "\ud800" <= c <= "\udfff" or c in "\ufffe\uffff"
