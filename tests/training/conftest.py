"""The rows that small fleets are trained on."""

import pytest

from fleets import overlapping_authors
from threads import one_thread as one_thread
from whowrote.model import Rows


@pytest.fixture(scope="session")
def rows() -> Rows:
    return overlapping_authors()
