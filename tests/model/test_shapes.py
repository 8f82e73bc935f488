"""Shapes of signatures are checked under test, at first: the negative control of all of them."""

import jaxtyping
import pytest
import torch

import shapes
from whowrote.model.mixture import class_statistics


def wrong() -> object:
    """A label more than rows."""
    return class_statistics(torch.zeros(1, 3, 2), torch.zeros(1, 4, dtype=torch.long), 2)


def test_a_wrong_shape_is_refused() -> None:
    with pytest.raises(jaxtyping.TypeCheckError, match="class_statistics"):
        wrong()


def test_a_long_test_checks_its_first_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "MOST", 3)
    for _ in range(4):
        class_statistics(torch.zeros(1, 3, 2), torch.zeros(1, 3, dtype=torch.long), 2)
    assert jaxtyping.config.jaxtyping_disable


def test_the_next_one_checks_again() -> None:
    assert not jaxtyping.config.jaxtyping_disable
    with pytest.raises(jaxtyping.TypeCheckError):
        wrong()
