r"""Who wrote which part of a long text: an answer for every window along it.

.. math:: p(k \mid \text{window}_t), \qquad
    o_t = \frac{1}{1 + a\, s_t^{\,a - 1}}, \qquad
    \min_{t_1 < \dots < t_m}
    \sum_j \sum_{t = t_j}^{t_{j+1}} \lVert z_t - \bar z_j \rVert^2 + \beta m,
    \qquad z_t = \frac{v_t}{\lVert v_t \rVert}

:math:`s_t` is the share of strangers that look as much like one of the enrolled, uniform for
strangers by its definition; for held-out texts of the enrolled its density is taken for
:math:`a s^{a-1}`, so that *o* is the probability that none of them wrote the window, with even odds
beforehand. Where strangers were not learnt, *o* is 1 below the limit of typicality and 0 above it.
:math:`v_t` is the style vector of a window: it changes also where the next author is not enrolled
or stands as far from all of the enrolled. Where the author seems to change is found by PELT (the
package ruptures). A change with the same enrolled author best on both sides must gain
:math:`1.5\,\beta`, since style changes within a book, too. Where the features have no vector,
:math:`z_{tk}` is how the window stands among the texts of author *k*
(:class:`~whowrote.attribution.calibration.Norms`), in their standard deviations, less the mean over
authors and over the root of their number, and there is no change between two stretches with the
same best author. The figures were chosen on simulated splices of other authors than those they are
measured on (``experiments/rolling.py``).

Bands are 95 % intervals by the jackknife: each window is read again without each of its parts.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from scipy.special import expit, logsumexp

from whowrote.arrays import FloatArray
from whowrote.attribution.profiles import text_rows
from whowrote.attribution.rows import Read
from whowrote.corpus.texts import Corpus
from whowrote.errors import InputError
from whowrote.progress import tell

if TYPE_CHECKING:
    from whowrote.attribution.fitted_attributor import FittedAttributor

LEAST_WINDOW = 200
"""Words: docs/explanations.md has how often shorter windows go to another author."""
PENALTY = 3.5
"""Of a change point: docs/explanations.md says where it was chosen."""
SAME = 1.5
"""So many penalties must a change gain that has the same best author on both sides."""
OVERLAP = 4
"""Windows of which a word is part, at the steps that the penalty was chosen with."""
MOST_PARTS, AT_ONCE, Z = 6, 64, 1.96
_WORD = re.compile(r"\S+")


@dataclass(frozen=True)
class Milestone:
    """A place of the user's own: the number of its first word, from 0, and what it is called."""

    word: int
    name: str


@dataclass(frozen=True)
class Window:
    """Words ``start`` to ``end`` (not included) and what is said of them.

    ``probabilities`` are among the enrolled, with the limits of their 95 % bands; ``other`` is the
    probability that none of them wrote it. ``author`` is None for "none of these".
    """

    start: int
    end: int
    probabilities: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    other: float
    stranger: float | None
    typicality: float
    author: str | None
    standing: tuple[float, ...]
    """How like each author's texts it is, in their standard deviations."""


@dataclass(frozen=True)
class Segment:
    """Words between two change points, and who is most probable there; None: none of these."""

    start: int
    end: int
    author: str | None
    probability: float


@dataclass(frozen=True)
class Rolling:
    """A text window by window: where its author seems to change, and whom each part is like."""

    authors: tuple[str, ...]
    words: int
    window: int
    step: int
    windows: tuple[Window, ...]
    change_points: tuple[int, ...]
    segments: tuple[Segment, ...]
    milestones: tuple[Milestone, ...]
    penalty: float
    strangers_known: bool
    model: str
    styles: FloatArray | None = field(default=None, repr=False, compare=False)
    """(windows, D): style vectors of length one; None where the features have none."""

    def shares(self) -> FloatArray:
        """(windows, authors + 1): the probabilities times one less other, and other."""
        return shares_of(
            np.array([one.probabilities for one in self.windows]),
            np.array([one.other for one in self.windows]),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, without the style vectors."""
        told = asdict(replace(self, styles=None))
        del told["styles"]
        return told

    def to_csv(self) -> str:
        """A row per window."""
        page = io.StringIO()
        sheet = csv.writer(page, lineterminator="\n")
        columns = [f"{name}{what}" for name in self.authors for what in ("", " low", " high")]
        sheet.writerow(["first_word", "last_word", "answer", "other", "typicality", *columns])
        for one in self.windows:
            answer = "none of these" if one.author is None else one.author
            triples = zip(one.probabilities, one.low, one.high, strict=True)
            figures = [one.other, one.typicality, *(value for three in triples for value in three)]
            sheet.writerow([one.start + 1, one.end, answer, *(f"{x:.5f}" for x in figures)])
        return page.getvalue()

    def _repr_html_(self) -> str:
        from whowrote.formatting import grid, paragraph, percent

        rows = [
            (f"{one.start + 1:,} to {one.end:,}", one.author or "none of these", percent(share))
            for one in self.segments
            for share in [one.probability]
        ]
        said = f"{self.words:,} words in {len(self.windows)} windows of {self.window}"
        return paragraph(said, strong=True) + grid(["words", "most like", ">probability"], rows)


def roll(
    fitted: FittedAttributor,
    text: str,
    window: int = 1000,
    step: int = 250,
    *,
    milestones: Sequence[Milestone] = (),
    bands: bool = True,
    penalty: float = PENALTY,
) -> Rolling:
    """An answer for every ``window`` words, ``step`` words apart, and where they change."""
    places = [match.start() for match in _WORD.finditer(text)]
    _check(len(places), window, step)
    starts = _starts(len(places), window, step)
    ends = [*places[1:], len(text)]

    def words(low: int, high: int) -> str:
        return text[places[low] : ends[high - 1]]

    windows = _answers(fitted, [words(low, low + window) for low in starts])
    odds = _log_odds(windows.log_proba)
    error = np.zeros_like(odds)
    if bands:
        error = _jackknife(fitted, [(low, low + window) for low in starts], words, step)
    shares = shares_of(np.exp(windows.log_proba), windows.other)
    points = _change_points(windows, starts, window, step, penalty)
    names = tuple(fitted.names.tolist())
    return Rolling(
        authors=names,
        words=len(places),
        window=window,
        step=step,
        windows=tuple(
            Window(
                start=low,
                end=low + window,
                probabilities=tuple(np.exp(windows.log_proba[row]).tolist()),
                low=tuple(expit(odds[row] - Z * error[row]).tolist()),
                high=tuple(expit(odds[row] + Z * error[row]).tolist()),
                other=float(windows.other[row]),
                stranger=windows.stranger[row],
                typicality=float(windows.typicality[row]),
                author=windows.author[row],
                standing=tuple(windows.standing[row].tolist()),
            )
            for row, low in enumerate(starts)
        ),
        change_points=points,
        segments=_segments(shares, starts, window, (0, *points, len(places)), names),
        milestones=tuple(sorted(milestones, key=lambda one: one.word)),
        penalty=penalty,
        strangers_known=fitted.calibration.strangers is not None,
        model=fitted.id,
        styles=windows.styles,
    )


def _check(words: int, window: int, step: int) -> None:
    if window < LEAST_WINDOW:
        raise InputError(
            f"window is {window}; it must be at least {LEAST_WINDOW} words, the length at which "
            "windows of novels were still told apart (docs/explanations.md): give 1000"
        )
    if not 1 <= step <= window:
        raise InputError(
            f"step is {step}; it must be from 1 to the window of {window} words: give {window // 4}"
        )
    if words < window + step:
        raise InputError(
            f"the text has {words:,} words; windows of {window} in steps of {step} need at least "
            f"{window + step:,}: give a longer text, a smaller window, or use `whowrote attribute`"
        )


def _starts(words: int, window: int, step: int) -> list[int]:
    """The first words of the windows; the last window ends with the text."""
    starts = list(range(0, words - window + 1, step))
    return starts if starts[-1] == words - window else [*starts, words - window]


# -- windows -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Answers:
    log_proba: FloatArray
    other: FloatArray
    stranger: list[float | None]
    typicality: FloatArray
    author: list[str | None]
    standing: FloatArray
    styles: FloatArray | None


def _answers(fitted: FittedAttributor, texts: Sequence[str]) -> _Answers:
    """The model's own answers to the windows, and how probable it is that it is nobody's."""
    answers, standing, styles = [], [], []
    for low in range(0, len(texts), AT_ONCE):
        some = Corpus.from_texts(texts[low : low + AT_ONCE])
        read = fitted.read(some.texts)  # once for all: windows are most of the work
        found = fitted.weighed(some.texts, read)
        styles.append(_styles(fitted, read))
        answers += fitted.answers(some, found)
        tell("windows", min(low + AT_ONCE, len(texts)), len(texts))
        standing.append(fitted.calibration.norms.standing(found.figures, found.words))
    columns = {name: number for number, name in enumerate(fitted.names.tolist())}
    proba = np.zeros((len(texts), len(columns)))
    for row, answer in enumerate(answers):
        for candidate in answer.ranking:
            proba[row, columns[candidate.author]] = candidate.probability
    stranger = [answer.stranger for answer in answers]
    return _Answers(
        np.log(np.maximum(proba, 1e-300)),
        _others(fitted, stranger, [answer.author is None for answer in answers]),
        stranger,
        np.array([answer.typicality for answer in answers]),
        [answer.author for answer in answers],
        np.concatenate(standing),
        None if styles[0] is None else np.concatenate([one for one in styles if one is not None]),
    )


def _styles(fitted: FittedAttributor, read: Read) -> FloatArray | None:
    """The style vectors of texts, of length one; None where the features have none."""
    span = fitted.reader.features.parts().get("vectors")
    if span is None:
        return None
    rows = sparse.csr_matrix(text_rows(read))[:, span].toarray().astype(np.float64)
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12))


def _others(
    fitted: FittedAttributor, stranger: Sequence[float | None], none: Sequence[bool]
) -> FloatArray:
    curve = fitted.calibration.strangers
    if curve is None:
        return np.array(none, dtype=np.float64)
    least = curve.least
    own = np.clip(curve.own_shares(), least, 1.0)
    a = float(np.clip(-1.0 / min(np.log(own).mean(), -1e-6), 0.05, 0.95))
    s = np.clip([1.0 if one is None else one for one in stranger], least, 1.0)
    return np.asarray(1.0 / (1.0 + a * s ** (a - 1.0)))


def _log_odds(log_proba: FloatArray) -> FloatArray:
    columns = range(log_proba.shape[1])
    others = [logsumexp(np.delete(log_proba, own, axis=1), axis=1) for own in columns]
    return np.asarray(log_proba - np.stack(others, axis=1))


def _jackknife(
    fitted: FittedAttributor, ranges: Sequence[tuple[int, int]], words: Any, step: int
) -> FloatArray:
    """Standard errors of log odds, (windows, authors): each window without each of its parts."""
    low, high = ranges[0]
    n = int(np.clip(round((high - low) / step), 2, MOST_PARTS))
    texts = []
    for low, high in ranges:
        bounds = np.linspace(low, high, n + 1).round().astype(int).tolist()
        parts = [words(a, b) for a, b in pairwise(bounds)]
        texts += ["".join(parts[:out] + parts[out + 1 :]) for out in range(n)]
    rows = []
    for first in range(0, len(texts), AT_ONCE):
        rows.append(fitted.predict_log_proba(texts[first : first + AT_ONCE]))
        tell("bands", min(first + AT_ONCE, len(texts)), len(texts))
    odds = _log_odds(np.concatenate(rows)).reshape(len(ranges), n, -1)
    away = odds - odds.mean(axis=1, keepdims=True)
    return np.asarray(np.sqrt((n - 1) / n * (away**2).sum(axis=1)))


# -- where it changes ----------------------------------------------------------------------------


def shares_of(proba: FloatArray, other: FloatArray) -> FloatArray:
    """(windows, authors + 1): of each author and of none of these; rows add up to one."""
    return np.column_stack([proba * (1.0 - other)[:, None], other])


def _change_points(
    found: _Answers, starts: Sequence[int], window: int, step: int, penalty: float
) -> tuple[int, ...]:
    """The words between which the author seems to change."""
    from ruptures import Pelt  # late: only this needs it

    least = max(1, window // (2 * step))
    if len(starts) < 2 * least:
        return ()
    if found.styles is None:
        away = found.standing - found.standing.mean(axis=1, keepdims=True)
        signal, same = away / np.sqrt(away.shape[1]), np.inf
    else:
        signal, same = _rotated(found.styles), SAME
    # Windows that overlap more say the same more often.
    weighed = penalty * window / (OVERLAP * step)
    every = Pelt(model="l2", min_size=least, jump=1).fit(signal).predict(pen=weighed)
    points = _of_authors(signal, found.log_proba, every[:-1], same * weighed)
    return tuple((starts[t - 1] + starts[t] + window) // 2 for t in points)


def _rotated(rows: FloatArray) -> FloatArray:
    """The same distances in as many columns as there are rows at most."""
    left, sizes, _ = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
    return np.asarray(left * sizes)


def _of_authors(
    signal: FloatArray, log_proba: FloatArray, points: Sequence[int], least: float
) -> list[int]:
    """Without those that gain too little for one best author on both sides, weakest first."""
    kept = list(points)
    while kept:
        bounds = [0, *kept, len(signal)]
        weak = [
            (gain, point)
            for low, point, high in zip(bounds, kept, bounds[2:], strict=False)
            if log_proba[low:point].mean(axis=0).argmax()
            == log_proba[point:high].mean(axis=0).argmax()
            and (gain := _gain(signal, low, point, high)) < least
        ]
        if not weak:
            break
        kept.remove(min(weak)[1])
    return kept


def _gain(signal: FloatArray, low: int, point: int, high: int) -> float:
    """By how much two means are nearer to these rows than one."""
    left, right = signal[low:point], signal[point:high]
    apart = left.mean(axis=0) - right.mean(axis=0)
    return float(len(left) * len(right) / (high - low) * (apart**2).sum())


def change_points_of(found: Rolling, penalty: float) -> tuple[int, ...]:
    """The change points of windows that were answered before, at another penalty."""
    windows, starts = found.windows, [one.start for one in found.windows]
    answers = _Answers(
        np.log(np.maximum([one.probabilities for one in windows], 1e-300)),
        np.array([one.other for one in windows]),
        [one.stranger for one in windows],
        np.array([one.typicality for one in windows]),
        [one.author for one in windows],
        np.array([one.standing for one in windows]),
        found.styles,
    )
    return _change_points(answers, starts, found.window, found.step, penalty)


def _segments(
    shares: FloatArray,
    starts: Sequence[int],
    window: int,
    bounds: Sequence[int],
    names: Sequence[str],
) -> tuple[Segment, ...]:
    """The parts between change points, each by the windows whose middle lies in it."""
    middles = np.array(starts) + window / 2
    found = []
    for low, high in pairwise(bounds):
        inside = (middles >= low) & (middles < high)
        mean = shares[inside].mean(axis=0)
        best = int(mean.argmax())
        author = None if best == len(names) else names[best]
        found.append(Segment(int(low), int(high), author, float(mean[best])))
    return tuple(found)


# -- milestones ----------------------------------------------------------------------------------


def milestones_by_pattern(text: str, pattern: str) -> tuple[Milestone, ...]:
    r"""A milestone wherever a regular expression (over lines) is found, called as what it matches.

    >>> milestones_by_pattern("CHAPTER 1\nIt was.\nCHAPTER 2\nIt is.", r"^CHAPTER \d+")
    (Milestone(word=0, name='CHAPTER 1'), Milestone(word=4, name='CHAPTER 2'))
    """
    try:
        found = [match for match in re.finditer(pattern, text, re.MULTILINE) if match.group()]
    except re.error as problem:
        raise InputError(
            f"milestones is {pattern!r}, which is neither a file nor a regular expression "
            f"({problem}): give a file of lines such as '1200 Chapter 2', or '^CHAPTER .*'"
        ) from None
    if not found:
        raise InputError(
            f"milestones is {pattern!r}, which is found nowhere in the text: give a file of lines "
            "such as '1200 Chapter 2', or an expression that matches headings"
        )
    places = [match.start() for match in _WORD.finditer(text)]
    words = np.searchsorted(places, [match.start() for match in found]).tolist()
    names = [" ".join(match.group().split()) for match in found]
    return tuple(Milestone(word, name) for word, name in zip(words, names, strict=True))


def milestones_of_lines(lines: str) -> tuple[Milestone, ...]:
    r"""Milestones of a list: the number of the first word, counted from 1, and a name.

    >>> milestones_of_lines("1 Act 1\n\n801 Act 2")
    (Milestone(word=0, name='Act 1'), Milestone(word=800, name='Act 2'))
    """
    found = []
    for number, line in enumerate(lines.splitlines(), 1):
        if not line.strip():
            continue
        word, _, name = line.strip().partition(" ")
        if not word.replace("\t", " ").split()[0].isdigit() or int(word.split()[0]) < 1:
            raise InputError(
                f"line {number} of the milestones is {line[:40]!r}; it must open with the number "
                "of a word, from 1 on, and go on with a name: write '1200 Chapter 2'"
            )
        first, *more = word.split()
        found.append(Milestone(int(first) - 1, " ".join([*more, name]).strip() or first))
    return tuple(found)
