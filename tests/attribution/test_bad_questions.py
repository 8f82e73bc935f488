"""What is asked of an attributor in a wrong way, and what was found wrong once."""

from typing import Any, NoReturn

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from attribution.people import NEW, QUICK, corpus, plain, quick, texts_by
from contract import check_clone_and_params
from whowrote.attribution import Attribution, Attributor
from whowrote.corpus.texts import Corpus
from whowrote.errors import InputError
from whowrote.estimators import MixtureVAEClassifier
from whowrote.features import Hybrid, NGrams, SentenceEncoder
from whowrote.features.kinds import require_storable


@pytest.fixture(scope="module")
def answers(model: Attributor) -> list[Attribution]:
    return model.attribute(NEW)


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


def test_one_text_that_is_read_whole_is_one_row() -> None:
    """Before, the error named a class by its number, once everything had been learnt."""
    texts = [*NEW[:2], " ".join(texts_by(0, 5))]
    assert 450 < len(texts[-1].split()) < 1500
    with pytest.raises(InputError, match=r"author 'b' has one short text"):
        Attributor("ngrams").fit(texts, ["a", "a", "b"])


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
    unseeded = MixtureVAEClassifier(start="random", n_members=2, hidden=8, max_epochs=2)
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
