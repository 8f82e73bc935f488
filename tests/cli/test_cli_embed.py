"""``whowrote embed``: any corpus into one table, whatever interrupts it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from features.made_up import texts_by, write_corpus
from whowrote.cli import app
from whowrote.corpus.texts import load
from whowrote.errors import InputError
from whowrote.features import AdHominem, StyleExtractor, embed_corpus
from whowrote.features.adhominem import PRETRAINED_STYLE
from whowrote.features.streaming import Choice, Part, part_path
from whowrote.files import sha256_of
from whowrote.sweep.data import read_vectors

ROUNDING = 5e-5
COMMAND = [sys.executable, "-m", "whowrote", "embed"]


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["embed", *map(str, arguments), "--device", "cpu"])


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_corpus(tmp_path / "texts.csv", range(10), count=6)


def vectors(path: Path) -> Any:
    table = pq.read_table(path)
    return np.stack(table.column("vector").to_numpy(zero_copy_only=False))


def assert_same_table(left: Path, right: Path) -> None:
    one, two = pq.read_table(left), pq.read_table(right)
    assert one.schema.equals(two.schema, check_metadata=True)
    for name in ("id", "author", "sha256"):
        assert one.column(name).to_pylist() == two.column(name).to_pylist()
    np.testing.assert_allclose(vectors(left), vectors(right), atol=ROUNDING)


def test_the_table_is_the_corpus(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "levs.parquet"
    answer = run(corpus, "--out", out, "--part", 25)
    assert answer.exit_code == 0, answer.output
    assert "60 texts, 200 dimensions" in answer.stdout
    table, texts = pq.read_table(out), load(corpus)
    assert table.schema.field("vector").type == pa.list_(pa.float32(), 200)
    assert table.column("id").to_pylist() == list(texts.ids)
    assert table.column("author").to_pylist() == list(texts.authors)
    assert table.column("sha256").to_pylist() == list(texts.sha256)
    expected = AdHominem(device="cpu").transform(texts.texts)
    np.testing.assert_allclose(vectors(out), expected, atol=ROUNDING)
    header = json.loads(pq.read_schema(out).metadata[b"whowrote"])
    assert header["features"] == "adhominem"
    assert len(header["weights_sha256"]) == 64
    assert [path.name for path in tmp_path.iterdir() if "parquet" in path.name] == [out.name]
    assert read_vectors(out).X.shape == (60, 200)


def test_json_and_quiet(corpus: Path, tmp_path: Path) -> None:
    answer = run(corpus, "--out", tmp_path / "a.parquet", "--json")
    found = json.loads(answer.stdout)
    assert (found["texts"], found["dimensions"], found["found"], found["short"]) == (60, 200, 0, 0)
    assert run(corpus, "--out", tmp_path / "b.parquet", "--quiet").output == ""


@pytest.mark.parametrize(("size", "dimensions"), [("large", 400), ("small", 200)])
def test_either_size_of_the_style_extractor(
    corpus: Path, tmp_path: Path, size: str, dimensions: int
) -> None:
    out = tmp_path / "levs.parquet"
    answer = run(corpus, "--out", out, "--features", "style", "--size", size, "--part", 25)
    assert answer.exit_code == 0, answer.output
    assert f"60 texts, {dimensions} dimensions" in answer.stdout
    expected = StyleExtractor(size=size, device="cpu").transform(load(corpus).texts)
    np.testing.assert_allclose(vectors(out), expected, atol=ROUNDING)
    header = json.loads(pq.read_schema(out).metadata[b"whowrote"])
    assert (header["size"], header["weights_sha256"]) == (size, sha256_of(PRETRAINED_STYLE))


def test_several_processes_make_the_same_table(corpus: Path, tmp_path: Path) -> None:
    one, two = tmp_path / "one.parquet", tmp_path / "two.parquet"
    embed_corpus(corpus, one, Choice(device="cpu"), texts_per_part=16)
    embed_corpus(corpus, two, Choice(device="cpu"), texts_per_part=16, workers=2)
    assert_same_table(one, two)


@pytest.mark.parametrize("victim", ["parent", "child"])
def test_a_killed_run_goes_on_and_ends_like_an_undisturbed_one(tmp_path: Path, victim: str) -> None:
    corpus = write_corpus(tmp_path / "texts.csv", range(32), count=10, length=120)
    whole, killed = tmp_path / "whole.parquet", tmp_path / "killed.parquet"
    parts = tmp_path / "killed.parquet.parts"
    kept = kill_halfway(victim, parts, corpus, "--out", killed, "--part", 10, "--workers", 2)
    assert not killed.exists()
    assert 3 <= len(kept) < 32
    spoilt = min(kept)
    spoilt.write_bytes(spoilt.read_bytes()[:100])

    seen: list[Part] = []
    resumed = embed_corpus(
        corpus, killed, Choice(device="cpu"), texts_per_part=10, on_part=seen.append
    )
    taken = {part_path(parts, number) for number, part in enumerate(seen) if part.found}
    assert taken == kept - {spoilt}  # a damaged part is made again
    assert resumed.found == 10 * len(taken)
    assert not parts.exists()
    embed_corpus(corpus, whole, Choice(device="cpu"), texts_per_part=10)
    assert_same_table(whole, killed)


def kill_halfway(victim: str, parts: Path, *arguments: object) -> set[Path]:
    """Start the command, kill it or a child of it at three parts; the parts that are left."""
    command = [*COMMAND, *map(str, arguments), "--device", "cpu"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while len(list(parts.glob("part-*.parquet"))) < 3:
        assert process.poll() is None, process.stderr
        time.sleep(0.005)
    children = psutil.Process(process.pid).children(recursive=True)
    worker = next(child for child in children if "spawn_main" in " ".join(child.cmdline()))
    os.kill(process.pid if victim == "parent" else worker.pid, signal.SIGKILL)
    said = process.communicate()[1]
    assert psutil.wait_procs(children, timeout=10)[1] == []  # nobody is left working
    if victim == "parent":
        assert process.returncode == -signal.SIGKILL
    else:
        assert process.returncode == 2
        assert said.startswith("whowrote: one of 2 processes was ended from outside")
    return set(parts.glob("part-*.parquet"))


def test_parts_of_other_texts_or_weights_are_not_taken(corpus: Path, tmp_path: Path) -> None:
    from whowrote.corpus.texts import stream
    from whowrote.features.streaming import make_part

    documents, folder = list(stream(corpus))[:3], tmp_path / "parts"
    choice = Choice(device="cpu")
    assert not make_part(choice, "header", folder, (0, documents)).found
    assert make_part(choice, "header", folder, (0, documents)).found
    assert not make_part(choice, "another", folder, (0, documents)).found
    assert not make_part(choice, "another", folder, (0, documents[::-1])).found


def test_skipped_and_short_texts_are_told(tmp_path: Path) -> None:
    corpus = tmp_path / "texts.csv"
    corpus.write_text(f'author,text\na,"{texts_by(0, 1)[0]}"\na,short\nb,\n', encoding="utf-8")
    answer = run(corpus, "--out", tmp_path / "a.parquet")
    assert answer.exit_code == 0, answer.output
    assert "1 of 2 texts have fewer than 20 tokens" in answer.stderr
    assert "1 text of the corpus: empty" in answer.stderr


def test_a_sentence_model_may_take_the_place(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Lengths:
        def encode(self, texts: list[str], **options: object) -> object:
            return np.array([[len(text), 1.0] for text in texts])

    from whowrote.features import fitted_features

    monkeypatch.setattr(fitted_features, "_loaded", lambda model, device: Lengths())
    out = tmp_path / "a.parquet"
    assert run(corpus, "--out", out, "--features", "sentences", "--model", "x").exit_code == 0
    assert vectors(out)[:, 0].tolist() == [len(text) for text in load(corpus).texts]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"out": "levs.csv"}, r"out is '.*levs.csv'; a table of vectors must end in .parquet"),
        ({"out": "folder.parquet"}, r"out is the folder"),
        ({"out": "there.parquet"}, r"there already; it is not written over unasked"),
        ({"workers": 0}, r"workers is 0; it must be at least 1"),
        ({"texts_per_part": 0}, r"texts_per_part is 0; it must be at least 1"),
        ({"choice": Choice("ngrams")}, r"features is 'ngrams'.*use NGrams in Python"),
        ({"choice": Choice("style", size="huge")}, r"size is 'huge'; it must be one of"),
        ({"choice": Choice("sentences")}, r"no model is named.*--model"),
        ({"choice": Choice(model="absent")}, r"there is no model file at 'absent'"),
        ({"corpus": "absent.csv"}, r"absent.csv does not exist"),
        ({"corpus": "empty.csv"}, r"holds no text|empty"),
    ],
)
def test_bad_requests(corpus: Path, tmp_path: Path, options: dict[str, Any], message: str) -> None:
    (tmp_path / "folder.parquet").mkdir()
    (tmp_path / "there.parquet").touch()
    (tmp_path / "empty.csv").write_text("author,text\na,\n")
    out = tmp_path / options.pop("out", "levs.parquet")
    source = tmp_path / options.pop("corpus", corpus.name)
    choice = options.pop("choice", Choice(device="cpu"))
    with pytest.raises(InputError, match=message):
        embed_corpus(source, out, choice, **options)


def test_overwriting_is_asked_for(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "there.parquet"
    out.touch()
    assert run(corpus, "--out", out, "--overwrite", "--quiet").exit_code == 0
    assert pq.read_metadata(out).num_rows == 60
