"""How many one-text requests a second `whowrote serve` answers, and how long the slowest wait.

Command: ``python benchmarks/bench_serve.py``, about a minute on two cores. A model of eight made-up
people (n-grams, or ``--features hybrid``), texts of 120 words; the clients are threads of this
process with one open connection each, so they share the cores with the server. Batching is
measured beside the same server that answers one text at a time (``Limits(at_once=1)``), turn by
turn, so that other work on the machine weighs on both alike; ``--memory 10000`` asks so many more
and looks at the resident memory four times on the way. On a machine that others use,
``--in-process`` counts the processor's time of a request, without a network and without clients.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import psutil
from fastapi import FastAPI

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
START = """
import sys
from pathlib import Path
from whowrote.web.limits import Limits
from whowrote.web.server import bound_socket, create_app, run
listening = bound_socket("127.0.0.1", 0)
app = create_app(Path(sys.argv[1]), limits=Limits(at_once=int(sys.argv[2]), per_client=1000))
print(listening.getsockname()[1], flush=True)
run(app, listening)
"""


def make_model(folder: Path, features: str) -> Path:
    from attribution.people import corpus
    from whowrote.attribution import Attributor

    Attributor(features).fit(*corpus(8, 10)).save(folder / "people.model")
    return folder / "people.model"


def bodies() -> list[bytes]:
    from attribution.people import texts_by

    texts = [texts_by(author, 1, seed=100 + n)[0] for author in range(8) for n in range(8)]
    return [json.dumps({"text": text}).encode() for text in texts]


def client(port: int, asked: list[bytes], times: list[float], failed: list[int]) -> None:
    link = http.client.HTTPConnection("127.0.0.1", port)
    for body in asked:
        began = time.perf_counter()
        link.request("POST", "/attribute", body, {"content-type": "application/json"})
        answer = link.getresponse()
        answer.read()
        times.append(time.perf_counter() - began)
        if answer.status != 200:
            failed.append(answer.status)
    link.close()


def load(port: int, clients: int, requests: int) -> dict[str, float]:
    texts, times, failed = bodies(), list[float](), list[int]()
    each = max(1, requests // clients)
    threads = [
        threading.Thread(target=client, args=(port, (texts * each)[n : n + each], times, failed))
        for n in range(clients)
    ]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - began
    return {
        "clients": clients,
        "requests": len(times),
        "per_second": round(len(times) / seconds, 1),
        "median_ms": round(1e3 * float(np.median(times)), 1),
        "p99_ms": round(1e3 * float(np.quantile(times, 0.99)), 1),
        "errors": len(failed),
    }


def started(model: Path, at_once: int) -> tuple[subprocess.Popen[str], int]:
    command = [sys.executable, "-c", START, str(model), str(at_once)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    return server, int(server.stdout.readline())


def first_answers(model: Path) -> dict[str, float]:
    """Seconds from the prompt to the first answer, of the server and of the command."""
    text = model.parent / "text.txt"
    text.write_text(json.loads(bodies()[0])["text"], encoding="utf-8")
    found: dict[str, list[float]] = {"serve": [], "attribute": []}
    for _ in range(3):
        began = time.perf_counter()
        server, port = started(model, 64)
        times: list[float] = []
        client(port, bodies()[:1], times, [])
        found["serve"].append(time.perf_counter() - began)
        server.terminate()
        server.wait()
        began = time.perf_counter()
        command = [sys.executable, "-m", "whowrote", "attribute", str(model), str(text)]
        subprocess.run(command, check=True, capture_output=True)
        found["attribute"].append(time.perf_counter() - began)
    best = {name: round(min(values), 2) for name, values in found.items()}
    return {**best, "ratio": round(best["serve"] / best["attribute"], 2)}


async def asked_together(app: FastAPI, some: list[bytes]) -> None:
    """So many requests at once, straight into the application."""
    address = {"client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80), "root_path": ""}
    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST"}
    scope |= {"scheme": "http", "path": "/attribute", "query_string": b"", **address}
    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]

    async def one(body: bytes) -> None:
        parts = [{"type": "http.request", "body": body, "more_body": False}]
        told: list[dict[str, object]] = []

        async def receive() -> dict[str, object]:
            return parts.pop() if parts else await asyncio.Event().wait()  # type: ignore[return-value]

        async def send(message: dict[str, object]) -> None:
            told.append(message)

        await app({**scope, "headers": headers}, receive, send)  # type: ignore[arg-type]
        assert told[0]["status"] == 200, told

    await asyncio.gather(*map(one, some))


async def in_process(model: Path, requests: int) -> None:
    """Milliseconds of the processor for a request, alone and 64 together; then the memory."""
    from whowrote.web.server import create_app

    app, some = create_app(model), bodies()
    process = psutil.Process()
    async with app.router.lifespan_context(app):
        await asked_together(app, some)  # warm
        spent: dict[int, float] = {}
        for clients, times in ((1, 64), (64, 4)):
            began = time.process_time()
            for turn in range(times):
                await asked_together(app, some[turn : turn + 1] if clients == 1 else some)
            spent[clients] = 1e3 * (time.process_time() - began) / (clients * times)
        told = {f"{n} at once": round(value, 2) for n, value in spent.items()}
        gain = round(spent[1] / spent[64], 2)
        print(json.dumps({"cpu_ms_a_request": told, "gain": gain}), flush=True)
        megabytes = [process.memory_info().rss / 1e6]
        for number in range(1, requests // 64 + 1):
            await asked_together(app, some)
            if number % max(1, requests // 256) == 0:
                megabytes.append(process.memory_info().rss / 1e6)
                told_now = {"requests": 64 * number, "memory_mb": np.round(megabytes, 1).tolist()}
                print(json.dumps(told_now), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=2_000)
    parser.add_argument("--features", default="ngrams")
    parser.add_argument("--rounds", type=int, default=3, help="turns that either server takes")
    parser.add_argument("--memory", type=int, default=0, help="further requests, for the memory")
    parser.add_argument("--in-process", action="store_true")
    asked = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder:
        model = make_model(Path(folder), asked.features)
        if asked.in_process:
            asyncio.run(in_process(model, asked.memory))
            return
        print(json.dumps({"first_answer_seconds": first_answers(model)}))
        servers = {at_once: started(model, at_once) for at_once in (1, 64)}
        for _, port in servers.values():
            load(port, 4, 200)  # warm
        rates: dict[int, list[float]] = {1: [], 64: []}
        for _ in range(asked.rounds):
            for clients in (1, 8, 64):
                for at_once, (_, port) in servers.items():
                    told = load(port, clients, asked.requests // asked.rounds)
                    print(json.dumps({"at_once": at_once, **told}), flush=True)
                    if clients == 64:
                        rates[at_once].append(told["per_second"])
        gains = [many / one for one, many in zip(rates[1], rates[64], strict=True)]
        gain = {"median": round(float(np.median(gains)), 2), "turns": np.round(gains, 2).tolist()}
        print(json.dumps({"batching_gain_at_64_clients": gain}), flush=True)
        if asked.memory:
            print(json.dumps(memory(*servers[64], asked.memory)))
        for server, _ in servers.values():
            server.terminate()
            server.wait()


def memory(server: subprocess.Popen[str], port: int, requests: int) -> dict[str, object]:
    """Megabytes resident before, and after each quarter of so many requests of 64 clients."""
    process, megabytes, errors = psutil.Process(server.pid), [], 0.0
    megabytes.append(process.memory_info().rss / 1e6)
    for _ in range(4):
        errors += load(port, 64, requests // 4)["errors"]
        megabytes.append(process.memory_info().rss / 1e6)
    return {"requests": requests, "errors": errors, "memory_mb": np.round(megabytes, 1).tolist()}


if __name__ == "__main__":
    main()
