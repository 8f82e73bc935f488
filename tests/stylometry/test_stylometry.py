"""Delta, Zeta, trees and two sides: known answers, invariances, and what must find nothing."""

import csv
import io
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from typer.testing import CliRunner

from whowrote import Corpus, load
from whowrote.cli import app
from whowrote.errors import InputError
from whowrote.plots.style import svg
from whowrote.plots.trees import consensus_tree, distance_map, zeta_words
from whowrote.stylometry import consensus, distances, zeta
from whowrote.stylometry.comparison import keywords, measures
from whowrote.stylometry.delta import Frequencies, edge_list, graphml, joined_samples

WORDS = [f"w{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(120)]
runner = CliRunner()


def written(author: int, seed: int, words: int = 1500) -> str:
    """A text with the author's preferences among 120 words."""
    likes = np.random.default_rng([3, author]).dirichlet(np.full(len(WORDS), 2.0))
    return " ".join(np.random.default_rng([4, author, seed]).choice(WORDS, words, p=likes))


def three_authors(asked: int = 0) -> Corpus:
    texts = [written(author, seed) for author in range(3) for seed in range(4)]
    names: list[str | None] = [f"Author {author}" for author in range(3) for _ in range(4)]
    texts += [written(1, 90 + n) for n in range(asked)]
    return Corpus.from_texts(texts, names + [None] * asked)


# -- distances -----------------------------------------------------------------------------------


def test_delta_is_the_mean_absolute_difference_of_standardised_shares() -> None:
    table = Frequencies.of(["a a b", "a b b", "b b b"], 2)
    shares = np.array([[2, 1], [1, 2], [0, 3]]) / 3  # b before a: five of nine
    z = (shares - shares.mean(axis=0)) / shares.std(axis=0, ddof=1)
    assert table.words == ("b", "a")
    assert table.delta(2)[0, 2] == pytest.approx(np.abs(z[0] - z[2]).mean())
    assert table.delta(2, cosine=True)[0, 2] == pytest.approx(2.0)  # opposite directions


@pytest.mark.parametrize("method", ["delta", "cosine-delta", "ngrams"])
def test_the_nearest_text_is_by_the_same_author_but_not_of_shuffled_ones(method: str) -> None:
    corpus = three_authors()
    found = distances(corpus, method)
    np.testing.assert_allclose(found.table, found.table.T)
    right = [corpus.authors[found.nearest(row, 1)[0]] == corpus.authors[row] for row in range(12)]
    assert sum(right) >= 11
    shuffled = np.random.default_rng(0).permutation(12)
    wrong = [
        corpus.authors[shuffled[found.nearest(row, 1)[0]]] == corpus.authors[shuffled[row]]
        for row in range(12)
    ]
    assert sum(wrong) < 9


def test_the_plane_keeps_distances_that_fit_into_it() -> None:
    found = distances(three_authors())
    places = np.random.default_rng(0).normal(size=(12, 2))
    table = np.linalg.norm(places[:, None] - places[None], axis=2)
    flat = type(found)("flat", None, found.names, found.authors, table)
    points = flat.plane()
    np.testing.assert_allclose(np.linalg.norm(points[:, None] - points[None], axis=2), table)
    assert flat.kept() == pytest.approx(1.0)
    assert found.kept() < 0.9


def test_bad_requests_are_one_sentence() -> None:
    with pytest.raises(InputError, match=r"method is 'dleta'; it must be one of .*delta"):
        distances(three_authors(), "dleta")
    with pytest.raises(InputError, match="2 texts; a table of distances needs 3"):
        distances(Corpus.from_texts(["a", "b"]))
    with pytest.raises(InputError, match=r"strength is 0\.3"):
        consensus(three_authors(), strength=0.3)
    with pytest.raises(InputError, match="A has 1 segment of 2000 words"):
        zeta(["one text"], ["another"])


# -- Zeta ----------------------------------------------------------------------------------------


def test_zeta_is_the_difference_of_shares_of_segments() -> None:
    first = ["only common " * 30 + "both " * 40] * 4
    second = ["common both " * 50] * 3 + ["common both only " * 33]
    found = zeta(first, second, segment_words=100)
    assert found.segments == (4, 4)
    assert [(one.word, one.zeta, one.second) for one in found.first] == [("only", 0.75, 0.25)]
    assert found.second == ()


def test_a_planted_word_is_above_chance_and_nothing_is_between_texts_of_one_author() -> None:
    one = [f"{written(0, n, 300)} whilst {written(0, n + 50, 300)}" for n in range(8)]
    other = [written(0, n + 100, 600) for n in range(8)]
    found = zeta(one, other, segment_words=600)
    assert found.first[0].word == "whilst"
    assert found.chance is not None
    assert found.first[0].zeta > found.chance
    nothing = zeta(other[:4], other[4:], segment_words=600)
    assert nothing.chance is not None
    strongest = [*nothing.first[:1], *nothing.second[:1]]
    assert all(abs(one.zeta) <= nothing.chance for one in strongest)


# -- trees ---------------------------------------------------------------------------------------


def test_a_questioned_text_stands_with_its_author() -> None:
    found = consensus(three_authors(asked=2), bands=(40, 60, 80, 100, 120))
    for row in (12, 13):
        company = found.company(row)
        assert company is not None
        assert set(company[1]) == {"Author 1"}
        assert company[0].share > 0.5


def test_groups_are_nested_or_disjoint_and_texts_without_authors_keep_few() -> None:
    found = consensus(three_authors(), bands=(40, 60, 80, 100, 120))
    for one in found.groups:
        for other in found.groups:
            shared = set(one.members) & set(other.members)
            assert not shared or shared in (set(one.members), set(other.members))
    noise = Corpus.from_texts([written(0, n) for n in range(12)], ["A", "B", "C"] * 4)
    assert len(consensus(noise, bands=found.bands).groups) < len(found.groups)


def test_exports_have_every_text_and_every_edge() -> None:
    corpus = three_authors(asked=1)
    names = ["it's", *corpus.ids[1:]]
    found = consensus(Corpus.from_texts(corpus.texts, corpus.authors, ids=names), bands=(50, 100))
    newick = found.newick()
    assert newick.count("(") == newick.count(")") == len(found.groups)
    assert newick.endswith(";")
    leaves = re.findall(r"'((?:[^']|'')*)'", newick)
    assert sorted(leaf.replace("''", "'") for leaf in leaves) == sorted(names)
    rows = list(csv.reader(io.StringIO(edge_list(found))))
    assert rows[0] == ["Source", "Target", "Weight", "Type"]
    graph = ElementTree.fromstring(graphml(found))
    space = "{http://graphml.graphdrawing.org/xmlns}"
    assert len(graph.findall(f".//{space}node")) == 13
    assert len(graph.findall(f".//{space}edge")) == len(rows) - 1 == len(found.edges)
    assert sum(edge.weight for edge in found.edges) == 13 * (3 + 2 + 1) * 2


def test_known_texts_are_joined_and_questioned_ones_stay_alone() -> None:
    joined = joined_samples(three_authors(asked=2), 3000)
    assert joined.authors.count(None) == 2
    assert len(joined) == 3 * 2 + 2
    assert min(joined.word_counts[:6]) >= 3000


def test_pictures_show_every_name() -> None:
    corpus = three_authors(asked=1)
    tree = svg(consensus_tree(consensus(corpus, bands=(50, 100))))
    assert tree == svg(consensus_tree(consensus(corpus, bands=(50, 100))))
    assert "</svg>" in svg(distance_map(distances(corpus)))
    assert "</svg>" in svg(zeta_words(zeta(corpus.texts[:4], corpus.texts[4:8], segment_words=500)))


# -- two sides -----------------------------------------------------------------------------------


def test_a_word_of_one_text_alone_has_limits_that_include_nothing() -> None:
    spread = [f"upon {written(0, n, 200)}" for n in range(8)]
    burst = [written(0, n + 20, 200) for n in range(8)]
    burst[0] += " whale" * 8
    ours, theirs = keywords(spread, burst)
    upon = next(key for key in ours if key.word == "upon")
    whale = next(key for key in theirs if key.word == "whale")
    assert upon.low > 0
    assert whale.high >= 0 > whale.log2_ratio  # G2 alone would call both equally sure
    assert whale.g2 == pytest.approx(upon.g2, rel=0.2)


def test_figures_differ_where_they_do_and_not_between_samples_of_one_author() -> None:
    commas = [written(0, n, 300).replace(" wa", ", wa") for n in range(10)]
    plain = [written(0, n + 30, 300) for n in range(10)]
    more = [text.replace(" wb", ", wb", 5) for text in plain]
    assert {one.name for one in measures(commas, more) if one.differ} >= {"commas"}
    same = [one for one in measures(plain[:5], plain[5:]) if one.differ]
    assert len(same) <= 1


# -- The Federalist ------------------------------------------------------------------------------


def test_the_federalist_as_the_field_knows_it(data: Path, tmp_path: Path) -> None:
    path = str(data / "federalist.parquet")
    found = json.loads(
        runner.invoke(app, ["zeta", "Hamilton", "Madison", "--corpus", path, "--json"]).stdout
    )
    assert found["first"][0]["word"] == "upon"
    assert found["first"][0]["zeta"] > found["chance"]
    assert found["second"][0]["word"] == "whilst"
    options = ["--id-column", "number", "--questioned", "disputed", "--leave-out", "joint"]
    newick = tmp_path / "tree.nwk"
    more = ["--samples", "8000", "--newick", str(newick), "--plot", str(tmp_path / "tree.png")]
    shown = runner.invoke(app, ["tree", path, *options, *more], env={"COLUMNS": "80"})
    assert shown.exit_code == 0
    assert shown.stdout.count("Madison (4)") == 12
    assert newick.read_text().endswith(";\n")
    wrong = runner.invoke(app, ["tree", path, "--questioned", "Shakespeare"])
    assert isinstance(wrong.exception, InputError)


def test_the_commands_answer(tmp_path: Path) -> None:
    corpus = three_authors(asked=1)
    for row, (text, author) in enumerate(zip(corpus.texts, corpus.authors, strict=True)):
        folder = tmp_path / (author or "asked")
        folder.mkdir(exist_ok=True)
        (folder / f"{row}.txt").write_text(text)
    assert len(load(tmp_path)) == 13
    table = tmp_path.parent / f"{tmp_path.name}.csv"
    shown = runner.invoke(
        app, ["distances", str(tmp_path), "--questioned", "asked", "--csv", str(table)]
    )
    assert shown.exit_code == 0, shown.output
    assert "(Author 1)" in shown.stdout
    assert len(table.read_text().splitlines()) == 14
    sides = [str(tmp_path / "Author 0"), str(tmp_path / "Author 1")]
    both = json.loads(runner.invoke(app, ["compare", *sides, "--json"]).stdout)
    assert both["delta"]["between"] > max(both["delta"]["first"], both["delta"]["second"])
    assert both["ratio"]["propositions"]
    assert runner.invoke(app, ["compare", *sides]).exit_code == 0
    assert runner.invoke(app, ["zeta", *sides, "--segment-words", "500"]).exit_code == 0
