"""The report of a case: one HTML page that stands alone, and the same as JSON.

Findings go in. Page one says what was asked, what was found and what was not. Everything written is
escaped, the page forbids itself to load anything, figures are in it as data, and the same findings
give the same bytes.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from statistics import median_low
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, StrictUndefined

from whowrote.case.exhibits import FINDINGS, Case, problems
from whowrote.case.findings import RATIO, interval_in_words
from whowrote.errors import InputError
from whowrote.formatting import as_prior, count, fine_percent, percent
from whowrote.plots import RatioRow, calibration_plot, ratio_rows, reliability_diagram, svg
from whowrote.plots.quality import tippett_plot
from whowrote.ratios import SCALE, as_ratio, strength

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGE, DATA = "report.html", "report.json"
ROWS_ON_PAGE_ONE = 24
ROWS_A_FIGURE = 36
"""More rows of one figure would not fit a printed page."""
LICENCES = {
    "ngrams": "No weights: n-grams are counted in the texts of the case.",
    "adhominem": "Weights of the packaged extractor: terms and data in docs/model_card.md.",
    "style": "Weights changed from all-MiniLM-L6-v2, Apache License 2.0: docs/model_card.md.",
}
LICENCES["hybrid"] = LICENCES["adhominem"]
LIMITS = (
    "A likelihood ratio weighs two propositions about likeness of style. It is not the "
    "probability that somebody wrote the text: that also depends on everything else that is known.",
    "It holds for texts like those it was measured on: their language, kind, time and topics. "
    "Known texts on other topics than the questioned one, or of another kind, may mislead.",
    "Somebody who hides their style, imitates another's, or has a text rewritten, by a person or "
    "by a program, is not found by it.",
    "Who is not among the candidates or the reference people can only be missed: a ratio above 1 "
    "for one candidate does not exclude everybody else.",
    "The interval is that of other samples of the population; a wrong population is not in it.",
)


def write_report(case: Case) -> tuple[Path, Path]:
    """Write the page and its data, each whole or not at all, and log both hashes."""
    if case.log.last("findings") is None:
        raise InputError(f"'{case.folder}' has no findings yet: `whowrote case run` makes them")
    wrong = [one for one in problems(case.folder) if not one.startswith((PAGE, DATA))]
    if wrong:
        raise InputError(f"{wrong[0]}; a report needs sound findings: `whowrote case replay`")
    data = contents(case, json.loads(case.written("findings", FINDINGS)))
    plain = json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    case.write("report", {PAGE: render(data), DATA: plain})
    return case.folder / PAGE, case.folder / DATA


def contents(case: Case, found: Mapping[str, Any]) -> dict[str, Any]:
    """What the page says, as plain values."""
    entry = case.log.last("findings")
    assert entry is not None  # for the type checker: write_report has looked
    dense = found["calibration"]["features"]
    return {
        **{name: found[name] for name in ("question", "texts", "findings", "versions")},
        "audit": _audit(found["audit"]),
        "validation": {
            **found["validation"],
            "ratios": [_without(one, "log10_lr", "same") for one in found["validation"]["ratios"]],
            "answers": [
                _without(one, "confidence", "right") for one in found["validation"]["answers"]
            ],
        },
        "calibration": found["calibration"],
        "candidates": list(case.candidates),
        "limits": list(LIMITS),
        "licence": LICENCES.get(dense, LICENCES["adhominem"]),
        "log": [
            {"number": one.number, "time": one.time, "action": one.action, "hash": one.hash}
            for one in case.log.entries[: entry.number]
        ],
        "findings_sha256": entry.details["sha256"][FINDINGS],
        "figures": _figures(found),
    }


def _without(plain: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in plain.items() if name not in names}


def _audit(found: Mapping[str, Any]) -> dict[str, Any]:
    near = found["near_duplicates"] or []
    return {
        "documents": found["documents"],
        "words": found["words"],
        "authors": found["authors"],
        "languages": found["languages"]["texts"],
        "duplicates": [one["documents"] for one in (*found["exact_duplicates"], *near)],
        "thin": [one["author"] for one in found["thin_authors"]],
        "boilerplate": len(found["boilerplate"]),
        "typography": (found.get("typography") or {}).get("in_words", ""),
        "leaks": [{"kind": one["kind"], "authors": one["authors"]} for one in found["leaks"]],
    }


# -- figures -------------------------------------------------------------------------------------


def _figures(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each with what it shows, and its picture as data."""
    figures = []
    rows = [
        RatioRow(one["text"], r["candidate"], r["log10_lr"], r["low"], r["high"])
        for one in found["findings"]
        for r in one["ratios"]
    ]
    each = max([1, *(len(one["ratios"]) for one in found["findings"])])
    step = max(each, ROWS_A_FIGURE // each * each)  # the candidates of a text stay together
    for low in range(0, len(rows), step):
        figures.append(
            _figure(
                "findings",
                ratio_rows(rows[low : low + step]),
                "Likelihood ratio of each candidate for each questioned text, with its 95 % "
                "interval. Right of the line the likeness is more probable under H1, left of it "
                "under H2; grey: the interval holds 1.",
            )
        )
    return figures + _validation_figures(found["validation"])


def _validation_figures(validation: Mapping[str, Any]) -> list[dict[str, Any]]:
    """At the longest length that questioned texts were validated at."""
    asked = set(validation["lengths"].values())
    ratios = [one for one in validation["ratios"] if one["words"] in asked]
    figures = []
    if ratios:
        one = ratios[-1]
        about = f"Held-out texts of {one['words']:,} words."
        figures = [
            _figure(
                "validation",
                tippett_plot(one["log10_lr"], one["same"]),
                f"{about} For each ratio, the share of pairs with one at least as large. Red and "
                "right of the line: ratios that point to the wrong person.",
            ),
            _figure(
                "validation",
                calibration_plot(one["log10_lr"], one["same"]),
                f"{about} On the diagonal ratios are as large as they should be. Marks: the "
                "comparisons, with the true author above, with others below.",
            ),
        ]
    if validation["answers"]:
        last = validation["answers"][-1]
        figures.append(
            _figure(
                "validation",
                reliability_diagram(last["confidence"], last["right"]),
                f"Held-out texts of {last['words']:,} words: how often the likeliest of all known "
                "people is right, against their probability.",
            )
        )
    return figures


def _figure(section: str, drawn: Figure, caption: str) -> dict[str, Any]:
    data = base64.b64encode(svg(drawn).encode()).decode()
    width = round(96 * drawn.get_figwidth())
    return {
        "section": section,
        "caption": caption,
        "width": width,
        "image": f"data:image/svg+xml;base64,{data}",
    }


# -- the page ------------------------------------------------------------------------------------


def render(data: Mapping[str, Any]) -> str:
    """The page; whatever stands in the data is text there."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "ratio": as_ratio,
        "percent": percent,
        "fine": fine_percent,
        "readable": readable,
        "visible": lambda text: readable(text).replace(" ", "\u2423"),
        "odds": as_prior,
    }
    template = resources.files("whowrote.case").joinpath("dossier.html").read_text("utf-8")
    page = environment.from_string(template)
    return page.render(**data, RATIO=RATIO, scale=_scale(), summary=page_one(data))


def readable(value: Any) -> str:
    """Without control signs and half characters, which no page may hold.

    >>> readable("a" + chr(7) + "b")
    'a\ufffdb'
    """
    whole = str(value).encode("utf-8", "replace").decode()
    return "".join(sign if sign >= " " or sign in "\n\t" else "\ufffd" for sign in whole)


def _scale() -> list[tuple[str, str]]:
    rows, low = [], "1"
    for limit, words in SCALE:
        high = "" if math.isinf(limit) else f"{round(10**limit):,}"
        rows.append((f"{low} to {high}" if high else f"{low} and more", words))
        low = high
    return rows


def page_one(data: Mapping[str, Any]) -> dict[str, Any]:
    """What was found in a few lines, and a row per questioned text; never a verdict."""
    findings, source = data["findings"], {one["id"]: one["source"] for one in data["texts"]}
    weighed = [one for one in findings if one["answer"] == RATIO]
    rows = [_row(one, source[one["text"]]) for one in weighed]
    lengths = data["validation"]["lengths"]
    weighed_at = [lengths[one["text"]] for one in weighed or findings]
    return {
        "lines": [*_counted(rows, data["candidates"]), *_silent(findings)],
        "rows": rows[:ROWS_ON_PAGE_ONE],
        "hidden": max(0, len(rows) - ROWS_ON_PAGE_ONE),
        "validated_at": median_low(weighed_at),
    }


def _row(finding: Mapping[str, Any], source: str) -> dict[str, Any]:
    """The largest ratio of a text."""
    best = max(finding["ratios"], key=lambda one: (one["log10_lr"], one["candidate"]))
    kept = {name: best[name] for name in ("candidate", "log10_lr", "low", "high")}
    words, side = strength(best["log10_lr"]), "H1" if best["log10_lr"] > 0 else "H2"
    said = f"{words} for {'either' if words == SCALE[0][1] else side}"
    about = {"text": finding["text"], "source": source, "words": finding["words"]}
    interval = interval_in_words(best["low"], best["high"])
    return {**about, **kept, "interval": interval, "strength": said}


def _counted(rows: Sequence[Mapping[str, Any]], candidates: Sequence[str]) -> list[str]:
    """How often each candidate has the largest ratio, and how surely."""
    lines = []
    for name in candidates:
        own = [row for row in rows if row["candidate"] == name]
        sure = sum(row["low"] > 0 for row in own)
        if own:
            low, high = (as_ratio(f(row["log10_lr"] for row in own)) for f in (min, max))
            sizes = f"ratio {low}" if len(own) == 1 else f"ratios from {low} to {high}"
            lines.append(
                f"{name} has the largest ratio in {len(own)} of {count(len(rows), 'weighed text')} "
                f"({sizes}); in {sure} its 95 % interval lies wholly above 1."
            )
    silent = [name for name in candidates if all(row["candidate"] != name for row in rows)]
    if rows and silent:
        lines.append(f"In no text: {', '.join(silent)}.")
    return lines


def _silent(findings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Texts without a ratio, those with one reason together.

    >>> short = {"answer": "too little text", "reason": "Too little."}
    >>> _silent([{"text": "Q1", **short}, {"text": "Q2", **short}])
    ['Q1, Q2: Too little.']
    """
    reasons: dict[str, list[str]] = {}
    for one in findings:
        if one["answer"] != RATIO:
            reasons.setdefault(one["reason"], []).append(one["text"])
    return [f"{', '.join(texts)}: {reason}" for reason, texts in reasons.items()]
