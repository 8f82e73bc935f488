"""The published clustering experiment, small; the full record is in experiments/results."""

import inspect
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from whowrote.cli import app
from whowrote_experiments import pinwheel
from whowrote_experiments.pinwheel import (
    METHODS,
    Outcome,
    clustering_accuracy,
    make_model,
    make_pinwheel,
    run,
)


def test_arms_are_bent_and_equal() -> None:
    data = make_pinwheel(200, seed=0)
    assert np.bincount(data.arms).tolist() == [200] * 5
    radius = np.linalg.norm(data.points, axis=1)
    turned = np.angle((data.points @ [1, 1j]) ** 5)  # the five arms, laid over one another
    near, far = np.abs(radius - 6) < 1, np.abs(radius - 14) < 1
    apart = np.angle(np.mean(np.exp(1j * turned[far])) / np.mean(np.exp(1j * turned[near])))
    assert abs(apart) > 1  # a straight arm would give 0


def test_the_same_seed_draws_the_same_points() -> None:
    first, again, other = (make_pinwheel(20, seed).points for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_accuracy_does_not_care_for_names() -> None:
    truth = np.array([0, 0, 1, 1, 2, 2])
    assert clustering_accuracy(truth, np.array([2, 2, 0, 0, 1, 1])) == 1.0
    assert clustering_accuracy(truth, np.array([2, 2, 0, 0, 0, 0])) == pytest.approx(4 / 6)


def test_the_published_networks() -> None:
    model = make_model("student-t", seed=0, max_epochs=1)
    assert model.hidden == (512, 512)
    assert model.activation == "relu"
    assert model.latent_dim == 2
    assert model.initial_df == 5.0
    assert model.initialization == "gaussian-mixture"


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, Path]:
    out = tmp_path_factory.mktemp("pinwheel")
    return run(out, seeds=[3], per_arm=60, max_epochs=8), out


def test_figure_and_record_are_written(outcome: tuple[Outcome, Path]) -> None:
    result, out = outcome
    assert {path.name for path in out.iterdir()} == {
        "pinwheel.png",
        "pinwheel.svg",
        "pinwheel.json",
        "pinwheel.npz",
    }
    record = json.loads((out / "pinwheel.json").read_text())
    assert set(record["summary"]) == set(METHODS)
    assert record["trials"][0]["seed"] == 3
    assert record["summary"] == result.summary()


def test_even_a_short_run_finds_most_of_the_arms(outcome: tuple[Outcome, Path]) -> None:
    result, _ = outcome
    assert result.summary()["student-t VAE"]["worst"] > 0.8  # chance is 0.2


def test_the_command_prints_a_table_and_json(
    outcome: tuple[Outcome, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []

    def found(out: Path, **options: Any) -> Outcome:
        inspect.signature(run).bind(out, **options)
        asked.append({"out": out, **options})
        options["report"](outcome[0].trials[0])
        return outcome[0]

    monkeypatch.setattr(pinwheel, "run", found)
    arguments = ["experiment", "pinwheel", "--seeds", "2", "--points", "20", "--epochs", "1"]
    shown = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path)])
    assert shown.exit_code == 0, shown.output
    assert "student-t VAE" in shown.stdout
    assert "seed 3: " in shown.stderr
    assert "pinwheel.png" in shown.stdout.replace("\n", "")
    printed = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path), "--json"])
    assert set(json.loads(printed.stdout)["summary"]) == set(METHODS)
    for one in asked:
        assert one["report"] is not None
        assert (one["out"], one["per_arm"], one["max_epochs"]) == (tmp_path, 20, 1)
        assert list(one["seeds"]) == list(pinwheel.FRESH_SEEDS)[:2]
