"""Very many authors: the mixture is right, pruning loses nothing, one more costs nothing."""

from dataclasses import replace
from pathlib import Path
from time import perf_counter

import numpy as np
import pytest
from scipy.stats import multivariate_t

from whowrote.arrays import FloatArray, IntArray
from whowrote.attribution import many_authors
from whowrote.attribution.many_authors import FittedMany, ManyAuthors
from whowrote.attribution.profiles import Space
from whowrote.errors import InputError

SIZE = 24


def drawn(authors: int, texts: int, seed: int = 0) -> tuple[FloatArray, IntArray]:
    """Rows of texts around the means of their authors."""
    random = np.random.default_rng(seed)
    codes = np.repeat(np.arange(authors), texts)
    means = 1.2 * random.standard_normal((authors, SIZE))
    return means[codes] + random.standard_normal((len(codes), SIZE)), codes


def fitted(rows: FloatArray, codes: IntArray) -> FittedMany:
    names = [f"a{code:05d}" for code in codes]
    return ManyAuthors().fit_rows(rows, names, np.full(len(rows), 100)).fitted_


@pytest.fixture(scope="module")
def model() -> tuple[FittedMany, FloatArray, IntArray]:
    """Six hundred authors of three texts, and a fourth text of each to ask about."""
    rows, codes = drawn(600, 4)
    asked = np.arange(len(codes)) % 4 == 3
    return fitted(rows[~asked], codes[~asked]), rows[asked], codes[asked]


def best(told: FittedMany, rows: FloatArray) -> IntArray:
    x = told.roster.space.place(rows)
    near = told.roster.candidates(x)
    return np.asarray(near[np.arange(len(x)), told.roster.weigh(x, near).argmax(axis=1)])


def test_the_density_is_that_of_a_student_t_with_the_predictive_scale() -> None:
    space = Space(np.zeros(3), np.eye(3), np.array([2.0, 1.0, 0.5]), df=7.0)
    times, sums, x = np.array([2.0]), np.array([[1.0, -1.0, 3.0]]), np.array([0.4, 0.1, -0.2])
    mean = space.shrunk(sums, times)
    scale = 1.0 + space.spread / (2.0 * space.spread + 1.0)
    wanted = multivariate_t(mean[0], np.diag(scale), df=7.0)
    other = np.array([5.0, -2.0, 1.0])
    found = space.log_density(np.stack([x, other])[:, None], mean, times)[:, 0]
    assert found[0] - found[1] == pytest.approx(wanted.logpdf(x) - wanted.logpdf(other))


def test_one_text_shrinks_a_mean_more_than_many() -> None:
    space = Space(np.zeros(1), np.eye(1), np.array([0.5]))
    one = space.shrunk(np.array([[1.0]]), np.array([1.0]))[0, 0]
    ten = space.shrunk(np.array([[10.0]]), np.array([10.0]))[0, 0]
    assert 0 < one < ten < 1


def test_new_texts_go_to_their_authors(model: tuple[FittedMany, FloatArray, IntArray]) -> None:
    told, rows, codes = model
    right = (best(told, rows) == codes).mean()
    assert right > 0.7
    mixed = np.random.default_rng(1).permutation(codes)
    assert (best(told, rows) == mixed).mean() < 0.05


def test_pruning_finds_the_exact_best(
    model: tuple[FittedMany, FloatArray, IntArray], monkeypatch: pytest.MonkeyPatch
) -> None:
    told, rows, _ = model
    monkeypatch.setattr(many_authors, "MOST_EXACT", 100)
    graph = replace(told, roster=told.roster.indexed())
    assert graph.roster.graph is not None
    assert (best(graph, rows) == best(told, rows)).mean() >= 0.99
    every = told.roster.weigh(
        told.roster.space.place(rows[:50]), np.broadcast_to(np.arange(600), (50, 600))
    )
    assert (every.argmax(axis=1) == best(told, rows[:50])).mean() >= 0.98


def test_one_more_author_leaves_the_others_as_they_are(
    model: tuple[FittedMany, FloatArray, IntArray],
) -> None:
    told, rows, _ = model
    stranger = np.full((2, SIZE), 3.0) + 0.3 * np.random.default_rng(0).standard_normal((2, SIZE))
    began = perf_counter()
    grown = told.enrolled(told.roster.space.place(stranger[:1]), ["new"], np.array([90]))
    assert perf_counter() - began < 1.0
    assert (grown.roster.sums[:600] == told.roster.sums).all()
    assert best(grown, stranger[1:])[0] == 600
    assert (best(grown, rows) == best(told, rows)).mean() > 0.98
    assert grown.id != told.id
    with pytest.raises(InputError, match="'new' is enrolled already"):
        grown.enrolled(told.roster.space.place(stranger), ["new", "new"], np.array([9, 9]))


def test_an_author_enrolled_after_the_graph_was_made_is_found(
    model: tuple[FittedMany, FloatArray, IntArray], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = model[0]
    monkeypatch.setattr(many_authors, "MOST_EXACT", 100)
    graph = replace(told, roster=told.roster.indexed())
    row = np.full((1, SIZE), 3.0)
    grown = graph.enrolled(told.roster.space.place(row), ["new"], np.array([90]))
    assert grown.roster.graph is graph.roster.graph
    assert best(grown, row)[0] == 600


def test_texts_through_the_extractor_saved_and_loaded(tmp_path: Path) -> None:
    small = ["the", "of", "and", "to", "a", "in", "that", "it", "is", "was"]
    texts, authors = [], []
    for person in range(60):
        random = np.random.default_rng(person)
        liked = random.dirichlet(np.full(len(small), 0.3))
        for _ in range(2):
            texts.append(" ".join(random.choice(small, 60, p=liked).tolist()))
            authors.append(f"p{person}")
    model = ManyAuthors().fit(texts, authors)
    answers = model.attribute(texts[:3])
    assert len(answers[0].ranking) == 10
    assert sum(one.probability for one in answers[0].ranking) <= 1.0 + 1e-9
    assert answers[0].best.author == "p0"
    path = model.save(tmp_path / "many.model")
    again = ManyAuthors.load(path).attribute(texts[:3])
    assert [one.to_dict() for one in again] == [one.to_dict() for one in answers]


def test_without_repeated_authors_there_is_no_scale() -> None:
    rows, codes = drawn(100, 1)
    with pytest.raises(InputError, match=r"0 of 100 authors have two texts; .* at least 50"):
        fitted(rows, codes)
