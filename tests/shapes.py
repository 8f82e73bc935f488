"""Array shapes of signatures, checked in the first calls of each test: a long fit repeats them.

A check costs more than many a function that is checked; a fit of hundreds of steps calls the same
functions with the same shapes over and over.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import jaxtyping
from beartype import beartype

MOST = 2000
"""Checks in a test, its fixtures included: of some ten steps of training."""
_done = 0


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The type checker that jaxtyping puts around every function of the model."""
    strict = beartype(function)

    @wraps(function)
    def check(*arguments: Any, **options: Any) -> Any:
        global _done
        _done += 1
        if _done > MOST:
            jaxtyping.config.update("jaxtyping_disable", True)
        return strict(*arguments, **options)

    return check


def begin() -> None:
    """Check again, at the beginning of a test."""
    global _done
    _done = 0
    jaxtyping.config.update("jaxtyping_disable", False)
