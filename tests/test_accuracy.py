"""The benchmark of accuracy in its small form: every method, on people made up."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

from attribution.people import corpus

PATH = Path(__file__).parents[1] / "benchmarks" / "accuracy.py"


@pytest.fixture(scope="module")
def accuracy() -> ModuleType:
    spec = importlib.util.spec_from_file_location("accuracy_benchmark", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    texts, authors = corpus(6, 12)
    return pd.DataFrame({"author": authors, "text": texts})


def test_every_method_is_above_chance_and_below_it_by_shuffled_authors(
    accuracy: ModuleType, table: pd.DataFrame
) -> None:
    case = accuracy.draw(table, 6, seed=1)
    assert sorted(np.bincount(case.codes)) == [6] * 6
    assert not set(case.texts) & set(case.asked)
    shuffled = np.random.default_rng(0).permutation(case.codes)
    wrong = accuracy.Draw(case.texts, shuffled, case.asked, case.truth)
    for name, ask in accuracy.METHODS.items():
        right = (ask(case).argmax(axis=1) == case.truth).mean()
        by_chance = (ask(wrong).argmax(axis=1) == case.truth).mean()
        assert right > 0.6 > by_chance, name


def test_a_cell_has_all_methods_and_a_table(accuracy: ModuleType, table: pd.DataFrame) -> None:
    record = accuracy.closed(accuracy.draw(table, 6, seed=1))
    assert set(record) == {*accuracy.METHODS, "whowrote"}
    assert record["whowrote"]["error"] < 0.4
    before = {name: record[name] for name in ("n-gram SVM", "whowrote")}  # of an older benchmark
    shown = accuracy.table({"made_up/closed/6/0": before, "made_up/closed/6/1": record})
    assert "General Impostors: error" in shown
    assert "2 draws" in shown
