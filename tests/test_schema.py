"""Settings from TOML: names, types and defaults of a dataclass, and a sentence for each mistake."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from whowrote.errors import InputError, did_you_mean
from whowrote.schema import check_names, checked, from_table, read_toml, section


@dataclass(frozen=True)
class Some:
    """One field of every kind."""

    name: str
    steps: int | None = None
    rate: float = 0.1
    exact: bool = False
    widths: tuple[int, ...] = (4,)
    shares: Sequence[float] = (1.0,)
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    extra: Mapping[str, Any] | None = None


def test_a_table_is_a_dataclass_with_its_defaults() -> None:
    table = {"steps": 3, "rate": 1, "widths": [1, 2], "shares": [0.5, 1], "grid": {"a": [1, "x"]}}
    found = from_table(Some, table, "[some]", name="given")
    assert found == Some("given", 3, 1, False, (1, 2), [0.5, 1], {"a": [1, "x"]})
    assert checked(Some, {"exact": True}, "[some]") == {"exact": True}


BAD: list[tuple[dict[str, Any], str]] = [
    ({"step": 3}, "[some] has 'step'; it may have name, steps, rate, exact, widths, shares, grid"),
    ({"step": 3}, "did you mean 'steps'?"),
    ({"steps": "x"}, "steps in [some] is 'x'; it must be a whole number"),
    ({"steps": 1.5}, "steps in [some] is 1.5; it must be a whole number"),
    ({"steps": True}, "steps in [some] is True; it must be a whole number"),
    ({"rate": "x"}, "rate in [some] is 'x'; it must be a number"),
    ({"rate": False}, "rate in [some] is False; it must be a number"),
    ({"exact": 1}, "exact in [some] is 1; it must be true or false"),
    ({"name": 7}, "name in [some] is 7; it must be a text in quotes"),
    ({"widths": 4}, "widths in [some] is 4; it must be a list of whole numbers"),
    ({"widths": [4, "x"]}, "widths in [some] is [4, 'x']; it must be a list of whole numbers"),
    ({"shares": "all"}, "shares in [some] is 'all'; it must be a list of numbers"),
    ({"grid": 3}, "grid in [some] is 3; it must be a table"),
    ({"grid": {"a": 3}}, "grid in [some] is {'a': 3}; it must be a table"),
    ({"extra": 3}, "extra in [some] is 3; it must be a table"),
    ({}, "[some] has no name; it must be a text in quotes: add it"),
]


@pytest.mark.parametrize(("table", "message"), BAD)
def test_what_does_not_fit_is_one_sentence(table: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        from_table(Some, table, "[some]")


def test_what_comes_from_elsewhere_may_not_be_in_the_table() -> None:
    with pytest.raises(InputError, match=r"\[some\] has 'name'; it may have steps"):
        from_table(Some, {"name": "x"}, "[some]", name="given")


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "some.toml"
    path.write_text("[splits]\nfolds = 3\n")
    assert read_toml(path) == {"splits": {"folds": 3}}
    assert section(read_toml(path), "splits") == {"folds": 3}
    assert section(read_toml(path), "grid") == {}
    for content in (b"[splits", b"\xff\xfe\x00"):
        path.write_bytes(content)
        with pytest.raises(
            InputError, match=r"some.toml' is not valid TOML \(.*; correct it there"
        ):
            read_toml(path)
    with pytest.raises(InputError, match=r"gone.toml' cannot be read .*path of a TOML file"):
        read_toml(tmp_path / "gone.toml")
    with pytest.raises(InputError, match=r"data is 3; it must be a section: write \[data\]"):
        section({"data": 3}, "data")


def test_a_guess_is_only_made_where_something_is_close() -> None:
    assert did_you_mean("latent_dims", ["latent_dim", "hidden"]) == "; did you mean 'latent_dim'?"
    assert did_you_mean("zzz", ["latent_dim", "hidden"]) == ""
    with pytest.raises(InputError, match=r"the file has 'zzz'; it may have data, grid$"):
        check_names(["data", "zzz"], ("data", "grid"), "the file")
