"""What every test may ask for."""

from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of measuring corpora beside the repository; absent on a user's machine."""
    if not DATA.is_dir():
        pytest.skip(f"the measuring corpora are not beside the repository ({DATA.name}/ missing)")
    return DATA
