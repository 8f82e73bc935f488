"""The attributor on made-up people: who, how sure, none of these; equal, plain and recomputed."""

import json
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.exceptions import NotFittedError
from whowrote.features.kinds import require_storable

from attribution.people import corpus, name, strangers, texts_by
from contract import check_clone_and_params
from whowrote.attribution import fitted_attributor
from whowrote.attribution import Attribution, Attributor
from whowrote.attribution.answers import Candidate
from whowrote.attribution.rows import cut
from whowrote.corpus.texts import Corpus
from whowrote.errors import InputError
from whowrote.estimators import MixtureVAEClassifier
from whowrote.features import Hybrid, NGrams, SentenceEncoder
from whowrote.progress import Stage, listening

NEW, NEW_AUTHORS = corpus(4, 5, seed=1)
QUICK = MixtureVAEClassifier(n_members=2, hidden=8, max_epochs=3, random_state=0)


def quick(**settings: Any) -> Attributor:
    return Attributor("ngrams", QUICK, **settings)


def plain(answers: list[Attribution]) -> list[dict[str, Any]]:
    return [answer.to_dict() for answer in answers]


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
    assert (fitted.fitted_.reader.contrasts is None) == (features == "dense")
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


def test_at_none_below_0_somebody_is_always_named() -> None:
    fitted = Attributor("ngrams", none_below=0.0).fit(*corpus(3, 6))
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


def test_the_order_of_training_texts_does_not_matter_to_names() -> None:
    texts, authors = corpus(3, 4)
    order = np.random.default_rng(0).permutation(12)
    fitted = quick().fit([texts[i] for i in order], [authors[i] for i in order])
    assert fitted.classes_.tolist() == [name(0), name(1), name(2)]
    assert np.mean(fitted.predict(NEW[:15]) == np.array(NEW_AUTHORS[:15])) > 0.8


def test_groups_are_held_out_whole() -> None:
    """Copies of one text in one group are no witnesses for each other; apart they are."""
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(3000)]
    texts = [" ".join(rng.choice(words, 60)) for _ in range(12)]
    lot = [name(i % 3) for i in range(12)]
    copies, authors = [text for text in texts for _ in range(3)], [a for a in lot for _ in range(3)]
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


# Verification, loosely


def test_verification_tells_one_author_from_two(model: Attributor) -> None:
    same = [model.verify(*texts_by(author, 2, seed=3)) for author in range(4)]
    two = [
        model.verify(texts_by(author, 1, seed=3)[0], texts_by((author + 1) % 4, 1, seed=4)[0])
        for author in range(4)
    ]
    assert min(v.log10_lr for v in same) > max(v.log10_lr for v in two)
    for verdict in same + two:
        odds = 10**verdict.log10_lr
        assert verdict.probability == pytest.approx(odds / (1 + odds), rel=1e-6)
        assert json.loads(json.dumps(verdict.to_dict()))["log10_lr"] == verdict.log10_lr


def test_a_ratio_claims_no_more_than_the_pairs_have_shown(model: Attributor) -> None:
    curve = model.fitted_.verifier
    assert curve is not None
    text = texts_by(1, 1, seed=3)[0]
    free = replace(curve, bias=curve.bias + 50.0)
    read = model.fitted_.reader.read([text, text])
    bounded = free.verdict(read, model.fitted_.reader.features.blocks())
    assert bounded.limited
    assert 10**bounded.log10_lr == pytest.approx(1 + curve.pairs / 2)
    many = replace(free, pairs=10**40).verdict(read, model.fitted_.reader.features.blocks())
    assert not many.limited
    assert many.log10_lr > bounded.log10_lr + 5


def test_verification_warns_of_what_proves_nothing(model: Attributor) -> None:
    text = texts_by(1, 1, seed=3)[0]
    assert model.verify(text, texts_by(2, 1, seed=3)[0]).warnings == ()
    few, same = model.verify("so few words", text).warnings, model.verify(text, text).warnings
    assert few == ("only 3 tokens: an answer from fewer than 20 is mostly chance",)
    assert same == ("both texts are the same: their likeness proves nothing",)


def test_close_candidates_are_undecided() -> None:
    def said(first: float) -> list[str]:
        ranking = [Candidate("Ann", first, 0.0, 0.5), Candidate("Bob", 1 - first, 0.0, 0.5)]
        return list(fitted_attributor._remarks("", 100, set(), ranking))

    assert said(0.55) == ["undecided between Ann and Bob"]
    assert said(0.65) == []


# Scikit-learn, and errors


def test_settings_are_scikit_learns() -> None:
    check_clone_and_params(lambda: Attributor("ngrams", none_below=0.1))


def test_nothing_is_known_before_fit() -> None:
    for ask in ("attribute", "predict_log_proba", "predict_proba", "evidence"):
        with pytest.raises(NotFittedError):
            getattr(Attributor("ngrams"), ask)(NEW)
    with pytest.raises(NotFittedError):
        Attributor("ngrams").verify(*NEW[:2])
    with pytest.raises(NotFittedError):
        Attributor("ngrams").identity()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"passage_words": 19}, r"passage_words is 19; it must be an integer of at least 20"),
        ({"passage_words": np.nan}, r"passage_words is nan"),
        ({"none_below": -0.1}, r"none_below is -0\.1; it must be at least 0 and below 1.*0\.02"),
        ({"none_below": 1.0}, r"none_below is 1\.0.*or 0 to always name somebody"),
        ({"none_below": np.nan}, r"none_below is nan"),
        ({"prior": "even"}, r"prior is 'even'; it must be one of equal, training"),
        ({"features": "n-grams"}, r"features is 'n-grams'; it must be one of .*ngrams"),
        (
            {"model": MixtureVAEClassifier()},
            r"the model's n_members is 1; it must be at least 2.*give 5",
        ),
    ],
)
def test_bad_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Attributor(**{"features": "ngrams", **settings}).fit(*corpus(2, 3))


@pytest.mark.parametrize(
    ("texts", "authors", "message"),
    [
        (NEW[0], ["a"], r"texts is one string"),
        (NEW[:4], ["a"] * 4, r"1 known author \('a'\) and attribution needs at least 2"),
        (NEW[:4], None, r"0 known authors"),
        (NEW[:4], ["a", "b"], r"authors has 2 entries for 4 texts"),
        (NEW[:3], ["a", "a", "b"], r"author 'b' has one short text.*add texts, or leave"),
        ([*NEW[:3], " "], ["a", "a", "b", "b"], r"text 4 is empty"),
        (Corpus.from_texts(NEW[:4]), ["a"] * 4, r"a Corpus has its authors"),
    ],
)
def test_bad_corpora(texts: Any, authors: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        quick().fit(texts, authors)


def test_bad_questions(model: Attributor) -> None:
    with pytest.raises(InputError, match=r"texts is one string"):
        model.attribute(NEW[0])
    with pytest.raises(InputError, match=r"text 2 is empty"):
        model.attribute([NEW[0], " \n"])
    with pytest.raises(InputError, match=r"text 2 is empty"):
        model.predict([NEW[0], " \n"])
    with pytest.raises(InputError, match=r"too few pairs of texts by one author"):
        quick(passage_words=40).fit([" ".join(texts_by(a, 3)) for a in (0, 1)], ["a", "b"]).verify(
            *NEW[:2]
        )


class Mine(NGrams):
    """A feature set of a user's own, which must not be asked to learn in vain."""

    def fit(self, X: Any, y: Any = None) -> NoReturn:
        raise AssertionError("learning has begun")

    encode = fit_transform = fit


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (Mine(), r"type Mine, which a model folder cannot hold; use one of AdHominem, NGrams"),
        (Hybrid(dense=Mine()), r"type Mine, which a model folder cannot hold; use one"),
        (Hybrid(ngrams=Mine()), r"type Mine, which a model folder cannot hold; use one"),
        (SentenceEncoder(Mine()), r"given as an object.*give its name or folder instead"),
        (Hybrid(SentenceEncoder(Mine())), r"given as an object.*give its name or folder instead"),
    ],
)
def test_features_that_cannot_be_saved_are_refused_at_once(features: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Attributor(features, QUICK).fit(*corpus(2, 3))
    require_storable(Hybrid(SentenceEncoder("name")))  # negative control


# What was found wrong once


def test_nothing_is_predicted_before_fit() -> None:
    with pytest.raises(NotFittedError):
        Attributor("ngrams").predict(NEW)


def test_one_text_is_not_a_list_of_letters(model: Attributor) -> None:
    with pytest.raises(InputError, match="it must be a list of texts"):
        model.predict("Abc")


def test_line_ends_and_accents_are_the_same_to_both(model: Attributor) -> None:
    text = NEW[0].replace(" ", "\r\n").replace("e", "e\u0301")
    answer = model.attribute([text])[0]
    assert model.predict_proba([text]).max() == pytest.approx(answer.best.probability, abs=1e-6)


def test_settings_from_a_grid(tmp_path: Any) -> None:
    fitted = quick(passage_words=np.int64(40), random_state=np.int64(1)).fit(*corpus(2, 3))
    fitted.save(tmp_path / "model")


@pytest.mark.parametrize(
    "settings",
    [
        {"passage_words": "300"},
        {"none_below": "0.1"},
        {"random_state": "x"},
        {"random_state": -1},
        {"features": None},
        {"features": NGrams},
        {"model": "svm"},
    ],
)
def test_settings_of_a_wrong_type(settings: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(settings))):
        Attributor(**{"features": "ngrams", **settings}).fit(*corpus(2, 3))


def test_a_failed_fit_leaves_the_model_as_it_was() -> None:
    fitted = quick().fit(*corpus(3, 4))
    before = plain(fitted.attribute(NEW[:2]))
    with pytest.raises(InputError, match="one short text"):
        fitted.fit(NEW[:3], ["x", "x", "y"])
    assert plain(fitted.attribute(NEW[:2])) == before


def test_the_seed_counts_for_a_given_model() -> None:
    unseeded = MixtureVAEClassifier(n_members=2, hidden=8, max_epochs=2)
    one, two = (Attributor("ngrams", unseeded).fit(*corpus(2, 3)) for _ in range(2))
    assert one.id_ == two.id_


def test_another_limit_is_the_same_model_and_is_said() -> None:
    fitted = quick().fit(*corpus(2, 3))
    before = fitted.identity().id
    answer = fitted.set_params(none_below=0.5).attribute(NEW[:1])[0]
    assert (answer.model.id, answer.none_below) == (before, 0.5)


def test_names_may_be_numbers() -> None:
    texts, _ = corpus(2, 3)
    fitted = quick().fit(texts, [1, 1, 1, 2, 2, 2])  # type: ignore[list-item]
    assert fitted.predict(texts[:1]).tolist() in (["1"], [1])


def test_typicality_of_own_new_texts_is_uniform(model: Attributor) -> None:
    """So a limit of 0.05 sends away one in twenty of them, and not one in thousands."""
    new, authors = corpus(4, 25, seed=6)
    own = [
        next(one.typicality for one in answer.ranking if one.author == true)
        for answer, true in zip(model.attribute(new), authors, strict=True)
    ]
    assert 0.3 < np.median(own) < 0.7
