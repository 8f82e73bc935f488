"""Table and figures from a few made-up records, the verdicts, the commands, and the page."""

import json
import re
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from experiments.made_up import DIMENSIONS, SIZES, trial, trials
from whowrote.cli import app
from whowrote.errors import InputError
from whowrote.plots import Panel
from whowrote_experiments import claims
from whowrote_experiments.dimensions import dimensions, tails
from whowrote_experiments.figures import figure5
from whowrote_experiments.page import MISSING, fill
from whowrote_experiments.paired import corrected_t_test
from whowrote_experiments.pinwheel import read_panels, write_panels
from whowrote_experiments.table1 import (
    EXTENDED,
    FOUR,
    FREE_TAILS,
    PUBLISHED,
    READINGS,
    STUDENT,
    table1,
    title,
)
from whowrote_experiments.trials import Trials, write

ROOT = Path(__file__).parents[2]
EVERY = tuple(dict.fromkeys((*FOUR, *EXTENDED, FREE_TAILS, *READINGS, *READINGS.values())))


@pytest.fixture
def records(tmp_path: Path) -> Path:
    write(trials(EVERY), tmp_path / "records" / "made_up.parquet")
    return tmp_path / "records"


def test_the_table_is_mean_and_spread_of_what_folds_chose() -> None:
    made = trials()
    table = table1(made)
    assert list(table.cells) == [(method, share) for method in FOUR for share in SIZES]
    assert table1(trials(EVERY)).methods[:5] == [*READINGS, STUDENT]
    cell = table.cells["GMM-VAE", 0.2]
    own = [row for row in made.rows if (row.method, row.share) == ("GMM-VAE", 0.2)]
    best = [
        min((row for row in own if row.fold == fold), key=lambda row: row.development_error or 1)
        for fold in range(5)
    ]
    errors = [row.test_error for row in best]
    assert cell.mean == pytest.approx(np.mean(errors))
    assert cell.spread == pytest.approx(np.std(errors, ddof=1))


def test_the_table_compares_fold_by_fold() -> None:
    table = table1(trials())
    (one,) = (c for c in table.against("SMM-VAE") if (c.second, c.share) == ("SVM (linear)", 0.2))
    sides = [table.cells[name, 0.2].errors for name in ("SMM-VAE", "SVM (linear)")]
    assert one.test == corrected_t_test(*sides, 20 / 32)
    assert one.test.difference < 0


def test_folds_that_only_one_side_has_are_not_compared() -> None:
    rows = [row for row in trials().rows if row.method != "GMM-VAE" or row.fold in (1, 3, 4)]
    found = table1(Trials(tuple(rows))).against("SMM-VAE")
    assert {c.test.n_folds for c in found if c.second == "GMM-VAE"} == {3}
    assert {c.test.n_folds for c in found if c.second != "GMM-VAE"} == {5}


def test_nu_of_an_author_is_the_geometric_mean_over_folds() -> None:
    rows = [trial(fold=fold, df=[2.0 * 4**fold, 3.0]) for fold in (0, 1)]
    found = tails(dimensions(Trials(tuple(rows))), 1.0)
    assert found[20].tolist() == pytest.approx([4.0, 3.0])


def test_the_published_figures() -> None:
    assert all(len(own) == 5 for own in PUBLISHED.values())
    for place in range(5):
        assert min(PUBLISHED, key=lambda name: PUBLISHED[name][place]) == "SMM-VAE"


# -- verdicts ------------------------------------------------------------------------------------


def test_verdicts_say_yes() -> None:
    table, found = table1(trials(EVERY)), dimensions(trials(EVERY))
    assert claims.lowest_error(table).holds
    assert claims.falls_with_data(table).holds
    assert claims.tails_get_heavier(found).holds
    assert "points ahead of GMM-VAE, joint (p = 0." in claims.lowest_error(table).why


def test_verdicts_say_no() -> None:
    """Negative control: the better method has the worse one's name, and sizes are turned round."""
    swap = {"SMM-VAE": "GMM-VAE", "GMM-VAE": "SMM-VAE"}
    turned = {0.2: 1.0, 1.0: 0.2}
    rows = tuple(
        replace(row, method=swap.get(row.method, row.method), share=turned[row.share])
        for row in trials().rows
    )
    table = table1(Trials(rows))
    assert claims.lowest_error(table).holds is False
    assert "points behind GMM-VAE, joint" in claims.lowest_error(table).why
    falls = claims.falls_with_data(table)
    assert falls.holds is False
    named = "SMM-VAE, bound, joint, linear nu"
    assert falls.why.startswith(f"0 of 4 steps fall (not: {named} from 20% to 100% by ")


def test_tails_that_get_lighter() -> None:
    rows = tuple(
        trial(fold=fold, settings={"latent_dim": d}, df=[d / 10, d / 5])
        for fold in (0, 1)
        for d in DIMENSIONS
    )
    verdict = claims.tails_get_heavier(dimensions(Trials(rows)))
    assert verdict.holds is False
    assert "median nu 3.00 (D = 20), 7.50 (D = 50)" in verdict.why


@pytest.mark.parametrize(
    ("best", "holds"), [((20, 50), True), ((50, 20), False), ((20, 20), False)]
)
def test_the_best_dimension(best: tuple[int, int], holds: bool) -> None:
    rows = tuple(
        trial(
            share=share,
            fold=fold,
            settings={"latent_dim": d},
            test_error=0.1 + 0.1 * (d != own),
            development_error=0.1 + 0.1 * (d != own),
        )
        for share, own in zip(SIZES, best, strict=True)
        for d in DIMENSIONS
        for fold in (0, 1)
    )
    verdict = claims.dimension_grows(dimensions(Trials(rows)))
    assert verdict.holds is holds
    assert f"20%: D = {best[0]} (folds choose {best[0]}, {best[0]})" in verdict.why


def test_half_a_sweep_gives_no_verdict() -> None:
    table = table1(trials(("SMM-VAE", "GMM-VAE")))
    assert claims.lowest_error(table).holds is None
    assert claims.falls_with_data(table).holds is None
    assert str(claims.extension(table)).startswith(MISSING)
    assert claims.clusters_stay_apart(None).holds is None
    rows = [row for row in trials().rows if row.method != "GMM-VAE" or row.fold < 4]
    assert claims.lowest_error(table1(Trials(tuple(rows)))).holds is None


def test_the_pinwheel_holds_by_its_record() -> None:
    record = json.loads((ROOT / "experiments/results/pinwheel.json").read_text())
    assert claims.clusters_stay_apart(record).holds
    record["summary"]["student-t VAE"]["worst"] = 0.9
    assert claims.clusters_stay_apart(record).holds is False


# -- commands ------------------------------------------------------------------------------------


def call(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["experiment", *map(str, arguments)], env={"COLUMNS": "160"})
    assert done.exit_code == 0, done.output
    return done.output


def test_table1(records: Path) -> None:
    shown = call("table1", "--records", records)
    fits = len(trials(EVERY))
    assert f"{fits} of {fits} fits" in shown
    assert "corrected resampled t-test" in shown
    assert re.search(r"SVM \(RBF kernel\) +\d+\.\d\d ± \d\.\d\d", shown)
    plain = json.loads(call("table1", "--records", records, "--json"))
    assert plain["rows"][0]["folds"][0]["split"] == "split-0-0.2"


def test_a_table_of_what_a_killed_sweep_left(tmp_path: Path) -> None:
    made = trials()
    kept = [row for row in made.rows if row.method != "SVM (RBF kernel)" or row.fold < 2]
    write(Trials(tuple(kept), made.expected), tmp_path / "some.parquet")
    shown = call("table1", "--records", tmp_path)
    assert f"{len(kept)} of {len(made)} fits" in shown
    assert "unfinished: SVM (RBF kernel) 12 of 30" in shown
    assert "(2 of 5 folds)" in shown


@pytest.mark.parametrize("number", [3, 4, 5])
def test_figures(number: int, records: Path, tmp_path: Path) -> None:
    shown = call(f"figure{number}", "--records", records, "--out", tmp_path)
    fits = len(trials({3: EVERY, 4: FOUR[:2], 5: FOUR[:1]}[number]))
    assert f"{fits} of {fits} fits" in shown
    assert (tmp_path / f"figure{number}.png").stat().st_size > 5_000
    drawn = (tmp_path / f"figure{number}.svg").read_text()
    assert drawn.count("<g id=") > 20


def test_figure2(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    panels = [Panel(t, random.normal(size=(40, 2)), np.arange(40) % 5) for t in ("one", "two")]
    write_panels(panels, tmp_path / "panels.npz")
    assert [panel.title for panel in read_panels(tmp_path / "panels.npz")] == ["one", "two"]
    call("figure2", "--record", tmp_path / "panels.npz", "--out", tmp_path)
    assert (tmp_path / "figure2.svg").is_file()
    with pytest.raises(InputError, match="make them with `whowrote experiment pinwheel`"):
        read_panels(tmp_path / "none.npz")


def test_the_committed_panels_of_figure_2() -> None:
    panels = read_panels(ROOT / "experiments" / "results" / "pinwheel.npz")
    assert [len(panel.points) for panel in panels] == [2000] * 4
    assert all(len(np.unique(panel.groups)) == 5 for panel in panels)


def test_figures_need_their_fits() -> None:
    with pytest.raises(InputError, match="fit those first"):
        dimensions(trials(("SVM (linear)",)))
    with pytest.raises(InputError, match="'GMM-VAE' has no degrees of freedom"):
        figure5(dimensions(trials(), ["GMM-VAE"]))


def test_fit_and_pack(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = random.normal(size=(60, 4)) + 2 * y[:, None]
    np.savez(tmp_path / "vectors.npz", X=X, y=y)
    tiny, out = ROOT / "experiments/published/tiny.toml", tmp_path / "records"
    part = ["--method", "SMM-VAE", "--method", "SVM (linear)", "--size", 1.0, "--device", "cpu"]
    shown = call("fit", tiny, "--vectors", tmp_path / "vectors.npz", "--out", out, *part)
    assert "SMM-VAE 4 of 8" in shown
    packed = call("pack", out, "--to", tmp_path / "all.parquet")
    assert "8 of" in packed
    assert "SVM (linear)" in call(
        "table1", "--records", tmp_path / "all.parquet", "--corpus", "tiny"
    )


# -- the page ------------------------------------------------------------------------------------


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.syspath_prepend(ROOT / "experiments" / "published")
    yield import_module("page")
    del sys.modules["page"]


def test_the_page_is_filled_from_records(
    page: object, records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "published.md"
    target.write_text((ROOT / "docs" / "published.md").read_text())
    changes = tmp_path / "changes"
    write(trials(("SMM-VAE, plain", "SMM-VAE, changed")), changes / "made_up.parquet")
    arguments = ["page.py", "--records", records, "--changes", changes, "--page", target]
    monkeypatch.setattr(sys, "argv", list(map(str, arguments)))
    page.main()  # type: ignore[attr-defined]
    text = target.read_text()
    assert text.count(MISSING) == 1  # no reviews in these records
    assert "**Yes.** Lowest at 2 of 2 sizes" in text
    bold = [line.split(" | ")[0] for line in text.splitlines() if "**" in line]
    student = [f"| {title(name)}" for name in (STUDENT, EXTENDED[0], *READINGS)]
    assert set(student) & set(bold)
    assert all(f"\n*{name}*\n" in text for name in READINGS)
    assert "| SMM-VAE, changed | " in text
    assert (tmp_path / "figure5_free_tails.png").is_file()


def test_the_committed_page_is_what_the_records_say(
    page: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "published.md"
    committed = (ROOT / "docs" / "published.md").read_text()
    target.write_text(committed)
    monkeypatch.setattr(sys, "argv", ["page.py", "--page", str(target)])
    page.main()  # type: ignore[attr-defined]
    assert target.read_text() == committed


def test_a_page_without_the_section_is_an_error() -> None:
    with pytest.raises(InputError, match="no section between <!-- a -->"):
        fill("nothing", {"a": "b"})
    assert fill("<!-- a --><!-- /a -->", {"a": r"\d \1"}) == "<!-- a -->\n\\d \\1\n<!-- /a -->"
