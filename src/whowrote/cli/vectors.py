"""Commands about vectors: ``embed`` makes them of a corpus.

``vectors`` fits a model to more of them than memory holds, and answers with it; ``extractor
train`` makes the weights of the neural feature extractor.
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
    Overwrite,
    Quiet,
    Ray,
    Reading,
    Seed,
    between,
    corpus_options,
    on_gpus,
    say,
    told_on_stderr,
)
from whowrote.formatting import count, screen

if TYPE_CHECKING:
    from whowrote.features.extractor.driver import Far, Outcome
    from whowrote.features.extractor.recipe import Config
    from whowrote.features.extractor.run import Evaluation, Step
    from whowrote.features.streaming import Embedded, Part


Extractor = Annotated[
    str, typer.Option(help="adhominem, style, or sentences (a sentence-transformers model).")
]
Weights = Annotated[
    str | None, typer.Option(help="Weights of your own, or the sentence-transformers model.")
]
OverTable = Annotated[
    bool, typer.Option("--overwrite", help="Write over a table that is there already.")
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
    overwrite: OverTable = False,
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

    gpus = on_gpus(device)
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


# -- whowrote vectors ----------------------------------------------------------------------------

vectors = typer.Typer(
    help="Fit a model to a table of vectors, of any size, and answer with it. "
    "Example: `whowrote vectors fit levs.parquet --out levs.model`",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
VectorsPath = Annotated[
    Path, typer.Argument(help="A Parquet or Arrow file of vectors, or a folder of some.")
]
VectorColumn = Annotated[
    str | None, typer.Option(help="The column of lists, or the beginning of numbered columns.")
]
ModelOut = Annotated[Path, typer.Option(help="The file of the model to write.")]
Members = Annotated[int, typer.Option(callback=between(1), help="Models that answer together.")]


@vectors.callback()
def _vectors() -> None:
    """Fit a model to a table of vectors, of any size, and answer with it.

    Example: `whowrote vectors fit levs.parquet --out levs.model`
    """


@vectors.command("fit")
def fit_vectors(
    levs: VectorsPath,
    out: ModelOut,
    labels: Annotated[str, typer.Option(help="The column of authors; missing: unknown.")] = (
        "author"
    ),
    vector: VectorColumn = None,
    component: Annotated[str, typer.Option(help="student-t or gaussian.")] = "student-t",
    members: Members = 1,
    epochs: Annotated[
        int | None, typer.Option(callback=between(1), help="At most so many; by rule if not given.")
    ] = None,
    seed: Seed = 0,
    device: Device = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Learn authors from a table of vectors that need not fit into memory.

    The table is what `whowrote embed` writes, or any with a column of labels and one of lists of
    numbers. Of anything but an uncompressed Arrow file a copy that is read by number is made beside
    it, once. Held in memory are 256 MB of rows and some 30 bytes for each.

    Example: `whowrote vectors fit levs.parquet --out levs.model --labels writer --epochs 20`
    """
    from whowrote.estimators import MixtureVAEClassifier, VectorTable

    model = MixtureVAEClassifier(
        component,
        n_members=members,
        max_epochs=epochs,
        random_state=seed,
        device=device or "auto",
    )
    rows = VectorTable(levs, author=labels, vector=vector)
    _fit_and_save(model, rows, out, overwrite, as_json, quiet)


@vectors.command("cluster")
def cluster_vectors(
    levs: VectorsPath,
    out: ModelOut,
    groups: Annotated[int, typer.Option(callback=between(1), help="How many clusters.")] = 5,
    vector: VectorColumn = None,
    component: Annotated[str, typer.Option(help="student-t or gaussian.")] = "student-t",
    members: Members = 1,
    starts: Annotated[
        int, typer.Option(callback=between(1), help="Whole fits, of which the best is kept.")
    ] = 1,
    epochs: Annotated[int, typer.Option(callback=between(1), help="At most so many.")] = 60,
    seed: Seed = 0,
    device: Device = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Find clusters in a table of vectors that need not fit into memory.

    No labels are read. The start looks at 20,000 rows at random, learning at all of them.
    `whowrote vectors predict` says which row is in which cluster.

    Example: `whowrote vectors cluster levs.parquet --groups 20 --out clusters.model`
    """
    from whowrote.estimators import MixtureVAEClusterer, VectorTable

    model = MixtureVAEClusterer(
        groups,
        component=component,
        n_members=members,
        n_init=starts,
        max_epochs=epochs,
        random_state=seed,
        device=device or "auto",
    )
    _fit_and_save(model, VectorTable(levs, vector=vector), out, overwrite, as_json, quiet)


def _fit_and_save(
    model: Any, rows: Any, out: Path, overwrite: bool, as_json: bool, quiet: bool
) -> None:
    from whowrote.drafts import probe, require_unwritten
    from whowrote.errors import ClusterWarning, DataWarning
    from whowrote.progress import stage_bars

    require_unwritten(out, overwrite)
    probe(out)
    began = perf_counter()
    with told_on_stderr(ClusterWarning), told_on_stderr(DataWarning), stage_bars(not quiet):
        model.fit(rows)
    model.save(out)
    k, seconds = model.fitted_.n_components, perf_counter() - began
    told = {"rows": len(rows), "classes": k, "epochs": model.n_iter_, "seconds": seconds}
    if as_json:
        say(json.dumps({**told, "mean_bound": model.lower_bound_, "model": str(out)}))
    elif not quiet:
        kind = "authors" if hasattr(model, "classes_") else "clusters"
        what = f"{count(len(rows), 'row')}, {k} {kind}, {count(model.n_iter_, 'epoch')}"
        say(f"{what}, {seconds:.0f} s\nModel: {out}")


@vectors.command("predict")
def predict_vectors(
    model: Annotated[Path, typer.Argument(help="What `whowrote vectors fit` or cluster wrote.")],
    levs: VectorsPath,
    out: Annotated[Path, typer.Option(help="The table of answers, ending in .parquet.")],
    vector: VectorColumn = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Those of all classes, as a list.")
    ] = False,
    part: Annotated[
        int, typer.Option(callback=between(1), help="Rows per part: lost at most by a kill.")
    ] = 65_536,
    device: Device = None,
    overwrite: OverTable = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Answer for every row of a table of vectors: the likeliest author or cluster.

    Writes a Parquet table with the columns id, author and sha256 of the vectors, where there are
    such, and `predicted` and `probability`. Parts are kept beside the table until it is whole: the
    same command resumes a run that was stopped.

    Example: `whowrote vectors predict levs.model new.parquet --out answers.parquet`
    """
    from whowrote import estimators
    from whowrote.estimators.vector_table import answering
    from whowrote.features.streaming import answer_table
    from whowrote.files import read_model_file, sha256_of
    from whowrote.progress import stage_bars

    kinds = ("MixtureVAEClassifier", "MixtureVAEClusterer")
    kind = read_model_file(model, *kinds).kind
    fitted = getattr(estimators, kind).load(model, device=device)
    with stage_bars(not quiet):
        done = answer_table(
            levs,
            out,
            answering(fitted, every=probabilities),
            width=fitted.n_features_in_,
            settings={"model": sha256_of(model), "every": probabilities, "vector": vector},
            vector=vector,
            rows_per_part=part,
            overwrite=overwrite,
        )
    if as_json:
        say(json.dumps(asdict(done)))
    elif not quiet:
        found = f", {done.found} found done already" if done.found else ""
        say(f"{count(done.rows, 'row')}{found}\nAnswers: {done.out}")


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
        with machines_of(ray, gpus=on_gpus(asked["device"])) as machines:
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
