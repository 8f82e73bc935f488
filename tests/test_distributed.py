"""Work on a real Ray cluster of two nodes gives what one machine gives, also when one dies.

Skipped where Ray is not installed. All tests share one cluster, which takes ten seconds to start; a
second node is started anew for the test that kills it.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from attribution.people import corpus as people
from attribution.people import texts_by
from features.made_up import small_config
from sweep.small_sweeps import assert_same, by_name
from whowrote import Attributor, Corpus, distributed
from whowrote.distributed import AHEAD, HERE, Machines, machines_of, require_answer
from whowrote.errors import InputError
from whowrote.evaluation import cross_validate
from whowrote.features.extractor.checkpoints import Store, read_checkpoint
from whowrote.features.extractor.driver import train_on
from whowrote.features.extractor.run import HISTORY, WEIGHTS
from whowrote.features.streaming import Choice, embed_corpus
from whowrote.held_out import strangers_refused
from whowrote.linking.linker import _vectors, sketches
from whowrote.sweep import Record, read_config, run_config

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own

GRID = """[data]
vectors = "vectors.npz"
[splits]
folds = 2
[grid]
latent_dim = 2
component = ["student-t", "gaussian"]
[fit]
hidden = 8
max_epochs = {epochs}
batch_size = 20
seeds = [0, 1]
group_size = 2
dtype = "float64"
"""


# -- one machine -----------------------------------------------------------------------------------


def test_here_tasks_are_done_in_their_order() -> None:
    assert list(HERE.map(pow, 2, [3, 1], size=float)) == [(0, 8), (1, 2)]
    with machines_of(None) as machines:
        assert machines is HERE


def test_without_an_address_nothing_of_ray_is_loaded(tmp_path: Path) -> None:
    corpus = tmp_path / "posts.csv"
    corpus.write_text("author,text\n" + "".join(f"a{n % 2},some words of mine\n" for n in range(4)))
    line = (
        "import sys; from whowrote.features.streaming import embed_corpus; "
        f"embed_corpus({str(corpus)!r}, {str(tmp_path / 'out.parquet')!r}); "
        "sys.exit('ray' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", line], check=False).returncode == 0


def test_no_ray_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"ray is not installed.*whowrote\[ray\]"):
        machines_of("auto").__enter__()


@pytest.mark.parametrize(
    ("address", "message"),
    [("127.0.0.1:1", "no Ray cluster answers at"), ("nowhere", "must be auto, local, host:port")],
)
def test_no_cluster_is_a_sentence_at_once(address: str, message: str) -> None:
    began = time.perf_counter()
    with pytest.raises(InputError, match=message):
        require_answer(address)
    assert time.perf_counter() - began < 10


def test_another_version_on_a_machine_is_refused() -> None:
    assert distributed._worked(distributed.__version__, pow, 2, 3) == 8
    with pytest.raises(InputError, match=r"install one version on all of them"):
        distributed._worked("0.0", pow, 2, 3)


# -- two nodes -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'whowrote[ray]'")
    from ray.cluster_utils import Cluster

    quick = {"health_check_period_ms": 500, "health_check_failure_threshold": 2}
    head = {"num_cpus": 1, "object_store_memory": 10**8, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args={**head, "_system_config": quick})
    made.second = second(made)
    yield made
    made.shutdown()


def second(cluster: Any) -> Any:
    node = cluster.add_node(num_cpus=1, object_store_memory=10**8)
    cluster.wait_for_nodes()
    return node


@pytest.fixture
def machines(cluster: Any) -> Iterator[Machines]:
    with machines_of(cluster.address) as found:
        yield found


def vectors(folder: Path, epochs: int = 4) -> Path:
    random = np.random.default_rng(0)
    codes = np.arange(90) % 3
    np.savez(folder / "vectors.npz", X=random.normal(size=(90, 4)) + codes[:, None], y=codes)
    config = folder / "grid.toml"
    config.write_text(GRID.format(epochs=epochs))
    return config


def swept(config: Path, out: str, machines: Machines = HERE) -> dict[str, Record]:
    found = run_config(read_config(config), config.parent / out, device="cpu", machines=machines)
    return by_name(found)


def assert_equal(ours: dict[str, Record], theirs: dict[str, Record]) -> None:
    """The same fits; figures to nine digits, for memory lies otherwise on another machine."""
    assert ours.keys() == theirs.keys()
    for name, record in ours.items():
        assert_same(record, theirs[name])


def test_both_nodes_work_the_largest_begin_first_and_errors_are_ours(machines: Machines) -> None:
    assert machines.slots == 2
    nodes = {
        one for _, one in machines.map(lambda _, n: (time.sleep(0.3), os.getpid())[1], 0, "1234")
    }
    assert len(nodes) == 2
    began = machines.map(lambda _, n: (time.time(), time.sleep(0.2)), 0, [1, 5, 3, 4], size=float)
    times = dict(began)
    assert max(times[1], times[3]) < min(times[0], times[2])

    def refuse(_: int, task: int) -> None:
        raise InputError(f"task {task} makes no sense")

    with pytest.raises(InputError, match="task 7 makes no sense"):
        list(machines.map(refuse, 0, [7]))


def test_a_stream_is_read_no_faster_than_it_is_worked_off(machines: Machines) -> None:
    read = count()
    tasks = (next(read) for _ in range(40))
    for done, _ in enumerate(machines.map(lambda _, n: time.sleep(0.02), 0, tasks), 1):
        taken = next(read)
        read = count(taken)  # looking takes one: it is put back
        assert taken - done <= AHEAD * machines.slots + 1


def test_a_sweep_files_the_same_records(machines: Machines, tmp_path: Path) -> None:
    config = vectors(tmp_path)
    here = swept(config, "here")
    assert len(here) == 8
    assert_equal(swept(config, "there", machines), here)
    changed = {name: replace(one, epochs=one.epochs + 1) for name, one in here.items()}
    with pytest.raises(AssertionError):  # control
        assert_equal(changed, here)


def test_embedding_makes_the_same_table(machines: Machines, tmp_path: Path) -> None:
    texts, authors = people(3, 8)
    posts = tmp_path / "posts.jsonl"
    rows = [json.dumps({"author": a, "text": t}) for a, t in zip(authors, texts, strict=True)]
    posts.write_text("\n".join(rows))
    tables = {}
    for name, where in (("here", HERE), ("there", machines)):
        out = tmp_path / f"{name}.parquet"
        done = embed_corpus(posts, out, Choice(device="cpu"), machines=where, texts_per_part=5)
        assert (done.texts, done.found) == (24, 0)
        tables[name] = pq.read_table(out)
    here, there = tables["here"], tables["there"]
    assert here.drop(["vector"]).equals(there.drop(["vector"]))  # none lost, doubled or moved
    assert here.schema.equals(there.schema, check_metadata=True)
    ours, theirs = (np.array(one["vector"].to_pylist()) for one in (here, there))
    np.testing.assert_allclose(theirs, ours, atol=2e-6)  # another number of threads
    assert np.abs(ours[0] - theirs[1]).max() > 1e-3  # control
    assert not (tmp_path / "there.parquet.parts").exists()


def test_evaluation_and_linking_give_the_same_figures(machines: Machines) -> None:
    texts, authors = people(4, 6)
    known, model = Corpus.from_texts(texts, authors), Attributor("ngrams")
    ask = partial(cross_validate, known, model, baselines=["ngram-svm"], n_folds=2)
    assert ask(machines=machines).to_dict() == ask().to_dict()
    left_out = partial(strangers_refused, known, model, n_folds=2)
    assert left_out(machines=machines) == left_out()
    choice = Choice(device="cpu")
    assert np.array_equal(_vectors(choice, texts, machines), _vectors(choice, texts, HERE))
    assert np.array_equal(sketches(texts, 0, machines), sketches(texts, 0))


def test_a_node_that_dies_costs_nothing_but_time(cluster: Any, tmp_path: Path) -> None:
    from whowrote.sweep.runner import _fit

    here = swept(vectors(tmp_path), "here")

    with machines_of(cluster.address) as machines:

        class Dying:
            slots, gpus = machines.slots, False

            def map(self, function: Any, shared: Any, tasks: Any, size: Any = None) -> Any:
                assert function is _fit

                def slowly(study: Any, group: Any) -> Any:
                    time.sleep(0.3)
                    return function(study, group)

                for place, found in enumerate(machines.map(slowly, shared, tasks, size)):
                    if place == 0:
                        cluster.remove_node(cluster.second, allow_graceful=False)
                    yield found

        there = swept(tmp_path / "grid.toml", "there", Dying())
    cluster.second = second(cluster)
    assert_equal(there, here)


def test_a_driver_that_was_killed_goes_on(cluster: Any, tmp_path: Path) -> None:
    config = vectors(tmp_path, epochs=40)
    out = tmp_path / "there"
    command = [sys.executable, "-m", "whowrote", "sweep", str(config), "--out", str(out)]
    command += ["--device", "cpu", "--quiet", "--ray", cluster.address]
    driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while driver.poll() is None and not list(out.rglob("[!.]*.json")):
        time.sleep(0.02)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    before = {file: file.stat().st_mtime_ns for file in out.rglob("[!.]*.json")}
    assert 0 < len(before) < 8
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    assert_equal(swept(config, "there"), swept(config, "here"))
    assert all(file.stat().st_mtime_ns == when for file, when in before.items())


def whole_command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "whowrote", *map(str, arguments)]


def accounts_file(path: Path) -> Path:
    """Thirty people with an account each; the first four have another one."""
    rows = [{"author": f"p{p}", "text": t} for p in range(30) for t in texts_by(p, 4)]
    rows += [{"author": f"alias{p}", "text": t} for p in range(4) for t in texts_by(p, 4, seed=1)]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def test_the_link_command_gives_the_same_list(cluster: Any, tmp_path: Path) -> None:
    posts = accounts_file(tmp_path / "posts.jsonl")
    found = {}
    for name, more in (("here", []), ("there", ["--ray", cluster.address])):
        table, graph = tmp_path / f"{name}.csv", tmp_path / f"{name}.graphml"
        command = whole_command("link", posts, "--json", "--quiet", "--device", "cpu", *more)
        command += ["--out", str(table), "--graph", str(graph)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        found[name] = json.loads(done.stdout)
        assert graph.is_file()
        assert len(table.read_text().splitlines()) == len(found[name]["links"]) + 1
    here, there = (found[name]["links"] for name in ("here", "there"))
    pairs = [(one["first"], one["second"]) for one in here]
    assert [(one["first"], one["second"]) for one in there] == pairs
    for ours, theirs in zip(here, there, strict=True):
        assert theirs["log10_lr"] == pytest.approx(ours["log10_lr"], abs=1e-4)
    assert found["here"]["reported"] == found["there"]["reported"]
    other = subprocess.run(  # control: another seed cuts the accounts otherwise
        whole_command("link", posts, "--json", "--quiet", "--device", "cpu", "--seed", 1),
        check=True,
        capture_output=True,
        text=True,
    )
    figures = [one["log10_lr"] for one in json.loads(other.stdout)["links"]]
    assert figures != pytest.approx([one["log10_lr"] for one in here], abs=1e-4)


def test_embedding_goes_on_after_its_driver_was_killed(cluster: Any, tmp_path: Path) -> None:
    texts, authors = people(4, 40)
    posts = tmp_path / "posts.jsonl"
    rows = [json.dumps({"author": a, "text": t}) for a, t in zip(authors, texts, strict=True)]
    posts.write_text("\n".join(rows))
    out = tmp_path / "there.parquet"
    command = whole_command("embed", posts, "--out", out, "--part", 4, "--device", "cpu", "--json")
    command += ["--ray", cluster.address]
    driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    folder = tmp_path / "there.parquet.parts"
    while driver.poll() is None and len(list(folder.glob("part-*.parquet"))) < 2:
        time.sleep(0.01)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    before = {file.name: file.stat().st_mtime_ns for file in folder.glob("part-*.parquet")}
    assert 2 <= len(before) < 40
    assert not out.exists()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    told = json.loads(done.stdout)
    assert (told["texts"], told["found"]) == (160, 4 * len(before))
    embed_corpus(posts, tmp_path / "here.parquet", Choice(device="cpu"), texts_per_part=4)
    here, there = (pq.read_table(tmp_path / f"{name}.parquet") for name in ("here", "there"))
    assert here.drop(["vector"]).equals(there.drop(["vector"]))  # none lost, doubled or moved
    ours, theirs = (np.array(one["vector"].to_pylist()) for one in (here, there))
    np.testing.assert_allclose(theirs, ours, atol=2e-6)
    assert np.abs(ours[0] - theirs[1]).max() > 1e-3  # control
    assert not folder.exists()


def test_training_goes_on_when_the_process_that_trains_dies(cluster: Any, tmp_path: Path) -> None:
    """Killed after its third checkpoint, sent again: the weights of a run that nobody disturbed."""
    recipe = {"checkpoint_minutes": 0.0, "steps": 12}
    whole, parts = (small_config(tmp_path, out=out, training=recipe) for out in ("whole", "parts"))
    kept, told = tmp_path / "kept", tmp_path / "processes"
    told.mkdir()

    with machines_of(cluster.address) as machines:
        train_on(machines, whole, device="cpu", store=Store((tmp_path / "undisturbed").as_uri()))

        class Watched:
            slots, gpus = machines.slots, False

            def map(self, function: Any, shared: Any, tasks: Any, size: Any = None) -> Any:
                def begun(shared: Any, task: Any) -> Any:
                    (told / str(os.getpid())).touch()
                    return function(shared, task)

                return machines.map(begun, shared, tasks, size)

        with ThreadPoolExecutor(1) as pool:
            killed = pool.submit(kill_at, kept / "checkpoint.json", told, 3)
            far = train_on(Watched(), parts, device="cpu", store=Store(kept.as_uri()))
        died, step = killed.result()
    processes = {int(one.name) for one in told.iterdir()}
    assert died in processes
    assert len(processes) == 2
    assert 3 <= step < 12
    assert (far.step, far.finished) == (12, True)
    ours, theirs = (read_checkpoint(folder) for folder in (tmp_path / "undisturbed", kept))
    assert ours is not None
    assert theirs is not None
    for name, value in ours.arrays.items():
        if name != "since":  # which has seconds
            np.testing.assert_array_equal(theirs.arrays[name], value, err_msg=name)
    early = train_on(HERE, small_config(tmp_path, out="early"), device="cpu", minutes=0)  # control
    assert early.files[WEIGHTS] != far.files[WEIGHTS]
    assert (parts.out / WEIGHTS).read_bytes() == far.files[WEIGHTS]
    assert (parts.out / HISTORY).is_file()


def kill_at(manifest: Path, told: Path, step: int) -> tuple[int, int]:
    """Kill the process that trains once its checkpoint is so far; which it was, and how far."""
    for _ in range(60_000):
        time.sleep(0.005)
        try:
            here = json.loads(manifest.read_text())["step"]
        except (OSError, ValueError):
            continue
        if here >= step:
            (process,) = (int(one.name) for one in told.iterdir())
            os.kill(process, signal.SIGKILL)
            return process, here
    raise AssertionError("no checkpoint was kept")
