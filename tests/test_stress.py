"""Stress: harder texts are answered worse, easy ones are not; known texts are left out."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from whowrote import Attributor, Corpus
from whowrote.attribution.fitted_attributor import FittedAttributor
from whowrote.cli import app
from whowrote.errors import InputError
from whowrote.stress import Writers, noisy, stress

WORDS = [
    "the",
    "of",
    "and",
    "to",
    "in",
    "that",
    "it",
    "was",
    "for",
    "on",
    "with",
    "as",
    "at",
    "be",
    "this",
    "from",
    "have",
    "or",
    "by",
    "one",
    "had",
    "not",
    "but",
]


def written(author: int, seed: int, words: int = 150) -> str:
    likes = np.random.default_rng([5, author]).dirichlet(np.full(len(WORDS), 1.0))
    return " ".join(np.random.default_rng([6, author, seed]).choice(WORDS, words, p=likes))


def texts(authors: range, seeds: range) -> Corpus:
    pairs = [(author, seed) for author in authors for seed in seeds]
    return Corpus.from_texts([written(*pair) for pair in pairs], [f"P{a}" for a, _ in pairs])


@pytest.fixture(scope="module")
def model() -> FittedAttributor:
    return Attributor(features="ngrams", random_state=0).fit(texts(range(8), range(6))).fitted()


def rewrites() -> Corpus:
    """Two writers with habits of their own, under the names of others."""
    rows = [(20 + n % 2, n, f"P{n % 10}") for n in range(40)]
    groups = [f"model {writer}" for writer, _, _ in rows]
    return Corpus.from_texts(
        [written(writer, seed) for writer, seed, _ in rows],
        [name for *_, name in rows],
        groups=groups,
    )


def test_error_rises_with_less_text_and_rewrites_hide_their_author(model: FittedAttributor) -> None:
    asked = texts(range(10), range(50, 54))  # two of them strangers
    found = stress(model, asked, lengths=(4,), noise=(0.01,), rewrites=rewrites(), seed=0)
    rows = {one.name: one for one in found.conditions}
    easy, short = rows["as they are"], rows["4 words"]
    assert (easy.texts, easy.strangers) == (32, 8)
    assert easy.wrong <= 4
    assert short.wrong > easy.wrong + 8
    assert rows["1% of letters wrong"].wrong <= easy.wrong + 4  # a slip or two is not a disguise
    assert rows["rewritten by model 20"].wrong > 8
    assert found.writers is not None
    assert found.writers.flagged > found.writers.rewrites / 2
    again = stress(model, asked, lengths=(4,), noise=(0.01,), rewrites=rewrites(), seed=0)
    assert again == found


def test_texts_that_were_learnt_from_are_left_out(model: FittedAttributor) -> None:
    both = Corpus.join([texts(range(8), range(2)), texts(range(8), range(60, 61))])
    found = stress(model, both, lengths=(), noise=())
    assert found.learnt_from == 16
    assert found.conditions[0].texts == 8
    with pytest.raises(InputError, match="none is by an enrolled author and new to the model"):
        stress(model, texts(range(8), range(2)))


def test_a_flag_needs_measured_and_few_false_alarms() -> None:
    few = Writers(("m",), 10, 50, 40, 30, people_texts=10, false_alarms=0)
    many = Writers(("m",), 10, 50, 40, 30, people_texts=100, false_alarms=20)
    good = Writers(("m",), 10, 50, 40, 30, people_texts=200, false_alarms=4)
    assert not few.usable
    assert few.to_dict()["false_alarm_rate"] is None
    assert not many.usable
    assert good.usable


def test_noise_changes_about_the_share_it_says() -> None:
    text = written(1, 1, 2000)
    assert noisy(text, 0.0, np.random.default_rng(0)) == text
    changed = noisy(text, 0.05, np.random.default_rng(0))
    same = [one == other for one, other in zip(text.split(), changed.split(), strict=False)]
    assert 0.6 < np.mean(same) < 0.95
    assert 1990 <= len(changed.split()) <= 2000  # words lose letters, seldom all of them


@pytest.mark.parametrize(("option", "value"), [("--noise", "0.9"), ("--length", "0")])
def test_the_command(model: FittedAttributor, tmp_path: Path, option: str, value: str) -> None:
    from whowrote.attribution import storage

    storage.save(model, tmp_path / "m.model")
    asked = texts(range(8), range(70, 71))
    table = tmp_path / "asked.jsonl"
    lines = [{"author": a, "text": t} for a, t in zip(asked.authors, asked.texts, strict=True)]
    table.write_text("\n".join(map(json.dumps, lines)))
    base = ["stress", str(tmp_path / "m.model"), str(table), "--quiet"]
    shown = runner.invoke(app, [*base, "--length", "20"])
    assert shown.exit_code == 0, shown.output
    assert "20 words" in shown.stdout
    assert isinstance(runner.invoke(app, [*base, option, value]).exception, InputError)


runner = CliRunner()
