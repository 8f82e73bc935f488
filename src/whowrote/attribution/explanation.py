r"""Why this author: which parts of a text speak for them, and whether that can be believed.

.. math:: \bar c_b - \bar c_s = \sum_j \bar x_j \, (w_{jb} - w_{js}) + (b_b - b_s)

The contrasts are one linear map of the columns (:mod:`whowrote.attribution.contrasts`), so what an
n-gram, a reading of the n-grams, or the style vector adds to the lead of the best author over the
second can be read off, and adds up. A model holds hashes: n-grams are named from the questioned
text. An n-gram can be looked up by a reader, a vector cannot: one less its share is how much of the
lead can be checked. The mixture and the calibration behind the contrasts are not linear, so words
and sentences are marked by :mod:`whowrote.attribution.occlusion`, through all of the engine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from whowrote.arrays import FloatArray
from whowrote.attribution.answers import Attribution
from whowrote.attribution.occlusion import Deletion, Mark, Occlusion, sentences_in
from whowrote.attribution.profiles import text_rows
from whowrote.attribution.rows import normalised
from whowrote.corpus.texts import Corpus
from whowrote.errors import InputError
from whowrote.features.counting import FittedNGrams, masked
from whowrote.features.fitted_features import FittedHybrid
from whowrote.features.interface import FittedFeatures

if TYPE_CHECKING:
    from whowrote.attribution.fitted_attributor import FittedAttributor

LEAST_WORDS, MOST_WORDS = 40, 12_000
"""5 % of fewer is less than two words; more are better explained window by window."""
STRONGEST, LINES_EACH, AROUND = 12, 3, 40
"""N-grams listed on either side, their lines an author, characters around a hit."""
VECTOR, BIAS = "vector", "bias"
TITLES = {
    "written": "n-grams as written",
    "masked": "n-grams, rare words masked",
    "plain": "n-grams of plain words",
    "bare": "n-grams of plain words, rare ones masked",
    VECTOR: "style vector",
    BIAS: "constant",
}


@dataclass(frozen=True)
class Part:
    """A part of the lead: over the second author, over the mean author, and its share of it."""

    name: str
    lead: float
    over_mean: float
    share: float

    @property
    def title(self) -> str:
        """In words."""
        return TITLES.get(self.name, self.name)


@dataclass(frozen=True)
class NGram:
    """An n-gram of the text and what it adds to the lead of the best author over the second."""

    text: str
    kind: str
    reading: str
    times: int
    lead: float


@dataclass(frozen=True)
class Concordance:
    """A line of a known text around an n-gram."""

    ngram: str
    author: str
    document: str
    left: str
    hit: str
    right: str


@dataclass(frozen=True)
class Use:
    """How often the best and the second author use an n-gram in 10,000 words of known texts."""

    ngram: str
    best: float
    second: float


@dataclass(frozen=True)
class Explanation:
    """Why the best author of a text is the best.

    ``evidence`` is ln of the odds of the best author against all others enrolled. ``parts`` add up
    to the lead in contrasts, which is linear; ``words``, ``phrases`` (runs of two to eight
    words, the strongest, none over another) and ``sentences`` are marked through the whole engine,
    and ``checks`` say whether the marked words hold.
    """

    attribution: Attribution
    best: str
    second: str
    evidence: float
    parts: tuple[Part, ...]
    checkable: float | None
    ngrams_for: tuple[NGram, ...]
    ngrams_against: tuple[NGram, ...]
    uses: tuple[Use, ...]
    concordance: tuple[Concordance, ...]
    words: tuple[Mark, ...]
    phrases: tuple[Mark, ...]
    sentences: tuple[Mark, ...]
    checks: tuple[Deletion, ...]
    draws: int
    text: str
    warnings: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether the marked words count for more than random ones at every share."""
        return all(check.holds for check in self.checks)

    @property
    def in_words(self) -> str:
        """What the check of the marks says."""
        told = "; ".join(
            f"{check.share:.0%} of the words: {check.marked:+.2f} against {check.random:+.2f} at "
            f"random (difference {check.low:+.2f} to {check.high:+.2f})"
            for check in self.checks
        )
        if self.holds:
            return f"The marks hold: without them the evidence falls by more than chance. {told}."
        failed = " and ".join(f"{one.share:.0%}" for one in self.checks if not one.holds)
        return (
            f"The marks FAIL the check at {failed} of the words: deleting them lowers the evidence "
            f"no more surely than deleting words at random. Do not rely on them. {told}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        checks = [{**asdict(one), "holds": one.holds} for one in self.checks]
        said = {"checks": checks, "holds": self.holds, "in_words": self.in_words}
        return {**asdict(self), "attribution": self.attribution.to_dict(), **said}

    def _repr_html_(self) -> str:
        from whowrote.attribution.marked_text import explanation_html  # late: no answer needs it

        return explanation_html(self)


def explain(
    fitted: FittedAttributor,
    text: str,
    known: Corpus | None = None,
    *,
    draws: int = 20,
    seed: int = 0,
) -> Explanation:
    """Why the best author of a text is the best; ``known`` texts give the lines of a concordance.

    ``draws`` sets of random words are deleted beside the marked ones, at each share.
    """
    _check(text, draws)
    corpus = Corpus.from_texts([text])
    answer = fitted.attribute(corpus)[0]
    best, second = answer.ranking[0].author, answer.ranking[1].author
    numbers = {name: number for number, name in enumerate(fitted.names.tolist())}
    occlusion = Occlusion(fitted, text, numbers[best])
    words = occlusion.marks(occlusion.units())
    parts, ngrams = _linear(fitted, text, numbers[best], numbers[second])
    share = {part.name: part.share for part in parts}
    strongest = [_strongest(ngrams, sign) for sign in (1.0, -1.0)]
    lines, uses = _looked_up(_as_read(known, fitted), strongest[0] + strongest[1], best, second)
    return Explanation(
        attribution=answer,
        best=best,
        second=second,
        evidence=occlusion.evidence,
        parts=parts,
        checkable=1.0 - share.get(VECTOR, 0.0) if parts else None,
        ngrams_for=tuple(strongest[0]),
        ngrams_against=tuple(strongest[1]),
        uses=uses,
        concordance=lines,
        words=words,
        phrases=occlusion.phrases(words),
        sentences=occlusion.marks(sentences_in(text)),
        checks=occlusion.check(words, draws, seed),
        draws=draws,
        text=text,
        warnings=(*answer.warnings, *_remarks(parts, known, best)),
    )


def _check(text: str, draws: int) -> None:
    words = len(text.split())
    if words < LEAST_WORDS:
        raise InputError(
            f"the text has {words} words; an explanation needs at least {LEAST_WORDS}, since its "
            "check deletes 5 % of them: give a longer text"
        )
    if words > MOST_WORDS:
        raise InputError(
            f"the text has {words:,} words; an explanation reads at most {MOST_WORDS:,}: give a "
            "part of it, or see along the text with `whowrote roll`"
        )
    if draws < 2:
        raise InputError(f"draws is {draws}; an interval needs at least 2: give 20")


def _remarks(parts: Sequence[Part], known: Corpus | None, best: str) -> Iterator[str]:
    if not parts:
        yield (
            "the lead has no linear parts: its authors were enrolled later, or the features are "
            "dense and many"
        )
    if known is not None and best not in known.authors:
        yield f"no known text is by {best}: the concordance has no line of theirs"


# -- the linear part -----------------------------------------------------------------------------


def ngrams_of(features: FittedFeatures) -> tuple[int, FittedNGrams] | None:
    """The n-grams of a feature set and the number of their first column."""
    if isinstance(features, FittedHybrid):
        return len(features.mean), features.ngrams
    return (0, features) if isinstance(features, FittedNGrams) else None


def _linear(
    fitted: FittedAttributor, text: str, best: int, second: int
) -> tuple[tuple[Part, ...], list[NGram]]:
    """Parts and n-grams of the lead; none where an author has no contrast."""
    reader, contrasts = fitted.reader, fitted.reader.contrasts
    if contrasts is None or max(best, second) >= contrasts.n_authors:
        return (), []
    read = reader.read([text])
    row = text_rows(read)
    columns, values = row.indices, row.data.astype(np.float64)
    weights = _mean_map(contrasts.views, contrasts.weights_, columns, row.shape[1])
    bias = np.mean(contrasts.bias_, axis=0)
    over_second, over_mean = weights[:, best] - weights[:, second], _over_mean(weights, best)
    leads, means = values * over_second, values * over_mean
    added = {
        _called(name, reader.features): (leads[own].sum(), means[own].sum())
        for name, span in reader.features.parts().items()
        for own in [_inside(columns, span, row.shape[1])]
    }
    total = sum(abs(lead) for lead, _ in added.values()) or 1.0
    parts = [Part(n, float(a), float(m), float(abs(a) / total)) for n, (a, m) in added.items()]
    constant = float(bias[best] - bias[second]), float(_over_mean(bias[None], best)[0])
    parts.append(Part(BIAS, *constant, 0.0))
    known = dict(zip(columns.tolist(), leads.tolist(), strict=True))
    return tuple(parts), _named(fitted, read.passages.texts, known)


def _called(name: str, features: FittedFeatures) -> str:
    """A part that is no reading of n-grams is a vector."""
    return name if ngrams_of(features) is not None and name != "vectors" else VECTOR


def _inside(columns: Any, span: slice, width: int) -> Any:
    low, high, _ = span.indices(width)
    return (columns >= low) & (columns < high)


def _mean_map(
    views: Sequence[slice], weights: Sequence[Any], columns: Any, width: int
) -> FloatArray:
    """The mean over the views of the maps, for some columns: (columns, authors)."""
    total = np.zeros((len(columns), weights[0].shape[1]))
    for view, own in zip(views, weights, strict=True):
        inside = _inside(columns, view, width)
        total[inside] += own[columns[inside] - view.indices(width)[0]]
    return total / len(views)


def _over_mean(weights: FloatArray, best: int) -> FloatArray:
    return np.asarray(weights[:, best] - np.delete(weights, best, axis=1).mean(axis=1))


def _named(
    fitted: FittedAttributor, passages: Sequence[str], leads: Mapping[int, float]
) -> list[NGram]:
    """The n-grams of the text that have a column, with what each adds."""
    found = ngrams_of(fitted.reader.features)
    if found is None:
        return []
    low, ngrams = found
    named = []
    for block in ngrams.grams:
        reading = block.kind.rpartition("-")[0] or "written"
        kind = block.kind.rpartition("-")[2]
        names: dict[int, str] = {}
        for passage in passages:
            names |= block.names_in(passage)
        for column, name in names.items():
            lead = leads.get(low + column, 0.0)
            named.append(NGram(name, kind, reading, 0, float(lead)))
        low += len(block.keys)
    whole = " ".join(passages)
    return [
        NGram(one.text, one.kind, one.reading, _times(one, whole), one.lead)
        for one in _largest(named)
    ]


def _largest(named: Sequence[NGram]) -> list[NGram]:
    """Enough of them on either side to choose from."""
    ordered = sorted(named, key=lambda one: (-one.lead, one.text))
    return ordered[: 20 * STRONGEST] + ordered[-20 * STRONGEST :] if len(ordered) > 500 else ordered


def _strongest(ngrams: Sequence[NGram], sign: float) -> list[NGram]:
    """The strongest of one side; what lies in another one, or around it, says nothing new."""
    chosen: list[NGram] = []
    for one in sorted(ngrams, key=lambda one: (-sign * one.lead, one.text)):
        if sign * one.lead <= 0 or len(chosen) == STRONGEST:
            break
        own = one.text.strip().lower()
        others = [other.text.strip().lower() for other in chosen]
        if not any(own in other or other in own for other in others if other):
            chosen.append(one)
    return chosen


# -- where n-grams stand -------------------------------------------------------------------------


def pattern_of(ngram: NGram) -> re.Pattern[str]:
    r"""What finds an n-gram in a text (masked, for a masked one).

    >>> pattern_of(NGram("of the", "words", "written", 1, 0.0)).findall("of  the often the of the.")
    ['of  the', 'of the']
    >>> pattern_of(NGram("e o", "characters", "plain", 1, 0.0)).findall("Made, of")
    ['e, o']
    """
    words = [re.escape(word) for word in ngram.text.split(" ")]
    if ngram.reading in ("plain", "bare"):
        gap, flags = r"[\W_]+", re.IGNORECASE
    else:
        gap, flags = (r"\s*" if ngram.kind == "words" else r"\s+"), re.NOFLAG
    joined = gap.join(words)
    if ngram.kind == "words":
        joined = rf"(?<!\w){joined}" if ngram.text[0].isalnum() else joined
        joined = rf"{joined}(?!\w)" if ngram.text[-1].isalnum() else joined
    return re.compile(joined, flags)


def _times(ngram: NGram, text: str) -> int:
    return max(1, sum(1 for _ in hits(ngram, text)))


def hits(ngram: NGram, text: str) -> Iterator[tuple[int, int]]:
    """Where an n-gram stands in a text; masking keeps every character at its place."""
    read = masked(text) if ngram.reading in ("masked", "bare") else text
    for match in pattern_of(ngram).finditer(read):
        if match.start() < match.end():
            yield match.span()


def _as_read(known: Corpus | None, fitted: FittedAttributor) -> Corpus | None:
    """Known texts without what the model reads them without."""
    without = fitted.reader.normalise
    if known is None or not without:
        return known
    texts = [normalised(text, without) for text in known.texts]
    return Corpus.from_texts(texts, known.authors, ids=known.ids)


def _looked_up(
    known: Corpus | None, ngrams: Sequence[NGram], best: str, second: str
) -> tuple[tuple[Concordance, ...], tuple[Use, ...]]:
    """Lines of the known texts of both authors around the n-grams, and how often each uses them."""
    if known is None:
        return (), ()
    lines: list[Concordance] = []
    uses = []
    for ngram in ngrams:
        rates = []
        for author in (best, second):
            own = [document for document in known if document.author == author]
            found = [(doc, place) for doc in own for place in hits(ngram, doc.text)]
            words = sum(len(doc.text.split()) for doc in own)
            rates.append(1e4 * len(found) / words if words else 0.0)
            lines += [_line(ngram, author, doc, *place) for doc, place in found[:LINES_EACH]]
        uses.append(Use(ngram.text, *rates))
    return tuple(lines), tuple(uses)


def _line(ngram: NGram, author: str, document: Any, low: int, high: int) -> Concordance:
    text = document.text
    left, right = text[max(0, low - AROUND) : low], text[high : high + AROUND]
    one_line = [re.sub(r"\s+", " ", part) for part in (left, text[low:high], right)]
    return Concordance(ngram.text, author, document.id, *one_line)
