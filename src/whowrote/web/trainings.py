"""Trainings as jobs: an id, a process each, what it said so far; they outlive a page that watches.

One runs at a time and the others wait. A job is queued, running, done, failed or cancelled; who
watches gets its state whenever it changes, from the first moment or after a reload alike.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_urlsafe
from typing import Any

from whowrote.corpus.texts import Corpus
from whowrote.errors import InputError
from whowrote.web.limits import Limits, RefusalError

NAME = re.compile(r"[\w][\w .-]{0,59}")
FEATURES = ("hybrid", "adhominem", "ngrams")
ENDED = frozenset({"done", "failed", "cancelled"})
LINE = 64_000_000
"""Bytes of a line: an evaluation of many texts is one."""


@dataclass
class Training:
    """One job: what was asked, how far it is, what came of it. It holds no text once it runs."""

    id: str
    name: str
    features: str
    texts: int
    authors: int
    state: str = "queued"
    stages: dict[str, tuple[int, int]] = field(default_factory=dict)
    trained: dict[str, Any] | None = None
    evaluation: dict[str, Any] | None = None
    problem: str = ""
    changes: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    _process: asyncio.subprocess.Process | None = field(default=None, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """What a page shows while it waits."""
        stages = [{"name": n, "done": d, "total": t} for n, (d, t) in self.stages.items()]
        return {
            "id": self.id,
            "name": self.name,
            "state": self.state,
            "stages": stages,
            "trained": self.trained is not None,
            "problem": self.problem,
        }

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


class Trainings:
    """All jobs of one server.

    Parameters
    ----------
    limits : how many may run and wait.
    models : the folder in which models are written.
    first : the model that the server was started with, wherever it lies.

    """

    def __init__(self, limits: Limits, models: Path, first: Path | None = None) -> None:
        self.limits, self.models, self.first = limits, models, first
        self.jobs: dict[str, Training] = {}
        self._turn = asyncio.Lock()
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def get(self, key: str) -> Training:
        """A job, or a refusal."""
        if key not in self.jobs:
            raise RefusalError(404, "there is no such training here: see the list under Train")
        return self.jobs[key]

    def start(
        self, corpus: Corpus, name: str, features: str, seed: int, evaluate: bool
    ) -> Training:
        """Begin, or wait for those before; the model is named as its folder will be."""
        out = self.place(name)
        if features not in FEATURES:
            raise InputError(f"features is {features!r}; it must be one of {', '.join(FEATURES)}")
        corpus.require_attribution()
        ahead = [job for job in self.jobs.values() if job.state not in ENDED]
        if len(ahead) >= self.limits.trainings:
            raise RefusalError(
                429,
                f"{len(ahead)} trainings run or wait, which is the limit: cancel one, or wait",
            )
        if any(job.name == name for job in ahead):
            raise InputError(f"a training named {name!r} already runs: give another name")
        job = Training(token_urlsafe(9), name, features, len(corpus), len(corpus.author_names))
        self.jobs[job.id] = job
        known = corpus.labelled()
        asked = {
            "texts": known.texts,
            "authors": known.authors,
            "ids": known.ids,
            "out": str(out),
            "features": features,
            "seed": seed,
            "evaluate": evaluate,
        }
        sent = json.dumps(asked).encode()
        self._tasks[job.id] = asyncio.create_task(self._run(job, sent))
        return job

    def place(self, name: str) -> Path:
        """The folder of a model of that name, always inside the folder of models."""
        if not NAME.fullmatch(name) or name.endswith((".", " ")):
            raise InputError(
                f"the name is {name[:60]!r}; it must begin with a letter or digit and have at most "
                "60 letters, digits, spaces, dots, hyphens: call it 'letters'"
            )
        out = self.models / f"{name}.model"
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

    async def _run(self, job: Training, sent: bytes) -> None:
        async with self._turn:
            if job.state in ENDED:
                return
            job.change(state="running")
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "whowrote.web.worker"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,  # a complaint might quote a text
                limit=LINE,
            )
            job._process = process
            assert process.stdin is not None
            with suppress(ConnectionError):
                process.stdin.write(sent)
                await process.stdin.drain()
                process.stdin.close()
            await self._listen(job, process)
            status = await process.wait()
            if job.state == "running":
                ended = "done" if status == 0 and not job.problem else "failed"
                why = job.problem or ("" if ended == "done" else f"the process ended with {status}")
                job.change(state=ended, problem=why)

    async def _listen(self, job: Training, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            said = json.loads(line)
            if "stage" in said:
                job.stages[said["stage"]] = (said["done"], said["total"])
                job.change()
            else:
                job.change(**said)

    async def cancel(self, job: Training) -> None:
        """End it; a model that was saved before stays."""
        if job.state in ENDED:
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
