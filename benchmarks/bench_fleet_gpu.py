"""Five hundred fits as fleets against one at a time, on a GPU.

(a) The 500 points of the published grid on 16,000 x 200 vectors, K = 30, one fold, each fit to its
early stop, through ``whowrote.sweep``, and what the time of each D goes into. (b) The same fits one
after another through a plain PyTorch loop for a single model, its pace measured on some of every D.
(c) A step of a fleet by kind of kernel, and the operations a second at D = 200 against the device's
own matrix product. (d) The whole published protocol (2 families, 5 folds, 5 training sizes: 25,000
fits), extrapolated. What the libraries load at first use is counted on neither side.

Command:  python benchmarks/bench_fleet_gpu.py VECTORS.npz --out experiments/results
Hardware: one H200, about four minutes; without a CUDA device it says so and ends.
Expect:   a ratio above 100, and 25,000 fits in less than an hour.
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from whowrote import __version__
from whowrote.corpus.splits import Split, folds
from whowrote.model import Architecture, Member, MixtureVAE, Rows, Streams
from whowrote.sweep import groups, runner, sweep
from whowrote.training import Assignment, EarlyStopping, Members, Plan, initialize, loop
from whowrote.training.step import GraphedStep

REAL = Path(__file__).parents[2] / "shared" / "data" / "levs30.npz"
ROWS = 20_000  # of which a fold trains on 16,000 and stops by 2,000
GRID = {
    "learning_rate": [0.001, 0.002, 0.003, 0.004, 0.005],
    "scale_floor": [0.001, 0.01, 0.1, 0.5, 0.9],
    "latent_dim": [20, 50, 100, 150, 200],
    "l1": [0.001, 0.005, 0.01, 0.05],
}
FIXED = {"label_weight": 0.0, "dropout": 0.0, "df_rate": 1.0, "patience": 10, "batch_size": 256}
SHARES = (0.2, 0.4, 0.6, 0.8, 1.0)
TIMED_EPOCHS = 8


PARTS: dict[str, list[tuple[Any, str]]] = {
    "initialisation": [(groups, "_initialize"), (groups.Stage, "staged")],
    "steps": [(loop, "run_epoch")],
    "capture": [(GraphedStep, "_warm_up"), (GraphedStep, "_capture")],
    "evaluation": [(loop, "validate"), (groups, "_scores")],
    "compaction": [(Members, "select"), (loop, "step_for")],
    "early stopping": [(EarlyStopping, "update"), (EarlyStopping, "records")],
    "records": [(runner, "write")],
}


class Stopwatch:
    """Seconds of every D by part; what runs inside another part counts for itself only."""

    def __init__(self) -> None:
        self.seconds: dict[int, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        self.calls: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        self._inside, self._since, self._d = ["rest"], time.perf_counter(), 0

    def _book(self) -> None:
        torch.cuda.synchronize()
        now = time.perf_counter()
        self.seconds[self._d][self._inside[-1]] += now - self._since
        self._since = now

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, booked under a part."""

        @wraps(function)
        def booked(*arguments: Any, **options: Any) -> Any:
            self._book()
            if part == "rest":  # a group begins, and what follows it is still its own
                self._d = arguments[0].shared.architecture.latent_dim
            self._inside.append(part)
            self.calls[self._d][part] += 1
            try:
                return function(*arguments, **options)
            finally:
                self._book()
                self._inside.pop()

        return booked

    @contextmanager
    def running(self) -> Iterator[None]:
        """Every part is booked inside the block."""
        places = [(part, *place) for part, own in PARTS.items() for place in own]
        before = [(owner, name, getattr(owner, name)) for _, owner, name in places]
        before.append((runner, "fit_group", runner.fit_group))
        try:
            for part, owner, name in places:
                setattr(owner, name, self.timed(part, getattr(owner, name)))
            runner.fit_group = self.timed("rest", runner.fit_group)  # type: ignore[assignment]
            self._since = time.perf_counter()
            yield
            self._book()
        finally:
            for owner, name, function in before:
                setattr(owner, name, function)

    def table(self) -> dict[int, dict[str, Any]]:
        """Seconds by D and part; D = 0 is what precedes the first group."""
        return {
            d: {part: round(own[part], 3) for part in [*PARTS, "rest"]}
            | {"captures": self.calls[d]["capture"] // 2}
            for d, own in sorted(self.seconds.items())
        }


def load_libraries(X: np.ndarray, y: np.ndarray, split: Split) -> float:
    """One fit of every D for two epochs, so that what is loaded lazily is not counted below."""
    began = time.perf_counter()
    few = {name: values[:1] for name, values in GRID.items()} | {"latent_dim": GRID["latent_dim"]}
    with tempfile.TemporaryDirectory() as out:
        sweep({**few, **FIXED, "max_epochs": 2}, X, y, {(0, 1.0): split}, out=out, device="cuda")
    return time.perf_counter() - began


def fleets(X: np.ndarray, y: np.ndarray, split: Split, epochs: int) -> dict[str, Any]:
    """(a): all 500 fits through the sweep, records and all."""
    watch = Stopwatch()
    with tempfile.TemporaryDirectory() as out, watch.running():
        began = time.perf_counter()
        grid = {**GRID, **FIXED, "max_epochs": epochs}
        results = sweep(grid, X, y, {(0, 1.0): split}, out=out, watch="error", device="cuda")
        seconds = time.perf_counter() - began
    records = list(results)
    by_d: dict[int, list[Any]] = defaultdict(list)
    for record in records:
        by_d[record.configuration["latent_dim"]].append(record)
    return {
        "fits": len(records),
        "seconds": seconds,
        "diverged": sum(record.diverged is not None for record in records),
        "epochs": sum(record.epochs for record in records) / len(records),
        "by_d": {
            d: {
                "seconds": sum(record.seconds for record in own),
                "epochs": float(np.mean([record.epochs for record in own])),
                "best_development_error": min(
                    r.development_error for r in own if r.development_error is not None
                ),
            }
            for d, own in sorted(by_d.items())
        },
        "parts": watch.table(),
    }


def extrapolated(parts: dict[int, dict[str, Any]]) -> dict[str, float]:
    """(d): seconds of 25,000 fits, from those of 500.

    Steps take time in proportion to the training rows. What is done once for a fleet is done for
    50 fleets of 500 instead of 5 of 100; everything else is done 50 times as often.
    """
    total = {part: sum(own[part] for own in parts.values()) for part in [*PARTS, "rest"]}
    by_fleet = ("capture", "compaction")
    return {
        "steps": total["steps"] * 2 * 5 * sum(SHARES),
        "by_fleet": 10 * sum(total[part] for part in by_fleet),
        "by_fit": 50 * sum(v for part, v in total.items() if part not in ("steps", *by_fleet)),
    }


class Plain(nn.Module):
    """The same model, written for one member as one would write it first."""

    def __init__(self, n_features: int, k: int, d: int, floor: float) -> None:
        super().__init__()
        h = (n_features + d) // 2
        self.encoder = nn.Sequential(nn.Linear(n_features, h), nn.Tanh(), nn.Linear(h, 2 * d))
        self.decoder = nn.Sequential(nn.Linear(d, h), nn.Tanh(), nn.Linear(h, 2 * n_features))
        self.logits, self.df = nn.Parameter(torch.zeros(k)), nn.Parameter(torch.full((k,), 5.0))
        self.loc, self.raw = nn.Parameter(torch.randn(k, d)), nn.Parameter(torch.zeros(k, d, d))
        self.floor, self.d = floor, d

    def scores(self, mean: Tensor, variance: Tensor) -> Tensor:
        """ln pi + ln f(delta) of every component."""
        c = torch.tril(self.raw, -1) + torch.diag_embed(torch.diagonal(self.raw, 0, 1, 2).exp())
        sigma = c @ c.mT + self.floor * torch.eye(self.d, device=c.device)
        factor = torch.linalg.cholesky(sigma)
        inverse = torch.linalg.inv(factor)
        white = torch.einsum("kij,nkj->nki", inverse, mean[:, None] - self.loc)
        delta = white.square().sum(-1) + variance @ inverse.square().sum(1).mT
        nu = torch.logaddexp(self.df, torch.full_like(self.df, 2.01))
        log_det = 2 * torch.diagonal(factor, 0, 1, 2).log().sum(-1)
        constant = torch.lgamma((nu + self.d) / 2) - torch.lgamma(nu / 2)
        constant = constant - self.d / 2 * torch.log(nu * torch.pi) - log_det / 2
        tail = (nu + self.d) / 2 * torch.log1p(delta / nu)
        return torch.log_softmax(self.logits, 0) + constant - tail

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log scale of q(x | o)."""
        mean, raw = self.encoder(x).chunk(2, -1)
        return mean, 6 * torch.tanh(raw / 6)

    def loss(self, x: Tensor, y: Tensor, l1: float) -> Tensor:
        """Minus the labelled bound, and the penalty."""
        mean, log_scale = self.encode(x)
        sample = mean + log_scale.exp() * torch.randn_like(mean)
        out, raw = self.decoder(sample).chunk(2, -1)
        out_scale = 6 * torch.tanh(raw / 6)
        log_p = -(((x - out) / out_scale.exp()).square() / 2 + out_scale).sum(-1)
        score = self.scores(mean, (2 * log_scale).exp()).gather(1, y[:, None]).squeeze(1)
        weights = [*self.encoder.parameters(), *self.decoder.parameters()]
        penalty = l1 * sum(p.abs().sum() for p in weights)
        return penalty - (log_p + log_scale.sum(-1) + score).mean()


def plain_fit(
    rows: Rows, split: dict[str, Tensor], settings: dict[str, Any], epochs: int
) -> tuple[float, int, float]:
    """One fit to its early stop: seconds, epochs, development error."""
    torch.cuda.synchronize()
    began = time.perf_counter()
    k = int(rows.labels.max()) + 1
    model = Plain(rows.targets.shape[1], k, settings["latent_dim"], settings["scale_floor"]).cuda()
    with torch.no_grad():
        x, y = rows.targets[split["train"]], rows.labels[split["train"]]
        mean = model.encode(x)[0]
        for author in range(k):
            model.loc[author] = mean[y == author].mean(0)
    optimizer = torch.optim.Adam(model.parameters(), lr=settings["learning_rate"])
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    best, waited, epoch = 1.0, 0, 0
    while epoch < epochs and waited < FIXED["patience"]:
        epoch += 1
        order = split["train"][torch.randperm(len(split["train"]), device="cuda")]
        for index in order.split(FIXED["batch_size"]):
            optimizer.zero_grad()
            model.loss(rows.targets[index], rows.labels[index], settings["l1"]).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        schedule.step()
        with torch.no_grad():
            mean, log_scale = model.encode(rows.targets[split["development"]])
            guess = model.scores(mean, (2 * log_scale).exp()).argmax(-1)
            error = float((guess != rows.labels[split["development"]]).float().mean())
        best, waited = (error, 0) if error < best else (best, waited + 1)
    torch.cuda.synchronize()
    return time.perf_counter() - began, epoch, best


def one_at_a_time(
    rows: Rows, split: dict[str, Tensor], per_d: int, lengths: dict[int, float]
) -> dict[str, Any]:
    """(b): the pace of some fits of every D, and what all 500 would take.

    A plain fit is timed for a few epochs; it is charged as many as the same fits took as fleets.
    """
    random = np.random.default_rng(0)
    first = {name: values[0] for name, values in GRID.items()}
    plain_fit(rows, split, first, 2)  # what is loaded lazily is not counted
    by_d = {}
    for d in GRID["latent_dim"]:
        drawn = [
            {name: random.choice(values).item() for name, values in GRID.items()}
            | {"latent_dim": d}
            for _ in range(per_d)
        ]
        times, epochs, _ = zip(
            *(plain_fit(rows, split, settings, TIMED_EPOCHS) for settings in drawn), strict=True
        )
        pace = sum(times) / sum(epochs)
        by_d[d] = {"seconds_an_epoch": pace, "seconds_a_fit": pace * lengths[d]}
        print(f"one at a time, D={d}: {by_d[d]}", flush=True)
    each = 500 // len(by_d)
    return {
        "fits": per_d * len(by_d),
        "by_d": by_d,
        "seconds_of_500": each * sum(own["seconds_a_fit"] for own in by_d.values()),
    }


def matmul_rate(precision: str) -> float:
    """Operations a second of one large matrix product."""
    torch.set_float32_matmul_precision(precision)
    a = torch.randn(8192, 8192, device="cuda")
    for _ in range(2):
        a @ a
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(10):
        a @ a
    torch.cuda.synchronize()
    torch.set_float32_matmul_precision("highest")
    return 10 * 2 * 8192**3 / (time.perf_counter() - began)


KINDS = {
    "products": ("gemm", "gemv", "cutlass", "nvjet"),
    "factorisation": ("potrf", "trsm", "triu_tril", "inverse_factor"),
    "reductions": ("reduce", "softmax", "norm"),
    "optimizer": ("multi_tensor", "lerp", "_adam"),
}


def where_time_goes(rows: Rows, m: int, d: int) -> dict[str, Any]:
    """(c): a step of m members, by kind of kernel."""
    n, wide = 16_000, rows.targets.shape[1]
    shape = Architecture(wide, int(rows.labels.max()) + 1, d, ((wide + d) // 2,))
    fleet = MixtureVAE(shape, [Member(seed=i, l1=0.001) for i in range(m)]).cuda()
    index = torch.arange(n, device="cuda")
    assignment = Assignment((index,) * m, (index[:0],) * m)
    initialize(fleet, rows, assignment)
    plan = Plan(batch_size=256)
    members = Members.start(fleet, assignment, Streams(range(m), "cuda"), plan.average)
    with FlopCounterMode(display=False) as counter:
        step = loop.step_for(members, rows, plan)
        first = index[:256].expand(m, 256)
        step.begin_epoch(first[:, None])
        step(first)
    flops = counter.get_total_flops()
    loop.run_epoch(members, rows, plan, 1.0, step)
    torch.cuda.synchronize()
    began = time.perf_counter()
    loop.run_epoch(members, rows, plan, 1.0, step)
    torch.cuda.synchronize()
    seconds = (time.perf_counter() - began) / (n // 256)
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        loop.run_epoch(members, rows, plan, 1.0, step)
        torch.cuda.synchronize()
    spent = dict.fromkeys([*KINDS, "elementwise and copies"], 0.0)
    for event in seen.key_averages():
        own = (k for k, words in KINDS.items() if any(w in event.key.lower() for w in words))
        spent[next(own, "elementwise and copies")] += event.self_device_time_total
    total = sum(spent.values())
    ranked = sorted(seen.key_averages(), key=lambda event: -event.self_device_time_total)
    return {
        "members": m,
        "step_ms": 1e3 * seconds,
        "member_step_us": 1e6 * seconds / m,
        "tflops": flops / seconds / 1e12,
        "share_of_time": {kind: value / total for kind, value in spent.items()},
        "kernel_ms": total / 1e3 / (n // 256),
        "kernels": sum(event.count for event in ranked) / (n // 256),
        "longest": {
            event.key[:180]: round(event.self_device_time_total / 1e3 / (n // 256), 4)
            for event in ranked[:24]
        },
    }


def cut(X: np.ndarray, y: np.ndarray) -> Iterator[Any]:
    """Some rows, a fold of them, and the same on the device."""
    chosen = np.random.default_rng(0).permutation(len(X))[:ROWS]
    X, y = X[chosen].astype(np.float32), y[chosen]
    split = folds(y.tolist())[0]
    train = list(split.train)
    scaled = (X - X[train].mean(0)) / X[train].std(0)
    codes = np.unique(y, return_inverse=True)[1]
    yield X
    yield y
    yield split
    yield Rows(torch.as_tensor(scaled).cuda(), torch.as_tensor(codes).cuda())
    yield {
        name: torch.as_tensor(getattr(split, name), device="cuda")
        for name in ("train", "development")
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("vectors", type=Path, nargs="?", default=REAL, help=".npz with X and y")
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--epochs", type=int, default=40, help="at most, of a fit")
    parser.add_argument("--per-d", type=int, default=2, help="plain fits of every D")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("skipped: this benchmark needs a CUDA device and there is none")
        return
    with np.load(arguments.vectors) as file:
        X, y, split, rows, parts = cut(file["X"], file["y"])
    found: dict[str, Any] = {
        "date": date.today().isoformat(),
        "versions": {
            "whowrote": __version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
            "device": torch.cuda.get_device_name(),
        },
        "rows": {"train": len(split.train), "development": len(split.development)},
    }
    found["loading_seconds"] = load_libraries(X, y, split)
    found["fleets"] = fleets(X, y, split, arguments.epochs)
    print(json.dumps(found["fleets"]), flush=True)
    lengths = {d: own["epochs"] for d, own in found["fleets"]["by_d"].items()}
    found["plain"] = one_at_a_time(rows, parts, arguments.per_d, lengths)
    found["ratio"] = found["plain"]["seconds_of_500"] / found["fleets"]["seconds"]
    with_loading = found["fleets"]["seconds"] + found["loading_seconds"]
    found["ratio_with_loading"] = found["plain"]["seconds_of_500"] / with_loading
    found["steps"] = {d: where_time_goes(rows, 100, d) for d in GRID["latent_dim"][:-1]}
    found["step"] = where_time_goes(rows, 100, GRID["latent_dim"][-1])
    found["step"]["tf32_matmul_tflops"] = matmul_rate("high") / 1e12
    found["step"]["fp32_matmul_tflops"] = matmul_rate("highest") / 1e12
    found["all_25000_extrapolated"] = extrapolated(found["fleets"]["parts"])
    found["all_25000_hours"] = sum(found["all_25000_extrapolated"].values()) / 3600
    print(json.dumps(found, indent=1))
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "fleet_gpu.json").write_text(json.dumps(found, indent=1) + "\n")
    show(found)


def show(found: dict[str, Any]) -> None:
    """What matters, at the end of the output."""
    columns = [*PARTS, "rest", "captures"]
    print(f"\n{'D':>4}" + "".join(f"{name:>15}" for name in columns) + f"{'step, ms':>15}")
    steps = {**found["steps"], GRID["latent_dim"][-1]: found["step"]}
    for d, own in found["fleets"]["parts"].items():
        step = f"{steps[d]['step_ms']:15.2f}" if d in steps else ""
        print(f"{d or '-':>4}" + "".join(f"{own[name]:15.2f}" for name in columns) + step)
    print(f"loading of libraries, counted on neither side: {found['loading_seconds']:.1f} s")
    print(f"500 fits as fleets: {found['fleets']['seconds']:.1f} s")
    print(
        f"500 fits one at a time, from the pace of some: {found['plain']['seconds_of_500']:.0f} s"
    )
    print(f"ratio: {found['ratio']:.1f}; {found['ratio_with_loading']:.1f} with loading as fleets")
    print(f"25,000 fits, EXTRAPOLATED from the 500: {60 * found['all_25000_hours']:.1f} minutes")


if __name__ == "__main__":
    main()
