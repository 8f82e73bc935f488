"""The scripts of experiments/ run, small, and the committed records say what they must."""

import contextlib
import io
import json
import runpy
import sys
import warnings
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attribution.people import texts_by
from whowrote.features.extractor.preparation import part_of

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "experiments" / "results"


def run(script: str, *arguments: object) -> str:
    """Run a script as the main program of this process, which has loaded torch already."""
    path, printed = str(ROOT / "experiments" / script), io.StringIO()
    with (
        mock.patch.object(sys, "argv", [path, *map(str, arguments)]),
        contextlib.redirect_stdout(printed),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")  # fits as short as these may warn
        runpy.run_path(path, run_name="__main__")
    return printed.getvalue()


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three authors in eight dimensions, in the form of the real vectors."""
    random = np.random.default_rng(0)
    y = np.arange(240) % 3
    X = random.normal(size=(240, 8)) + 3 * random.normal(size=(3, 8))[y]
    path = tmp_path_factory.mktemp("vectors") / "vectors.npz"
    np.savez(path, X=X, y=y, train=np.arange(180), test=np.arange(180, 240))
    return path


def test_heavy_tails(tmp_path: Path) -> None:
    out = tmp_path / "record.json"
    run("heavy_tails.py", "--seeds", 1, "--rows", 60, "--epochs", 2, "--out", out)
    record = json.loads(out.read_text())
    assert record["summary"]["seeds"] == 1
    assert [trial["component"] for trial in record["trials"]] == ["student-t", "gaussian"]


def test_levs30(vectors: Path, tmp_path: Path) -> None:
    run("levs30.py", vectors, "--members", 2, "--epochs", 3, "--out", tmp_path)
    record = json.loads((tmp_path / "levs30_student-t.json").read_text())
    assert len(record["single"]["each"]) == 2
    assert 0 <= record["ensemble"] <= 1
    run("levs30.py", vectors, "--baselines", "--out", tmp_path)
    baselines = json.loads((tmp_path / "levs30_baselines.json").read_text())["baselines"]
    assert [row["method"] for row in baselines] == ["LinearSVM", "RBFSVM"]


def test_semi_supervised(vectors: Path, tmp_path: Path) -> None:
    out, figure = tmp_path / "record.json", tmp_path / "figure.png"
    options = ["--seeds", 1, "--epochs", 2, "--refinement", 1, "--out", out, "--figure", figure]
    run("semi_supervised.py", vectors, *options)
    rows = json.loads(out.read_text())["rows"]
    assert sorted(row["share"] for row in rows) == [0.01, 0.02, 0.05, 0.1, 0.2]
    assert figure.stat().st_size > 0


def test_population(tmp_path: Path) -> None:
    """Three small domains; only their development authors are read."""
    corpora = []
    for number, domain in enumerate(("letters", "posts", "notes")):
        names = [f"{n}" for n in range(2000) if part_of(domain, f"{n}") == 1][:20]
        rows = [
            (name, text)
            for code, name in enumerate(names)
            for text in texts_by(100 * number + code, 4, words=140)
        ]
        trained_on = [f"{n}" for n in range(2000) if part_of(domain, f"{n}") == 0][:3]
        rows += [(name, f"This is {name} {n}.") for name in trained_on for n in range(3)]
        path = tmp_path / f"{domain}.parquet"
        authors, texts = zip(*rows, strict=True)
        pq.write_table(pa.table({"author": authors, "text": texts}), path)
        corpora += ["--corpus", f"{domain}={path}"]
    package, out = tmp_path / "populations.json", tmp_path / "record.json"
    own = ("--extractor", "adhominem", "--package", package, "--out", out, "--cache", tmp_path)
    said = run("population.py", *corpora, *own)
    assert "letters: 20 authors" in said  # the others were trained on
    (found,) = json.loads(package.read_text())
    assert np.shape(found["draws"]) == (16, 18)
    assert np.shape(found["normals"]) == (256, 2)
    assert np.isfinite(found["draws"]).all()
    record = json.loads(out.read_text())
    assert record["people"] == {"letters": 20, "posts": 20, "notes": 20}
    for curves in record["not_learnt_from"].values():
        assert {"logistic curve of the cosine", "and distance", "whowrote"} <= set(curves)


@pytest.mark.parametrize("extractor", ["adhominem", "large"])
def test_the_record_of_the_population(extractor: str) -> None:
    """On what was not learnt from, every step pays in the mean, and nothing is worse than 1."""
    found = committed(f"population_{extractor}.json")["not_learnt_from"]
    cost = {
        name: [curves[name]["all"]["cllr"] for curves in found.values()]
        for name in next(iter(found.values()))
    }
    mean = {name: float(np.mean(each)) for name, each in cost.items()}
    assert mean["logistic curve of the cosine"] > mean["and distance"] > mean["whowrote"]
    assert mean["cosine, lengths and centre"] > mean["and distance"]
    assert mean["all draws alike"] > mean["whowrote"]  # what reference authors are for
    assert max(cost["whowrote"]) < 1.0 < max(cost["and distance"])  # what a spread is for


def test_the_record_of_the_ratios() -> None:
    record = committed("ratios.json")
    assert {"blog30", "amazon", "ebg", "pan11"} <= set(record["corpora"])
    cells = [
        (int(n), cell, figures)
        for corpus in record["corpora"].values()
        for n, methods in corpus["references"].items()
        for cell, figures in methods["whowrote"].items()
    ]
    assert max(figures["cllr"] for _, _, figures in cells) < 1.001
    assert all(abs(figures["lir"] - figures["cllr"]) < 2e-4 for _, _, figures in cells)
    means = record["summary"]["means_at_20"]
    for length, most in (("200", 0.62), ("400", 0.48), ("800", 0.36)):
        assert means["whowrote"][length]["cllr"] < most
        for other in ("one-length curve", "no model"):
            assert means["whowrote"][length]["cllr"] < means[other][length]["cllr"]
    assert record["summary"]["worst"]["one-length curve"]["cllr"] > 1.5  # what it is for


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    """Two authors with three texts each, and one with a single text."""
    lines = [
        f"{name},I walked {n} miles to {name}'s house and home." for name in "ab" for n in "123"
    ]
    (tmp_path / "reviews.csv").write_text("\n".join(["author,text", *lines, "c,Only this one."]))
    return tmp_path / "reviews.csv"


def known(path: Path, *authors: str) -> Path:
    pq.write_table(pa.table({"author": list(authors)}), path)
    return path


def test_vectors(reviews: Path, tmp_path: Path) -> None:
    out, learnt = tmp_path / "vectors.npz", known(tmp_path / "learnt.parquet", "x", "c")
    options = ["--least", 3, "--most", 2, "--device", "cpu", "--unlike", learnt, "--out", out]
    assert "4 x 200, 2 authors" in run("vectors.py", reviews, *options)
    with np.load(out) as file:
        assert file["X"].dtype == np.float16
        assert file["y"].tolist() == ["a", "a", "b", "b"]
        assert int(file["training_authors_compared"]) == 2


def test_vectors_of_authors_that_the_extractor_knows(reviews: Path, tmp_path: Path) -> None:
    learnt, out = known(tmp_path / "learnt.parquet", "x", "b"), tmp_path / "vectors.npz"
    with pytest.raises(SystemExit) as left:
        run("vectors.py", reviews, "--unlike", learnt, "--out", out)
    assert "1 authors are among those the extractor learnt from, such as 'b'" in str(left.value)
    assert not (tmp_path / "vectors.npz").exists()


def committed(name: str) -> dict:
    return json.loads((RESULTS / name).read_text())


def test_the_record_of_the_vectors() -> None:
    record = committed("levs30_student-t.json")
    assert record["single"]["mean"] <= 0.26
    assert record["ensemble"] <= 0.255
    assert record["ensemble"] < committed("levs30_gaussian.json")["ensemble"]


def test_the_record_of_the_pinwheel() -> None:
    record = committed("pinwheel.json")
    assert len(record["trials"]) == 10
    assert all(trial["accuracy"]["student-t VAE"] >= 0.995 for trial in record["trials"])
    assert all(trial["seconds"]["student-t VAE"] < 60 for trial in record["trials"])
    plain = [trial["accuracy"]["gaussian mixture"] >= 0.995 for trial in record["trials"]]
    assert sum(plain) <= 2  # negative control: the plain mixture cannot


def test_the_record_of_heavy_tails() -> None:
    summary = committed("heavy_tails.json")["summary"]
    assert summary["seeds"] == 10
    assert summary["better bound"] >= 9
    assert summary["better accuracy"] >= 9


def test_the_record_of_the_unlabelled_rest() -> None:
    rows = [row for row in committed("semi_supervised.json")["rows"] if row["share"] == 0.02]
    assert np.mean([r["with the rest"] for r in rows]) < np.mean([r["labelled only"] for r in rows])


def test_the_record_of_the_n_grams() -> None:
    record = committed("ngram_svm_blog30.json")
    assert record["texts"] == 20_340
    assert abs(record["error_percent"]["mean"] - 6.2) <= 0.5


def load(script: str) -> dict[str, object]:
    """What a script defines."""
    return runpy.run_path(str(ROOT / "experiments" / script), run_name="loaded")


def test_calibration_errors_of_draws_are_pooled_by_their_bins() -> None:
    found = load("few_texts.py")
    random = np.random.default_rng(0)
    draws = []
    for seed in range(30):
        proba = random.dirichlet(np.full(4, 0.7), size=100)
        truth = np.array([random.choice(4, p=row) for row in proba])
        if seed == 29:  # negative control: answers that are too sure
            careless = found["probabilities"](np.log(np.eye(4)[truth] * 0.9 + 0.025), 3 - truth)
        draws.append(found["probabilities"](np.log(proba), truth))
    pooled, single = found["pooled_ece"](draws), np.mean([one["ece"] for one in draws])
    assert pooled < 0.5 * single  # answers are calibrated; single draws err by chance
    assert found["pooled_ece"](draws[:1]) == pytest.approx(draws[0]["ece"], abs=1e-3)
    assert found["pooled_ece"]([*draws, *[careless] * 30]) > 0.2


def test_a_decade_is_asked_where_two_texts_are_left() -> None:
    asked = load("works.py")["in_other_decade"]
    decades = np.array([179, 179, 180, 179, 180, 180, 181, 181, 181])
    authors = np.array(list("aaabbbccc"))
    np.testing.assert_array_equal(np.flatnonzero(asked(decades, authors, True)), [2])
    np.testing.assert_array_equal(np.flatnonzero(asked(decades, authors, False)), [3])
