"""Jobs whose process dies, breaks off or is cancelled: each ends, and the next one runs."""

import asyncio
import sys

import pytest

from whowrote.web.limits import Limits
from whowrote.web.processes import Job, Processes

WHOLE = 'print(\'{"stage": "reading", "done": 1, "total": 1}\')'
BROKEN = {
    "killed": "import os; os.kill(os.getpid(), 9)",
    "killed in the middle of a line": (
        'import os, sys; sys.stdout.write(\'{"stage": "rea\'); sys.stdout.flush(); '
        "os.kill(os.getpid(), 9)"
    ),
    "an end without an end": 'import sys; sys.stdout.write(\'{"stage": "rea\')',
    "no JSON": "print('reading')",
    "a status": "raise SystemExit(3)",
}


def saying(script: str) -> Processes:
    """Jobs whose process is this script."""
    made = Processes(Limits(trainings=2))
    made.command = (sys.executable, "-S", "-c", script)
    return made


async def ended(job: Job) -> str:
    """How it ends, if it does."""
    async for state in job.watch():
        found = state["state"]
    return str(found)


@pytest.mark.parametrize("script", BROKEN.values(), ids=BROKEN)
def test_a_process_that_breaks_off_has_failed_and_the_next_one_runs(script: str) -> None:
    async def work() -> None:
        jobs, first, second = saying(script), Job(name="first"), Job(name="second")
        jobs.begin(first, {})
        assert await asyncio.wait_for(ended(first), 10) == "failed"
        assert first.problem
        jobs.command = (sys.executable, "-S", "-c", WHOLE)
        jobs.begin(second, {})
        assert await asyncio.wait_for(ended(second), 10) == "done"
        assert second.stages == {"reading": (1, 1)}
        await jobs.stop()

    asyncio.run(work())


def test_a_job_cancelled_while_its_process_begins_does_not_run() -> None:
    async def work() -> None:
        jobs, job = saying("import time; time.sleep(60)"), Job(name="one")
        jobs.begin(job, {})
        while job.state != "running":
            await asyncio.sleep(0)
        assert job._process is None
        await jobs.cancel(job)
        await asyncio.wait_for(jobs.stop(), 10)  # its turn is over: the process was ended
        assert job.state == "cancelled"
        assert job._process is not None
        assert job._process.returncode == -9

    asyncio.run(work())
