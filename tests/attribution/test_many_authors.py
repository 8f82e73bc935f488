"""Very many authors: rows that are searched, concentrations that are learnt, folders, commands."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from typer.testing import CliRunner

from attribution.people import texts_by
from whowrote import Corpus, evaluation
from whowrote.attribution import jobs, storage
from whowrote.attribution.directory import (
    Cells,
    Concentrations,
    Directory,
    Grams,
    near_everybody,
    unit,
    with_cells,
)
from whowrote.attribution.many_authors import (
    FIRST,
    ManyAuthors,
    Rows,
    learn_many,
    learn_shared,
    log_shares,
)
from whowrote.cli import app
from whowrote.errors import InputError
from whowrote.estimators.classifier import MOST_LATENTS
from whowrote.evaluation import cross_validate
from whowrote.features import AdHominem
from whowrote.features.adhominem import PRETRAINED

PEOPLE, WIDTH = 30, 300


def planted(
    authors: int, seed: int = 0, size: int = 20, noise: float = 0.6
) -> tuple[Directory, Rows]:
    """Authors around directions of their own, and a text of each."""
    random = np.random.default_rng(seed)
    middle = random.normal(size=(authors, size))
    rows = unit(middle + noise * random.normal(size=middle.shape))
    texts = unit(middle + noise * random.normal(size=middle.shape))
    habit = random.dirichlet(np.full(WIDTH, 0.5), authors)
    grams = [sparse.csr_matrix(unit(random.poisson(30 * habit))) for _ in range(2)]
    made = Directory(rows, Grams.of(grams[0]), near_everybody(rows), None, FIRST)
    return made, Rows(texts, grams[1])


# -- rows and their search -------------------------------------------------------------------------


def test_scores_are_those_of_the_formula() -> None:
    directory, asked = planted(50)
    every = directory.all_scores(asked.styles, asked.grams)
    kept = directory.grams.matrix(slice(0, 50)).toarray()
    by_hand = FIRST.style * asked.styles @ directory.rows.T
    by_hand += FIRST.grams * asked.grams.toarray() @ kept.T - FIRST.near * directory.near
    np.testing.assert_allclose(every, by_hand, rtol=1e-4, atol=1e-5)
    found = directory.scores(asked.styles[7], asked.grams[7])
    np.testing.assert_allclose(found.score, every[7][found.authors], rtol=1e-3, atol=1e-3)
    assert (np.diff(found.score) <= 0).all()
    assert 7 not in directory.scores(asked.styles[7], asked.grams[7], without=7).authors


def test_probabilities_and_everybody_else_sum_to_one() -> None:
    log_p = log_shares(np.array([3.0, 1.0]), 2.0)
    assert np.exp(log_p).sum() + np.exp(2.0) / np.exp([3.0, 1.0, 2.0]).sum() == pytest.approx(1.0)


def test_an_author_keeps_the_heaviest_n_grams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whowrote.attribution.directory.HEAVIEST", 2)
    kept = Grams.of(sparse.csr_matrix([[1.0, 3.0, 0.0, 2.0], [0.0, 0.0, 5.0, 0.0]]))
    assert [set(row) for row in kept.columns.tolist()] == [{1, 3}, {2, 0}]
    assert np.linalg.norm(kept.weights.astype(float), axis=1) == pytest.approx([1, 1], abs=1e-3)


def test_cells_find_the_exact_best_and_fewer_would_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whowrote.attribution.directory.MOST_EXACT", 500)
    monkeypatch.setattr("whowrote.attribution.directory.SAMPLE", 200)
    directory, asked = planted(1200)
    found = with_cells(directory, asked.styles, asked.grams, seed=0)
    assert found.cells is not None
    assert found.cells.recall >= 0.99
    assert found.cells.probes < len(found.cells.centers)
    truth = directory.all_scores(asked.styles[:300], asked.grams[:300]).argmax(axis=1)

    def hits(one: Directory) -> float:
        best = [one.scores(asked.styles[i], asked.grams[i]).authors[0] for i in range(300)]
        return float(np.mean(best == truth))

    assert hits(found) >= 0.99
    assert hits(replace(found, cells=replace(found.cells, probes=1))) < 0.9  # control


def test_enrolment_touches_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whowrote.attribution.directory.MOST_EXACT", 100)
    directory, asked = planted(400)
    small = Directory(
        directory.rows[:-1],
        Grams(directory.grams.columns[:-1], directory.grams.weights[:-1], WIDTH),
        near_everybody(directory.rows[:-1]),
        None,
        FIRST,
    )
    small = with_cells(small, asked.styles[:-1], asked.grams[:-1], 0, np.arange(399))
    assert small.cells is not None
    grown = small.grown(directory.rows[-1:], Grams.of(directory.grams.matrix(slice(399, 400))))
    assert len(grown) == 400
    before, after = (
        one.all_scores(asked.styles[:50], asked.grams[:50])[:, :399] for one in (small, grown)
    )
    np.testing.assert_allclose(before, after, atol=1e-4)
    assert np.array_equal(grown.rows[:-1], small.rows)
    assert np.array_equal(grown.near[:-1], small.near)
    assert grown.scores(asked.styles[399], asked.grams[399]).authors[0] == 399


def test_concentrations_are_learnt_and_from_shuffled_authors_are_not() -> None:
    directory, asked = planted(300, noise=1.2)
    own = np.arange(300)
    learnt = learn_shared(directory, asked, own)
    mixed = learn_shared(directory, asked, np.random.default_rng(0).permutation(own))

    def loss(shared: Concentrations) -> float:
        every = replace(directory, shared=shared).all_scores(asked.styles, asked.grams)
        return -float(np.mean([log_shares(one, shared.rest)[i] for i, one in enumerate(every)]))

    assert loss(learnt) < loss(FIRST)
    assert mixed.style < learnt.style / 5  # control: nothing there, nothing learnt


# -- texts -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    rows = [(f"p{one:02d}", text) for one in range(PEOPLE) for text in texts_by(one, 4)]
    return Corpus.from_texts([text for _, text in rows], [name for name, _ in rows])


@pytest.fixture(scope="module")
def fitted(corpus: Corpus) -> ManyAuthors:
    return learn_many(corpus, extractor=AdHominem().fitted())


def new_texts(people: range) -> list[str]:
    return [texts_by(one, 1, seed=5)[0] for one in people]


def test_people_are_named_and_strangers_are_not(fitted: ManyAuthors) -> None:
    answers = fitted.attribute(new_texts(range(PEOPLE)))
    right = [one.best.author == f"p{n:02d}" for n, one in enumerate(answers)]
    assert np.mean(right) > 0.8
    assert fitted.held_out.texts == PEOPLE
    for one in answers:
        assert 0.0 < sum(c.probability for c in one.ranking) <= 1.0 + 1e-9
        assert one.stranger is not None
    named = np.mean([one.author is not None for one in answers])
    away = fitted.attribute(new_texts(range(900, 900 + PEOPLE)))
    assert np.mean([one.author is not None for one in away]) < named / 2


def test_shuffled_names_are_not_known(corpus: Corpus) -> None:
    """Negative control: nothing is learnt where there is nothing to learn."""
    mixed = np.random.default_rng(0).permutation(np.array(corpus.authors)).tolist()
    found = learn_many(Corpus.from_texts(list(corpus.texts), mixed), extractor=AdHominem().fitted())
    answers = found.predict(new_texts(range(PEOPLE)))
    assert np.mean([name == f"p{n:02d}" for n, name in enumerate(answers)]) < 0.3


def test_one_text_of_each_will_do(corpus: Corpus) -> None:
    alone = corpus.subset(range(0, len(corpus), 4))
    found = learn_many(alone, extractor=AdHominem().fitted())
    assert found.directory.shared == FIRST
    answer = found.attribute(new_texts(range(1)))[0]
    assert answer.typicality == 1.0
    assert "every enrolled author has one text" in answer.warnings[-1]
    again = found.attribute([alone.texts[3]])[0]
    assert any("among the training texts" in one for one in again.warnings)


def test_a_folder_gives_the_same_answers_and_no_changed_one(
    fitted: ManyAuthors, tmp_path: Path
) -> None:
    path = tmp_path / "many.model"
    with storage.new_folder(path, overwrite=False) as draft:
        storage.write_many(fitted, draft)
    loaded = storage.load_many(path)
    texts = new_texts(range(5))
    ours, theirs = fitted.attribute(texts), loaded.attribute(texts)
    assert [one.ranking for one in ours] == [one.ranking for one in theirs]
    with pytest.raises(InputError, match=r"very many authors.*train on fewer authors"):
        storage.load(path)
    for name in ("manifest.json", "directory.safetensors"):
        whole = (path / name).read_bytes()
        spot = len(whole) // 2
        (path / name).write_bytes(whole[:spot] + bytes([whole[spot] ^ 1]) + whole[spot + 1 :])
        with pytest.raises(InputError, match=r"damaged|not what was saved"):
            storage.load_many(path)
        (path / name).write_bytes(whole)
    plain = json.loads((path / "manifest.json").read_text())
    plain["learnt"]["shared"]["style"] = 99.0
    (path / "manifest.json").write_text(json.dumps(plain))
    with pytest.raises(InputError, match="damaged"):
        storage.load_many(path)


def test_a_cell_of_nobody_is_refused(fitted: ManyAuthors, tmp_path: Path) -> None:
    cells = Cells(fitted.directory.rows[:3], np.full(PEOPLE, 3, np.int32), 1, 1.0)
    broken = replace(fitted, directory=replace(fitted.directory, cells=cells))
    storage.write_many(broken, tmp_path)
    with pytest.raises(InputError, match="'cell' has numbers of none of 3"):
        storage.load_many(tmp_path)


def test_enrolled_later_and_never_twice(fitted: ManyAuthors, corpus: Corpus) -> None:
    new = Corpus.from_texts(texts_by(77, 4), ["new"] * 4)
    grown = fitted.enroll(new)
    assert grown.predict(texts_by(77, 1, seed=5))[0] == "new"
    with pytest.raises(InputError, match="'p00' is enrolled already"):
        fitted.enroll(corpus.subset([0]))


def test_beyond_the_authors_whom_a_regression_bears_it_is_a_directory() -> None:
    """The engine in between was worse than the nearest cosine (docs/scale.md)."""
    assert jobs.MANY == evaluation.MANY == MOST_LATENTS + 1


def test_the_commands_from_training_to_enrolment(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "MANY", PEOPLE)
    posts, model = tmp_path / "posts.jsonl", tmp_path / "posts.model"
    rows = zip(corpus.authors, corpus.texts, strict=True)
    posts.write_text("\n".join(json.dumps({"author": a, "text": t}) for a, t in rows))
    unknown, more = tmp_path / "unknown.txt", tmp_path / "more"
    unknown.write_text(texts_by(3, 1, seed=5)[0])
    (more / "new").mkdir(parents=True)
    (more / "new" / "one.txt").write_text(texts_by(77, 1)[0])

    def run(*line: object) -> str:
        done = CliRunner().invoke(app, [str(one) for one in line])
        assert done.exit_code == 0, done.output
        return done.output

    run("train", posts, "--out", model, "--weights", PRETRAINED, "--quiet")
    told = json.loads(run("attribute", model, unknown, "--json", "--quiet"))
    assert told["ranking"][0]["author"] == "p03"
    assert told["model"]["component"] == "von Mises-Fisher"
    run("attribute", model, unknown, "--quiet")
    run("enroll", model, more, "--out", tmp_path / "grown.model", "--quiet")
    shown = run("inspect", tmp_path / "grown.model")
    assert "31 authors" in shown
    assert "von Mises-Fisher" in shown
    assert json.loads(run("inspect", tmp_path / "grown.model", "--json"))["members"] == 1
    with pytest.raises(InputError, match="very many authors"):  # explain, roll, serve
        jobs.open_model(model)


def test_evaluation_measures_what_training_would_make(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "MANY", PEOPLE)
    few = corpus.subset(row for row in range(len(corpus)) if row % 4 < 3)
    made: list[int] = []
    monkeypatch.setattr(
        evaluation,
        "learn_many",
        lambda texts, random_state: (
            made.append(len(texts)) or learn_many(texts, extractor=AdHominem().fitted())
        ),
    )
    found = cross_validate(few, n_folds=2).methods[0]
    assert len(made) == 2
    assert found.evaluation.n == 3 * PEOPLE
    assert found.evaluation.error < 0.4
