r"""Training the extractor: one linear loop, :math:`\theta_0 \to \theta_1 \to \dots \to \bar\theta`.

It steps, evaluates and saves until the run's steps or minutes are over. Several processes
(torchrun) draw batches of their own and average their gradients. The loop appends records; showing
them is someone else's job.

:func:`train_on` does all of it in one task of a Ray cluster, which goes on from its checkpoint on
another machine when its own dies.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from whowrote.checks import choose_device
from whowrote.distributed import Machines
from whowrote.errors import InputError, first_line
from whowrote.features.extractor.checkpoints import MANIFEST, Checkpoint, Store, read_checkpoint
from whowrote.features.extractor.preparation import (
    Prepared,
    Tables,
    limit_authors,
    load_or_prepare,
)
from whowrote.features.extractor.recipe import PATHS, Config
from whowrote.features.extractor.run import (
    HISTORY,
    WEIGHTS,
    Evaluation,
    Processes,
    Run,
    Step,
    join_processes,
)
from whowrote.features.reading import Extractor, read_extractor
from whowrote.files import atomic_path, sha256_of

STEPS_PER_REPORT = 20


@dataclass
class Outcome:
    """A finished or interrupted run."""

    extractor: Extractor
    step: int
    finished: bool
    history: list[Evaluation] = field(default_factory=list)


def train(
    config: Config,
    *,
    device: torch.device | str | None = None,
    resume: bool = True,
    minutes: float | None = None,
    store: Store | None = None,
    prepared: Prepared | None = None,
    on_step: Callable[[Step], None] = lambda step: None,
    on_evaluation: Callable[[Evaluation], None] = lambda evaluation: None,
) -> Outcome:
    """Train as configured; ``minutes`` ends this call earlier, with a checkpoint to resume from.

    Checkpoints go into the folder of the run, and to a ``store`` where there is one. ``prepared``
    is the corpus where it has been read already.
    """
    processes = join_processes()
    if prepared is None:
        prepared = load_for(config, processes)
    run = Run(config, prepared, choose_device(device), processes)
    if store is not None and resume and not processes.rank:
        store.fetch(config.out)
    checkpoint = read_checkpoint(config.out) if resume else None
    if checkpoint is not None:
        _restore(run, checkpoint)
    with tensor_cores():
        finished = _loop(run, minutes, store, on_step, on_evaluation)
        if not run.history or run.history[-1].step != run.step:
            on_evaluation(run.evaluate())
    _save(run, store)
    return Outcome(run.extractor(), run.step, finished, run.history)


def _save(run: Run, store: Store | None) -> None:
    run.save()
    if store is not None and not run.processes.rank:
        store.keep(run.config.out, (HISTORY, WEIGHTS))


@dataclass(frozen=True)
class Far:
    """How far a run on another machine has come, and the files that it leaves."""

    step: int
    finished: bool
    history: list[Evaluation]
    files: dict[str, bytes] = field(repr=False)


@dataclass(frozen=True)
class _Away:
    """What another machine needs to know of a run."""

    config: Config
    prepared: Prepared
    device: str | None
    minutes: float | None
    store: Store | None


def train_on(
    machines: Machines,
    config: Config,
    *,
    device: str | None = None,
    resume: bool = True,
    minutes: float | None = None,
    store: Store | None = None,
) -> Far:
    """Train in one task; weights and history are filed here.

    The corpus is prepared here and sent. Checkpoints go to the ``store``; without one, into the
    folder of the run, which then must lie on a disk that all machines share.
    """
    here = {name: getattr(config, name) for name in ("out", "cache", *PATHS)}
    config = replace(config, **{n: path and path.resolve() for n, path in here.items()})
    if not resume:  # here, and not in the task: one that is sent again has to go on
        (config.out / MANIFEST).unlink(missing_ok=True)
        if store is not None:
            store.forget()
    prepared = load_for(config, Processes())
    shared = _Away(config, prepared, device, minutes, store)
    (far,) = (found for _, found in machines.map(_trained, shared, [None]))
    for name, content in far.files.items():
        with atomic_path(config.out / name) as draft:
            draft.write_bytes(content)
    return far


def _trained(shared: _Away, _: None) -> Far:
    """The task; it has a folder of its own where checkpoints go to a store."""
    config = shared.config
    with tempfile.TemporaryDirectory() as folder:
        if shared.store is not None:
            config = replace(config, out=Path(folder))
        outcome = train(
            config,
            device=shared.device,
            minutes=shared.minutes,
            store=shared.store,
            prepared=shared.prepared,
        )
        files = {name: (config.out / name).read_bytes() for name in (WEIGHTS, HISTORY)}
    return Far(outcome.step, outcome.finished, outcome.history, files)


@contextmanager
def tensor_cores() -> Iterator[None]:
    """Single-precision products in TF32 meanwhile, on a device that has it.

    cuDNN's attention plans anew for every shape of a batch, and hardly two are alike: most of a
    step's time went there.
    """
    before = torch.get_float32_matmul_precision()
    plans = torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
    torch.set_float32_matmul_precision("high")
    torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
        torch.backends.cuda.enable_cudnn_sdp(plans)


def load_for(config: Config, processes: Processes) -> Prepared:
    """The prepared corpus; the first process prepares it, the others wait for its cache."""
    if processes.rank:
        torch.distributed.barrier()
    tables = None
    if config.start_tables and config.start is not None:
        before = read_extractor(config.start)
        tables = Tables(before.vocabulary, before.ngrams, sha256_of(config.start))
    prepared = load_or_prepare(
        config.corpora,
        config.vocabulary,
        config.cache,
        tables=tables,
        pieces=config.pieces if config.encoder.layers else None,
    )
    if processes.size > 1 and not processes.rank:
        torch.distributed.barrier()
    return limit_authors(prepared, config.max_authors)


def _restore(run: Run, checkpoint: Checkpoint) -> None:
    """Take over a state; one that does not fit the run is a sentence."""
    try:
        run.restore(checkpoint)
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, RuntimeError) as problem:
        out = run.config.out
        raise InputError(
            f"the checkpoint in '{out}' does not fit this run ({first_line(problem)}); take the "
            f"folder '{out}' away to start anew"
        ) from problem


def _loop(
    run: Run,
    minutes: float | None,
    store: Store | None,
    on_step: Callable[[Step], None],
    on_evaluation: Callable[[Evaluation], None],
) -> bool:
    """Step until the run is done (true) or this call's minutes are over (false)."""
    began = saved = time.perf_counter()
    while True:
        before = time.perf_counter()
        over = minutes is not None and time.perf_counter() - began >= 60 * minutes
        share, stop = run.processes.first(run.share_done(), float(over))
        if share >= 1 or stop:
            return share >= 1
        if run.config.batch.hard_share and run.batches.neighbours is None:
            run.find_neighbours()
        documents = run.learn(share)
        run.count_step(documents, time.perf_counter() - before)
        after = time.perf_counter()
        if run.step % run.recipe.evaluate_every == 0:
            on_evaluation(run.evaluate())
            if run.config.batch.hard_share:
                run.find_neighbours()
        elif run.step % STEPS_PER_REPORT == 0:
            on_step(run.recent())
        if time.perf_counter() - saved >= 60 * run.recipe.checkpoint_minutes:
            _save(run, store)
            saved = time.perf_counter()
        run.seconds += time.perf_counter() - after
