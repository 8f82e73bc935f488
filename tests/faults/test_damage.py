"""A bit turned or an end cut off, in any file of a model folder, is a sentence: the short form."""

from pathlib import Path

import pytest

from faults.damage import Found, answer, cut, edit, flip, look, small_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_model(tmp_path_factory.mktemp("models") / "model")


def test_a_turned_bit_is_a_sentence(folder: Path) -> None:
    found = Found()
    flip(folder, 100, 0, found)
    assert found.wrong == []
    assert sum(found.refused.values()) == 100


def test_a_cut_end_is_a_sentence(folder: Path) -> None:
    found = Found()
    cut(folder, 16_384, found)
    assert found.wrong == []
    assert set(found.refused) == {path.name for path in folder.iterdir()}


def test_a_strange_value_is_an_answer_or_a_sentence(folder: Path) -> None:
    """By whoever knows how the manifest is hashed."""
    found = Found()
    edit(folder, 60, 0, found)
    assert found.wrong == []
    assert found.refused.total() > 30


def test_the_search_finds_what_it_looks_for(folder: Path) -> None:
    """Negative control: the whole folder gives the answer, and another answer is noticed."""
    found, name = Found(), "model.safetensors"
    data = (folder / name).read_bytes()
    look(folder, name, data, "untouched", answer(folder), found)
    assert (found.same[name], found.wrong) == (1, [])
    look(folder, name, data, "untouched", "something else", found)
    assert found.wrong == ["untouched: another answer"]
