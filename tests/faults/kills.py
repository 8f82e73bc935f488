"""SIGKILL at seeded moments over whole commands: nothing former is lost, no draft stays.

Every run is a process of its own, forked from one that has imported everything, and ends by
SIGKILL: at a seeded operation on files (as Python's audit hooks count them: opened, made, renamed,
removed, locked, exchanged), or after a seeded time. After each kill the result must be the former
or the new one, whole; after ``EVERY`` kills the command runs to its end, and then nothing else may
lie there.

Command:  OMP_NUM_THREADS=1 PYTHONPATH=src:tests python -m faults.kills --kills 200 --seconds 90
Hardware: one core, ``--seconds`` for each of nine commands at most; 200 kills each take an hour.
"""

from __future__ import annotations

import argparse
import csv
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pyarrow.parquet as pq
import torch

from attribution.people import corpus, name, texts_by
from features.made_up import write_corpus
from whowrote.attribution import jobs, storage
from whowrote.case.dossier import write_report
from whowrote.case.exhibits import Case, problems, read_log
from whowrote.case.findings import run as weigh
from whowrote.case.replay import replay
from whowrote.cli import app as command_line
from whowrote.corpus.texts import Corpus, load
from whowrote.drafts import is_draft
from whowrote.features import AdHominem
from whowrote.features.extractor.checkpoints import read_checkpoint
from whowrote.features.extractor.driver import train as train_extractor
from whowrote.features.extractor.recipe import read_config as read_recipe
from whowrote.features.reading import read_extractor
from whowrote.features.streaming import Choice, embed_corpus
from whowrote.files import sha256_of
from whowrote.sweep import read_config, run_config
from whowrote.sweep.records import read_all

EVERY = 10
"""Kills between two runs to the end."""
COUNTED = ("open", "os.", "shutil.", "fcntl.", "ctypes.dlsym")
SWEEP = """
[data]
vectors = "vectors.npz"
[splits]
folds = 2
[grid]
component = ["student-t", "gaussian"]
[fit]
latent_dim = 2
hidden = 4
max_epochs = 1
batch_size = 16
"""
EXTRACTOR = """
out = "out"
cache = "cache"
corpora = {one = "one.csv", two = "two.csv"}
vocabulary = {n_words = 40, n_characters = 40}
batch = {authors = 16, views = 2, min_crop = 30, max_crop = 60}
training = {steps = 4, warm_up = 1, evaluate_every = 2, average = 0.9, checkpoint_minutes = 0.0001}
[network]
word_dim = 8
word_hidden = 8
sentence_hidden = 8
lev_dim = 12
"""


@dataclass(frozen=True)
class Command:
    """What runs, what must hold after a kill, and what lies there after the end."""

    run: Callable[[Path, int], object]
    """In the folder; the number of the run, so that results differ from run to run."""
    holds: Callable[[Path], str]
    """What is wrong after a kill, or nothing."""
    ended: Callable[[Path], str]
    """What is wrong after the end, or nothing."""
    before: Callable[[Path], object] = lambda folder: None
    """What must be there first."""


@dataclass
class Found:
    """Kills, runs to the end, and what was wrong."""

    by_operation: int = 0
    by_time: int = 0
    ends: int = 0
    drafts: int = 0
    """Kills that left a draft, which the next run had to clear."""
    wrong: list[str] = field(default_factory=list)


# -- processes -----------------------------------------------------------------------------------


def die() -> None:
    """What happens at an operation, where nothing else is asked for."""
    os.kill(os.getpid(), signal.SIGKILL)


def forked(
    work: Callable[[], object],
    *,
    at: int = 0,
    after: float = 0.0,
    happens: Callable[[], object] = die,
) -> tuple[int, int]:
    """Run in a process of its own; killed at an operation on files, or after a time, if asked.

    ``happens`` is done at the operation instead of the kill. The status (negative: the signal), and
    the operations that were counted.
    """
    status, told = forked_told(work, at=at, after=after, happens=happens)
    return status, told[0]


def forked_told(
    work: Callable[[], object],
    *,
    at: int = 0,
    after: float = 0.0,
    happens: Callable[[], object] = die,
) -> tuple[int, list[int]]:
    """The same; after the number of operations come those that open a file."""
    counted, reported = os.pipe()
    child = os.fork()
    if not child:
        os.close(counted)
        _be_child(work, at, reported, happens)
    os.close(reported)
    if after:
        time.sleep(after)
        os.kill(child, signal.SIGKILL)
    said = b"".join(iter(lambda: os.read(counted, 4096), b""))
    os.close(counted)
    told = [int(one) for one in said.split()] or [0]
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), told


def _be_child(
    work: Callable[[], object], at: int, reported: int, happens: Callable[[], object]
) -> None:
    operations, opened = 0, list[int]()

    def count(event: str, arguments: object) -> None:
        nonlocal operations
        if event.startswith(COUNTED):
            operations += 1
            opened.extend([operations] if event == "open" else [])
            if operations == at:
                happens()

    status = 1
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        sys.addaudithook(count)
        work()
        status = 0
        os.write(reported, " ".join(map(str, (operations, *opened))).encode())
    except BaseException as problem:  # a child must not go on as its parent
        os.write(2, f"{type(problem).__name__}: {problem}\n".encode())
    finally:
        os._exit(status)


def drafts_in(folder: Path) -> list[str]:
    """Drafts of files and folders, wherever they lie."""
    found = (one for one in folder.rglob("*") if one.name.startswith("."))
    return [one.name for one in found if is_draft(one.name) or one.suffix in (".draft", ".former")]


def attack(
    command: Command, folder: Path, kills: int, seed: int, seconds: float, every: int = EVERY
) -> Found:
    """Kill a command so often, or for so long."""
    found, chance, began = Found(), random.Random(seed), time.perf_counter()
    command.before(folder)
    for _ in range(2):  # the first run may have more to do than all others
        start = time.perf_counter()
        status, operations = forked(lambda: command.run(folder, 0))
        took = time.perf_counter() - start
        wrong = f"status {status}" if status else command.ended(folder)
        found.wrong += [f"without a kill: {wrong}"] if wrong else []
    number = 0
    while found.by_operation + found.by_time < kills and time.perf_counter() - began < seconds:
        number += 1
        work = lambda: command.run(folder, number)  # noqa: B023, E731  (runs at once)
        if number % 2:
            status, _ = forked(work, at=chance.randrange(1, operations + 1))
            found.by_operation += status == -signal.SIGKILL
        else:
            status, _ = forked(work, after=took * chance.random())
            found.by_time += status == -signal.SIGKILL
        if status > 0:
            found.wrong.append(f"kill {number}: status {status}")
        found.drafts += bool(drafts_in(folder))
        found.wrong += [f"kill {number}: {one}" for one in [command.holds(folder)] if one]
        if not status:  # it was faster than the kill, and the next one begins anew
            found.wrong += [f"run {number}: {one}" for one in [command.ended(folder)] if one]
        if number % every == 0:
            status, _ = forked(lambda: command.run(folder, number))  # noqa: B023
            found.ends += 1
            left = drafts_in(folder)
            wrong = [f"status {status}" if status else "", f"drafts {left}" if left else ""]
            wrong += [command.holds(folder), command.ended(folder)]
            found.wrong += [f"end after kill {number}: {one}" for one in wrong if one]
    return found


# -- commands ------------------------------------------------------------------------------------


def write_texts(folder: Path, authors: range) -> Path:
    """A folder of two texts for each author."""
    for author in authors:
        (folder / name(author)).mkdir(parents=True, exist_ok=True)
        for number, text in enumerate(texts_by(author, 2)):
            (folder / name(author) / f"{number}.txt").write_text(text)
    return folder


def sound_model(path: Path) -> str:
    """What is wrong with a model folder."""
    try:
        storage.load(path)
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"
    return ""


def only(folder: Path, *names: str) -> str:
    """What else lies in a folder."""
    others = sorted(set(os.listdir(folder)) - set(names))
    return f"others: {others}" if others else ""


def _train(folder: Path, number: int) -> None:
    texts = load(folder / "texts")
    jobs.train_model(texts, folder / "model", features="ngrams", seed=number % 3, overwrite=True)


def _train_first(folder: Path) -> None:
    write_texts(folder / "texts", range(2))
    forked(lambda: _train(folder, 0))


def _enroll(folder: Path, number: int) -> None:
    new = load(folder / f"new{number % 2}")
    jobs.enroll_model(folder / "model", new, folder / "grown", overwrite=True)


def _enroll_first(folder: Path) -> None:
    _train_first(folder)
    for number in (0, 1):
        write_texts(folder / f"new{number}", range(2 + number, 3 + number))
    forked(lambda: _enroll(folder, 0))


def _embed(folder: Path, number: int) -> None:
    embed_corpus(
        folder / "texts",
        folder / "table.parquet",
        Choice(device="cpu"),
        texts_per_part=1 + number % 2,
        overwrite=True,
    )


def _table(folder: Path) -> str:
    path = folder / "table.parquet"
    if not path.exists():
        return "the table is gone"
    return "" if pq.read_table(path).num_rows == 4 else "the table is not whole"


def _embed_first(folder: Path) -> None:
    write_texts(folder / "texts", range(2))
    forked(lambda: _embed(folder, 0))


def _sweep(folder: Path, number: int) -> None:
    run_config(read_config(folder / "grid.toml"), folder / "records", device="cpu", progress=False)


def _sweep_first(folder: Path) -> None:
    random_numbers = np.random.default_rng(0)
    codes = np.arange(60) % 3
    X = 2 * random_numbers.normal(size=(3, 4))[codes] + random_numbers.normal(size=(60, 4))
    np.savez(folder / "vectors.npz", X=X, y=np.array(["ann", "bob", "cyd"])[codes])
    (folder / "grid.toml").write_text(SWEEP)


def _records(folder: Path) -> str:
    """Every record that has a name is whole; a sweep that is whole begins anew."""
    if not (folder / "records").is_dir():
        return ""
    names = [one for one in (folder / "records").glob("??/*.json") if one.name[0] != "."]
    read = read_all(folder / "records")
    return "" if len(read) == len(names) else f"{len(read)} of {len(names)} records are whole"


def _swept(folder: Path) -> str:
    count = len(read_all(folder / "records"))
    shutil.rmtree(folder / "records")
    return "" if count == 4 else f"{count} records instead of 4"


def _extractor(folder: Path, number: int) -> None:
    train_extractor(read_recipe(folder / "recipe.toml"), device="cpu")


def _extractor_first(folder: Path) -> None:
    write_corpus(folder / "one.csv", range(20))
    write_corpus(folder / "two.csv", range(100, 120))
    (folder / "recipe.toml").write_text(EXTRACTOR)


def _checkpoint(folder: Path) -> str:
    try:
        read_checkpoint(folder / "out")
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"
    return ""


def _extracted(folder: Path) -> str:
    step = read_extractor(folder / "out" / "extractor.safetensors").card["step"]
    shutil.rmtree(folder / "out")
    return "" if step == 4 else f"ended at step {step}"


def _case(folder: Path, number: int) -> None:
    place = folder / "case"
    if not place.exists() or not any(place.iterdir()):
        Case.new(place, "Who?", population="people", features="ngrams")
    texts = Corpus.from_texts(texts_by(number, 2, seed=time.time_ns() % 10**6))
    before = Case.open(place)
    after = before.add(texts, "known", path=Path("letters"), author=name(number))
    assert len(after.exhibits) == len(before.exhibits) + 2


def _weighed_first(folder: Path) -> None:
    case = Case.new(folder / "case", "Who?", population="people", features="ngrams", closed=True)
    for author in range(2):
        texts = Corpus.from_texts(texts_by(author, 4))
        case = case.add(texts, "known", path=Path("letters"), author=name(author))
    case.add(Corpus.from_texts(texts_by(0, 1, seed=5)), "questioned", path=None)


def _weigh(folder: Path, number: int) -> None:
    weigh(Case.open(folder / "case"))
    write_report(Case.open(folder / "case"))


def _weighed(folder: Path) -> str:
    if replay(folder / "case").sound:
        return ""
    return "the replay differs"


def _link_first(folder: Path) -> None:
    texts = folder / "posts.csv"
    with texts.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["author", "text"])
        rows.writerows((name(author), text) for author in range(24) for text in texts_by(author, 4))
    forked(lambda: _link(folder, 0))


def _link(folder: Path, number: int) -> None:
    out = ["--out", str(folder / "links.csv"), "--graph", str(folder / "links.graphml")]
    more = ["--features", "style", "--budget", str(5 + number % 3), "--min-words", "50", "--quiet"]
    command_line(["link", str(folder / "posts.csv"), *out, *more], standalone_mode=False)


def _links(folder: Path) -> str:
    try:
        with (folder / "links.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        ElementTree.parse(folder / "links.graphml")
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"
    return "" if 5 <= len(rows) <= 7 and None not in rows[-1].values() else f"{len(rows)} rows"


def _serve(folder: Path, number: int) -> None:
    """A server that begins a case, registers a text and shows both."""
    from fastapi.testclient import TestClient

    from whowrote.web.server import create_app

    made = create_app(folder / "model", models=folder / "models", cases=folder / "served")
    with TestClient(made, base_url="http://127.0.0.1") as client:
        mark = re.search(r'name="csrf" value="(\w+)"', client.get("/case").text)
        assert mark is not None
        csrf, title = {"csrf": mark[1]}, "the will"
        about = {"name": title, "question": "Who?", "population": "people"}
        if not (folder / "served" / title / "log.jsonl").exists():
            client.post("/case", data={**csrf, **about}).raise_for_status()
        text = texts_by(number, 1, seed=time.time_ns() % 10**6)[0]
        files = {"files": (f"{time.time_ns()}.txt", text, "text/plain")}
        asked = {**csrf, "role": "known", "author": "Ann", "source": "box 12"}
        client.post(f"/case/{title}/add", data=asked, files=files).raise_for_status()
        client.post("/attribute", json={"text": text}).raise_for_status()


def _serve_first(folder: Path) -> None:
    _train_first(folder)
    forked(lambda: _serve(folder, 0))


def _served(folder: Path) -> str:
    """What is wrong with any case of the server; a folder without a log is no case yet."""
    made = (folder / "served").iterdir() if (folder / "served").is_dir() else ()
    wrong = [one for path in made if (path / "log.jsonl").exists() for one in problems(path)]
    return "; ".join(wrong) or sound_model(folder / "model")


_lengths: dict[Path, int] = {}


def _log(folder: Path) -> str:
    """The log is whole and never shorter than it was; what it names is there."""
    if not (folder / "case" / "log.jsonl").exists():
        return "the log is gone" if _lengths.get(folder) else ""
    log, before = read_log(folder / "case" / "log.jsonl"), _lengths.get(folder, 0)
    _lengths[folder] = len(log.entries)
    wrong = [log.broken, *problems(folder / "case")]
    return "; ".join(filter(None, wrong)) or ("shorter" if len(log.entries) < before else "")


COMMANDS = {
    "train": Command(
        _train,
        lambda f: sound_model(f / "model"),
        lambda f: only(f, "texts", "model"),
        _train_first,
    ),
    "enroll": Command(
        _enroll,
        lambda f: sound_model(f / "grown") or sound_model(f / "model"),
        lambda f: only(f, "texts", "model", "new0", "new1", "grown"),
        _enroll_first,
    ),
    "embed": Command(_embed, _table, lambda f: only(f, "texts", "table.parquet"), _embed_first),
    "sweep": Command(_sweep, _records, _swept, _sweep_first),
    "extractor train": Command(_extractor, _checkpoint, _extracted, _extractor_first),
    "case add": Command(_case, _log, lambda f: only(f, "case")),
    "case run": Command(_weigh, _log, _weighed, _weighed_first),
    "link": Command(
        _link,
        _links,
        lambda f: only(f, "posts.csv", "links.csv", "links.graphml"),
        _link_first,
    ),
    "serve": Command(_serve, _served, lambda f: only(f, "texts", "model", "served"), _serve_first),
}


def ready(only: str = "") -> None:
    """What every run, or those of one command, would load first, loaded once."""
    torch.set_num_threads(1)
    AdHominem(device="cpu").transform([corpus(1, 1)[0][0]])
    every = ("train", "sweep", "extractor train", "case run", "link", "serve")
    for title in [only] if only else every:
        folder = Path(tempfile.mkdtemp())
        COMMANDS[title].before(folder)
        COMMANDS[title].run(folder, 0)
        shutil.rmtree(folder)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--kills", type=int, default=200)
    options.add_argument("--seconds", type=float, default=90.0, help="for each command")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--only", default="", help="one command")
    asked = options.parse_args()
    ready(asked.only)
    for title, command in COMMANDS.items():
        if asked.only not in ("", title):
            continue
        folder = Path(tempfile.mkdtemp())
        found = attack(command, folder, asked.kills, asked.seed, asked.seconds)
        shutil.rmtree(folder)
        print(
            f"{title}: {found.by_operation} kills at an operation on files, {found.by_time} by "
            f"time, {found.drafts} of them left drafts, {found.ends} runs to the end; "
            f"{len(found.wrong)} wrong (sha256 of the script {sha256_of(Path(__file__))[:12]})",
            *found.wrong[:10],
            sep="\n  ",
            flush=True,
        )


if __name__ == "__main__":
    main()
