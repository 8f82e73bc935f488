"""What a user's X and y mean: labels that can be read in two ways, missing ones, far values."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import make_blobs

from whowrote import MixtureVAEClassifier, MixtureVAEClusterer
from whowrote.errors import DataWarning
from whowrote.estimators.labels import read_labels
from whowrote.estimators.scaling import warn_of_far_values


def frame(X: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(X, columns=list("abcd"), index=np.arange(len(X)) + 1000)


# Data frames


@pytest.mark.filterwarnings("ignore::whowrote.errors.ClusterWarning")  # so short a fit may merge
@pytest.mark.parametrize("estimator", [MixtureVAEClassifier, MixtureVAEClusterer])
def test_pandas_in_and_out(estimator: Any, blobs: Any, quick_for_both: dict[str, Any]) -> None:
    model = estimator(**quick_for_both | {"max_epochs": 1, "latent_dim": 2})
    rows = frame(blobs.X)
    found = model.set_output(transform="pandas").fit(rows, blobs.y).transform(rows)
    assert isinstance(found, pd.DataFrame)
    assert found.columns.tolist() == model.get_feature_names_out().tolist()
    assert found.index.tolist() == rows.index.tolist()
    assert isinstance(model.fit_transform(rows, blobs.y), pd.DataFrame)
    plain = model.set_output(transform="default").transform(rows)
    np.testing.assert_array_equal(found.to_numpy(), model.fit(rows, blobs.y).transform(rows))
    assert type(plain) is np.ndarray


def test_a_clusterer_does_not_warn_of_its_own_rows(
    blobs: Any, quick_for_both: dict[str, Any]
) -> None:
    model = MixtureVAEClusterer(3, **quick_for_both | {"max_epochs": 1})
    model.fit(frame(blobs.X))  # warnings are errors here
    assert model.labels_.tolist() == model.predict(frame(blobs.X)).tolist()
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        model.predict(blobs.X)


# Labels


@pytest.mark.parametrize(
    "y",
    [
        pd.Series(["ann", pd.NA, "bob", "ann"]),
        pd.Series(["ann", pd.NA, "bob", "ann"], dtype="string"),
        pd.Series(["ann", None, "bob", "ann"], dtype="category"),
        ["ann", pd.NA, "bob", "ann"],
        ["ann", np.nan, "bob", "ann"],
        np.array(["ann", None, "bob", "ann"], dtype=object),
        pd.Series([0, pd.NA, 1, 0], dtype="Int64"),
        pd.array([0, None, 1, 0], dtype="Int64"),
        pd.Series([True, pd.NA, False, True], dtype="boolean"),
    ],
)
def test_missing_labels(y: Any) -> None:
    labels = read_labels(y, 4)
    assert labels.codes.tolist()[1] == -1
    assert labels.codes[0] == labels.codes[3] != labels.codes[2]
    assert len(labels.classes) == 2


def test_na_is_learnt_from_as_none(blobs: Any, quick: dict[str, Any]) -> None:
    names = blobs.y.astype(object)
    names[::3] = None
    with_na = pd.Series(names).astype("string")
    assert with_na.isna().sum() == 60
    settings = quick | {"max_epochs": 2}
    one, two = (MixtureVAEClassifier(**settings).fit(blobs.X, y) for y in (names, with_na))
    np.testing.assert_array_equal(one.predict_proba(blobs.X), two.predict_proba(blobs.X))


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        ([-1, 1], [-1, 1]),
        ([-1, 0], [-1, 0]),
        ([-2, -1, 0], [-2, -1, 0]),
        ([-1, 0, 1, 2], [0, 1, 2]),
        ([-1, 1, 2], [1, 2]),
        ([0, 1], [0, 1]),
    ],
)
@pytest.mark.parametrize("kind", [np.int64, np.int8, object])
def test_no_class_is_lost(y: list[int], classes: list[int], kind: Any) -> None:
    found = read_labels(np.array(y * 3, dtype=kind), 3 * len(y))
    assert found.classes.tolist() == classes
    missing = [number not in classes for number in y * 3]
    assert (found.codes == -1).tolist() == missing


def test_minus_one_that_can_be_read_in_two_ways() -> None:
    y = np.array([-1, 0, 1, -1, 0, 1])
    with pytest.warns(DataWarning, match=r"2 rows of -1 are taken as unlabelled.*astype\(str\)"):
        assert read_labels(y, 6).classes.tolist() == [0, 1]
    assert read_labels(y.astype(str), 6).classes.tolist() == ["-1", "0", "1"]
    assert read_labels(np.where(y == -1, None, y), 6).codes.tolist() == [-1, 0, 1, -1, 0, 1]


def test_plus_and_minus_one_are_learnt(blobs: Any, quick: dict[str, Any]) -> None:
    two = blobs.codes < 2
    y = np.where(blobs.codes[two] == 0, -1, 1)
    model = MixtureVAEClassifier(**quick).fit(blobs.X[two], y)
    assert model.classes_.tolist() == [-1, 1]
    assert model.score(blobs.X[two], y) > 0.95


# Far values


def told(X: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warn_of_far_values(X)
    return [str(one.message) for one in found]


@pytest.mark.filterwarnings("ignore::whowrote.errors.ClusterWarning")  # so short a fit may merge
def test_one_absurd_row_is_named_and_learnt_from(quick_for_both: dict[str, Any]) -> None:
    X, y = make_blobs(300, centers=3, n_features=4, random_state=0)
    X[7] = 1e12
    settings = quick_for_both | {"max_epochs": 1}
    for model in (MixtureVAEClassifier(**settings), MixtureVAEClusterer(3, **settings)):
        sentence = r"row 7 of X has 1e\+12 in column 0, .*\(4 such in all\).*drop, clip or impute"
        with pytest.warns(DataWarning, match=sentence) as caught:
            model.fit(X, y)
        assert caught[0].filename == __file__


def test_an_absurd_value_in_sparse_rows_is_named() -> None:
    X = sparse.random_array((300, 400), density=0.02, rng=np.random.default_rng(0)).tolil()
    assert told(sparse.csr_array(X)) == []
    X[3, 4] = -1e12
    (sentence,) = told(sparse.csr_array(X))
    assert sentence.startswith("row 3 of X has -1e+12 in column 4, where")
    assert told(sparse.csr_array((5, 3))) == []


DRAWS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "normal": lambda g, n: g.normal(size=n),
    "student-t of 2": lambda g, n: g.standard_t(2.0, n),
    "log-normal": lambda g, n: np.exp(2 * g.normal(size=n)),
    "indicator": lambda g, n: (g.random(n) < 0.01).astype(float),
    "indicator in large units": lambda g, n: 1e6 * (g.random(n) < 0.01),
    "counts": lambda g, n: g.poisson(0.02, n).astype(float),
    "constant": lambda g, n: np.full(n, 3.0),
    "two scales": lambda g, n: g.normal(size=n) * np.where(g.random(n) < 0.1, 1e2, 1.0),
}


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("n", [30, 3000])
def test_heavy_tails_and_rare_ones_are_no_wrong_values(name: str, n: int) -> None:
    X = np.column_stack([DRAWS[name](np.random.default_rng(seed), n) for seed in range(30)])
    assert told(X) == []


# Settings to the last digit


def test_a_model_of_float64_keeps_its_settings(blobs: Any, quick: dict[str, Any]) -> None:
    settings = quick | {"max_epochs": 1, "dtype": "float64", "scale_floor": 0.3, "initial_df": 5.7}
    fleet = MixtureVAEClassifier(**settings, df_rate=1e-30).fit(blobs.X, blobs.y).fleet_
    assert fleet.mixture.scale_floor.tolist() == [0.3]
    assert fleet.hidden_dropout.tolist() == [0.1]
    assert fleet.mixture.df.tolist()[0] == pytest.approx([5.7] * 3, abs=1e-12)
    # Negative control: what float32 makes of it.
    assert fleet.float().double().mixture.scale_floor.tolist() != [0.3]
