"""Model files: equal answers after loading, here and elsewhere; no pickle; no training rows."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import save_file
from scipy import sparse
from sklearn.datasets import make_blobs

import whowrote
from threads import one_thread as one_thread
from whowrote import MixtureVAEClassifier, MixtureVAEClusterer
from whowrote import files as persistence
from whowrote.errors import InputError
from whowrote.files import HEADER, ModelFile, read_model_file, write_model_file

QUICK: dict[str, Any] = {
    "hidden": (6,),
    "learning_rate": 0.02,
    "max_epochs": 2,
    "batch_size": 32,
    "random_state": 0,
}
X, CODES = make_blobs([40, 30, 30], n_features=4, random_state=0)
NAMES = np.array(["Ann", "Zoë", "渡辺"])[CODES]
ASKS = ("predict", "predict_proba", "score_samples", "transform", "typicality", "bound")

MODELS: dict[str, Any] = {
    "names": lambda: MixtureVAEClassifier(start="random", **QUICK).fit(X, NAMES),
    "integers": lambda: MixtureVAEClassifier(start="random", **QUICK).fit(X, CODES + 7),
    "booleans": lambda: MixtureVAEClassifier(start="random", **QUICK).fit(X, CODES == 1),
    "float64": lambda: MixtureVAEClassifier(dtype="float64", **QUICK).fit(X, NAMES),
    "gaussian": lambda: MixtureVAEClassifier("gaussian", **QUICK).fit(X, NAMES),
    "ensemble": lambda: MixtureVAEClassifier(n_members=3, **QUICK).fit(X, NAMES),
    "clusterer": lambda: MixtureVAEClusterer(3, warm_up=1, **QUICK).fit(X),
    "gaussian clusterer": lambda: MixtureVAEClusterer(
        3, component="gaussian", warm_up=1, **QUICK
    ).fit(X),
    "numpy settings": lambda: MixtureVAEClassifier(
        **QUICK | {"latent_dim": np.int64(2), "learning_rate": np.float32(0.01)}
    ).fit(X, NAMES),
}


@pytest.fixture(scope="module")
def model() -> MixtureVAEClassifier:
    return MODELS["names"]()


@pytest.fixture
def file(model: MixtureVAEClassifier, tmp_path: Path) -> Path:
    model.save(tmp_path / "a.model")
    return tmp_path / "a.model"


# Equal answers


@pytest.mark.parametrize("name", MODELS)
def test_a_loaded_model_answers_bit_by_bit_the_same(name: str, tmp_path: Path) -> None:
    model = MODELS[name]()
    model.save(tmp_path / "file")
    twin = type(model).load(tmp_path / "file")
    for ask in ASKS:
        one, two = getattr(model, ask)(X), getattr(twin, ask)(X)
        assert one.dtype == two.dtype
        np.testing.assert_array_equal(one, two)
    for one, two in zip(
        model.sample(5, random_state=0), twin.sample(5, random_state=0), strict=True
    ):
        np.testing.assert_array_equal(one, two)


def test_wide_sparse_models_too(tmp_path: Path) -> None:
    rows = sparse.random_array((60, 50), density=0.2, rng=np.random.default_rng(0), format="csr")
    model = MixtureVAEClassifier(projection_dim=8, **QUICK).fit(rows, np.arange(60) % 3)
    model.save(tmp_path / "file")
    twin = MixtureVAEClassifier.load(tmp_path / "file")
    for ask in ASKS:
        np.testing.assert_array_equal(getattr(model, ask)(rows), getattr(twin, ask)(rows))
    Z = model.transform(rows)
    np.testing.assert_array_equal(model.inverse_transform(Z), twin.inverse_transform(Z))
    assert twin.n_features_in_ == 50


def test_everything_learnt_comes_along(model: MixtureVAEClassifier, file: Path) -> None:
    twin = MixtureVAEClassifier.load(file)
    assert twin.get_params() == model.get_params()
    assert twin.history_ == model.history_
    assert twin.classes_.tolist() == ["Ann", "Zoë", "渡辺"]
    assert (twin.n_features_in_, twin.leader_, twin.n_iter_) == (4, 0, 2)
    for name in ("weights_", "means_", "scales_", "degrees_of_freedom_"):
        np.testing.assert_array_equal(getattr(twin, name), getattr(model, name))


def test_clusters_come_along(tmp_path: Path) -> None:
    model = MODELS["clusterer"]()
    model.save(tmp_path / "file")
    assert MixtureVAEClusterer.load(tmp_path / "file").labels_.tolist() == model.labels_.tolist()


def test_names_of_columns_come_along(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(X, columns=["a", "b", "c", "d"])
    model = MixtureVAEClassifier(start="random", **QUICK).fit(table, NAMES)
    model.save(tmp_path / "file")
    twin = MixtureVAEClassifier.load(tmp_path / "file")
    assert twin.predict(table).tolist() == model.predict(table).tolist()
    with pytest.raises(ValueError, match="feature names should match"):
        twin.predict(table[["b", "a", "c", "d"]])


def test_a_loaded_model_can_learn_again(file: Path, model: MixtureVAEClassifier) -> None:
    again = MixtureVAEClassifier.load(file).fit(X, NAMES)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_a_saved_loaded_model_is_the_same_file(file: Path, tmp_path: Path) -> None:
    MixtureVAEClassifier.load(file).save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == file.read_bytes()


def test_a_generator_as_seed_has_no_place_in_a_file(tmp_path: Path) -> None:
    settings = QUICK | {"random_state": np.random.RandomState(0)}
    MixtureVAEClassifier(**settings).fit(X, NAMES).save(tmp_path / "file")
    assert MixtureVAEClassifier.load(tmp_path / "file").random_state is None


def test_what_was_fitted_is_saved_whatever_set_params_did_since(tmp_path: Path) -> None:
    model = MODELS["names"]()
    expected = model.predict_proba(X)
    model.set_params(latent_dim=1, hidden=3, component="gaussian", n_members=2).save(tmp_path / "f")
    np.testing.assert_array_equal(
        MixtureVAEClassifier.load(tmp_path / "f").predict_proba(X), expected
    )


ELSEWHERE = """
import sys, numpy as np
from whowrote import MixtureVAEClassifier, MixtureVAEClusterer
folder = sys.argv[1]
X = np.load(folder + "/X.npy")
for kind in (MixtureVAEClassifier, MixtureVAEClusterer):
    model = kind.load(f"{folder}/{kind.__name__}")
    for ask in ("predict_proba", "score_samples", "typicality"):
        np.save(f"{folder}/{kind.__name__}-{ask}.npy", getattr(model, ask)(X))
"""


def test_another_process_gives_equal_answers(tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", X)
    models = [MODELS["ensemble"](), MODELS["clusterer"]()]
    for model in models:
        model.save(tmp_path / type(model).__name__)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-c", ELSEWHERE, tmp_path], check=True, env=environment)
    for model in models:
        for ask in ("predict_proba", "score_samples", "typicality"):
            there = np.load(tmp_path / f"{type(model).__name__}-{ask}.npy")
            np.testing.assert_array_equal(there, getattr(model, ask)(X))


# Bad files


def test_a_missing_path(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no model file at '.*nowhere'.*save\(\)"):
        MixtureVAEClassifier.load(tmp_path / "nowhere")


def test_a_folder(tmp_path: Path, model: MixtureVAEClassifier) -> None:
    with pytest.raises(InputError, match="there is no model file at"):
        MixtureVAEClassifier.load(tmp_path)
    with pytest.raises(InputError, match="is a folder; give save"):
        model.save(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.999])
def test_a_truncated_file(share: float, file: Path) -> None:
    whole = file.read_bytes()
    file.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(InputError, match=r"truncated or is not a safetensors file.*save the model"):
        MixtureVAEClassifier.load(file)


def test_a_text(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("It was a dark and stormy night. " * 100)
    with pytest.raises(
        InputError, match=r"'.*notes.txt' is truncated or is not a safetensors file"
    ):
        MixtureVAEClassifier.load(tmp_path / "notes.txt")


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}])
def test_somebody_elses_safetensors(metadata: Any, tmp_path: Path) -> None:
    save_file({"weight": np.ones(3)}, tmp_path / "other", metadata=metadata)
    with pytest.raises(InputError, match="a safetensors file but not a whowrote model"):
        MixtureVAEClassifier.load(tmp_path / "other")


@pytest.mark.parametrize("header", ["{", "[]", "{}", "3"])
def test_a_damaged_header(header: str, tmp_path: Path) -> None:
    save_file({"weight": np.ones(3)}, tmp_path / "damaged", metadata={HEADER: header})
    with pytest.raises(InputError, match=r"the header of '.*' is damaged; save the model again"):
        MixtureVAEClassifier.load(tmp_path / "damaged")


def test_another_format(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(persistence, "FORMAT", 99)
    sentence = rf"has model format 1 \(written by whowrote {whowrote.__version__}\).*reads 99"
    with pytest.raises(InputError, match=sentence):
        MixtureVAEClassifier.load(file)


def test_another_kind_of_model(file: Path) -> None:
    with pytest.raises(InputError, match="holds a MixtureVAEClassifier, not a MixtureVAEClusterer"):
        MixtureVAEClusterer.load(file)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_a_device_that_is_absent_can_be_exchanged(file: Path) -> None:
    with pytest.raises(InputError, match=r"device is 'cuda'.*'cpu'"):
        MixtureVAEClassifier.load(file, device="cuda")
    assert MixtureVAEClassifier.load(file, device="cpu").device == "cpu"


# Records


def test_a_record_comes_back(tmp_path: Path) -> None:
    values = {"words": ["é", "渡"], "none": None, "number": 0.1, "numpy": np.int64(3)}
    arrays = {"a": np.arange(6.0).reshape(2, 3).T, "b": np.zeros((0, 2), dtype=np.float16)}
    write_model_file(tmp_path / "file", ModelFile("thing", values, arrays))
    back = read_model_file(tmp_path / "file")
    assert back.kind == "thing"
    assert back.values == values
    for name, value in arrays.items():
        assert back.arrays[name].dtype == value.dtype
        np.testing.assert_array_equal(back.arrays[name], value)


def test_a_record_of_objects_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="no plain value"):
        write_model_file(tmp_path / "file", ModelFile("thing", {"object": object()}))
    assert list(tmp_path.iterdir()) == []


def test_a_failing_write_leaves_the_old_file(
    file: Path, model: MixtureVAEClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = file.read_bytes()

    real = Path.write_bytes

    def half(path: Path, data: bytes) -> None:
        real(path, data[: len(data) // 2])
        raise OSError("disk full")

    monkeypatch.setattr(Path, "write_bytes", half)
    with pytest.raises(OSError, match="disk full"):
        model.save(file)
    assert file.read_bytes() == whole
    assert os.listdir(file.parent) == [file.name]


# What is not in the file


def holds(path: Path, value: float) -> bool:
    """Whether a number is in the file, as binary in either precision or in its header."""
    found = path.read_bytes()
    forms = [np.float64(value).tobytes(), np.float32(value).tobytes(), repr(value).encode()]
    return any(form in found for form in forms)


def test_no_training_row_is_in_the_file(tmp_path: Path) -> None:
    rows = X.copy()
    rows[7] = [1.23456789, 2.3456789, 3.456789, 4.56789]
    model = MixtureVAEClassifier(start="random", **QUICK).fit(rows, NAMES)
    model.save(tmp_path / "file")
    standardised = (rows[7] - model.fitted_.scaling.mean) / model.fitted_.scaling.scale
    for value in [*rows[7].tolist(), *standardised.tolist()]:
        assert not holds(tmp_path / "file", value)
    # Negative control: a file with the row in it is found out.
    write_model_file(tmp_path / "leak", ModelFile("leak", {}, {"row": rows[7]}))
    assert all(holds(tmp_path / "leak", value) for value in rows[7].tolist())


def test_the_file_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    sizes = []
    for times in (1, 8):
        rows, names = np.tile(X, (times, 1)), np.tile(NAMES, times)
        MixtureVAEClassifier(start="random", **QUICK).fit(rows, names).save(tmp_path / "file")
        sizes.append((tmp_path / "file").stat().st_size)
    assert abs(sizes[1] - sizes[0]) < 0.25 * X.nbytes


def test_the_file_is_safetensors_and_json(file: Path) -> None:
    with safe_open(file, framework="numpy") as opened:
        header = json.loads(opened.metadata()[HEADER])
        names = set(opened.keys())
    assert header["format"] == 1
    assert header["version"] == whowrote.__version__
    assert {"scaling.mean", "scaling.scale", "fleet.mixture.loc"} <= names


SOURCES = Path(whowrote.__file__).parent
UNSAFE_MODULES = {
    "pickle",
    "cPickle",
    "_pickle",
    "dill",
    "cloudpickle",
    "joblib",
    "shelve",
    "marshal",
}
UNSAFE_CALLS = {("torch", "load"), ("torch", "save")}


def unsafe(source: str) -> list[str]:
    """Everything in a source that writes or reads objects which can execute code."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names = ["pickle"] if (node.value.id, node.attr) in UNSAFE_CALLS else []
        elif isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            names = ["pickle"]
        else:
            names = []
        found += [name for name in names if name.split(".")[0] in UNSAFE_MODULES]
    return found


def test_no_pickle_anywhere() -> None:
    sources = sorted(SOURCES.rglob("*.py"))
    assert len(sources) > 20
    found = {str(path): unsafe(path.read_text(encoding="utf-8")) for path in sources}
    assert {name: names for name, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "planted",
    [
        "import pickle",
        "def f():\n    from pickle import loads",
        "import os, joblib.externals",
        "torch.load('x')",
        "np.load('x', allow_pickle=True)",
    ],
)
def test_a_planted_pickle_is_found(planted: str) -> None:
    assert len(unsafe(planted)) == 1
    assert unsafe("import json\nnp.load('x')\nsafetensors.torch.load_file('x')") == []
