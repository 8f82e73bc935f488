"""How many members fit."""

from dataclasses import replace

import pytest
import torch

from whowrote.model import Architecture
from whowrote.sweep import groups as capacity
from whowrote.sweep.groups import LARGEST_GROUP, USABLE, counted_bytes, largest_group
from whowrote.training import Plan

WIDE = Architecture(n_features=200, n_components=30, latent_dim=200, hidden=(200,))
CPU = torch.device("cpu")


def test_a_group_fits_the_free_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "_free_memory", lambda: 8 << 30)
    size = largest_group(WIDE, Plan(), CPU)
    assert 1 < size < LARGEST_GROUP
    each = counted_bytes(WIDE, Plan())
    assert size * each <= USABLE * (8 << 30) < (size + 1) * each


def test_one_member_is_always_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "_free_memory", lambda: 1)
    assert largest_group(WIDE, Plan(), CPU) == 1


@pytest.mark.parametrize(
    "larger",
    [
        (replace(WIDE, latent_dim=300), Plan()),
        (replace(WIDE, n_components=60), Plan()),
        (replace(WIDE, hidden=(400, 400)), Plan()),
        (WIDE, Plan(batch_size=4096)),
        (replace(WIDE, n_samples=20), Plan()),
    ],
)
def test_what_is_larger_counts_more(larger: tuple[Architecture, Plan]) -> None:
    assert counted_bytes(*larger) > counted_bytes(WIDE, Plan())


def test_the_system_says_what_is_free() -> None:
    assert capacity._free_memory() > 1 << 20


@pytest.mark.parametrize("problem", [ValueError, AttributeError])
def test_a_silent_system_is_taken_to_be_small(
    monkeypatch: pytest.MonkeyPatch, problem: type[Exception]
) -> None:
    def silent(name: str) -> int:
        raise problem(name)

    monkeypatch.setattr(capacity.os, "sysconf", silent)
    assert capacity._free_memory() == 4 << 30


@pytest.mark.gpu
def test_a_group_fits_the_device(cuda: torch.device) -> None:
    """What the measured model foretells for forty members is what forty members take."""
    few, more = capacity.PROBES
    lower, upper, forty = (capacity._measured(WIDE, Plan(), m, cuda) for m in (few, more, 40))
    foretold = lower + (40 - few) * (upper - lower) / (more - few)
    assert forty < foretold / capacity.USABLE
    assert forty > 0.5 * foretold
