"""Figures 2 to 5 from records alone: what is computed elsewhere becomes lines and panels here.

Commands: ``whowrote experiment figure2``, ``... figure5``, each ``--from-records``. Seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from whowrote import plots
from whowrote.errors import InputError
from whowrote.experiments.dimensions import Dimensions, tails
from whowrote.experiments.pinwheel import read_panels
from whowrote.experiments.table1 import STUDENT, Table1


def figure2(record: Path) -> Any:
    """The four pinwheel panels of a stored fit."""
    return plots.scatter_panels(read_panels(record))


def figure3(table: Table1, methods: Sequence[str] | None = None) -> Any:
    """Error against training size, a line for every method."""
    lines = [
        plots.Curve(
            name,
            [100 * share for share in own],
            [100 * table.cells[name, share].mean for share in own],
            [100 * table.cells[name, share].spread for share in own],
        )
        for name in (table.methods if methods is None else methods)
        if (own := [share for share in table.sizes if (name, share) in table.cells])
    ]
    if not lines:
        raise InputError("the records have no fit to draw; run `whowrote experiment fit` first")
    return plots.labelled_curves(
        lines,
        title=f"Test error, {table.corpus}: mean and standard deviation over folds",
        x_label="share of the training texts, %",
        y_label="error, %",
    )


def figure4(found: Dimensions) -> Any:
    """Error against D, a panel for every size; the best D is filled."""
    panels = [
        plots.CurvePanel(
            f"{share:.0%} of the training texts",
            [_over_dimensions(found, method, share) for method in found.methods],
        )
        for share in found.sizes
    ]
    return plots.curve_panels(panels, x_label="latent dimension D", y_label="test error, %")


def _over_dimensions(found: Dimensions, method: str, share: float) -> plots.Curve:
    own = found.of(method, share)
    means = [100 * cell.mean for cell in own.values()]
    return plots.Curve(method, list(own), means, [100 * cell.spread for cell in own.values()])


def figure5(found: Dimensions) -> Any:
    """Degrees of freedom of all authors against D, a panel for every size."""
    panels = [
        plots.AuthorPanel(f"{share:.0%} of the training texts", nu)
        for share in found.sizes
        if (nu := tails(found, share))
    ]
    if not panels:
        raise InputError(f"the records have no degrees of freedom; fit {STUDENT!r} first")
    return plots.author_panels(
        panels, x_label="latent dimension D", y_label="degrees of freedom, every author"
    )


def save(figure: Any, out: Path, name: str) -> list[Path]:
    """Write a figure as PNG and as SVG."""
    return [plots.save(figure, out / f"{name}.{suffix}") for suffix in ("png", "svg")]
