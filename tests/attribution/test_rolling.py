"""Windows along a text: where its author changes, where nobody enrolled wrote it."""

import csv
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from attribution.people import corpus, name, quick, strangers, texts_by
from whowrote.attribution import Attributor
from whowrote.attribution.rolling import (
    OVERLAP,
    Milestone,
    Rolling,
    change_points_of,
    milestones_by_pattern,
    milestones_of_lines,
)
from whowrote.cli import app
from whowrote.errors import InputError


@pytest.fixture(scope="module")
def model() -> Attributor:
    """Eight people: enough to leave each out in turn."""
    texts = [text for author in range(8) for text in texts_by(author, 8, words=250)]
    return Attributor("ngrams").fit(texts, [name(author) for author in range(8) for _ in range(8)])


def joined(*authors: int) -> str:
    return " ".join(text for one in authors for text in texts_by(one, 4, words=250, seed=6))


@pytest.fixture(scope="module")
def spliced(model: Attributor) -> Rolling:
    strange = " ".join(strangers(8))
    text = " ".join([joined(1), strange, joined(2)])
    return model.fitted().roll(text, 250, 50)


def test_a_splice_is_cut_where_it_was_joined(spliced: Rolling) -> None:
    first, second = spliced.change_points
    assert abs(first - spliced.words / 3) < 250
    assert abs(second - 2 * spliced.words / 3) < 250
    assert [one.author for one in spliced.segments] == [name(1), None, name(2)]


def test_it_shows_itself_in_a_notebook(spliced: Rolling) -> None:
    names = ("<script>alert(1)</script>", *spliced.authors[1:])
    parts = tuple(replace(one, author=names[0]) for one in spliced.segments[:1])
    html = replace(spliced, authors=names, segments=parts + spliced.segments[1:])._repr_html_()
    assert "<script" not in html
    assert "&lt;script" in html
    assert "none of these" in html
    assert name(2) in html


def test_style_vectors_change_where_the_author_does(hybrid: Attributor) -> None:
    found = hybrid.fitted().roll(joined(1), 250, 50, bands=False)
    assert found.styles is not None
    np.testing.assert_allclose(np.linalg.norm(found.styles, axis=1), 1.0)
    assert "styles" not in found.to_dict()


def styled(found: Rolling, apart: float, best: tuple[int, int]) -> Rolling:
    """Style vectors of two directions, one in either half, with who is best there."""
    half = len(found.windows) // 2
    vectors = np.zeros((len(found.windows), 2))
    vectors[:half], vectors[half:] = (1.0, 0.0), (np.cos(apart), np.sin(apart))
    who = [best[int(row >= half)] for row in range(len(vectors))]
    probabilities = [tuple(np.eye(len(found.authors))[one]) for one in who]
    pairs = zip(found.windows, probabilities, strict=True)
    windows = tuple(replace(one, probabilities=p) for one, p in pairs)
    return replace(found, styles=vectors, windows=windows)


@pytest.mark.parametrize(("share", "same", "other"), [(0.8, 0, 0), (1.2, 0, 1), (1.8, 1, 1)])
def test_a_change_within_one_author_must_gain_more(
    spliced: Rolling, share: float, same: int, other: int
) -> None:
    """``share``: what the change gains, in penalties."""
    n, penalty = len(spliced.windows), 0.5
    half = n // 2
    weighed = penalty * spliced.window / (OVERLAP * spliced.step)
    squared = share * weighed * n / (half * (n - half))
    apart = 2 * np.arcsin(np.sqrt(squared) / 2)
    for best, points in (((0, 0), same), ((0, 1), other)):
        assert len(change_points_of(styled(spliced, apart, best), penalty)) == points


def test_one_author_has_no_change_point(model: Attributor) -> None:
    found = model.fitted().roll(joined(3, 3), 250, 50, bands=False)
    assert found.change_points == ()
    assert found.segments[0].author == name(3)


def test_shares_add_up_and_bands_hold_the_probability(spliced: Rolling) -> None:
    np.testing.assert_allclose(spliced.shares().sum(axis=1), 1.0, atol=1e-6)
    for one in spliced.windows:
        triples = zip(one.low, one.probabilities, one.high, strict=True)
        assert all(low <= p + 1e-9 and p <= high + 1e-9 for low, p, high in triples)
    assert spliced.windows[-1].end == spliced.words


def test_csv_has_a_row_per_window(spliced: Rolling) -> None:
    rows = list(csv.DictReader(io.StringIO(spliced.to_csv())))
    assert len(rows) == len(spliced.windows)
    assert rows[0]["answer"] == name(1)
    assert float(rows[0][name(1)]) > 0.9


def test_what_cannot_be_rolled_is_refused(model: Attributor) -> None:
    fitted = model.fitted()
    with pytest.raises(InputError, match="window is 50; it must be at least"):
        fitted.roll(joined(1), 50, 25)
    with pytest.raises(InputError, match="step is 0"):
        fitted.roll(joined(1), 250, 0)
    with pytest.raises(InputError, match="the text has 2 words"):
        fitted.roll("two words")


def test_milestones() -> None:
    assert milestones_of_lines("1\tAct 1\n20 End")[1] == Milestone(19, "End")
    with pytest.raises(InputError, match="line 1 of the milestones is 'Act 1'"):
        milestones_of_lines("Act 1")
    with pytest.raises(InputError, match="nowhere in the text"):
        milestones_by_pattern("no heading", "^CHAPTER")
    with pytest.raises(InputError, match="neither a file nor a regular expression"):
        milestones_by_pattern("text", "(")


def test_commands(model: Attributor, tmp_path: Path) -> None:
    folder, text = model.save(tmp_path / "m"), tmp_path / "text.txt"
    text.write_text("PART one\n" + joined(1) + "\nPART two\n" + joined(2), encoding="utf-8")
    runner = CliRunner()
    more = ["--window", "250", "--step", "100", "--milestones", "^PART \\w+", "--quiet"]
    outputs = ["--plot", str(tmp_path / "p.svg"), "--csv", str(tmp_path / "t.csv")]
    done = runner.invoke(app, ["roll", str(folder), str(text), *more, *outputs])
    assert done.exit_code == 0, done.output
    assert (
        "PART two" in (tmp_path / "p.svg").read_text(encoding="utf-8")
        or (tmp_path / "p.svg").stat().st_size > 10_000
    )
    assert (tmp_path / "t.csv").is_file()
    text.write_text(joined(1)[:1500], encoding="utf-8")
    page = tmp_path / "why.html"
    done = runner.invoke(app, ["explain", str(folder), str(text), "--html", str(page)])
    assert done.exit_code == 0, done.output
    assert "Sentences that count most" in done.stdout
    assert page.is_file()


def test_where_strangers_are_not_learnt_typicality_decides() -> None:
    found = quick().fit(*corpus(2, 8)).fitted().roll(joined(0, 1), 250, 50, bands=False)
    assert not found.strangers_known
    assert {one.other for one in found.windows} <= {0.0, 1.0}
