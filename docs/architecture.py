"""The rooms of the package and who imports whom: read from the source, checked, and drawn.

    imports (ast) -> rooms and edges -> transitive reduction -> architecture.svg, architecture.png

Command: ``python docs/architecture.py``, two seconds on one CPU core. ``tests/test_floor_plan.py``
holds the source to the floors below, ``tests/test_architecture.py`` the committed picture to the
source.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from pathlib import Path
from random import Random
from typing import Any

HERE = Path(__file__).parent
SOURCE = HERE.parent / "src"
PACKAGE, EXPERIMENTS = "whowrote", "whowrote_experiments"
GROUND = "ground floor"
"""The root modules of the lowest floor, which the picture shows as one box."""
GROUND_MODULES = (
    *("errors", "arrays", "runtime", "formatting", "private", "progress"),
    *("checks", "distributed", "drafts", "files", "schema"),
)

# From the ground up. A room is a package or a module right below `whowrote`; beside it stands what
# the picture says of it. A module imports from its own floor or a lower one, never from above;
# what is not listed here has no floor, and fails the test.
FLOORS: tuple[dict[str, str], ...] = (
    dict.fromkeys(GROUND_MODULES, ""),
    {
        "corpus": "reads, splits, audits texts",
        "metrics": "figures of merit",
        "model": "the bound; torch alone",
    },
    {"features": "texts to rows (n, L)", "ratios": "their cost and bounds"},
    {"training": "one visible loop"},
    {"baselines": "what is to be beaten", "estimators": "the scikit-learn face"},
    {"sweep": "many fits, resumable"},
    {"attribution": "from rows to an answer"},
    {
        "evaluation": "cross-validation",
        "clustering": "texts without labels",
        "stylometry": "Delta, Zeta, trees",
    },
    {
        "validation": "ratios of people left out",
        "held_out": "answers, refusals",
        "stress": "harder texts",
    },
    {"plots": "figures", "report": "an HTML page", "linking": "accounts of one person"},
    {"demo": "the main job, end to end", "case": "texts, log, findings"},
    {"cli": "the command line", "__main__": "", "web": "a local page"},
)
HEIGHT = {room: height for height, floor in enumerate(FLOORS) for room in floor}

# What flows through, beside the floor from which it comes.
FLOW = {
    1: "texts",
    2: "rows (n, L)",
    3: "q(x | o)",
    4: "log p(author | o)",
    6: "Attribution",
    9: "page",
}


# The source, read: which module imports what.


def module_name(path: Path, source: Path) -> str:
    """The dotted name of a file below ``source``; a package is called as its folder.

    >>> module_name(Path("src/whowrote/model/__init__.py"), Path("src"))
    'whowrote.model'
    """
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules_of(source: Path, package: str) -> dict[str, Path]:
    """Every module of a package below ``source``, by its dotted name."""
    return {module_name(path, source): path for path in sorted((source / package).rglob("*.py"))}


def room_of(module: str) -> str:
    """The first part of a dotted name below ``whowrote``; the package itself is ``__init__``.

    >>> room_of("whowrote.model.precision"), room_of("whowrote")
    ('model', '__init__')
    >>> room_of("whowrote_experiments.table1")
    'whowrote_experiments'
    """
    if module.split(".")[0] == EXPERIMENTS:
        return EXPERIMENTS
    return module.split(".")[1] if "." in module else "__init__"


def imports_of(path: Path, module: str, *, for_types: bool = True) -> set[str]:
    """Absolute names of what a file imports, at any depth; ``for_types``: for hints alone too."""
    package = module if path.stem == "__init__" else module.rpartition(".")[0]
    found: set[str] = set()
    for node in _nodes(ast.parse(path.read_text(encoding="utf-8")), for_types):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: package.count(".") + 2 - node.level] if node.level else []
            start = ".".join([*above, *([node.module] if node.module else [])])
            found |= {f"{start}.{alias.name}" for alias in node.names}
    return found


def _nodes(tree: ast.AST, for_types: bool) -> Iterator[ast.AST]:
    """Every node below ``tree``, with or without what stands under ``if TYPE_CHECKING``."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test) and not for_types:
            continue
        yield node
        yield from _nodes(node, for_types)


# Rooms and edges.


@dataclass(frozen=True)
class Graph:
    """The rooms of every floor, lowest first, and the edges (from, to) that reduction leaves."""

    floors: tuple[tuple[str, ...], ...]
    edges: frozenset[tuple[str, str]]

    @property
    def height(self) -> dict[str, int]:
        """The floor of every room."""
        return {room: height for height, floor in enumerate(self.floors) for room in floor}

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"floors": [sorted(floor) for floor in self.floors], "edges": sorted(self.edges)}


def room_edges(source: Path = SOURCE) -> set[tuple[str, str]]:
    """Which room imports which other, as (from, to)."""
    modules = modules_of(source, PACKAGE) | modules_of(source, EXPERIMENTS)
    edges = {
        (room_of(module), room_of(name))
        for module, path in modules.items()
        for name in imports_of(path, module)
        if name.split(".")[0] in (PACKAGE, EXPERIMENTS)
    }
    rooms = {*HEIGHT, EXPERIMENTS}
    return {(here, there) for here, there in edges if here != there and {here, there} <= rooms}


def read_graph(source: Path = SOURCE) -> Graph:
    """The rooms that exist and the imports between them, as they are drawn.

    Modules of the lowest floor are one room, which all others import: it has no edges. An edge
    that follows from others is left out.
    """
    there = {room_of(module) for module in modules_of(source, PACKAGE)}
    floors = [tuple(room for room in floor if room in there) for floor in FLOORS]
    floors = [tuple(room for room in floor if room != "__main__") for floor in floors]
    floors[0] = (GROUND,)
    if (source / EXPERIMENTS).is_dir():
        floors.append((EXPERIMENTS,))
    height = {room: level for level, floor in enumerate(floors) for room in floor}
    edges = {(one, other) for one, other in room_edges(source) if {one, other} <= {*height}}
    upward = {(one, other) for one, other in edges if height[other] > height[one]}
    return Graph(tuple(floors), frozenset(reduced(edges - upward) | upward))


def reduced(edges: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Edges without those that follow from two or more others.

    >>> sorted(reduced({("cli", "model"), ("cli", "training"), ("training", "model")}))
    [('cli', 'training'), ('training', 'model')]
    """
    after: dict[str, set[str]] = {}
    for here, there in edges:
        after.setdefault(here, set()).add(there)

    def reachable(start: str, without: str) -> set[str]:
        seen, ahead = {without}, [start]
        while ahead:
            room = ahead.pop()
            if room not in seen:
                seen.add(room)
                ahead += after.get(room, ())
        return seen - {without}

    return {
        (here, there)
        for here, there in edges
        if not any(there in reachable(other, here) for other in after[here] - {there})
    }


# The layout: rooms and the bends of long edges, floor by floor (Sugiyama's method).


@dataclass
class Layout:
    """Where everything stands across: rooms by name, bends by (from, to, floor)."""

    graph: Graph
    width: dict[Any, float]
    order: list[list[Any]]
    chains: list[list[Any]]
    x: dict[Any, float] = field(default_factory=dict)

    def neighbours(self) -> dict[Any, list[Any]]:
        """What hangs together along the edges; bends count more, to keep long edges straight."""
        found: dict[Any, list[Any]] = {node: [] for floor in self.order for node in floor}
        for chain in self.chains:
            for one, other in pairwise(chain):
                weight = (1, 3, 12)[isinstance(one, tuple) + isinstance(other, tuple)]
                found[one] += [other] * weight
                found[other] += [one] * weight
        return found


STARTS = 300
BOX, BEND, GAP = 2.0, 0.2, 0.25
"""Widths in inches: of a room, of an edge that passes a floor, and of the air between."""


def lay_out(graph: Graph, centre: float, reach: float) -> Layout:
    """The straightest of the orders with the fewest crossings, from many random starts."""
    random, order, chains = Random(0), *_nodes_and_chains(graph)
    width = {node: BEND if isinstance(node, tuple) else BOX for floor in order for node in floor}
    found = []
    for _ in range(STARTS):
        start = [random.sample(floor, len(floor)) for floor in order]
        layout = Layout(graph, width, start, chains)
        _sort_floors(layout)
        found.append((_crossings(layout), layout))
    fewest = min(crossings for crossings, _ in found)
    best = {str(layout.order): layout for crossings, layout in found if crossings == fewest}
    for layout in best.values():
        _place(layout, centre, reach)
    return min(best.values(), key=_detours)


def _nodes_and_chains(graph: Graph) -> tuple[list[list[Any]], list[list[Any]]]:
    order: list[list[Any]] = [list(floor) for floor in graph.floors]
    chains: list[list[Any]] = []
    for here, there in sorted(edge for edge in graph.edges if not _goes_up(graph, edge)):
        floors = range(graph.height[here] - 1, graph.height[there], -1)
        bends = [(here, there, floor) for floor in floors]
        for bend in bends:
            order[bend[2]].append(bend)
        chains.append([here, *bends, there])
    return order, chains


def _goes_up(graph: Graph, edge: tuple[str, str]) -> bool:
    return graph.height[edge[1]] > graph.height[edge[0]]


def _sort_floors(layout: Layout) -> None:
    """Everything towards the mean place of its neighbours, up and down the floors."""
    near = layout.neighbours()
    for _ in range(12):
        for floors in (layout.order, layout.order[::-1]):
            for floor in floors:
                place = _places(layout.order)
                floor.sort(
                    key=lambda node: _mean(
                        [place[n] for n in dict.fromkeys(near[node])], place[node]
                    )
                )


def _places(order: list[list[Any]]) -> dict[Any, float]:
    return {node: (i + 0.5) / len(floor) for floor in order for i, node in enumerate(floor)}


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _links(layout: Layout) -> list[tuple[Any, Any]]:
    return [link for chain in layout.chains for link in pairwise(chain)]


def _crossings(layout: Layout) -> int:
    """How many pairs of links cross; a link along a floor crosses all that stands between."""
    where = {node: (h, i) for h, floor in enumerate(layout.order) for i, node in enumerate(floor)}
    links = [(*where[one], *where[other]) for one, other in _links(layout)]
    between = sum(abs(i - j) - 1 for h, i, level, j in links if h == level)
    down = [(h, i, j) for h, i, level, j in links if h != level]
    pairs = combinations(down, 2)
    return between + sum(a[0] == b[0] and (a[1] - b[1]) * (a[2] - b[2]) < 0 for a, b in pairs)


def _detours(layout: Layout) -> float:
    return sum((layout.x[one] - layout.x[other]) ** 2 for one, other in _links(layout))


def _place(layout: Layout, centre: float, reach: float) -> None:
    """Edges as straight as can be: everything to the mean of its neighbours, kept apart."""
    near = layout.neighbours()
    for floor in layout.order:
        for node, place in _places([floor]).items():
            layout.x[node] = centre + (place - 0.5) * 2 * reach
    for _ in range(400):
        for floor in layout.order:
            for node in floor:
                pull = [layout.x[other] for other in near[node]]
                layout.x[node] += 0.5 * (_mean(pull, layout.x[node]) - layout.x[node])
            _keep_apart(layout, floor, centre, reach)
    _straighten(layout)
    shift = centre - (max(layout.x.values()) + min(layout.x.values())) / 2
    layout.x = {node: x + shift for node, x in layout.x.items()}
    layout.x[GROUND] = centre


def _straighten(layout: Layout) -> None:
    """A small step of a long edge becomes none, where there is room."""
    floor_of = {node: floor for floor in layout.order for node in floor}
    for above, bend in [link for _ in range(3) for link in _links(layout)]:
        if isinstance(bend, tuple) and abs(layout.x[above] - layout.x[bend]) < BEND:
            others = [node for node in floor_of[bend] if node != bend]
            if all(
                abs(layout.x[above] - layout.x[node]) > (layout.width[node] + GAP) / 2
                for node in others
            ):
                layout.x[bend] = layout.x[above]


def _keep_apart(layout: Layout, floor: list[Any], centre: float, reach: float) -> None:
    """Push neighbours on a floor apart until none overlap, and back into the picture."""
    for _ in range(20):
        for left, right in pairwise(floor):
            needed = (layout.width[left] + layout.width[right]) / 2 + GAP
            lack = needed - (layout.x[right] - layout.x[left])
            if lack > 0:
                layout.x[left] -= lack / 2
                layout.x[right] += lack / 2
        for node in floor:
            free = reach - layout.width[node] / 2
            layout.x[node] = min(max(layout.x[node], centre - free), centre + free)


# The drawing.

SIZE = (10.0, 10.4)
STEP, BOX_HEIGHT = 0.78, 0.46
INK, PALE, EDGE, FLOW_INK = "#1d2733", "#f4f6f8", "#5b7083", "#9a5a00"


def draw(graph: Graph) -> Any:
    """The picture as a matplotlib figure: floors from bottom to top, the flow at the right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE, facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, SIZE[0]), ylim=(0, SIZE[1]))
    axes.axis("off")
    layout = lay_out(graph, centre=4.15, reach=3.95)
    for height in range(1, len(graph.floors), 2):
        axes.axhspan(_level(height) - STEP / 2, _level(height) + STEP / 2, color=PALE, lw=0)
    for chain in layout.chains:
        _draw_edge(axes, layout, chain)
    for here, there in sorted(edge for edge in graph.edges if _goes_up(graph, edge)):
        _draw_upward(axes, layout, here, there)
    for height, floor in enumerate(graph.floors):
        for room in floor:
            _draw_room(axes, room, layout.x[room], _level(height))
    _draw_flow(axes)
    return figure


def _level(height: float) -> float:
    return 0.45 + STEP * height


def _draw_room(axes: Any, room: str, x: float, y: float) -> None:
    from matplotlib.patches import FancyBboxPatch

    width = 7.9 if room == GROUND else BOX
    axes.add_patch(
        FancyBboxPatch(
            (x - width / 2, y - BOX_HEIGHT / 2),
            width,
            BOX_HEIGHT,
            boxstyle="round,pad=0,rounding_size=0.07",
            facecolor="white",
            edgecolor=INK,
            linewidth=1.1,
            linestyle="--" if room == EXPERIMENTS else "-",
            zorder=3,
        )
    )
    title, caption = _words(room)
    axes.text(x, y + 0.09, title, size=9.5, weight="bold", **_CENTRED)
    axes.text(x, y - 0.11, caption, size=7.5, **_CENTRED)


_CENTRED: dict[str, Any] = {"ha": "center", "va": "center", "color": INK, "zorder": 4}


def _words(room: str) -> tuple[str, str]:
    """The name of a room with its inner rooms, and what it is for."""
    if room == GROUND:
        there = {room_of(module) for module in modules_of(SOURCE, PACKAGE)}
        return "   ".join(
            name for name in FLOORS[0] if name in there
        ), "what every package may import"
    if room == EXPERIMENTS:
        return "whowrote_experiments", "the paper"
    inner = sorted(path.parent.name for path in (SOURCE / PACKAGE / room).glob("*/__init__.py"))
    return " + ".join([room, *inner]), FLOORS[HEIGHT[room]][room]


def _draw_edge(axes: Any, layout: Layout, chain: list[Any]) -> None:
    """From the lower side of a room, past the bends, to the upper side of another."""
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path as Line

    heights = layout.graph.height
    top, bottom = heights[chain[0]], heights[chain[-1]]
    if top == bottom:
        _draw_sideways(axes, layout, chain)
        return
    half = BOX_HEIGHT / 2
    points = [(layout.x[chain[0]], _level(top) - half)]
    for bend in chain[1:-1]:  # upright past the boxes of a floor
        points += [
            (layout.x[bend], _level(bend[2]) + half),
            (layout.x[bend], _level(bend[2]) - half),
        ]
    points.append((layout.x[chain[-1]], _level(bottom) + half + 0.02))
    vertices, codes = [points[0]], [Line.MOVETO]
    for (x0, y0), (x1, y1) in pairwise(points):
        middle = (y0 + y1) / 2
        vertices += [(x0, middle), (x1, middle), (x1, y1)]
        codes += [Line.CURVE4] * 3
    axes.add_patch(FancyArrowPatch(path=Line(vertices, codes), **_ARROW))


def _draw_sideways(axes: Any, layout: Layout, chain: list[Any]) -> None:
    from matplotlib.patches import FancyArrowPatch

    start, end = layout.x[chain[0]], layout.x[chain[-1]]
    side = BOX / 2 if end > start else -BOX / 2
    y = _level(layout.graph.height[chain[0]])
    axes.add_patch(FancyArrowPatch((start + side, y), (end - side, y), **_ARROW))


def _draw_upward(axes: Any, layout: Layout, here: str, there: str) -> None:
    """An import that the floor plan forbids, in red."""
    from matplotlib.patches import FancyArrowPatch

    start = (layout.x[here] + 0.3, _level(layout.graph.height[here]) + BOX_HEIGHT / 2)
    end = (layout.x[there] + 0.3, _level(layout.graph.height[there]) - BOX_HEIGHT / 2)
    axes.add_patch(FancyArrowPatch(start, end, **_ARROW | {"color": "#c62828"}))


_ARROW: dict[str, Any] = {
    "arrowstyle": "-|>,head_length=4,head_width=2",
    "color": EDGE,
    "linewidth": 1.0,
    "shrinkA": 0,
    "shrinkB": 0,
    "zorder": 2,
}


def _draw_flow(axes: Any) -> None:
    """What goes in at the bottom and comes out at the top."""
    x = 9.15
    heights = sorted(FLOW)
    for low, high in pairwise(heights):
        axes.annotate(
            "",
            xy=(x, _level(high) - 0.15),
            xytext=(x, _level(low) + 0.15),
            arrowprops={"arrowstyle": "-|>", "color": FLOW_INK, "lw": 1.2},
        )
    for height, words in FLOW.items():
        axes.text(x, _level(height), words, size=9, color=FLOW_INK, ha="center", va="center")
    axes.text(x, _level(0), "data flows up,\nimports point down", size=7.5, **_CENTRED)


MARK = re.compile(r"<!-- architecture: (.*?) -->", re.DOTALL)


def write(folder: Path = HERE) -> None:
    """Draw the picture of the source into two files; the SVG says in a comment what it shows."""
    import matplotlib

    graph = read_graph()
    with matplotlib.rc_context({"svg.hashsalt": PACKAGE, "font.family": "DejaVu Sans"}):
        figure = draw(graph)
        figure.savefig(folder / "architecture.png", dpi=200)
        figure.savefig(folder / "architecture.svg", metadata={"Date": None})
    svg = folder / "architecture.svg"
    said = f"<!-- architecture: {json.dumps(graph.to_dict())} -->\n</svg>"
    lines = svg.read_text(encoding="utf-8").rstrip().removesuffix("</svg>") + said
    svg.write_text("\n".join(line.rstrip() for line in lines.splitlines()) + "\n", encoding="utf-8")


def shown(svg: Path) -> dict[str, Any]:
    """What a picture says that it shows."""
    found = MARK.search(svg.read_text(encoding="utf-8"))
    assert found, f"{svg} does not say what it shows: run python docs/architecture.py"
    plain: dict[str, Any] = json.loads(found[1])
    return plain


if __name__ == "__main__":
    write()
