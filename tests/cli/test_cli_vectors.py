"""``whowrote vectors``: a model of a table that stays in its file, and a table of its answers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from whowrote import MixtureVAEClassifier, MixtureVAEClusterer
from whowrote.cli import app
from whowrote.features import streaming


def blobs(n: int = 400) -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    codes = random.integers(3, size=n)
    X = 3.0 * np.eye(6)[codes] + random.normal(size=(n, 6))
    return X.astype(np.float32), np.array(["ann", "bob", "eve"])[codes]


def write(path: Path, rows: slice = slice(None), **columns: Any) -> Path:
    X, y = blobs()
    X, y = X[rows], y[rows]
    listed = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 6)
    ids = [f"text {number}" for number in range(len(X))]
    pq.write_table(pa.table({"id": ids, "author": y, **columns, "vector": listed}), path)
    return path


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["vectors", *map(str, arguments)])


def told(*arguments: object) -> Any:
    answer = run(*arguments, "--json")
    assert answer.exit_code == 0, answer.output
    return json.loads(answer.stdout)


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Any]:
    folder = tmp_path_factory.mktemp("vectors")
    levs = write(folder / "levs.parquet")
    found = told("fit", levs, "--out", folder / "levs.model", "--epochs", 2)
    return folder, levs, found


def test_the_model_is_that_of_the_estimator(learnt: tuple[Path, Path, Any]) -> None:
    folder, _, found = learnt
    X, y = blobs()
    assert (found["rows"], found["classes"]) == (400, 3)
    model = MixtureVAEClassifier.load(folder / "levs.model")
    same = MixtureVAEClassifier(max_epochs=2, random_state=0).fit(X, y)
    assert np.array_equal(model.predict_proba(X), same.predict_proba(X))
    other = MixtureVAEClassifier(max_epochs=2, random_state=1).fit(X, y)  # control
    assert not np.array_equal(model.predict_proba(X), other.predict_proba(X))


def test_answers_are_those_of_the_model_in_the_order_of_the_table(
    learnt: tuple[Path, Path, Any],
) -> None:
    folder, levs, _ = learnt
    X, y = blobs()
    model = MixtureVAEClassifier.load(folder / "levs.model")
    asked = ("predict", folder / "levs.model", levs, "--part", 150, "--probabilities")
    assert told(*asked, "--out", folder / "a.parquet")["rows"] == 400
    table = pq.read_table(folder / "a.parquet")
    assert table.column_names == ["id", "author", "predicted", "probability", "probabilities"]
    assert table.column("id").to_pylist() == [f"text {number}" for number in range(400)]
    assert table.column("predicted").to_pylist() == model.predict(X).tolist()
    wanted = model.predict_proba(X)
    listed = np.stack(table.column("probabilities").to_numpy())
    np.testing.assert_allclose(listed, wanted, atol=1e-6)
    np.testing.assert_allclose(table.column("probability"), wanted.max(axis=1), atol=1e-6)
    right = np.array(table.column("predicted").to_pylist()) == y
    assert right.mean() > 0.9
    assert (
        np.roll(right, 0) == (model.predict(np.roll(X, 1, axis=0)) == y)
    ).mean() < 0.9  # control
    assert not list(folder.glob("*.parts"))


def test_a_run_that_was_stopped_goes_on(
    learnt: tuple[Path, Path, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, levs, _ = learnt
    asked = ["predict", folder / "levs.model", levs, "--part", 100, "--out", tmp_path / "a.parquet"]
    told(*asked[:-1], tmp_path / "whole.parquet")
    made = streaming.pq.write_table

    def full(table: Any, place: Any, **options: Any) -> None:
        if "000002" in str(place):
            raise OSError(28, "No space left on device", str(place))
        made(table, place, **options)

    monkeypatch.setattr(streaming.pq, "write_table", full)
    stopped = run(*asked)
    assert stopped.exit_code != 0
    assert not (tmp_path / "a.parquet").exists()
    monkeypatch.undo()
    assert told(*asked)["found"] == 200
    assert pq.read_table(tmp_path / "a.parquet") == pq.read_table(tmp_path / "whole.parquet")
    again = [*asked[:-1], tmp_path / "b.parquet"]  # another name has no parts yet: control
    assert told(*again)["found"] == 0


def test_clusters_are_found_without_labels(tmp_path: Path) -> None:
    X, y = blobs()
    listed = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 6)
    pq.write_table(pa.table({"vector": listed}), tmp_path / "levs.parquet")
    model, out = tmp_path / "c.model", tmp_path / "c.parquet"
    asked = ("cluster", tmp_path / "levs.parquet", "--groups", 3, "--epochs", 10, "--out", model)
    assert told(*asked)["classes"] == 3
    told("predict", model, tmp_path / "levs.parquet", "--out", out)
    found = pq.read_table(out).column("predicted").to_numpy()
    assert found.tolist() == MixtureVAEClusterer.load(model).predict(X).tolist()
    table = np.array([[(found[y == name] == k).sum() for k in range(3)] for name in np.unique(y)])
    assert table.max(axis=1).sum() > 0.9 * len(y)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fit", "levs.parquet", "--out", "x.model", "--labels", "writer"], "no column 'writer'"),
        (["fit", "none.parquet", "--out", "x.model"], "there is no table of vectors at"),
        (["fit", "levs.parquet", "--out", "levs.model"], "there already"),
        (["predict", "levs.model", "narrow.parquet", "--out", "a.parquet"], "vectors of 5 numbers"),
        (["predict", "levs.model", "nan.parquet", "--out", "a.parquet"], "row 41 of"),
        (["predict", "levs.model", "levs.parquet", "--out", "a.csv"], "must end in .parquet"),
        (["predict", "levs.parquet", "levs.parquet", "--out", "a.parquet"], "not a safetensors"),
        (["cluster", "levs.parquet", "--out", "x.model", "--groups", "900"], "every cluster needs"),
    ],
)
def test_what_is_wrong_is_a_sentence(
    learnt: tuple[Path, Path, Any], tmp_path: Path, words: list[str], said: str
) -> None:
    folder, _, _ = learnt
    X, _ = blobs()
    flat = pa.array(np.ascontiguousarray(X[:, :5]).ravel())
    narrow = pa.FixedSizeListArray.from_arrays(flat, 5)
    pq.write_table(pa.table({"vector": narrow}), folder / "narrow.parquet")
    X[41, 2] = np.nan
    bad = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 6)
    pq.write_table(pa.table({"vector": bad}), folder / "nan.parquet")
    out = words.index("--out") + 1
    made = words[out] if words[out] == "levs.model" else str(tmp_path / words[out])
    placed = [str(folder / one) if one.endswith((".parquet", ".model")) else one for one in words]
    placed[out] = str(folder / made) if words[out] == "levs.model" else made
    answer = run(*placed)
    assert answer.exit_code != 0
    assert said in str(answer.exception)
    assert not (tmp_path / words[out]).exists()
