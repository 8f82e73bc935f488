"""A long task in a process of its own: JSON on standard input, lines of JSON on standard output.

In comes ``{"task": "train", "texts", "authors", "ids", "out", "features", "seed", "evaluate"}``,
or ``{"task": "run"}`` or ``"replay"`` with the ``folder`` of a case; out go
``{"stage", "done", "total"}`` while it works, then ``{"trained": ...}``,
``{"evaluation": ...}``, ``{"replayed": ...}`` or ``{"problem": "one sentence"}``. Texts to learn
from come through the pipe and are never on disk; a process that is killed leaves no half of a
model, and of a case a log that says how far it came.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from time import monotonic
from typing import Any

OFTEN = 0.1
"""Seconds between two words on the same stage."""


def main() -> None:
    """Do what standard input asks for."""
    told = sys.stdout
    sys.stdout = sys.stderr  # whatever else prints must not come between the lines

    def say(record: dict[str, Any]) -> None:
        told.write(json.dumps(record) + "\n")
        told.flush()

    from whowrote.errors import InputError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _work(json.load(sys.stdin), say)
    except InputError as problem:
        say({"problem": str(problem)})
    except MemoryError:
        say({"problem": "memory was not enough; learning needs more of it: send fewer texts"})


def _work(asked: dict[str, Any], say: Any) -> None:
    from whowrote.progress import Stage, listening

    last: dict[str, float] = {}

    def heard(stage: Stage) -> None:
        now = monotonic()
        if stage.done >= stage.total or now - last.get(stage.name, 0.0) > OFTEN:
            last[stage.name] = now
            say({"stage": stage.name, "done": stage.done, "total": stage.total})

    with listening(heard):
        {"train": _train, "run": _run_case, "replay": _replay_case}[asked["task"]](asked, say)


def _train(asked: dict[str, Any], say: Any) -> None:
    from whowrote.attribution.attributor import Attributor
    from whowrote.attribution.jobs import train_model
    from whowrote.corpus.texts import Corpus
    from whowrote.evaluation import cross_validate

    corpus = Corpus.from_texts(asked["texts"], asked["authors"], ids=asked["ids"])
    features, seed = asked["features"], int(asked["seed"])
    done = train_model(corpus, Path(asked["out"]), features=features, seed=seed)
    say({"trained": {**done.to_dict(), "out": Path(done.out).name}})
    if asked["evaluate"]:
        found = cross_validate(corpus, Attributor(features, random_state=seed), seed=seed)
        say({"evaluation": found.to_dict()})


def _run_case(asked: dict[str, Any], say: Any) -> None:
    """Audit, validation, calibration, findings, and the report of them."""
    from whowrote.case import Case
    from whowrote.case.dossier import write_report
    from whowrote.case.findings import run

    run(Case.open(asked["folder"]))
    say({"stage": "writing the report", "done": 0, "total": 1})
    write_report(Case.open(asked["folder"]))
    say({"stage": "writing the report", "done": 1, "total": 1})


def _replay_case(asked: dict[str, Any], say: Any) -> None:
    from whowrote.case.replay import replay

    found = replay(Path(asked["folder"]))
    say({"replayed": {**found.to_dict(), "sound": found.sound}})


if __name__ == "__main__":
    main()
