"""The attributor on made-up people: who, how sure, none of these; equal, plain and recomputed."""

import json

import numpy as np
import pytest
from scipy.special import log_softmax

from attribution.people import (
    NEW,
    NEW_AUTHORS,
    corpus,
    name,
    plain,
    quick,
    strangers,
    texts_by,
)
from whowrote.attribution import Attribution, Attributor, fitted_attributor
from whowrote.attribution.answers import Candidate
from whowrote.attribution.rows import MOST_PASSAGES, cut, cut_all, parts_of_long
from whowrote.corpus.texts import Corpus
from whowrote.progress import Stage, listening


@pytest.fixture(scope="module")
def answers(model: Attributor) -> list[Attribution]:
    return model.attribute(NEW)


# Who


def test_it_finds_the_author(model: Attributor, answers: list[Attribution]) -> None:
    assert [answer.best.author for answer in answers] == NEW_AUTHORS
    assert np.mean([answer.best.probability for answer in answers]) > 0.8
    held_out = model.fitted_.calibration.held_out
    assert (held_out.texts, held_out.right) == (40, 40)


def test_of_shuffled_names_nothing_is_learnt() -> None:
    """Negative control: names by lot, and the model knows that it knows little."""
    texts, authors = corpus(4, 10)
    lot = np.random.default_rng(0).permutation(authors).tolist()
    shuffled = Attributor("ngrams").fit(texts, lot)
    right = np.mean(shuffled.predict(NEW) == np.array(NEW_AUTHORS))
    assert right < 0.7
    assert shuffled.fitted_.calibration.held_out.right < 25
    assert np.mean([answer.best.probability for answer in shuffled.attribute(NEW)]) < 0.6


@pytest.mark.parametrize("features", ["hybrid", "dense"])
def test_the_neural_features_find_him_too(features: str, request: pytest.FixtureRequest) -> None:
    fitted: Attributor = request.getfixturevalue(features)
    new, authors = corpus(3, 3, seed=1)
    answers = fitted.attribute(new)
    assert np.mean([a.best.author == b for a, b in zip(answers, authors, strict=True)]) > 0.8
    assert fitted.fitted_.reader.contrasts is not None
    assert fitted.identity().features == {"hybrid": "hybrid", "dense": "adhominem"}[features]


def test_two_authors_are_enough() -> None:
    fitted = Attributor("ngrams").fit(*corpus(2, 4))
    new, authors = corpus(2, 4, seed=1)
    assert fitted.predict(new).tolist() == authors


def test_two_texts_of_each_are_enough() -> None:
    new, authors = corpus(3, 5, seed=1)
    right = [
        Attributor("ngrams", random_state=seed).fit(*corpus(3, 2)).predict(new) == np.array(authors)
        for seed in range(4)
    ]
    assert np.mean(right) > 0.9


def test_who_is_enrolled(model: Attributor) -> None:
    texts, _ = corpus(4, 10)
    assert model.classes_.tolist() == [name(author) for author in range(4)]
    first = model.authors_[0]
    words = sum(len(text.split()) for text in texts[:10])
    assert (first.name, first.texts, first.passages, first.words) == (name(0), 10, 10, words)


# How sure


def test_probabilities_and_ranking(answers: list[Attribution]) -> None:
    for answer in answers:
        listed = [one.probability for one in answer.ranking]
        assert sum(listed) == pytest.approx(1.0)
        assert listed == sorted(listed, reverse=True)
        assert {one.author for one in answer.ranking} == {name(author) for author in range(4)}
        assert answer.best is answer.ranking[0]
        assert answer.typicality == answer.best.typicality
        assert all(0.0 <= one.typicality <= 1.0 for one in answer.ranking)
        assert all(np.isfinite(one.log_density) for one in answer.ranking)


def test_the_true_author_is_more_usual_than_the_others(answers: list[Attribution]) -> None:
    for answer, true in zip(answers, NEW_AUTHORS, strict=True):
        best = max(answer.ranking, key=lambda one: one.typicality)
        assert best.author == true


def test_predictions_agree_with_the_records(model: Attributor, answers: list[Attribution]) -> None:
    proba, log_proba = model.predict_proba(NEW), model.predict_log_proba(NEW)
    np.testing.assert_allclose(np.exp(log_proba), proba)
    for row, answer in zip(proba, answers, strict=True):
        listed = {one.author: one.probability for one in answer.ranking}
        np.testing.assert_allclose(row, [listed[author] for author in model.classes_], atol=1e-6)
    assert model.predict(NEW).tolist() == [answer.best.author for answer in answers]


def test_the_other_texts_of_the_call_do_not_matter(
    model: Attributor, answers: list[Attribution]
) -> None:
    alone = model.attribute([NEW[3]])[0]
    assert alone.ranking[0].probability == pytest.approx(answers[3].best.probability, abs=1e-5)
    assert alone.typicality == pytest.approx(answers[3].typicality, abs=1e-4)


def test_long_texts_are_cut_and_the_record_says_how() -> None:
    """The probabilities follow by hand from what is in the record and the evidence."""
    fitted = quick(passage_words=40).fit(*corpus(3, 4))
    texts = [texts_by(0, 1, words=words, seed=2)[0] for words in (30, 120, 400)]
    answers, found = fitted.attribute(texts), fitted.evidence(texts)
    counts = [len(cut(text, 40)) for text in texts]
    assert counts[0] < counts[1] < counts[2]
    assert [answer.combination.passages for answer in answers] == counts
    for row, answer in enumerate(answers):
        how = answer.combination
        assert how.prior == "equal"
        pooled = found.log_likelihood[row] / (how.temperature * how.passages**how.exponent)
        by_hand = dict(zip(fitted.classes_, np.exp(log_softmax(pooled)), strict=True))
        for one in answer.ranking:
            assert one.probability == pytest.approx(by_hand[one.author], rel=1e-9)
    whole = quick(passage_words=500).fit(*corpus(3, 4))
    assert [answer.combination.passages for answer in whole.attribute(texts)] == [1, 1, 1]


def test_the_prior_may_be_that_of_the_training() -> None:
    texts, authors = corpus(3, 4)
    texts, authors = texts + texts_by(0, 8, seed=5), [*authors, *[name(0)] * 8]
    fitted = quick(prior="training").fit(texts, authors)
    new = [texts_by(1, 1, seed=2)[0]]
    how, found = fitted.attribute(new)[0].combination, fitted.evidence(new)
    assert how.prior == "training"
    pooled = np.log([12 / 20, 4 / 20, 4 / 20]) + found.log_likelihood[0] / how.temperature
    np.testing.assert_allclose(fitted.predict_log_proba(new)[0], log_softmax(pooled))
    even = quick().fit(texts, authors).predict_proba(new)[0]
    assert fitted.predict_proba(new)[0, 0] > even[0]


# None of these


def test_a_stranger_is_none_of_these(model: Attributor, answers: list[Attribution]) -> None:
    """Negative controls: new texts of the enrolled are named, and so is anyone who must be."""
    assert [answer.author for answer in model.attribute(strangers(5))] == [None] * 5
    named = [answer.author for answer in answers]
    assert np.mean([a == b for a, b in zip(named, NEW_AUTHORS, strict=True)]) > 0.8
    for answer in answers:
        assert answer.author == (
            answer.best.author if answer.typicality >= answer.none_below else None
        )


def test_without_limits_somebody_is_always_named() -> None:
    settings = {"none_below": 0.0, "false_attributions": 1.0}
    fitted = Attributor("ngrams", **settings).fit(*corpus(3, 6))
    for answer in fitted.attribute(strangers(5)):
        assert answer.author == answer.best.author
        assert answer.none_below == 0.0


# Repeatable


def test_a_seed_is_a_model() -> None:
    one, same, other = (quick(random_state=seed).fit(*corpus(3, 4)) for seed in (0, 0, 1))
    assert one.id_ == same.id_ != other.id_
    assert plain(one.attribute(NEW)) == plain(same.attribute(NEW))
    assert one.attribute(NEW[:1])[0].model.id == one.id_


def test_other_texts_are_another_model() -> None:
    texts, authors = corpus(3, 4)
    one, other = quick().fit(texts, authors), quick().fit([texts[0] + " and", *texts[1:]], authors)
    assert one.id_ != other.id_


# Records


def test_a_record_is_plain(answers: list[Attribution]) -> None:
    answer = answers[0]
    assert json.loads(answer.to_json()) == json.loads(json.dumps(answer.to_dict()))
    read = json.loads(answer.to_json())
    assert read["author"] == answer.author
    assert [one["author"] for one in read["ranking"]] == [one.author for one in answer.ranking]
    assert read["combination"]["passages"] == 1
    assert read["model"] == {**read["model"], "features": "ngrams", "authors": 4}
    assert "\n" not in answer.to_json()


def test_ids_and_hashes_are_those_of_the_corpus(model: Attributor) -> None:
    asked = Corpus.from_texts(NEW[:2], ids=["letter", "diary"])
    answers = model.attribute(asked)
    assert [answer.document for answer in answers] == ["letter", "diary"]
    assert [answer.sha256 for answer in answers] == list(asked.sha256)
    assert [answer.document for answer in model.attribute(NEW[:2])] == ["1", "2"]
    assert model.attribute([]) == []


def test_a_training_text_is_recognised(model: Attributor, answers: list[Attribution]) -> None:
    known = corpus(4, 10)[0][3]
    for text in (known, known.replace(" ", "\r\n", 1).replace("\r\n", " ")):
        assert any(
            "among the training texts" in said for said in model.attribute([text])[0].warnings
        )
    assert all(answer.warnings == () for answer in answers)
    assert model.attribute([known + " and"])[0].warnings == ()


def test_a_short_text_is_warned_of(model: Attributor) -> None:
    answer = model.attribute(["It was for them, and so on."])[0]
    assert answer.tokens == 9
    assert answer.warnings[0] == "only 9 tokens: an answer from fewer than 20 is mostly chance"
    long = model.attribute(["It was for them, and so on. " * 9])[0]
    assert not any("tokens" in warning for warning in long.warnings)


@pytest.mark.filterwarnings("error")
def test_odd_texts_have_an_answer(model: Attributor) -> None:
    for text in ("?", "\x00!", "中文", "\u200b\u200b!", "x" * 5000, "a\u0301 " * 40):
        answer = model.attribute([text])[0]
        assert sum(one.probability for one in answer.ranking) == pytest.approx(1.0)


# Corpora


def test_unknown_authors_are_left_out() -> None:
    texts, authors = corpus(3, 4)
    with_some = Corpus.from_texts([*texts, *strangers(3)], [*authors, None, None, None])
    fitted = quick().fit(with_some)
    assert len(fitted.fitted_.training.sha256) == 12
    expected = quick().fit(texts, authors)
    np.testing.assert_array_equal(fitted.predict_proba(NEW), expected.predict_proba(NEW))


def test_answers_depend_neither_on_order_nor_on_names() -> None:
    texts, authors = corpus(6, 4)
    order, new = np.random.default_rng(0).permutation(24), corpus(6, 2, seed=1)[0]
    model = Attributor("ngrams").fit(texts, authors)
    turned = Attributor("ngrams").fit([texts[i] for i in order], [authors[i] for i in order])
    assert plain(model.attribute(new)) == plain(turned.attribute(new))
    others = {known: f"{9 - row} {known}" for row, known in enumerate(sorted(set(authors)))}
    renamed = Attributor("ngrams").fit(texts, [others[one] for one in authors])
    columns = [renamed.classes_.tolist().index(others[one]) for one in model.classes_]
    found = renamed.predict_proba(new)[:, columns]
    np.testing.assert_allclose(found, model.predict_proba(new), atol=1e-6)


def test_the_order_of_training_texts_does_not_matter_to_names() -> None:
    texts, authors = corpus(3, 4)
    order = np.random.default_rng(0).permutation(12)
    fitted = quick().fit([texts[i] for i in order], [authors[i] for i in order])
    assert fitted.classes_.tolist() == [name(0), name(1), name(2)]
    assert np.mean(fitted.predict(NEW[:15]) == np.array(NEW_AUTHORS[:15])) > 0.8


def test_groups_are_held_out_whole() -> None:
    """Texts of the same words in one group are no witnesses for each other; apart they are."""
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(3000)]
    texts = [" ".join(rng.choice(words, 60)) for _ in range(12)]
    lot = [name(i % 3) for i in range(12)]
    authors = [one for one in lot for _ in range(3)]
    copies = []
    for text in texts:  # in another order each: copies word for word stay together by themselves
        triples = [" ".join(text.split()[low : low + 3]) for low in range(0, 60, 3)]
        copies += [" ".join(rng.permutation(triples)) for _ in range(3)]
    groups = [f"g{i}" for i in range(12) for _ in range(3)]
    together = quick().fit(Corpus.from_texts(copies, authors, groups=groups))
    apart = quick().fit(copies, authors)
    assert together.fitted_.calibration.held_out.right < 24
    assert apart.fitted_.calibration.held_out.right > 30


def test_whoever_listens_hears_of_the_work() -> None:
    heard: list[Stage] = []
    with listening(heard.append):
        fitted = quick().fit(*corpus(3, 4))
        fitted.attribute(NEW[:2])
    stages = [stage.name for stage in heard]
    for stage in ("contrasting the authors", "learning the authors", "attributing"):
        assert stage in stages


def test_close_candidates_are_undecided() -> None:
    def said(first: float) -> list[str]:
        ranking = [
            Candidate("Ann", first, 0.0, 0.5, 0.1),
            Candidate("Bob", 1 - first, 0.0, 0.5, -0.1),
        ]
        return list(fitted_attributor._remarks("", 100, set(), ranking))

    assert said(0.55) == ["undecided between Ann and Bob"]
    assert said(0.65) == []


# Strangers by rate


@pytest.fixture(scope="module")
def eight() -> Attributor:
    return Attributor("ngrams").fit(*corpus(8, 6))


def test_few_texts_are_answered_without_training(eight: Attributor) -> None:
    new, authors = corpus(8, 4, seed=1)
    assert np.mean(eight.predict(new) == np.array(authors)) > 0.9
    assert eight.fitted_.model.settings["start"] == "scores"
    assert eight.fitted_.reader.contrasts is not None
    assert set(eight.fitted_.reader.features.parts()) == {"written", "masked", "plain"}


def test_the_rate_of_strangers_decides(eight: Attributor) -> None:
    asked = strangers(6) + corpus(8, 1, seed=2)[0]
    shares = []
    for rate in (0.01, 0.05, 1.0):
        answers = eight.set_params(false_attributions=rate).attribute(asked)
        for answer in answers:
            assert answer.stranger is not None
            assert answer.author == (answer.best.author if answer.stranger <= rate else None)
            assert answer.false_attributions == rate
        shares.append(np.mean([answer.author is None for answer in answers]))
    eight.set_params(false_attributions=0.05)
    assert shares[0] >= shares[1] > shares[2] == 0.0
    assert [one.author for one in eight.attribute(strangers(6))] == [None] * 6


def test_the_length_of_passages_is_chosen_or_given() -> None:
    texts = [text for author in range(3) for text in texts_by(author, 3, words=900)]
    authors = [name(author) for author in range(3) for _ in range(3)]
    chosen = Attributor("ngrams").fit(texts, authors).fitted_.reader.words
    assert chosen in (300, 1000)
    given = Attributor("ngrams", passage_words=150).fit(texts, authors)
    assert given.fitted_.reader.words == 150
    assert given.authors_[0].passages == 18


def test_of_a_very_long_text_some_passages_are_read() -> None:
    found = cut_all(["word " * 50_000], 100)
    assert len(found.texts) == MOST_PASSAGES
    assert len(parts_of_long(cut_all(["word " * 50_000], 60_000)).texts) == 10
    assert parts_of_long(cut_all(["word " * 1000], 60_000)).texts == ()
