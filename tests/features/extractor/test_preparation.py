"""From files to flat arrays and back."""

from pathlib import Path

import numpy as np
import pytest

from features.made_up import texts_by, write_corpus
from whowrote.errors import InputError
from whowrote.features.extractor import preparation
from whowrote.features.extractor.preparation import (
    Prepared,
    limit_authors,
    load_or_prepare,
    number,
    part_of,
    prepare,
    read_domain,
)
from whowrote.features.vocabulary import VocabularySettings, split


@pytest.fixture
def corpora(tmp_path: Path) -> dict[str, Path]:
    return {
        "one": write_corpus(tmp_path / "one.csv", range(30)),
        "two": write_corpus(tmp_path / "two.csv", range(100, 120), count=3),
    }


def spelled(prepared: Prepared, document: int) -> list[int]:
    low, high = prepared.offsets[document : document + 2]
    return prepared.types.words[prepared.tokens[low:high]].tolist()


def test_documents_come_back_token_by_token(corpora: dict[str, Path]) -> None:
    domains = [read_domain(name, path) for name, path in corpora.items()]
    prepared = prepare(domains, VocabularySettings(n_words=30))
    texts = [text for domain in domains for text in domain.texts]
    assert len(prepared) == len(texts) == 30 * 4 + 20 * 3
    for row in (0, 57, len(texts) - 1):
        expected = [prepared.vocabulary.word_id(token) for token in split(texts[row])]
        assert spelled(prepared, row) == expected
    assert prepared.domains == ("one", "two")
    assert (np.diff(prepared.authors) >= 0).all()


def test_several_processes_give_what_one_gives(
    corpora: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparation, "DOCUMENTS_PER_TASK", 7)
    domains = [read_domain(name, path) for name, path in corpora.items()]
    alone, together = (prepare(domains, VocabularySettings(), workers) for workers in (1, 2))
    assert alone.vocabulary == together.vocabulary
    assert (alone.tokens == together.tokens).all()
    assert (alone.types.characters == together.types.characters).all()


def test_the_cache_is_used_and_knows_its_inputs(corpora: dict[str, Path], tmp_path: Path) -> None:
    cache, settings = tmp_path / "cache", VocabularySettings()
    first = load_or_prepare(corpora, settings, cache, workers=1)
    again = load_or_prepare(corpora, settings, cache, workers=1)
    assert len(list(cache.iterdir())) == 1
    assert again.vocabulary == first.vocabulary
    assert (again.tokens == first.tokens).all()
    write_corpus(corpora["one"], range(31))
    load_or_prepare(corpora, settings, cache, workers=1)
    load_or_prepare(corpora, VocabularySettings(mask_rare=False), cache, workers=1)
    assert len(list(cache.iterdir())) == 3


def test_authors_keep_their_side_of_the_split_and_sides_are_disjoint() -> None:
    sides = [part_of("one", str(i)) for i in range(4000)]
    shares = np.bincount(sides) / len(sides)
    assert np.allclose(shares, [0.9, 0.05, 0.05], atol=0.02)
    assert sides == [part_of("one", str(i)) for i in range(4000)]
    assert sides != [part_of("two", str(i)) for i in range(4000)]


def test_texts_are_numbered_alike_for_training_and_for_use(corpora: dict[str, Path]) -> None:
    domain = read_domain("one", corpora["one"])
    prepared = prepare([domain], VocabularySettings(n_words=15))
    numbered = number(domain.texts, prepared.vocabulary)
    for a, b in ((prepared.types.words, numbered.types.words),):
        assert (a[prepared.tokens] == b[numbered.tokens]).all()
    left = prepared.types.characters[prepared.tokens]
    assert (left == numbered.types.characters[numbered.tokens]).all()


def test_empty_texts_become_one_unknown_token(corpora: dict[str, Path]) -> None:
    prepared = prepare([read_domain("one", corpora["one"])], VocabularySettings())
    numbered = number(["", texts_by(0, 1)[0], " "], prepared.vocabulary)
    assert numbered.lengths.tolist()[::2] == [1, 1]
    assert len(number([], prepared.vocabulary).tokens) == 0


def test_fewer_authors_on_demand(corpora: dict[str, Path]) -> None:
    prepared = load_or_prepare(corpora, VocabularySettings(), corpora["one"].parent, workers=1)
    fewer = limit_authors(prepared, {"one": 5})
    ones = prepared.domain_of == 0
    assert (fewer.part[ones] == 0).sum() == 5
    assert (fewer.part[~ones] == prepared.part[~ones]).all()
    assert (fewer.part == 1).sum() == (prepared.part == 1).sum()
    with pytest.raises(InputError, match=r"max_authors names 'three'.*\['one', 'two'\]"):
        limit_authors(prepared, {"three": 5})


def test_bad_corpora(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\[corpora\] is empty"):
        load_or_prepare({}, VocabularySettings(), tmp_path)
    with pytest.raises(InputError, match=r"corpus 'x' is not there"):
        load_or_prepare({"x": tmp_path / "no.csv"}, VocabularySettings(), tmp_path)
    lone = write_corpus(tmp_path / "lone.csv", range(1))
    with pytest.raises(InputError, match=r"has 1 authors with at least 2 texts"):
        read_domain("lone", lone)
