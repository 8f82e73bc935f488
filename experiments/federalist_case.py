"""The Federalist as a case: the twelve disputed papers, weighed for Hamilton, Madison and Jay.

The undisputed papers are the known texts, the disputed ones are questioned. The case is closed:
that one of the three wrote each is not in dispute, and a ratio weighs one against the others. Makes
the case, runs it, writes the report, replays it in processes of their own with one thread and with
two, and keeps the page.

Command:  python experiments/federalist_case.py federalist.parquet CASE
Hardware: two cores, about five minutes.
Expect:   every disputed paper has its largest ratio for Madison; both replays stand.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

from whowrote import Corpus, load
from whowrote.case import Case
from whowrote.case.dossier import write_report
from whowrote.case.findings import run
from whowrote.files import write_text
from whowrote.ratios import as_ratio

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "examples" / "federalist.html"
RECORD = HERE / "results" / "federalist_case.json"
CANDIDATES = ("Hamilton", "Jay", "Madison")
QUESTION = "Who of Hamilton, Jay and Madison wrote the disputed papers of The Federalist?"
POPULATION = (
    "that one of the three wrote each paper is undisputed, since they shared the pen name Publius "
    "and said so"
)


def begin(folder: Path, path: Path) -> Case:
    """The case with its texts."""
    case, corpus = Case.new(folder, QUESTION, population=POPULATION, closed=True), load(path)
    for name in CANDIDATES:
        case = case.add(_of(corpus, name), "known", path=path)
    return case.add(_of(corpus, "disputed"), "questioned", path=path)


def _of(corpus: Corpus, author: str) -> Corpus:
    return corpus.subset(row for row, who in enumerate(corpus.authors) if who == author)


def replayed(folder: Path, threads: int) -> dict[str, Any]:
    """What a replay in another process says."""
    began = perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "whowrote", "case", "replay", str(folder), "--json", "--quiet"],
        env={**os.environ, "OMP_NUM_THREADS": str(threads)},
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(done.stdout)
    kept = {name: found[name] for name in ("outcome", "largest", "tolerance", "problems")}
    kept["differences"] = found["differences"][:5]
    return {"threads": threads, **kept, "seconds": round(perf_counter() - began, 1)}


def main() -> None:
    """Run and record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("case", type=Path)
    options = parser.parse_args()
    began = perf_counter()
    case = begin(options.case, options.corpus)
    found = run(case)
    seconds = round(perf_counter() - began, 1)
    page, _ = write_report(Case.open(options.case))
    PAGE.parent.mkdir(exist_ok=True)
    shutil.copyfile(page, PAGE)
    ratios = {
        one["text"]: {r["candidate"]: as_ratio(r["log10_lr"]) for r in one["ratios"]}
        for one in found["findings"]
    }
    validated = [
        {"words": one["words"], "cllr": one["quality"]["cllr"], "error": one["quality"]["error"]}
        for one in found["validation"]["ratios"]
    ]
    record = {
        "seconds": seconds,
        "page_bytes": page.stat().st_size,
        "floor": found["validation"]["floor"],
        "validation": validated,
        "ratios": ratios,
        "replay": [replayed(options.case, threads) for threads in (1, 2)],
    }
    write_text(RECORD, json.dumps(record, indent=1) + "\n")
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
