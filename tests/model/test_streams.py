"""A member draws the same numbers whoever is beside it and whatever the global generator holds."""

import pytest
import torch

from whowrote.model import Streams


@pytest.mark.parametrize("method", ["normal", "uniform"])
@pytest.mark.parametrize("size", [9, 40])
def test_a_stream_is_independent_of_its_mates(method: str, size: int) -> None:
    together = getattr(Streams([3, 7, 11]), method)(size)
    for i, seed in enumerate([3, 7, 11]):
        assert torch.equal(getattr(Streams([seed]), method)(size)[0], together[i])
    # Negative control: another seed.
    assert not torch.equal(getattr(Streams([4]), method)(size)[0], together[0])


def test_a_stream_is_independent_of_the_global_generator() -> None:
    drawn = []
    for seed in (0, 1):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            before = torch.get_rng_state()
            drawn.append(Streams([5]).normal(4, 3))
            assert torch.equal(torch.get_rng_state(), before)  # and it takes nothing from it
    assert torch.equal(*drawn)


def test_a_selected_stream_goes_on_where_it_was() -> None:
    streams, alone = Streams([3, 7]), Streams([7])
    assert torch.equal(streams.normal(5)[1:], alone.normal(5))
    chosen = streams.select([1])
    assert len(chosen) == 1
    assert torch.equal(chosen.normal(5), alone.normal(5))
    # Negative control: a fresh stream starts anew.
    assert not torch.equal(chosen.normal(5), Streams([7]).normal(5))


def test_numbers_have_the_stated_shape_type_and_law() -> None:
    streams = Streams([1, 2], dtype=torch.float64)
    z, v = streams.normal(5000), streams.uniform(5000)
    assert z.shape == v.shape == (2, 5000)
    assert z.dtype == v.dtype == torch.float64
    assert torch.allclose(z.mean(1), torch.zeros(2).double(), atol=0.06)
    assert torch.allclose(z.std(1), torch.ones(2).double(), atol=0.06)
    assert float(v.min()) >= 0
    assert float(v.max()) < 1
