"""The package beside its peers: the same jobs, each tool in an environment of its own.

Lines typed are the lines of code in the function that does the job (counted, not judged); seconds
are those of the processor, with loading, in a process of its own on one thread; errors, AUC and
Cllr are computed here, from the answers alone, for all by the same code. The figures of a job that
is drawn several times are means. A cell of the record is measured anew when it is asked for by
name and kept otherwise.

Command:  python benchmarks/peers/compare.py --data DATA --environments FOLDER [--only TOOL:JOB ...]
          FOLDER holds a virtual environment for each tool: README.md says how they are made
Hardware: two cores, about half an hour for all; most of it LambdaG and this package
Expect:   the table of docs/comparison.md, made by --table from record.json
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from jobs import BLOGS, DRAWS, PAN, Job, made

from whowrote.metrics import auc, cllr

HERE = Path(__file__).parent
RECORD = HERE / "record.json"
TOOLS = {  # the script, the environment, and what it is
    "whowrote": ("whowrote", None, "Attributor(); packaged population"),
    "scikit-learn": ("scikit_learn", None, "TF-IDF and LinearSVC; cosine and a logistic curve"),
    "bitig-delta": ("bitig_delta", "bitig", "bitig: Burrows' Delta; General Impostors"),
    "bitig-svm": ("bitig_svm", "bitig", "bitig: character 3-grams, linear SVM"),
    "faststylometry": ("faststylometry", "faststylometry", "Burrows' Delta"),
    "lambdag": ("lambdag", "lambdag", "LambdaG, logistic calibration"),
    "lir": ("lir", "lir", "common words, logistic curve, ELUB bounds"),
}
ATTRIBUTE = {"attribution": (*BLOGS, "strangers"), "verification": tuple(PAN)}
LIMIT = 600
"""Seconds that a tool has for a job; beyond, the record says that it took longer."""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--data", type=Path, help="folder with Blog-30 and the sets of PAN")
    arguments.add_argument("--environments", type=Path, help="folder with an environment per tool")
    arguments.add_argument("--only", nargs="*", default=[], help="TOOL, JOB or TOOL:JOB")
    arguments.add_argument("--draws", type=int, default=max(DRAWS.values()), help="at most so many")
    arguments.add_argument("--table", action="store_true", help="print the table from the record")
    given = arguments.parse_args()
    if not given.table:
        for tool, name in wanted(given.only):
            keep(tool, name, measured(tool, name, given))
    print(table(json.loads(RECORD.read_text(encoding="utf-8"))))


def does(tool: str) -> tuple[str, ...]:
    """The jobs that a tool's script has a function for."""
    text = (HERE / f"with_{TOOLS[tool][0]}.py").read_text(encoding="utf-8")
    return tuple(job for kind, jobs in ATTRIBUTE.items() if f'"{kind}"' in text for job in jobs)


def wanted(only: list[str]) -> list[tuple[str, str]]:
    """Pairs of tool and job."""
    pairs = [(tool, job) for job in DRAWS for tool in TOOLS if job in does(tool)]
    return [p for p in pairs if not only or {p[0], p[1], ":".join(p)} & set(only)]


def keep(tool: str, name: str, cell: dict[str, Any]) -> None:
    """Write a cell of the record; the others stay."""
    record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.is_file() else {}
    record.setdefault(name, {})[tool] = cell
    RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(tool, name, cell, flush=True)


def measured(tool: str, name: str, given: argparse.Namespace) -> dict[str, Any]:
    """The figures of a tool for a job: means over the draws."""
    cells = []
    for draw in range(min(DRAWS[name], given.draws)):
        job = made(name, given.data, draw)
        found = run(tool, job, given.environments)
        if found is None:
            return {"longer_than_seconds": LIMIT}
        cells.append({**figures(job, found.pop("answers")), **found})
    return {key: round(mean(cell[key] for cell in cells), 4) for key in cells[0]} | {
        "draws": len(cells),
        "version": version(tool, given.environments),
    }


def python(tool: str, environments: Path) -> str:
    own = TOOLS[tool][1]
    return sys.executable if own is None else str(environments / own / "bin" / "python")


def version(tool: str, environments: Path) -> str:
    """What was measured, as its environment names it."""
    name = TOOLS[tool][1] or tool
    code = f"from importlib.metadata import version; print(version({name!r}))"
    return subprocess.check_output([python(tool, environments), "-c", code], text=True).strip()


def run(tool: str, job: Job, environments: Path) -> dict[str, Any] | None:
    """A process of its own answers; None where it takes too long."""
    with tempfile.TemporaryDirectory() as folder:
        shown, answers = Path(folder, "job.json"), Path(folder, "answers.json")
        shown.write_text(json.dumps(job.shown()), encoding="utf-8")
        script = HERE / f"with_{TOOLS[tool][0]}.py"
        one = {**os.environ, "OMP_NUM_THREADS": "1", "TQDM_DISABLE": "1"}
        command = [python(tool, environments), str(script), str(shown), str(answers)]
        try:
            subprocess.run(command, check=True, env=one, timeout=LIMIT)
        except subprocess.TimeoutExpired:
            return None
        found: dict[str, Any] = json.loads(answers.read_text(encoding="utf-8"))
        return found


def figures(job: Job, answers: list[Any]) -> dict[str, float]:
    """Error, AUC and Cllr from answers and truth."""
    if job.kind == "verification":
        ratios, same = np.asarray(answers, dtype=np.float64), np.asarray(job.truth)
        # A ratio of nought or infinity on the wrong side costs infinitely much: ten powers of ten.
        bounded = np.clip(ratios, -10, 10) * np.log(10)
        wrong = float(((ratios > 0) != same).mean())
        return {"error": wrong, "auc": auc(ratios, same), "cllr": cllr(bounded, same)}
    named = [answer[0] for answer in answers]
    own = [n for n, author in enumerate(job.truth) if author is not None]
    found = {"error": float(np.mean([named[n] != job.truth[n] for n in own]))}
    if len(own) < len(answers):
        enrolled = np.array([author is not None for author in job.truth])
        found["auc"] = auc(np.array([answer[1] for answer in answers]), enrolled)
        if len(answers[0]) > 2:  # it may say "none of these", and that answer is judged too
            said = np.array([answer[2] is not None for answer in answers])
            found["strangers_named"] = float(said[~enrolled].mean())
            found["enrolled_refused"] = float((~said[enrolled]).mean())
    return found


def table(record: dict[str, Any]) -> str:
    """The record as a table in Markdown."""
    head = "| job | tool | error | AUC | Cllr | seconds | lines | command |"
    rows = [head, "|---|---|---|---|---|---|---|---|"]
    for name in (*DRAWS, "report"):
        for tool, cell in sorted(record.get(name, {}).items(), key=_order):
            command = f"`compare.py --only {tool}:{name}`" if name in DRAWS else "`report.py`"
            if "longer_than_seconds" in cell:
                late = f"longer than {cell['longer_than_seconds']} s"
                rows.append(f"| {name} | {tool} | {late} | | | | | {command} |")
                continue
            wrong = f"{cell['error']:.1%}" if "error" in cell else "-"
            shown = [wrong, _number(cell, "auc"), _number(cell, "cllr")]
            shown += [f"{cell['cpu_seconds']:.1f}", f"{cell['lines']:.0f}", command]
            fewer = cell.get("draws", 1) < DRAWS.get(name, 1)
            said = f"{tool} {cell['version']}{' (fewer draws)' if fewer else ''}"
            rows.append(f"| {name} | {said} | " + " | ".join(shown) + " |")
    return "\n".join(rows)


def _order(item: tuple[str, Any]) -> float:
    return float(item[1].get("error", 9))


def _number(cell: dict[str, Any], key: str) -> str:
    return f"{cell[key]:.3f}" if key in cell else "-"


if __name__ == "__main__":
    main()
