"""Answers and explanations as pieces of HTML: a text with its marks, and the tables around it.

Every name and text is escaped; what comes out stands in a notebook or in a page of
:mod:`whowrote.report`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from whowrote.attribution.occlusion import strongest
from whowrote.formatting import escaped, fine_percent, grid, paragraph, percent, shade

if TYPE_CHECKING:
    from whowrote.attribution.answers import Attribution, Comparison
    from whowrote.attribution.explanation import Explanation, NGram
    from whowrote.attribution.occlusion import Mark

SHOWN, SENTENCES = 10, 6
NO_PROOF = "A probability is among the enrolled authors, and no proof."


def attribution_html(answer: Attribution) -> str:
    """The answer, its figures and the first candidates."""
    named = answer.author if answer.author is not None else "none of these"
    figures = [f"{answer.tokens} tokens", f"typicality {fine_percent(answer.typicality)}"]
    if answer.stranger is not None:
        figures.append(f"share of strangers {fine_percent(answer.stranger)}")
    rows = [
        (one.author, percent(one.probability), fine_percent(one.typicality))
        for one in answer.ranking[:SHOWN]
    ]
    return "".join(
        [
            paragraph(f"{answer.document}: {named}", strong=True),
            paragraph(f"{', '.join(figures)}. {NO_PROOF}"),
            grid(["candidate", ">probability", ">typicality"], rows),
            *(paragraph(warning, warning=True) for warning in answer.warnings),
        ]
    )


def comparison_html(told: Comparison) -> str:
    """The likelihood ratio with its propositions and its population."""
    rows = [
        ("log10 likelihood ratio", f"{told.log10_lr:+.2f}"),
        ("95 % interval", f"{told.low:+.2f} to {told.high:+.2f}"),
        ("weighed", told.propositions[0]),
        ("against", told.propositions[1]),
        ("population", told.population.description),
        ("words", f"{told.words[0]:,} and {told.words[1]:,}"),
    ]
    if told.prior is not None and told.probability is not None:
        odds = f"{percent(told.probability)}, with {percent(told.prior)} beforehand"
        rows.append(("probability of one author", odds))
    bound = "; the most that so few people can support" if told.limited else ""
    return "".join(
        [
            paragraph(f"The likeness gives {told.in_words}{bound}.", strong=True),
            grid(["figure", "value"], rows),
            *(paragraph(warning, warning=True) for warning in told.warnings),
        ]
    )


def explanation_html(found: Explanation) -> str:
    """Everything, one part after another, for a notebook."""
    parts = explanation_sections(found)
    return "".join(f"{paragraph(heading, strong=True)}{html}" for heading, html in parts)


def explanation_sections(found: Explanation) -> list[tuple[str, str]]:
    """Headings and what stands under them."""
    sections = [
        ("The answer", _answer(found)),
        ("The marked text", _marked(found)),
        ("Whether the marks hold", _checks(found)),
        ("Sentences and phrases that count most", _sentences(found)),
    ]
    if found.parts:
        sections.append(("Parts of the evidence", _parts(found)))
    if found.ngrams_for or found.ngrams_against:
        sections.append(("N-grams", _ngrams(found)))
    if found.concordance:
        sections.append(("Where they stand in known texts", _concordance(found)))
    return sections


def _answer(found: Explanation) -> str:
    answer = found.attribution
    said = found.best if answer.author is not None else f"none of these; the best is {found.best}"
    lead = (
        f"Answer: {said}. Explained is why {found.best} is ahead of the other enrolled authors, "
        f"{found.second} first: ln of the odds {found.evidence:+.2f}."
    )
    return paragraph(lead) + attribution_html(answer) + _warnings(found.warnings, answer.warnings)


def _warnings(every: Sequence[str], told: Sequence[str]) -> str:
    return "".join(paragraph(one, warning=True) for one in every if one not in told)


def _marked(found: Explanation) -> str:
    how = (
        f"Blue words speak for {found.best}: without them the evidence falls. Red, dotted ones "
        "speak against. The deeper the colour, the more they count."
    )
    box = "white-space:pre-wrap;overflow-wrap:anywhere;line-height:1.7;max-width:46em"
    return f'{paragraph(how)}<div style="{box}">{_text(found.text, found.words)}</div>'


def _text(text: str, marks: Sequence[Mark]) -> str:
    """A text whose stretches are shaded by how much each counts."""
    most = sorted(abs(mark.drop) for mark in marks)[-max(1, len(marks) // 20)] or 1.0
    parts, done = [], 0
    for mark in marks:
        inside = text[mark.start : mark.end].rstrip()
        end = mark.start + len(inside)
        parts += [escaped(text[done : mark.start]), shade(inside, mark.drop / most)]
        done = end
    return "".join([*parts, escaped(text[done:])])


def _checks(found: Explanation) -> str:
    rows = [
        (
            f"{check.share:.0%} ({check.words})",
            f"{check.marked:+.2f}",
            f"{check.random:+.2f}",
            f"{check.difference:+.2f}",
            f"{check.low:+.2f} to {check.high:+.2f}",
            "yes" if check.holds else "NO",
        )
        for check in found.checks
    ]
    columns = ["words deleted", ">marked", ">random", ">more", ">95 % interval", "holds"]
    caption = f"How far the evidence falls, over {found.draws} random draws"
    return paragraph(found.in_words, warning=not found.holds) + grid(columns, rows, caption)


def _sentences(found: Explanation) -> str:
    ordered = strongest(found.sentences, len(found.sentences))
    chosen = ordered[:SENTENCES] + [one for one in ordered[SENTENCES:][-2:] if one.lead < 0]
    how = (
        f"Lead: how far {found.best} falls back without it, in contrasts, against the mean of the "
        "others. Evidence: how far ln of the odds falls, which is little where nothing is in doubt."
    )

    def table(marks: Sequence[Mark], what: str) -> str:
        rows = [
            (f"{one.lead:+.2f}", f"{one.drop:+.2f}", found.text[one.start : one.end])
            for one in marks
        ]
        return grid([">lead", ">evidence", what], rows)

    runs = strongest(found.phrases, SENTENCES)
    return paragraph(how) + table(chosen, "sentence") + table(runs, "phrase")


def _parts(found: Explanation) -> str:
    rows = [
        (one.title, f"{one.lead:+.3f}", f"{one.over_mean:+.3f}", percent(one.share))
        for one in found.parts
    ]
    columns = ["part", f">over {found.second}", ">over the mean author", ">share"]
    said = (
        f"{percent(found.checkable or 0.0)} of the lead is in n-grams, which a reader can look up; "
        "the rest is in the style vector, which nobody can. The constant belongs to no part."
    )
    return paragraph(said) + grid(columns, rows)


def _ngrams(found: Explanation) -> str:
    rates = {use.ngram: use for use in found.uses}
    columns = ["n-gram", "of", "reading", ">times here", ">adds"]
    if rates:
        columns += [f">{found.best}, in 10,000 words", f">{found.second}"]

    def row(one: NGram) -> tuple[str, ...]:
        cells = (one.text.replace(" ", "\u2423"), one.kind, one.reading, str(one.times))
        used = rates.get(one.text)
        more = (f"{used.best:.1f}", f"{used.second:.1f}") if used else ()
        return (*cells, f"{one.lead:+.4f}", *more)

    sides = [(f"For {found.best}", found.ngrams_for), (f"For {found.second}", found.ngrams_against)]
    return "".join(grid(columns, map(row, own), title) for title, own in sides if own)


def _concordance(found: Explanation) -> str:
    line = "font-family:ui-monospace,Menlo,Consolas,monospace;font-size:.85em"
    cell = "padding:.1em .5em"
    rows = "".join(
        f'<tr><td style="{cell}">{escaped(one.author)}</td>'
        f'<td style="{cell};text-align:right">{escaped(one.left)}</td>'
        f'<td style="{cell}">{shade(one.hit, 0.6)}</td><td style="{cell}">{escaped(one.right)}</td>'
        f'<td style="{cell}">{escaped(one.document)}</td></tr>'
        for one in found.concordance
    )
    return f'<div style="overflow-x:auto"><table style="{line}"><tbody>{rows}</tbody></table></div>'
