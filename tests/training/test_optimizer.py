"""Adam for a fleet against torch's own, member by member; the moving average."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from whowrote.training.step import FleetAdam, MovingAverage

EXACT = 1e-12
LOOSE = 1e9


def drawn(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


class Pair(nn.Module):
    """Two parameters with the member first."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight.clone()), nn.Parameter(bias.clone())


def pair(m: int = 3) -> Pair:
    return Pair(drawn(m, 4, 2), drawn(m, 2, seed=1))


def part(fleet: Pair, keep: list[int]) -> Pair:
    return Pair(fleet.weight.detach()[keep], fleet.bias.detach()[keep])


def give_gradients(fleet: Pair, step: int, size: Tensor, members: slice = slice(None)) -> None:
    """The same gradients for the same member in the same step, times its size."""
    m = len(size)
    for i, p in enumerate(fleet.parameters()):
        g = drawn(m, *p.shape[1:], seed=100 * step + i) * size.reshape(-1, *(1,) * (p.dim() - 1))
        p.grad = g[members].clone()


def gap(a: nn.Module, b: nn.Module) -> float:
    pairs = zip(a.parameters(), b.parameters(), strict=True)
    return max(float((p - q).detach().abs().max()) for p, q in pairs)


def run(
    fleet: Pair,
    rates: list[float],
    clip: float,
    size: Tensor,
    members: slice = slice(None),
    decay: Callable[[int], float] = lambda step: 1.0,
) -> Pair:
    optimizer = FleetAdam(fleet, rates)
    for step in range(30):
        give_gradients(fleet, step, size, members)
        optimizer.set_decay(decay(step))
        optimizer.step(clip)
    return fleet


def torch_adam(fleet: Pair, rate: float, size: Tensor, clip: Callable[[Pair], None]) -> Pair:
    optimizer = torch.optim.Adam(fleet.parameters(), lr=rate)
    for step in range(30):
        give_gradients(fleet, step, size)
        clip(fleet)
        optimizer.step()
    return fleet


ONE = torch.ones(1, dtype=torch.float64)


def test_one_member_is_torch_adam() -> None:
    ours = run(pair(1), [0.01], LOOSE, ONE)
    assert gap(ours, torch_adam(pair(1), 0.01, ONE, lambda fleet: None)) < EXACT
    # Negative control: a step size one per cent off.
    assert gap(ours, torch_adam(pair(1), 0.0101, ONE, lambda fleet: None)) > 1e-4


def exact_clip(fleet: Pair) -> None:
    """g min(1, 1/|g|); torch's own adds 1e-6 to the norm."""
    norm = math.sqrt(sum(float(p.grad.square().sum()) for p in fleet.parameters()))
    for p in fleet.parameters():
        p.grad *= min(1.0, 1.0 / norm)


def torch_clip(fleet: Pair) -> None:
    nn.utils.clip_grad_norm_(fleet.parameters(), 1.0)


def test_one_member_is_torch_adam_with_its_gradient_clipped() -> None:
    size = torch.tensor([0.5], dtype=torch.float64)  # norms on both sides of one
    ours = run(pair(1), [0.01], 1.0, size)
    assert gap(ours, torch_adam(pair(1), 0.01, size, exact_clip)) < EXACT
    assert gap(ours, torch_adam(pair(1), 0.01, size, torch_clip)) < 1e-6
    # Negative control: no clipping.
    assert gap(ours, torch_adam(pair(1), 0.01, size, lambda fleet: None)) > 1e-4


SIZES = torch.tensor([0.5, 1e6, 1e-6], dtype=torch.float64)
RATES = [0.01, 0.003, 0.1]


@pytest.mark.parametrize("i", [0, 1, 2])
def test_a_member_moves_as_if_alone(i: int) -> None:
    """Its own norm, step size and state; one mate has a million times its gradient."""
    together = run(pair(), RATES, 1.0, SIZES)
    alone = run(part(pair(), [i]), RATES[i : i + 1], 1.0, SIZES, slice(i, i + 1))
    assert gap(part(together, [i]), alone) < EXACT


def test_one_norm_for_all_would_couple_the_members() -> None:
    """The negative control of the test above: clipped by the norm of the whole fleet.

    Adam does not see a constant factor, so the mate's gradient comes and goes.
    """
    alone = run(part(pair(), [0]), RATES[:1], 1.0, SIZES, slice(0, 1))
    coupled = pair()
    optimizer = FleetAdam(coupled, RATES)
    for step in range(30):
        give_gradients(coupled, step, SIZES if step % 2 else SIZES[[0, 2, 2]])
        nn.utils.clip_grad_norm_(coupled.parameters(), 1.0)
        optimizer.step(1.0)
    assert gap(part(coupled, [0]), alone) > 1e-4


def test_a_broken_gradient_stays_with_its_member() -> None:
    fleet, sound = pair(), pair()
    size = torch.tensor([1.0, math.nan, 1.0], dtype=torch.float64)
    run(fleet, RATES, 1.0, size)
    run(sound, RATES, 1.0, torch.ones(3, dtype=torch.float64))
    assert gap(part(fleet, [0, 2]), part(sound, [0, 2])) < EXACT
    assert fleet.weight[1].isnan().all()


def test_no_gradient_is_no_motion() -> None:
    """A Gaussian fleet never gives its degrees of freedom a gradient; zeros divide by no norm."""
    fleet, before = pair(), pair()
    optimizer = FleetAdam(fleet, RATES)
    for step in range(3):
        give_gradients(fleet, step, torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64))
        fleet.bias.grad = None
        optimizer.step(1.0)
    assert torch.equal(fleet.bias, before.bias)
    assert torch.equal(fleet.weight[1], before.weight[1])
    assert not torch.equal(fleet.weight[0], before.weight[0])


def test_a_step_forgets_the_gradient() -> None:
    fleet = pair()
    optimizer = FleetAdam(fleet, RATES)
    give_gradients(fleet, 0, torch.ones(3, dtype=torch.float64))
    optimizer.step(1.0)
    assert all(p.grad is None for p in fleet.parameters())


def test_decay_scales_the_step() -> None:
    """Half the decay is half the rate."""
    half = run(pair(1), [0.01], LOOSE, ONE, decay=lambda step: 0.5)
    assert gap(half, run(pair(1), [0.005], LOOSE, ONE)) < EXACT
    assert gap(half, run(pair(1), [0.01], LOOSE, ONE)) > 1e-3
    assert FleetAdam(pair(), RATES).rates(0.5) == pytest.approx([0.005, 0.0015, 0.05])


def test_a_factor_scales_the_step_of_one_parameter() -> None:
    """Ten times the rate for the bias alone, for the last member alone, and after selection."""
    ones = torch.ones(3, dtype=torch.float64)
    fleet, plain, start = pair(), pair(), pair()
    optimizer = FleetAdam(fleet, RATES, {"bias": [1.0, 1.0, 10.0]})
    for who, how in ((fleet, optimizer), (plain, FleetAdam(plain, RATES))):
        give_gradients(who, 0, ones)
        how.step(LOOSE)
    assert torch.equal(fleet.weight, plain.weight)
    assert torch.equal(fleet.bias[:2], plain.bias[:2])
    moved, usual = fleet.bias[2] - start.bias[2], plain.bias[2] - start.bias[2]
    torch.testing.assert_close(moved, 10 * usual)
    assert optimizer.select(part(fleet, [2]), [2]).factors == {"bias": [10.0]}


def test_a_selected_optimizer_goes_on_where_it_was() -> None:
    fleet, ones, last = pair(), torch.ones(3, dtype=torch.float64), slice(2, 3)
    optimizer = FleetAdam(fleet, RATES)
    for step in range(10):
        give_gradients(fleet, step, ones)
        optimizer.step(1.0)
    kept, anew = part(fleet, [2]), part(fleet, [2])
    chosen, fresh = optimizer.select(kept, [2]), FleetAdam(anew, RATES[2:])
    assert chosen.learning_rates == [0.1]
    for step in range(10, 20):
        for who, how, which in (
            (fleet, optimizer, slice(None)),
            (kept, chosen, last),
            (anew, fresh, last),
        ):
            give_gradients(who, step, ones, which)
            how.step(1.0)
    assert gap(kept, part(fleet, [2])) < EXACT
    # Negative control: a fresh state forgets the first ten steps.
    assert gap(anew, part(fleet, [2])) > 1e-3


# ---------------------------------------------------------------------- the moving average


def shifted(fleet: Pair, by: float) -> None:
    with torch.no_grad():
        for p in fleet.parameters():
            p.add_(by)


def test_the_average_follows_its_recurrence() -> None:
    """a <- d a + (1 - d) theta with d = min(decay, t/(t + 9)), the d of four steps at a time."""
    fleet = pair()
    average = MovingAverage(fleet, 0.3)
    expected = fleet.weight.detach().clone()
    wrong, d = expected.clone(), 1.0
    for t in range(1, 12):
        shifted(fleet, 0.5 * t)
        average.update()
        d *= min(0.3, t / (t + 9))
        if t in (2, 6, 10, 11):  # someone looks at 2 and at the end; the others are fourth steps
            expected = d * expected + (1 - d) * fleet.weight.detach()
            d = 1.0
        wrong = 0.3 * wrong + 0.7 * fleet.weight.detach()  # no early forgetting
        if t == 2:
            with average.applied():
                assert not torch.allclose(fleet.weight, wrong, atol=1e-3)
    with average.applied():
        assert torch.allclose(fleet.weight, expected, atol=EXACT)


def test_applied_lasts_as_long_as_its_block() -> None:
    fleet = pair()
    average = MovingAverage(fleet, 0.9)
    for _ in range(3):
        shifted(fleet, 1.0)
        average.update()
    present = fleet.weight.detach().clone()
    with average.applied():
        assert not torch.equal(fleet.weight, present)
    assert torch.equal(fleet.weight, present)

    def fails() -> None:
        with average.applied():
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        fails()
    assert torch.equal(fleet.weight, present)


def test_no_decay_is_no_average() -> None:
    fleet = pair()
    average = MovingAverage(fleet, 0.0)
    shifted(fleet, 1.0)
    average.update()
    present = fleet.weight.detach().clone()
    with average.applied():
        assert torch.equal(fleet.weight, present)


def test_a_selected_average_goes_on_where_it_was() -> None:
    fleet = pair()
    average = MovingAverage(fleet, 0.9)
    for _ in range(4):
        shifted(fleet, 1.0)
        average.update()
    few = part(fleet, [2])
    chosen = average.select(few, [2])
    for both in (fleet, few):
        shifted(both, 1.0)
    average.update()
    chosen.update()
    with average.applied(), chosen.applied():
        assert torch.equal(few.weight, fleet.weight[[2]])
        assert not torch.equal(few.weight, fleet.weight[[1]])
