"""What plain values from a file must be: kinds, limits, lengths; a sentence on what is not.

A schema is a function of a value and its place. The small ones check numbers and names, the large
ones are made of them:

>>> person = record({"name": text(), "age": whole(0, 150)}, {"shares": listed(number(0, 1))})
>>> person({"name": "Ann", "age": 30}, "ann")
>>> person({"name": "Ann", "age": True}, "ann")
Traceback (most recent call last):
whowrote.errors.InputError: ann.age is True; it must be a whole number from 0 to 150
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

from whowrote.errors import InputError

Schema = Callable[[Any, str], None]
MOST_SHOWN = 60
"""Characters of a wrong value in a sentence."""


def refuse(place: str, value: Any, needed: str) -> None:
    """Say what is wrong: the place, the value, the requirement."""
    shown = repr(value) if not isinstance(value, (dict, list)) else f"a {_kind(value)}"
    shown = shown if len(shown) <= MOST_SHOWN else f"{shown[:MOST_SHOWN]}..."
    raise InputError(f"{place} is {shown}; it must be {needed}")


def _kind(value: Any) -> str:
    return "table" if isinstance(value, dict) else f"list of {len(value)}"


def number(low: float = -math.inf, high: float = math.inf, *, above: bool = False) -> Schema:
    """A finite number between limits; ``above``: the lower one itself is not allowed."""
    needed = "a finite number" + _limits(low, high, above)

    def check(value: Any, place: str) -> None:
        good = isinstance(value, Real) and not isinstance(value, bool)
        # Compared as they are: an integer may be too large for a float.
        if not (good and abs(value) < math.inf and low <= value <= high) or (
            above and value == low
        ):
            refuse(place, value, needed)

    return check


def whole(low: float = -math.inf, high: float = math.inf) -> Schema:
    """A whole number between limits."""
    needed = "a whole number" + _limits(low, high, above=False)

    def check(value: Any, place: str) -> None:
        if type(value) is not int or not low <= value <= high:
            refuse(place, value, needed)

    return check


def _limits(low: float, high: float, above: bool) -> str:
    if low == -math.inf:
        return "" if high == math.inf else f" of at most {high:g}"
    if high == math.inf:
        return f" above {low:g}" if above else f" of at least {low:g}"
    return f" above {low:g}, up to {high:g}" if above else f" from {low:g} to {high:g}"


def text(pattern: str = r"[^\ud800-\udfff]+", needed: str = "a text of whole characters") -> Schema:
    """A string that matches all of a pattern; by default anything but half characters."""
    known = re.compile(pattern, re.DOTALL)

    def check(value: Any, place: str) -> None:
        if not isinstance(value, str) or not known.fullmatch(value):
            refuse(place, value, needed)

    return check


HASH = text("[0-9a-f]{64}", "64 hexadecimal digits")


def one_of(*choices: Any) -> Schema:
    """One of a few plain values, of the very kind: True is not 1."""

    def check(value: Any, place: str) -> None:
        if not any(type(value) is type(one) and value == one for one in choices):
            refuse(place, value, f"one of {', '.join(map(repr, choices))}")

    return check


def maybe(schema: Schema) -> Schema:
    """Null, or what the schema says."""

    def check(value: Any, place: str) -> None:
        if value is not None:
            schema(value, place)

    return check


def listed(schema: Schema, least: int = 0, most: float = math.inf) -> Schema:
    """A list of so many values of one kind."""
    limits = f" {least}" if most == least else _limits(least, most, above=False)

    def check(value: Any, place: str) -> None:
        if not isinstance(value, list) or not least <= len(value) <= most:
            refuse(place, value, f"a list of{limits.removeprefix(' of')} values")
        for number, one in enumerate(value):
            schema(one, f"{place}[{number}]")

    return check


def table(names: Schema, schema: Schema) -> Schema:
    """Values of one kind by name."""

    def check(value: Any, place: str) -> None:
        if not isinstance(value, dict):
            refuse(place, value, "a table of values by name")
        for name, one in value.items():
            names(name, f"a name in {place}")
            schema(one, f"{place}.{name}")

    return check


def record(needed: Mapping[str, Schema], more: Mapping[str, Schema] | None = None) -> Schema:
    """A value of each name that is needed, perhaps of some more, and of no other."""
    allowed = {**needed, **(more or {})}

    def check(value: Any, place: str) -> None:
        if not isinstance(value, dict):
            refuse(place, value, "a table of values by name")
        missing = [name for name in needed if name not in value]
        if missing:
            raise InputError(f"{place} has no {missing[0]!r}; it must have one")
        unknown: Sequence[str] = [name for name in value if name not in allowed]
        if unknown:
            raise InputError(
                f"{place} has {unknown[0][:MOST_SHOWN]!r}, which does not belong there"
            )
        for name, one in value.items():
            allowed[name](one, f"{place}.{name}")

    return check


def by_kind(kinds: Mapping[str, Schema]) -> Schema:
    """A record with a ``kind``, which decides what else it has; no other kind is known."""

    def check(value: Any, place: str) -> None:
        if not isinstance(value, dict) or not isinstance(value.get("kind"), str):
            refuse(place, value, "a table with a 'kind'")
        if value["kind"] not in kinds:
            refuse(f"{place}.kind", value["kind"], f"one of {', '.join(kinds)}")
        kinds[value["kind"]](value, place)

    return check
