"""The published evaluation, small: fitted in parts, resumed, chosen without test labels."""

import re
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from threads import one_thread as one_thread
from whowrote.corpus.splits import Split, folds
from whowrote.errors import InputError
from whowrote.sweep import Record
from whowrote_experiments import published
from whowrote_experiments.choice import best_fits
from whowrote_experiments.protocol import Method, Part, Protocol, Unit, read_protocol, units
from whowrote_experiments.published import Step, load_material, run
from whowrote_experiments.svms import Material, svm_records
from whowrote_experiments.table1 import FREE_TAILS
from whowrote_experiments.trials import Trials, fit_key, read

ROOT = Path(__file__).parents[2]
PROTOCOLS = ROOT / "experiments" / "published"
WORDS = (("red", "sun", "walk;"), ("blue", "moon", "run!"), ("green", "star", "swim,"))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three authors, each with vectors (vectors.npz) and texts (texts.csv) of their own."""
    folder = tmp_path_factory.mktemp("corpus")
    random = np.random.default_rng(0)
    authors = np.arange(120) % 3
    X = random.normal(size=(120, 6)) + 1.2 * random.normal(size=(3, 6))[authors]
    np.savez(folder / "vectors.npz", X=X.astype(np.float16), y=np.array(list("abc"))[authors])
    lines = ["author,text"]
    for number, k in enumerate(authors):
        own = " ".join(random.choice(WORDS[k], 12)).replace(",", "")
        lines.append(f"{'abc'[k]},{own} number {number}")
    (folder / "texts.csv").write_text("\n".join(lines))
    return folder


@pytest.fixture(scope="module")
def material(corpus: Path) -> Material:
    return load_material("tiny", corpus / "vectors.npz", corpus / "texts.csv")


@pytest.fixture(scope="module")
def protocol() -> Protocol:
    return read_protocol(PROTOCOLS / "tiny.toml")


@pytest.fixture(scope="module")
def fitted(
    protocol: Protocol, material: Material, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Trials, Path]:
    out = tmp_path_factory.mktemp("records")
    return run(protocol, material, out, device="cpu"), out


def test_every_fit_of_every_method_is_there(
    fitted: tuple[Trials, Path], protocol: Protocol
) -> None:
    found, _ = fitted
    assert found.counts() == {name: (n, n) for name, n in protocol.expected()["tiny"].items()}
    assert found.methods == [method.name for method in protocol.methods]
    assert all(row.test_error is not None for row in found.rows)
    splits = {(row.fold, row.share): row.split for row in found.rows}
    assert len(set(splits.values())) == 4
    assert all(row.split == splits[row.fold, row.share] for row in found.rows)


def test_what_is_there_is_not_fitted_again(
    fitted: tuple[Trials, Path], protocol: Protocol, material: Material
) -> None:
    steps: list[Step] = []
    again = run(protocol, material, fitted[1], device="cpu", report=steps.append)
    assert all(step.found for step in steps)
    assert sorted(again.rows, key=str) == sorted(read(fitted[1]).rows, key=str)
    other = replace(material, hash="of other vectors")
    run(protocol, other, fitted[1], Part(["SVM (linear)"], [1.0]), report=steps.append)
    assert not steps[-1].found  # negative control
    for path in fitted[1].glob("*"):
        if any(row.data == other.hash for row in read(path).rows):
            path.unlink()


def test_a_unit_that_was_interrupted_goes_on_with_its_records(
    protocol: Protocol, material: Material, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = Part(["SMM-VAE"], [1.0], dimensions=[2])

    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(published.files, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(protocol, material, tmp_path, part, device="cpu")
    records = list(tmp_path.glob("*.records/??/*.json"))
    assert len(records) == 2
    with monkeypatch.context() as patch:
        patch.setattr("whowrote.sweep.runner.fit_group", None)  # nothing is fitted again
        assert len(run(protocol, material, tmp_path, part, device="cpu")) == 2
    assert [path.suffix for path in tmp_path.iterdir()] == [".parquet"]


def test_parts_make_the_same_whole(
    fitted: tuple[Trials, Path], protocol: Protocol, material: Material, tmp_path: Path
) -> None:
    for part in (Part(["SMM-VAE"], dimensions=[2]), Part(["SMM-VAE"], [1.0], [1], [1])):
        some = run(protocol, material, tmp_path, part, device="cpu")
    assert "SMM-VAE 5 of 8" in some.coverage()
    whole = {fit_key(row): row for row in fitted[0].rows}
    for row in some.rows:
        assert row.test_error == whole[fit_key(row)].test_error
        assert row.df == pytest.approx(whole[fit_key(row)].df, rel=0.01)


def test_ensembles_average_what_the_fold_has_chosen(fitted: tuple[Trials, Path]) -> None:
    rows = [row for row in fitted[0].rows if row.method == "SMM-VAE, extended"]
    for fold, share in {(row.fold, row.share) for row in rows}:
        own = [row for row in rows if (row.fold, row.share) == (fold, share)]
        single = [row for row in own if "n_members" not in row.settings]
        best = single[best_fits([row.candidate() for row in single], lambda row: 0)[0]]
        several = [row.settings for row in own if "n_members" in row.settings]
        assert sorted(settings["n_members"] for settings in several) == [2, 3]
        assert all(settings["dropout"] == best.settings["dropout"] for settings in several)


def test_ensembles_need_their_single_fits(
    protocol: Protocol, material: Material, fitted: tuple[Trials, Path], tmp_path: Path
) -> None:
    for path in fitted[1].glob("*extended-050-ensembles*"):
        shutil.copy(path, tmp_path)
    unit = units(protocol, Part(["GMM-VAE, extended"], [1.0]))[-1]
    with pytest.raises(InputError, match="put the files of all parts there first"):
        published._ensembles(unit, material, dict(enumerate(whole(material))), tmp_path, "cpu")


def whole(material: Material) -> tuple[Split, ...]:
    return folds(material.y.tolist(), n_folds=2)


@pytest.mark.parametrize("method", ["SMM-VAE", "SVM (linear)", "SVM (RBF kernel)"])
def test_corrupting_every_test_label_changes_no_choice(
    method: str, protocol: Protocol, material: Material
) -> None:
    """The rows of the test half get wrong authors; settings chosen in that fold stay the same."""
    split = whole(material)[0]
    unit = _unit(protocol, method)
    before = _fits(unit, material, split, protocol)
    after = _fits(unit, _mislabelled(material, split.test), split, protocol)
    assert [row.test_error for row in after] != [row.test_error for row in before]
    assert _choice(after) == _choice(before)
    assert _seen(after) == _seen(before)  # not even a development figure moves
    control = _fits(unit, _mislabelled(material, split.development), split, protocol)
    assert _seen(control) != _seen(before)  # negative control


def _unit(protocol: Protocol, method: str) -> Unit:
    return next(
        replace(unit, folds=(0,))
        for unit in units(protocol, Part([method], [1.0]))
        if not unit.ensembles
    )


def _fits(unit: Unit, material: Material, split: Split, protocol: Protocol) -> list[Record]:
    if unit.method.kind == "vae":
        wide = replace(unit.method, grid={**unit.method.grid, "learning_rate": [0.01, 0.03]})
        unit = replace(unit, method=wide)
        with tempfile.TemporaryDirectory() as folder:
            return published._sweep(unit, material, {0: split}, protocol, "cpu", Path(folder))
    return svm_records(unit, material, {0: split})


def _mislabelled(material: Material, rows: tuple[int, ...]) -> Material:
    y = material.y.copy()
    names = np.unique(y)
    y[list(rows)] = names[(np.searchsorted(names, y[list(rows)]) + 1) % len(names)]
    return replace(material, y=y)


def _choice(rows: list[Record]) -> str:
    candidates = [row.candidate() for row in rows]
    return candidates[best_fits(candidates, lambda row: row.fold)[0]].settings_text


def _seen(rows: list[Record]) -> list[tuple[str, float | None]]:
    return sorted((row.settings_text, row.development_error) for row in rows)


def test_the_plan_of_a_method_reaches_its_fits_and_its_file(
    protocol: Protocol, material: Material, tmp_path: Path
) -> None:
    unit, split = _unit(protocol, "SMM-VAE"), whole(material)[0]
    steady = replace(unit, method=replace(unit.method, plan={"final_rate": 1.0}))
    fits = [
        published._sweep(one, material, {0: split}, protocol, "cpu", tmp_path / str(number))
        for number, one in enumerate((unit, steady))
    ]
    assert [own[0].protocol["final_rate"] for own in fits] == [0.05, 1.0]
    assert fits[0][0].development_log_loss != fits[1][0].development_log_loss
    marks = [published._mark(one, material, protocol) for one in (unit, steady)]
    assert marks[0] != marks[1]
    unknown = replace(unit, method=replace(unit.method, plan={"final": 1.0}))
    with pytest.raises(InputError, match="did you mean 'final_rate'"):
        published._sweep(unknown, material, {0: split}, protocol, "cpu", tmp_path / "none")


def test_processes_give_what_one_gives(protocol: Protocol, material: Material) -> None:
    unit, splits = _unit(protocol, "SVM (RBF kernel)"), {0: whole(material)[0]}
    alone, spread = (svm_records(unit, material, splits, workers=n) for n in (1, 2))
    assert [replace(row, seconds=0.0) for row in alone] == [
        replace(row, seconds=0.0) for row in spread
    ]


def test_the_published_grid_is_the_published_grid() -> None:
    protocol = read_protocol(PROTOCOLS / "blog30.toml")
    expected = protocol.expected()["blog30"]
    assert expected["SMM-VAE"] + expected["GMM-VAE"] == 25_000
    smm, gmm = protocol.methods[:2]
    assert smm.grid == gmm.grid
    assert {**smm.fixed, "component": ""} == {**gmm.fixed, "component": ""}
    assert smm.grid["latent_dim"] == [20, 50, 100, 150, 200]
    assert smm.grid["scale_floor"] == [0.001, 0.01, 0.1, 0.5, 0.9]
    assert protocol.sizes == [0.2, 0.4, 0.6, 0.8, 1.0]
    for other in ("amazon_music.toml", "tiny.toml"):
        names = [method.name for method in read_protocol(PROTOCOLS / other).methods]
        assert names == [m.name for m in protocol.methods if m.name != FREE_TAILS]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("corpus = ", "is not valid TOML"),
        ('corpus = "x"\nsizes = [1.0]', "names no methods; add [methods.NAME]"),
        (
            'sizes = [1.0]\n[methods.a]\nkind = "rbf-svm"',
            "the file has no corpus; it must be a text",
        ),
        (
            'corpus = "x"\nsizes = 1.0\n[methods.a]\nkind = "rbf-svm"',
            "sizes in the file is 1.0; it must be a list of numbers",
        ),
        ('corpus = "x"\nsizes = [1.0]\n[methods.a]\nkind = "tree"', "the kind of 'a' is 'tree'"),
        ('corpus = "x"\nsizes = [1.0]\n[methods.a]\nkind = "vae"', "has epochs for 0 sizes"),
        (
            'corpus = "x"\nsizes = [1.0]\n[methods.a]\nkind = "vae"\nc = 1',
            "[methods.'a'] has 'c'; it may have kind, grid",
        ),
    ],
)
def test_a_bad_protocol_is_one_sentence(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "protocol.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=re.escape(message)):
        read_protocol(path)


def test_what_cannot_be_is_said(corpus: Path, protocol: Protocol, material: Material) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_protocol(corpus / "none.toml")
    with pytest.raises(InputError, match=re.escape("sizes has 0.3; the protocol has 0.5, 1.0")):
        units(protocol, Part(sizes=[0.3]))
    with pytest.raises(InputError, match="name the corpus with --texts"):
        svm_records(
            Unit(Method("n", "ngram-svm", {"C": [1.0]}), 1.0, (0,)),
            replace(material, texts=None),
            {0: whole(material)[0]},
        )
    (corpus / "fewer.csv").write_text("author,text\na,some words here\nb,other words there\n")
    with pytest.raises(InputError, match="embed that very corpus"):
        load_material("tiny", corpus / "vectors.npz", corpus / "fewer.csv")
