"""Explanations add up, find what was planted, and say so when they fail."""

import shutil
import subprocess
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from attribution.people import corpus, name, texts_by
from whowrote.attribution import Attributor
from whowrote.attribution.explanation import Explanation
from whowrote.attribution.occlusion import SIZES, Deletion, Occlusion
from whowrote.corpus.texts import Corpus
from whowrote.errors import InputError
from whowrote.report import write_explanation

PHRASE = "zounds egad"
CHROMIUM = shutil.which("chromium")


@pytest.fixture(scope="module")
def planted() -> Attributor:
    """All write alike, but Person 0 says the phrase in every text, and nobody else does."""
    return signed(PHRASE)


def signed(phrase: str) -> Attributor:
    texts, authors = texts_by(0, 40), corpus(4, 10)[1]
    known = zip(texts, authors, strict=True)
    whole = [f"{text[:300]} {phrase} {text[300:]}" if w == name(0) else text for text, w in known]
    return Attributor("ngrams").fit(whole, authors)


def question() -> str:
    words = texts_by(0, 1, seed=9)[0].split()
    return " ".join([*words[:60], PHRASE, *words[60:]])


@pytest.fixture(scope="module")
def explained(planted: Attributor) -> Explanation:
    return planted.explain(question())


def test_the_parts_add_up_to_the_lead_in_contrasts(
    planted: Attributor, explained: Explanation
) -> None:
    fitted = planted.fitted()
    numbers = fitted.names.tolist()
    contrasts = fitted.reader.read([question()]).V.mean(axis=0)
    best, second = (contrasts[numbers.index(one)] for one in (explained.best, explained.second))
    assert sum(part.lead for part in explained.parts) == pytest.approx(best - second, abs=1e-4)
    assert sum(part.share for part in explained.parts) == pytest.approx(1.0)
    assert explained.checkable == 1.0  # n-grams alone


def test_a_vector_cannot_be_checked(hybrid: Attributor) -> None:
    found = hybrid.explain(texts_by(0, 1, seed=3)[0], draws=2)
    share = {part.name: part.share for part in found.parts}
    assert 0.0 < share["vector"] < 1.0
    assert found.checkable == pytest.approx(1.0 - share["vector"])
    assert set(share) == {"written", "vector", "bias"}


def test_a_planted_phrase_is_on_top(explained: Explanation) -> None:
    assert explained.best == name(0)
    assert explained.ngrams_for[0].text.strip() in PHRASE
    for marks in (explained.words, explained.phrases):
        top = max(marks, key=lambda mark: mark.drop)
        assert set(explained.text[top.start : top.end].split()) & set(PHRASE.split())


def test_phrases_are_runs_of_words_apart_from_each_other(explained: Explanation) -> None:
    marks = sorted(explained.phrases, key=lambda mark: mark.start)
    assert all(first.end <= second.start for first, second in pairwise(marks))
    assert {len(explained.text[one.start : one.end].split()) for one in marks} <= set(SIZES)
    shown = explained.text[explained.phrases[0].start : explained.phrases[0].end]
    assert PHRASE in " ".join(shown.split())  # whole, wherever the words around it end


def test_the_lead_is_that_of_the_contrasts(planted: Attributor) -> None:
    fitted, text = planted.fitted(), question()
    span = (text.index(PHRASE), text.index(PHRASE) + len(PHRASE))
    with_it, without = fitted.reader.read([text, text[: span[0]] + text[span[1] :]]).V[:, -4:]
    mark = Occlusion(fitted, text, 0).marks([span])[0]
    fallen = with_it - without
    assert mark.lead == pytest.approx(fallen[0] - fallen[1:].mean(), abs=1e-5)


def test_the_lead_does_not_saturate_and_the_evidence_does(planted: Attributor) -> None:
    """Of a phrase that stands once and four times: the fourth time the answer is beyond doubt."""
    once, fitted = question(), planted.fitted()
    often = " ".join([once, *texts_by(0, 1, seed=8)[0].split()[:40], *[PHRASE] * 12])
    span = (often.index(PHRASE), often.index(PHRASE) + len(PHRASE))
    few, many = (Occlusion(fitted, text, 0).marks([span])[0] for text in (once, often))
    assert many.drop / few.drop < many.lead / few.lead


def test_who_has_no_contrast_is_ranked_by_the_evidence(planted: Attributor) -> None:
    """Who was enrolled later has none; the others keep theirs."""
    new = Corpus.from_texts(texts_by(2, 2, seed=3), ["Zoe", "Zoe"])
    fitted = planted.enroll(new).fitted()
    spans = [(0, 20), (20, 60)]
    first, last = (Occlusion(fitted, question(), one).marks(spans) for one in (0, 4))
    assert [one.lead for one in last] == [one.drop for one in last]
    assert [one.lead for one in first] != [one.drop for one in first]


def test_a_phrase_that_says_nothing_is_not_on_top() -> None:
    found = signed("").explain(question(), draws=2)
    assert not any(one.text.strip() in PHRASE for one in found.ngrams_for[:1])


def test_the_marks_hold_and_reversed_ones_fail(planted: Attributor, explained: Explanation) -> None:
    assert explained.holds
    assert "hold" in explained.in_words
    occlusion = Occlusion(planted.fitted(), question(), 0)
    wrong = [replace(mark, drop=-mark.drop) for mark in explained.words]
    failed = replace(explained, checks=occlusion.check(wrong, 20, 0))
    assert not failed.holds
    assert "FAIL" in failed.in_words


def test_occlusion_reads_by_passage_what_the_engine_reads_at_once() -> None:
    model = Attributor("ngrams", passage_words=60).fit(*corpus(3, 8))
    text = texts_by(1, 1, words=300, seed=4)[0]
    occlusion = Occlusion(model.fitted(), text, 1)
    assert len(occlusion.pieces) == 5
    log_proba = model.predict_log_proba([text])[0]
    others = np.logaddexp(log_proba[0], log_proba[2])
    assert occlusion.evidence == pytest.approx(log_proba[1] - others, abs=1e-6)
    assert occlusion.without([[]])[0] == pytest.approx(occlusion.evidence)
    assert np.isfinite(occlusion.without([[(0, len(text))]])).all()


def test_lines_of_known_texts(planted: Attributor) -> None:
    known = Corpus.from_texts([f"so {PHRASE} he said", "nothing"], [name(0), name(1)])
    found = planted.explain(question(), known, draws=2)
    hits = [line for line in found.concordance if line.author == name(0)]
    assert any(line.hit in PHRASE and line.left.endswith(("so ", "zounds ")) for line in hits)
    assert max(use.best for use in found.uses) > 0


def test_short_and_long_texts_are_refused(planted: Attributor) -> None:
    with pytest.raises(InputError, match="has 3 words; an explanation needs at least 40"):
        planted.explain("too few words")
    with pytest.raises(InputError, match="at most 12,000"):
        planted.explain("word " * 12_001)
    with pytest.raises(InputError, match="draws is 1"):
        planted.explain(question(), draws=1)


def test_records_show_themselves_in_a_notebook(planted: Attributor, explained: Explanation) -> None:
    answer = planted.attribute([question()])[0]
    hostile = replace(answer, document="<script>alert(1)</script>")
    for html in (explained._repr_html_(), hostile._repr_html_()):
        assert "<script" not in html
        assert "Person 0" in html
    compared = planted.verify(question(), texts_by(1, 1, seed=2)[0])
    assert "likelihood ratio" in compared._repr_html_()


def hostile_explanation(tmp_path: Path) -> tuple[Path, str]:
    bad = "<script>document.title='owned'</script><img src=http://192.0.2.1/x onerror=alert(1)>"
    names = [f"{bad} {who}" for who in corpus(4, 10)[1]]
    model = Attributor("ngrams").fit(corpus(4, 10)[0], names)
    found = model.explain(f"{question()} {bad} \x00 \ud800", draws=2)
    failed = Deletion(0.05, 2, 0.1, 0.2, -0.1, -0.3, 0.1)
    found = replace(found, checks=(failed, *found.checks[1:]), warnings=(bad,))
    return write_explanation(tmp_path / "why.html", found), bad


def test_a_hostile_page_is_only_text(tmp_path: Path) -> None:
    path, _ = hostile_explanation(tmp_path)
    page = path.read_text(encoding="utf-8")
    assert "default-src 'none'" in page
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;script&gt;" in page
    assert "FAIL" in page


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_the_page_in_a_browser(tmp_path: Path) -> None:
    path, bad = hostile_explanation(tmp_path)
    net = tmp_path / "net.json"
    done = subprocess.run(
        [
            str(CHROMIUM),
            *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
            *("--no-first-run", "--disable-component-update", "--disable-sync"),
            *("--enable-logging=stderr", "--v=0", f"--user-data-dir={tmp_path / 'profile'}"),
            *(f"--log-net-log={net}", "--dump-dom", path.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "CONSOLE" not in done.stderr
    assert "192.0.2.1" not in net.read_text(errors="replace")
    assert "<title>Why" in done.stdout  # no script has changed it
    assert "owned'&lt;/script&gt;" in done.stdout
    assert "&lt;img src=http" in done.stdout
    assert "<img" not in done.stdout
    assert bad.split(">")[0].removeprefix("<") in done.stdout
