r"""Pure functions over tasks, on this machine or on a Ray cluster: :math:`t_i \mapsto f(s, t_i)`.

*s* is what all tasks share and is sent once. A caller gets ``(i, f(s, t_i))`` as results come, in
any order, and files them itself: no other machine needs the caller's disk, and a caller that was
killed finds what it had filed. A task whose machine dies is sent to another one. This is the one
place that knows Ray (extra ``ray``); :data:`HERE` does the same work without it.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from socket import create_connection
from typing import Any, Protocol, TypeVar

from whowrote import __version__
from whowrote.errors import InputError

Shared = TypeVar("Shared")
Task = TypeVar("Task")
Result = TypeVar("Result")

RETRIES = 5
"""A task is sent so many times again when the machine that works on it dies."""
AHEAD = 2
"""Tasks in flight for each slot: one at work and one waiting, so that a stream is read no faster
than it is worked off."""


class Machines(Protocol):
    """Where tasks are worked on."""

    @property
    def slots(self) -> int:
        """How many tasks are worked on at once."""
        ...

    @property
    def gpus(self) -> bool:
        """Whether every task has a GPU of its own."""
        ...

    def map(
        self,
        function: Callable[[Shared, Task], Result],
        shared: Shared,
        tasks: Iterable[Task],
        size: Callable[[Task], float] | None = None,
    ) -> Iterator[tuple[int, Result]]:
        """Number and result of every task; with a ``size`` the largest begin first."""
        ...


class Here:
    """One process, where tasks are done one after the other, in their order.

    >>> list(HERE.map(pow, 2, [3, 4]))
    [(0, 8), (1, 16)]
    """

    slots, gpus = 1, False

    def map(
        self,
        function: Callable[[Shared, Task], Result],
        shared: Shared,
        tasks: Iterable[Task],
        size: Callable[[Task], float] | None = None,
    ) -> Iterator[tuple[int, Result]]:
        """Number and result of every task."""
        for number, task in enumerate(tasks):
            yield number, function(shared, task)


HERE = Here()


@dataclass(frozen=True)
class RayCluster:
    """The machines of a running cluster; a task has one core, or one GPU and a core."""

    gpus: bool = False

    @property
    def slots(self) -> int:
        """Cores, or GPUs, of all machines that are there now."""
        import ray

        return max(1, int(ray.cluster_resources().get("GPU" if self.gpus else "CPU", 0)))

    def map(
        self,
        function: Callable[[Shared, Task], Result],
        shared: Shared,
        tasks: Iterable[Task],
        size: Callable[[Task], float] | None = None,
    ) -> Iterator[tuple[int, Result]]:
        """Number and result of every task, in the order in which they end."""
        import ray

        resources = {"num_cpus": 1, "num_gpus": int(self.gpus), "max_retries": RETRIES}
        send = ray.remote(**resources)(_worked).remote
        sent_once = ray.put(shared)
        flying: dict[Any, int] = {}
        try:
            for number, task in _in_order_of_size(tasks, size):
                while len(flying) >= AHEAD * self.slots:
                    yield from _landed(flying)
                flying[send(__version__, function, sent_once, task)] = number
            while flying:
                yield from _landed(flying)
        finally:
            for task_left in flying:
                ray.cancel(task_left, force=False)


def _in_order_of_size(
    tasks: Iterable[Task], size: Callable[[Task], float] | None
) -> Iterable[tuple[int, Task]]:
    """Numbered tasks, as they come where no size is told: a stream need not be held."""
    if size is None:
        return enumerate(tasks)
    return sorted(enumerate(tasks), key=lambda one: -size(one[1]))


def _worked(
    version: str, function: Callable[[Shared, Task], Result], shared: Shared, task: Task
) -> Result:
    """A task, on the machine that works on it."""
    if version != __version__:
        raise InputError(
            f"a machine of the cluster has whowrote {__version__} and this one has {version}; "
            "results would not be the same: install one version on all of them"
        )
    return function(shared, task)


def _landed(flying: dict[Any, int]) -> Iterator[tuple[int, Any]]:
    """Results that are there, at least one; an error of a task is raised as on one machine."""
    import ray
    from ray.exceptions import RayError, RayTaskError

    ready, _ = ray.wait(list(flying), num_returns=1)
    for one in ready:
        try:
            result = ray.get(one)
        except RayTaskError as problem:
            raise problem.cause from None
        except RayError as problem:
            raise InputError(
                f"task {flying[one]} was lost with its machine {RETRIES + 1} times "
                f"({type(problem).__name__}), perhaps for want of memory; what is finished is "
                "kept: give machines with more of it, and the same command goes on"
            ) from None
        yield flying.pop(one), result


@contextmanager
def machines_of(address: str | None, *, gpus: bool = False) -> Iterator[Machines]:
    """Those of a Ray cluster; ``None`` is this process, and nothing of Ray is loaded.

    ``address`` is "auto" (the cluster of which this machine is a node, or ``RAY_ADDRESS``),
    "local" (one that is started here and ends with the work), ``host:port`` or ``ray://host:port``.
    """
    if address is None:
        yield HERE
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a library should not call home
    try:
        import ray
    except ImportError:
        raise InputError(
            "ray is not installed, and work on several machines needs it: "
            "pip install 'whowrote[ray]' on each, or leave --ray out"
        ) from None
    begun_here = not ray.is_initialized()
    if begun_here:
        _connect(address)
    try:
        yield RayCluster(gpus)
    finally:
        if begun_here:
            ray.shutdown()


def _connect(address: str) -> None:
    import ray

    require_answer(address)
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    quiet |= {"include_dashboard": False} if address == "local" else {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Ray's own, on its future defaults
            ray.init(address=address, **quiet)
    except (ConnectionError, ValueError, RuntimeError) as problem:
        raise _no_answer(address, str(problem).strip().splitlines()[0]) from None


def require_answer(address: str, seconds: float = 5.0) -> None:
    """Whether somebody listens at ``host:port``; Ray itself would try for many minutes."""
    host, _, port = address.rpartition("//")[2].rpartition(":")
    if address in ("auto", "local"):
        return
    if not (host and port.isdigit()):
        raise InputError(
            f"ray is '{address}'; it must be auto, local, host:port or ray://host:port: give "
            "--ray auto for the cluster of this machine"
        )
    try:
        create_connection((host, int(port)), timeout=seconds).close()
    except (OSError, OverflowError) as problem:
        raise _no_answer(address, str(problem)) from None


def _no_answer(address: str, problem: str) -> InputError:
    return InputError(
        f"no Ray cluster answers at '{address}' ({problem}); start one with `ray start --head`, "
        "or give --ray local for the cores of this machine"
    )
