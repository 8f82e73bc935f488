"""``whowrote extractor``: train the neural feature extractor on corpora of your own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from whowrote.features.extractor_records import Evaluation, Step

extractor = typer.Typer(
    help="Train the neural feature extractor. Example: `whowrote extractor train config.toml`",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)


@extractor.callback()
def _group() -> None:
    """Train the neural feature extractor. Example: `whowrote extractor train config.toml`."""


@extractor.command()
def train(
    config: Annotated[Path, typer.Argument(help="TOML file: corpora, network, batches, training.")],
    device: Annotated[
        str | None, typer.Option(help="cpu, cuda, ...; default: a GPU if any.")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0, help="Leave after so many minutes, ready to be resumed.")
    ] = None,
    resume: Annotated[
        bool, typer.Option(help="Go on from the checkpoint in the output folder, if any.")
    ] = True,
) -> None:
    """Train on corpora with author labels; the best weights on unseen authors are kept.

    Authors are split into training, development and test. The output folder gets a checkpoint,
    `history.jsonl` and `extractor.safetensors`; the same command resumes an interrupted run. With
    several GPUs: `torchrun --nproc-per-node 4 -m whowrote extractor train config.toml`.

    Example: `whowrote extractor train experiments/extractor/shipped.toml`
    """
    from whowrote.features.extractor_config import read_config
    from whowrote.features.extractor_run import WEIGHTS
    from whowrote.features.extractor_training import train as run

    chosen = read_config(config)
    with _bar() as show:
        outcome = run(
            chosen,
            device=device,
            resume=resume,
            minutes=minutes,
            on_step=show,
            on_evaluation=lambda record: typer.echo(_line(record), err=True),
        )
    state = "finished" if outcome.finished else "interrupted; the same command resumes it"
    typer.echo(f"step {outcome.step}, {state}\nWeights: {chosen.out / WEIGHTS}")


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
def _bar() -> Iterator[Callable[[Step], None]]:
    """A bar with loss, documents per second and time left; silent off a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    console = Console(stderr=True)
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
