"""Models fitted once for everyone who looks."""

from collections.abc import Iterator

import pytest
import torch

from attribution.people import corpus
from whowrote.attribution import Attributor
from whowrote.features import AdHominem, Hybrid


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    """Everything here is small: a second thread only waits for the first."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def model() -> Attributor:
    """Four people, ten texts each."""
    return Attributor("ngrams").fit(*corpus(4, 10))


@pytest.fixture(scope="session")
def hybrid() -> Attributor:
    """The real features, three people, four texts each."""
    return Attributor(Hybrid(AdHominem(device="cpu"))).fit(*corpus(3, 4))


@pytest.fixture(scope="session")
def dense() -> Attributor:
    """Dense features: no contrasts."""
    return Attributor(AdHominem(device="cpu")).fit(*corpus(3, 5))
