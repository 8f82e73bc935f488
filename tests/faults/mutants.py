"""Mutation testing: one small change in a function at a time, and whether a test notices.

A change is another comparison, another operation, a condition turned round, a number that is one
more, a sign left out, a statement left out. Messages, docstrings, defaults and type annotations are
left alone. Each change is written to a copy of the package, and the tests of the module run in a
process forked from one that has torch and pytest loaded already; a change that no test notices has
survived.

Command:  OMP_NUM_THREADS=1 PYTHONPATH=src:tests python -m faults.mutants splits --most 100
Hardware: one core; a few seconds a change.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]
SLOW = (
    "strangers_are_named_as_often or few_people_leave_doubt or same_texts_under_three_names or "
    "near_copies_are_those_of_every_pair or nearly_the_same_texts_are_at_chance or "
    "answers_rows_that_it_has_not_seen or refitting_samples or nothing_of_the_prior_is_learnt or "
    "test_it_is_stored"
)
"""Tests of seconds, which run only where all others have noticed nothing."""
TARGETS = {
    "splits": (["corpus/splits.py"], ["corpus/test_splits.py", "corpus/test_copies.py"]),
    "calibration": (
        ["attribution/calibration.py"],
        ["attribution/test_curve_of_strangers.py", "attribution/test_calibration.py"],
    ),
    "distributions": (["model/distributions.py"], ["model/test_distributions.py", "model"]),
    "mixture": (["model/mixture.py"], ["model/test_mixture.py", "model"]),
    "networks": (["model/networks.py"], ["model/test_networks.py", "model"]),
    "vae": (["model/vae.py"], ["model/test_vae.py", "model/test_bound.py", "model"]),
    "logistic": (["model/logistic.py"], ["model/test_logistic.py", "model"]),
    "fleet": (["model/fleet.py"], ["model/test_fleet.py", "model"]),
    "unlabelled": (["model/unlabelled.py"], ["estimators/test_unlabelled.py", "model"]),
    "gradients": (["model/gradients.py"], ["model", "training"]),
    "precision": (["model/precision.py"], ["model/test_precision.py", "training/test_step.py"]),
    "simulation": (
        ["attribution/simulation.py"],
        ["attribution/test_many_rows.py", "attribution/test_attributor.py"],
    ),
    "many_rows": (["attribution/many_rows.py"], ["attribution/test_many_rows.py"]),
}
"""What is changed, below src/whowrote, and the tests that are to notice, the nearest first."""

LOADED = (
    *("numpy", "pytest", "scipy.stats", "scipy.optimize", "beartype", "pyarrow"),
    *("sklearn.linear_model", "sklearn.metrics", "sklearn.svm", "sklearn.model_selection", "rich"),
)
"""What tests load, of others: loaded once for all."""

COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt},
    **{ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is},
    **{ast.In: ast.NotIn, ast.NotIn: ast.In},
}
DONE: dict[type[ast.operator], type[ast.operator]] = {
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult},
    **{ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.MatMult: ast.Mult},
    **{ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd},
}


@dataclass(frozen=True)
class Change:
    """A changed module, and where and what was changed."""

    line: int
    what: str
    source: str


def changes(source: str) -> list[Change]:
    """Every change that can be made to the functions of a module."""
    tree = ast.parse(source)
    kept = _left_alone(tree)
    found = []
    for number, node in enumerate(ast.walk(tree)):
        if number in kept:
            continue
        for way in range(_ways(node)):
            other = copy.deepcopy(tree)
            place = list(ast.walk(other))[number]
            before = ast.unparse(node)[:60]
            parent = _parent(other, place)
            after = _change(place, parent, way)
            if after:
                text = ast.unparse(ast.fix_missing_locations(other))
                found.append(Change(getattr(node, "lineno", 0), f"{before} -> {after}", text))
    return found


def _parent(tree: ast.AST, child: ast.AST) -> ast.AST:
    return next(one for one in ast.walk(tree) if child in ast.iter_child_nodes(one))


def _left_alone(tree: ast.Module) -> set[int]:
    """Numbers of nodes outside functions, in annotations, defaults, decorators and messages."""
    numbers = {id(node): number for number, node in enumerate(ast.walk(tree))}
    inside = set[int]()
    for function in (one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)):
        for statement in function.body:
            inside |= {id(one) for one in ast.walk(statement)}
    for node in ast.walk(tree):
        skipped: list[ast.AST | None] = []
        text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if text or isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert):
            skipped = [node]
        elif isinstance(node, ast.FunctionDef):
            skipped = [node.args, node.returns, *node.decorator_list]
        elif isinstance(node, ast.AnnAssign):
            skipped = [node.annotation]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            told = node.func.id in ("tell", "cast", "InputError", "isinstance")
            skipped = [node] if told else []
        for one in filter(None, skipped):
            inside -= {id(part) for part in ast.walk(one)}
    return {number for node, number in numbers.items() if node not in inside}


def _ways(node: ast.AST) -> int:
    return 1 if isinstance(node, _KINDS) else 0


_KINDS = (ast.Compare, ast.BinOp, ast.BoolOp, ast.UnaryOp, ast.Constant, ast.If, ast.IfExp)
_KINDS += (ast.Expr, ast.AugAssign)


def _change(node: ast.AST, parent: ast.AST, way: int) -> str:
    """Make a change; what there is now, or nothing where none can be made."""
    match node:
        case ast.Compare() if type(node.ops[0]) in COMPARED:
            node.ops[0] = COMPARED[type(node.ops[0])]()
        case ast.BinOp() | ast.AugAssign() if type(node.op) in DONE:
            node.op = DONE[type(node.op)]()
        case ast.BoolOp():
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        case ast.UnaryOp() if isinstance(node.op, ast.USub | ast.Not | ast.Invert):
            _exchange(parent, node, node.operand)
            return ast.unparse(node.operand)[:60]
        case ast.Constant() if isinstance(node.value, bool):
            node.value = not node.value
        case ast.Constant() if isinstance(node.value, int | float):
            node.value += 1
        case ast.If() | ast.IfExp():
            node.test = ast.UnaryOp(ast.Not(), node.test)
        case ast.Expr() if isinstance(node.value, ast.Call):
            _exchange(parent, node, ast.Pass())
            return "nothing"
        case _:
            return ""
    return ast.unparse(node).splitlines()[0][:60]


def _exchange(parent: ast.AST, old: ast.AST, new: ast.AST) -> None:
    for name, value in ast.iter_fields(parent):
        if value is old:
            setattr(parent, name, new)
        elif isinstance(value, list) and old in value:
            value[value.index(old)] = new


def noticed(copy_of: Path, tests: list[str], seconds: float) -> str:
    """What became of the tests: passed, failed or endless; the slow ones run last."""
    for chosen in (f"not ({SLOW})", SLOW):
        said = _tested(copy_of, [f"tests/{one}" for one in tests], chosen, seconds)
        if said != "passed":
            return said
    return "passed"


def _tested(copy_of: Path, tests: list[str], chosen: str, seconds: float) -> str:
    child = os.fork()
    if not child:
        _be_child(copy_of, tests, chosen)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return "passed" if code in (0, 5) else "failed"  # 5: none was chosen
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "endless"


def _be_child(copy_of: Path, tests: list[str], chosen: str) -> None:
    import pytest

    status = 1
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        os.chdir(copy_of)
        sys.path[:0] = [str(copy_of / "src"), str(copy_of / "tests")]
        options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-k", chosen]
        status = int(pytest.main([*options, *tests]))
    finally:
        os._exit(status)


def run(target: str, most: int, seed: int, seconds: float) -> Iterator[tuple[str, Change, str]]:
    """The module, a change, and what became of it; a drawn part where there are too many."""
    modules, tests = TARGETS[target]
    with tempfile.TemporaryDirectory() as place:
        copied = Path(place)
        for name in ("src", "tests"):
            leave = shutil.ignore_patterns("__pycache__")
            shutil.copytree(HERE / name, copied / name, ignore=leave)
        shutil.copy(HERE / "pyproject.toml", copied)
        if noticed(copied, tests, 20 * seconds) != "passed":
            raise SystemExit(f"the tests of {target} do not pass without a change")
        every = [
            (name, one)
            for name in modules
            for one in changes((HERE / "src" / "whowrote" / name).read_text(encoding="utf-8"))
        ]
        chosen = random.Random(seed).sample(every, min(most, len(every)))
        for name, one in sorted(chosen, key=lambda pair: (pair[0], pair[1].line)):
            path = copied / "src" / "whowrote" / name
            whole = path.read_text(encoding="utf-8")
            path.write_text(one.source, encoding="utf-8")
            said = noticed(copied, tests, seconds)
            path.write_text(whole, encoding="utf-8")
            yield name, one, said


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("targets", nargs="+", choices=sorted(TARGETS))
    options.add_argument("--most", type=int, default=100, help="changes of each target")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--seconds", type=float, default=300.0, help="for the tests of a change")
    asked = options.parse_args()
    import torch

    for one in LOADED:
        import_module(one)
    torch.set_num_threads(1)
    sys.dont_write_bytecode = True
    for target in asked.targets:
        killed = total = 0
        for name, change, said in run(target, asked.most, asked.seed, asked.seconds):
            total += 1
            killed += said != "passed"
            what = "survived" if said == "passed" else said
            print(f"  {total:3} {what}: {name}:{change.line}: {change.what}", flush=True)
        print(f"{target}: {killed} of {total} changes noticed", flush=True)


if __name__ == "__main__":
    main()
