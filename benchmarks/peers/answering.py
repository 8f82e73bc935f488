"""What every peer's script does around its two functions: read a job, time the answers, write them.

The standard library alone, so that it runs in each tool's own environment. A script gives its
functions by the kind of job; their imports stand inside them, so that loading counts.
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
import textwrap
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Answering = Callable[[list[dict[str, Any]], list[dict[str, Any]]], list[Any]]


def lines_typed(function: Callable[..., Any]) -> int:
    """Lines of code in the body of a function: what somebody types to have this job done.

    >>> lines_typed(lines_typed) > 3
    True
    """
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    (made,) = tree.body
    assert isinstance(made, ast.FunctionDef)
    rows: set[int] = set()
    for statement in made.body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue  # the docstring
        for node in ast.walk(statement):
            rows |= {getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)} - {0}
    return len(rows)


def answer(functions: Mapping[str, Answering]) -> None:
    """``script.py JOB ANSWERS``: answer one job in this process and write what came of it."""
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    function = functions[job["kind"]]
    wall, cpu = time.perf_counter(), time.process_time()
    answers = function(job["known"], job["questions"])
    found = {
        "answers": answers,
        "lines": lines_typed(function),
        "wall_seconds": round(time.perf_counter() - wall, 2),
        "cpu_seconds": round(time.process_time() - cpu, 2),
    }
    Path(sys.argv[2]).write_text(json.dumps(found), encoding="utf-8")
