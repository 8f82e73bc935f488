"""``docs/architecture.py`` as a module: the floor plan and the reading of imports stand there."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def _load() -> ModuleType:
    path = Path(__file__).parents[1] / "docs" / "architecture.py"
    spec = importlib.util.spec_from_file_location("architecture", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["architecture"] = module  # dataclasses look for their module here
    spec.loader.exec_module(module)
    return module


architecture = _load()
