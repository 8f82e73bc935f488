"""Private names of torch and scikit-learn exist, stand in one file, and say so if they are gone."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from scipy import stats

import whowrote
from whowrote import private

SOURCE = Path(whowrote.__file__).parents[1]
LIBRARIES = {"torch", "sklearn"}


@pytest.mark.parametrize("name", private.NAMES)
def test_every_name_exists_in_the_installed_versions(name: str) -> None:
    assert callable(private.found(name))


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "torch._gone",
            r"torch \S+ has no torch\._gone, a private name that whowrote needs: install torch>=",
        ),
        (
            "torch.ops.aten._gone",
            r"torch \S+ has no torch\.ops\.aten\._gone, .*: install torch>=",
        ),
        (
            "sklearn.utils.validation._gone",
            r"sklearn \S+ has no sklearn\.utils\.validation\._gone, .*: install scikit-learn>=",
        ),
    ],
)
def test_a_missing_name_says_which_version_has_it(name: str, sentence: str) -> None:
    with pytest.raises(ImportError, match=sentence):
        private.found(name)


def test_a_release_without_the_name_is_reported_at_its_use(monkeypatch) -> None:
    private.found.cache_clear()
    monkeypatch.delattr(torch, "_standard_gamma")
    with pytest.raises(ImportError, match=r"has no torch\._standard_gamma"):
        private.standard_gamma(torch.ones(2), torch.Generator())
    monkeypatch.undo()
    assert private.standard_gamma(torch.ones(2), torch.Generator()).shape == (2,)


def test_gamma_numbers_come_from_the_generator() -> None:
    def drawn(seed: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(seed)
        return private.standard_gamma(torch.full((4000,), 2.5), generator)

    assert torch.equal(drawn(1), drawn(1))
    assert not torch.equal(drawn(1), drawn(2))
    assert stats.kstest(drawn(1), stats.gamma(2.5).cdf).pvalue > 0.01


def test_lists_are_moved_in_place() -> None:
    ones, zeros = [torch.ones(2), torch.ones(3)], [torch.zeros(2), torch.zeros(3)]
    private.add_to_each(ones, 2)
    private.move_each(ones, zeros, 0.25)
    assert [one.tolist() for one in ones] == [[2.25] * 2, [2.25] * 3]


@pytest.mark.gpu
def test_the_lstm_cell_is_its_equations(cuda: torch.device) -> None:
    generator = torch.Generator().manual_seed(0)
    inputs, hidden, cell = (torch.randn(3, n, generator=generator).to(cuda) for n in (8, 8, 2))
    i, f, g, o = (inputs + hidden).chunk(4, dim=-1)
    new = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    ours = private.fused_lstm_cell(inputs, hidden, cell)
    assert torch.allclose(ours[0], o.sigmoid() * new.tanh(), atol=1e-6)
    assert torch.allclose(ours[1], new, atol=1e-6)


# -------------------------------------------------------------------- and in no other module


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def dotted(node: ast.expr) -> list[str] | None:
    """The parts of ``a.b.c``, where it begins with a name."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute) and (before := dotted(node.value)) is not None:
        return [*before, node.attr]
    return None


def private_uses(path: Path) -> set[str]:
    """Private names of the libraries that a file imports or reaches for, by their full names."""
    found, bound = set(), {}
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.name if alias.asname else alias.name.split(".")[0]
                bound[alias.asname or name] = name
                found.add(alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            for alias in node.names:
                bound[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                found.add(f"{node.module}.{alias.name}")
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and (parts := dotted(node)) and parts[0] in bound:
            found.add(".".join([bound[parts[0]], *parts[1:]]))
    return {
        name
        for name in found
        if name.split(".")[0] in LIBRARIES and any(map(is_private, name.split(".")))
    }


def test_no_other_module_uses_a_private_name() -> None:
    files = [*SOURCE.rglob("*.py")]
    assert len(files) > 50
    used = {path.name: private_uses(path) for path in files}
    assert {name: names for name, names in used.items() if names} == {}


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("import torch\ntorch._fused_adam_([])", "torch._fused_adam_"),
        ("import torch\ntorch.ops.aten._x(1).y", "torch.ops.aten._x"),
        ("from torch import nn as n\ndef f():\n    n._reduction.legacy()", "torch.nn._reduction"),
        ("from sklearn.utils.validation import _check_y", "sklearn.utils.validation._check_y"),
        ("import sklearn._config", "sklearn._config"),
    ],
)
def test_a_planted_use_is_found(tmp_path: Path, line: str, name: str) -> None:
    planted = tmp_path / "planted.py"
    planted.write_text(line)
    assert name in private_uses(planted)


def test_what_is_public_is_no_finding(tmp_path: Path) -> None:
    planted = tmp_path / "planted.py"
    planted.write_text("import torch, math\ntorch.__version__\nself._x = math._y = torch.nn.Linear")
    assert private_uses(planted) == set()


def test_importing_the_list_loads_neither_library(tmp_path: Path) -> None:
    code = "import sys, whowrote.private; print({'torch', 'sklearn'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
