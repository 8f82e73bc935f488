"""A record of every fit: what it says, and many of them in one file."""

import json
import random
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from sweep.small_sweeps import NAMES, SPLITS, L, X, Y, by_name, files, made, run
from threads import one_thread as one_thread
from whowrote import __version__
from whowrote.errors import InputError
from whowrote.model import Architecture, Member, MixtureVAE, Rows, Streams
from whowrote.sweep import (
    Record,
    Results,
    pack,
    read,
    shares_of,
)
from whowrote.sweep.records import Candidate, Divergence, read_packed, record_path, write
from whowrote.training import Assignment, Plan, initialize, train


def test_there_is_a_record_for_every_fit(results: Results, out: Path) -> None:
    assert len(results) == len(by_name(results)) == 8 * 6 * 2
    assert set(files(out)) == {f"{name}.json" for name in by_name(results)}
    assert by_name(read(out)) == by_name(results)
    labels = {(r.fold, r.share, r.seed) for r in results}
    assert labels == {(f, s, seed) for f in range(3) for s in (0.5, 1.0) for seed in (0, 7)}
    assert {r.split for r in results} == {s.hash for s in shares_of(SPLITS, [0.5, 1.0]).values()}


def test_a_record_says_what_was_found(results: Results) -> None:
    for record in results:
        split = SPLITS[record.fold]
        for error, rows in (
            (record.development_error, split.development),
            (record.test_error, split.test),
        ):
            assert error is not None
            assert error * len(rows) == pytest.approx(round(error * len(rows)), abs=1e-6)
            assert 0 <= error <= 1
        assert record.development_log_loss > 0
        assert 1 <= record.best_epoch <= record.epochs <= 5
        sizes = record.n_train, record.n_development, record.n_test
        assert sizes[1:] == (len(split.development), len(split.test))
        assert sizes[0] == len(split.fraction(record.share).train)
        assert record.seconds > 0
        assert record.diverged is None
        assert record.versions["whowrote"] == __version__
        assert record.versions["torch"] == torch.__version__
        assert record.versions["device"].startswith("cpu")
        assert record.protocol["watch"] == "log-loss"
        if record.configuration["component"] == "gaussian":
            assert record.df is None
        else:
            assert len(record.df) == 3
            assert min(record.df) > 2
    # Something was learnt: chance is two thirds.
    assert min(choice.development_error for choice in results.best()) < 0.35


@pytest.mark.parametrize("place", [0, 37, 95])
def test_a_record_is_what_training_by_hand_gives(results: Results, place: int) -> None:
    """Scaled by its own training rows, stopped on the development rows, tested once."""
    record = results.records[place]
    by_hand = trained_by_hand(record, scale_by_all=False)
    assert by_hand["development"] == pytest.approx(record.development_log_loss, rel=1e-4)
    assert by_hand["test"] == pytest.approx(record.test_log_loss, rel=1e-4)
    assert by_hand["error"] == pytest.approx(record.test_error, abs=1e-6)
    assert by_hand["epochs"] == record.epochs
    # Negative control: the test rows had a part in the scaling.
    leaky = trained_by_hand(record, scale_by_all=True)
    ours = [record.development_log_loss, record.test_log_loss]
    assert [leaky["development"], leaky["test"]] != pytest.approx(ours, rel=1e-4)


def trained_by_hand(record: Record, *, scale_by_all: bool) -> dict[str, float]:
    split = shares_of(SPLITS, [0.5, 1.0])[(record.fold, record.share)]
    settings = record.configuration
    part = slice(None) if scale_by_all else list(split.train)
    scaled = (X - X[part].mean(0)) / X[part].std(0)
    labels = torch.as_tensor(np.searchsorted(NAMES, Y))
    rows = Rows(torch.as_tensor(scaled, dtype=torch.float32), labels)
    order = np.random.RandomState(record.seed).permutation(np.array(split.train))
    names = ("component", "learning_rate", "scale_floor", "l1", "joint_weight", "label_weight")
    member = Member(
        seed=record.seed,
        input_dropout=settings["dropout"][0],
        hidden_dropout=settings["dropout"][1],
        **{name: settings[name] for name in (*names, "initial_df", "df_rate")},
    )
    shape = Architecture(L, 3, settings["latent_dim"], tuple(settings["hidden"]))
    fleet = MixtureVAE(shape, [member])
    assignment = Assignment((torch.as_tensor(order),), (torch.tensor(split.development),))
    initialize(fleet, rows, assignment)
    plan = Plan(max_epochs=5, batch_size=20, patience=15)
    outcome = train(fleet, rows, assignment, plan, Streams([record.seed]))
    test = list(split.test)
    log_gamma = fleet.scores(rows.targets[test][None]).log_responsibilities[0].detach()
    right = log_gamma.argmax(-1) == labels[test]
    return {
        "development": outcome.best[0],
        "test": -float(log_gamma[torch.arange(len(test)), labels[test]].mean()),
        "error": 1 - float(right.double().mean()),
        "epochs": len(outcome.history),
    }


def test_early_stopping_watches_what_it_is_told_to(tmp_path: Path) -> None:
    """Of the same epochs, each keeps the one that is best in what it watches."""
    grid = {"learning_rate": [0.01, 0.05], "max_epochs": 10, "patience": 99, "average": 0.0}
    by_error, by_loss = (
        run(grid, tmp_path, watch=watch, seeds=range(3)) for watch in ("error", "log-loss")
    )
    assert len(by_name(by_error) | by_name(by_loss)) == 36
    for a, b in zip(by_error, by_loss, strict=True):
        assert a.development_error <= b.development_error
        assert a.development_log_loss >= b.development_log_loss
    assert any(a.best_epoch != b.best_epoch for a, b in zip(by_error, by_loss, strict=True))
    assert {record.epochs for record in (*by_error, *by_loss)} == {10}


def test_a_packed_file_holds_the_same_records(results: Results, out: Path, tmp_path: Path) -> None:
    file = tmp_path / "records.parquet"
    assert pack(out, file) == len(results)
    assert list(read(file)) == list(read(out))
    again = tmp_path / "again.parquet"
    pack(out, again)
    assert again.read_bytes() == file.read_bytes()
    assert [c.configuration for c in read(file).best()] == [c.configuration for c in results.best()]


def test_a_packed_record_takes_less_than_four_hundred_bytes(tmp_path: Path) -> None:
    """Then 25,000 of them, of thirty authors, stay below ten megabytes."""
    source = random.Random(0)
    rates = [0.001 * (1 + i) for i in range(8)]
    texts = []
    for split in range(25):
        for rate in rates:
            df = [float(f"{2 + 60 * source.random():.6g}") for _ in range(30)]
            error, loss = source.randrange(2034) / 2034, source.random()
            record = made(rate, error, loss, split=f"{split:064x}", data="d" * 64, df=df)
            texts.append(replace(record, test_error=source.random(), test_log_loss=source.random()))
    for record in texts:
        write(tmp_path / "out", record)
    pack(tmp_path / "out", tmp_path / "all.parquet")
    assert (tmp_path / "all.parquet").stat().st_size < 400 * len(texts)


def test_files_that_are_no_records(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there are no records at .*gone"):
        read(tmp_path / "gone")
    with pytest.raises(InputError, match=r"does not end in \.parquet; name the packed file so"):
        pack(tmp_path, tmp_path / "records.json")
    plain = tmp_path / "x.parquet"
    pq.write_table(pa.table({"fold": [0]}), plain)
    with pytest.raises(InputError, match=r"'.*x.parquet' holds no records that this version reads"):
        read(plain)
    damaged = tmp_path / "x.parquet"
    damaged.write_bytes(b"PAR1 but no more")
    with pytest.raises(InputError, match="cannot be read"):
        read(damaged)


def test_a_divergence_comes_back_from_a_packed_file(tmp_path: Path) -> None:
    records = made(0.1, None, None, df=None, diverged=Divergence(3, "prior")), made(0.2, 0.3)
    for record in records:
        write(tmp_path / "out", record)
    pack(tmp_path / "out", tmp_path / "some.parquet")
    assert by_name(read(tmp_path / "some.parquet")) == {one.name: one for one in records}


def test_a_record_without_the_later_fields_is_read(tmp_path: Path) -> None:
    """Those of a sweep before records had method, corpus and sizes."""
    record = made(0.1, 0.2, n_train=9, n_development=4, n_test=3, method="m", corpus="c")
    plain = record.to_dict()
    for name in LATER:
        del plain[name]
    path = record_path(tmp_path, record.name)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(plain))
    (found,) = read(tmp_path)
    assert found == replace(record, n_train=0, n_development=0, n_test=0, method="", corpus="")


def test_a_candidate_has_no_test_figure() -> None:
    names = {one.name for one in fields(Candidate)}
    assert not any("test" in name for name in names)
    assert type(made(0.1, 0.2).candidate()) is Candidate
    assert {one.name for one in fields(Record)} - names >= {"test_error", "test_log_loss", "n_test"}


LATER = ("method", "corpus", "n_train", "n_development", "n_test")
COMMITTED = Path(__file__).parents[2] / "experiments" / "results"


@pytest.mark.parametrize(("folder", "n"), [("published", 30_800), ("patience", 5_000)])
def test_committed_records_of_the_first_format_are_read_as_they_are(folder: str, n: int) -> None:
    path = COMMITTED / folder / "trials.parquet"
    table, packed = pq.read_table(path), read_packed(path)
    assert len(packed.records) == n
    # Nothing is lost of what a configuration was, and no figure moves.
    assert [r.settings_text for r in packed.records] == table["configuration"].to_pylist()
    for name in ("method", "corpus", "fold", "share", "seed", "n_train", "n_development", "n_test"):
        assert [getattr(r, name) for r in packed.records] == table[name].to_pylist()
    for name in ("development_error", "development_log_loss", "test_error", "seconds"):
        assert [getattr(r, name) for r in packed.records] == table[name].to_pylist()
    assert [r.diverged is not None for r in packed.records] == table["diverged"].to_pylist()
    assert sum(r.df is not None for r in packed.records) == n - table["df"].null_count


def test_who_reads_records_does_not_load_torch() -> None:
    code = "import sys, whowrote.sweep.results; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
