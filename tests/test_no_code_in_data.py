"""Nothing in the package turns data into code: syntax trees say so, with planted violations."""

import ast
from pathlib import Path

import pytest

from architecture_script import architecture

SOURCE: Path = architecture.SOURCE
MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
CALLS = {"eval", "exec", "compile", "__import__"}
ATTRIBUTES = {
    "torch.load",
    "torch.jit.load",
    "torch.hub.load",
    "yaml.load",
    "yaml.unsafe_load",
    "yaml.full_load",
    "numpy.load",
    "np.load",
    "pandas.read_pickle",
    "pd.read_pickle",
    "os.system",
    "builtins.eval",
    "builtins.exec",
}
TRUE_MEANS_CODE = {"allow_pickle", "trust_remote_code", "shell"}


def code_from_data(text: str) -> list[str]:
    """Every place of a source text where data may become code."""
    tree = ast.parse(text)
    known = _aliases(tree)
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                names = [one.name for one in node.names]
            case ast.ImportFrom() if node.module and not node.level:
                names = [node.module, *(f"{node.module}.{one.name}" for one in node.names)]
            case ast.Call():
                names = [_name(node.func, known), *_keywords(node)]
            case _:
                continue
        found += [f"line {node.lineno}: {name}" for name in names if _forbidden(name, node)]
    return found


def _aliases(tree: ast.AST) -> dict[str, str]:
    """What names stand for: ``import torch as t`` and ``from torch import load as l``."""
    known = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            known |= {one.asname: one.name for one in node.names if one.asname}
        elif isinstance(node, ast.ImportFrom) and node.module:
            known |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
    return known


def _name(node: ast.expr, known: dict[str, str]) -> str:
    """The dotted name of what is called."""
    if isinstance(node, ast.Attribute):
        return f"{_name(node.value, known)}.{node.attr}"
    return known.get(node.id, node.id) if isinstance(node, ast.Name) else ""


def _keywords(node: ast.Call) -> list[str]:
    """Arguments that allow code, unless they are the constant False."""
    return [
        f"{one.arg}="
        for one in node.keywords
        if one.arg in TRUE_MEANS_CODE
        and not (isinstance(one.value, ast.Constant) and one.value.value is False)
    ]


def _forbidden(name: str, node: ast.AST) -> bool:
    first = name.split(".")[0]
    if name.endswith("=") or first in MODULES:
        return True
    if isinstance(node, ast.Call) and name in ("numpy.load", "np.load"):  # pickles are off in it
        return any(one.arg == "allow_pickle" for one in node.keywords) and bool(_keywords(node))
    if name == "yaml.load" and isinstance(node, ast.Call):
        return True
    return name in CALLS if isinstance(node, ast.Call) and name in CALLS else name in ATTRIBUTES


def test_nothing_in_the_package_turns_data_into_code() -> None:
    found = {
        str(path.relative_to(SOURCE)): places
        for path in sorted(SOURCE.rglob("*.py"))
        if (places := code_from_data(path.read_text(encoding="utf-8")))
    }
    assert found == {}


@pytest.mark.parametrize(
    "planted",
    [
        "import pickle",
        "import torch, pickle as p",
        "from pickle import loads",
        "def f():\n    from joblib import load",
        "eval('1')",
        "exec(text)",
        "compile(text, 'a', 'exec')",
        "__import__(name)",
        "import torch\ntorch.load('a')",
        "import torch as t\nt.load('a', weights_only=False)",
        "from torch import load\nload('a')",
        "from torch import load as read\nread('a')",
        "import yaml\nyaml.load(text)",
        "import yaml\nyaml.unsafe_load(text)",
        "import numpy as np\nnp.load('a', allow_pickle=True)",
        "import numpy as np\nnp.load('a', allow_pickle=wanted)",
        "import pandas as pd\npd.read_pickle('a')",
        "SentenceTransformer(name, trust_remote_code=True)",
        "import subprocess\nsubprocess.run(text, shell=True)",
        "import os\nos.system(text)",
        "import builtins\nbuiltins.exec(text)",
    ],
)
def test_a_planted_violation_is_found(planted: str) -> None:
    assert code_from_data(planted)


@pytest.mark.parametrize(
    "harmless",
    [
        "import re\nre.compile('a')",
        "import numpy as np\nnp.load('a', allow_pickle=False)",
        "import numpy as np\nnp.load('a')",
        "model.eval()",
        "import json\njson.loads(text)",
        "import yaml\nyaml.safe_load(text)",
        "SentenceTransformer(name, trust_remote_code=False)",
        "from whowrote.corpus import load\nload(path)",
        "from .pickle import jar",
    ],
)
def test_what_only_looks_alike_is_not(harmless: str) -> None:
    assert code_from_data(harmless) == []
