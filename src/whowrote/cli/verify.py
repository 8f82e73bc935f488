"""``whowrote verify``: whether one person wrote both texts."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from whowrote.cli.options import AsJson, ModelPath, Quiet, told_on_stderr


def verify(
    model: ModelPath,
    first: Annotated[str, typer.Argument(help="A text file; - is standard input.")],
    second: Annotated[str, typer.Argument(help="Another text file.")],
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compare two texts: how much likelier is their likeness if one person wrote both.

    The authors need not be enrolled. The answer is a likelihood ratio from a curve that was learnt
    on pairs of the model's training texts, so it holds for texts of that kind. A ratio below 2 to 1
    says little either way, below 10 it speaks weakly, below 100 moderately, above strongly. Exit
    status 0 if the ratio is above 1, for one author, and 1 if it is below.

    Example: `whowrote verify letters.model one.txt other.txt`
    """
    from whowrote.attribution.jobs import verify_texts
    from whowrote.numbers import percent

    with told_on_stderr():
        found = verify_texts(model, first, second, sys.stdin)
    verdict = found.verdict
    if as_json:
        typer.echo(json.dumps(found.to_dict(), ensure_ascii=False))
    elif not quiet:
        likeness = ", ".join(f"{name} {value:.3f}" for name, value in verdict.similarities.items())
        bound = ", the most that so few training texts can support" if verdict.limited else ""
        for warning in verdict.warnings:
            typer.echo(warning)
        typer.echo(
            f"log10 likelihood ratio {verdict.log10_lr:+.2f}: {verdict.in_words}{bound}.\n"
            "At even odds beforehand, the probability of one author is "
            f"{percent(verdict.probability)}.\n"
            f"Cosines: {likeness}. Curve from {found.pairs} pairs of training texts, AUC "
            f"{found.auc:.3f}."
        )
    if verdict.log10_lr <= 0:
        raise typer.Exit(1)
