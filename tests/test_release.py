"""What is installed is what was looked at: archives by their SHA-256."""

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

HOME = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def check() -> ModuleType:
    described = importlib.util.spec_from_file_location("check", HOME / "release" / "check.py")
    assert described is not None
    assert described.loader is not None
    module = importlib.util.module_from_spec(described)
    described.loader.exec_module(module)
    return module


def report(path: Path, name: str, digest: str) -> Path:
    told = {"url": f"https://an.index/a/{name}", "archive_info": {"hashes": {"sha256": digest}}}
    one = {"metadata": {"name": name.split("-")[0]}, "download_info": told}
    path.write_text(json.dumps({"install": [one]}))
    return path


def test_an_archive_with_another_hash_is_refused(check: ModuleType, tmp_path: Path) -> None:
    name, digest = next(iter(check.listed().items()))
    said = check.compared(report(tmp_path / "a.json", name, digest))
    assert said == "hashes: 1 archives as listed"
    with pytest.raises(SystemExit, match="has another SHA-256"):
        check.compared(report(tmp_path / "b.json", name, "0" * 64))
    said = check.compared(report(tmp_path / "c.json", "else-1.0.whl", "0" * 64))
    assert said == "hashes: 0 archives as listed, 1 not listed (else-1.0.whl, ...)"


def test_every_pinned_version_is_listed(check: ModuleType) -> None:
    """Whoever moves a pin lists its archive; names of hosts are no part of the list."""
    names = set(check.listed())
    stems = {re.sub(r"[-_.]+", "-", one).lower() for one in names}
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in check.listed().values())
    assert not [one for one in names if "/" in one or "://" in one]
    pinned = [
        line.strip().split("==")
        for line in (HOME / "constraints.txt").read_text().splitlines()
        if "==" in line and not line.startswith("#")
    ]
    missing = [
        f"{name} {version}"
        for name, version in pinned
        if not any(
            one.startswith(re.sub(r"[-_.]+", "-", f"{name}-{version}").lower()) for one in stems
        )
    ]
    assert missing == [f"ray {version}" for name, version in pinned if name == "ray"]
