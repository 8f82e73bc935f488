"""Work on a real Ray cluster of two nodes gives what one machine gives, also when one dies.

Skipped where Ray is not installed. All tests share one cluster, which takes ten seconds to start; a
second node is started anew for the test that kills it.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from attribution.people import corpus as people
from sweep.small_sweeps import assert_same, by_name
from whowrote import Attributor, Corpus, distributed
from whowrote.distributed import AHEAD, HERE, Machines, machines_of, require_answer
from whowrote.errors import InputError
from whowrote.evaluation import cross_validate
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
    import json

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
