"""What the model asks of its device."""

import pytest
import torch

from threads import one_thread as one_thread
from whowrote.model.fast import devices
from whowrote.model.fast.devices import own_kernels, products

CUDA, CPU = torch.device("cuda"), torch.device("cpu")  # a name needs no device


def test_precision_is_put_back() -> None:
    before = torch.get_float32_matmul_precision()

    def fails() -> None:
        with products("medium", CUDA):
            assert torch.get_float32_matmul_precision() == "medium"
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert torch.get_float32_matmul_precision() == before


def test_on_a_processor_the_setting_of_the_user_stays() -> None:
    before = torch.get_float32_matmul_precision()
    with products("medium", CPU):
        assert torch.get_float32_matmul_precision() == before


def test_without_a_device_there_is_no_kernel_of_our_own() -> None:
    assert own_kernels(CPU, torch.float32) is None
    assert own_kernels(CUDA, torch.float64) is None


def test_one_thread_of_a_processor() -> None:
    assert devices.one_thread(CPU)
    assert not devices.one_thread(CUDA)
    torch.set_num_threads(2)
    try:
        assert not devices.one_thread(CPU)
    finally:
        torch.set_num_threads(1)
