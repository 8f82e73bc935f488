"""From texts to a list, a table and a graph: habits planted in generated texts."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from typer.testing import CliRunner

from whowrote.cli import app
from whowrote.corpus.texts import Corpus
from whowrote.errors import InputError
from whowrote.linking import Link, Links, link
from whowrote.linking.linked import REMARK, graphml, group_numbers

SMALL = [
    *("the", "of", "and", "to", "a", "in", "that", "it", "is", "was", "i", "for", "on"),
    "you",
    "he",
]
SMALL += ["be", "with", "as", "by", "at", "but", "not"]
TOPICS = [f"{a}{b}{c}" for a in "bdfgklmn" for b in "aeiou" for c in "rstvz"]
MARKS = [". ", ", ", "; ", "! ", "? ", " - ", "... ", ": "]


def habit(seed: int) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    random = np.random.default_rng([seed, 5])
    return random.dirichlet(np.full(len(SMALL), 0.4)), random.dirichlet(np.full(len(MARKS), 0.3))


def written(person: int, number: int, words: int = 90) -> str:
    """A text with the small words and marks that a person likes, on a topic of its own."""
    random = np.random.default_rng([person, number])
    small, marks = habit(person)
    topic = random.choice(TOPICS, 6)
    parts = []
    for _ in range(words // 3):
        parts += [random.choice(SMALL, p=small), " ", random.choice(topic), " "]
        parts += [random.choice(SMALL, p=small), random.choice(MARKS, p=marks)]
    return "".join(parts)


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    """Forty people with an account of five texts; the first eight have another one."""
    rows = [(f"p{p:02d}", written(p, n)) for p in range(40) for n in range(5)]
    rows += [(f"alias{p}", written(p, n)) for p in range(8) for n in range(5, 10)]
    rows.append(("p30", rows[155][1]))  # a text of p31
    rows.append(("=short", "Too few words to say anything."))
    return Corpus.from_texts([text for _, text in rows], [name for name, _ in rows])


@pytest.fixture(scope="module")
def found(corpus: Corpus) -> Links:
    return link(corpus, budget=30)


def test_the_aliases_come_first(found: Links) -> None:
    first = {frozenset((one.first, one.second)) for one in found.links[:8]}
    true = {frozenset((f"p{p:02d}", f"alias{p}")) for p in range(8)}
    assert len(first & true) >= 6
    assert len(found.links) == 30
    assert found.reported <= 10


def test_what_is_left_out_and_copied_is_told(found: Links) -> None:
    assert found.left_out == ("=short",)
    assert found.copied_texts == 2
    assert found.copies[0][:2] == ("p30", "p31")
    assert found.accounts == 48


def test_a_record_says_what_was_weighed_against_whom_and_with_what_prior(found: Links) -> None:
    plain = json.loads(found.to_json())
    assert plain["propositions"][0] == "one person wrote both accounts"
    assert "each cut in two" in plain["population"]
    assert plain["prior"] == pytest.approx(plain["expected_links"] / (48 * 47 / 2))
    assert plain["warnings"][-1] == REMARK
    best = plain["links"][0]
    assert "support for" in best["support"]
    assert best["low"] <= best["log10_lr"] <= best["high"]
    assert set(best["standings"]) == {"style vectors", "masked n-grams"}
    rates = [one["false_discovery_rate"] for one in plain["links"]]
    assert rates == sorted(rates)


def test_the_table_has_a_row_for_each_pair_and_no_formula(found: Links) -> None:
    odd = replace(found, links=(replace(found.links[0], first="=1+1"), *found.links[1:]))
    rows = list(csv.DictReader(io.StringIO(odd.to_csv())))
    assert len(rows) == 30
    assert rows[0]["first"] == "'=1+1"
    assert float(rows[0]["log10_lr"]) == pytest.approx(found.links[0].log10_lr, rel=1e-4)


def some_link(first: str, second: str, group: int | None) -> Link:
    return Link(
        *(1, first, second, 3.0, 2.0, 4.0, False, 0.9, 0.1, group is not None, group),
        *({"v": 5.0}, {"v": 0.9}, (4, 4), (400, 400), 0, ("1", "2")),
    )


def test_the_graph_is_xml_whatever_accounts_are_called() -> None:
    names = ("<a & b>", "c\x00\ud800", "d")
    root = ElementTree.fromstring(
        graphml([some_link(names[0], names[1], 1), some_link(names[0], names[2], None)]).encode()
    )
    space = {"g": "http://graphml.graphdrawing.org/xmlns"}
    nodes = [node.get("id") for node in root.findall(".//g:node", space)]
    assert nodes == ["<a & b>", "c\ufffd\ufffd", "d"]
    assert len(root.findall(".//g:edge", space)) == 2


def test_groups_are_connected_and_say_how_many_of_their_pairs_are_linked() -> None:
    assert group_numbers([("a", "b"), ("c", "d"), ("d", "a")]) == dict.fromkeys("abcd", 1)


def test_two_platforms(corpus: Corpus) -> None:
    names = np.array(corpus.authors)
    alias = np.char.startswith(names.astype(str), "alias")
    second = corpus.subset(np.flatnonzero(alias).tolist())
    first = corpus.subset(np.flatnonzero(~alias).tolist())
    told = link(first, second, budget=10)
    assert all(one.first[:3] == "1: " and one.second[:3] == "2: " for one in told.links)
    assert any("across" in line for line in told.warnings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"fdr": 1.5}, "fdr"),
        ({"budget": 0}, "budget"),
        ({"expected": 0.0}, "expected"),
        ({"fewest_words": 10**6}, "0 of 49 accounts have 1000000 words"),
    ],
)
def test_bad_settings_are_one_sentence(
    corpus: Corpus, settings: dict[str, float], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        link(corpus, **settings)  # type: ignore[arg-type]


def test_a_corpus_without_accounts_says_what_is_needed() -> None:
    with pytest.raises(InputError, match="linking needs at least two: name the column"):
        link(Corpus.from_texts(["Some text.", "Another text."]))


def test_the_command_writes_table_and_graph(tmp_path: Path, corpus: Corpus) -> None:
    source = tmp_path / "posts.csv"
    with source.open("w", newline="", encoding="utf-8") as page:
        writer = csv.writer(page)
        writer.writerow(["author", "text"])
        writer.writerows(zip(corpus.authors, corpus.texts, strict=True))
    out, graph = tmp_path / "links.csv", tmp_path / "links.graphml"
    asked = ["link", str(source), "--budget", "12", "--out", str(out), "--graph", str(graph)]
    told = CliRunner().invoke(app, asked)
    assert told.exit_code == 0, told.output
    assert "Prior:" in told.output
    assert "never a finding" in told.output
    assert len(out.read_text().splitlines()) == 13
    ElementTree.parse(graph)
