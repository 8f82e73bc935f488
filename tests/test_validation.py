"""Ratios and answers at a given length, for people who were left out."""

import numpy as np
import pytest

from attribution.people import corpus as people
from whowrote import Corpus
from whowrote.attribution import Attributor
from whowrote.errors import InputError
from whowrote.metrics import Interval
from whowrote.validation import (
    HeldOutPeople,
    answers_at,
    first_words,
    shortest_informative,
    strangers_refused,
    usable_length,
)


@pytest.fixture(scope="module")
def twelve() -> Corpus:
    return Corpus.from_texts(*people(12, 6))


def test_ratios_of_people_left_out_tell_them_apart(twelve: Corpus) -> None:
    asked = HeldOutPeople(twelve, "ngrams")
    whole, short = asked.at(100), asked.at(25)
    assert whole is not None
    assert short is not None
    assert whole.quality.cllr_min <= whole.quality.cllr < 1
    assert whole.quality.auc > 0.8
    assert whole.interval.low <= whole.quality.cllr <= whole.interval.high
    assert np.isfinite(whole.log10_lr).all()
    assert asked.at(100) == whole  # the same seed, the same answer
    assert asked.at(500) is None  # no text is so long


def test_ratios_of_shuffled_authors_tell_nothing(twelve: Corpus) -> None:
    names = np.random.default_rng(0).permutation(np.array(twelve.authors)).tolist()
    found = HeldOutPeople(Corpus.from_texts(twelve.texts, names), "ngrams").at(100)
    assert found is not None
    assert abs(found.quality.auc - 0.5) < 0.2
    assert not found.informative


def test_a_person_in_one_group_has_no_held_out_text() -> None:
    texts, authors = people(3, 4)
    with pytest.raises(InputError, match="0 people have two or more texts in different groups"):
        HeldOutPeople(Corpus.from_texts(texts, authors, groups=authors), "ngrams")


def test_answers_get_worse_with_fewer_words(twelve: Corpus) -> None:
    long, short = answers_at(twelve, Attributor("ngrams"), [100, 10])
    assert (long.texts, short.texts) == (72, 72)
    assert long.error < short.error
    assert 0 <= short.coverage <= 1


def test_strangers_are_refused_and_others_kept(twelve: Corpus) -> None:
    found = strangers_refused(twelve, Attributor("ngrams"))
    assert found.strangers == 72
    assert found.refused > 0.6
    assert found.kept > 0.5
    everybody = strangers_refused(twelve, Attributor("ngrams", false_attributions=1.0))
    assert everybody.refused == 0
    assert everybody.kept >= found.kept


def test_the_floor_needs_every_longer_length(twelve: Corpus) -> None:
    from dataclasses import replace

    one = HeldOutPeople(twelve, "ngrams").at(100)
    assert one is not None
    good, bad = Interval(0.1, 0.5), Interval(0.9, 1.2)
    rows = [replace(one, words=w, interval=i) for w, i in ((25, good), (50, bad), (100, good))]
    assert shortest_informative(rows) == 100
    assert shortest_informative(rows[:1]) == 25
    assert shortest_informative(rows[:2]) is None


def test_lengths(twelve: Corpus) -> None:
    assert usable_length(twelve, 5000) == 100
    assert usable_length(twelve, 30) == 25
    assert len(first_words(twelve.texts[0], 50, 1.0).split()) == 50
    assert twelve.texts[0].endswith(first_words(twelve.texts[0], 50, 1.0))
