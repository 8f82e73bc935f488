"""Data walks one way: a module imports from its own floor or a lower one, never from above."""

import ast
import sys
from pathlib import Path

import pytest

import whowrote

SOURCE = Path(whowrote.__file__).parent

# From the ground up. A module (or every module of a folder) may import from lower floors and from
# its neighbours on the same floor; what is not listed here fails the test.
FLOORS = [
    {"errors", "atomic", "contents", "cores", "kernels", "numbers", "progress", "persistence"},
    {"corpus", "decoding", "readers", "metrics", "model"},
    {"splits", "audit", "passages", "features"},
    {"training", "stepping", "capacity", "ledger", "optimizer"},
    {"baselines", "contrasts", "estimators"},
    {"sweep"},
    {"calibration", "attribution", "explain"},
    {"evaluation", "clustering"},
    {"plots", "report"},
    {"experiments", "demo", "demo_page"},
    {"cli", "__main__", "web"},
]
HEIGHT = {name: height for height, floor in enumerate(FLOORS) for name in floor}
MODEL_MAY_IMPORT = {"torch", "jaxtyping", "whowrote", *sys.stdlib_module_names} - {
    *("io", "os", "pathlib", "json", "random", "re")  # no files, no text, no global randomness
}


def room(module: str) -> str:
    """The first part of a dotted name below the package."""
    return module.split(".")[1] if "." in module else "__init__"


def module_name(path: Path, source: Path) -> str:
    parts = path.relative_to(source.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 2 else parts)


def imports_of(path: Path) -> set[str]:
    """Absolute names of everything a file imports, at any depth."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def violations(source: Path) -> list[str]:
    """Every import that goes up the floor plan, and every foreign import of the model."""
    found = []
    for path in sorted(source.rglob("*.py")):
        here = room(module_name(path, source))
        if here == "__init__":
            continue
        if here not in HEIGHT:
            found.append(f"{here} has no floor")
            continue
        for name in imports_of(path):
            top = name.split(".")[0]
            if top == "whowrote" and "." in name:
                there = room(name)
                if there in HEIGHT and HEIGHT[there] > HEIGHT[here]:
                    found.append(f"{here} imports {there}")
                elif there not in HEIGHT and there not in ("__version__",):
                    found.append(f"{here} imports {there}, which has no floor")
            elif here == "model" and top not in MODEL_MAY_IMPORT:
                found.append(f"model imports {top}")
    return found


def test_no_import_goes_up_the_floor_plan() -> None:
    assert violations(SOURCE) == []


@pytest.mark.parametrize(
    ("room_name", "line", "finding"),
    [
        ("corpus", "from whowrote.cli import app", "corpus imports cli"),
        ("corpus", "from whowrote import estimators", "corpus imports estimators"),
        ("model/mixture", "def f():\n    import whowrote.training.loop", "model imports training"),
        ("model/mixture", "import sklearn.mixture", "model imports sklearn"),
        ("attic", "import math", "attic has no floor"),
    ],
)
def test_a_planted_violation_is_found(
    tmp_path: Path, room_name: str, line: str, finding: str
) -> None:
    planted = tmp_path / "whowrote" / f"{room_name}.py"
    planted.parent.mkdir(parents=True)
    planted.write_text(line)
    assert violations(tmp_path / "whowrote") == [finding]
