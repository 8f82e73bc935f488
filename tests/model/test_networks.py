"""Layers, networks and dropout: every member for itself, sparse as dense."""

import math

import pytest
import torch
from torch import Tensor

from whowrote.model import Network, SparseRows, Streams
from whowrote.model.networks import ACTIVATIONS, LOG_SCALE_LIMIT, Layer, dropped, dropped_sparse

EXACT = 1e-12


def random_layer(build, m: int, n_in: int, n_out: int) -> Layer:
    layer = Layer(m, n_in, n_out).double()
    with torch.no_grad():
        layer.weight.copy_(build.normal(m, n_in, n_out, seed=1))
        layer.bias.copy_(build.normal(m, n_out, seed=2))
    return layer


def random_network(build, activation: str = "tanh", m: int = 3) -> Network:
    network = Network(m, 4, (6, 5), 2, activation).double()
    with torch.no_grad():
        for i, p in enumerate(network.parameters()):
            p.copy_(build.normal(*p.shape, seed=i))
    return network.requires_grad_(False)


def sparse_and_dense(build, m: int, n: int, width: int) -> tuple[SparseRows, Tensor]:
    """The same random rows twice; the first row of every member is empty, lengths differ."""
    dense = build.normal(m, n, width) * (build.normal(m, n, width, seed=1) > 0.4)
    dense[:, 0] = 0
    flat = dense.reshape(m * n, width)
    row, column = flat.nonzero(as_tuple=True)
    start = torch.zeros(m * n + 1, dtype=torch.long)
    start[1:] = torch.bincount(row, minlength=m * n).cumsum(0)
    return SparseRows(start, column, flat[row, column]), dense


def test_a_layer_is_each_members_own_product(build, apart) -> None:
    layer, a = random_layer(build, 3, 4, 2), build.normal(3, 5, 4)
    out = layer(a)
    for i in range(3):
        own = torch.nn.functional.linear(a[i], layer.weight[i].T, layer.bias[i])
        assert apart(out[i], own) < EXACT
    # Negative control: a mate's weights.
    wrong = torch.nn.functional.linear(a[0], layer.weight[1].T, layer.bias[1])
    assert apart(out[0], wrong) > 1e-2


def test_sparse_product_and_gradients_equal_dense(build, apart) -> None:
    layer, (rows, dense) = random_layer(build, 3, 7, 4), sparse_and_dense(build, 3, 5, 7)
    pull = build.normal(3, 5, 4, seed=8)
    values = rows.values.clone().requires_grad_()
    leaves = list(layer.parameters())

    def gradients(a: Tensor | SparseRows) -> tuple[Tensor, ...]:
        return torch.autograd.grad((layer(a) * pull).sum(), leaves)

    assert apart(layer(rows), layer(dense)) < EXACT
    for mine, theirs in zip(gradients(rows), gradients(dense), strict=True):
        assert apart(mine, theirs) < EXACT
    inputs = dense.clone().requires_grad_()
    (by_value,) = torch.autograd.grad(
        (layer(SparseRows(rows.start, rows.columns, values)) * pull).sum(), values
    )
    (by_input,) = torch.autograd.grad((layer(inputs) * pull).sum(), inputs)
    assert apart(by_value, by_input[dense != 0]) < EXACT
    # Negative control: rows given to the wrong members.
    assert apart(layer(rows), layer(dense.flip(0))) > 1e-2


def test_a_member_without_any_value_is_its_bias(build) -> None:
    layer = random_layer(build, 2, 3, 2)
    rows = SparseRows(
        torch.tensor([0, 0, 1]), torch.tensor([1]), torch.ones(1, dtype=torch.float64)
    )
    out = layer(rows)
    assert torch.equal(out[0, 0], layer.bias[0])
    assert torch.allclose(out[1, 0], layer.bias[1] + layer.weight[1, 1])


@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
def test_a_network_is_its_layers_in_turn(build, apart, activation: str) -> None:
    network, a = random_network(build, activation), build.normal(3, 5, 4, seed=20)
    f = ACTIVATIONS[activation]
    first, second, last = network.layers
    raw = last(f(second(f(first(a)))))
    q = network(a)
    assert apart(q.mean, raw[..., :2]) < EXACT
    assert apart(q.log_scale, 6 * torch.tanh(raw[..., 2:] / 6)) < EXACT
    # Negative control: scales taken for means.
    assert apart(q.mean, raw[..., 2:]) > 1e-2


def test_log_scale_is_bounded_and_near_zero_unchanged(build) -> None:
    network = random_network(build)
    a = build.normal(3, 5, 4)
    for bias, limit in ((1e4, LOG_SCALE_LIMIT), (-1e4, -LOG_SCALE_LIMIT)):
        network.last.bias[:, 2:] = bias
        q = network(a)
        assert torch.allclose(q.log_scale, torch.full_like(q.log_scale, limit))
        assert q.variance.isfinite().all()
    network.last.weight[..., 2:] = 0
    network.last.bias[:, 2:] = 0.1
    assert torch.allclose(network(a).log_scale, torch.full((3, 5, 2), 0.1).double(), atol=1e-4)


def test_absolute_sum_counts_weights_and_biases_by_member(build) -> None:
    network = random_network(build)
    total = network.absolute_sum()
    for i in range(3):
        own = sum(float(p[i].abs().sum()) for p in network.parameters())
        assert float(total[i]) == pytest.approx(own)
        squares = sum(float(p[i].square().sum()) for p in network.parameters())
        assert float(total[i]) != pytest.approx(squares)


RATES = torch.tensor([0.0, 0.2, 0.5], dtype=torch.float64)


def streams() -> Streams:
    return Streams([1, 2, 3], dtype=torch.float64)


def test_dropout_keeps_the_expectation() -> None:
    """Kept values are divided by 1 - p: zeros with frequency p, the mean unchanged."""
    a = torch.ones(3, 400, 50, dtype=torch.float64)
    out = dropped(a, RATES, streams())
    assert torch.allclose((out == 0).double().mean((1, 2)), RATES, atol=0.01)
    assert torch.allclose(out.mean((1, 2)), torch.ones(3).double(), atol=0.02)
    assert torch.equal(out[0], a[0])
    # Negative control: without the division the mean falls to 1 - p.
    kept = (out != 0).double().mean((1, 2))
    assert abs(float(kept[2]) - 1) > 0.4


def test_sparse_dropout_keeps_the_expectation(build) -> None:
    rows, _ = sparse_and_dense(build, 3, 300, 60)
    ones = SparseRows(rows.start, rows.columns, torch.ones_like(rows.values))
    out = dropped_sparse(ones, RATES, streams())
    assert torch.equal(out.start, rows.start)
    assert torch.equal(out.columns, rows.columns)
    bounds = rows.start[::300].tolist()
    for i, rate in enumerate(RATES.tolist()):
        own = out.values[bounds[i] : bounds[i + 1]]
        assert float((own == 0).double().mean()) == pytest.approx(rate, abs=0.02)
        assert float(own.mean()) == pytest.approx(1, abs=0.03)
        assert set(own.unique().tolist()) <= {0.0, 1 / (1 - rate)}


def test_sparse_dropout_is_independent_of_mates(build) -> None:
    rows, _ = sparse_and_dense(build, 3, 20, 9)
    out = dropped_sparse(rows, RATES, streams())
    low, high = rows.start[40], rows.start[60]
    own = SparseRows(rows.start[40:] - low, rows.columns[low:high], rows.values[low:high])
    for seed, same in ((3, True), (4, False)):
        alone = dropped_sparse(own, RATES[2:], Streams([seed], dtype=torch.float64))
        assert torch.equal(alone.values, out.values[low:high]) == same


def test_no_streams_or_no_rate_means_no_dropout(build) -> None:
    rows, dense = sparse_and_dense(build, 3, 4, 5)
    assert dropped(dense, RATES, None) is dense
    assert dropped(dense, None, streams()) is dense
    assert dropped_sparse(rows, RATES, None) is rows
    assert dropped_sparse(rows, None, streams()) is rows


def test_hidden_units_are_dropped_only_with_streams(build) -> None:
    network, a = random_network(build), build.normal(3, 5, 4)
    plain, still = network(a), network(a, RATES, None)
    noisy = network(a, RATES, streams())
    assert torch.equal(plain.mean, still.mean)
    assert torch.allclose(noisy.mean[0], plain.mean[0])  # rate zero
    assert not torch.allclose(noisy.mean[2], plain.mean[2])


def test_the_limit_says_exact_reconstruction() -> None:
    assert math.exp(-LOG_SCALE_LIMIT) == pytest.approx(1 / 400, rel=0.02)
