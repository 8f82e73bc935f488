"""Fill docs/published.md from records and draw its figures, so that no number was typed by hand.

Command:  python experiments/published/page.py     (needs no GPU; seconds)
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from whowrote import plots
from whowrote.files import write_text
from whowrote_experiments import claims, figures
from whowrote_experiments.commands import RECORDS
from whowrote_experiments.dimensions import Dimensions, dimensions
from whowrote_experiments.page import MISSING, as_table, fill
from whowrote_experiments.paired import Paired
from whowrote_experiments.table1 import (
    EXTENDED,
    FOUR,
    FREE_TAILS,
    KERNEL,
    LINEAR,
    PUBLISHED,
    READINGS,
    SIZES,
    STUDENT,
    Table1,
    table1,
    title,
)
from whowrote_experiments.trials import Trials, joined, read

ROOT = Path(__file__).parents[2]
CHANGES = ROOT / "experiments" / "results" / "changes"
CLAIMS = ("a", "extension", "b", "c", "d", "tails")
ALL_FIVE = "D = 50, all five"
ALL_BUT_MEMBERS = "D = 50, all but eight members"
ENDS = (SIZES[0], SIZES[-1])
"""The sizes at which every reading of the published text was fitted."""
SAME_VECTORS = tuple(dict.fromkeys((*FOUR, *EXTENDED, *READINGS, *READINGS.values())))


def published_table() -> str:
    """The published figures."""
    rows = [
        [name, *(f"{mean:.2f} ± {sd:.2f}" for mean, sd in figures)]
        for name, figures in PUBLISHED.items()
    ]
    return as_table(["published, error in %", *(f"{share:.0%}" for share in SIZES)], rows)


def our_table(table: Table1) -> str:
    """Our figures; the lowest error on the same vectors is bold."""
    rows = [
        [title(method), *(_cell(table, method, s) for s in table.sizes)] for method in table.methods
    ]
    head = [f"{table.corpus}, error in %", *(f"{share:.0%}" for share in table.sizes)]
    return f"{as_table(head, rows)}\n\n{table.coverage} stand behind it."


def _cell(table: Table1, method: str, share: float) -> str:
    rivals = [name for name in SAME_VECTORS if (name, share) in table.cells]
    text = _figures(table, method, share)
    return f"**{text}**" if method in rivals and table.best(share, rivals) == method else text


def _figures(table: Table1, method: str, share: float) -> str:
    cell = table.cells.get((method, share))
    return "-" if cell is None else f"{100 * cell.mean:.2f} ± {100 * cell.spread:.2f}"


def paired_tests(table: Table1) -> str:
    """Differences in points with p-values, of both Student-t methods against all others."""
    parts = []
    for method in (STUDENT, EXTENDED[0]):
        found = {(one.second, one.share): one.test for one in table.against(method)}
        others = [name for name in table.methods if any((name, s) in found for s in table.sizes)]
        rows = [
            [title(other), *(_difference(found.get((other, share))) for share in table.sizes)]
            for other in others
        ]
        if rows:
            head = [f"{title(method)} minus", *(f"{share:.0%}" for share in table.sizes)]
            parts.append(as_table(head, rows))
    return "\n\n".join(parts) or MISSING


def _difference(test: Paired | None) -> str:
    return f"{100 * test.difference:+.2f} ({test.p:.2f})" if test else "-"


def readings_verdicts(own: Trials) -> str:
    """What every reading of the published text does to the claims, at both ends of the table.

    Each is judged against its Gaussian counterpart and both SVMs; the first records beside them.
    """
    first = {STUDENT: next(iter(READINGS.values()))}
    parts = []
    for name, rival in {**READINGS, **first}.items():
        lines = (f"- ({claim}) {verdict}" for claim, verdict in _verdicts_of(own, name, rival))
        parts.append("\n".join([f"*{title(name)}*", "", *lines]))
    return "\n\n".join(parts)


def _verdicts_of(own: Trials, name: str, rival: str) -> list[tuple[str, claims.Verdict | str]]:
    """The four claims of one reading, at 20 and 100 % or where it was fitted."""
    rivals = (rival, LINEAR, KERNEL)
    sizes = {row.share for row in own.rows if row.method == name and row.share in ENDS}
    if not sizes:
        return [(claim, MISSING) for claim in "abcd"]
    kept = own.only((name, *rivals), sizes)
    table, found = table1(kept), dimensions(kept, [name])
    return [
        ("a", claims.lowest_error(table, name, rivals)),
        ("b", claims.falls_with_data(table, (name, *rivals))),
        ("c", claims.dimension_grows(found, name)),
        ("d", claims.tails_get_heavier(found)),
    ]


def readings_paired(own: Trials) -> str:
    """Each reading minus its Gaussian counterpart and the SVMs, fold by fold."""
    table = table1(own.only((*READINGS, *READINGS.values(), *FOUR), ENDS))
    rows = []
    for name, rival in READINGS.items():
        found = {(one.second, one.share): one.test for one in table.against(name)}
        others = (rival, STUDENT, LINEAR, KERNEL)
        cells = [_difference(found.get((other, s))) for other in others for s in ENDS]
        rows.append([name, *cells])
    names = ("its Gaussian", "linear nu", "linear SVM", "RBF SVM")
    head = ["minus", *(f"{name}, {share:.0%}" for name in names for share in ENDS)]
    return as_table(head, rows)


def changes_table(changes: Trials, own: Trials) -> str:
    """The extension cut into its changes, and the difference from none and from all of them."""
    every = joined([changes, _lone(changes), own.only((KERNEL, EXTENDED[0]), ENDS)])
    table, first = table1(every), changes.methods[0]
    rows = []
    for name in (*changes.methods, ALL_BUT_MEMBERS, EXTENDED[0], KERNEL):
        found = {(one.second, one.share): one.test for one in table.against(name)}
        shown = [_figures(table, name, share) for share in ENDS]
        pairs = [(other, share) for other in (first, ALL_FIVE) for share in ENDS]
        rows.append([name, *shown, *(_difference(found.get(pair)) for pair in pairs)])
    head = ["blog30, error in %", *(f"{share:.0%}" for share in ENDS)]
    head += [f"minus {which}, {share:.0%}" for which in ("none", "all five") for share in ENDS]
    return f"{as_table(head, rows)}\n\n{changes.coverage()} stand behind the changes."


def _lone(changes: Trials) -> Trials:
    """The lone fits of all five changes: all but the eight members."""
    lone = (row for row in changes.rows if "n_members" not in row.configuration)
    named = (replace(row, method=ALL_BUT_MEMBERS) for row in lone if row.method == ALL_FIVE)
    return Trials(tuple(named))


def verdicts(table: Table1, found: Dimensions, free: Dimensions | None) -> dict[str, str]:
    """What the records of a corpus say of each claim; ``free`` are fits with free tails."""
    made = (
        claims.lowest_error(table),
        claims.extension(table),
        claims.falls_with_data(table),
        claims.dimension_grows(found),
        claims.tails_get_heavier(found),
        MISSING if free is None else claims.tails_get_heavier(free),
    )
    return {f"claim-{name}": str(one) for name, one in zip(CLAIMS, made, strict=True)}


def sections(
    trials: Trials | None, pinwheel: dict[str, Any] | None, changes: Trials | None = None
) -> dict[str, str]:
    """Every section of the page; what has no records yet says so."""
    corpora = {row.corpus for row in trials.rows} if trials else set()
    made = {"published": published_table(), "table1": MISSING, "paired": MISSING, "music": MISSING}
    made |= dict.fromkeys(("readings", "readings-paired", "changes"), MISSING)
    made |= {f"claim-{name}": MISSING for name in CLAIMS}
    made["claim-e"] = str(claims.clusters_stay_apart(pinwheel))
    made["figures"] = MISSING
    if trials and "blog30" in corpora:
        own = trials.of("blog30")
        table = table1(own)
        made |= {"table1": our_table(table), "paired": paired_tests(table)}
        made |= verdicts(table, dimensions(own), _free_tails(own))
        if set(READINGS) & set(own.methods):
            made |= {"readings": readings_verdicts(own), "readings-paired": readings_paired(own)}
        if changes:
            made["changes"] = changes_table(changes, own)
        made["figures"] = "\n\n".join(
            f"![{title}](figure{number}.png)"
            for number, title in (
                (3, "Figure 3: error against training size"),
                (4, "Figure 4: error against D for each size; the lowest of a line is filled"),
                (5, "Figure 5: degrees of freedom of the authors against D, with quartiles"),
            )
        )
        if _free_tails(own):
            made["figures"] += "\n\n![Figure 5 with free tails](figure5_free_tails.png)"
    if trials and "amazon_music" in corpora:
        made["music"] = our_table(table1(trials.of("amazon_music")))
    return made


def _free_tails(trials: Trials) -> Dimensions | None:
    return dimensions(trials, [FREE_TAILS]) if FREE_TAILS in trials.methods else None


def draw(trials: Trials, out: Path) -> None:
    """Figures 3 to 5."""
    own = trials.of("blog30")
    found = dimensions(own)
    plots.save_all(
        {
            "figure3": figures.figure3(table1(own)),
            "figure4": figures.figure4(found),
            "figure5": figures.figure5(found),
        },
        out,
    )
    if free := _free_tails(own):
        plots.save_all({"figure5_free_tails": figures.figure5(free)}, out)


def _read(folder: Path) -> Trials | None:
    return read(folder) if any(folder.glob("**/*.parquet")) else None


def main() -> None:
    """Read the records, fill the page, draw the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=Path, default=ROOT / RECORDS)
    parser.add_argument("--changes", type=Path, default=CHANGES)
    parser.add_argument("--pinwheel", type=Path, default=ROOT / "experiments/results/pinwheel.json")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "published.md")
    parser.add_argument("--figures", type=Path, help="folder; that of the page if not given")
    given = parser.parse_args()
    trials, changes = _read(given.records), _read(given.changes)
    pinwheel = json.loads(given.pinwheel.read_text()) if given.pinwheel.is_file() else None
    page = given.page.read_text(encoding="utf-8")
    write_text(given.page, fill(page, sections(trials, pinwheel, changes)))
    if trials and any(row.corpus == "blog30" for row in trials.rows):
        draw(trials, given.figures or given.page.parent)


if __name__ == "__main__":
    main()
