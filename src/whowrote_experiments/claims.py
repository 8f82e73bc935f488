"""Every claim of the published evaluation, with a yes or a no and the numbers behind it.

(a) Student-t has the lowest error at every size. (b) Errors fall with more data. (c) The best D
grows with the training size. (d) Tails get heavier as D grows. (e) Clusters stay apart in the
pinwheel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from whowrote_experiments.dimensions import Dimensions, tails
from whowrote_experiments.page import MISSING
from whowrote_experiments.table1 import EXTENDED, FOUR, KERNEL, LINEAR, STUDENT, Table1, title

APART = 0.995  # share of points in their own arm, on the worst draw


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds here, and why we say so; None where it cannot be said yet."""

    claim: str
    holds: bool | None
    why: str

    def __str__(self) -> str:
        if self.holds is None:
            return f"{MISSING} {self.why}".strip()
        return f"**{'Yes' if self.holds else 'No'}.** {self.why}"


def lowest_error(table: Table1, ours: str = STUDENT, rivals: Sequence[str] = FOUR[1:]) -> Verdict:
    """(a): our method has the lowest mean error of all at every size."""
    claim, parts, wins = f"{ours} has the lowest error at every size", [], 0
    for share in table.sizes:
        best = table.best(share, [ours, *rivals])
        if best is None:
            return Verdict(claim, None, f"Not all methods are there at {share:.0%}.")
        wins += best == ours
        parts.append(f"{share:.0%}: {_lead(table, ours, rivals, share)}")
    head = f"Lowest at {wins} of {len(table.sizes)} sizes. "
    return Verdict(claim, wins == len(table.sizes), head + "; ".join(parts) + ".")


def _lead(table: Table1, ours: str, rivals: Sequence[str], share: float) -> str:
    """How far ahead of (or behind) the best other method, and how sure that is."""
    nearest = min(rivals, key=lambda name: table.cells[name, share].mean)
    lead = 100 * (table.cells[nearest, share].mean - table.cells[ours, share].mean)
    side = "ahead of" if lead > 0 else "behind"
    tests = [t.test for t in table.against(ours) if (t.second, t.share) == (nearest, share)]
    sure = f" (p = {tests[0].p:.2f})" if tests else ""
    return f"{abs(lead):.2f} points {side} {title(nearest)}{sure}"


def extension(table: Table1) -> Verdict:
    """(a) again, in the declared extension: against the other family and both SVMs."""
    return lowest_error(table, EXTENDED[0], (EXTENDED[1], LINEAR, KERNEL))


def falls_with_data(table: Table1, methods: Sequence[str] = FOUR) -> Verdict:
    """(b): every method's mean error falls from each size to the next."""
    claim = "errors fall with more data"
    names = [name for name in methods if all((name, s) in table.cells for s in table.sizes)]
    if len(names) < len(methods) or len(table.sizes) < 2:
        return Verdict(claim, None, "Not all methods are there at all sizes.")
    runs = {name: [100 * table.cells[name, s].mean for s in table.sizes] for name in names}
    rises = [
        f"{title(name)} from {smaller:.0%} to {larger:.0%} by {after - before:.2f}"
        for name, own in runs.items()
        for (smaller, larger), (before, after) in zip(
            pairwise(table.sizes), pairwise(own), strict=True
        )
        if after >= before
    ]
    parts = [f"{title(name)} {own[0]:.1f} to {own[-1]:.1f} %" for name, own in runs.items()]
    steps = len(names) * (len(table.sizes) - 1)
    head = f"{steps - len(rises)} of {steps} steps fall"
    head += f" (not: {'; '.join(rises)} points). " if rises else ". "
    return Verdict(claim, not rises, head + "; ".join(parts) + ".")


def dimension_grows(found: Dimensions, method: str = STUDENT) -> Verdict:
    """(c): the D with the lowest error never falls with the size, and ends above its start."""
    claim = "the best D grows with the training size"
    if method not in found.methods or len(found.sizes) < 2:
        return Verdict(claim, None, "There is one size only.")
    best = {share: found.best(method, share) for share in found.sizes}
    steps = list(best.values())
    holds = steps == sorted(steps) and steps[-1] > steps[0]
    parts = [
        f"{share:.0%}: D = {d} (folds choose {', '.join(map(str, found.chosen(method, share)))})"
        for share, d in best.items()
    ]
    return Verdict(claim, holds, "; ".join(parts) + ".")


def tails_get_heavier(found: Dimensions) -> Verdict:
    """(d): at every size the median nu falls from each D to the next larger one."""
    claim = "tails get heavier as D grows"
    runs = {
        share: {d: float(np.median(nu)) for d, nu in tails(found, share).items()}
        for share in found.sizes
    }
    if not runs or any(len(own) < 2 for own in runs.values()):
        return Verdict(claim, None, "There is one D only.")
    falling = [
        all(after < before for before, after in pairwise(own.values())) for own in runs.values()
    ]
    parts = [
        f"{share:.0%}: median nu " + ", ".join(f"{nu:.2f} (D = {d})" for d, nu in own.items())
        for share, own in runs.items()
    ]
    head = f"Falling throughout at {sum(falling)} of {len(runs)} sizes. "
    return Verdict(claim, all(falling), head + "; ".join(parts) + ".")


def clusters_stay_apart(record: Mapping[str, Any] | None) -> Verdict:
    """(e): on the worst draw of the pinwheel nearly every point is in its own arm."""
    claim = "clusters stay apart in the pinwheel"
    if record is None:
        return Verdict(claim, None, "")
    own, draws = record["summary"]["student-t VAE"], len(record["trials"])
    why = f"{own['mean']:.2%} of the points in their arm on average, {own['worst']:.2%} on the "
    why += f"worst of {draws} draws (plain Gaussian mixture: "
    why += f"{record['summary']['gaussian mixture']['worst']:.2%})."
    return Verdict(claim, own["worst"] >= APART, why)
