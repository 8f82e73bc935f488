"""What the world does to a command while it works: a sentence or a result, and nothing lost.

At a seeded operation on files an input vanishes, is cut, or gives way to a folder, a pipe or other
bytes; the folders can no longer be written; the disk is full (a small one of memory where that may
be mounted, a limit of file sizes elsewhere); no more files may be open; or the clock jumps by
years. The command must then end well, or with one sentence and status 2, within a time; the former
results must be whole, and a further run must end well and leave no draft.

Command:  OMP_NUM_THREADS=1 PYTHONPATH=src:tests python -m faults.disturbances --times 200
Hardware: one core, ``--seconds`` for each of nine commands; as root, a file system of memory too.
Expect:   a line for each command and disturbance
"""

from __future__ import annotations

import argparse
import ctypes
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from attribution.people import texts_by
from faults.kills import COMMANDS, drafts_in, forked_told, ready
from whowrote.cli import leave
from whowrote.cli import main as command_line

EVERY = 5
"""Disturbances between two runs to the end."""
LONGEST = 120
"""Seconds after which a command counts as one that hangs."""
SMALL_DISK = 200_000_000
"""Bytes: a file system that may be filled up."""
PASS_OVER = 1 << 1 | 1 << 2
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH."""
YEARS = 366 * 24 * 3600
CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
static long jump = 0;
void jump_clock(long seconds) { jump += seconds; }
int clock_gettime(clockid_t which, struct timespec *found) {
    static int (*real)(clockid_t, struct timespec *) = 0;
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(which, found);
    if (!status && which == CLOCK_REALTIME) found->tv_sec += jump;
    return status;
}
"""
"""A library in front of the C library, whose time of day jumps; times that pass are as they are."""


@dataclass(frozen=True)
class Job:
    """A command line, and what it reads: files and folders that may vanish."""

    words: tuple[str, ...]
    inputs: tuple[str, ...]
    more: Callable[[Path], object] = lambda folder: None
    """What must be there first, beside what the command of the same name needs."""
    again: Callable[[Path], object] = lambda folder: None
    """What a further run needs, for a command that does not do one thing twice."""


def _letters(folder: Path) -> None:
    """Texts that the case does not have yet."""
    (folder / "letters").mkdir(exist_ok=True)
    for number, text in enumerate(texts_by(1, 2, seed=time.monotonic_ns() % 10**6)):
        (folder / "letters" / f"{number}.txt").write_text(text)


def _case(folder: Path) -> None:
    shutil.rmtree(folder / "case", ignore_errors=True)
    COMMANDS["case add"].run(folder, 0)
    _letters(folder)


def _words(line: str) -> tuple[str, ...]:
    return tuple(line.split())


JOBS = {
    "train": Job(_words("train texts --out model --features ngrams --overwrite -q"), ("texts",)),
    "enroll": Job(_words("enroll model new0 --out grown --overwrite"), ("model", "new0", "new1")),
    "embed": Job(
        _words("embed texts --out table.parquet --overwrite --quiet --part 1"), ("texts",)
    ),
    "sweep": Job(
        _words("sweep grid.toml --out records --device cpu --quiet"), ("vectors.npz", "grid.toml")
    ),
    "extractor train": Job(
        _words("extractor train recipe.toml --device cpu"), ("one.csv", "two.csv", "recipe.toml")
    ),
    "case add": Job(
        _words("case add case letters --as known --author Ann"), ("letters",), _case, _letters
    ),
    "case run": Job(_words("case run case --quiet"), ("case/texts",)),
    "link": Job(
        _words(
            "link posts.csv --features style --budget 5 --min-words 50 --quiet "
            "--out links.csv --graph links.graphml"
        ),
        ("posts.csv",),
    ),
    "serve": Job((), ("model",)),
}


def _some_rows(folder: Path) -> str:
    """A whole table, of the texts that were there when it was made."""
    path = folder / "table.parquet"
    if not path.exists():
        return "the table is gone"
    return "" if 1 <= pq.read_table(path).num_rows <= 4 else "the table is not whole"


HOLDS: dict[str, Callable[[Path], str]] = {"embed": _some_rows}
"""What must hold after a disturbance, where fewer texts may have been there."""
ENDS: dict[str, Callable[[Path], str]] = {
    "case add": lambda folder: "",
    "case run": lambda folder: "",
}
"""What must hold after the end, where the command line leaves something else than the function."""


# -- what happens --------------------------------------------------------------------------------


def _one_of(paths: list[Path], chance: random.Random) -> Path:
    return chance.choice(sorted(paths))


def _file(inputs: list[Path], chance: random.Random) -> Path | None:
    """Any file of the inputs that is still there."""
    inside = [one for path in inputs for one in (path, *path.rglob("*")) if one.is_file()]
    return _one_of(inside, chance) if inside else None


def _vanish(inputs: list[Path], chance: random.Random) -> None:
    found = _file(inputs, chance)
    if found:
        found.unlink()


def _vanish_whole(inputs: list[Path], chance: random.Random) -> None:
    found = _one_of(inputs, chance)
    shutil.rmtree(found) if found.is_dir() else found.unlink()


def _cut(inputs: list[Path], chance: random.Random) -> None:
    found = _file(inputs, chance)
    if found:
        os.truncate(found, found.stat().st_size // 2)


def _other_bytes(inputs: list[Path], chance: random.Random) -> None:
    found = _file(inputs, chance)
    if found:
        found.write_bytes(chance.randbytes(chance.randrange(2000)))


def _folder(inputs: list[Path], chance: random.Random) -> None:
    found = _file(inputs, chance)
    if found:
        found.unlink()
        found.mkdir()


def _pipe(inputs: list[Path], chance: random.Random) -> None:
    found = _file(inputs, chance)
    if found:
        found.unlink()
        os.mkfifo(found)


def _read_only(inputs: list[Path], chance: random.Random) -> None:
    """No folder can be written any more, by somebody whom permissions bind."""
    for folder in (Path.cwd(), *(one for one in Path.cwd().rglob("*") if one.is_dir())):
        folder.chmod(0o555)
    if not os.getuid() and sys.platform.startswith("linux"):
        _bind_root()


def _bind_root() -> None:
    """Take from this process what lets root pass over permissions (capset of Linux)."""
    header = struct.pack("=Ii", 0x20080522, 0)
    held = ctypes.create_string_buffer(24)
    ctypes.CDLL(None).capget(header, held)
    sets = list(struct.unpack("=6I", held.raw))
    sets[0] &= ~PASS_OVER
    ctypes.CDLL(None).capset(header, struct.pack("=6I", *sets))


def _full_disk(inputs: list[Path], chance: random.Random) -> None:
    disk = os.statvfs(Path.cwd())
    if disk.f_blocks * disk.f_frsize > SMALL_DISK:
        most = chance.randrange(4096)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        return  # Python has the signal ignored that would end the process
    with open("ballast", "wb") as ballast:
        free = os.statvfs(Path.cwd())
        ballast.write(bytes(free.f_bavail * free.f_frsize - chance.randrange(8192)))


def _no_more_files(inputs: list[Path], chance: random.Random) -> None:
    most = len(os.listdir("/dev/fd")) + chance.randrange(6)
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (most, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    )


def _clock(inputs: list[Path], chance: random.Random) -> None:
    library = ctypes.CDLL(None)
    library.jump_clock(ctypes.c_long(chance.choice((-30, -1, 1, 10)) * YEARS))


DISTURBANCES = {
    "an input file vanishes": _vanish,
    "an input vanishes whole": _vanish_whole,
    "an input is cut": _cut,
    "an input has other bytes": _other_bytes,
    "an input becomes a folder": _folder,
    "an input becomes a pipe": _pipe,
    "nothing can be written": _read_only,
    "the disk is full": _full_disk,
    "no more files": _no_more_files,
    "the clock jumps": _clock,
}
HARMLESS = ("the clock jumps",)
"""After these a command must end well."""


# -- runs ----------------------------------------------------------------------------------------


@dataclass
class Found:
    """What became of commands, by disturbance, and what was wrong."""

    refused: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def run_job(title: str, folder: Path, **fault: Any) -> tuple[int, list[int], str]:
    """The command as a user starts it, in the folder: its status, its operations, its errors."""
    heard, errors = os.pipe()

    def work() -> None:
        signal.alarm(LONGEST)
        os.chdir(folder)
        os.dup2(errors, 2)
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115  (until the process ends)
        sys.argv = ["whowrote", *JOBS[title].words]
        try:
            leave(_served) if title == "serve" else command_line()
        except SystemExit as leaving:
            sys.stderr.flush()
            if leaving.code:
                os._exit(int(leaving.code))

    status, told = forked_told(work, **fault)
    os.close(errors)
    with open(heard, encoding="utf-8", errors="replace") as said:
        return status, told, said.read()


def _served() -> None:
    """Requests to a server: what it refuses with a sentence ends like a command that refuses."""
    from fastapi.testclient import TestClient

    from whowrote.errors import InputError
    from whowrote.web.server import create_app

    here, text = Path.cwd(), texts_by(1, 1, seed=3)[0]
    made = create_app(here / "model", models=here / "models", cases=here / "served")
    with TestClient(made, base_url="http://127.0.0.1") as client:
        page = client.get("/case").text
        csrf = {"csrf": page.split('name="csrf" value="')[1].split('"')[0]}
        title = f"case {time.monotonic_ns()}"
        begun = {**csrf, "name": title, "question": "Who?", "population": "people"}
        known = {**csrf, "role": "known", "author": "Ann", "source": "box 12"}
        sent = {"files": ("letter.txt", text, "text/plain")}
        answers = [
            client.post("/attribute", json={"text": text}),
            client.post("/case", data=begun),
            client.post(f"/case/{title}/add", data=known, files=sent),
            client.post("/explain", json={"text": text, "draws": 2}),
            client.get("/card"),
        ]
    for answer in answers:
        if answer.status_code >= 400:
            raise InputError(f"{answer.status_code} {answer.text}")


def said_wrong(status: int, errors: str, may_refuse: bool) -> str:
    """What is wrong with how a command ended, or nothing."""
    if "Traceback" in errors:
        return f"traceback: {errors.strip().splitlines()[-1]}"
    if status == -signal.SIGALRM:
        return "it hangs"
    if status not in (0, 2) or (status and not may_refuse):
        return f"status {status}: {errors[:300]}"
    own = [line for line in errors.splitlines() if line.startswith("whowrote: ")]
    return "" if not status or own else f"no sentence: {errors[:300]!r}"


@contextmanager
def kept(folder: Path, inputs: tuple[str, ...]) -> Iterator[Callable[[], None]]:
    """What puts the inputs back as they are now."""
    with tempfile.TemporaryDirectory() as place:
        whole = Path(place)
        for one in inputs:
            _copy(folder / one, whole / one)

        def back() -> None:
            for one in (folder, *folder.rglob("*")):
                if one.is_dir() and not one.is_symlink():
                    one.chmod(0o755)
            (folder / "ballast").unlink(missing_ok=True)
            for one in map(Path, inputs):
                if (folder / one).is_dir():
                    shutil.rmtree(folder / one)
                (folder / one).unlink(missing_ok=True)
                _copy(whole / one, folder / one)

        yield back


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copy2(source, target)


def attack(
    title: str, what: str, folder: Path, times: int, seed: int, seconds: float, found: Found
) -> None:
    """Disturb a command so often, or for so long; it lies ready in the folder.

    Half the times where a file is about to be opened.
    """
    job, chance = JOBS[title], random.Random(f"{seed} {title} {what}")
    began = time.perf_counter()
    status, told, errors = run_job(title, folder)
    if status or not told[0]:
        found.wrong.append(f"{title}, undisturbed: status {status}: {errors[:300]}")
        return
    for number in range(times):
        if number and time.perf_counter() - began > seconds:
            break
        job.again(folder)
        at = chance.choice(told[1:]) if number % 2 else chance.randrange(1, told[0] + 1)
        where = f"{title}, {what} at {at} of {told[0]}"
        with kept(folder, job.inputs) as back:
            inputs = [folder / one for one in job.inputs]
            happens = lambda: DISTURBANCES[what](inputs, chance)  # noqa: B023, E731
            status, _, errors = run_job(title, folder, at=at, happens=happens)
            back()
        holds = HOLDS.get(title, COMMANDS[title].holds)
        wrong = [said_wrong(status, errors, what not in HARMLESS), holds(folder)]
        (found.refused if status else found.ended)[what] += 1
        found.wrong += [f"{where}: {one}" for one in wrong if one]
        if (number + 1) % EVERY == 0 or number + 1 == times:
            found.wrong += [f"after {where}: {one}" for one in _to_the_end(title, folder)]


def _to_the_end(title: str, folder: Path) -> list[str]:
    """What is wrong with a further run, which nothing disturbs."""
    JOBS[title].again(folder)
    status, _, errors = run_job(title, folder)
    if status:
        return [f"status {status}: {errors[:300]}"]
    left, command = drafts_in(folder), COMMANDS[title]
    wrong = [f"drafts {left}" if left else "", command.holds(folder)]
    wrong += [ENDS.get(title, command.ended)(folder)]
    return [one for one in wrong if one]


def prepare(title: str, folder: Path) -> None:
    """All that a command needs, and a result of before."""
    COMMANDS[title].before(folder)
    JOBS[title].more(folder)


# -- a disk that may be filled, and a clock that may jump ----------------------------------------


def clock_library(folder: Path) -> Path | None:
    """The library whose clock jumps; None where there is no compiler."""
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        return None
    (folder / "clock.c").write_text(CLOCK)
    made = folder / "clock.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", made, folder / "clock.c", "-ldl"], check=True
    )
    return made


@contextmanager
def small_disk() -> Iterator[Path]:
    """A folder on a file system of its own, where one can be mounted."""
    folder = Path(tempfile.mkdtemp())
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)]
    mounted = not subprocess.run(mount, check=False, capture_output=True).returncode
    try:
        yield folder
    finally:
        if mounted:
            subprocess.run(["umount", str(folder)], check=True)
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--times", type=int, default=20, help="of each disturbance")
    options.add_argument("--seconds", type=float, default=60.0, help="for each of them")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--only", default="", help="one command")
    options.add_argument("--what", default="", help="one disturbance")
    asked = options.parse_args()
    if "LD_PRELOAD" not in os.environ:  # the clock must be in front of the C library from the start
        with tempfile.TemporaryDirectory() as place:
            library = clock_library(Path(place))
            more = {} if library is None else {"LD_PRELOAD": str(library)}
            again = [sys.executable, "-m", "faults.disturbances", *sys.argv[1:]]
            sys.exit(subprocess.run(again, env={**os.environ, **more}, check=False).returncode)
    ready(asked.only)
    wrong = 0
    for title in JOBS:
        if asked.only not in ("", title):
            continue
        for what in DISTURBANCES:
            if asked.what not in ("", what):
                continue
            found = Found()
            with small_disk() as folder:
                prepare(title, folder)
                attack(title, what, folder, asked.times, asked.seed, asked.seconds, found)
            wrong += len(found.wrong)
            print(
                f"{title}, {what}: {found.refused.total()} refused in a sentence, "
                f"{found.ended.total()} ended well, {len(found.wrong)} wrong",
                *found.wrong[:8],
                sep="\n  ",
                flush=True,
            )
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
