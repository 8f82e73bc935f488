"""Settings from a TOML file: tables in, dataclasses out, and a sentence on whatever does not fit.

    [section]          @dataclass
    name = value  ->   class Section: name: type = default

A name that no field has, a value of another type and a field that is missing are errors that name
the section, the value and what is asked for.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from whowrote.errors import InputError, did_you_mean
from whowrote.files import bytes_of

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
