"""Cross-validation: folds, methods and figures."""

from dataclasses import replace

import numpy as np
import pytest

from attribution.people import corpus
from whowrote import Attributor, Corpus
from whowrote.errors import InputError
from whowrote.evaluation import BASELINES, CrossValidation, cross_validate


@pytest.fixture(scope="module")
def found() -> CrossValidation:
    texts, authors = corpus(3, 8)
    known = Corpus.from_texts(texts, authors)
    return cross_validate(known, Attributor("ngrams"), baselines=["ngram-svm"], n_folds=4)


def test_every_text_is_answered_once_by_every_method(found: CrossValidation) -> None:
    assert [method.name for method in found.methods] == ["whowrote", "ngram-svm"]
    for method in found.methods:
        assert method.evaluation.n == found.texts == 24
        assert len(method.right) == len(method.confidence) == 24
        assert np.mean(method.right) == pytest.approx(1 - method.evaluation.error)
        assert sum(one.n for one in method.by_length) == 24


def test_it_knows_these_people(found: CrossValidation) -> None:
    assert found.methods[0].evaluation.error < 0.2
    assert found.methods[0].none_share is not None
    assert found.methods[1].none_share is None


def test_shuffled_names_are_not_known() -> None:
    """Negative control: nothing is learnt where there is nothing to learn."""
    texts, authors = corpus(3, 8)
    mixed = np.random.default_rng(0).permutation(authors).tolist()
    known = Corpus.from_texts(texts, mixed)
    assert cross_validate(known, Attributor("ngrams"), n_folds=4).methods[0].evaluation.error > 0.4


def test_groups_stay_whole_and_few_texts_lower_the_folds() -> None:
    texts, authors = corpus(2, 6)
    groups = [str(number // 2) for number in range(12)]
    known = Corpus.from_texts(texts, authors, groups=groups)
    assert cross_validate(known, Attributor("ngrams")).n_folds == 3


def test_every_baseline_answers_for_the_same_texts() -> None:
    texts, authors = corpus(2, 6)
    known = Corpus.from_texts(texts, authors)
    found = cross_validate(known, Attributor("ngrams"), baselines=list(BASELINES), n_folds=2)
    assert [method.name for method in found.methods] == ["whowrote", *BASELINES]
    assert {"gaussian", "student-t"} < set(BASELINES)
    for method in found.methods[1:]:
        assert method.evaluation.n == 12
        assert np.isfinite(method.evaluation.log_loss)
        assert method.evaluation.error < 0.4, method.name
        assert method.none_share is None


def test_an_unknown_baseline() -> None:
    texts, authors = corpus(2, 3)
    listed = "ngram-svm, delta, linear-svm, rbf-svm, gaussian, student-t"
    with pytest.raises(InputError, match=f"baseline 'x' is not known; it must be one of {listed}$"):
        cross_validate(Corpus.from_texts(texts, authors), baselines=["x"])


def test_it_shows_itself_in_a_notebook(found: CrossValidation) -> None:
    hostile = replace(found.methods[0], name="<script>alert(1)</script>")
    html = replace(found, methods=(hostile, *found.methods[1:]))._repr_html_()
    assert "<script" not in html
    assert f"{found.texts} texts by" in html
    assert f"{found.methods[0].evaluation.error:.1%}" in html
