"""What this process loads and may use: names imported on first use, and CPU cores.

A table of contents that imports its names on first use costs nothing to those who need few of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def on_first_use(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """A package's ``__getattr__``; ``modules`` has the module of every name.

    >>> find = on_first_use("whowrote", {"usable_cores": "whowrote.runtime"})
    >>> find("usable_cores").__name__
    'usable_cores'
    >>> find("idle_cores")
    Traceback (most recent call last):
    AttributeError: module 'whowrote' has no attribute 'idle_cores'; it has ['usable_cores']
    """

    def find(name: str) -> Any:
        if name in modules:
            let_waiting_threads_sleep()
            return getattr(import_module(modules[name]), name)
        raise AttributeError(
            f"module {package!r} has no attribute {name!r}; it has {sorted(modules)}"
        )

    return find


def let_waiting_threads_sleep() -> None:
    """Threads of torch that wait for each other sleep, unless the user has said otherwise.

    Spinning ones hold a core that another program needs: beside two busy ones a fit took 70 times
    as long. The setting is read when torch is loaded: after that it is for child processes alone.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def usable_cores() -> int:
    """CPU cores of this process's affinity where the system tells it, else all there are.

    >>> usable_cores() >= 1
    True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
