"""What every test may ask for."""

from pathlib import Path

import pytest
import torch

import shapes

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol() -> None:
    """Each test, with the fixtures it makes, checks shapes anew."""
    shapes.begin()


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of measuring corpora beside the repository; absent on a user's machine."""
    if not DATA.is_dir():
        pytest.skip(f"the measuring corpora are not beside the repository ({DATA.name}/ missing)")
    return DATA


@pytest.fixture(scope="session")
def cuda() -> torch.device:
    """A GPU; absent on most machines."""
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device on this machine")
    return torch.device("cuda")
