"""Commands about vectors: ``embed`` makes them of a corpus, ``sweep`` fits many models to them.

``extractor train`` makes the weights of the neural feature extractor.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whowrote.cli.options import (
    PLAIN,
    AsJson,
    CorpusPath,
    Device,
    Ray,
    Reading,
    between,
    corpus_options,
    say,
    told_on_stderr,
)
from whowrote.formatting import count, screen, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from whowrote.features.extractor.driver import Far, Outcome
    from whowrote.features.extractor.recipe import Config
    from whowrote.features.extractor.run import Evaluation, Step
    from whowrote.features.streaming import Embedded, Part
    from whowrote.sweep import Choice, Results, Row
    from whowrote.sweep import Config as SweepConfig


Extractor = Annotated[
    str, typer.Option(help="adhominem, style, or sentences (a sentence-transformers model).")
]
Weights = Annotated[
    str | None, typer.Option(help="Weights of your own, or the sentence-transformers model.")
]


@corpus_options(without=("group_column",))
def embed(
    corpus: CorpusPath,
    out: Annotated[Path, typer.Option(help="The table to write, ending in .parquet.")],
    features: Extractor = "adhominem",
    model: Weights = None,
    size: Annotated[str, typer.Option(help="Of style: large, or small and six times as fast.")] = (
        "large"
    ),
    workers: Annotated[int, typer.Option(help="Processes that share the work.")] = 1,
    device: Device = None,
    ray: Ray = None,
    reading: Reading = PLAIN,
    part: Annotated[
        int, typer.Option(help="Texts per part: as many are lost at most by a kill.")
    ] = 4096,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Write over a table that is there already.")
    ] = False,
    as_json: AsJson = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress bar and no closing line.")
    ] = False,
) -> None:
    """Turn every text of a corpus into a vector of its author's style.

    Writes a Parquet table with id, author, sha256 of the text, and vector. The corpus may be larger
    than memory. Parts are kept in a folder beside the table until it is whole: the same command
    resumes a run that was stopped or killed.

    Example: `whowrote embed posts.jsonl --out levs.parquet --workers 2`
    """
    from whowrote.distributed import machines_of
    from whowrote.features.streaming import Choice, embed_corpus

    gpus = _on_gpus(device)
    with machines_of(ray, gpus=gpus) as machines, _texts_bar(wanted=not quiet) as show:
        done = embed_corpus(
            corpus,
            out,
            Choice(features, model, device, size),
            workers=workers,
            machines=machines,
            texts_per_part=part,
            overwrite=overwrite,
            on_part=show,
            **asdict(reading),
        )
    for line in _remarks(done):
        say(f"whowrote: {line}", err=True)
    if as_json:
        say(json.dumps(done.to_dict()))
    elif not quiet:
        say(_embedded(done))


def _on_gpus(device: str | None) -> bool:
    """Whether tasks on other machines ask for a GPU each."""
    return device is not None and device.startswith("cuda")


def _embedded(done: Embedded) -> str:
    made = done.texts - done.found
    speed = f"{made / done.seconds:.0f} texts/s" if made else "nothing to embed"
    found = f", {done.found} found done already" if done.found else ""
    made_of = f"{count(done.texts, 'text')}, {done.dimensions} dimensions"
    return f"{made_of}{found}, {speed}\nVectors: {done.out}"


def _remarks(done: Embedded) -> list[str]:
    """What the user should know even when nothing else is printed."""
    from whowrote.features.interface import FEW_TOKENS

    lines = [f"{count(n, 'text')} of the corpus: {kind}" for kind, n in sorted(done.notes.items())]
    if done.short:
        lines.append(
            f"{done.short} of {done.texts} texts have fewer than {FEW_TOKENS} tokens; their "
            "vectors are mostly chance: join short texts of one author, or leave them out"
        )
    return lines


@contextmanager
def _texts_bar(wanted: bool) -> Iterator[Callable[[Part], None]]:
    """Texts so far and texts per second; silent off a terminal."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = screen(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.completed:.0f} texts"), TimeElapsedColumn())
    with Progress(
        *columns,
        TextColumn("{task.fields[note]}"),
        console=console,
        disable=not (wanted and console.is_terminal),
    ) as bar:
        task, began = bar.add_task("embedding", total=None, note=""), perf_counter()
        made = 0

        def show(part: Part) -> None:
            nonlocal made
            made += 0 if part.found else part.texts
            speed = made / (perf_counter() - began)
            bar.update(task, advance=part.texts, note=f"{speed:.0f} texts/s")

        yield show


# -- whowrote extractor --------------------------------------------------------------------------

extractor = typer.Typer(
    help="Train the neural feature extractor. Example: `whowrote extractor train config.toml`",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)


@extractor.callback()
def _group() -> None:
    """Train the neural feature extractor. Example: `whowrote extractor train config.toml`."""


@extractor.command("train")
def train_extractor(
    config: Annotated[Path, typer.Argument(help="TOML file: corpora, network, batches, training.")],
    device: Device = None,
    minutes: Annotated[
        float | None,
        typer.Option(callback=between(0), help="Leave after so many minutes, ready to be resumed."),
    ] = None,
    resume: Annotated[
        bool, typer.Option(help="Go on from the checkpoint in the output folder, if any.")
    ] = True,
    checkpoints: Annotated[
        str | None, typer.Option(help="Keep checkpoints at this URL too: s3://bucket/run, file://")
    ] = None,
    ray: Ray = None,
) -> None:
    """Train on corpora with author labels; the best weights on unseen authors are kept.

    Authors are split into training, development and test. The output folder gets a checkpoint,
    `history.jsonl` and `extractor.safetensors`; the same command resumes an interrupted run. With
    several GPUs: `torchrun --nproc-per-node 4 -m whowrote extractor train config.toml`. With
    `--ray` one machine of the cluster trains, and another one goes on when it dies: checkpoints
    must then go to a URL, or the output folder lie on a shared disk.

    Example: `whowrote extractor train experiments/extractor/shipped.toml`
    """
    from whowrote.drafts import probe
    from whowrote.features.extractor.recipe import read_config
    from whowrote.features.extractor.run import WEIGHTS

    chosen = read_config(config)
    probe(chosen.out, folder=True)
    asked = {"device": device, "resume": resume, "minutes": minutes}
    outcome = _trained(chosen, ray, checkpoints, asked)
    state = "finished" if outcome.finished else "interrupted; the same command resumes it"
    say(f"step {outcome.step}, {state}\nWeights: {chosen.out / WEIGHTS}")


def _trained(
    config: Config, ray: str | None, checkpoints: str | None, asked: dict[str, Any]
) -> Outcome | Far:
    from whowrote.distributed import machines_of
    from whowrote.features.extractor.checkpoints import Store
    from whowrote.features.extractor.driver import train, train_on

    store = None if checkpoints is None else Store(checkpoints)
    if ray is not None:
        with machines_of(ray, gpus=_on_gpus(asked["device"])) as machines:
            far = train_on(machines, config, store=store, **asked)
        for record in far.history:
            say(_line(record), err=True)
        return far
    with _training_bar() as show:
        return train(
            config,
            store=store,
            on_step=show,
            on_evaluation=lambda record: say(_line(record), err=True),
            **asked,
        )


def _line(record: Evaluation) -> str:
    scores = ", ".join(
        f"{name} {value:.4f}/{record.recall_at_1[name]:.3f}" for name, value in record.auc.items()
    )
    return (
        f"step {record.step}, {record.seconds:.0f} s: loss {record.loss:.4f}, "
        f"{record.documents_per_second:.0f} docs/s, rate {record.learning_rate:.2e}, "
        f"AUC {record.mean_auc:.4f} (AUC/recall@1: {scores})"
    )


@contextmanager
def _training_bar() -> Iterator[Callable[[Step], None]]:
    """A bar with loss, documents per second and time left; silent off a terminal."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    console = screen(stderr=True)
    with Progress(
        "training",
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[note]}"),
        console=console,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task("training", total=1.0, note="")

        def show(step: Step) -> None:
            note = f"step {step.step}, loss {step.loss:.3f}, {step.documents_per_second:.0f} docs/s"
            left = f"{step.seconds_left / 60:.1f} min left"
            bar.update(task, completed=step.share_done, note=f"{note}, {left}")

        yield show


# -- whowrote sweep ------------------------------------------------------------------------------

BY = ("component", "share")


def sweep(
    config: Annotated[Path, typer.Argument(help="A TOML file: data, splits, grid, fit, search.")],
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the records; CONFIG.records beside the file if not given."),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    test: Annotated[
        bool,
        typer.Option("--test", help="Show test errors too. To be read once, at the end."),
    ] = False,
    ray: Ray = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
    as_json: AsJson = False,
) -> None:
    """Fit a grid of models on every split, and show the best by development error.

    Writes one small record per fit. A sweep that was stopped goes on where it was when started
    again, and a finished one only reads its records. The file names a data set (`.npz` with X and
    y, or `.parquet`), splits, and lists of values for parameters:

        [data]
        vectors = "vectors.npz"

        [splits]
        folds = 5

        [grid]
        component = ["student-t", "gaussian"]
        latent_dim = [20, 50]

    Example: `whowrote sweep grid.toml --out results/grid --device cuda`
    """
    from whowrote.distributed import machines_of
    from whowrote.drafts import probe
    from whowrote.sweep import RecordWarning, read_config, run_config

    asked = read_config(config)
    folder = config.with_suffix(".records") if out is None else out
    probe(folder, folder=True)
    with told_on_stderr(RecordWarning), machines_of(ray, gpus=_on_gpus(device)) as machines:
        results = run_config(asked, folder, device=device, progress=not quiet, machines=machines)
    best = results.best(BY)
    rows = results.table(BY) if test else []
    if as_json:
        say(json.dumps(_sweep_summary(folder, results, best, rows)))
    else:
        _show_sweep(asked, folder, results, best, rows)


def _sweep_summary(
    folder: Path, results: Results, best: Sequence[Choice], rows: Sequence[Row]
) -> dict[str, Any]:
    chosen = [
        {
            **choice.key,
            "configuration": choice.configuration,
            "development_error": choice.development_error,
            "development_log_loss": choice.development_log_loss,
            "n_candidates": choice.n_candidates,
        }
        for choice in best
    ]
    summary: dict[str, Any] = {
        "records": str(folder),
        "n_fits": len(results),
        "n_diverged": results.n_diverged,
        "best": chosen,
    }
    return summary | ({"test": [asdict(row) for row in rows]} if rows else {})


def _show_sweep(
    asked: SweepConfig,
    folder: Path,
    results: Results,
    best: Sequence[Choice],
    rows: Sequence[Row],
) -> None:
    console = screen()
    varied = [name for name in asked.varied if name not in BY]
    console.print(_best_table(best, [n for n in varied if _differs(results, n)]))
    if rows:
        console.print("", _test_table(rows), sep="\n")
    diverged = f", {results.n_diverged} diverged" if results.n_diverged else ""
    line = f"Records: {folder} ({len(results)} fits{diverged})"
    console.print(line, highlight=False, markup=False, soft_wrap=True)


def _differs(results: Results, name: str) -> bool:
    return len({str(record.configuration[name]) for record in results}) > 1


def _best_table(best: Sequence[Choice], varied: Sequence[str]) -> Table:
    columns = (*BY, *varied, ">development error", ">of")
    made = table("Best configuration by development error", *columns, pad_edge=False)
    for choice in best:
        values = [*choice.key.values(), *(choice.configuration[name] for name in varied)]
        error = f"{choice.development_error:.2%}"
        made.add_row(*map(_cell, values), error, str(choice.n_candidates))
    return made


def _test_table(rows: Sequence[Row]) -> Table:
    title = "Test error, every fold with its own choice by development error"
    made = table(title, *BY, ">test error", ">sd", ">folds", ">fits", pad_edge=False)
    for row in rows:
        spread = "-" if row.test_sd is None else f"{row.test_sd:.2%}"
        counts = str(row.n_folds), str(row.n_fits)
        made.add_row(*map(_cell, row.key.values()), f"{row.test_error:.2%}", spread, *counts)
    return made


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return ", ".join(map(_cell, value)) if isinstance(value, list) else str(value)
