"""The word table counts authors, and rare words reach the network by shape."""

import numpy as np
import pytest

from whowrote.errors import InputError
from whowrote.features.extractor.preparation import Domain, prepare
from whowrote.features.vocabulary import (
    UNKNOWN_WORD,
    Vocabulary,
    VocabularySettings,
    choose,
    shape,
)


@pytest.mark.parametrize(
    ("token", "suffix", "expected"),
    [
        ("Kierkegaard", 0, "Xxxxx"),
        ("Kierkegaard", 3, "Xxxxxard"),
        ("NASA", 0, "XXXX"),
        ("iPhone7", 2, "xXxxne9"),
        ("2004", 2, "9999"),
        ("20041", 2, "9999"),
        ("well-known", 2, "xxll-xxxwn"),
        ("?!", 2, "?!"),
        ("--------", 0, "----"),
        ("👍🏽", 0, "👍🏽"),
        ("東京", 0, "xx"),
    ],
)
def test_shapes(token: str, suffix: int, expected: str) -> None:
    assert shape(token, suffix) == expected


def domain(texts_of: dict[int, list[str]], name: str = "one") -> Domain:
    texts = [text for own in texts_of.values() for text in own]
    authors = np.repeat(np.arange(len(texts_of)), [len(own) for own in texts_of.values()])
    return Domain(name, texts, authors, np.zeros(len(texts_of), dtype=np.int64))


def test_a_word_of_many_authors_beats_the_favourite_word_of_one() -> None:
    texts = {a: [f"shared thing{chr(97 + a)} " * 2, "x"] for a in range(4)}
    texts[0].append("whale " * 500)
    prepared = prepare([domain(texts)], VocabularySettings(n_words=2))
    assert prepared.vocabulary.words == ("x", "shared")[::-1] or set(prepared.vocabulary.words) == {
        "x",
        "shared",
    }


def test_held_out_authors_do_not_choose_the_words() -> None:
    one = domain({0: ["alpha"], 1: ["alpha"], 2: ["omega"], 3: ["omega"]})
    held = Domain(one.name, one.texts, one.authors, np.array([0, 0, 1, 2]))
    assert prepare([held], VocabularySettings(n_words=5)).vocabulary.words == ("alpha",)


def test_small_domains_count_as_much_as_large_ones() -> None:
    large = domain({a: ["hotel"] for a in range(50)})
    small = domain({0: ["patch"], 1: ["patch", "fix"]}, "two")
    words = prepare([large, small], VocabularySettings(n_words=2)).vocabulary.words
    assert set(words) == {"hotel", "patch"}


def test_masked_words_of_one_shape_are_one_type_and_spelled_ones_are_not() -> None:
    vocabulary = Vocabulary(("the",), tuple("abcdefghijklmnopqrstuvwxyzX"), True, 0)
    spelled = Vocabulary(vocabulary.words, vocabulary.characters, False, 0)
    masked = vocabulary.types(["London", "Berlin"])
    assert (masked.characters[2] == masked.characters[3]).all()
    assert (masked.words[2:] == UNKNOWN_WORD).all()
    written = spelled.types(["London", "Berlin"]).characters
    assert (written[2] != written[3]).any()


def test_numbers_never_enter_the_table_of_a_masking_vocabulary() -> None:
    counts = np.array([5, 4])
    masking = choose(["1999", "the"], counts / 5, counts, VocabularySettings())
    assert masking.words == ("the",)
    spelled = choose(["1999", "the"], counts / 5, counts, VocabularySettings(mask_rare=False))
    assert spelled.words == ("1999", "the")


def test_bad_sizes() -> None:
    with pytest.raises(InputError, match=r"n_words is 0.*at least 1.*give 5000"):
        VocabularySettings(n_words=0)
