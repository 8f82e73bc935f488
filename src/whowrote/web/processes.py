"""Long work as jobs: an id, a process each, what it said so far; they outlive a page that watches.

One runs at a time and the others wait. A job is queued, running, done, failed or cancelled; who
watches gets its state whenever it changes, from the first moment or after a reload alike. A
training is a job: ``texts -> a process -> a model`` in the folder of models.

The process is this module as a program: JSON on standard input, lines of JSON on standard output.
In comes ``{"task": "train", "texts", "authors", "ids", "out", "features", "seed", "evaluate"}``,
or ``{"task": "run"}`` or ``"replay"`` with the ``folder`` of a case; out go
``{"stage", "done", "total"}`` while it works, then ``{"trained": ...}``,
``{"evaluation": ...}``, ``{"replayed": ...}`` or ``{"problem": "one sentence"}``. Texts to learn
from come through the pipe and are never on disk; a process that is killed leaves no half of a
model, and of a case a log that says how far it came.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import warnings
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_urlsafe
from time import monotonic
from typing import Any

from whowrote.corpus.texts import Corpus
from whowrote.errors import InputError
from whowrote.web.limits import Limits, RefusalError

ENDED = frozenset({"done", "failed", "cancelled"})
LINE = 64_000_000
"""Bytes of a line: an evaluation of many texts is one."""


@dataclass(kw_only=True)
class Job:
    """What was asked, how far it is, what came of it. It holds no text once it runs."""

    name: str
    id: str = field(default_factory=lambda: token_urlsafe(9))
    state: str = "queued"
    stages: dict[str, tuple[int, int]] = field(default_factory=dict)
    problem: str = ""
    changes: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    _process: asyncio.subprocess.Process | None = field(default=None, repr=False)

    @property
    def ended(self) -> bool:
        """Whether nothing more will come of it."""
        return self.state in ENDED

    def to_dict(self) -> dict[str, Any]:
        """What a page shows while it waits."""
        stages = [{"name": n, "done": d, "total": t} for n, (d, t) in self.stages.items()]
        told = {name: getattr(self, name) for name in ("id", "name", "state", "problem")}
        return {**told, "stages": stages}

    def change(self, **values: Any) -> None:
        """Note something new and wake who watches."""
        for name, value in values.items():
            setattr(self, name, value)
        self.changes += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def watch(self) -> AsyncIterator[dict[str, Any]]:
        """The state now, and each time that it changes, to the end."""
        while True:
            waiting, state = self._changed, self.to_dict()
            yield state
            if state["state"] in ENDED:
                return
            await waiting.wait()


class Processes:
    """All jobs of one server, one at a time."""

    command: tuple[str, ...] = (sys.executable, "-m", "whowrote.web.processes")

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.jobs: dict[str, Job] = {}
        self._turn = asyncio.Lock()
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def begin(self, job: Job, asked: Mapping[str, Any]) -> None:
        """Run it now, or after those before; what is asked goes to the process through a pipe."""
        ahead = sum(not one.ended for one in self.jobs.values())
        if ahead >= self.limits.trainings:
            raise RefusalError(
                429,
                f"{ahead} trainings or cases run or wait, which is the limit: cancel one, or wait",
            )
        self.jobs[job.id] = job
        sent = json.dumps(asked).encode()
        self._tasks[job.id] = asyncio.create_task(self._run(job, sent))

    async def _run(self, job: Job, sent: bytes) -> None:
        async with self._turn:
            if job.ended:
                return
            job.change(state="running")
            process = await asyncio.create_subprocess_exec(
                *self.command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,  # a complaint might quote a text
                limit=LINE,
            )
            job._process = process
            try:
                await self._hear(job, process, sent)
            finally:  # whatever came of it, nobody waits for it for ever
                with suppress(ProcessLookupError):
                    process.kill()
                status = await process.wait()
                if job.state == "running":
                    ended = "done" if status == 0 and not job.problem else "failed"
                    told = "" if ended == "done" else f"the process ended with {status}"
                    job.change(state=ended, problem=job.problem or told)

    async def _hear(self, job: Job, process: asyncio.subprocess.Process, sent: bytes) -> None:
        """Send what is asked, and listen to the end; a line that broke off is the end, too."""
        assert process.stdin is not None
        if job.ended:  # cancelled while the process began
            return
        with suppress(ConnectionError):
            process.stdin.write(sent)
            await process.stdin.drain()
            process.stdin.close()
        try:
            await self._listen(job, process)
            await process.wait()
        except ValueError:
            job.problem = "the process broke off in the middle of what it said"

    async def _listen(self, job: Job, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            said = json.loads(line)
            if "stage" in said:
                job.stages[said["stage"]] = (said["done"], said["total"])
                job.change()
            else:
                job.change(**said)

    async def cancel(self, job: Job) -> None:
        """End it; what was saved before stays."""
        if job.ended:
            return
        job.change(state="cancelled")
        if job._process is not None and job._process.returncode is None:
            with suppress(ProcessLookupError):
                job._process.kill()
            await job._process.wait()

    async def stop(self) -> None:
        """End all of them, when the server ends."""
        for job in self.jobs.values():
            await self.cancel(job)
        for task in self._tasks.values():
            with suppress(Exception):
                await task


NAME = re.compile(r"[\w][\w .-]{0,59}")
FEATURES = ("hybrid", "adhominem", "ngrams")


@dataclass(kw_only=True)
class Training(Job):
    """One training: what was asked and what came of it."""

    features: str
    texts: int
    authors: int
    trained: dict[str, Any] | None = None
    evaluation: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """What a page shows while it waits."""
        return {**super().to_dict(), "trained": self.trained is not None}


class Trainings:
    """The trainings of one server.

    Parameters
    ----------
    processes : in which they run.
    models : the folder in which models are written.
    first : the model that the server was started with, wherever it lies.

    """

    def __init__(self, processes: Processes, models: Path, first: Path | None = None) -> None:
        self.processes, self.models, self.first = processes, models, first

    def every(self) -> list[Training]:
        """All of them, the oldest first."""
        return [job for job in self.processes.jobs.values() if isinstance(job, Training)]

    def get(self, key: str) -> Training:
        """A job, or a refusal."""
        job = self.processes.jobs.get(key)
        if not isinstance(job, Training):
            raise RefusalError(404, "there is no such training here: see the list under Train")
        return job

    def start(
        self, corpus: Corpus, name: str, features: str, seed: int, evaluate: bool
    ) -> Training:
        """Begin, or wait for those before; the model is named as its folder will be."""
        out = self.place(name)
        if features not in FEATURES:
            raise InputError(f"features is {features!r}; it must be one of {', '.join(FEATURES)}")
        corpus.require_attribution()
        if any(job.name == name and not job.ended for job in self.every()):
            raise InputError(f"a training named {name!r} already runs: give another name")
        known = corpus.labelled()
        job = Training(
            name=name, features=features, texts=len(corpus), authors=len(corpus.author_names)
        )
        asked = {
            "task": "train",
            "texts": known.texts,
            "authors": known.authors,
            "ids": known.ids,
            "out": str(out),
            "features": features,
            "seed": seed,
            "evaluate": evaluate,
        }
        self.processes.begin(job, asked)
        return job

    def place(self, name: str) -> Path:
        """The folder of a model of that name, always inside the folder of models."""
        out = self.models / f"{checked_name(name, 'letters')}.model"
        if out.exists():
            raise InputError(f"a model named {name!r} is there already: give another name")
        return out

    def saved(self) -> dict[str, Path]:
        """The models that can be opened, by name: the first one, and those in the folder."""
        inside = sorted(self.models.iterdir()) if self.models.is_dir() else []
        every = [one for one in inside if one.name.endswith(".model")]
        if self.first is not None:
            every.append(self.first)
        return {
            one.name.removesuffix(".model"): one
            for one in every
            if (one / "manifest.json").is_file()
        }


def checked_name(name: str, example: str) -> str:
    """A name that is one folder, inside the folder that it is meant for.

    >>> checked_name("the will", "letters")
    'the will'
    """
    if not NAME.fullmatch(name) or name.endswith((".", " ")):
        raise InputError(
            f"the name is {name[:60]!r}; it must begin with a letter or digit and have at most "
            f"60 letters, digits, spaces, dots, hyphens: call it {example!r}"
        )
    return name


OFTEN = 0.1
"""Seconds between two words on the same stage."""


def main() -> None:
    """Do what standard input asks for."""
    told = sys.stdout
    sys.stdout = sys.stderr  # whatever else prints must not come between the lines

    def say(record: dict[str, Any]) -> None:
        told.write(json.dumps(record) + "\n")
        told.flush()

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
