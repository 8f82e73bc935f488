"""How many processor cores this process may use."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """Cores of this process's affinity where the system tells it, else those of the machine.

    >>> usable_cores() >= 1
    True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
