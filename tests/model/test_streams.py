"""A member draws the same numbers whoever is beside it and whatever the global generator holds."""

import pytest
import torch

from whowrote.model import Streams
from whowrote.model.fleet import BlockStreams


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


def steps_of(streams: BlockStreams, n: int) -> list[torch.Tensor]:
    """What ``n`` steps draw that draw twice each."""
    answers = []
    for _ in range(n):
        streams.begin_step()
        some = streams.only([True, False][: len(streams)]).uniform(3)
        answers.append(torch.cat([streams.normal(2), some], dim=1).clone())
    return answers


@pytest.mark.parametrize("place", [0, 1])
def test_a_block_gives_a_member_what_it_gets_alone(place: int) -> None:
    together = steps_of(BlockStreams(Streams([3, 7]), block=4), 10)
    for step, alone in enumerate(steps_of(BlockStreams(Streams([[3, 7][place]]), block=4), 10)):
        asked = 5 if place == 0 else 2  # the second member draws no uniform numbers in a fleet
        if place == 0:
            assert torch.equal(together[step][0, :asked], alone[0])
    if place == 1:
        assert all(bool((answer[1, 2:] == 0).all()) for answer in together)


def test_a_block_never_repeats_itself() -> None:
    answers = torch.stack(steps_of(BlockStreams(Streams([3]), block=4), 12)).flatten(1)
    assert len(torch.unique(answers[:, 0])) == 12


@pytest.mark.gpu
def test_a_block_lives_at_the_same_addresses(cuda: torch.device) -> None:
    streams = BlockStreams(Streams([3], cuda), block=2)
    places, answers = set(), []
    for _ in range(5):
        streams.begin_step()
        answers.append(streams.normal(8).clone())
        places.add(streams.normal(8).data_ptr())
    assert len(places) == 1
    assert not torch.equal(answers[0], answers[1])


def test_an_epoch_starts_a_block_anew() -> None:
    """Whether a neighbour left in the last epoch must not change what a member draws."""
    one, other = BlockStreams(Streams([3]), block=4), Streams([3])
    steps_of(one, 6)
    one.begin_epoch()
    first = steps_of(one, 1)[0]
    before = BlockStreams(other, block=4)
    steps_of(before, 6)
    assert torch.equal(first, steps_of(BlockStreams(other, block=4), 1)[0])
    # Negative control: going on within the block gives other numbers.
    assert not torch.equal(first, steps_of(before, 1)[0])
