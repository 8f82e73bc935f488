"""Learning from rows that stay in a file: seconds an epoch and memory, from one to five millions.

The rows are made up: authors differ in where they lie and in the direction in which they spread. A
model is learnt from the file, in a process of its own for each number of rows. Time is that of a
core (on a busy machine, a clock says little), of the last epoch and of the whole fit. Memory is the
highest while the table is learnt from: anonymous pages (RssAnon) and all pages (RSS, with those of
mapped files), looked at ten times a second, and how much of it is more than after a fit of 25,000
rows in memory. The clusterer is measured in the same way. Beside them stands the simplest thing
that learns from blocks: a linear classifier of scikit-learn by ``partial_fit``, one pass. Narrow
rows in large steps show what is held for each row (``--width 10 --batch 16384``).

``--orders`` is about why rows are learnt from in runs of neighbours: seconds of a clock to read a
million rows, and bytes asked of the disk, with none of the file in the cache of the system and with
all of it; of rows at random a tenth is read.

Command:  OMP_NUM_THREADS=1 python benchmarks/bench_out_of_core.py [--millions 1 2 5] [--epochs 2]
          [--ways whowrote clusters SGDClassifier.partial_fit] [--width 200] [--batch 1024]
          OMP_NUM_THREADS=1 python benchmarks/bench_out_of_core.py --orders
Hardware: one core, 5 GB of disk; some eight minutes of the core, most of them for 5 millions.
Expect:   the same core-seconds a row, within a few per cent; less than 2 GB resident.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from time import perf_counter, process_time, sleep
from typing import Any

import numpy as np

AUTHORS, BLOCK, HELD_OUT = 20, 50_000, 20_000
WIDTH, BATCH = 200, 1024
"""Numbers of a row, and rows of a step, unless others are given."""
NEAR, LONG = 0.15, 2.5
"""How far apart authors are, and how far each spreads in a direction of their own."""


def rows_of(seed: int, n: int) -> tuple[Any, Any]:
    """Rows and their authors."""
    random, own = np.random.default_rng([7, seed]), np.random.default_rng(7)
    centres = own.normal(size=(AUTHORS, WIDTH)).astype(np.float32) * NEAR
    directions = own.normal(size=(AUTHORS, WIDTH)).astype(np.float32) * (LONG / WIDTH**0.5)
    codes = random.integers(AUTHORS, size=n)
    along = random.standard_normal((n, 1), dtype=np.float32)
    X = random.standard_normal((n, WIDTH), dtype=np.float32)
    X += centres[codes] + along * directions[codes]
    return X, codes


def write(path: Path, n: int) -> None:
    """A table in blocks."""
    import pyarrow as pa

    kind = pa.list_(pa.float32(), WIDTH)
    schema = pa.schema([("author", pa.int64()), ("vector", kind)])
    with pa.ipc.new_file(str(path), schema) as out:
        for low in range(0, n, BLOCK):
            X, codes = rows_of(low // BLOCK, min(BLOCK, n - low))
            vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), WIDTH)
            out.write_batch(pa.record_batch([pa.array(codes), vectors], schema=schema))


def resident() -> dict[str, float]:
    """Megabytes of this process."""
    names = {"VmRSS:": "rss", "RssAnon:": "anonymous"}
    lines = Path("/proc/self/status").read_text().splitlines()
    parts = [line.split() for line in lines]
    return {names[one[0]]: int(one[1]) / 1024 for one in parts if one and one[0] in names}


class Watched:
    """The highest memory while something goes on."""

    def __enter__(self) -> Watched:
        self.before, self.most, self._on = resident(), resident(), True
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def _look(self) -> None:
        while self._on:
            now = resident()
            self.most = {name: max(value, now[name]) for name, value in self.most.items()}
            sleep(0.1)

    def __exit__(self, *problem: object) -> None:
        self._on = False
        self._thread.join()

    def told(self) -> dict[str, float]:
        """Growth, and the highest in all, in megabytes."""
        grown = {f"{name}_grown": self.most[name] - self.before[name] for name in self.most}
        return grown | {f"{name}_most": value for name, value in self.most.items()}


def blocks(path: Path) -> Iterator[tuple[Any, Any]]:
    """The same rows in turn, as any program would read them."""
    import pyarrow as pa

    with pa.OSFile(str(path)) as opened:
        reader = pa.ipc.open_file(opened)
        for number in range(reader.num_record_batches):
            batch = reader.get_batch(number)
            flat = batch.column("vector").flatten().to_numpy(zero_copy_only=False)
            yield flat.reshape(-1, WIDTH), np.asarray(batch.column("author"))


def timed(model: Any, path: Path, placed: int = 0) -> tuple[Any, dict[str, float]]:
    """The fitted model, and what an epoch, after so many that only place clusters, and all took."""
    from whowrote.estimators import VectorTable

    ends = list[float]()
    with Watched() as memory:
        began = process_time()
        model.fit(VectorTable(path), callbacks=lambda record: ends.append(process_time()))
        worked = process_time() - began
    epoch = (ends[-1] - ends[placed]) / (len(ends) - 1 - placed)
    return model, {"epoch": epoch, "all": worked, **memory.told()}


def ours(path: Path, epochs: int) -> dict[str, Any]:
    """The classifier."""
    from whowrote.estimators import MixtureVAEClassifier

    settings = {"hidden": 64, "latent_dim": 19, "batch_size": BATCH, "random_state": 0}
    made = partial(MixtureVAEClassifier, **settings)
    made(max_epochs=1).fit(*rows_of(10**6, 25_000))
    model, told = timed(made(max_epochs=epochs), path)
    X, y = rows_of(10**6 + 1, HELD_OUT)
    return told | {"error": 1 - model.score(X, y)}


def clustered(path: Path, epochs: int) -> dict[str, Any]:
    """The clusterer, one epoch with provisional labels first; error: rows in another cluster."""
    from whowrote.estimators import MixtureVAEClusterer
    from whowrote.metrics import matched_share

    settings = {"latent_dim": 19, "batch_size": BATCH, "warm_up": 1, "random_state": 0}
    made = partial(MixtureVAEClusterer, AUTHORS, **settings)
    made(max_epochs=1).fit(rows_of(10**6, 25_000)[0])
    model, told = timed(made(max_epochs=epochs), path, placed=1)
    X, y = rows_of(10**6 + 1, HELD_OUT)
    table = np.zeros((AUTHORS, AUTHORS), dtype=np.int64)
    np.add.at(table, (y, model.predict(X)), 1)
    return told | {"error": 1 - matched_share(table)}


def simplest(path: Path, epochs: int) -> dict[str, Any]:
    """A linear classifier, logistic loss, averaged, scaled by the first block, one pass."""
    from sklearn.linear_model import SGDClassifier
    from sklearn.preprocessing import StandardScaler

    model = SGDClassifier(loss="log_loss", average=True, random_state=0)
    with Watched() as memory:
        began, scaler = process_time(), StandardScaler()
        for number, (rows, codes) in enumerate(blocks(path)):
            if not number:
                scaler.fit(rows)
            model.partial_fit(scaler.transform(rows), codes, classes=np.arange(AUTHORS))
        worked = process_time() - began
    X, y = rows_of(10**6 + 1, HELD_OUT)
    told = {"epoch": worked, "all": worked}
    return told | {"error": 1 - model.score(scaler.transform(X), y)} | memory.told()


def orders(path: Path, n: int) -> None:
    """Rows at random and in runs of several lengths."""
    import torch

    from whowrote.estimators import VectorTable, vector_table
    from whowrote.model import Streams
    from whowrote.training import Assignment

    nothing = torch.zeros(0, dtype=torch.long)
    for kilobytes in (0, 25, 100, 400):
        vector_table.RUN_BYTES = max(1, kilobytes) * 1024
        for warm in (False, True):
            table = VectorTable(path)
            order, share = table.runs(1) if kilobytes else None, 1.0 if kilobytes else 0.1
            rows = Assignment((torch.arange(n),), (nothing,), order).shuffled(Streams([0]))[0]
            rows = rows[: int(share * n)].numpy()
            for _ in table.blocks() if warm else ():
                pass
            if not warm:
                forget(path)
            before, began = read_bytes(), perf_counter()
            with table.held(1):
                read = table.take if kilobytes else table.__getitem__
                for low in range(0, len(rows), 256):
                    read(rows[low : low + 256])
            seconds, size = perf_counter() - began, read_bytes() - before
            print(
                f"{f'runs of {kilobytes} kB' if kilobytes else 'rows at random'}, "
                f"{'in the cache' if warm else 'cold'}: {seconds / share:.1f} s a million rows, "
                f"{size / share / 2**20:.0f} MB read from the disk",
                flush=True,
            )


def forget(path: Path) -> None:
    """Have the system drop what it holds of a file."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_bytes() -> int:
    """What this process has had read from a disk so far."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes"))


WAYS = {"whowrote": ours, "clusters": clustered, "SGDClassifier.partial_fit": simplest}


def main() -> None:
    """Each number of rows, each way in a process of its own."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--millions", type=float, nargs="+", default=[1, 2, 5])
    asked.add_argument("--epochs", type=int, default=2, help="two at least")
    asked.add_argument("--folder", type=Path, help="where the tables go for a while")
    asked.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    asked.add_argument("--orders", action="store_true", help="compare orders of reading")
    asked.add_argument("--width", type=int, default=WIDTH)
    asked.add_argument("--batch", type=int, default=BATCH)
    asked.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = asked.parse_args()
    globals().update(WIDTH=given.width, BATCH=given.batch)
    if given.one:
        print(json.dumps(WAYS[given.one[0]](Path(given.one[1]), given.epochs)))
        return
    if given.orders:
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            write(Path(folder) / "rows.arrow", 1_000_000)
            orders(Path(folder) / "rows.arrow", 1_000_000)
        return
    first: dict[str, float] = {}
    for millions in given.millions:
        n = int(millions * 1_000_000)
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            size, free = n * WIDTH * 4, shutil.disk_usage(folder).free
            if size > 0.9 * free:
                raise SystemExit(f"{size / 1e9:.0f} GB are needed and {free / 1e9:.0f} are free")
            path = Path(folder) / "rows.arrow"
            write(path, n)
            for way in given.ways:
                command = [sys.executable, __file__, "--one", way, str(path)]
                command += ["--epochs", str(given.epochs), "--width", str(WIDTH)]
                command += ["--batch", str(BATCH)]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                found = json.loads(done.stdout.splitlines()[-1])
                ratio = found["epoch"] / millions / first.setdefault(way, found["epoch"] / millions)
                print(
                    f"{millions:g} million rows, {way}: {found['epoch']:.1f} core-seconds an epoch "
                    f"({ratio:.2f} of the first, a row), {found['all']:.0f} in all; "
                    f"error {found['error']:.2%}; memory {found['rss_most']:.0f} MB, of it grown "
                    f"{found['rss_grown']:.0f} (anonymous {found['anonymous_grown']:.0f})",
                    flush=True,
                )


if __name__ == "__main__":
    main()
