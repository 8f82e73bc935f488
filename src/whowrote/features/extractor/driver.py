r"""Training the extractor: one linear loop, :math:`\theta_0 \to \theta_1 \to \dots \to \bar\theta`.

It steps, evaluates and saves until the run's steps or minutes are over. Several processes
(torchrun) draw batches of their own and average their gradients. The loop appends records; showing
them is someone else's job.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from whowrote.checks import choose_device
from whowrote.errors import InputError, first_line
from whowrote.features.extractor.checkpoints import Checkpoint, read_checkpoint
from whowrote.features.extractor.preparation import (
    Prepared,
    Tables,
    limit_authors,
    load_or_prepare,
)
from whowrote.features.extractor.recipe import Config
from whowrote.features.extractor.run import Evaluation, Processes, Run, Step, join_processes
from whowrote.features.reading import Extractor, read_extractor
from whowrote.files import sha256_of

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
    on_step: Callable[[Step], None] = lambda step: None,
    on_evaluation: Callable[[Evaluation], None] = lambda evaluation: None,
) -> Outcome:
    """Train as configured; ``minutes`` ends this call earlier, with a checkpoint to resume from."""
    processes = join_processes()
    prepared = load_for(config, processes)
    chosen = choose_device(device)
    run = Run(config, prepared, chosen, processes)
    checkpoint = read_checkpoint(config.out) if resume else None
    if checkpoint is not None:
        _restore(run, checkpoint)
    with tensor_cores():
        finished = _loop(run, minutes, on_step, on_evaluation)
        if not run.history or run.history[-1].step != run.step:
            on_evaluation(run.evaluate())
    run.save()
    return Outcome(run.extractor(), run.step, finished, run.history)


@contextmanager
def tensor_cores() -> Iterator[None]:
    """Single-precision products in TF32 meanwhile, on a device that has it."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


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
            run.save()
            saved = time.perf_counter()
        run.seconds += time.perf_counter() - after
