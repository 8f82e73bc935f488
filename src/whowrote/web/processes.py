"""Long work as jobs: an id, a process each, what it said so far; they outlive a page that watches.

One runs at a time and the others wait. A job is queued, running, done, failed or cancelled; who
watches gets its state whenever it changes, from the first moment or after a reload alike.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from secrets import token_urlsafe
from typing import Any

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

    command: tuple[str, ...] = (sys.executable, "-m", "whowrote.web.worker")

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
