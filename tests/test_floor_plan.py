"""The rules of the layout: imports go down, a name stands once, nothing is too long.

Data flows one way: a module imports from its own floor or a lower one, never from above. The
floors stand in ``docs/architecture.py``, which also draws them.
"""

import ast
import sys
from collections import Counter
from pathlib import Path

import pytest

from architecture_script import architecture

SOURCE: Path = architecture.SOURCE
PACKAGES = (architecture.PACKAGE, architecture.EXPERIMENTS)
HEIGHT: dict[str, int] = architecture.HEIGHT

STANDARD = sys.stdlib_module_names - {
    *("io", "os", "pathlib", "json", "random", "re")  # no files, no text, no global randomness
}
MODEL_MAY_IMPORT = {"torch", "jaxtyping", *STANDARD}
MODEL_MAY_USE = {"model", "errors", "private"}

# Some 270 lines a file: what a new capability needs may come in, a second copy may not.
MOST_FILES, MOST_LINES, LONGEST_FUNCTION = 155, 500, 60


def modules_of(source: Path) -> dict[str, Path]:
    """Every module of both packages by its dotted name."""
    found: dict[str, Path] = {}
    for package in PACKAGES:
        found |= architecture.modules_of(source, package)
    return found


def upward_imports(source: Path) -> list[str]:
    """Every import that goes up the floor plan, and every room without a floor."""
    found = []
    for module, path in modules_of(source).items():
        here = architecture.room_of(module)
        if here in ("__init__", architecture.EXPERIMENTS):
            continue
        if here not in HEIGHT:
            found.append(f"{here} has no floor")
            continue
        for name in sorted(architecture.imports_of(path, module)):
            there = architecture.room_of(name)
            if name.split(".")[0] not in PACKAGES or there in ("__init__", "__version__"):
                continue
            if there == architecture.EXPERIMENTS or HEIGHT.get(there, 0) > HEIGHT[here]:
                found.append(f"{here} imports {there}")
            elif there not in HEIGHT:
                found.append(f"{here} imports {there}, which has no floor")
    return found


def foreign_imports(source: Path) -> list[str]:
    """What the mathematics imports besides torch, the standard library, and two of our modules."""
    found = []
    for module, path in modules_of(source).items():
        if architecture.room_of(module) != "model":
            continue
        for name in sorted(architecture.imports_of(path, module)):
            top, room = name.split(".")[0], architecture.room_of(name)
            if top in PACKAGES and room not in MODEL_MAY_USE:
                found.append(f"model imports {room}")
            elif top not in PACKAGES and top not in MODEL_MAY_IMPORT:
                found.append(f"model imports {top}")
    return found


def circles(source: Path) -> list[str]:
    """Modules that import each other, directly or around corners; also where only at a call."""
    modules = modules_of(source)
    after = {module: _imported(module, path, modules) for module, path in modules.items()}
    beyond = {module: _reachable(module, after) for module in modules}
    rings = {
        tuple(sorted(other for other in beyond[module] if module in beyond[other]))
        for module in modules
        if module in beyond[module]
    }
    return [" and ".join(ring) for ring in sorted(rings)]


def _imported(module: str, path: Path, modules: dict[str, Path]) -> set[str]:
    """The modules in which the imported names are at home; hints of types are left out."""
    names = architecture.imports_of(path, module, for_types=False)
    homes = {_home(name, modules) for name in names if name.split(".")[0] in PACKAGES}
    return {home for home in homes if home in modules and modules[home].stem != "__init__"}


def _home(name: str, modules: dict[str, Path]) -> str:
    """The module of a name; one that a package only lists is followed to where it is made."""
    package, _, short = name.rpartition(".")
    if name in modules or package not in modules or modules[package].stem != "__init__":
        return name if name in modules else package
    listed = architecture.imports_of(modules[package], package)
    return next((one.rpartition(".")[0] for one in sorted(listed) if one.endswith(f".{short}")), "")


def _reachable(start: str, after: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    ahead = [*after[start]]
    while ahead:
        module = ahead.pop()
        if module not in seen:
            seen.add(module)
            ahead += after[module]
    return seen


def repeated_names(source: Path) -> list[str]:
    """Names of modules and packages that stand in several places."""
    names = Counter(
        module.rpartition(".")[2]
        for module in modules_of(source)
        if not module.endswith("__main__")
    )
    return sorted(name for name, times in names.items() if times > 1)


def long_files(source: Path) -> list[str]:
    """Files with too many lines."""
    lengths = {
        module: len(path.read_text(encoding="utf-8").splitlines())
        for module, path in modules_of(source).items()
    }
    return [f"{module}: {n} lines" for module, n in lengths.items() if n > MOST_LINES]


def long_functions(source: Path) -> list[str]:
    """Functions with too many lines, from ``def`` to the last, docstring included."""
    found = []
    for module, path in modules_of(source).items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > LONGEST_FUNCTION:
                    found.append(f"{module}.{node.name}: {lines} lines")
    return found


def number_of_files(source: Path) -> int:
    """How many files the product has."""
    return len(architecture.modules_of(source, architecture.PACKAGE))


def plant(source: Path, module: str, text: str = "") -> Path:
    """A file below ``source``, with an ``__init__.py`` in every folder on the way."""
    path = source / f"{module}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    for folder in path.relative_to(source).parents:
        if folder != Path("."):
            (source / folder / "__init__.py").touch()
    path.write_text(text)
    return source


def test_no_import_goes_up_the_floor_plan() -> None:
    assert upward_imports(SOURCE) == []


def test_the_model_imports_torch_and_little_else() -> None:
    assert foreign_imports(SOURCE) == []


def test_no_modules_import_each_other() -> None:
    assert circles(SOURCE) == []


def test_every_module_name_stands_once() -> None:
    assert repeated_names(SOURCE) == []


def test_no_file_is_too_long() -> None:
    assert long_files(SOURCE) == []


def test_no_function_is_too_long() -> None:
    assert long_functions(SOURCE) == []


def test_the_product_has_a_limited_number_of_files() -> None:
    assert number_of_files(SOURCE) <= MOST_FILES


@pytest.mark.parametrize(
    ("module", "line", "finding"),
    [
        ("corpus", "from whowrote.cli import app", "corpus imports cli"),
        ("corpus", "from whowrote import estimators", "corpus imports estimators"),
        ("corpus/texts", "from ..cli import app", "corpus imports cli"),
        ("corpus/texts", "from .. import cli", "corpus imports cli"),
        ("model/mixture", "def f():\n    import whowrote.training.loop", "model imports training"),
        (
            "web",
            "from whowrote_experiments import table1",
            "web imports whowrote_experiments",
        ),
        ("cli", "import whowrote_experiments", "cli imports whowrote_experiments"),
        ("web", "from whowrote.attic import x", "web imports attic, which has no floor"),
        ("attic", "import math", "attic has no floor"),
    ],
)
def test_a_planted_upward_import_is_found(
    tmp_path: Path, module: str, line: str, finding: str
) -> None:
    assert upward_imports(plant(tmp_path, f"whowrote/{module}", line)) == [finding]


def test_the_experiments_may_import_everything(tmp_path: Path) -> None:
    plant(tmp_path, "whowrote_experiments/table1", "from whowrote.cli import app")
    assert upward_imports(tmp_path) == []


@pytest.mark.parametrize(
    ("module", "line", "findings"),
    [
        ("model/mixture", "import sklearn.mixture", ["model imports sklearn"]),
        ("model/mixture", "from whowrote.files import write", ["model imports files"]),
        ("model/mixture", "import triton", ["model imports triton"]),
        ("model/mixture", "from pathlib import Path", ["model imports pathlib"]),
        ("model/gradients", "import numpy", ["model imports numpy"]),
        ("model/mixture", "import torch\nfrom whowrote.errors import InputError", []),
    ],
)
def test_a_planted_foreign_import_of_the_model_is_found(
    tmp_path: Path, module: str, line: str, findings: list[str]
) -> None:
    assert foreign_imports(plant(tmp_path, f"whowrote/{module}", line)) == findings


@pytest.mark.parametrize(
    ("back", "findings"),
    [
        ("from whowrote.corpus import texts", ["whowrote.corpus.audit and whowrote.corpus.texts"]),
        (
            "def late():\n    from whowrote.corpus.texts import load",
            ["whowrote.corpus.audit and whowrote.corpus.texts"],
        ),
        ("if TYPE_CHECKING:\n    from whowrote.corpus.texts import Corpus", []),
    ],
)
def test_a_planted_circle_is_found(tmp_path: Path, back: str, findings: list[str]) -> None:
    plant(tmp_path, "whowrote/corpus/texts", "import whowrote.corpus.audit")
    plant(tmp_path, "whowrote/corpus/audit", back)
    assert circles(tmp_path) == findings


def test_a_planted_circle_through_a_table_of_contents_is_found(tmp_path: Path) -> None:
    plant(tmp_path, "whowrote/corpus/texts", "import whowrote.corpus.audit")
    plant(tmp_path, "whowrote/corpus/audit", "from whowrote.corpus import load")
    listed = "if TYPE_CHECKING:\n    from whowrote.corpus.texts import load as load"
    (tmp_path / "whowrote" / "corpus" / "__init__.py").write_text(listed)
    assert circles(tmp_path) == ["whowrote.corpus.audit and whowrote.corpus.texts"]


def test_a_planted_circle_around_a_corner_is_found(tmp_path: Path) -> None:
    plant(tmp_path, "whowrote/corpus/texts", "import whowrote.corpus.audit")
    plant(tmp_path, "whowrote/corpus/audit", "import whowrote.corpus.pan")
    plant(tmp_path, "whowrote/corpus/pan", "from .texts import load")
    ring = " and ".join(f"whowrote.corpus.{name}" for name in ("audit", "pan", "texts"))
    assert circles(tmp_path) == [ring]


@pytest.mark.parametrize(
    ("first", "second", "names"),
    [
        ("whowrote/corpus/records", "whowrote/sweep/records", ["records"]),
        ("whowrote/corpus/records", "whowrote_experiments/records", ["records"]),
        ("whowrote/sweep/sweep", "whowrote/sweep/grid", ["sweep"]),
        ("whowrote/corpus/audit", "whowrote/audit/words", ["audit"]),
        ("whowrote/__main__", "whowrote_experiments/__main__", []),
        ("whowrote/corpus/records", "whowrote/sweep/grid", []),
    ],
)
def test_a_planted_second_use_of_a_name_is_found(
    tmp_path: Path, first: str, second: str, names: list[str]
) -> None:
    plant(tmp_path, first)
    plant(tmp_path, second)
    assert repeated_names(tmp_path) == names


def test_a_planted_long_file_is_found(tmp_path: Path) -> None:
    plant(tmp_path, "whowrote/errors", "\n" * MOST_LINES)
    assert long_files(tmp_path) == []
    plant(tmp_path, "whowrote/errors", "\n" * (MOST_LINES + 1))
    assert long_files(tmp_path) == [f"whowrote.errors: {MOST_LINES + 1} lines"]


@pytest.mark.parametrize("start", ["", "@cache\n@other\n", "async "])
def test_a_planted_long_function_is_found(tmp_path: Path, start: str) -> None:
    body = "    x = 1\n"
    plant(tmp_path, "whowrote/errors", f"{start}def f():\n{body * (LONGEST_FUNCTION - 1)}")
    assert long_functions(tmp_path) == []
    plant(tmp_path, "whowrote/errors", f'{start}def f():\n    """x"""\n{body * LONGEST_FUNCTION}')
    assert long_functions(tmp_path) == [f"whowrote.errors.f: {LONGEST_FUNCTION + 2} lines"]


def test_planted_files_are_counted(tmp_path: Path) -> None:
    for number in range(MOST_FILES):
        plant(tmp_path, f"whowrote/corpus/m{number}")
    plant(tmp_path, "whowrote_experiments/table1")
    assert number_of_files(tmp_path) == MOST_FILES + 2  # and two __init__.py
