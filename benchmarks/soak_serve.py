"""Half an hour of good and hostile traffic against `whowrote serve`: nothing may grow or hang.

Threads ask in turn, on loopback alone: texts, pages, explanations; requests that are no JSON, too
long, for another host or from another site; slow clients that send a byte now and then, connections
left half open, clients that leave before their answer; archives that unfold to gigabytes or name
paths outside; trainings that end, are cancelled, and whose process is killed. Every ten seconds the
resident memory, file descriptors and threads of the server are written down. Afterwards the
server is started anew and must have every model that a training said it had saved.

Sound is: no answer of status 500, a killed training failed and the next one was done, every good
request was answered, the last quarter has at most 5 % more memory than the second, and when all
clients have left there are no more descriptors and threads than when the first ones had.

Command:  python benchmarks/soak_serve.py --minutes 30 --out benchmarks/soak.json
Hardware: any; ``--pause`` seconds lie between a thread's requests.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import psutil

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from attribution.people import corpus, texts_by
from whowrote.attribution import Attributor
from whowrote.files import write_text

EVERY = 10.0
MOST_GROWTH = 1.05
TEXTS = [text for author in range(4) for text in texts_by(author, 4, seed=3)]


class Server:
    """`whowrote serve` as a user starts it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        places = ["--models", str(folder / "models"), "--cases", str(folder / "cases")]
        command = [sys.executable, "-m", "whowrote", "serve", str(folder / "people.model")]
        self.process = subprocess.Popen(
            [*command, *places, "--port", "0"],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"},
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().split()[1].rstrip("/")
        self.port = int(self.address.rsplit(":", 1)[1])
        self.seen = psutil.Process(self.process.pid)

    def stop(self) -> int:
        """Its status; it must end by itself."""
        self.process.terminate()
        return self.process.wait(30)

    def figures(self) -> dict[str, float]:
        """What must not grow."""
        with self.seen.oneshot():
            memory = self.seen.memory_info().rss / 1e6
            return {"mb": round(memory, 1), "fds": self.seen.num_fds(), "threads": self._threads()}

    def _threads(self) -> int:
        return int(self.seen.num_threads())


class Traffic:
    """What is asked; ``counts`` by kind and status, ``wrong`` is what must not have been."""

    def __init__(self, server: Server, pause: float, seed: int) -> None:
        self.server, self.pause, self.seed = server, pause, seed
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.saved: list[str] = []
        self.over = threading.Event()
        self.bomb = archive({"Ann/a.txt": b"a " * 150_000_000})
        self.escape = archive({"../../evil.txt": b"I am.", "/etc/passwd": b"I was.", "Ann/b": b"x"})

    def run(self, minutes: float) -> list[dict[str, float]]:
        """All threads until the time is over; the figures meanwhile."""
        works: list[Callable[[random.Random, httpx.Client], None]] = [
            *(self.good, self.hostile, self.half_open, self.slow, self.uploads, self.jobs)
        ]
        threads = [threading.Thread(target=self._on, args=(one,)) for one in works]
        for thread in threads:
            thread.start()
        figures, end = list[dict[str, float]](), time.monotonic() + 60 * minutes
        while time.monotonic() < end and self.server.process.poll() is None:
            time.sleep(EVERY)
            figures.append(self.server.figures())
        self.over.set()
        for thread in threads:
            thread.join()
        return figures

    def _on(self, work: Callable[[random.Random, httpx.Client], None]) -> None:
        chance = random.Random(f"{self.seed} {work.__name__}")
        with httpx.Client(base_url=self.server.address, timeout=120) as client:
            while not self.over.wait(self.pause * (0.5 + chance.random())):
                try:
                    work(chance, client)
                except Exception as problem:
                    self.wrong.append(f"{work.__name__}: {type(problem).__name__}: {problem}"[:300])

    def note(self, kind: str, answer: httpx.Response, *wanted: int) -> httpx.Response:
        """Count an answer, and say if its status is none of those that are right."""
        self.counts[f"{kind} {answer.status_code}"] += 1
        if answer.status_code not in wanted:
            self.wrong.append(f"{kind}: {answer.status_code} {answer.text[:200]}")
        return answer

    def good(self, chance: random.Random, client: httpx.Client) -> None:
        """A text, or a page."""
        match chance.randrange(6):
            case 0:
                self.note(
                    "page", client.get(chance.choice(["/", "/compare", "/train", "/card"])), 200
                )
            case 1:
                asked = {"text": chance.choice(TEXTS), "draws": 5}
                self.note("explain", client.post("/explain", json=asked), 200)
            case 2:
                asked = {"csrf": mark(client), "text": chance.choice(TEXTS)}
                self.note("ask", client.post("/ask", data=asked), 200)
            case _:
                texts = {"texts": chance.sample(TEXTS, 3)}
                self.note("attribute", client.post("/attribute", json=texts), 200)

    def hostile(self, chance: random.Random, client: httpx.Client) -> None:
        """Requests that must be refused, each in a sentence."""
        refused = (400, 401, 403, 404, 405, 413, 422)
        kind = chance.randrange(7)
        if kind == 0:
            answer = client.post("/attribute", content=chance.randbytes(chance.randrange(2000)))
        elif kind == 1:
            answer = client.post("/attribute", content=b'{"text": ' + b"[" * 50_000)
        elif kind == 2:
            answer = client.get("/", headers={"host": "evil.example"})
        elif kind == 3:
            asked = {"text": TEXTS[0]}
            answer = client.post(
                "/attribute", json=asked, headers={"origin": "http://evil.example"}
            )
        elif kind == 4:
            try:
                answer = client.post("/attribute", content=b"x" * 13_000_000)
            except (httpx.ReadError, httpx.WriteError):  # refused before all of it was sent
                self.counts["hostile 4 refused and closed"] += 1
                return
        elif kind == 5:
            body = json.dumps({"first": "\ud800" * 9, "second": "", "prior": 2})
            answer = client.post("/verify", content=body)
        else:
            answer = client.get(f"/ask/{chance.randrange(10**9)}/report?rate=nan")
        self.note(f"hostile {kind}", answer, *refused)

    def half_open(self, chance: random.Random, client: httpx.Client) -> None:
        """Connections that are left in the middle, at both ends of a request."""
        with socket.create_connection(("127.0.0.1", self.server.port), 10) as link:
            body = json.dumps({"text": TEXTS[0]}).encode()
            head = (
                b"POST /attribute HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
            )
            head += b"content-length: %d\r\n\r\n" % len(body)
            link.sendall((head + body)[: chance.randrange(1, len(head) + len(body) + 1)])
            if chance.random() < 0.5:
                link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.counts["half open"] += 1

    def slow(self, chance: random.Random, client: httpx.Client) -> None:
        """A client that sends a byte now and then, and one that reads nothing for a while."""
        with socket.create_connection(("127.0.0.1", self.server.port), 30) as link:
            request = b"GET /card HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n"
            for byte in request:
                link.sendall(bytes([byte]))
                if chance.random() < 0.2:
                    self.over.wait(0.2)
            self.over.wait(3.0 * chance.random())
            said = b"".join(iter(lambda: link.recv(65_536), b""))
        self.counts["slow"] += 1
        if not said.startswith(b"HTTP/1.1 200"):
            self.wrong.append(f"slow: {said[:80]!r}")

    def uploads(self, chance: random.Random, client: httpx.Client) -> None:
        """Archives that unfold to gigabytes, and names of paths outside."""
        data, wanted = chance.choice([(self.bomb, (413,)), (self.escape, (200, 422))])
        files = {"files": ("../../a.zip", data, "application/zip")}
        answer = client.post("/train/audit", data={"csrf": mark(client)}, files=files)
        self.note("upload", answer, *wanted)

    def jobs(self, chance: random.Random, client: httpx.Client) -> None:
        """A training that ends, is cancelled, or whose process is killed."""
        csrf, way = mark(client), chance.choice(["done", "cancelled", "failed"])
        texts, authors = corpus(3, 3, seed=chance.randrange(1000))
        files = {
            f"{name}/{n}.txt": t.encode()
            for n, (t, name) in enumerate(zip(texts, authors, strict=True))
        }
        sent = {"files": ("a.zip", archive(files), "application/zip")}
        told = self.note("audit", client.post("/train/audit", data={"csrf": csrf}, files=sent), 200)
        found = re.search(r'name="corpus" value="([^"]+)"', told.text)
        assert found is not None, told.text[:500]
        name = f"model {chance.randrange(10**9)}"
        asked = {"csrf": csrf, "corpus": found[1], "name": name, "features": "ngrams"}
        began = self.note("start", client.post("/train/start", data=asked), 200)
        page = began.headers["x-go-to"]
        if way == "cancelled":
            time.sleep(2 * chance.random())
            self.note("cancel", client.post(f"{page}/cancel", data={"csrf": csrf}), 200)
        elif way == "failed":
            self._kill_worker(chance)
        state = self._ended(client, page)
        self.counts[f"training meant to be {way}: {state}"] += 1
        if state not in (way, "done"):  # it may have been faster
            self.wrong.append(f"training meant to be {way}: {state}")
        if state == "done":
            self.saved.append(name)

    def _kill_worker(self, chance: random.Random) -> None:
        end = time.monotonic() + 20
        while time.monotonic() < end:
            for worker in self.server.seen.children():
                time.sleep(3 * chance.random())
                worker.kill()
                return
            time.sleep(0.05)

    def _ended(self, client: httpx.Client, page: str) -> str:
        with client.stream("GET", f"{page}/events") as lines:
            for line in lines.iter_lines():
                if line.startswith("data:"):
                    state = str(json.loads(line[5:])["state"])
                    if state in ("done", "failed", "cancelled"):
                        return state
        return "no end"


def archive(files: dict[str, bytes]) -> bytes:
    """A ZIP file."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, data in files.items():
            packed.writestr(name, data)
    return made.getvalue()


def mark(client: httpx.Client) -> str:
    """What a form of the page bears."""
    found = re.search(r'name="csrf" value="(\w+)"', client.get("/train").text)
    assert found is not None
    return found[1]


def quiet(server: Server) -> dict[str, float]:
    """The figures when nobody has been there for a while: connections that are kept are closed."""
    time.sleep(15.0)
    return server.figures()


def growth(figures: list[dict[str, float]]) -> dict[str, Any]:
    """The second quarter beside the last one."""
    quarter = max(1, len(figures) // 4)
    early, late = figures[quarter : 2 * quarter], figures[-quarter:]
    return {
        name: [median(one[name] for one in part) for part in (early or late, late)]
        for name in ("mb", "fds", "threads")
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--minutes", type=float, default=30.0)
    options.add_argument("--pause", type=float, default=1.0)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--out", type=Path)
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        Attributor("ngrams").fit(*corpus(4, 6)).save(folder / "people.model")
        server = Server(folder)
        warm = Traffic(server, asked.pause, asked.seed)
        warm.run(0.5)
        before = quiet(server)
        traffic = Traffic(server, asked.pause, asked.seed + 1)
        figures = traffic.run(asked.minutes)
        after = quiet(server)
        status = server.stop()
        again = Server(folder)
        listed = httpx.get(f"{again.address}/card").text
        lost = [name for name in traffic.saved if name not in listed]
        again.stop()
    found = growth(figures)
    record = {
        "minutes": asked.minutes,
        "counts": dict(sorted(traffic.counts.items())),
        "second_and_last_quarter": found,
        "without_clients": {name: [before[name], after[name]] for name in before},
        "status_at_the_end": status,
        "models_saved": len(traffic.saved),
        "models_lost_by_the_restart": len(lost),
        "wrong": (warm.wrong + traffic.wrong)[:20],
        "flat": all(after[name] <= before[name] for name in ("fds", "threads"))
        and found["mb"][1] <= MOST_GROWTH * found["mb"][0],
    }
    text = json.dumps(record, indent=1) + "\n"
    print(text)
    if asked.out:
        write_text(asked.out, text)
    sys.exit(bool(record["wrong"] or lost or not record["flat"]))


if __name__ == "__main__":
    main()
