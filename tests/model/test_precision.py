"""Scale matrices factored and inverted, on a CPU and on a GPU; what devices are asked."""

import pytest
import torch

from latents import FLOOR, apart, leaves
from threads import one_thread as one_thread
from whowrote.model import precision
from whowrote.model.precision import (
    inverse_cholesky,
    lower_factor,
    lower_product,
    precision_of,
    products,
)

M, N, K = 2, 7, 3
CUDA, CPU = torch.device("cuda"), torch.device("cpu")  # a name needs no device


@pytest.mark.parametrize("d", [1, 64, 65, 150])
@pytest.mark.parametrize("alignment", [1, 4])
def test_the_lower_product_by_halves(
    d: int, alignment: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(precision.ALIGNMENT, "cpu", alignment)
    monkeypatch.setitem(precision.TILES, "cpu", 64 if alignment > 1 else 1000)
    c = torch.randn(3, d, d, generator=torch.Generator().manual_seed(d), dtype=torch.float64)
    product = torch.zeros_like(c)
    lower_product(c.tril(), product)
    whole = c.tril() @ c.tril().mT
    assert apart(product.tril(), whole.tril()) < 1e-12
    # Negative control: what lies above the diagonal of C has no part in it.
    assert d == 1 or apart(product.tril(), (c @ c.mT).tril()) > 1e-3


@pytest.mark.parametrize("d", [1, 31, 33, 70, 150, 200])
@pytest.mark.parametrize("alignment", [1, 4])
@pytest.mark.parametrize("one_thread", [False, True])
def test_the_inverse_factor_by_halves(
    d: int, alignment: int, one_thread: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision, "one_thread", lambda device: one_thread)
    monkeypatch.setitem(precision.ALIGNMENT, "cpu", alignment)
    monkeypatch.setitem(precision.TILES, "cpu", 64 if alignment > 1 else 1000)
    a = torch.randn(3, d, d, generator=torch.Generator().manual_seed(d), dtype=torch.float64)
    sigma = a @ a.mT / d + 0.1 * torch.eye(d, dtype=torch.float64)
    w = torch.zeros_like(sigma)
    inverse_cholesky(sigma, w)
    assert apart(w @ sigma @ w.mT, torch.eye(d, dtype=torch.float64).expand_as(w)) < 1e-9
    assert torch.equal(w, w.tril())
    # Negative control: the inverse of the upper factor also whitens, but is another matrix.
    assert d == 1 or apart(w.mT @ sigma @ w, torch.eye(d, dtype=torch.float64).expand_as(w)) > 1e-3


def test_a_broken_matrix_is_nan_and_leaves_its_neighbours_alone() -> None:
    sigma = torch.eye(40, dtype=torch.float64).repeat(3, 1, 1)
    sigma[1, 35, 35] = -1.0
    w = torch.zeros_like(sigma)
    inverse_cholesky(sigma, w)
    assert torch.isnan(w[1]).any()
    assert torch.equal(w[[0, 2]], sigma[[0, 2]])


@pytest.mark.gpu
def test_factorisations_are_exact_whatever_the_products_are(cuda: torch.device) -> None:
    raw = leaves(64, N, K)[3].detach().float().to(cuda)
    floor = FLOOR.float().to(cuda)
    with products("high", cuda):
        shortened = raw[0] @ raw[0].mT
        known = precision_of(raw, floor)
    w = known.inverse_factor[..., :64, :64].double()
    c = lower_factor(raw).double()
    sigma = c @ c.mT + torch.diag_embed(floor.double()[:, None, None].expand(M, K, 64))
    identity = torch.eye(64, dtype=torch.float64, device=cuda)
    assert float((w @ sigma @ w.mT - identity).abs().max()) < 1e-3
    # Negative control: a product in the same setting is not exact.
    assert apart(shortened.double(), raw[0].double() @ raw[0].double().mT) > 1e-5


@pytest.mark.gpu
@pytest.mark.parametrize("d", [1, 5, 16, 19, 25, 32, 50, 150, 200])
def test_a_gpu_inverts_and_leaves_the_padding_alone(cuda: torch.device, d: int) -> None:
    a = torch.randn(300, d, d, generator=torch.Generator().manual_seed(d), dtype=torch.float64)
    sigma = (a @ a.mT / d + 0.01 * torch.eye(d, dtype=torch.float64)).to(cuda)
    exact = torch.linalg.inv(torch.linalg.cholesky(sigma))
    w = torch.full((300, d + 3, d + 5), 7.0, device=cuda)
    w[:, :d, :d] = 0.0
    inverse_cholesky(sigma.float(), w[:, :d, :d])
    assert float((w[:, :d, :d] - exact).norm() / exact.norm()) < 1e-4
    assert bool((w[:, d:] == 7).all())
    assert bool((w[:, :, d:] == 7).all())
    assert torch.equal(w[:, :d, :d], w[:, :d, :d].tril())


@pytest.mark.gpu
def test_a_gpu_says_nan_of_a_broken_matrix(cuda: torch.device) -> None:
    sigma = torch.eye(40, device=cuda).repeat(3, 1, 1)
    sigma[1, 35, 35] = -1.0
    w = torch.zeros_like(sigma)
    inverse_cholesky(sigma, w)
    assert bool(torch.isnan(w[1].diagonal()).any())
    assert torch.equal(w[[0, 2]], sigma[[0, 2]])


def test_precision_is_put_back() -> None:
    before = torch.get_float32_matmul_precision()

    def fails() -> None:
        with products("high", CUDA):
            assert torch.get_float32_matmul_precision() == "high"
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert torch.get_float32_matmul_precision() == before


def test_on_a_cpu_the_setting_of_the_user_stays() -> None:
    before = torch.get_float32_matmul_precision()
    with products("high", CPU):
        assert torch.get_float32_matmul_precision() == before


def test_one_thread_of_a_cpu() -> None:
    assert precision.one_thread(CPU)
    assert not precision.one_thread(CUDA)
    torch.set_num_threads(2)
    try:
        assert not precision.one_thread(CPU)
    finally:
        torch.set_num_threads(1)
