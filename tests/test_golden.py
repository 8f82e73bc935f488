"""What the code answered before its modules moved, it answers still; files of then can be opened.

``golden/make.py`` says how the answers and the files were made. Names, labels and counts must be
equal, other numbers to a millionth; on another kind of processor or with another torch, whose
rounding is another (measured: up to 4e-6 without vector instructions), to a fifty-thousandth.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_limits

from golden import cases
from golden.cases import CASES, CLASSIFIER, EXTRACTOR, HYBRID, NGRAMS, Plain, plain
from whowrote import Attributor, MixtureVAEClassifier, load

GOLDEN: Plain = json.loads(cases.ANSWERS.read_text(encoding="utf-8"))
STRICT, ELSEWHERE = 1e-6, 2e-5
ADDED = {"log10_lr", "ratio"}
"""Names of answers that were not there then."""
TOLERANCE = STRICT if GOLDEN.pop("machine") == cases.machine() else ELSEWHERE


@pytest.fixture(autouse=True, scope="module")
def as_then() -> Iterator[None]:
    """On one thread of the processor, as the answers were made."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch, threadpool_limits(1):
        patch.setattr(torch.cuda, "is_available", lambda: False)
        yield
    torch.set_num_threads(before)


def differences(found: Any, wanted: Any, tolerance: float, place: str = "") -> list[str]:
    """Where two plain values differ: numbers by more than the tolerance, all else at all."""
    pairs: dict[str, tuple[Any, Any]] = {}
    both_named = isinstance(wanted, dict) and isinstance(found, dict)
    if both_named and set(found) - ADDED == set(wanted) - ADDED:
        pairs = {f"{place}/{name}": (found.get(name), wanted[name]) for name in wanted}
    elif isinstance(wanted, list) and isinstance(found, list) and len(found) == len(wanted):
        both = enumerate(zip(found, wanted, strict=True))
        pairs = {f"{place}[{number}]": pair for number, pair in both}
    elif isinstance(wanted, float) and isinstance(found, float):
        if np.isclose(found, wanted, rtol=tolerance, atol=tolerance):
            return []
        return [f"{place}: {found!r} was {wanted!r}"]
    elif type(found) is not type(wanted) or found != wanted:
        return [f"{place}: {found!r} was {wanted!r}"]
    return [line for at, pair in pairs.items() for line in differences(*pair, tolerance, at)]


def assert_golden(found: Plain, name: str) -> None:
    lines = differences(plain(found), GOLDEN[name], TOLERANCE)
    assert not lines, f"{len(lines)} differences: " + "; ".join(lines[:5])


@pytest.fixture
def hybrid(tmp_path: Path) -> Path:
    """The folder with the packaged weights in it, which are too large to be kept twice."""
    folder = shutil.copytree(HYBRID, tmp_path / "hybrid")
    (weights,) = Path(str(files("whowrote"))).rglob("adhominem.safetensors")
    shutil.copyfile(weights, folder / EXTRACTOR)
    return folder


@pytest.fixture(params=["ngrams", "hybrid"])
def folder(request: pytest.FixtureRequest) -> Path:
    return NGRAMS if request.param == "ngrams" else request.getfixturevalue("hybrid")


@pytest.mark.parametrize("name", CASES)
def test_the_answers_are_those_of_before(name: str) -> None:
    assert_golden(CASES[name](), name)


def test_every_golden_answer_is_asked_for() -> None:
    assert set(GOLDEN) == {*CASES, "saved classifier", "saved ngrams", "saved hybrid"}


def test_a_classifier_of_before_can_be_opened() -> None:
    X, _ = cases.blobs()
    model = MixtureVAEClassifier.load(CLASSIFIER)
    assert_golden(cases.classified(model, X), "saved classifier")


def test_an_attributor_of_before_can_be_opened(folder: Path) -> None:
    model = Attributor.load(folder)
    assert_golden({**cases.answered(model), "id": model.id_}, f"saved {folder.name}")


def test_the_command_answers_from_a_folder_of_before(folder: Path, tmp_path: Path) -> None:
    asked = cases.texts()["asked"]
    for one in asked:
        (tmp_path / f"{one['id']}.txt").write_text(one["text"], encoding="utf-8")
    names = [str(tmp_path / f"{one['id']}.txt") for one in asked]
    done = subprocess.run(
        [sys.executable, "-m", "whowrote", "attribute", str(folder), *names, "--json", "--quiet"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    wanted = copy.deepcopy(GOLDEN[f"saved {folder.name}"])
    for one in found:
        assert one["model"].pop("id") == wanted["id"]
        del one["model"]["version"], one["document"]
    for one in wanted["attribute"]:
        del one["document"]
    assert differences(plain(found), wanted["attribute"], TOLERANCE) == []


def test_texts_read_from_files_are_those_in_memory(tmp_path: Path) -> None:
    for one in cases.texts()["asked"]:
        place = tmp_path / one["author"]
        place.mkdir()
        (place / f"{one['id']}.txt").write_text(one["text"], encoding="utf-8")
    read = load(tmp_path)
    wanted = {one["sha256"] for one in GOLDEN["saved ngrams"]["attribute"]}
    assert set(read.sha256) == wanted
    assert set(read.authors) == set(cases.authors("asked"))


# Negative controls: what must be noticed is noticed.


def spoilt(value: Any, change: Callable[[Any], Any]) -> Iterator[Any]:
    """Copies of a plain value, in each of which one leaf is changed."""
    if isinstance(value, dict):
        yield from ({**value, k: one} for k in value for one in spoilt(value[k], change))
    elif isinstance(value, list):
        for i, own in enumerate(value):
            yield from ([*value[:i], one, *value[i + 1 :]] for one in spoilt(own, change))
    elif (changed := change(value)) is not None:
        yield changed


def moved(value: Any) -> Any:
    return value + 1e-4 if isinstance(value, float) and np.isfinite(value) else None


def renamed(value: Any) -> Any:
    if isinstance(value, str):
        return f"{value}x"
    return value + 1 if type(value) is int else None


@pytest.mark.parametrize("change", [moved, renamed])
@pytest.mark.parametrize("name", ["student_t", "attributor_n_grams"])
def test_every_perturbed_value_is_noticed(name: str, change: Callable[[Any], Any]) -> None:
    wanted = GOLDEN[name]
    changed = list(spoilt(wanted, change))
    assert len(changed) > 10
    for one in changed:
        assert len(differences(one, wanted, STRICT)) == 1


def test_what_is_missing_or_too_much_is_noticed() -> None:
    wanted = GOLDEN["student_t"]
    fewer = {name: value for name, value in wanted.items() if name != "bound"}
    changed = [fewer, {**wanted, "more": 1.0}]
    changed += [{**wanted, "bound": one} for one in (wanted["bound"][:-1], None, [np.nan] * 6)]
    for one in changed:
        assert differences(one, wanted, STRICT)


def test_rounding_is_not_noticed() -> None:
    wanted = GOLDEN["student_t"]
    near = {**wanted, "bound": [one * (1 + 5e-7) for one in wanted["bound"]]}
    assert differences(near, wanted, STRICT) == []
