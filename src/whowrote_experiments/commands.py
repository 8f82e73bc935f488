"""``whowrote experiment``: ``fit``, ``pack``, ``table1``, ``figure2`` to ``5`` and ``pinwheel``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whowrote.formatting import screen, table

if TYPE_CHECKING:
    from rich.table import Table

    from whowrote_experiments.paired import Paired
    from whowrote_experiments.pinwheel import Outcome, Trial
    from whowrote_experiments.published import Step
    from whowrote_experiments.table1 import Table1
    from whowrote_experiments.trials import Trials

RECORDS = Path("experiments/results/published")
"""Where the committed records of the published evaluation are."""
PANELS = Path("experiments/results/pinwheel.npz")

Records = Annotated[Path, typer.Option(help="Folder or file of records.")]
CorpusName = Annotated[str, typer.Option("--corpus", help="Which corpus of the records.")]
Out = Annotated[Path, typer.Option(help="Folder for the figure, as PNG and SVG.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

experiment = typer.Typer(
    help="Repeat the published experiments. Example: `whowrote experiment pinwheel`",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)


@experiment.callback()
def _group() -> None:
    """Repeat the published experiments. Example: `whowrote experiment pinwheel`."""


@experiment.command()
def fit(
    protocol: Annotated[Path, typer.Argument(help="A TOML file: methods, grids, folds, sizes.")],
    vectors: Annotated[Path, typer.Option(help="Vectors and authors: .npz or .parquet.")],
    out: Annotated[Path, typer.Option(help="Folder of the records.")] = RECORDS,
    texts: Annotated[
        Path | None, typer.Option(help="The corpus of the vectors, for the n-gram SVM.")
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="Only this one; may be given again.")
    ] = None,
    size: Annotated[list[float] | None, typer.Option(help="Only this share of the texts.")] = None,
    fold: Annotated[list[int] | None, typer.Option(help="Only this fold, from 0.")] = None,
    dimension: Annotated[list[int] | None, typer.Option("--d", help="Only this D.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    workers: Annotated[int, typer.Option(min=1, help="Processes for the SVMs.")] = 1,
) -> None:
    """Fit what is missing of the published evaluation, or of a part of it.

    Every method, size and D is one small file of records in the folder; what is there is not fitted
    again, so that a run that was stopped goes on, and parts can be fitted on several computers.

    Example: `whowrote experiment fit blog30.toml --vectors blog30.npz --method SMM-VAE --d 200`
    """
    from whowrote_experiments.protocol import Part, read_protocol
    from whowrote_experiments.published import load_material, run

    asked = read_protocol(protocol)

    def show(step: Step) -> None:
        state = "is there" if step.found else "is being fitted"
        typer.echo(f"{step.number}/{step.of} {step.label} {state}", err=True)

    part = Part(method or None, size or None, fold or None, dimension or None)
    material = load_material(asked.corpus, vectors, texts)
    made = run(asked, material, out, part, device=device, workers=workers, report=show)
    typer.echo(f"{made.coverage()}\nRecords: {out}")


@experiment.command()
def pack(
    sources: Annotated[list[Path], typer.Argument(help="Folders or files of records.")],
    to: Annotated[Path, typer.Option(help="The file to write, ending in .parquet.")],
    digits: Annotated[
        int | None,
        typer.Option(min=1, help="Significant digits of nu and log-losses; all if not given."),
    ] = None,
) -> None:
    """Join records into one small file that can be committed.

    Example: `whowrote experiment pack records --to experiments/results/published/blog30.parquet`
    """
    from whowrote_experiments.trials import pack as join

    made = join(sources, to, digits)
    typer.echo(f"{made.coverage()}, {to.stat().st_size / 1e6:.2f} MB\nRecords: {to}")


@experiment.command()
def table1(
    records: Records = RECORDS,
    corpus: CorpusName = "blog30",
    as_json: AsJson = False,
) -> None:
    """Table 1: test error of every method at every training size, from records.

    Mean and standard deviation over folds, each with the settings that its development rows chose,
    and paired tests between methods.

    Example: `whowrote experiment table1`
    """
    from whowrote_experiments.table1 import table1 as tabulate

    made = tabulate(_trials(records, corpus))
    if as_json:
        import json

        typer.echo(json.dumps(made.to_dict()))
    else:
        _show(made)


@experiment.command()
def figure2(
    record: Annotated[
        Path, typer.Option(help="What `whowrote experiment pinwheel` kept.")
    ] = PANELS,
    out: Out = Path("figures"),
) -> None:
    """Figure 2: the pinwheel, its latent space, decoded means and new observations.

    Example: `whowrote experiment figure2`
    """
    from whowrote_experiments.figures import figure2 as draw

    _save(draw(record), out, "figure2", "one fit stands behind it")


@experiment.command()
def figure3(
    records: Records = RECORDS,
    corpus: CorpusName = "blog30",
    out: Out = Path("figures"),
) -> None:
    """Figure 3: error against training size.

    Example: `whowrote experiment figure3`
    """
    from whowrote_experiments.figures import figure3 as draw
    from whowrote_experiments.table1 import table1 as tabulate

    made = tabulate(_trials(records, corpus))
    _save(draw(made), out, "figure3", made.coverage)


@experiment.command()
def figure4(
    records: Records = RECORDS,
    corpus: CorpusName = "blog30",
    out: Out = Path("figures"),
) -> None:
    """Figure 4: error against the latent dimension, for each training size.

    Example: `whowrote experiment figure4`
    """
    from whowrote_experiments.dimensions import dimensions
    from whowrote_experiments.figures import figure4 as draw

    found = dimensions(_trials(records, corpus))
    _save(draw(found), out, "figure4", found.coverage)


@experiment.command()
def figure5(
    records: Records = RECORDS,
    corpus: CorpusName = "blog30",
    method: Annotated[str, typer.Option(help="Whose degrees of freedom.")] = "SMM-VAE",
    out: Out = Path("figures"),
) -> None:
    """Figure 5: degrees of freedom of all authors against the latent dimension.

    Example: `whowrote experiment figure5 --method "SMM-VAE, free tails"`
    """
    from whowrote_experiments.dimensions import dimensions
    from whowrote_experiments.figures import figure5 as draw

    found = dimensions(_trials(records, corpus), [method])
    _save(draw(found), out, "figure5", found.coverage)


@experiment.command()
def pinwheel(
    out: Annotated[Path, typer.Option(help="Folder for figure and record.")] = Path("pinwheel"),
    seeds: Annotated[int, typer.Option(min=1, help="How many draws of the data.")] = 10,
    points: Annotated[int, typer.Option(min=10, help="Points per arm.")] = 400,
    epochs: Annotated[int, typer.Option(min=1, help="Epochs after the warm-up.")] = 100,
    as_json: AsJson = False,
) -> None:
    """Cluster a five-armed pinwheel without labels: figure, and accuracy over ten seeds.

    Compares a plain Gaussian mixture, the Gaussian and the Student-t autoencoder. About two
    minutes a seed on two cores; expect the Student-t autoencoder at 99.5 % or more on every seed.

    Example: `whowrote experiment pinwheel --seeds 1 --out /tmp/pinwheel`
    """
    from whowrote_experiments.pinwheel import FRESH_SEEDS, run

    def show(trial: Trial) -> None:
        accuracies = ", ".join(f"{name} {value:.2%}" for name, value in trial.accuracy.items())
        typer.echo(f"seed {trial.seed}: {accuracies}", err=True)

    chosen = range(FRESH_SEEDS.start, FRESH_SEEDS.start + seeds)
    outcome = run(out, seeds=chosen, per_arm=points, max_epochs=epochs, report=show)
    if as_json:
        import json

        typer.echo(json.dumps(outcome.to_dict()))
    else:
        _show_pinwheel(outcome)
        typer.echo(f"Figure: {out / 'pinwheel.png'}\nRecord: {out / 'pinwheel.json'}")


def _trials(records: Path, corpus: str) -> Trials:
    from whowrote_experiments.trials import read

    return read(records).of(corpus)


def _save(figure: Any, out: Path, name: str, coverage: str) -> None:
    from whowrote.plots import save_all

    for path in save_all({name: figure}, out):
        typer.echo(f"Figure: {path}")
    typer.echo(coverage)


def _show(made: Table1) -> None:

    from whowrote_experiments.table1 import title

    console = screen()
    heading = f"Test error in %, {made.corpus}: mean ± standard deviation over folds"
    errors = _by_size(heading, "method", made)
    for method in made.methods:
        errors.add_row(title(method), *(_cell(made, method, share) for share in made.sizes))
    console.print(errors)
    for method in made.methods:
        if method.startswith("SMM-VAE"):
            console.print("", _tests(made, method), sep="\n")
    diverged = f"; {made.n_diverged} diverged" if made.n_diverged else ""
    console.print(f"\n{made.coverage}{diverged}", highlight=False, soft_wrap=True)


def _by_size(title: str, rows: str, made: Table1) -> Table:
    """An empty table with a column for every training size."""
    empty = table(title, rows, *(f">{share:.0%}" for share in made.sizes), pad_edge=False)
    for column in empty.columns[1:]:
        column.no_wrap = True
    return empty


def _cell(made: Table1, method: str, share: float) -> str:
    cell = made.cells.get((method, share))
    if cell is None:
        return "-"
    most = max(len(own.chosen) for own in made.cells.values())
    folds = f" ({len(cell.chosen)} of {most} folds)" if len(cell.chosen) < most else ""
    return f"{100 * cell.mean:.2f} ± {100 * cell.spread:.2f}{folds}"


def _tests(made: Table1, method: str) -> Table:
    from whowrote_experiments.table1 import title

    heading = f"{title(method)} minus others, points, and p (corrected resampled t-test)"
    differences = _by_size(heading, "against", made)
    found = {(one.second, one.share): one.test for one in made.against(method)}
    for other in made.methods:
        if other != method:
            tests = [found.get((other, share)) for share in made.sizes]
            differences.add_row(
                title(other), *("-" if t is None else _difference(t) for t in tests)
            )
    return differences


def _difference(test: Paired) -> str:
    p = f"{test.p:.2f}".removeprefix("0")  # a column less in a narrow window
    return f"{100 * test.difference:+.2f} ({p})"


def _show_pinwheel(outcome: Outcome) -> None:

    title = f"Clustering accuracy over {len(outcome.trials)} draws"
    made = table(title, "method", ">mean", ">sd", ">worst")
    for method, row in outcome.summary().items():
        made.add_row(method, f"{row['mean']:.2%}", f"{row['sd']:.2%}", f"{row['worst']:.2%}")
    screen().print(made)
