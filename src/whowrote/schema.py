"""What plain values from a file must be: kinds, limits, lengths; a sentence on what is not.

A schema is a function of a value and its place. The small ones check numbers and names, the large
ones are made of them:

>>> person = record({"name": text(), "age": whole(0, 150)}, {"shares": listed(number(0, 1))})
>>> person({"name": "Ann", "age": 30}, "ann")
>>> person({"name": "Ann", "age": True}, "ann")
Traceback (most recent call last):
whowrote.errors.InputError: ann.age is True; it must be a whole number from 0 to 150

Settings of a TOML file become dataclasses by the names and types of their fields:

    [section]          @dataclass
    name = value  ->   class Section: name: type = default

A name that no field has, a value of another type and a field that is missing are errors that name
the section, the value and what is asked for.
"""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from numbers import Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from whowrote.errors import InputError, did_you_mean
from whowrote.files import bytes_of

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


Kind = TypeVar("Kind")
WORDS: dict[Any, tuple[str, str]] = {
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    bool: ("true or false", "true or false"),
    str: ("a text in quotes", "texts in quotes"),
}


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The tables of a file."""
    try:
        return tomllib.loads(bytes_of(Path(path)).decode("utf-8"))
    except InputError:
        raise
    except OSError as problem:
        raise InputError(
            f"'{path}' cannot be read ({problem.strerror}); give the path of a TOML file"
        ) from None
    except ValueError as problem:  # bad TOML, or not even UTF-8
        raise InputError(f"'{path}' is not valid TOML ({problem}); correct it there") from None


def section(tables: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The table of that name; an empty one where there is none."""
    found = tables.get(name, {})
    if not isinstance(found, Mapping):
        raise InputError(f"{name} is {found!r}; it must be a section: write [{name}]")
    return dict(found)


def check_names(found: Iterable[str], known: Sequence[str], where: str) -> None:
    """Require every name to be a known one."""
    for name in found:
        if name not in known:
            raise InputError(
                f"{where} has {name!r}; it may have {', '.join(known)}{did_you_mean(name, known)}"
            )


def from_table(kind: type[Kind], table: Mapping[str, Any], where: str, **given: Any) -> Kind:
    """The dataclass of a table; ``given`` are fields that do not come from the file.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Splits:
    ...     folds: int = 5
    ...     shares: tuple[float, ...] = (1.0,)
    >>> from_table(Splits, {"shares": [0.5, 1]}, "[splits]")
    Splits(folds=5, shares=(0.5, 1))
    >>> from_table(Splits, {"folds": "x"}, "[splits]")
    Traceback (most recent call last):
    whowrote.errors.InputError: folds in [splits] is 'x'; it must be a whole number
    """
    values = checked(kind, table, where, besides=given)
    for one in fields(kind):  # type: ignore[arg-type]
        required = one.default is MISSING and one.default_factory is MISSING
        if required and one.name not in {*values, *given}:
            words = _words(get_type_hints(kind)[one.name])
            raise InputError(f"{where} has no {one.name}; it must be {words}: add it")
    return kind(**values, **given)


def checked(
    kind: type[Any], table: Mapping[str, Any], where: str, besides: Iterable[str] = ()
) -> dict[str, Any]:
    """The values of a table by the names and types of a dataclass; only those that are there."""
    types = get_type_hints(kind)
    check_names(table, [one.name for one in fields(kind) if one.name not in besides], where)
    for name, value in table.items():
        if not _fits(value, types[name]):
            raise InputError(f"{name} in {where} is {value!r}; it must be {_words(types[name])}")
    return {name: _converted(value, types[name]) for name, value in table.items()}


def _fits(value: Any, kind: Any) -> bool:
    if kind is Any:
        return True
    origin, inner = get_origin(kind), [one for one in get_args(kind) if one is not Ellipsis]
    if origin is UnionType:
        return any(_fits(value, one) for one in inner if one is not NoneType)
    if origin is not None and issubclass(origin, Mapping):
        return isinstance(value, Mapping) and all(_fits(own, inner[1]) for own in value.values())
    if origin is not None:
        return isinstance(value, list | tuple) and all(_fits(own, inner[0]) for own in value)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, kind) and isinstance(value, bool) == (kind is bool)


def _converted(value: Any, kind: Any) -> Any:
    """A list is a tuple where the field is one."""
    return tuple(value) if get_origin(kind) is tuple else value


def _words(kind: Any, several: bool = False) -> str:
    origin, inner = get_origin(kind), get_args(kind)
    if origin is UnionType:
        return " or ".join(_words(one, several) for one in inner if one is not NoneType)
    if origin is not None and issubclass(origin, Mapping):
        return "tables" if several else "a table, such as {name = 1}"
    if origin is not None:
        return f"{'lists' if several else 'a list'} of {_words(inner[0], several=True)}"
    return WORDS.get(kind, ("a value", "values"))[several]
