import json
import sys
from dataclasses import replace

import numpy as np
import pytest

from whowrote import demo
from whowrote.attribution import Attribution, Attributor, Candidate, Combination, ModelIdentity
from whowrote.demo import (
    Address,
    DemoResult,
    answer_of,
    as_corpus,
    choose,
    hold_out,
    n_gram_svm,
)
from whowrote.errors import InputError


@pytest.fixture(scope="module")
def addresses() -> tuple[Address, ...]:
    return demo.read_addresses()


@pytest.fixture(scope="module")
def result(addresses: tuple[Address, ...], tmp_path_factory: pytest.TempPathFactory) -> DemoResult:
    """The whole demo, of three presidents and the first 1,500 words of each address."""
    short = tuple(replace(a, text=" ".join(a.text.split()[:1500])) for a in addresses)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "read_addresses", lambda: short)
        return demo.run(tmp_path_factory.mktemp("demo"), presidents=3)


def test_namesakes_are_kept_apart_and_two_terms_together(addresses: tuple[Address, ...]) -> None:
    authors = {address.author for address in addresses}
    assert {"Theodore Roosevelt", "Franklin D. Roosevelt"} <= authors
    assert {"George H.W. Bush", "George W. Bush", "Andrew Johnson", "Lyndon B. Johnson"} <= authors
    years = {address.year for address in addresses if address.author == "Grover Cleveland"}
    assert {1885, 1896} <= years
    assert 1890 not in years


def test_every_address_is_once_there(addresses: tuple[Address, ...]) -> None:
    assert len({address.id for address in addresses}) == len(addresses) > 230
    assert min(len(address.text.split()) for address in addresses) > 500


def test_marks_of_the_transcript_are_not_spoken() -> None:
    spoken = "The President. Thank you. [Applause] Please sit.\nAudience members. Boo!"
    assert " ".join(demo.NOT_SPOKEN.sub(" ", spoken).split()) == "Thank you. Please sit. Boo!"


def test_most_documented_presidents_are_enrolled(addresses: tuple[Address, ...]) -> None:
    assert "Franklin D. Roosevelt" in choose(addresses, 2, "Abraham Lincoln")
    assert "Franklin D. Roosevelt" not in choose(addresses, 5, "Franklin D. Roosevelt")
    assert len(choose(addresses, 5, "Abraham Lincoln")) == 5


def test_held_out_addresses_share_no_year_with_training(addresses: tuple[Address, ...]) -> None:
    trial = hold_out(addresses, presidents=20, outsider="Abraham Lincoln", seed=3)
    assert not {a.group for a in trial.training} & {a.group for a in trial.held_out}
    assert {a.author for a in trial.training} == {a.author for a in trial.held_out}
    assert {a.author for a in trial.foreign} == {"Abraham Lincoln"}
    other = hold_out(addresses, presidents=20, outsider="Abraham Lincoln", seed=4)
    assert other.split_hash != trial.split_hash


@pytest.mark.parametrize("presidents", [1, 99])
def test_too_few_or_too_many_presidents(addresses: tuple[Address, ...], presidents: int) -> None:
    with pytest.raises(InputError, match=rf"presidents is {presidents}; .*between 2 and \d+"):
        choose(addresses, presidents, "Abraham Lincoln")


def test_an_unknown_outsider(addresses: tuple[Address, ...]) -> None:
    with pytest.raises(InputError, match=r"outsider is 'Lincoln'.*full name"):
        choose(addresses, 3, "Lincoln")


@pytest.mark.parametrize(
    ("author", "named", "right", "svm_right"),
    [
        ("ann", "ann", True, True),
        ("ann", None, False, True),
        ("bob", "ann", False, False),
        ("cyd", None, True, False),
        ("cyd", "ann", False, False),
    ],
)
def test_answers(author: str, named: str | None, right: bool, svm_right: bool) -> None:
    best = Candidate("ann", 0.9, -3.0, 0.2, 1.0)
    identity = ModelIdentity("id", "0", "ngrams", "student-t", 2)
    pooled = Combination(1, 1.0, 0.5, "equal")
    found = Attribution("1", "", named, (best,), 0.2, 0.05, None, None, 9, pooled, (), identity)
    answer = answer_of(Address("1-x", 1, author, "text"), found, "ann", ("ann", "bob"))
    assert (answer.right, answer.svm_right) == (right, svm_right)
    assert answer.enrolled == (author != "cyd")
    assert answer.best == "ann"


def test_the_demo_knows_its_presidents(result: DemoResult) -> None:
    assert result.ours.share > 0.7
    assert result.ours.interval.low < result.ours.share <= result.ours.interval.high
    assert {row.author for row in result.answers} == {*result.enrolled, "Abraham Lincoln"}
    assert result.ours.n + result.none.n == len(result.answers)
    assert result.plot.read_bytes().startswith(b"\x89PNG")


def test_the_page_stands_alone_and_says_the_same(result: DemoResult) -> None:
    page = result.page.read_text(encoding="utf-8")
    assert 'src="http' not in page
    assert "<script" not in page
    assert f"{result.ours.right} of {result.ours.n} held-out addresses" in page
    assert page.count("<figure>") == 4
    assert all(answer.author in page for answer in result.answers)


def test_the_record_is_json(result: DemoResult) -> None:
    plain = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert plain["plot"].endswith("demo.png")
    assert len(plain["answers"]) == len(result.answers)
    assert len(plain["split_hash"]) == 64
    assert plain["seconds"]["all"] > 0


def test_shuffled_authors_are_not_known(addresses: tuple[Address, ...]) -> None:
    """Negative control: with the labels of training shuffled, the demo is no better than chance."""
    trial = hold_out(addresses, presidents=2, outsider="Abraham Lincoln", seed=0)
    names = np.random.default_rng(0).permutation([address.author for address in trial.training])
    mixed = [replace(a, author=str(n)) for a, n in zip(trial.training, names, strict=True)]
    asked = as_corpus(trial.held_out)
    named = Attributor("ngrams").fit(as_corpus(mixed)).predict(asked.texts)
    assert np.mean(named == np.array(asked.authors)) < 0.8
    assert n_gram_svm(as_corpus(trial.training), asked, 0) == list(asked.authors)


def test_memory_is_told_where_the_system_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    here = demo.peak_memory_mb()
    assert here is None or 10 < here < 100_000
    monkeypatch.setitem(sys.modules, "resource", None)
    assert demo.peak_memory_mb() is None
