"""Rows that stay in a file: read as they are, learnt from as in memory, and never all at once."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
import torch
from sklearn.metrics import adjusted_rand_score

from whowrote.errors import ClusterWarning, DataWarning, InputError
from whowrote.estimators import MixtureVAEClassifier, MixtureVAEClusterer, VectorTable
from whowrote.estimators import vector_table as module
from whowrote.estimators.clusterer import Shares, StartMixture
from whowrote.estimators.labels import labels_of, read_labels
from whowrote.estimators.scaling import Scaling, learn_scaling
from whowrote.features.streaming import Choice, embed_corpus
from whowrote.model import Rows, Streams
from whowrote.training import Assignment, Runs, assign

SMALL: dict[str, Any] = {"hidden": 16, "latent_dim": 4, "max_epochs": 3, "random_state": 0}


def blobs(n: int = 1500, k: int = 3, width: int = 8) -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    codes = np.sort(random.integers(k, size=n))  # as a corpus lies: author after author
    X = random.normal(size=(k, width))[codes] + random.normal(size=(n, width))
    return X.astype(np.float32), np.array([f"author {code}" for code in codes])


def arrow_table(X: Any, y: Any, kind: Any = None) -> pa.Table:
    flat = pa.array(X.ravel(), kind or pa.float32())
    listed = pa.FixedSizeListArray.from_arrays(flat, X.shape[1])
    return pa.table({"id": np.arange(len(X)).astype(str), "author": y, "vector": listed})


def write_arrow(path: Path, table: pa.Table, rows: int = 400, **options: Any) -> Path:
    with pa.ipc.new_file(str(path), table.schema, options=pa.ipc.IpcWriteOptions(**options)) as out:
        out.write_table(table, max_chunksize=rows)
    return path


def write_folder(folder: Path, table: pa.Table) -> Path:
    folder.mkdir()
    pq.write_table(table.slice(0, 700), folder / "part-0.parquet", row_group_size=300)
    pq.write_table(table.slice(700), folder / "part-1.parquet")
    return folder


def columns(X: Any, y: Any) -> pa.Table:
    return pa.table({"author": y, **{f"v{i}": X[:, i] for i in range(X.shape[1])}})


@pytest.fixture(params=["arrow", "compressed", "feather", "parquet", "folder", "columns", "double"])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    X, y = blobs()
    table = arrow_table(X, y)
    match request.param:
        case "arrow":
            return write_arrow(tmp_path / "a.arrow", table)
        case "compressed":
            return write_arrow(tmp_path / "a.arrow", table, compression="zstd")
        case "feather":
            feather.write_feather(table, str(tmp_path / "a.feather"), compression="uncompressed")
            return tmp_path / "a.feather"
        case "folder":
            return write_folder(tmp_path / "a", table)
        case "columns":
            pq.write_table(columns(X, y), tmp_path / "a.parquet")
        case "double":
            pq.write_table(arrow_table(X, y, pa.float64()), tmp_path / "a.parquet")
        case _:
            pq.write_table(table, tmp_path / "a.parquet", row_group_size=500)
    return tmp_path / "a.parquet"


def test_every_form_is_read_as_it_is(stored: Path) -> None:
    X, y = blobs()
    table = VectorTable(stored)
    assert table.shape == X.shape
    assert np.array_equal(table[:], X)
    assert np.array_equal(table[390:910], X[390:910])  # over the ends of batches
    some = np.random.default_rng(1).integers(len(X), size=300)
    assert np.array_equal(table[some], X[some])
    assert np.array_equal(table[::7], X[::7])
    assert np.array_equal(np.concatenate(list(table.blocks())), X)
    found, expected = labels_of(table, None), read_labels(y, len(X))
    assert found.classes.tolist() == expected.classes.tolist()
    assert np.array_equal(found.codes, expected.codes)


@pytest.mark.parametrize("slots", [2, 7, 64])
def test_runs_that_push_each_other_out_are_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slots: int
) -> None:
    monkeypatch.setattr(module, "RUN_BYTES", 10 * 8 * 4)
    X, y = blobs()
    table = VectorTable(write_arrow(tmp_path / "a.arrow", arrow_table(X, y), rows=33))
    table._held = module.Held.of(table, slots)
    random = np.random.default_rng(0)
    for _ in range(40):
        numbers = random.integers(len(X), size=90)
        assert np.array_equal(table.take(numbers), X[numbers])
    held = table._held
    assert (held.owner >= 0).all()
    assert sorted(np.flatnonzero(held.slot_of >= 0)) == sorted(held.owner)


# -- equal to memory -------------------------------------------------------------------------------


def test_scaling_in_one_pass_is_that_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = blobs(5000)
    X = X * 100 + 7
    table = VectorTable(write_arrow(tmp_path / "a.arrow", arrow_table(X, y)))
    weights = np.random.default_rng(2).uniform(0.5, 2.0, len(X))
    for own in (None, weights):
        whole = learn_scaling(X, 200, 0, own)
        exact = X.astype(np.float64)
        mean = np.average(exact, axis=0, weights=own)
        spread = np.sqrt(np.average((exact - mean) ** 2, axis=0, weights=own))
        np.testing.assert_allclose(whole.mean, mean, rtol=1e-13)
        np.testing.assert_allclose(whole.scale, spread, rtol=1e-13)
        for block in (5000, 512):
            monkeypatch.setattr(module, "BLOCK", block)
            monkeypatch.setattr("whowrote.estimators.scaling.BLOCK", block)
            ours, theirs = learn_scaling(table, 200, 0, own), learn_scaling(X, 200, 0, own)
            assert np.array_equal(ours.mean, theirs.mean)
            assert np.array_equal(ours.scale, theirs.scale)
            np.testing.assert_allclose(theirs.mean, mean, rtol=1e-12)
            np.testing.assert_allclose(theirs.scale, spread, rtol=1e-12)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"start": "random", "n_members": 2, "validation_fraction": 0.2},
        {"class_weight": "balanced"},
    ],
)
def test_a_table_makes_the_model_that_memory_makes(tmp_path: Path, more: dict[str, Any]) -> None:
    X, y = blobs()
    path = tmp_path / "a.parquet"
    pq.write_table(arrow_table(X, y), path)
    one = MixtureVAEClassifier(**SMALL, **more).fit(X, y)
    two = MixtureVAEClassifier(**SMALL, **more).fit(path)
    told = [[{**one, "seconds": 0} for one in model.history_] for model in (one, two)]
    assert told[0] == told[1]
    assert np.array_equal(one.predict_log_proba(X), two.predict_log_proba(X))
    assert np.array_equal(one.predict_log_proba(X), two.predict_log_proba(path))
    assert np.array_equal(one.typicality(X), two.typicality(VectorTable(path)))
    assert one.lower_bound_ == two.lower_bound_
    other = MixtureVAEClassifier(**{**SMALL, "random_state": 1}, **more).fit(path)  # control
    assert not np.array_equal(one.predict_log_proba(X), other.predict_log_proba(X))


def test_missing_labels_are_learnt_without(tmp_path: Path) -> None:
    X, y = blobs()
    y = np.array(y, dtype=object)
    y[::3] = None
    path = write_arrow(tmp_path / "a.arrow", arrow_table(X, pa.array(y.tolist(), pa.string())))
    one = MixtureVAEClassifier(**SMALL).fit(X, y)
    two = MixtureVAEClassifier(**SMALL).fit(path)
    assert np.array_equal(one.predict_log_proba(X), two.predict_log_proba(X))


def test_in_the_order_of_runs_a_table_teaches_what_memory_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More rows than a window holds: the same order for both, so the same model."""
    monkeypatch.setattr(module, "RUN_BYTES", 10 * 8 * 4)
    monkeypatch.setattr(module, "WINDOW_BYTES", 20 * 10 * 8 * 4)
    monkeypatch.setattr(module, "LEAST_WINDOW", 2)
    X, y = blobs()
    path = write_arrow(tmp_path / "a.arrow", arrow_table(X, y))
    orders: list[Runs | None] = []
    shuffled = Assignment.shuffled

    def watched(self: Assignment, streams: Streams) -> torch.Tensor:
        orders.append(self.runs)
        return shuffled(self, streams)

    monkeypatch.setattr(Assignment, "shuffled", watched)
    stored = MixtureVAEClassifier(**SMALL, start="random").fit(path)
    assert orders
    assert set(orders) == {Runs(10, 20)}
    plain = MixtureVAEClassifier(**SMALL, start="random").fit(X, y)

    def in_runs(fleet: Any, *parts: Any) -> Assignment:
        found = assign(fleet, *parts)
        return Assignment(found.train, found.validation, Runs(10, 20))

    monkeypatch.setattr("whowrote.estimators.classifier.assign", in_runs)
    memory = MixtureVAEClassifier(**SMALL, start="random").fit(X, y)
    assert np.array_equal(memory.predict_log_proba(X), stored.predict_log_proba(X))
    assert not np.array_equal(plain.predict_log_proba(X), stored.predict_log_proba(X))  # control
    assert stored.score(X, y) == pytest.approx(plain.score(X, y), abs=0.05)


def test_an_order_of_runs_is_one_of_all_rows_in_windows() -> None:
    own = torch.as_tensor(np.random.default_rng(0).permutation(1000)[:900])
    order = Assignment((own,), (own[:0],), Runs(10, 7)).shuffled(Streams([3]))[0]
    assert sorted(order.tolist()) == sorted(own.tolist())
    run = (order // 10).numpy()
    places = [np.flatnonzero(run == number) for number in np.unique(run)]
    assert max(int(np.ptp(one)) for one in places) < 7 * 10  # a run lies within its window
    assert (np.diff(run) != 0).mean() > 0.8  # and its rows are not together there
    plain = Assignment((own,), (own[:0],)).shuffled(Streams([3]))[0] // 10  # control
    spread = [np.ptp(np.flatnonzero(plain.numpy() == number)) for number in range(100)]
    assert max(int(one) for one in spread) > 500


def test_rows_of_a_table_are_scaled_as_in_memory(tmp_path: Path) -> None:
    X, y = blobs(300)
    table = VectorTable(write_arrow(tmp_path / "a.arrow", arrow_table(X, y)))
    scaling = Scaling(X.mean(0).astype(np.float64), X.std(0).astype(np.float64))
    cpu, index = torch.device("cpu"), torch.tensor([[5, 299], [0, 5]])
    rows: list[Rows] = [scaling.rows(one, None, cpu, torch.float32) for one in (table, X)]
    for batch in (rows[0].take(index), rows[0].of_step(index)):
        assert torch.equal(batch.targets, rows[1].take(index).targets)
    assert len(rows[0]) == len(rows[1]) == 300
    assert rows[0].targets.untyped_storage().nbytes() == 4 * 8  # of one row
    assert not rows[0].replayable


def test_what_embed_writes_is_learnt_from(tmp_path: Path) -> None:
    posts, lines = tmp_path / "posts.jsonl", []
    for number in range(24):
        words = "I walk and sing along" if number % 2 else "we slept; it was late, they said"
        lines.append(json.dumps({"author": "ab"[number % 2], "text": f"{words} " * (number + 3)}))
    posts.write_text("\n".join(lines))
    done = embed_corpus(posts, tmp_path / "levs.parquet", Choice(device="cpu"))
    model = MixtureVAEClassifier(random_state=0).fit(done.out)
    assert model.classes_.tolist() == ["a", "b"]
    assert model.n_features_in_ == done.dimensions
    assert model.score(VectorTable(done.out)[:], ["ab"[n % 2] for n in range(24)]) > 0.9


# -- clusters --------------------------------------------------------------------------------------

FEW: dict[str, Any] = {**SMALL, "max_epochs": 2, "warm_up": 5, "batch_size": 64}


def cut_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of 200 rows, a start that looks at 400, and blocks of 256."""
    monkeypatch.setattr(module, "RUN_BYTES", 10 * 8 * 4)
    monkeypatch.setattr(module, "WINDOW_BYTES", 20 * 10 * 8 * 4)
    monkeypatch.setattr(module, "LEAST_WINDOW", 2)
    monkeypatch.setattr("whowrote.estimators.clusterer.MIXTURE_ROWS", 400)
    monkeypatch.setattr("whowrote.estimators.scaling.BLOCK", 256)
    monkeypatch.setattr(module, "BLOCK", 256)


def apart(n: int = 1500) -> tuple[Any, Any]:
    """Three clusters far from each other, one after the other, and forty rows far from all."""
    X, y = blobs(n)
    X += 6.0 * np.eye(8, dtype=np.float32)[np.unique(y, return_inverse=True)[1]]
    X[::38] *= 4.0
    return X, y


@pytest.mark.parametrize("more", [{"n_members": 2, "n_init": 2}, {"initialization": "random"}])
def test_clusters_of_a_table_are_those_of_memory(tmp_path: Path, more: dict[str, Any]) -> None:
    X, _ = apart(500)
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"vector": list(X)}), path)  # no labels are needed
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClusterWarning)  # of the random start
        one = MixtureVAEClusterer(3, **FEW, **more).fit(X)
        two = MixtureVAEClusterer(3, **FEW, **more).fit(path)
        other = MixtureVAEClusterer(3, **{**FEW, "random_state": 1}, **more).fit(path)  # control
    assert one.labels_.tolist() == two.labels_.tolist() == two.predict(path).tolist()
    assert np.array_equal(one.predict_log_proba(X), two.predict_log_proba(path))
    assert np.array_equal(one.typicality(X), two.typicality(X))
    assert one.lower_bound_ == two.lower_bound_
    assert not np.array_equal(one.predict_log_proba(X), other.predict_log_proba(X))


def test_clusters_in_the_order_of_runs_are_those_of_memory_in_that_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table of many windows, whose start looks at a part of it."""
    cut_small(monkeypatch)
    X, y = apart()
    path = write_arrow(tmp_path / "a.arrow", arrow_table(X, y))
    stored = MixtureVAEClusterer(3, **FEW).fit(path)
    plain = MixtureVAEClusterer(3, **FEW).fit(X)
    shuffled = np.random.default_rng(0).permuted(X, axis=0)  # control: nothing to be found
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClusterWarning)
        lost = MixtureVAEClusterer(3, **FEW).fit(shuffled)
    assert adjusted_rand_score(y, lost.labels_) < 0.2

    def in_runs(fleet: Any, *parts: Any) -> Assignment:
        found = assign(fleet, *parts)
        return Assignment(found.train, found.validation, Runs(10, 20))

    monkeypatch.setattr("whowrote.estimators.clusterer.assign", in_runs)
    memory = MixtureVAEClusterer(3, **FEW).fit(X)
    assert np.array_equal(memory.predict_log_proba(X), stored.predict_log_proba(X))
    assert memory.labels_.tolist() == stored.labels_.tolist()
    assert not np.array_equal(plain.predict_log_proba(X), stored.predict_log_proba(X))  # control
    for model in (stored, plain):
        assert adjusted_rand_score(y, model.labels_) > 0.9


def test_a_start_at_a_part_labels_all_rows_but_those_far_out() -> None:
    X, y = apart(3000)
    far = np.arange(3000) % 38 == 0
    some = np.random.default_rng(0).choice(3000, 500, replace=False)
    start, own = StartMixture.learn(X[some].astype(np.float64), 3, 0)
    found = start.labels(X.astype(np.float64))
    assert (found[far] == -1).mean() > 0.95
    assert 0.05 < (found == -1).mean() < 0.15
    known = found >= 0
    assert adjusted_rand_score(y[known], found[known]) > 0.95
    assert ((own == -1) == (found[some] == -1)).mean() > 0.9


def test_shares_of_parts_are_those_of_all() -> None:
    gamma = np.random.default_rng(0).dirichlet(np.ones(4), 90)
    whole, parts = Shares.of([gamma]), Shares.of(np.split(gamma, [20, 21, 80]))
    assert whole.labels.tolist() == parts.labels.tolist() == gamma.argmax(axis=1).tolist()
    np.testing.assert_allclose(whole.both, parts.both)
    np.testing.assert_allclose(whole.total, gamma.sum(axis=0))
    assert whole.both[1, 3] == pytest.approx(np.minimum(gamma[:, 1], gamma[:, 3]).sum())
    order = np.array([2, 0, 3, 1])
    np.testing.assert_allclose(whole.reordered(order).both, Shares.of([gamma[:, order]]).both)
    assert whole.reordered(order).labels.tolist() == gamma[:, order].argmax(axis=1).tolist()


# -- the copy --------------------------------------------------------------------------------------


def test_a_copy_is_made_once_and_anew_when_the_table_changes(tmp_path: Path) -> None:
    X, y = blobs(200)
    path = tmp_path / "a.parquet"
    pq.write_table(arrow_table(X, y), path)
    copy = VectorTable(path).file
    assert copy == tmp_path / "a.parquet.rows.arrow"
    made = copy.stat().st_mtime_ns
    assert VectorTable(path).file.stat().st_mtime_ns == made
    pq.write_table(arrow_table(X + 1, y), path)
    os.utime(path, ns=(made + 10**9, made + 10**9))
    assert np.array_equal(VectorTable(path)[:], X + 1)
    elsewhere = VectorTable(path, copy=tmp_path / "other.arrow")
    assert elsewhere.file == tmp_path / "other.arrow"
    assert np.array_equal(elsewhere[:], X + 1)
    direct = write_arrow(tmp_path / "b.arrow", arrow_table(X, y))
    assert VectorTable(direct).file == direct
    assert not list(tmp_path.glob("b.arrow.*"))


# -- sentences -------------------------------------------------------------------------------------


def broken(folder: Path, what: str) -> Path:
    X, y = blobs(60)
    path = folder / "a.parquet"
    match what:
        case "missing":
            return path
        case "text":
            path = folder / "a.txt"
            path.write_text("no table")
        case "torn":
            path.write_bytes(b"PAR1 torn")
        case "no author":
            pq.write_table(arrow_table(X, y).drop(["author"]), path)
        case "no vectors":
            pq.write_table(arrow_table(X, y).drop(["vector"]), path)
        case "ragged":
            pq.write_table(pa.table({"author": ["a", "b"], "vector": [[1.0], [1.0, 2.0]]}), path)
        case "nan":
            X[41, 3] = np.nan
            pq.write_table(arrow_table(X, y), path)
        case "one author":
            pq.write_table(arrow_table(X, np.full(60, "a")), path)
        case "one row":
            pq.write_table(arrow_table(X, np.array(["a"] * 59 + ["b"])), path)
        case "unlabelled":
            pq.write_table(arrow_table(X, pa.array([None] * 60, pa.string())), path)
        case "numbers":
            pq.write_table(arrow_table(X, np.arange(60) / 2), path)
        case "empty":
            pq.write_table(arrow_table(X, y).slice(0, 0), path)
        case "widths":
            path = folder / "parts"
            path.mkdir()
            pq.write_table(arrow_table(X, y), path / "a.parquet")
            pq.write_table(arrow_table(X[:, 1:], y), path / "b.parquet")
        case "null vector":
            table = arrow_table(X, y)
            gone = pa.array([None, *X[1:].tolist()], table.schema.field("vector").type)
            path = write_arrow(folder / "a.arrow", table.set_column(2, "vector", gone))
    return path


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("missing", "there is no table of vectors at"),
        ("text", r"must end in .parquet, .arrow or .feather"),
        ("torn", "is not a readable table"),
        ("no author", "has no column 'author'; it has 'id', 'vector'"),
        ("no vectors", "has no vectors; it needs one column of lists"),
        ("ragged", "have lengths"),
        ("nan", "row 41 of .* has a value that is not finite"),
        ("one author", "y has one class only, 'a'"),
        ("one row", "class 'b' has 1 row"),
        ("unlabelled", "all 60 labels of .* are missing"),
        ("numbers", "of type double; they must be text or whole numbers"),
        ("empty", "has no rows"),
        ("widths", "has vectors of 7 numbers .* and the file before it vectors of 8"),
        ("null vector", "rows without a whole vector"),
    ],
)
def test_what_is_wrong_is_a_sentence(tmp_path: Path, what: str, message: str) -> None:
    path = broken(tmp_path, what)
    with pytest.raises(InputError, match=message):
        MixtureVAEClassifier(**SMALL).fit(path)
    assert not list(tmp_path.glob("*.rows.arrow")) or what not in ("torn", "widths", "empty")


def test_what_a_table_cannot_do_is_a_sentence(tmp_path: Path) -> None:
    X, y = blobs(200)
    path = write_arrow(tmp_path / "a.arrow", arrow_table(X, y))
    model = MixtureVAEClassifier(**SMALL)
    with pytest.raises(InputError, match="say how much by validation_fraction"):
        MixtureVAEClusterer(3).fit(path, validation=X[:9])
    with pytest.raises(InputError, match="say how much by validation_fraction"):
        model.fit(path, validation=(X[:9], y[:9]))
    with pytest.raises(InputError, match="it must be a dense array with a column per class"):
        MixtureVAEClassifier(start="scores").fit(path)
    with pytest.raises(InputError, match="write one without them"):
        model.fit(path, sample_weight=np.arange(200.0))
    narrow = write_arrow(tmp_path / "b.arrow", arrow_table(X[:, 1:], y))
    with pytest.raises(InputError, match=r"has vectors of 7 numbers and the model .* 8"):
        model.fit(path).predict(narrow)
    with pytest.raises(InputError, match="there is no table"):
        model.predict("nowhere.parquet")


def test_a_value_far_out_is_warned_of(tmp_path: Path) -> None:
    X, y = blobs(600)
    X[13, 2] = 1e6
    path = write_arrow(tmp_path / "a.arrow", arrow_table(X, y))
    with pytest.warns(DataWarning, match="row 13 of X has 1e\\+06 in column 2"):
        MixtureVAEClassifier(**SMALL).fit(path)


# -- memory ----------------------------------------------------------------------------------------

CHILD = """
import sys
import numpy as np
from whowrote.estimators import MixtureVAEClassifier, VectorTable, vector_table
vector_table.WINDOW_BYTES = 2**25
def resident(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name)) / 1024
path, how = sys.argv[1:]
small = dict(hidden=4, latent_dim=2, max_epochs=1, batch_size=1024, random_state=0)
some = VectorTable(path)[:22_000]
MixtureVAEClassifier(**small).fit(some, np.arange(22_000) % 3)  # as many as a start looks at
del some
before = resident("VmHWM")
X = VectorTable(path)
if how == "memory":
    y = np.array(X.distinct)[X.places]
    MixtureVAEClassifier(**small).fit(X[:], y)
else:
    MixtureVAEClassifier(**small).fit(X)
print(resident("VmHWM") - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc on this system")
def test_a_table_is_never_in_memory_as_a_whole(tmp_path: Path) -> None:
    """Highest resident memory, all kinds of pages counted, beside that of rows in memory."""
    n, width = 160_000, 500
    path, random = tmp_path / "a.arrow", np.random.default_rng(0)
    kind = pa.list_(pa.float32(), width)
    schema = pa.schema([("author", pa.int64()), ("vector", kind)])
    with pa.ipc.new_file(str(path), schema) as out:
        for low in range(0, n, 20_000):
            X = random.normal(size=(20_000, width)).astype(np.float32)
            listed = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), width)
            labels = pa.array(np.arange(low, low + 20_000) % 3)
            out.write_batch(pa.record_batch([labels, listed], schema=schema))
    megabytes = path.stat().st_size / 2**20
    assert megabytes > 300
    grown = {}
    for how in ("table", "memory"):
        command = [sys.executable, "-c", CHILD, str(path), how]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        grown[how] = float(done.stdout)
    assert grown["table"] < 0.3 * megabytes  # a window of 32 MB, and what an epoch needs
    assert grown["memory"] > megabytes  # control
