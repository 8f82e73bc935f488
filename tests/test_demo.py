import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whowrote import demo
from whowrote.demo import Address, DemoResult, attribute, choose, cut, hold_out, pool
from whowrote.errors import InputError


@pytest.fixture(scope="module")
def addresses() -> tuple[Address, ...]:
    return demo.read_addresses()


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> DemoResult:
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
    lengths = [len(text.split()) for address in addresses for text in address.passages]
    assert 250 < np.mean(lengths) < 350
    assert max(lengths) <= 450


def test_cut_keeps_every_word_and_drops_the_transcript() -> None:
    words = [f"w{number}" for number in range(1000)]
    assert " ".join(cut(" ".join(words))).split() == words
    spoken = "The President. Thank you. [Applause] Please sit.\nAudience members. Boo!"
    assert cut(spoken) == ["Thank you. Please sit. Boo!"]
    assert cut("short") == ["short"]


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


def test_pooling_is_in_log_space_and_ignores_the_number_of_passages() -> None:
    log_proba = np.array([[-1.0, -2000.0], [-3.0, -1000.0]])
    pooled = pool(log_proba)
    assert pooled.tolist() == [0.0, -1498.0]
    np.testing.assert_allclose(pool(np.tile(log_proba, (9, 1))), pooled)
    np.testing.assert_allclose(np.exp(pool(np.log([[0.2, 0.8]]))), [0.2, 0.8])


class Fake:
    classes_ = np.array(["ann", "bob"])

    def predict_log_proba(self, texts: list[str]) -> Any:
        return np.log([[0.9, 0.1] if text == "A" else [0.4, 0.6] for text in texts])


@pytest.mark.parametrize(("author", "right"), [("ann", True), ("bob", False), ("cyd", None)])
def test_answers(author: str, right: bool | None) -> None:
    answer = attribute(Fake(), Address("1-x", 1, author, ("A", "b", "b")))
    assert answer.answer == "ann"
    assert answer.right is right
    assert answer.passages_right == {"ann": 1, "bob": 2, "cyd": 0}[author]


def test_the_demo_knows_its_presidents(result: DemoResult) -> None:
    assert result.addresses.share > 0.7
    assert result.passages.share > 0.8
    assert result.passages.interval.low < result.passages.share < result.passages.interval.high
    assert {row.author for row in result.answers} == {*result.enrolled, "Abraham Lincoln"}
    assert all((row.right is None) == (row.author == "Abraham Lincoln") for row in result.answers)
    assert result.plot.read_bytes().startswith(b"\x89PNG")


def test_the_record_is_json(result: DemoResult) -> None:
    plain = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert plain["plot"].endswith("demo.png")
    assert len(plain["answers"]) == len(result.answers)
    assert len(plain["split_hash"]) == 64


def test_shuffled_authors_are_not_known(
    addresses: tuple[Address, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: with the labels of training shuffled, the demo is no better than chance."""
    fit = demo._fit

    def shuffled(model: Any, training: Any) -> Any:
        names = np.random.default_rng(0).permutation([address.author for address in training])
        pairs = zip(training, names, strict=True)
        return fit(model, [Address(a.id, a.year, str(name), a.passages) for a, name in pairs])

    monkeypatch.setattr(demo, "_fit", shuffled)
    monkeypatch.setattr(demo, "read_addresses", lambda: addresses)
    assert demo.run(tmp_path, presidents=3).passages.share < 0.7


def test_memory_is_told_where_the_system_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    here = demo.peak_memory_mb()
    assert here is None or 10 < here < 100_000
    monkeypatch.setitem(sys.modules, "resource", None)
    assert demo.peak_memory_mb() is None
