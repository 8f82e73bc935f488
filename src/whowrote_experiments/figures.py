"""Figures 2 to 5 from records alone: what is computed elsewhere becomes lines and panels here.

Commands: ``whowrote experiment figure2`` to ``... figure5``. Seconds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from whowrote import plots
from whowrote.errors import InputError
from whowrote_experiments.dimensions import Dimensions, tails
from whowrote_experiments.pinwheel import read_panels
from whowrote_experiments.table1 import EXTENDED, FOUR, KERNEL, LINEAR, STUDENT, Table1


def figure2(record: Path) -> Any:
    """The four pinwheel panels of a stored fit."""
    return plots.scatter_panels(read_panels(record))


def figure3(table: Table1) -> Any:
    """Error against training size: the published methods, and the declared extension beside them.

    All methods here read the same vectors; what reads the texts themselves is in the table.
    """
    groups = {
        f"{table.corpus}: the published methods": FOUR,
        "the declared extension": (*EXTENDED, LINEAR, KERNEL),
    }
    panels = [
        plots.CurvePanel(title, lines)
        for title, names in groups.items()
        if (lines := [_over_sizes(table, name) for name in names if name in table.methods])
        and set(names[:2]) & set(table.methods)
    ]
    if not panels:
        raise InputError("the records have no fit to draw; run `whowrote experiment fit` first")
    return plots.labelled_curves(
        panels, x_label="share of the training texts, %", y_label="test error, %"
    )


def _over_sizes(table: Table1, name: str) -> plots.Curve:
    own = [share for share in table.sizes if (name, share) in table.cells]
    found = [table.cells[name, share] for share in own]
    x, means = [100 * share for share in own], [100 * cell.mean for cell in found]
    return plots.Curve(name, x, means, [100 * cell.spread for cell in found])


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
        raise InputError(
            f"{found.methods[0]!r} has no degrees of freedom in the records; fit {STUDENT!r} first"
        )
    return plots.author_panels(
        panels, x_label="latent dimension D", y_label="degrees of freedom, every author"
    )
