"""Training learns habits, resumes to the step, and shares its work."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from features.made_up import small_config, texts_by, write_corpus
from whowrote.cli import app
from whowrote.distributed import HERE
from whowrote.errors import InputError
from whowrote.features import AdHominem
from whowrote.features.extractor.checkpoints import (
    Checkpoint,
    Store,
    read_checkpoint,
    write_checkpoint,
)
from whowrote.features.extractor.driver import Outcome, train, train_on
from whowrote.features.extractor.recipe import Config, Recipe, read_config
from whowrote.features.extractor.run import HISTORY, WEIGHTS, Run, nearest
from whowrote.features.extractor.start import learning_rate, start_words
from whowrote.features.reading import read_extractor
from whowrote.features.vocabulary import FIRST_WORD


def weights(outcome: Outcome) -> dict[str, torch.Tensor]:
    return outcome.extractor.network.state_dict()


@pytest.mark.parametrize("loss", ["batch", "pairs"])
def test_training_finds_the_habits_of_authors_it_never_saw(tmp_path: Path, loss: str) -> None:
    write_corpus(tmp_path / "one.csv", range(400))
    write_corpus(tmp_path / "two.csv", range(1000, 1040))
    options = {"loss": loss, "steps": 160, "evaluate_every": 160, "learning_rate": 0.005}
    config = small_config(tmp_path, training=options, batch={"authors": 48})
    outcome = train(config, device="cpu")
    assert outcome.finished
    assert outcome.history[-1].auc["one"] > 0.86
    untrained = small_config(tmp_path, training={"steps": 1}, out="untrained")
    assert train(untrained, device="cpu").history[-1].auc["one"] < outcome.history[-1].auc["one"]


@pytest.mark.parametrize("batch", [{}, {"hard_share": 0.5}, {"mixed": False}])
def test_an_interrupted_run_ends_like_an_undisturbed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: dict[str, object]
) -> None:
    whole = train(small_config(tmp_path, out="whole", batch=batch), device="cpu")
    config = small_config(tmp_path, out="parts", batch=batch)
    learn = Run.learn

    def falter(run: Run, share: float) -> int:
        if run.step == 6:
            raise KeyboardInterrupt
        documents = learn(run, share)
        if run.step in (3, 5):
            run.count_step(documents, 0.0)
            run.save()
            run._since.steps -= 1
            run._since.documents -= documents
        return documents

    monkeypatch.setattr(Run, "learn", falter)
    with pytest.raises(KeyboardInterrupt):
        train(config, device="cpu")
    monkeypatch.setattr(Run, "learn", learn)
    resumed = read_checkpoint(config.out)
    assert resumed is not None
    assert resumed.values["step"] == 5
    parts = train(config, device="cpu")
    assert [record.step for record in parts.history] == [4, 8]
    assert parts.history[-1].auc == whole.history[-1].auc
    assert parts.history[-1].loss == pytest.approx(whole.history[-1].loss)
    for name, value in weights(whole).items():
        assert torch.equal(weights(parts)[name], value), name


def test_a_run_goes_on_in_another_folder_from_what_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, every = Store((tmp_path / "kept").as_uri()), {"checkpoint_minutes": 0.0}
    whole = train(small_config(tmp_path, out="whole"), device="cpu")
    learn = Run.learn

    def falter(run: Run, share: float) -> int:
        if run.step == 6:
            raise KeyboardInterrupt
        return learn(run, share)

    monkeypatch.setattr(Run, "learn", falter)
    first = small_config(tmp_path, out="first", training=every)
    with pytest.raises(KeyboardInterrupt):
        train(first, device="cpu", store=store)
    monkeypatch.setattr(Run, "learn", learn)
    there = tmp_path / "kept" / "checkpoint.json"
    assert json.loads(there.read_text())["step"] == 6
    kept = {file.name for file in (tmp_path / "kept").iterdir()}
    assert kept == {file.name for file in first.out.iterdir()}  # former shards are gone
    elsewhere = small_config(tmp_path, out="elsewhere", training=every)
    store.fetch(elsewhere.out)
    fetched = read_checkpoint(elsewhere.out)
    assert fetched is not None
    assert fetched.values["step"] == 6
    before = (elsewhere.out / "checkpoint.json").stat().st_mtime_ns
    store.fetch(elsewhere.out)  # as far as what is there: nothing is brought
    assert (elsewhere.out / "checkpoint.json").stat().st_mtime_ns == before
    rest = train(elsewhere, device="cpu", store=store)
    assert rest.step == 8
    for name, value in weights(whole).items():
        assert torch.equal(weights(rest)[name], value), name
    anew = train(small_config(tmp_path, out="anew"), device="cpu", minutes=0)  # control
    assert any(not torch.equal(weights(anew)[n], value) for n, value in weights(rest).items())
    store.forget()
    assert not there.exists()


@pytest.mark.parametrize("url", ["nothing://here", "file:///proc/here/none"])
def test_a_store_that_cannot_be_reached_is_a_sentence(tmp_path: Path, url: str) -> None:
    with pytest.raises(InputError, match=f"checkpoints at '{url}' cannot be reached"):
        train(small_config(tmp_path), device="cpu", store=Store(url))


def test_a_run_in_a_task_is_the_run_without_one(tmp_path: Path) -> None:
    config = small_config(tmp_path, out="here")
    plain = train(config, device="cpu")
    there = small_config(tmp_path, out="there")
    far = train_on(HERE, there, device="cpu", store=Store((tmp_path / "kept").as_uri()))
    assert (far.step, far.finished) == (8, True)
    assert [one.auc for one in far.history] == [one.auc for one in plain.history]
    assert (there.out / WEIGHTS).is_file()
    assert not (there.out / "checkpoint.json").exists()  # it is in the store
    ours, theirs = (read_extractor(one.out / WEIGHTS) for one in (config, there))
    for name, value in ours.network.state_dict().items():
        assert torch.equal(theirs.network.state_dict()[name], value), name
    again = train_on(HERE, there, device="cpu", store=Store((tmp_path / "kept").as_uri()))
    assert again.history == far.history  # nothing is left to do
    anew = train_on(HERE, config, device="cpu", resume=False, minutes=0)
    assert anew.step == 0


def test_minutes_end_a_call_but_not_the_run(tmp_path: Path) -> None:
    config = small_config(tmp_path)
    first = train(config, device="cpu", minutes=0)
    assert not first.finished
    assert first.step == 0
    assert train(config, device="cpu").finished


def test_a_checkpoint_of_other_settings_is_refused(tmp_path: Path) -> None:
    train(small_config(tmp_path), device="cpu")
    other = small_config(tmp_path, dropout={"words": 0.5})
    with pytest.raises(InputError, match=r"checkpoint was made with dropout.*restore them"):
        train(other, device="cpu")
    assert train(other, device="cpu", resume=False).finished


def test_a_setting_newer_than_the_checkpoint_had_its_default(tmp_path: Path) -> None:
    config = small_config(tmp_path)
    train(config, device="cpu", minutes=0)
    manifest = config.out / "checkpoint.json"
    values = json.loads(manifest.read_text())
    del values["settings"]["network"]["lev_gain"], values["digest"]
    manifest.write_text(json.dumps(values))
    other = small_config(tmp_path, network={"lev_gain": 0.5})
    with pytest.raises(InputError, match=r"checkpoint was made with network"):
        train(other, device="cpu")
    assert train(config, device="cpu").finished


def test_a_standardised_lev_stays_off_its_bounds(tmp_path: Path) -> None:
    """A cosine has no use for length, so a plain LEV may grow until its tanh is a sign."""
    write_corpus(tmp_path / "one.csv", range(100))
    write_corpus(tmp_path / "two.csv", range(1000, 1040))
    size = {}
    for gain in (0.5, 0.0):
        config = small_config(
            tmp_path,
            network={"lev_gain": gain},
            training={"steps": 60, "learning_rate": 0.05, "evaluate_every": 60},
            out=f"out{gain}",
        )
        levs = AdHominem(weights_of(config), device="cpu").transform(texts_by(500, 20))
        size[gain] = float(np.abs(levs).mean())
    assert size[0.5] < 0.6 < size[0.0]


def weights_of(config: Config) -> Path:
    train(config, device="cpu")
    return config.out / WEIGHTS


def test_ablations_and_precision_run(tmp_path: Path) -> None:
    for network in ({"levels": 1}, {"characters": False}, {"standardise": False}):
        config = small_config(tmp_path, network=network, training={"steps": 2}, out="ablation")
        assert train(config, device="cpu", resume=False).step == 2


def test_the_best_weights_are_written_and_read(tmp_path: Path) -> None:
    config = small_config(tmp_path)
    outcome = train(config, device="cpu")
    extractor = read_extractor(config.out / WEIGHTS)
    assert extractor.vocabulary == outcome.extractor.vocabulary
    assert extractor.longest == 60
    assert extractor.card["authors"] > 80
    for name, value in weights(outcome).items():
        read = extractor.network.state_dict()[name]
        torch.testing.assert_close(read, value, atol=1e-3, rtol=1e-3)
    lines = (config.out / HISTORY).read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [4, 8]


def test_bad_weights_have_their_sentences(tmp_path: Path) -> None:
    config = small_config(tmp_path, training={"steps": 1})
    train(config, device="cpu")
    whole = (config.out / WEIGHTS).read_bytes()
    cut = tmp_path / "cut.safetensors"
    cut.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"truncated or is not a safetensors file"):
        read_extractor(cut)
    other = tmp_path / "other.safetensors"
    other.write_bytes(whole.replace(b'\\"format\\": 1', b'\\"format\\": 9'))
    with pytest.raises(InputError, match=r"model format 9.*this version reads 1"):
        read_extractor(other)
    misfit = tmp_path / "misfit.safetensors"
    misfit.write_bytes(whole.replace(b'\\"lev_dim\\": 12', b'\\"lev_dim\\": 13'))
    with pytest.raises(InputError, match=r"are not as large as the file says of them"):
        read_extractor(misfit)


def test_a_damaged_checkpoint_says_so(tmp_path: Path) -> None:
    assert read_checkpoint(tmp_path) is None
    (tmp_path / "checkpoint.json").write_text("{")
    with pytest.raises(InputError, match=r"checkpoint.json' is damaged or was edited; take"):
        read_checkpoint(tmp_path)


def test_a_checkpoint_is_in_small_files_and_the_former_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays = {"a": np.arange(5_000_000.0), "b": np.ones(3)}
    write_checkpoint(tmp_path, Checkpoint({"step": 1}, {"a": np.zeros(2)}))
    write_checkpoint(tmp_path, Checkpoint({"step": 2}, arrays))
    files = list(tmp_path.glob("*.safetensors"))
    assert len(files) == 3
    assert max(file.stat().st_size for file in files) < 16_000_000
    read = read_checkpoint(tmp_path)
    assert read is not None
    assert all((read.arrays[name] == array).all() for name, array in arrays.items())


def test_rate_warms_up_and_falls() -> None:
    recipe = Recipe(steps=100, learning_rate=1.0, warm_up=10, final_rate=0.1)
    assert learning_rate(recipe, 0, 0.0) == pytest.approx(0.1)
    assert learning_rate(recipe, 9, 0.0) == pytest.approx(1.0)
    assert learning_rate(recipe, 99, 1.0) == pytest.approx(0.1)


def test_nearest_leaves_the_row_itself_out() -> None:
    rows = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
    assert nearest(rows, 1).ravel().tolist() == [1, 0, 1]


def test_words_may_start_in_given_vectors(tmp_path: Path) -> None:
    path = tmp_path / "glove.npz"
    np.savez(path, words=np.array(["the", "of"]), vectors=np.ones((2, 8)) * [[1], [3]])
    config = small_config(tmp_path, glove="glove.npz", training={"steps": 1})
    outcome = train(config, device="cpu")
    table = outcome.extractor.network.words.weight
    row = outcome.extractor.vocabulary.words.index("the") + FIRST_WORD
    assert table[row].std() < 0.1
    with pytest.raises(InputError, match=r"have 3 dimensions and word_dim is 8"):
        start_words(outcome.extractor.network, outcome.extractor.vocabulary, ["a"], np.ones((1, 3)))


def test_a_missing_gpu_is_said(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    with pytest.raises(InputError, match=r"device is 'cuda', which this machine has not; .*'cpu'"):
        train(small_config(tmp_path), device="cuda")


TINY = Path(__file__).parents[3] / "experiments" / "extractor"


def test_the_command_trains_resumes_and_reports(tmp_path: Path) -> None:
    write_corpus(tmp_path / "texts.csv", range(80))
    text = (TINY / "tiny.toml").read_text(encoding="utf-8")
    config = tmp_path / "tiny.toml"
    config.write_text(text.replace("texts.parquet", "texts.csv"), encoding="utf-8")
    run, command = CliRunner(), ["extractor", "train", str(config), "--device", "cpu"]
    first = run.invoke(app, [*command, "--minutes", "0"])
    assert first.exit_code == 0, first.output
    assert "interrupted; the same command resumes it" in first.output
    second = run.invoke(app, command)
    assert "step 20, finished" in second.output
    assert "AUC/recall@1: texts" in second.stderr
    assert (tmp_path / "tiny" / WEIGHTS).is_file()


def test_the_shipped_configuration_is_valid() -> None:
    config = read_config(TINY / "shipped.toml")
    assert sorted(config.corpora) == ["blogs", "forum", "hotels", "mail"]
    assert set(config.mixture) == set(config.corpora)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[training]\nstep = 3", r"\[training\] has 'step'.*did you mean 'steps'"),
        ("[training]\nsteps = 'x'", r"steps in \[training\] is 'x'; it must be a whole number"),
        ("[training]\nsteps = true", r"steps in \[training\] is True"),
        ("[training]\nloss = 'x'\nsteps = 1", r"loss is 'x'; it must be one of"),
        ("[training]\nprecision = 'x'\nsteps = 1", r"precision is 'x'; it must be one of"),
        ("[training]\nclip_norm = 0\nsteps = 1", r"clip_norm is 0; it must be above 0"),
        ("[training]\naverage = 1\nsteps = 1", r"average is 1; it must be in \[0, 1\)"),
        ("[training]", r"neither steps nor max_minutes"),
        ("[corpuses]", r"the file has 'corpuses'"),
        ("x =", r"is not valid TOML"),
    ],
)
def test_bad_configurations(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_config(path)
    with pytest.raises(InputError, match=r"absent.toml' cannot be read"):
        read_config(tmp_path / "absent.toml")


ON_TWO = """
import hashlib, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from features.made_up import small_config
from whowrote.features.extractor.run import Processes, join_processes
from whowrote.features.extractor.run import Run
from whowrote.features.extractor.driver import load_for, train
import torch
torch.set_num_threads(1)
folder, processes = Path(sys.argv[1]), join_processes()

def digest(state):
    return hashlib.sha256(b"".join(v.numpy().tobytes() for v in state.values())).hexdigest()

outcome = train(small_config(folder, training={"steps": 4}), device="cpu")
print("shipped", outcome.step, digest(outcome.extractor.network.state_dict()))

def last_weights(name):
    config = small_config(folder, out=name)
    run = Run(config, load_for(config, processes), torch.device("cpu"), processes)
    for step in range(3):
        run.learn(0.0)
    return digest(run.network.state_dict())

print("shared", 3, last_weights("shared"))
Processes.mean_ = lambda self, tensor: None
print("apart", 3, last_weights("apart"))
torch.distributed.destroy_process_group()
"""


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def test_two_processes_share_one_model(tmp_path: Path) -> None:
    """Weights and statistics are equal to the bit; not so if nothing were averaged."""
    small_config(tmp_path)
    script = tmp_path / "two.py"
    script.write_text(ON_TWO)
    environment = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    running = [
        subprocess.Popen(
            [sys.executable, str(script), str(tmp_path), str(Path(__file__).parents[2])],
            env=environment | {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    said = [process.communicate(timeout=240)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0]
    first, second = (dict(line.split(" ", 1) for line in text.splitlines()) for text in said)
    assert first["shipped"].startswith("4 ")
    assert first["shipped"] == second["shipped"]
    assert first["shared"] == second["shared"]
    assert first["apart"] != second["apart"]
    checkpoint = read_checkpoint(tmp_path / "out")
    assert checkpoint is not None
    assert checkpoint.values["step"] == 4


@pytest.mark.gpu
def test_evaluating_on_a_gpu_is_quiet(tmp_path: Path, cuda: torch.device) -> None:
    """cuDNN warns of weights in pieces, as a copied network has them; warnings are errors here."""
    assert train(small_config(tmp_path), device=cuda).history
