"""A closed case: one candidate against the others, and nobody else."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attribution.people import name, texts_by
from case.conftest import add
from whowrote.case import Case
from whowrote.case.conditions import learn_curve
from whowrote.case.dossier import contents, page_one, render
from whowrote.case.findings import NOT_VALIDATED, RATIO, compute, run
from whowrote.errors import InputError
from whowrote.ratios import LN10, against_others, posteriors


def closed(folder: Path, labels: list[int]) -> Case:
    """Three candidates of six texts each, under these labels, and a text by each."""
    case = Case.new(folder, "Who?", population="we saw it", features="ngrams", closed=True)
    texts = [text for author in range(3) for text in texts_by(author, 6)]
    for author in range(3):
        own = [text for text, label in zip(texts, labels, strict=True) if label == author]
        case = add(case, "known", own, name(author))
    return add(case, "questioned", [texts_by(author, 1, seed=5)[0] for author in range(3)])


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    made = closed(tmp_path_factory.mktemp("closed") / "case", [n // 6 for n in range(18)])
    run(made)
    return Case.open(made.folder)


def test_the_author_of_each_text_has_the_largest_ratio(case: Case) -> None:
    found: Any = compute(case)
    for author, one in enumerate(found["findings"]):
        assert one["answer"] == RATIO
        ratios = {r["candidate"]: r["log10_lr"] for r in one["ratios"]}
        assert max(ratios, key=lambda who: ratios[who]) == name(author)
        for r in one["ratios"]:
            assert r["low"] <= r["log10_lr"] <= r["high"]
            assert r["bounds"]["low"] <= r["low"]
            for part in (*r["propositions"], "we saw it", *case.candidates):
                assert part in r["sentence"]
    assert found["validation"]["ratios"][-1]["quality"]["cllr"] < 0.7


def test_labels_without_meaning_are_not_validated(tmp_path: Path) -> None:
    labels = np.random.default_rng(3).permutation([n // 6 for n in range(18)]).tolist()
    found: Any = compute(closed(tmp_path / "c", labels))
    assert {one["answer"] for one in found["findings"]} == {NOT_VALIDATED}
    assert "would mislead" in found["findings"][0]["reason"]


def test_a_closed_case_takes_nobody_else_and_needs_two(tmp_path: Path) -> None:
    case = Case.new(tmp_path / "c", "Who?", population="p", features="ngrams", closed=True)
    with pytest.raises(InputError, match="takes no reference texts"):
        add(case, "reference", texts_by(1, 2), "Bob")
    case = add(case, "known", texts_by(0, 3), "Ann")
    case = add(case, "questioned", texts_by(0, 1, seed=5))
    (found,) = compute(case)["findings"]
    assert found["answer"] == NOT_VALIDATED
    assert "two candidates or more" in found["reason"]


def test_the_page_says_that_the_set_is_closed(case: Case) -> None:
    import json

    found = json.loads((case.folder / "findings.json").read_text(encoding="utf-8"))
    data = contents(case, found)
    lines, rows = page_one(data)["lines"], page_one(data)["rows"]
    assert [row["candidate"] for row in rows] == [name(author) for author in range(3)]
    assert lines[0].startswith(f"{name(0)} has the largest ratio in 1 of 3 weighed texts")
    page = render(data)
    assert "another of the candidates, each as probable as the others" in page
    assert "was given, not found" in page


def test_ratio_and_prior_give_the_probability_back() -> None:
    random = np.random.default_rng(0)
    p, prior = random.dirichlet(np.ones(4), 50), random.dirichlet(np.ones(4))
    ratios = against_others(np.log(p), np.log(prior))
    for row in range(50):
        for column in range(4):
            ratio = float(ratios[row, column])
            (one,) = posteriors(ratio, ratio, ratio, [float(prior[column])])
            assert one.posterior == pytest.approx(p[row, column])
    sure = np.log(np.array([[1.0, 1e-300]])) * 1e9
    assert np.isfinite(against_others(sure, np.log([0.5, 0.5]))).all()


def test_a_curve_undoes_what_was_done_to_ratios() -> None:
    random, n = np.random.default_rng(1), 400
    truth = random.integers(3, size=n)
    x = random.normal(size=(n, 3)) + 1.5 * (np.arange(3) == truth[:, None])
    log_p = 1.5 * x - np.logaddexp.reduce(1.5 * x, axis=1, keepdims=True)
    scores = against_others(log_p, np.log(np.full(3, 1 / 3)))
    same = np.arange(3) == truth[:, None]
    honest, loud = learn_curve(scores, same, 0), learn_curve(3 * scores, same, 0)
    slopes = [1 + one.weights[1] / LN10 for one in (honest, loud)]
    assert slopes[0] == pytest.approx(1.0, abs=0.2)
    assert slopes[1] == pytest.approx(slopes[0] / 3, abs=0.02)
    ratio, low, high = loud.log10_lr(3.0)
    assert low <= ratio <= high < 3.0
