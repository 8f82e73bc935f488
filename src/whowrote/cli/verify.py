"""``whowrote verify``: whether one person wrote both texts."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from whowrote.cli.options import AsJson, ModelPath, Quiet


def verify(
    model: ModelPath,
    first: Annotated[str, typer.Argument(help="A text file; - is standard input.")],
    second: Annotated[str, typer.Argument(help="Another text file.")],
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compare two texts: how much likelier is their likeness if one person wrote both.

    The authors need not be enrolled. The answer is a likelihood ratio from a curve that was learnt
    on pairs of the model's training texts, so it holds for texts of that kind. Exit status 0 if the
    likeness speaks for one author, 1 if it speaks for two.

    Example: `whowrote verify letters.model one.txt other.txt`
    """
    from whowrote.attribution.jobs import verify_texts

    found = verify_texts(model, first, second, sys.stdin)
    verdict = found.verdict
    if as_json:
        typer.echo(json.dumps(found.to_dict(), ensure_ascii=False))
    elif not quiet:
        likeness = ", ".join(f"{name} {value:.3f}" for name, value in verdict.similarities.items())
        side = "one author" if verdict.log10_lr > 0 else "two authors"
        typer.echo(
            f"log10 likelihood ratio {verdict.log10_lr:+.2f}: speaks for {side}.\n"
            f"At even odds beforehand, one author wrote both with {verdict.probability:.0%}.\n"
            f"Cosines: {likeness}. Curve from {found.pairs} pairs of training texts, AUC "
            f"{found.auc:.3f}."
        )
    if verdict.log10_lr <= 0:
        raise typer.Exit(1)
