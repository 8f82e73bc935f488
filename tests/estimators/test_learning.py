"""How the estimators learn: seeds, ensembles, missing labels, sparse rows, clusters, divergence."""

import json
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError

from whowrote import MixtureVAEClassifier, MixtureVAEClusterer
from whowrote.training import DivergenceError, DivergenceWarning
from whowrote.training.members import validation_part

# Seeds


@pytest.mark.filterwarnings("ignore::whowrote.errors.ClusterWarning")  # so short a fit may merge
@pytest.mark.parametrize(
    "make",
    [
        lambda **settings: MixtureVAEClassifier(n_members=2, start="random", **settings),
        lambda **settings: MixtureVAEClassifier(n_members=2, **settings),
        lambda **settings: MixtureVAEClusterer(3, warm_up=2, **settings),
        lambda **settings: MixtureVAEClusterer(3, initialization="random", **settings),
    ],
)
def test_the_seed_alone_decides(
    make: Callable[..., Any], blobs: Any, quick_for_both: dict[str, Any]
) -> None:
    settings = quick_for_both | {"max_epochs": 3}
    answers = []
    for noise in (1, 2):
        torch.manual_seed(noise)
        np.random.seed(noise)  # noqa: NPY002 - the global generator is the point
        answers.append(make(**settings).fit(blobs.X, blobs.y).predict_proba(blobs.X))
    np.testing.assert_array_equal(*answers)
    other = make(**settings | {"random_state": 1}).fit(blobs.X, blobs.y).predict_proba(blobs.X)
    assert np.abs(other - answers[0]).max() > 1e-3


def test_fitting_leaves_the_global_generators_alone(blobs: Any, quick: dict[str, Any]) -> None:
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    model = MixtureVAEClassifier(**quick | {"max_epochs": 1}).fit(blobs.X, blobs.y)
    model.sample(3, random_state=0)
    model.score_samples(blobs.X)
    assert torch.equal(torch.get_rng_state(), before[0])
    np.testing.assert_array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002


def test_a_generator_as_seed_moves_on(blobs: Any, quick: dict[str, Any]) -> None:
    generator = np.random.RandomState(0)
    settings = quick | {"max_epochs": 1, "random_state": generator}
    first, second = (
        MixtureVAEClassifier(**settings).fit(blobs.X, blobs.y).means_ for _ in range(2)
    )
    assert not np.allclose(first, second)


# Ensembles


def test_an_ensemble_averages_its_members(ensemble: MixtureVAEClassifier, blobs: Any) -> None:
    X = torch.as_tensor(ensemble.fitted_.scaling.observations(blobs.X, torch.float32))
    with torch.no_grad():
        scores = ensemble.fleet_.scores(X.expand(3, *X.shape))
    members = scores.log_responsibilities.exp().numpy()
    np.testing.assert_allclose(ensemble.predict_proba(blobs.X), members.mean(axis=0), atol=1e-6)
    # Negative control: the members differ.
    assert np.abs(members[0] - members[1]).max() > 1e-3


def test_a_member_is_a_model_of_its_own(ensemble: MixtureVAEClassifier, blobs: Any) -> None:
    members = [ensemble.member(index) for index in range(3)]
    mean = np.mean([member.predict_proba(blobs.X) for member in members], axis=0)
    np.testing.assert_allclose(ensemble.predict_proba(blobs.X), mean, atol=1e-6)
    np.testing.assert_array_equal(members[ensemble.leader_].means_, ensemble.means_)
    assert (members[1].n_members, members[1].leader_) == (1, 0)
    assert (ensemble.n_members, len(ensemble.fleet_)) == (3, 3)


def test_members_own_seeds_and_validation_rows(ensemble: MixtureVAEClassifier) -> None:
    assert len({member.seed for member in ensemble.fleet_.members}) == 3
    assert {record["member"] for record in ensemble.history_} == {0, 1, 2}


def test_the_leader_has_the_lowest_validation_loss(blobs: Any, quick: dict[str, Any]) -> None:
    X, y = np.vstack([blobs.X] * 2), np.concatenate([blobs.y] * 2)
    model = MixtureVAEClassifier(n_members=3, **quick).fit(X, y)
    best = [
        min(record["watched"] for record in model.history_ if record["member"] == member)
        for member in range(3)
    ]
    assert model.leader_ == int(np.argmin(best))
    np.testing.assert_array_equal(
        model.means_, model.fleet_.mixture.loc[model.leader_].detach().numpy()
    )


def test_a_small_validation_part_is_none(blobs: Any, quick: dict[str, Any]) -> None:
    X, y = blobs.X[:60], blobs.y[:60]
    model = MixtureVAEClassifier(**quick | {"max_epochs": 2}).fit(X, y)
    assert {record["watched"] for record in model.history_} == {None}


@pytest.mark.parametrize("fraction", [0.5, 0.8, 0.99])
def test_every_class_keeps_a_row_to_learn_from(fraction: float) -> None:
    labels = np.repeat([0, 1, 2], [2, 30, 70])
    chosen = validation_part(np.arange(102), labels, fraction, seed=0)
    assert set(np.delete(labels, chosen)) == {0, 1, 2}
    assert len(chosen) > 0.45 * 102


def test_nearly_everything_may_be_held_out(blobs: Any, quick: dict[str, Any]) -> None:
    rows = np.concatenate([np.flatnonzero(blobs.codes == k)[:30] for k in range(3)])
    settings = quick | {"validation_fraction": 0.99, "max_epochs": 1}
    model = MixtureVAEClassifier(**settings).fit(blobs.X[rows], blobs.y[rows])
    assert model.history_[-1]["watched"] is not None


# Missing labels


@pytest.mark.parametrize(
    "hide",
    [
        lambda names, known: np.where(known, names.astype(object), None),
        lambda names, known: np.where(known, names.astype(object), np.nan),
        lambda names, known: [str(n) if k else None for n, k in zip(names, known, strict=True)],
        lambda names, known: [
            str(n) if k else float("nan") for n, k in zip(names, known, strict=True)
        ],
    ],
    ids=["None", "NaN", "list with None", "list with NaN"],
)
def test_missing_names(hide: Callable[..., Any], blobs: Any, quick: dict[str, Any]) -> None:
    known = np.arange(len(blobs.y)) % 3 == 0
    settings = quick | {"max_epochs": 2, "warm_up": 3}
    model = MixtureVAEClassifier(**settings).fit(blobs.X, hide(blobs.y, known))
    assert model.classes_.tolist() == ["ann", "bob", "cyd"]
    phases = [record["phase"] for record in model.history_]
    assert phases == ["labelled"] * 3 + ["everything"] * 2


@pytest.mark.parametrize("kind", [np.int64, np.int8, object])
def test_missing_numbers_are_minus_one(kind: Any, blobs: Any, quick: dict[str, Any]) -> None:
    codes = np.where(np.arange(len(blobs.y)) % 3 == 0, blobs.codes, -1).astype(kind)
    model = MixtureVAEClassifier(**quick | {"max_epochs": 2}).fit(blobs.X, codes)
    assert model.classes_.tolist() == [0, 1, 2]
    assert [record["phase"] for record in model.history_] == ["labelled"] * 2 + ["everything"] * 2


def test_with_all_labels_there_is_one_phase(classifier: MixtureVAEClassifier) -> None:
    assert {record["phase"] for record in classifier.history_} == {"labelled"}


def test_one_labelled_row_of_a_class_is_enough_among_unlabelled(
    blobs: Any, quick: dict[str, Any]
) -> None:
    codes = np.full(len(blobs.codes), -1)
    codes[[int(np.argmax(blobs.codes == k)) for k in range(3)]] = range(3)
    model = MixtureVAEClassifier(**quick | {"max_epochs": 2}).fit(blobs.X, codes)
    assert model.classes_.tolist() == [0, 1, 2]


@pytest.mark.parametrize("seed", [0, 1])
def test_unlabelled_rows_help(seed: int, quick: dict[str, Any]) -> None:
    rng = np.random.default_rng(seed)
    y = np.arange(300) % 3
    centers = rng.normal(size=(3, 6))
    centers *= 3.3 / np.linalg.norm(centers, axis=1, keepdims=True)
    X = centers[y] + rng.normal(size=(300, 6))
    few = np.where(np.arange(300) < 12, y, -1)
    settings = quick | {"max_epochs": 20, "learning_rate": 0.01, "latent_dim": 2, "hidden": 16}
    semi = MixtureVAEClassifier(**settings | {"dropout": 0.0}).fit(X, few)
    alone = MixtureVAEClassifier(**settings | {"dropout": 0.0}).fit(X[:12], y[:12])
    assert semi.score(X[12:], y[12:]) >= alone.score(X[12:], y[12:])
    # Negative control: the labels alone do not solve it.
    assert alone.score(X[12:], y[12:]) < 0.95


# Settings


@pytest.mark.filterwarnings("ignore::whowrote.errors.ClusterWarning")  # so short a fit may merge
def test_the_literal_objective_is_another_one(blobs: Any, quick_for_both: dict[str, Any]) -> None:
    means = {}
    for objective in ("bound", "algorithm-1"):
        settings = quick_for_both | {"objective": objective, "warm_up": 2, "max_epochs": 3}
        means[objective] = MixtureVAEClusterer(3, **settings).fit(blobs.X).means_
        assert np.isfinite(means[objective]).all()
    assert np.abs(means["bound"] - means["algorithm-1"]).max() > 1e-4


@pytest.mark.parametrize(("dtype", "kind"), [("float32", np.float32), ("float64", np.float64)])
def test_precision_is_an_argument(dtype: str, kind: Any, blobs: Any, quick: Any) -> None:
    settings = quick | {"dtype": dtype, "max_epochs": 2}
    model = MixtureVAEClassifier(**settings).fit(blobs.X, blobs.y)
    assert model.transform(blobs.X).dtype == kind
    assert model.means_.dtype == kind


@pytest.mark.parametrize("hidden", [(6, 5), [6, 5], 6, None, ()])
@pytest.mark.parametrize("dropout", [0.2, (0.0, 0.3), [0.1, 0.0]])
def test_shapes_of_networks_and_dropout(hidden: Any, dropout: Any, blobs: Any, quick: Any) -> None:
    settings = quick | {"hidden": hidden, "dropout": dropout, "max_epochs": 1}
    model = MixtureVAEClassifier(**settings).fit(blobs.X, blobs.y)
    expected = {6: (6,), None: (4,)}.get(hidden) if not isinstance(hidden, (list, tuple)) else None
    assert model.fleet_.architecture.hidden == (expected or tuple(hidden or ()))


def test_early_stopping(quick: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(240, 3)), rng.integers(2, size=240)
    settings = quick | {"patience": 2, "max_epochs": 40, "dropout": 0.0}
    model = MixtureVAEClassifier(**settings).fit(X, y)
    watched = [record["watched"] for record in model.history_]
    assert len(watched) < 40
    assert int(np.argmin(watched)) == len(watched) - 3
    assert model.n_iter_ == len(watched)


def test_a_progress_bar_needs_a_terminal(
    blobs: Any, quick: dict[str, Any], capfd: pytest.CaptureFixture[str]
) -> None:
    MixtureVAEClassifier(**quick | {"max_epochs": 1, "verbose": 1}).fit(blobs.X, blobs.y)
    assert capfd.readouterr() == ("", "")


# Divergence

CURE = r"diverged in epoch \d+: the term '\w+' left the finite range.*Lower learning_rate"


def test_a_fit_without_any_good_state_is_an_error(blobs: Any, quick: dict[str, Any]) -> None:
    model = MixtureVAEClassifier(**quick | {"learning_rate": 1e8})
    with pytest.raises(DivergenceError, match=CURE + r".*No state was ever usable"):
        model.fit(blobs.X, blobs.y)
    with pytest.raises(NotFittedError):
        model.predict(blobs.X)


def test_a_late_divergence_keeps_the_last_good_state(blobs: Any, quick: dict[str, Any]) -> None:
    settings = quick | {"learning_rate": 25.0, "batch_size": 180, "validation_fraction": 0.0}
    model = MixtureVAEClassifier(**settings | {"dropout": 0.0, "average": 0.0})
    with pytest.warns(DivergenceWarning, match=CURE):
        model.fit(blobs.X, blobs.y)
    assert model.n_iter_ > 1
    assert np.isfinite(model.predict_proba(blobs.X)).all()


def test_a_second_phase_that_diverges_keeps_the_first(quick: dict[str, Any], blobs: Any) -> None:
    codes = np.where(np.arange(len(blobs.codes)) < 30, blobs.codes, -1)
    settings = quick | {"learning_rate": 40.0, "batch_size": 30, "warm_up": 1, "average": 0.0}
    model = MixtureVAEClassifier(**settings | {"dropout": 0.0})
    with pytest.warns(DivergenceWarning, match=CURE):
        model.fit(blobs.X, codes)
    assert {record["phase"] for record in model.history_} == {"labelled", "everything"}
    assert np.isfinite(model.predict_proba(blobs.X)).all()
    assert model.leader_ == 0


def test_history_of_a_divergence_is_still_data(quick: dict[str, Any], blobs: Any) -> None:
    settings = quick | {"learning_rate": 25.0, "batch_size": 180, "validation_fraction": 0.0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergenceWarning)
        model = MixtureVAEClassifier(**settings | {"average": 0.0}).fit(blobs.X, blobs.y)
    assert json.loads(json.dumps(model.history_))
