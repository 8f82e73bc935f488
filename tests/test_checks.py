"""One choice of a device for everything: names, numbers, and none at all."""

import subprocess
import sys

import pytest
import torch

from whowrote.checks import choose_device
from whowrote.errors import InputError


def test_a_cpu_is_always_there() -> None:
    for name in ("cpu", "cpu:0", torch.device("cpu")):
        assert choose_device(name).type == "cpu"
    assert choose_device(None) == choose_device("auto") == choose_device()


@pytest.mark.parametrize("name", ["abacus", "gpu", "auto:0", "cuda:", "cuda:x", "cuda:-1", ""])
def test_a_device_must_have_a_name_that_exists(name: str) -> None:
    with pytest.raises(InputError, match=f"device is {name!r}; it must be one of auto, cpu, cuda"):
        choose_device(name)


@pytest.mark.parametrize("name", ["cpu:1", "cuda:99"])
def test_a_device_must_be_there(name: str) -> None:
    with pytest.raises(InputError, match=f"device is '{name}', which this machine has not; use"):
        choose_device(name)


@pytest.mark.gpu
def test_a_gpu_comes_with_its_number(cuda: torch.device) -> None:
    here = torch.device("cuda", torch.cuda.current_device())
    assert {choose_device(name) for name in (None, "auto", "cuda", cuda, here)} == {here}
    assert choose_device("cuda:0") == torch.device("cuda:0")


def test_checks_do_not_load_torch() -> None:
    code = "import sys, whowrote.checks; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
