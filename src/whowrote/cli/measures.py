"""Commands that measure: ``evaluate`` on one's own corpus, ``demo``, ``sweep`` over settings."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whowrote.cli.options import (
    PLAIN,
    AsJson,
    CorpusPath,
    Features,
    Plots,
    Quiet,
    Ray,
    Reading,
    Seed,
    between,
    corpus_options,
    folder_to_write,
    on_gpus,
    say,
    told_on_stderr,
)
from whowrote.formatting import fine_percent, percent, screen, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from whowrote.demo import Answer, DemoResult, Score
    from whowrote.evaluation import CrossValidation, Method
    from whowrote.held_out import LeftOut
    from whowrote.sweep import Choice, Results, Row
    from whowrote.sweep import Config as SweepConfig


CONFUSIONS = 5
NoStrangers = Annotated[
    bool,
    typer.Option("--no-strangers", help="Leave nobody out whole to see if strangers are refused."),
]
Strangers = Annotated[bool, typer.Option("--strangers", hidden=True)]
"""So by default, and may be said."""
Baselines = Annotated[
    list[str] | None,
    typer.Option(
        help="A classic method beside it: ngram-svm or delta on the texts, linear-svm, "
        "rbf-svm, gaussian or student-t on the extractor's vectors; may be given again."
    ),
]
Verify = Annotated[
    bool,
    typer.Option("--verify", help="Likelihood ratios of people left out: Cllr, Tippett plot."),
]


@corpus_options()
def evaluate(
    corpus: CorpusPath,
    baseline: Baselines = None,
    folds: Annotated[
        int | None,
        typer.Option(callback=between(2), help="Parts; default: five, fewer for few texts."),
    ] = None,
    no_strangers: NoStrangers = False,
    _strangers: Strangers = False,
    verify: Verify = False,
    features: Features = "hybrid",
    plots: Plots = None,
    seed: Seed = 0,
    ray: Ray = None,
    reading: Reading = PLAIN,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Cross-validate: each text is attributed by a model that has not seen it.

    Error with its 95 % interval, macro-F1, Brier score, calibration error, log-loss, the error
    against text length, the confusions, and classic methods on the same folds. Then people are left
    out whole, in three parts: "none of these" is right. Takes three trainings more than folds.

    Example: `whowrote evaluate letters/ --baseline ngram-svm --verify --plots figures/`
    """
    from whowrote.attribution import Attributor
    from whowrote.distributed import machines_of
    from whowrote.evaluation import cross_validate
    from whowrote.held_out import people_left_out
    from whowrote.progress import stage_bars

    texts = reading.load(corpus)
    with machines_of(ray) as machines, stage_bars(not quiet):
        attributor = Attributor(features, random_state=seed)
        where: dict[str, Any] = {"seed": seed, "machines": machines}
        found = cross_validate(texts, attributor, baselines=baseline or (), n_folds=folds, **where)
        left_out = people_left_out(
            texts, attributor, strangers=not no_strangers, verify=verify, **where
        )
    if as_json:
        plain = {**found.to_dict(), **left_out.to_dict()}
        say(json.dumps(plain, ensure_ascii=False))
    else:
        _show_evaluation(found, left_out)
    if plots is not None:
        for path in _draw(found, left_out, plots):
            say(f"Plot: {path}", err=as_json)


def _show_evaluation(found: CrossValidation, left_out: LeftOut) -> None:
    console = screen()
    console.print(_figures(found))
    ours = found.methods[0]
    console.print(_lengths(ours))
    for line in (*_remarks(found, ours), *_left_out_lines(left_out)):
        console.print(line, highlight=False, markup=False)


def _figures(found: CrossValidation) -> Table:
    title = f"{found.texts} texts, {len(found.authors)} authors, {found.n_folds} folds"
    numbers = (">error", ">95 % interval", ">macro-F1", ">Brier", ">ECE", ">log-loss")
    made = table(title, "method", *numbers)
    for method in found.methods:
        e = method.evaluation
        made.add_row(
            method.name,
            f"{e.error:.1%}",
            f"{e.error_interval.low:.1%} to {e.error_interval.high:.1%}",
            f"{e.macro_f1:.3f}",
            f"{e.brier:.3f}",
            f"{e.ece:.3f}",
            f"{e.log_loss:.3f}",
        )
    return made


def _lengths(method: Method) -> Table:
    columns = (">words", ">texts", ">error", ">95 % interval")
    made = table("Error by length of the text", *columns)
    for one in method.by_length:
        made.add_row(
            f"{one.low:.0f} to {one.high:.0f}",
            str(one.n),
            f"{one.error:.1%}",
            f"{one.interval.low:.1%} to {one.interval.high:.1%}",
        )
    return made


def _remarks(found: CrossValidation, ours: Method) -> list[str]:
    e = ours.evaluation
    pairs = [
        (count, e.classes[row], e.classes[column])
        for row, counts in enumerate(e.confusion)
        for column, count in enumerate(counts)
        if row != column and count
    ]
    worst = ", ".join(
        f"{true} for {named} ({count})" for count, true, named in sorted(pairs)[::-1][:CONFUSIONS]
    )
    return [
        f"Most often taken: {worst or 'nobody for anybody'}.",
        f"'None of these' was said of {ours.none_share or 0:.1%} of the texts, whose authors were "
        "all enrolled.",
        f"Split {found.split_hash[:12]}, seed {found.seed}.",
    ]


def _left_out_lines(found: LeftOut) -> list[str]:
    lines = []
    if found.strangers is not None:
        one = found.strangers
        lines.append(
            f"People left out, {one.people} in turn: {one.refused:.1%} of their {one.strangers} "
            f"texts are refused, 'none of these' (95 % interval {one.refused_interval.low:.1%} to "
            f"{one.refused_interval.high:.1%}); {one.kept:.1%} of {one.enrolled} held-out texts of "
            "the others go to their author by name."
        )
    elif found.why_no_strangers:
        lines.append(f"Nobody was left out: {found.why_no_strangers}.")
    if found.verification is not None:
        two, quality = found.verification, found.verification.quality
        lines += [
            f"Likelihood ratios of {two.people} people left out, {quality.same} pairs by one and "
            f"{quality.different} by two: Cllr {quality.cllr:.3f} (95 % interval "
            f"{two.interval.low:.3f} to {two.interval.high:.3f}), at best {quality.cllr_min:.3f}, "
            f"AUC {quality.auc:.3f}.",
            f"Above 1: {1 - quality.misleading_same:.1%} of pairs by one person and "
            f"{quality.misleading_different:.1%} of pairs by two.",
        ]
    return lines


def _draw(found: CrossValidation, left_out: LeftOut, folder: Path) -> list[Path]:
    from whowrote import plots as pictures

    ours = found.methods[0]
    figures = {
        "confusion": pictures.confusion_matrix(ours.evaluation.confusion, found.authors),
        "reliability": pictures.reliability_diagram(ours.confidence, ours.right),
        "lengths": pictures.length_errors(ours.by_length),
    }
    if left_out.verification is not None:
        pairs = left_out.verification.log10_lr, left_out.verification.same
        figures["tippett"] = pictures.tippett_plot(*pairs)
        figures["ratios"] = pictures.calibration_plot(*pairs)
    return pictures.save_all(figures, folder)


# -- whowrote demo -------------------------------------------------------------------------------

MARKS = {True: "right", False: "WRONG"}


def demo(
    out: Annotated[Path, folder_to_write("Folder for the page and plots.")] = Path("whowrote-demo"),
    presidents: Annotated[int, typer.Option(help="How many presidents to enrol.")] = 12,
    outsider: Annotated[
        str, typer.Option(help="A president who is not enrolled, by full name.")
    ] = "Abraham Lincoln",
    seed: Annotated[
        int,
        typer.Option(callback=between(0), max=2**32 - 1, help="Chooses the held-out addresses."),
    ] = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Learn presidents' styles, then say who held other State of the Union addresses.

    Trains on addresses that come with the installation, attributes addresses it has not seen, and
    those of a president it does not know, which are by none of the enrolled. Writes a page with
    plots. Takes about two minutes on two cores and downloads nothing.

    Example: `whowrote demo --presidents 6 --seed 1 --out /tmp/demo`
    """
    from whowrote.demo import run
    from whowrote.progress import stage_bars

    with stage_bars(not quiet):
        result = run(out, presidents=presidents, seed=seed, outsider=outsider)
    if as_json:
        say(json.dumps(result.to_dict(), ensure_ascii=False))
    else:
        _show_demo(result)


def _show_demo(result: DemoResult) -> None:
    console = screen()
    console.print(_demo_table(result.answers), "", sep="\n")
    for line in _summary(result):
        console.print(line, highlight=False, markup=False)
    for name, path in (("Plot", result.plot), ("Page", result.page)):
        console.print(f"{name}: {path}", highlight=False, markup=False, soft_wrap=True)


def _demo_table(answers: tuple[Answer, ...]) -> Table:
    columns = ("year", "true author", "whowrote", ">prob.", ">strangers", "", "SVM")
    look = {"pad_edge": False, "padding": (0, 1, 0, 0), "header_style": "bold underline"}
    made = table("", *columns, **look)
    for column in made.columns:
        column.no_wrap = column.justify == "left"
    for row in answers:
        made.add_row(
            str(row.year),
            row.author,
            row.answer or "none of these",
            percent(row.probability),
            "-" if row.stranger is None else fine_percent(row.stranger),
            MARKS[row.right],
            MARKS[row.svm_right],
            style="" if row.right else "bold red",
        )
    return made


def _summary(result: DemoResult) -> list[str]:
    memory = result.peak_memory_mb
    used = "" if memory is None else f", peak memory {memory:.0f} MB"
    return [
        f"{len(result.enrolled)} presidents, {result.training_texts} training addresses in "
        f"{result.training_passages} passages, split {result.split_hash[:12]}, seed {result.seed}.",
        f"Held-out addresses of enrolled presidents, whowrote:   {_share(result.ours)}.",
        f"Held-out addresses of enrolled presidents, n-gram SVM: {_share(result.svm)}.",
        _best(result),
        f"{result.outsider} is not enrolled: {result.none.right} of their {result.none.n} "
        "addresses are said to be by none of these. The SVM always names somebody.",
        f"Time {result.seconds['all']:.0f} s{used}.",
    ]


def _best(result: DemoResult) -> str:
    """Of the enrolled: how often the best candidate is right, and how many of these are refused."""
    right = [one for one in result.answers if one.enrolled and one.best == one.author]
    refused = sum(one.answer is None for one in right)
    return (
        f"The best candidate is right for {len(right)} of these {result.ours.n}; {refused} of them "
        "are refused, the price of naming few strangers."
    )


def _share(score: Score) -> str:
    low, high = score.interval.low, score.interval.high
    return f"{score.right} of {score.n} right (95 % interval {low:.0%} to {high:.0%})"


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
    with told_on_stderr(RecordWarning), machines_of(ray, gpus=on_gpus(device)) as machines:
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
