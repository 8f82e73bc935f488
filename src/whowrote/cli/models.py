"""Commands about a model: ``train`` makes one, ``attribute`` and ``verify`` ask it.

``enroll`` adds authors to it, ``inspect`` says what it knows and what it is made of.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whowrote.cli.options import (
    PLAIN,
    AsJson,
    CorpusPath,
    Features,
    ModelPath,
    Normalise,
    Overwrite,
    Plots,
    Quiet,
    Reading,
    Seed,
    Verbose,
    between,
    corpus_options,
    say,
    told_on_stderr,
)
from whowrote.errors import CorpusWarning
from whowrote.formatting import (
    as_limit,
    as_prior,
    beside_limit,
    count,
    fine_percent,
    percent,
    quoted,
    screen,
    table,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from whowrote.attribution import Attribution
    from whowrote.attribution.jobs import EnrolledMore, Inspected, Trained, Verified
    from whowrote.ratios import Posterior


@corpus_options()
def train(
    corpus: CorpusPath,
    out: Annotated[
        Path | None, typer.Option(help="The model's folder; default: the corpus's name + .model.")
    ] = None,
    features: Features = "hybrid",
    weights: Annotated[
        Path | None,
        typer.Option(help="An extractor of your own, a file by `whowrote extractor train`."),
    ] = None,
    normalise: Normalise = "",
    seed: Seed = 0,
    reading: Reading = PLAIN,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Learn who writes how, from texts whose authors are known.

    A folder with a folder of texts for each author, or a table with the columns author and text. At
    least two authors, and two texts (or one long one) of each; five or more texts are better. The
    model is a folder; no training text is in it. A warning says where marks of typography alone
    name most authors, or most texts are not in English. --normalise quotes,case,... reads without
    them, questioned texts too.
    From 201 authors on it is a directory, searched instead of compared one by one.

    Example: `whowrote train letters/ --out letters.model`
    """
    from whowrote.attribution.jobs import train_model
    from whowrote.progress import stage_bars

    texts = reading.load(corpus)
    target = out or Path(f"{corpus.resolve().stem}.model")
    with stage_bars(not quiet):
        done = train_model(
            texts,
            target,
            features=features,
            weights=weights,
            normalise=[one.strip() for one in normalise.split(",") if one.strip()],
            seed=seed,
            overwrite=overwrite,
        )
    for warning in done.warnings:
        say(f"Warning: {warning}.", err=True)
    if as_json:
        say(json.dumps(done.to_dict(), ensure_ascii=False))
    elif not quiet:
        _show_trained(done, verbose)


def _show_trained(done: Trained, verbose: bool) -> None:
    right, texts = done.held_out.right, done.held_out.texts
    told = "No author has two texts: nothing was held out."
    if texts:
        told = (
            f"Held out, {right} of {texts} of these texts go to their author "
            f"({right / texts:.1%}); `whowrote evaluate` measures it properly."
        )
    say(
        f"{done.authors} authors, {done.texts} texts in {done.passages} passages, "
        f"{done.words} words.\n{told}"
    )
    if done.named is not None:
        say(
            f"Where 'none of these' may be said, {done.named:.0%} of them are given to their "
            f"author by name.{_cure(done.named)}"
        )
    if verbose:
        for name, seconds in done.seconds.items():
            say(f"  {seconds:8.1f} s  {name}")
    say(f"Model: {done.out} ({done.megabytes:.1f} MB, {sum(done.seconds.values()):.0f} s)")


def _cure(named: float) -> str:
    """What to do where most texts would be refused."""
    if named >= 0.5:
        return ""
    return (
        " Longer or more texts of each author help; `attribute --false-attributions 0.3` names "
        "more people, and more strangers."
    )


# -- whowrote attribute --------------------------------------------------------------------------

ANSWERS_SHOWN = 200  # of a table on screen; --json has them all
WIDEST = 10_000  # characters: how wide a table would like to be is asked without a window


@corpus_options(without=("author_column", "id_column", "group_column"))
def attribute(
    model: ModelPath,
    texts: Annotated[
        list[str], typer.Argument(help="Text files, folders or tables of texts; - is stdin.")
    ],
    top: Annotated[
        int, typer.Option(callback=between(1), help="Candidates shown for each text.")
    ] = 3,
    ratios: Annotated[
        bool, typer.Option("--ratios", help="Print likelihood ratios; one text has them anyhow.")
    ] = False,
    false_attributions: Annotated[
        float | None,
        typer.Option(
            help="Share of strangers' texts that may be given to somebody; 1: always name one. "
            "[default: the model's, 0.05]"
        ),
    ] = None,
    none_below: Annotated[
        float | None,
        typer.Option(help="Say 'none of these' also below this typicality."),
    ] = None,
    reading: Reading = PLAIN,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Say who wrote texts: the best author with a probability, or none of these.

    The probability is that of an author given that one of the enrolled wrote the text. The share
    of strangers says how many texts by people who are not enrolled look as much like one who is: as
    simulated with each author left out in turn; where it is above 5 %, the answer is "none of
    these". The typicality says how often a text of the best author is as little like their others
    as this one; of a model of more than some 24,000 texts it decides, below 2 %. The
    likelihood ratio weighs one enrolled author against the others. --json prints one object a line.

    Example: `whowrote attribute letters.model unknown.txt`
    """
    from whowrote.attribution.jobs import open_any, questioned
    from whowrote.progress import stage_bars

    with told_on_stderr(CorpusWarning):
        form = {"format": reading.format, "text_column": reading.text_column}
        corpus = questioned(texts, sys.stdin, **form)
    opened = open_any(model, none_below, false_attributions)
    with stage_bars(not quiet):
        answers = opened.attribute(corpus)
    if as_json:
        for answer in answers:
            say(answer.to_json())
    else:
        _show_answers(answers, top, ratios or len(answers) == 1)


def _show_answers(answers: Sequence[Attribution], top: int, ratios: bool) -> None:
    console = screen()
    made = _answer_table(answers, top)
    wide = console.measure(made, options=console.options.update_width(WIDEST)).maximum
    console.print(made if wide <= console.width else _answer_table(answers, 0))
    for answer in () if wide <= console.width else answers[:ANSWERS_SHOWN]:
        line = f"{answer.document}: {_candidates(answer, top)}"
        console.print(line, highlight=False, markup=False)
    for answer in answers[:ANSWERS_SHOWN]:
        for warning in answer.warnings:
            console.print(f"{answer.document}: {warning}", style="yellow", markup=False)
        for line in _ratio_lines(answer, top) if ratios else ():
            console.print(line, highlight=False, markup=False)
    if len(answers) > ANSWERS_SHOWN:
        console.print(f"... and {len(answers) - ANSWERS_SHOWN} more texts (--json has all)")
    none = sum(answer.author is None for answer in answers)
    rules = " or ".join(dict.fromkeys(map(_rule, answers)))
    many = " `whowrote inspect` says how many of their own texts that costs."
    console.print(
        f"{count(len(answers), 'text')}, {none} by none of the {answers[0].model.authors} enrolled "
        f"authors ({rules}).{many if 2 * none > len(answers) else ''} A probability is "
        "no proof.",
        highlight=False,
    )


def _ratio_lines(answer: Attribution, top: int) -> list[str]:
    """The ratio of each candidate shown, never without what it weighs and among whom."""
    from whowrote.ratios import as_ratio

    listed = ", ".join(f"{one.author} {as_ratio(one.log10_lr)}" for one in answer.ranking[:top])
    first, second = answer.propositions
    return [
        f"{answer.document}: likelihood ratios {listed}. Weighed: a candidate wrote the text; "
        f"against: {second}. Population: {answer.population}.",
        f"{answer.document}: {answer.in_words}. If it was one of them, from prior to posterior "
        f"that {first}: {_posteriors(answer.posteriors)}.",
    ]


def _rule(answer: Attribution) -> str:
    """When nobody is named."""
    if answer.false_attributions is None:
        return f"typicality below {as_limit(answer.none_below)}"
    return f"strangers above {as_limit(answer.false_attributions)}"


def _candidates(answer: Attribution, top: int) -> str:
    return ", ".join(f"{one.author} {percent(one.probability)}" for one in answer.ranking[:top])


def _stranger(answer: Attribution) -> str:
    """The share of strangers, told apart from the limit; unknown of somebody enrolled later."""
    share, limit = answer.stranger, answer.false_attributions
    return "-" if share is None or limit is None else beside_limit(share, limit)


def _typicality(answer: Attribution) -> str:
    if answer.none_below is None:
        return fine_percent(answer.typicality)
    return beside_limit(answer.typicality, answer.none_below)


def _answer_table(answers: Sequence[Attribution], top: int) -> Table:
    """A row per text; with a ``top`` of nought without candidates, for a narrow window."""
    from rich.markup import escape

    look = {"pad_edge": False, "padding": (0, 2, 0, 0), "header_style": "bold underline"}
    known = any(answer.stranger is not None for answer in answers)
    figures = [">strangers"] if known else []
    last = ["candidates"] if top else []
    made = table("", "text", "answer", ">tokens", *figures, ">typicality", *last, **look)
    for answer in answers[:ANSWERS_SHOWN]:
        made.add_row(
            escape(answer.document),
            "[bold]none of these[/bold]" if answer.author is None else escape(answer.author),
            str(answer.tokens),
            *([_stranger(answer)] if known else []),
            _typicality(answer),
            *([escape(_candidates(answer, top))] if top else []),
        )
    return made


# -- whowrote verify -----------------------------------------------------------------------------


def verify(
    texts: Annotated[
        list[str], typer.Argument(help="Two text files, or one with --known; - is standard input.")
    ],
    model: Annotated[
        Path | None,
        typer.Option(help="A model whose authors are the reference; it may also come first."),
    ] = None,
    known: Annotated[
        str | None, typer.Option(help="A folder, table or file of texts known to be by one person.")
    ] = None,
    prior: Annotated[
        float | None,
        typer.Option(help="Probability of one author beforehand; without it there is none after."),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compare texts: how much likelier are they so alike if one person wrote them all.

    The answer is a likelihood ratio against two different people of a named population: the one
    that comes with the package, moved by the authors of a model if one is given. It knows how long
    both sides are, and is near 1 for a few words. It is put into the words of the ENFSI scale, and
    a table says what it makes of probabilities beforehand. Exit status 0 if the ratio is above 1,
    for one author, and 1 if it is below.

    Example: `whowrote verify one.txt other.txt`

    Example: `whowrote verify --known their_letters/ new.txt`
    """
    from whowrote.attribution.jobs import verify_texts

    with told_on_stderr(CorpusWarning):
        found = verify_texts(texts, sys.stdin, model=model, known=known, prior=prior)
    folders = sorted({str(Path(text).parent) for text in found.first})
    if len(folders) > 1:  # likely by several people
        told = f"lie in {len(folders)} folders ({quoted(folders, most=5)}) and"
        say(f"whowrote: the known texts {told} count as one person's: give one folder", err=True)
    if as_json:
        say(json.dumps(found.to_dict(), ensure_ascii=False))
    elif not quiet:
        _show_comparison(found)
    if found.comparison.log10_lr <= 0:
        raise typer.Exit(1)


def _show_comparison(found: Verified) -> None:
    told = found.comparison
    likeness = ", ".join(f"{name} {value:.3f}" for name, value in told.similarities.items())
    bound = ", the most that so few people can support" if told.limited else ""
    for warning in told.warnings:
        say(warning)
    say(
        f"log10 likelihood ratio {told.log10_lr:+.2f} (95 % interval {told.low:+.2f} to "
        f"{told.high:+.2f}): {told.in_words}{bound}.\n"
        f"Weighed: {told.propositions[0]}; against: {told.propositions[1]}.\n"
        f"Population: {told.population.description}.\n"
        f"Words: {told.words[0]:,} and {told.words[1]:,}. Cosines: {likeness}.\n"
        f"From prior to posterior: {_posteriors(told.posteriors)}."
    )
    if told.prior is not None and told.probability is not None:
        say(
            f"With a probability of {percent(told.prior)} beforehand, that of one author is "
            f"{percent(told.probability)}."
        )


def _posteriors(rows: Sequence[Posterior]) -> str:
    """What a ratio makes of each prior."""
    return ", ".join(f"{as_prior(one.prior)} to {fine_percent(one.posterior)}" for one in rows)


# -- whowrote enroll -----------------------------------------------------------------------------


@corpus_options(without=("group_column",))
def enroll(
    model: ModelPath,
    corpus: CorpusPath,
    out: Annotated[Path, typer.Option(help="The folder of the new model.")],
    reading: Reading = PLAIN,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Add authors to a model: its networks stay as they are, its mixture grows.

    Takes seconds instead of minutes, and tells new authors less well than a model that was trained
    on all texts; train anew when an author matters.

    Example: `whowrote enroll letters.model more_letters/ --out more.model`
    """
    from whowrote.attribution.jobs import enroll_model
    from whowrote.progress import stage_bars

    texts = reading.load(corpus)
    with stage_bars(not quiet):
        done = enroll_model(model, texts, out, overwrite=overwrite)
    if as_json:
        say(json.dumps(done.to_dict(), ensure_ascii=False))
    elif not quiet:
        _show_enrolled(done)


def _show_enrolled(done: EnrolledMore) -> None:
    names = ", ".join(f"{author.name} ({count(author.texts, 'text')})" for author in done.new)
    say(
        f"New: {names}.\nOf the texts just enrolled, {done.own_texts_right} of "
        f"{done.own_texts} go to their author (learnt from, so flattered).\nModel: {done.out}"
    )


# -- whowrote inspect ----------------------------------------------------------------------------

AUTHORS_SHOWN = 40  # of a table on screen; --json has them all


def inspect(
    model: ModelPath,
    plots: Plots = None,
    as_json: AsJson = False,
) -> None:
    """Show the authors of a model, their tails, its parts and their sizes, and where it comes from.

    With --plots: a map of the authors, a tree of who writes like whom, and the tails.

    Example: `whowrote inspect letters.model --plots figures/`
    """
    from whowrote.attribution.jobs import inspect_model

    found = inspect_model(model)
    if as_json:
        say(json.dumps(found.to_dict(), ensure_ascii=False))
    else:
        _show_model(found)
    if plots is not None:
        for path in _draw(model, plots):
            say(f"Plot: {path}", err=as_json)


def _show_model(found: Inspected) -> None:
    console = screen()
    console.print(_authors(found))
    console.print(_parts(found))
    for line in _lines(found):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _authors(found: Inspected) -> Table:
    from rich.markup import escape

    tails, authors = found.degrees_of_freedom, found.authors
    columns = ("author", ">texts", ">passages", ">words", *([">nu"] if tails else []))
    made = table(f"{len(authors)} authors", *columns)
    for place, author in enumerate(authors[:AUTHORS_SHOWN]):
        numbers = (author.texts, author.passages, author.words)
        own = [f"{tails[place]:.1f}"] if tails else []
        made.add_row(escape(author.name), *map(str, numbers), *own)
    if len(authors) > AUTHORS_SHOWN:
        made.add_row(f"... and {len(authors) - AUTHORS_SHOWN} more (--json has all)")
    return made


def _parts(found: Inspected) -> Table:
    total = sum(found.bytes.values())
    made = table(f"{total / 1e6:.1f} MB", "part", ">MB", ">share")
    for name, size in found.bytes.items():
        made.add_row(name, f"{size / 1e6:.2f}", f"{size / total:.0%}")
    return made


def _features(found: Inspected) -> str:
    """Their kind; of a style extractor also the size and the hash of its weights."""
    from whowrote.features.fitted_features import WEIGHTS_ID

    dense = found.features.get("dense", found.features)
    if dense["kind"] != "style":
        return str(found.features["kind"])
    return f"{found.features['kind']} (style, {dense['size']}, weights {dense[WEIGHTS_ID][:12]})"


def _lines(found: Inspected) -> list[str]:
    held_out, pooling = found.held_out, found.calibration
    lines = [
        f"model {found.id[:16]}, whowrote {found.version}, features {_features(found)}, "
        f"{found.component} mixture, {found.latent_dim} latent dimensions, "
        f"{count(found.members, 'member')}",
        f"held out, {held_out.right} of {held_out.texts} training texts go to their author",
        f"passages of {found.settings['passage_words']} words; temperature "
        f"{pooling['temperature']:.2f}, exponent {pooling['exponent']:.2f}; "
        f"{found.none_of_these}; {found.settings['prior']} prior",
    ]
    if found.verification and "pairs" in found.verification:
        lines.append(
            f"verification: {found.verification['pairs']} pairs, AUC "
            f"{found.verification['auc']:.3f}"
        )
    elif found.verification:
        authors = found.verification["authors"]
        lines.append(f"verification: the packaged population, centred by {authors} authors")
    if found.card:
        about = ", ".join(f"{name} {value}" for name, value in found.card.items())
        lines.append(f"extractor: {about} (terms: docs/model_card.md)")
    return lines


def _draw(model: Path, folder: Path) -> list[Path]:
    from whowrote.attribution.jobs import open_model
    from whowrote.plots import save_all
    from whowrote.plots.latent import author_pictures

    return save_all(author_pictures(open_model(model)), folder)
