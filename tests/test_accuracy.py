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


def test_answers_are_counted_over_texts_and_over_authors(accuracy: ModuleType) -> None:
    truth = np.array(["a", "a", "a", "a", "b", "b", "x", "x"])
    named = np.array(["a", "a", "b", "", "b", "", "b", ""])
    found = accuracy.of_authors(named, truth, np.array(["a", "b", "c"]))
    assert found["micro precision"] == pytest.approx(3 / 5)  # one stranger was named
    assert found["micro recall"] == pytest.approx(3 / 6)
    assert found["micro F1"] == pytest.approx(6 / 11, abs=1e-4)
    assert found["macro precision"] == pytest.approx((1 + 1 / 3) / 2, abs=1e-4)
    assert found["macro recall"] == pytest.approx(1 / 2)
    # Negative control: naming the stranger nobody is better.
    named[6] = ""
    better = accuracy.of_authors(named, truth, np.array(["a", "b", "c"]))
    assert better["micro precision"] == pytest.approx(3 / 4)


def test_the_limit_with_the_best_f1_lets_the_right_answers_pass(accuracy: ModuleType) -> None:
    away = np.linspace(0, 1, 100)
    truth = np.where(away < 0.6, "a", "x")
    limit = accuracy._best_limit(np.full(100, "a"), away, truth, np.array(["a"]))
    assert limit == pytest.approx(0.6, abs=0.02)
